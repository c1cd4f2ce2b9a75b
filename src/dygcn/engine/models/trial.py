"""Trials: a change is applied, and then rolled back completely."""

from __future__ import annotations

from types import TracebackType

import numpy as np

from dygcn.engine.models.contracts import Outcome, StateWriter
from dygcn.engine.records import Changed, EventBatch, FeatureDelta, Nodes
from dygcn.errors import FeatureError


class Trial:
    """Applies events to a state of the exact rule, and rolls them back on leaving, also by an exception.

    Inside, graph, messages, vectors and scores are what they would be. Afterwards everything is what it
    was, to the bit: the image of the state, its digest, its clocks, the node of every id. Only capacity
    may have grown, and arcs may lie in another order in memory, which no value depends on. The cost is
    that of the update, twice, and of looking up what it touches.

    Trials can be nested; any other change is refused by `OpenTrial` until they are left. An exception
    between two writes leaves the state torn, and `State.complete` then brings back what was there before
    the outermost trial. `restored` says which nodes moved back, after leaving: for caches of vectors.
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
