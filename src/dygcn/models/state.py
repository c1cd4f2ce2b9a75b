"""A model at work: its graph and its rule, joined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dygcn.errors import FeatureError
from dygcn.features import to_grid
from dygcn.graph.image import GraphImage, build_graph, take_loose_image
from dygcn.propagation import ExactRule, RollingRule
from dygcn.records import EventBatch, FeatureDelta, Float32, GraphDelta, IdColumn, Int64, Moved, Nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dygcn.models.folder import Tensors
    from dygcn.models.model import Model

_Told = TypeVar("_Told")


@dataclass(slots=True)  # not frozen, to be made faster: one for every update
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
    tensors: Tensors  # what the rule adds: x of those who own some, or every vector

    def arranged(self) -> StateImage:
        """Return the same with the edges in order."""
        return StateImage(self.graph.arranged(), self.tensors)


class State:
    """The graph of a model and what its rule keeps of the nodes.

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
        self._nobody = self.graph.ids.names(np.empty(0, np.int32))

    @property
    def exact(self) -> ExactRule:
        """The rule, where it has features and messages."""
        if not isinstance(self.rule, ExactRule):
            raise FeatureError(
                f"the {self.model.rule} rule keeps vectors: it has no features, and no messages to withhold "
                "or to compute anew; fit with rule='exact' for these"
            )
        return self.rule

    def apply(self, batch: EventBatch, now: float | None = None) -> Outcome:
        """Apply events; all of them or, if one is bad, none."""
        if isinstance(self.rule, ExactRule):
            return self._finish(*self.rule.apply_events(self.graph, batch, now))
        delta = self.graph.apply(batch, now)
        return self._finish(delta, self.rule.apply(self.graph, delta))

    def bulk(self, batches: Iterable[EventBatch], told: Callable[[Outcome], _Told]) -> _Told:
        """Apply batches to the graph, and compute the state of the exact rule once, after the last.

        Parameters
        ----------
        told
            Called with the outcome, also where a batch is bad: those before it stay.
        """
        rule, counts = self.exact, np.zeros(3, np.int64)
        try:
            for batch in batches:
                delta, _ = self.apply_to_graph(batch)
                counts += (delta.unchanged, delta.missing, delta.loops)
        finally:
            self.graph.compact()
            self.settle()
            everyone = self.graph.nodes()
            moved = Moved(everyone, np.ones(len(everyone), np.int8), rule.orders * len(everyone))
            result = told(Outcome(moved, self._nobody, *counts.tolist()))
        return result

    def apply_to_graph(self, batch: EventBatch, now: float | None = None) -> tuple[GraphDelta, IdColumn]:
        """Apply events to the graph alone, and return who left; after the last, `settle` does the rest."""
        delta = self.graph.apply(batch, now)
        left = self.graph.ids.names(delta.left) if len(delta.left) else self._nobody
        self.graph.release(delta.left)
        return delta, left

    def settle(self) -> None:
        """Compute what follows from the graph, from nothing, where the rule is exact."""
        if isinstance(self.rule, ExactRule):
            self.rule.rebuild(self.graph)

    def _finish(self, delta: GraphDelta, moved: Moved) -> Outcome:
        left = self._nobody
        if len(delta.left):
            left = self.graph.ids.names(delta.left)
            self.graph.release(delta.left)
        return Outcome(moved, left, delta.unchanged, delta.missing, delta.loops)

    def set_features(self, ids: IdColumn, values: Float32) -> Outcome:
        """Give nodes features of their own, or replace them."""
        rule = self.exact
        rows = to_grid(values, self.model.scales)
        nodes, last = _last_of_each(self.graph.intern(ids))
        rows = rows[last]
        old, had = rule.messages(self.graph, nodes, 0)
        has = np.ones(len(nodes), np.bool_)
        features = FeatureDelta(nodes, old, rows, had > 0, has)
        delta = _no_arcs(nodes, self.graph.set_own(nodes))
        return Outcome(rule.apply(self.graph, delta, features), self.graph.ids.names(delta.left))

    def adopt(self, ids: IdColumn, vectors: Float32, *, keep: bool = True) -> Outcome:
        """Put vectors of your own in place of all that the paper's rules have.

        Nodes without one start as the aggregation of their neighbours.

        Parameters
        ----------
        keep
            Ids that are not in the graph come into it, and stay without an edge; if not, they are left out.
        """
        rule, graph = self.rule, self.graph
        assert isinstance(rule, RollingRule)
        nodes = graph.intern(ids) if keep else graph.find(ids)
        vectors, nodes = vectors[nodes >= 0], nodes[nodes >= 0]
        nodes, last = _last_of_each(nodes)
        vectors = vectors[last]
        if keep:
            graph.set_own(nodes)
        everyone = graph.nodes()
        rule.restart(graph, nodes, vectors, np.setdiff1d(everyone, nodes))
        orders = np.zeros(len(everyone), np.int8)
        return Outcome(Moved(everyone, orders, len(everyone)), graph.ids.names(everyone[:0]))

    def remove(self, nodes: Nodes) -> Outcome:
        """Remove nodes with their edges, ghosts and features."""
        nodes = np.unique(nodes)
        features = self.rule.removal(self.graph, nodes[self.graph.owns(nodes)])
        delta = self.graph.remove(nodes)
        return self._finish(delta, self.rule.apply(self.graph, delta, features))

    def tolerate(self, tolerance: float) -> Outcome:
        """Let changes up to this length be withheld; see `ExactRule.allow`."""
        return Outcome(self.exact.allow(self.graph, tolerance), self._nobody)

    def flush(self) -> Outcome:
        """Publish what is withheld."""
        return Outcome(self.exact.flush(self.graph), self._nobody)

    def image(self) -> tuple[StateImage, Nodes]:
        """Return the state without internal ids, and the nodes in the same order."""
        image, nodes = self.loose_image()
        return image.arranged(), nodes

    def loose_image(self) -> tuple[StateImage, Nodes]:
        """Return the image with edges in no order yet; it shares nothing with the state, which may go on."""
        graph, nodes = take_loose_image(self.graph)
        return StateImage(graph, self.rule.image(self.graph, nodes)), nodes

    @classmethod
    def from_image(cls, model: Model, image: StateImage, *, settled: bool = True) -> State:
        """Build a state from nothing but its image; if not settled, `settle` must be called before use."""
        state = cls(model)
        nodes = build_graph(image.graph, state.graph)
        state.rule.restore(state.graph, nodes, image.tensors)
        if settled:
            state.settle()
        return state


def _last_of_each(nodes: Nodes) -> tuple[Nodes, Int64]:
    """Return the nodes, sorted, and where each stands last: of an id named twice the last one counts."""
    found, from_the_end = np.unique(nodes[::-1], return_index=True)
    return found, len(nodes) - 1 - from_the_end


def _no_arcs(touched: Nodes, arrived: Nodes) -> GraphDelta:
    none, no_weights = np.empty(0, np.int32), np.empty(0, np.int64)
    return GraphDelta(none, none, no_weights, no_weights, touched, arrived, none)
