"""The state: the graph of a model together with what its rule stores; and trials, changes taken back."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

import numpy as np

from dygcn.engine.features.inputs import Given, Walks, to_grid
from dygcn.engine.filter.filter import Filter
from dygcn.engine.graph import Graph
from dygcn.engine.graph.ids import Allocator
from dygcn.engine.graph.image import build_graph, take_loose_image
from dygcn.engine.graph.transaction import Transaction
from dygcn.engine.history import EventHistory
from dygcn.engine.models.contracts import Outcome, Reading, StateImage, StateWriter
from dygcn.engine.models.model import Model
from dygcn.engine.models.readout import new_reading
from dygcn.engine.models.surprise import SurpriseMeter
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
    Stored,
    Written,
)
from dygcn.errors import EventError, FeatureError, TornState

_TORN = "an update was interrupted halfway, so this embedding may not fit its graph, and answers nothing; "
_HOW_TO_HEAL = (
    _TORN + "live = live.recompute() gives a whole one (with all of that update, or nothing of it); "
    "of a durable folder, open it again: dygcn.open(folder)"
)
_HOW_TO_RELOAD = _TORN + "load it again (dygcn.load), or open its folder again (dygcn.open)"

_NOBODY = np.empty(0, np.int32)


class State:
    """The graph of a model, and the rows that its rule keeps for nodes."""

    def __init__(self, model: Model, graph: Graph | None = None) -> None:
        self.model = model
        self.graph = model.new_graph() if graph is None else graph
        self.rule = model.new_rule()
        self.transaction = Transaction(self.graph)
        following = model.following
        self.history = None if following is None else EventHistory(model.ids, following.span)
        self.filter = self.graph.follower = None if model.filter is None else Filter(model.filter)
        self.meter: SurpriseMeter | None = None  # where surprises are tracked

    @property
    def torn(self) -> bool:
        """Whether a change is in progress, or was interrupted by an exception."""
        return self.transaction.torn

    @property
    def changing(self) -> Transaction:
        """The transaction, for a change that stages nothing: an exception leaves the state torn."""
        self.transaction.begun = True
        if (
            self.history is not None
        ):  # a batch that was refused may still be staged: `complete` would count it
            self.history.stage(None)
        return self.transaction

    @property
    def exact(self) -> ExactRule:
        """The rule, if it has features and messages; else raise FeatureError."""
        if not isinstance(self.rule, ExactRule):
            raise FeatureError(
                f"the {self.model.rule} rule keeps vectors: it has no features, and no messages to announce "
                "or to compute anew; fit with rule='exact' for these"
            )
        return self.rule

    def share(self, zeros: Allocator, now: Int64) -> None:
        """Keep rows, ids and marks of nodes where other processes can read them; see `Sums.share`."""
        self.graph.share(zeros, now)
        self.exact.share(zeros, now)

    def check(self) -> None:
        """Raise `TornState` if an exception interrupted a change."""
        if self.transaction.torn:
            raise TornState(_HOW_TO_HEAL if self.model.spec.from_graph else _HOW_TO_RELOAD)

    def apply(self, batch: EventBatch, now: float | None = None) -> Outcome:
        """Apply events: all of them or, if one is bad, none."""
        with self.transaction:
            self.stage(batch, now)
            return self.write()

    def stage(self, batch: EventBatch, now: float | None = None) -> None:
        """Check events and reserve capacity, in a transaction; raise EventError if one is bad."""
        self.transaction.stage(batch, now)
        self.rule.reserve(self.graph)
        if self.history is not None:  # a trial is no event: nothing of it is counted
            self.history.stage(None if self.transaction.trials else batch, now)

    def find_edge(self, a: object, b: object, op: int) -> tuple[int, int, int] | None:
        """Return an edge of weight one, without a time, by its nodes; None: stage it as a batch."""
        graph, rule = self.graph, self.rule
        if graph.ids.kinds is not None or self.history is not None:
            return None  # of which kind an id is, its end of the edge says; a history has ids of its own
        first = graph.find_one(a)
        second = graph.find_one(b) if first >= 0 else -1
        known = second >= 0 and first != second
        return (first, second, op) if known and graph.takes_ones and rule.in_one_call else None

    def stage_edge(self, edge: tuple[int, int, int]) -> None:
        """Stage an edge that `find_edge` returned, without allocating an array."""
        self.transaction.edge = edge
        self.rule.reserve(self.graph)  # a finer weight may have begun to need wider rows

    def write(self) -> Outcome:
        """Write what is staged; raise CapacityError, without writing, if a node would carry too much."""
        outcome = self._finish(*self.rule.write(self.transaction))
        if self.meter is not None:
            outcome.surprises = self.meter.write()
        elif self.history is not None:
            self.history.write()
        return outcome

    def track_surprise(self, on: bool) -> None:
        """Measure how surprising events are from now on, or stop."""
        if not on:
            self.meter = None
        elif self.history is None or self.model.following is None:
            raise FeatureError(
                "this model has learned no score of what comes next, so nothing can surprise it; fit on some "
                "hundred events with times (t=), and let one process serve them"
            )
        else:
            self.meter = SurpriseMeter(self.history, self.model.following)

    def bulk(self, batches: Iterable[EventBatch]) -> tuple[Outcome, Exception | None]:
        """Apply batches to the graph, then compute the state once; also return the error that ended them."""
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
        self.rebuild()
        everyone = self.graph.nodes()
        moved = Changed(everyone, np.ones(len(everyone), np.int8), rule.orders * len(everyone))
        unchanged, missing, loops = counts.tolist()
        nobody, expired = self.transaction.nobody, self.transaction.expired
        return Outcome(moved, nobody, unchanged, missing, loops, expired=expired), failure

    def apply_to_graph(self, batch: EventBatch, now: float | None = None) -> tuple[GraphDelta, IdColumn]:
        """Apply events to the graph alone; return the ids that left. Call `rebuild` after the last."""
        self.transaction.stage(batch, now)
        delta = self.transaction.write()
        if self.history is not None:
            self.history.apply(batch, now)
        return delta, self.transaction.release(delta.left)

    def complete(self) -> None:
        """Finish a change of the graph that an exception interrupted.

        Afterwards graph and features are those with all of the change, or with nothing of it; nothing of
        trials. Messages are not computed: the state stays torn, and `image` gives all that a whole one is
        built from.
        """
        features, rule = self.transaction.features, self.exact
        for before in reversed(self.transaction.trials):
            if before.features is not None:
                rule.given.write(before.features)
        begun = self.transaction.begun
        if self.transaction.complete() and features is not None:
            rule.given.write(features)
        if self.history is not None and begun:
            self.history.write()
        self.transaction.release(_NOBODY)

    def rebuild(self) -> None:
        """Recompute the state from the graph."""
        self.rule.rebuild(self.graph)
        if self.filter is not None:
            self.filter.rebuild(self.graph)

    def _finish(self, written: Written, moved: Changed) -> Outcome:
        left = self.transaction.release(written.left)
        self.transaction.written = True
        counts = written.unchanged, written.missing, written.loops
        return Outcome(moved, left, *counts, expired=self.transaction.expired)

    def set_features(self, ids: IdColumn, values: Float32) -> Outcome:
        """Give nodes features of their own, or replace them."""
        rule, projection = self.exact, self.model.projection
        rows: Stored = to_grid(values, self.model.scales) if projection is None else projection.rows(values)
        nodes, last = last_of_each(self.graph.intern(ids))
        old, _ = rule.messages(self.graph, nodes, 0)
        new = rule.given.with_own(old, rows[last])
        had, has = self.graph.owns(nodes), np.ones(len(nodes), np.bool_)
        features = self.transaction.features = FeatureDelta(nodes, old, new, had, has)
        arrived, weights = self.transaction.set_own(nodes), np.empty(0, np.int64)
        delta = GraphDelta(_NOBODY, 0, 0, 0, _NOBODY, _NOBODY, weights, weights, nodes, arrived)
        return self._finish(delta, rule.apply(self.graph, delta, features))

    def remove(self, nodes: Nodes) -> Outcome:
        """Remove nodes with their edges, ghosts and features."""
        nodes = np.unique(nodes)
        features = self.transaction.features = self.rule.removal(self.graph, nodes[self.graph.owns(nodes)])
        delta = self.transaction.remove(nodes)
        return self._finish(delta, self.rule.apply(self.graph, delta, features))

    def remove_from_graph(self, nodes: Nodes) -> IdColumn:
        """Remove nodes from graph and features alone; return the ids that left. Then call `rebuild`."""
        features = self.rule.removal(self.graph, nodes[self.graph.owns(nodes)])
        left = self.transaction.remove(np.unique(nodes)).left
        if features is not None:
            self.exact.given.write(features)
        return self.transaction.release(left)

    def forget_rows(self, ids: IdColumn) -> None:
        """Remove the rows of ids from the model; none of the ids may be in the graph.

        The model is another one then; compiled loops, which keep the table of rows, find none either.
        """
        if len(ids) == 0 or self.model.named_ids is None:
            return
        self.model = self.model.without(ids)
        if self.model.table is not None:
            features = self.exact.features
            rows = features.walks if isinstance(features, Given) else features
            assert isinstance(rows, Walks)
            rows.drop(ids, self.model.table, self.graph.ids)
        if self.model.filter is not None:
            self.filter = self.graph.follower = Filter(self.model.filter)
            self.filter.rebuild(self.graph)
        if self.transaction.after is not None:
            self.transaction.after()

    @property
    def past_ids(self) -> IdColumn | None:
        """Ids of all nodes that ever had an event, even if they left; None without a history."""
        return None if self.history is None else self.history.names

    def forget_past(self, ids: IdColumn) -> None:
        """Remove ids from the history."""
        if self.history is not None and len(ids):
            self.history = self.history.without(ids)
            self.track_surprise(self.meter is not None)

    def unreached(self) -> int:
        """Return how many nodes of a walk model no row reaches, 0 for any other model."""
        return 0 if self.model.table is None else self.exact.unreached(self.graph)

    def reading(self) -> Reading:
        """Return a reader of vectors."""
        return new_reading(self.model, self.rule, self.graph)

    def to_save(self) -> State:
        """Return the state that a snapshot of a durable folder holds: this one."""
        return self

    def image(self) -> tuple[StateImage, Nodes]:
        """Return the state without internal ids, and the nodes in the same order."""
        image, nodes = self.loose_image()
        return image.arranged(), nodes

    def loose_image(self) -> tuple[StateImage, Nodes]:
        """Return the image with unsorted edges, in arrays of its own."""
        graph, nodes = take_loose_image(self.graph)
        history = None if self.history is None else self.history.image()
        return StateImage(graph, self.rule.image(self.graph, nodes), history), nodes

    @classmethod
    def from_graph(cls, model: Model, graph: Graph) -> State:
        """Build a state around a graph that `model.new_graph` made; the state owns it from then on."""
        state = cls(model, graph)
        state.rebuild()
        return state

    @classmethod
    def from_image(cls, model: Model, image: StateImage, *, rebuilt: bool = True) -> State:
        """Build a state from its image alone; with `rebuilt` False, call `rebuild` before use."""
        state = cls(model)
        nodes = build_graph(image.graph, state.graph)
        state.rule.restore(state.graph, nodes, image.tensors)
        if model.following is not None:  # without a saved past there is no history, not an empty one
            past, span = image.history, model.following.span
            state.history = None if past is None else EventHistory.from_image(model.ids, span, past)
        if rebuilt:
            state.rebuild()
        return state


def last_of_each(nodes: Nodes) -> tuple[Nodes, Int64]:
    """Return the distinct nodes, sorted, and the last index of each: later rows win."""
    found, from_the_end = np.unique(nodes[::-1], return_index=True)
    return found, len(nodes) - 1 - from_the_end


class Trial:
    """Applies events to a state of the exact rule, and rolls them back on leaving, also by an exception.

    Afterwards everything is what it was, to the bit: the image of the state, its digest, its clocks, the node
    of every id. Only capacity may have grown, and arcs may lie in another order in memory. Trials can be
    nested; any other change is refused by `OpenTrial` until they are left. An exception between two writes
    leaves the state torn, and `State.complete` then brings back what was there before the outermost trial.
    `restored` says which nodes moved back, after leaving: for caches of vectors.
    """

    restored: Changed

    def __init__(self, state: StateWriter, batch: EventBatch, now: float | None = None) -> None:
        self._state = state
        self._batch, self._now = batch, now

    def __enter__(self) -> Outcome:
        state, transaction = self._state, self._state.transaction
        if not state.model.spec.from_graph:
            raise FeatureError(
                f"the {state.model.rule} rule keeps vectors that depend on every update, so a trial cannot "
                "be taken back; fit with rule='exact' for trials"
            )
        state.check()
        transaction.open_trial()
        self._before = transaction.trials[-1]
        try:
            outcome = self._write()
        except BaseException as error:
            transaction.__exit__(type(error), error, None)
            raise
        transaction.trials[-1].entered = True
        transaction.begun = transaction.torn = False  # the last line: before it, an exception leaves the mark
        return outcome

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        transaction = self._state.transaction
        if transaction.torn:
            return  # by a trial inside this one: `complete` takes back both
        if not transaction.trials or transaction.trials[-1] is not self._before:
            transaction.torn = True  # a trial inside this one is still open
            return
        transaction.torn = transaction.begun = True
        self.restored = self._write_back()
        transaction.close_trial()
        transaction.end()

    def _write_back(self) -> Changed:
        transaction, rule, graph = self._state.transaction, self._state.rule, self._state.graph
        if transaction.stage_before():
            _, moved = rule.write(transaction)
            transaction.write_contacts()
            return moved
        features = transaction.trials[-1].features
        return rule.apply(graph, transaction.write_before(), features)

    def _write(self) -> Outcome:
        """Save what the change will touch, then apply it."""
        state, transaction = self._state, self._state.transaction
        state.stage(self._batch, self._now)
        transaction.note_before(*transaction.staged_pairs())
        return state.write()


class RemovalTrial(Trial):
    """Removes nodes with their edges, ghosts and features, and rolls that back."""

    def __init__(self, state: StateWriter, nodes: Nodes) -> None:
        self._state, self._nodes = state, np.unique(nodes)

    def _write(self) -> Outcome:
        state, transaction, nodes = self._state, self._state.transaction, self._nodes
        transaction.note_before(*transaction.pairs_of(nodes), nodes)
        taken = state.rule.removal(state.graph, nodes[state.graph.owns(nodes)])
        if taken is not None:
            transaction.trials[-1].features = FeatureDelta(
                taken.nodes, taken.new, taken.old, taken.has, taken.had
            )
        transaction.begun = True
        return state.remove(nodes)
