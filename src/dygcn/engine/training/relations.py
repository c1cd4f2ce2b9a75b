"""Fits the weights of relations: given, equal, or chosen to separate new links from other pairs.

Weights are tried one relation after the other, from a small grid, on a walk model of few columns that has
seen three quarters of the events. What it is judged by is the AUC of the cosine on pairs that are linked for
the first time in the last quarter, whatever their relation: the same pairs for all weights.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from dygcn.engine.events import rows_of
from dygcn.engine.graph import Graph
from dygcn.engine.measures import PairSet, auc, draw_negatives, one_end
from dygcn.engine.models.checks import check_relation_weights
from dygcn.engine.models.choices import Choices, FitTask
from dygcn.engine.models.model import Model
from dygcn.engine.models.readout import read_vectors
from dygcn.engine.models.state import State
from dygcn.engine.records import EventBatch, Float64, IdColumn, Nodes, Progress
from dygcn.engine.training.fitting import walk_model, with_rows
from dygcn.engine.training.link_head import FEWEST
from dygcn.engine.training.samples import play
from dygcn.errors import EventError, OptionError, listed, shown

GRID = (0.0, 0.25, 1.0, 4.0)
OWN = 7  # relations that get a weight of their own when weights are chosen; all others share one
DIM = 32  # columns of the models that are tried
PAIRS = 20_000  # new links that weights are judged by, at most
MARGIN = 0.002  # of AUC, by which another weight must be better than the one so far


def find_relation_weights(
    batch: EventBatch, asked: object, choices: Choices, progress: Progress | None = None
) -> dict[str, float]:
    """Return the weight of each relation: by name as given, 1 for "equal" or None, or "choose"."""
    assert batch.relation is not None
    names = batch.relation.names
    if isinstance(asked, Mapping):
        weights = check_relation_weights(asked)
        unknown = [name for name in names if name not in weights]
        if unknown:
            raise EventError(
                f"relation_weights names {listed(weights)}, and events have {shown(unknown[0])}, too; "
                "give every relation a weight, 0 for one that makes no edge"
            )
        return weights
    if asked not in (None, "equal", "choose"):
        raise OptionError(
            f'relation_weights is {shown(asked)}; allowed are "equal", "choose", or a weight for each'
        )
    equal = dict(sorted(dict.fromkeys(names, 1.0).items()))
    return _choose(batch, equal, choices, progress) if asked == "choose" and len(names) > 1 else equal


def _choose(
    batch: EventBatch, equal: dict[str, float], choices: Choices, progress: Progress | None
) -> dict[str, float]:
    """Try weights, one group of relations after another; the most frequent relation has weight 1."""
    assert batch.relation is not None
    if choices.whole_weights:
        raise OptionError('whole_weights=True does not go with relation_weights="choose": name the weights')
    names, count = (
        batch.relation.names,
        np.bincount(batch.relation.codes, minlength=len(batch.relation.names)),
    )
    group = np.minimum(np.argsort(np.argsort(-count, kind="stable")), OWN)
    question = _Question(batch, equal, choices)
    weights, tried, total = np.ones(group.max() + 1), 0, group.max() * (len(GRID) - 1)
    if not question.enough:
        return equal

    def named(values: Float64) -> dict[str, float]:
        return dict(sorted(zip(names, values[group].tolist(), strict=True)))

    best = question.judge(named(weights))
    for one in range(1, len(weights)):
        for weight in GRID:
            if weight == 1.0:
                continue
            other = weights.copy()
            other[one] = weight
            found = question.judge(named(other))
            if found > best + MARGIN:
                best, weights = found, other
            tried += 1
            if progress is not None:
                progress(tried, int(total), "weighing relations")
    return named(weights)


class _Question:
    """Pairs first linked in the last quarter of the events, and other pairs.

    Which pairs are linked does not depend on weights, so equal ones serve.
    """

    def __init__(self, batch: EventBatch, equal: dict[str, float], choices: Choices) -> None:
        cut = len(batch) - len(batch) // 4
        self._before = rows_of(batch, np.arange(cut))
        later = rows_of(batch, np.flatnonzero(batch.op[cut:] > 0) + cut)
        self._choices = dataclasses.replace(choices, dim=min(choices.dim, DIM), features="walks")
        _, graph = self._played(equal)
        random = np.random.default_rng([choices.seed, 6])
        known = np.stack(graph.edges()[:2], axis=1).astype(np.int64)
        new = np.stack((graph.find(later.src), graph.find(later.dst)), axis=1).astype(np.int64)
        new = np.unique(np.sort(new[(new >= 0).all(axis=1) & (new[:, 0] != new[:, 1])], axis=1), axis=0)
        linked = PairSet(known, graph.ids.high)
        new = new[~linked.has(new[:, 0], new[:, 1])]
        new = new if len(new) <= PAIRS else random.choice(new, PAIRS, replace=False)
        self.enough = len(new) >= FEWEST
        others = new
        if self.enough:
            apart = linked, PairSet(new, graph.ids.high)
            pool = np.flatnonzero(graph.here).astype(np.int64)
            others = np.stack(draw_negatives(one_end(new, random), pool, apart, random), axis=1)
        self._count, ends = len(new), np.concatenate((new, others)).astype(np.int32)
        self._ends: tuple[IdColumn, IdColumn] = graph.ids.names(ends[:, 0]), graph.ids.names(ends[:, 1])

    def _played(self, weights: dict[str, float]) -> tuple[Model, Graph]:
        """Return a model with these weights, without rows, and its graph before the last quarter."""
        choices = dataclasses.replace(self._choices, relations=weights)
        model = walk_model(FitTask(self._before, [], choices))
        graph = model.new_graph()
        play(graph, self._before)
        return model, graph

    def judge(self, weights: dict[str, float]) -> float:
        """Return the AUC of the cosine with these weights of relations."""
        blank, graph = self._played(weights)
        model = with_rows(blank, graph)
        state = State.from_graph(model, graph)
        first, second = (self._vectors(state, graph.find(ends)) for ends in self._ends)
        lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        cosine = (first * second).sum(axis=1) / np.maximum(lengths, 1e-12)
        return auc(cosine[: self._count], cosine[self._count :])

    @staticmethod
    def _vectors(state: State, nodes: Nodes) -> Float64:
        """Return vectors; zeros for nodes without an edge."""
        found = np.zeros((len(nodes), state.model.dim))
        here = nodes >= 0
        found[here] = read_vectors(state.model, state.exact, state.graph, nodes[here])
        return found
