"""A model at work: its graph and its rule, joined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.features import to_grid
from dygcn.engine.graph.completing import abandon, complete
from dygcn.engine.graph.image import GraphImage, build_graph, take_loose_image
from dygcn.engine.propagation import ExactRule
from dygcn.engine.records import (
    Changed,
    EventBatch,
    FeatureDelta,
    Float32,
    GraphDelta,
    IdColumn,
    Int64,
    Nodes,
    Written,
)
from dygcn.errors import EventError, FeatureError, TornState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dygcn.engine.graph import Graph
    from dygcn.engine.graph.staging import NodeEvents
    from dygcn.engine.models.folder import Tensors
    from dygcn.engine.models.model import Model
    from dygcn.engine.models.specs import Reading

_TORN = "an update was interrupted halfway, so this embedding may not fit its graph, and answers nothing; "
_HOW_TO_HEAL = (
    _TORN + "live = live.recompute() gives a whole one (with all of that update, or nothing of it); "
    "of a durable folder, open it again: dygcn.open(folder)"
)
_HOW_TO_RELOAD = _TORN + "load it again (dygcn.load), or open its folder again (dygcn.open)"


@dataclass(slots=True)  # not frozen, to be made faster: one for every update
class Outcome:
    """What one batch did."""

    moved: Changed
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


class Changing:
    """Marks a state as torn from the first write of a change to the last; an exception leaves the mark.

    A refusal (`EventError`, `FeatureError`) comes before the first write, so it takes the mark away.
    """

    __slots__ = ("_state",)

    def __init__(self, state: State) -> None:
        self._state = state

    def __enter__(self) -> None:
        self._state.torn, self._state.written = True, False

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is None or (issubclass(kind, EventError | FeatureError) and not self._state.written):
            self._state.torn = False


class Staging(Changing):
    """Marks a state as torn while buffers is made: a call meanwhile, from a signal's handler, is refused.

    Nothing is written yet, so any exception takes the mark away.
    """

    __slots__ = ()

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        self._state.torn = False


class State:
    """The graph of a model and what its rule keeps of the nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from dygcn.engine.events import read_events
    >>> from dygcn.engine.models import Model
    >>> model = Model((np.eye(4, dtype=np.float32),) * 3, "int64", "hashed", np.ones(4))
    >>> outcome = State(model).apply(read_events([(1, 2), (2, 3)]))
    >>> outcome.moved.orders.tolist()
    [1, 1, 1]
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.graph = model.new_graph()
        self.rule = model.spec.new_rule(model)
        self._nobody = self.graph.ids.names(np.empty(0, np.int32))
        self.written = False  # whether the change that is made has been written to the graph
        self.torn = False  # while a change is written, and after an exception interrupted one
        self.changing, self._staging = Changing(self), Staging(self)
        self._features: FeatureDelta | None = None  # rows that are being written

    @property
    def exact(self) -> ExactRule:
        """The rule, where it has features and messages."""
        if not isinstance(self.rule, ExactRule):
            raise FeatureError(
                f"the {self.model.rule} rule keeps vectors: it has no features, and no messages to withhold "
                "or to compute anew; fit with rule='exact' for these"
            )
        return self.rule

    def check(self) -> None:
        """Raise `TornState` if an exception interrupted a change."""
        if self.torn:
            raise TornState(_HOW_TO_HEAL if self.model.spec.from_graph else _HOW_TO_RELOAD)

    def apply(self, batch: EventBatch, now: float | None = None) -> Outcome:
        """Apply events; all of them or, if one is bad, none."""
        ready = self.stage(batch, now)
        with self.changing:
            return self.write(ready)

    def stage(self, batch: EventBatch, now: float | None = None) -> NodeEvents:
        """Check events and make buffers for them. Nothing is changed yet that anyone can see.

        Raises
        ------
        EventError
            If one of them is bad.
        """
        with self._staging:
            ready = self.graph.prepare(batch, now)
            try:
                self.rule.reserve(self.graph)
            except BaseException:
                abandon(self.graph, ready.src, ready.dst)
                raise
        return ready

    def write(self, ready: NodeEvents) -> Outcome:
        """Apply staged events; to be called while the state is `changing`.

        Raises
        ------
        CapacityError
            If a node would carry too much weight; then nothing was changed.
        """
        return self._finish(*self.rule.apply_events(self.graph, ready))

    def find_edge(self, a: object, b: object) -> tuple[int, int] | None:
        """Return two nodes of the graph that `write_edge` may be called with, None if it may not."""
        first, second = self.graph.find_one(a), self.graph.find_one(b)
        return None if first < 0 or second < 0 or first == second else (first, second)

    def write_edge(self, a: int, b: int, op: int) -> Outcome | None:
        """Add or remove one edge of weight one, without a time, between two nodes; while `changing`.

        Returns
        -------
        Outcome or None
            None: nothing was done. The edge is to be applied as a batch.
        """
        done = self.rule.apply_edge(self.graph, a, b, op)
        return None if done is None else self._finish(*done)

    def bulk(self, batches: Iterable[EventBatch]) -> tuple[Outcome, Exception | None]:
        """Apply batches to the graph, and compute the state of the exact rule once, after the last.

        Returns
        -------
        tuple
            What was done, and the error that ended the batches early, if one did: those before it stay.
        """
        rule, counts = self.exact, np.zeros(3, np.int64)
        failure: Exception | None = None
        remaining = iter(batches)
        while True:
            try:
                batch = next(remaining, None)
            except Exception as error:  # of the caller's own iterable, or of a bad row
                failure = error
                break
            if batch is None:
                break
            try:
                delta, _ = self.apply_to_graph(batch)
            except EventError as error:
                failure = error
                break
            counts += (delta.unchanged, delta.missing, delta.loops)
        self.graph.compact()
        self.settle()
        everyone = self.graph.nodes()
        moved = Changed(everyone, np.ones(len(everyone), np.int8), rule.orders * len(everyone))
        return Outcome(moved, self._nobody, *counts.tolist()), failure

    def apply_to_graph(self, batch: EventBatch, now: float | None = None) -> tuple[GraphDelta, IdColumn]:
        """Apply events to the graph alone, and return who left; after the last, `settle` does the rest."""
        delta = self.graph.apply(batch, now)
        left = self.graph.ids.names(delta.left) if len(delta.left) else self._nobody
        self.graph.release(delta.left)
        return delta, left

    def _done(self) -> None:
        """Forget what `complete` would need to finish the last change."""
        self.graph.settled()
        self._features = None

    def complete(self) -> None:
        """Finish a change of the graph that an exception interrupted.

        Afterwards graph and features are those with all of the change, or with nothing of it. Messages are
        not computed: the state stays torn, and `image` gives all that a whole one is built from.
        """
        features, rule = self._features, self.exact
        if complete(self.graph) and features is not None:
            rule.features.write(features)
        self._done()

    def settle(self) -> None:
        """Compute what follows from the graph, from nothing."""
        self.rule.rebuild(self.graph)

    def _finish(self, written: Written, moved: Changed) -> Outcome:
        left = self._nobody
        if len(written.left):
            left = self.graph.ids.names(written.left)
            self.graph.release(written.left)
        self._done()
        self.written = True
        return Outcome(moved, left, written.unchanged, written.missing, written.loops)

    def set_features(self, ids: IdColumn, values: Float32) -> Outcome:
        """Give nodes features of their own, or replace them."""
        rule = self.exact
        rows = to_grid(values, self.model.scales)
        nodes, last = last_of_each(self.graph.intern(ids))
        rows = rows[last]
        old, had = rule.messages(self.graph, nodes, 0)
        has = np.ones(len(nodes), np.bool_)
        features = self._features = FeatureDelta(nodes, old, rows, had > 0, has)
        delta = _no_arcs(nodes, self.graph.set_own(nodes))
        return self._finish(delta, rule.apply(self.graph, delta, features))

    def remove(self, nodes: Nodes) -> Outcome:
        """Remove nodes with their edges, ghosts and features."""
        nodes = np.unique(nodes)
        features = self._features = self.rule.removal(self.graph, nodes[self.graph.owns(nodes)])
        delta = self.graph.remove(nodes)
        return self._finish(delta, self.rule.apply(self.graph, delta, features))

    def unreached(self) -> int:
        """Return how many nodes of a walk model no row reaches, 0 for any other model."""
        return 0 if self.model.table is None else self.exact.unreached(self.graph)

    def tolerate(self, tolerance: float) -> Outcome:
        """Let changes up to this length be withheld; see `ExactRule.allow`."""
        return Outcome(self.exact.allow(self.graph, tolerance), self._nobody)

    def flush(self) -> Outcome:
        """Publish what is withheld."""
        return Outcome(self.exact.flush(self.graph), self._nobody)

    def reading(self) -> Reading:
        """Return what reads vectors."""
        return self.model.spec.reading(self.model, self.rule, self.graph)

    def image(self) -> tuple[StateImage, Nodes]:
        """Return the state without internal ids, and the nodes in the same order."""
        image, nodes = self.loose_image()
        return image.arranged(), nodes

    def loose_image(self) -> tuple[StateImage, Nodes]:
        """Return the image with edges in no order yet; it shares nothing with the state, which may go on."""
        graph, nodes = take_loose_image(self.graph)
        return StateImage(graph, self.rule.image(self.graph, nodes)), nodes

    @classmethod
    def from_graph(cls, model: Model, graph: Graph) -> State:
        """Build a state around a graph that `model.new_graph` made; the state owns it from then on."""
        state = cls(model)
        state.graph = graph
        state.settle()
        return state

    @classmethod
    def from_image(cls, model: Model, image: StateImage, *, settled: bool = True) -> State:
        """Build a state from nothing but its image; if not settled, `settle` must be called before use."""
        state = cls(model)
        nodes = build_graph(image.graph, state.graph)
        state.rule.restore(state.graph, nodes, image.tensors)
        if settled:
            state.settle()
        return state


def last_of_each(nodes: Nodes) -> tuple[Nodes, Int64]:
    """Return the nodes, sorted, and where each stands last: of an id named twice the last one counts."""
    found, from_the_end = np.unique(nodes[::-1], return_index=True)
    return found, len(nodes) - 1 - from_the_end


def _no_arcs(touched: Nodes, arrived: Nodes) -> GraphDelta:
    none, no_weights = np.empty(0, np.int32), np.empty(0, np.int64)
    return GraphDelta(none, 0, 0, 0, none, none, no_weights, no_weights, touched, arrived)
