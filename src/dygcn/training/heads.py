"""Learning the score of a link: a few numbers, on training steps that the matrices have not seen.

Matrices fitted on the same steps would know their links by heart, and the cosine would be trusted too much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.evaluation.links import auc, pair_cosines, unit_rows
from dygcn.models import KINDS, LinkHead, Model, State, node_traits
from dygcn.training.matrices import Recipe, fit_matrices
from dygcn.training.samples import LARGEST_SAMPLE, read_sample_inputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.records import Bool, EventBatch, Float32, Float64, Int64
    from dygcn.training.samples import Inputs, NextEdges, Progress, StepSample

PAIRS = 30_000  # of each kind, over all steps, and as many strangers
ROWS_A_PAIR = 6  # at most: a link and its stranger have three ends, of two kinds of links
FEWEST = 64  # linked pairs of a kind, below which nothing is learned
PENALTY = 1.0  # of a standardised coefficient, in units of one pair
_TRIES = 20


@dataclass(frozen=True, slots=True)
class LinkSample:
    """Pairs of one held-out step: linked at the next one or not."""

    inputs: Inputs  # (n, (K + 1) * width), or vectors; a last row of zeros for nodes not yet there
    traits: Float64  # (n, 3)
    pairs: dict[str, tuple[Int64, Int64]]  # kind -> linked (m, 2) and others (m, 2), rows of the above


def sample_links(state: State, edges: NextEdges, count: int, random: np.random.Generator) -> LinkSample:
    """Draw so many pairs of every kind from the graph now and the edges of the next one."""
    first, second, active = (
        state.graph.find(column).astype(np.int64) for column in (edges.first, edges.second, edges.active)
    )
    linked = np.stack((first, second), axis=1)
    high = int(state.graph.ids.high)
    drawn = {
        "all": _draw(linked, active, [linked], count, high, random),
        "new": _draw_new(state, linked, count, high, random),
    }
    nodes = np.unique(np.concatenate([pairs.ravel() for both in drawn.values() for pairs in both]))
    nodes = nodes[nodes >= 0].astype(np.int32)
    place = np.full(high + 1, len(nodes), np.int64)  # -1, the last place, is a node not yet there
    place[nodes] = np.arange(len(nodes))
    inputs, _ = read_sample_inputs(state, nodes)
    blank = np.zeros((1, inputs.shape[1]), inputs.dtype)
    traits = node_traits(state.graph, nodes, state.model.unit)
    return LinkSample(
        np.concatenate((inputs, blank)),
        np.concatenate((traits, np.zeros((1, traits.shape[1])))),
        {kind: (place[pairs], place[others]) for kind, (pairs, others) in drawn.items()},
    )


def _draw_new(
    state: State, linked: Int64, count: int, high: int, random: np.random.Generator
) -> tuple[Int64, Int64]:
    """Draw links that are not there yet between nodes that are, and pairs that stay apart."""
    a, b, weight = state.graph.edges()
    now = np.stack((a, b), axis=1)[weight > 0].astype(np.int64)
    warm = np.zeros(high + 1, np.bool_)
    warm[now.ravel()] = True
    fresh = linked[(linked >= 0).all(axis=1)]
    fresh = fresh[warm[fresh].all(axis=1) & ~_among(_keys(fresh, high), np.sort(_keys(now, high)))]
    return _draw(fresh, np.flatnonzero(warm), [now, linked], count, high, random)


def _draw(
    linked: Int64, pool: Int64, apart_from: list[Int64], count: int, high: int, random: np.random.Generator
) -> tuple[Int64, Int64]:
    if len(linked) == 0:
        return linked, linked
    known = np.sort(np.concatenate([_keys(pairs, high) for pairs in apart_from]))
    some = random.choice(len(linked), min(count, len(linked)), replace=False)
    chosen = linked[some]
    kept = chosen[np.arange(len(chosen)), random.integers(0, 2, len(chosen))]
    others = np.stack((kept, random.choice(pool, len(kept))), axis=1)
    for _ in range(_TRIES):
        again = _touching(others, known, high)
        if not again.any():
            break
        others[again, 1] = random.choice(pool, int(again.sum()))
    return chosen, others[~_touching(others, known, high)]


def _touching(pairs: Int64, known: Int64, high: int) -> Bool:
    """Say which pairs are linked or twice the same node; two nodes that are not yet there are neither."""
    there = (pairs >= 0).all(axis=1)
    touching: Bool = there & (_among(_keys(pairs, high), known) | (pairs[:, 0] == pairs[:, 1]))
    return touching


def _among(keys: Int64, known: Int64) -> Bool:
    """Say which keys are among sorted ones; numpy's own `isin` takes seconds for a million."""
    if len(known) == 0:
        return np.zeros(len(keys), np.bool_)
    found: Bool = known[np.searchsorted(known, keys).clip(max=len(known) - 1)] == keys
    return found


def _keys(pairs: Int64, high: int) -> Int64:
    keys: Int64 = (pairs.min(axis=1) + 1) * (high + 1) + pairs.max(axis=1) + 1
    return keys


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
        self.first = self.usable - int(recipe.held_out * self.usable)
        set_aside = max(self.usable - self.first, 1)
        row = 2 * (model.orders + 1) * model.width
        affordable = LARGEST_SAMPLE // (4 * ROWS_A_PAIR * row)  # a quarter of what the other samples may take
        self._count = max(min(PAIRS, affordable) // set_aside, FEWEST)
        self._random = np.random.default_rng([model.seed, 4])
        self.samples: list[LinkSample] = []

    @property
    def steps(self) -> range:
        """The steps that are set aside and have steps before them to fit on."""
        return range(self.first, self.usable) if self.first > 0 else range(0)

    def visit(self, state: State, step: int, edges: NextEdges) -> None:
        """Take pairs from a step that is set aside."""
        if step in self.steps:
            self.samples.append(sample_links(state, edges, self._count, self._random))

    def matrices(self, samples: Sequence[StepSample], start: Float32, progress: Progress | None) -> Float32:
        """Fit matrices without the steps that were set aside."""
        seen = [sample for sample in samples if sample.step < self.first]
        return fit_matrices(seen, start, self._recipe, self._seed, progress)

    def fit_heads(
        self, samples: Sequence[StepSample], start: Float32, progress: Progress | None
    ) -> dict[str, LinkHead]:
        """Fit the heads, with matrices that have not seen their steps."""
        if not self.samples:
            return {}
        return fit_heads(self.samples, self.matrices(samples, start, progress))


def time_unit(steps: Sequence[EventBatch]) -> float | None:
    """Return the median length of a training step; None without times, or where all are one.

    Examples
    --------
    >>> from dygcn.events import read_events
    >>> time_unit([read_events({"src": [1], "dst": [2], "t": [t]}) for t in (0, 2, 4, 9)])
    2.0
    """
    ends = [float(step.t.max()) for step in steps if step.t is not None and len(step)]
    lengths = np.diff(ends)
    lengths = lengths[lengths > 0]
    return float(np.median(lengths)) if len(lengths) else None


def fit_heads(
    samples: Sequence[LinkSample], matrices: Float32 | None, columns: tuple[int, ...] = (0, 1, 2, 3)
) -> dict[str, LinkHead]:
    """Fit one head for each kind of link; a kind with too few pairs has none.

    Parameters
    ----------
    matrices
        Fitted without the steps of the samples, all orders below each other; None: inputs are vectors.
    columns
        What the score may look at: 0 the cosine, 1 and 2 the degree, 3 the last contact. The rest gets 0.
    """
    if not samples:
        return {}
    used = np.isin(np.arange(4), columns)
    units = [_units(sample, matrices) for sample in samples]
    found = {}
    for kind in KINDS:
        linked = [_design(s, u, s.pairs[kind][0]) for s, u in zip(samples, units, strict=True)]
        others = [_design(s, u, s.pairs[kind][1]) for s, u in zip(samples, units, strict=True)]
        design = np.concatenate((*linked, *others)) * used
        truth = np.arange(len(design)) < sum(map(len, linked))
        if truth.sum() >= FEWEST and (~truth).sum() >= FEWEST:
            c, w1, w2, w3, bias = logistic(design, truth.astype(np.float64)).tolist()
            found[kind] = LinkHead(c, (w1, w2, w3), bias)
    return found


def cosine_auc(samples: Sequence[LinkSample], matrices: Float32 | None) -> float:
    """Return the AUC of the cosine on held-out links: new ones, or all if those are few; NaN of too few."""
    units = [_units(sample, matrices) for sample in samples]
    for kind in KINDS:
        linked, others = (
            [pair_cosines(u, s.pairs[kind][side]) for s, u in zip(samples, units, strict=True)]
            for side in (0, 1)
        )
        if min(sum(map(len, side)) for side in (linked, others)) >= FEWEST:
            return auc(np.concatenate(linked), np.concatenate(others))
    return float("nan")


def _units(sample: LinkSample, matrices: Float32 | None) -> Float64:
    inputs = sample.inputs.astype(np.float32)
    return unit_rows(inputs if matrices is None else inputs @ matrices)


def _design(sample: LinkSample, units: Float64, pairs: Int64) -> Float64:
    cosine = pair_cosines(units, pairs)
    return np.concatenate((cosine[:, None], sample.traits[pairs[:, 0]] + sample.traits[pairs[:, 1]]), axis=1)


def logistic(columns: Float64, truth: Float64) -> Float64:
    """Return coefficients and bias of a ridge logistic regression, by Newton's method.

    Columns are standardised first; one without any spread gets 0.

    Examples
    --------
    >>> x = np.linspace(-2, 2, 400)[:, None]
    >>> odds = 1.5 * x[:, 0] - 0.5
    >>> truth = (np.random.default_rng(0).random(400) < 1 / (1 + np.exp(-odds))).astype(float)
    >>> bool(np.abs(logistic(x, truth) - [1.5, -0.5]).max() < 0.25)
    True
    """
    centre, scale = columns.mean(axis=0), columns.std(axis=0)
    flat = scale < 1e-9
    scale = np.where(flat, 1.0, scale)
    standard = np.where(flat, 0.0, (columns - centre) / scale)
    inputs = np.concatenate((standard, np.ones((len(columns), 1))), axis=1)
    penalty = np.diag(np.append(np.full(len(scale), PENALTY), 1e-9))
    found = np.zeros(inputs.shape[1])
    for _ in range(30):
        chance = (1 + np.tanh(inputs @ found / 2)) / 2
        slope = inputs.T @ (chance - truth) + penalty @ found
        bend = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + penalty
        step = np.linalg.solve(bend, slope)
        found -= step
        if np.abs(step).max() < 1e-6:
            break
    coefficients = np.where(flat, 0.0, found[:-1] / scale)
    return np.append(coefficients, found[-1] - float(coefficients @ centre))
