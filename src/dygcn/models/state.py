"""A model at work: its graph and its rule, joined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.events import id_column, python_ids, take
from dygcn.events.windows import rows_of
from dygcn.features import to_grid
from dygcn.graph.image import GraphImage, build_graph, take_image
from dygcn.records import EventBatch, FeatureDelta, Float32, GraphDelta, IdColumn, Int8, Int32, Moved, Nodes

if TYPE_CHECKING:
    from dygcn.models.model import Model

LARGEST_BATCH = 1 << 17  # beyond this a batch is cut; the exact rule does not notice
_BULK = 1000
_NEVER = 127


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one batch did."""

    moved: Moved
    left: IdColumn  # ids that are no longer in the graph
    unchanged: int = 0
    missing: int = 0
    loops: int = 0


@dataclass(frozen=True, slots=True)
class StateImage:
    """Everything that a model and this determine, without internal ids."""

    graph: GraphImage
    features: Int32  # (number of owners, width) x on the grid, in the order of the ids


class State:
    """The graph of a model and the messages of its nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from dygcn.events import read_events
    >>> from dygcn.models import Model
    >>> model = Model((np.eye(4, dtype=np.float32),) * 3, "int64", "hashed", np.ones(4))
    >>> outcome = State(model).apply(read_events([(1, 2), (2, 3)]))
    >>> outcome.moved.orders.tolist()
    [1, 1, 1]
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.graph = model.new_graph()
        self.rule = model.new_rule()

    def apply(self, batch: EventBatch, now: float | None = None) -> Outcome:
        """Apply events; all of them or, if one is bad, none."""
        if len(batch) > LARGEST_BATCH and len(self.graph) > 0:
            return self._apply_in_parts(batch, now)
        delta = self.graph.apply(batch, now)
        return self._finish(delta, self._propagate(delta, len(batch)))

    def _propagate(self, delta: GraphDelta, events: int) -> Moved:
        if events > _BULK and len(delta.arrived) == len(self.graph):  # it was empty before
            self.rule.rebuild(self.graph)
            orders = np.ones(len(delta.arrived), np.int8)
            return Moved(delta.arrived, orders, self.rule.orders * len(self.graph))
        return self.rule.apply(self.graph, delta)

    def _finish(self, delta: GraphDelta, moved: Moved) -> Outcome:
        left = self.graph.ids.names(delta.left)
        self.graph.release(delta.left)
        return Outcome(moved, left, delta.unchanged, delta.missing, delta.loops)

    def _apply_in_parts(self, batch: EventBatch, now: float | None) -> Outcome:
        self.graph.rehearse(batch, now)
        lowest = np.full(0, _NEVER, np.int8)
        before: dict[int | str, bool] = {}  # who was in the graph before the batch, as far as it matters
        deltas, rows = [], 0
        for start in range(0, len(batch), LARGEST_BATCH):
            part = np.arange(start, min(start + LARGEST_BATCH, len(batch)))
            delta = self.graph.apply(rows_of(batch, part), now)
            moved = self._propagate(delta, len(part))
            lowest = _longer(lowest, self.graph.ids.high)
            lowest[moved.nodes] = np.minimum(lowest[moved.nodes], moved.orders)
            for nodes, was_there in ((delta.arrived, False), (delta.left, True)):
                for name in python_ids(self.graph.ids.names(nodes)).tolist():
                    before.setdefault(name, was_there)
            rows += moved.rows
            deltas.append(delta)
        for delta in deltas:
            self.graph.release(delta.left)
        nodes = np.flatnonzero(lowest < _NEVER).astype(np.int32)
        nodes = nodes[self.graph.holds(nodes)]
        return Outcome(
            Moved(nodes, lowest[nodes], rows),
            self._gone([name for name, was_there in before.items() if was_there]),
            sum(delta.unchanged for delta in deltas),
            sum(delta.missing for delta in deltas),
            sum(delta.loops for delta in deltas),
        )

    def _gone(self, names: list[int | str]) -> IdColumn:
        if not names:
            return self.graph.ids.names(np.empty(0, np.int32))
        column = id_column(names)
        return take(column, np.flatnonzero(self.graph.find(column) < 0))

    def set_features(self, ids: IdColumn, values: Float32) -> Outcome:
        """Give nodes features of their own, or replace them."""
        rows = to_grid(values, self.model.scales)
        nodes = self.graph.intern(ids)
        nodes, last = np.unique(nodes[::-1], return_index=True)  # an id named twice: the last one counts
        rows = rows[len(rows) - 1 - last]
        old, had = self.rule.messages(self.graph, nodes, 0)
        has = np.ones(len(nodes), np.bool_)
        features = FeatureDelta(nodes, old, rows, had > 0, has)
        delta = _no_arcs(nodes, self.graph.set_own(nodes))
        return Outcome(self.rule.apply(self.graph, delta, features), self.graph.ids.names(delta.left))

    def remove(self, nodes: Nodes) -> Outcome:
        """Remove nodes with their edges, ghosts and features."""
        nodes = np.unique(nodes)
        owners = nodes[self.graph.owns(nodes)]
        features = None
        if len(owners):
            old, _ = self.rule.messages(self.graph, owners, 0)
            yes = np.ones(len(owners), np.bool_)
            features = FeatureDelta(owners, old, np.zeros_like(old), yes, ~yes)
        delta = self.graph.remove(nodes)
        return self._finish(delta, self.rule.apply(self.graph, delta, features))

    def image(self) -> tuple[StateImage, Nodes]:
        """Return the state without internal ids, and the nodes in the same order."""
        graph, nodes = take_image(self.graph)
        rows, _ = self.rule.messages(self.graph, nodes[graph.own], 0)
        return StateImage(graph, rows), nodes

    @classmethod
    def from_image(cls, model: Model, image: StateImage) -> State:
        """Build a state from nothing but its image."""
        state = cls(model)
        nodes = build_graph(image.graph, state.graph)
        own = nodes[image.graph.own]
        if len(own):
            yes = np.ones(len(own), np.bool_)
            state.rule.features.write(
                FeatureDelta(own, np.zeros_like(image.features), image.features, ~yes, yes)
            )
        state.rule.rebuild(state.graph)
        return state


def _no_arcs(touched: Nodes, arrived: Nodes) -> GraphDelta:
    none = np.empty(0, np.int32)
    return GraphDelta(none, none, none, none, touched, arrived, none)


def _longer(array: Int8, size: int) -> Int8:
    return np.concatenate((array, np.full(max(size - len(array), 0), _NEVER, np.int8)))
