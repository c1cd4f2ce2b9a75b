"""A model at work: its graph and its rule, joined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.features import to_grid
from dygcn.graph.image import GraphImage, build_graph, take_image
from dygcn.records import EventBatch, FeatureDelta, Float32, GraphDelta, IdColumn, Int32, Moved, Nodes

if TYPE_CHECKING:
    from dygcn.models.model import Model

_BULK = 1000  # events; below this the loops over all nodes cost more than they save


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
    none, no_weights = np.empty(0, np.int32), np.empty(0, np.int64)
    return GraphDelta(none, none, no_weights, no_weights, touched, arrived, none)
