"""Learning the score of a link: a few dozen numbers, on training steps that the vectors have not seen.

Vectors fitted on the same steps would know their links by heart, and would be trusted too much.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.measures.scores import auc
from dygcn.engine.models import LinkHead, Model, State, pair_columns, read_units, read_vectors
from dygcn.engine.models.links import AGE, EDGE, HEADS, KNOWN, PAST, TRAITS
from dygcn.engine.training.link_samples import LinkSample, sample_links
from dygcn.engine.training.logits import logistic
from dygcn.engine.training.matrices import Recipe, fit_matrices
from dygcn.engine.training.samples import LARGEST_SAMPLE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from dygcn.engine.features import RowTable
    from dygcn.engine.graph import Graph
    from dygcn.engine.records import Bool, EventBatch, Float32, Float64, Nodes
    from dygcn.engine.training.samples import NextEdges, Progress, StepSample

PAIRS = 30_000  # of each kind, over all steps, and as many negatives
ROWS_A_PAIR = 6  # at most: a link and its negative have three ends, of two kinds of links
FEWEST = 64  # linked pairs of a kind, below which nothing is learned
PARTS = ("cosine", "orders", "traits", "past")  # groups of columns, see `dygcn.engine.models.links`


def first_held_out(usable: int, recipe: Recipe) -> int:
    """Return the first step that is set aside, of so many that have a next one.

    Examples
    --------
    >>> first_held_out(20, Recipe(held_out=0.25))
    15
    """
    return usable - int(recipe.held_out * usable)


class HeldOut:
    """The last training steps, set aside for the score of links.

    Parameters
    ----------
    steps
        How many training steps there are; each but the last one has a next one.
    """

    def __init__(self, model: Model, steps: int, recipe: Recipe) -> None:
        self._seed, self._recipe = model.seed, recipe
        self.usable = steps - 1 if model.baseline is None else 0
        self.first = first_held_out(self.usable, recipe)
        set_aside = max(self.usable - self.first, 1)
        row = 4 * (model.orders + 1) * model.width
        affordable = LARGEST_SAMPLE // (4 * ROWS_A_PAIR * row)  # a quarter of what the other samples may take
        self._count = max(min(PAIRS, affordable) // set_aside, FEWEST)
        self._random = np.random.default_rng([model.seed, 4])
        self.samples: list[LinkSample] = []
        # Where steps were set aside: the graph after the last step, and the rows that were made without them.
        self.graph: Graph | None = None
        self.table: RowTable | None = None

    @property
    def steps(self) -> range:
        """The steps that are set aside and have steps before them to fit on."""
        return range(self.first, self.usable) if self.first > 0 else range(0)

    def visit(self, state: State, step: int, edges: NextEdges) -> None:
        """Take pairs from a step that is set aside."""
        if step in self.steps:
            self.samples.append(
                sample_links(
                    state.graph,
                    state.model.unit,
                    edges,
                    self._count,
                    self._random,
                    partial(_read, state),
                )
            )

    def matrices(self, samples: Sequence[StepSample], start: Float32, progress: Progress | None) -> Float32:
        """Fit matrices without the steps that were set aside."""
        before = [sample for sample in samples if sample.step < self.first]
        return fit_matrices(before, start, self._recipe, self._seed, progress)

    def fit_heads(
        self, samples: Sequence[StepSample], start: Float32, progress: Progress | None
    ) -> dict[str, LinkHead]:
        """Fit the heads, with matrices that have not seen their steps."""
        if not self.samples:
            return {}
        return fit_heads(self.samples, self.matrices(samples, start, progress))


def _read(state: State, nodes: Nodes) -> tuple[Float32 | None, Float32]:
    """Return the vectors of nodes, where no matrix is to be learned, and their units."""
    where = state.model, state.exact, state.graph
    vectors = None if state.model.table is None else read_vectors(*where, nodes)
    return vectors, read_units(*where, nodes)


def time_unit(steps: Sequence[EventBatch]) -> float | None:
    """Return the median length of a training step; None without times, or where all are one.

    Examples
    --------
    >>> from dygcn.engine.events import read_events
    >>> time_unit([read_events({"src": [1], "dst": [2], "t": [t]}) for t in (0, 2, 4, 9)])
    2.0
    """
    ends = [float(step.t.max()) for step in steps if step.t is not None and len(step)]
    lengths = np.diff(ends)
    lengths = lengths[lengths > 0]
    return float(np.median(lengths)) if len(lengths) else None


@dataclass(frozen=True)
class Columns:
    """What the score looks at, of many pairs: those of all samples behind each other."""

    plain: Float64  # (m, products + 8), see `pair_columns`
    pasts: Float64  # (m, 4), see `pair_pasts`
    marked: Bool  # (m,) see `Pairs`

    @property
    def products(self) -> int:
        """How many products of vectors there are."""
        return int(self.plain.shape[1]) - 2 * TRAITS

    @property
    def sums(self) -> Float64:
        """The sums of traits."""
        return self.plain[:, self.products : self.products + TRAITS]

    @property
    def enough(self) -> bool:
        """Whether there are enough linked pairs and others to learn from."""
        return bool(min(self.marked.sum(), (~self.marked).sum()) >= FEWEST)

    def part(self, rows: Bool) -> Columns:
        """Return some of the rows."""
        return Columns(self.plain[rows], self.pasts[rows], self.marked[rows])

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """What all columns but the marks of a past are, at least and at most."""
        known = self.pasts[self.pasts[:, KNOWN] > 0, AGE:EDGE]
        known = known if len(known) else np.zeros((1, EDGE - AGE))
        low, high = (
            np.append(end(self.plain, axis=0), end(known, axis=0)).tolist() for end in (np.min, np.max)
        )
        return tuple(low), tuple(high)

    def only(self, parts: Collection[str]) -> Columns:
        """Return zeros in all columns but those of some parts."""
        seen = {part: float(part in parts) for part in PARTS}
        shown = [seen["cosine"], seen["orders"], seen["traits"]]
        factors = np.repeat(shown, [1, self.products - 1, 2 * TRAITS])
        return Columns(self.plain * factors, self.pasts * seen["past"], self.marked)


def read_columns(samples: Sequence[LinkSample], matrices: Float32 | None, kind: str) -> Columns:
    """Return the columns of one kind of links."""
    plain, pasts, marked = [], [], []
    for sample in samples:
        pairs = sample.pairs[kind]
        ends = pairs.first, pairs.second
        plain.append(pair_columns(_vectors(sample, matrices), sample.units, sample.traits, *ends))
        pasts.append(pairs.pasts)
        marked.append(pairs.marked)
    return Columns(np.concatenate(plain), np.concatenate(pasts), np.concatenate(marked))


def fit_heads(
    samples: Sequence[LinkSample], matrices: Float32 | None, parts: Collection[str] = PARTS
) -> dict[str, LinkHead]:
    """Fit one head for each kind of link; a kind with too few pairs has none.

    Parameters
    ----------
    matrices
        Fitted without the steps of the samples, all orders below each other; None: samples have vectors.
    parts
        What the score may look at; the rest gets 0.
    """
    if not samples:
        return {}
    new, everything = (read_columns(samples, matrices, kind).only(parts) for kind in HEADS)
    found = {}
    if new.enough:
        found["new"] = _fit_pairs(new)
    apart = everything.part(everything.pasts[:, EDGE] == 0)
    if everything.enough:
        if not apart.enough:
            apart = new if new.enough else everything
        found["all"] = _fit_pairs(apart).with_edges_first()
    return found if "past" in parts else {kind: _blind(head) for kind, head in found.items()}


def cosine_auc(samples: Sequence[LinkSample], matrices: Float32 | None) -> float:
    """Return the AUC of the cosine on held-out links: new ones, or all if those are few; NaN of too few."""
    if not samples:
        return float("nan")
    for kind in ("new", "all"):
        pairs = read_columns(samples, matrices, kind)
        if pairs.enough:
            cosine = pairs.plain[:, 0]
            return auc(cosine[pairs.marked], cosine[~pairs.marked])
    return float("nan")


def _vectors(sample: LinkSample, matrices: Float32 | None) -> Float32:
    if sample.vectors is not None:
        return sample.vectors
    assert matrices is not None
    vectors: Float32 = np.concatenate(list(sample.units), axis=1) @ matrices
    return vectors


def _fit_pairs(pairs: Columns) -> LinkHead:
    """Fit a logistic regression on all columns, and one on those that a dot product can say."""
    truth = pairs.marked.astype(np.float64)
    width = pairs.plain.shape[1]
    bias, *found = logistic(np.concatenate((pairs.plain, pairs.pasts[:, :EDGE]), axis=1), truth).tolist()
    plain, (known, age, count) = found[:width], found[width:]
    rows = (bias, *plain), (bias + known, *plain, age, count, 0.0)
    return LinkHead(*rows, _fit_dot(pairs, truth), *pairs.bounds)


def _fit_dot(pairs: Columns, truth: Float64) -> tuple[float, ...]:
    columns = np.concatenate((pairs.plain[:, :1], pairs.sums), axis=1)
    return tuple(logistic(columns, truth).tolist())


def _blind(head: LinkHead) -> LinkHead:
    """Return a head that scores pairs as if none had a past: whoever saw none has learned nothing of it."""
    return dataclasses.replace(head, known=(*head.negatives, *(0.0,) * PAST))
