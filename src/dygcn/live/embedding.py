"""LiveEmbedding: vectors of a graph that never stops changing."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from dygcn._late import late
from dygcn.engine.events import read_update, single_pair
from dygcn.engine.models import Outcome, State, StateImage
from dygcn.engine.models.checks import read_tolerance
from dygcn.errors import OptionError
from dygcn.live import writes
from dygcn.live.change import Change
from dygcn.live.clock import warn_of_jump
from dygcn.live.files import take_snapshot
from dygcn.live.guard import Guard, guarded
from dygcn.live.search.nearest import VectorCache
from dygcn.live.view import EmbeddingView

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    from dygcn.engine.features import Embedding
    from dygcn.engine.records import EventBatch
    from dygcn.engine.training.samples import Progress
    from dygcn.live import fresh_base, health, refitting
else:  # these bring all of training and evaluation, and most who load an embedding never fit one
    fresh_base, health = late("dygcn.live.fresh_base"), late("dygcn.live.health")
    refitting = late("dygcn.live.refitting")


class LiveEmbedding(EmbeddingView):
    """A fitted embedding that follows its graph. Made by `dygcn.fit`, `dygcn.start` and `dygcn.load`.

    Examples
    --------
    >>> import dygcn
    >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=16)
    >>> change = live.update(add=[("cat", "dan")])
    >>> "dan" in live, len(live), live["dan"].shape, live.version
    (True, 4, (16,), 1)
    """

    def __init__(self, state: State, version: int = 0) -> None:
        super().__init__(state, Guard(state))
        self._version = version
        self._cache: VectorCache | None = None
        self._latest: weakref.ReferenceType[Change] | None = None
        self.on_change: Callable[[Outcome], None] | None = None  # called before a change is whole

    # ---- changing ----------------------------------------------------------------------------------

    @guarded
    def update(
        self,
        events: object = None,
        *,
        add: object = None,
        remove: object = None,
        now: float | None = None,
        columns: Sequence[str] | None = None,
    ) -> Change:
        """Apply changes of the graph and return what moved.

        Parameters
        ----------
        events
            Anything that `dygcn.fit` takes as events, in order of arrival; the last one on an edge wins.
        add, remove
            Edges instead of events; removes come first. An added edge that exists gets the new weight.
        now
            The time: it moves the clock, and dates events without `t`. Without it they happen when the last
            one did; a model with memory refuses them.
        columns
            What the columns of tuples, lists or arrays are, as in `dygcn.fit`; for `add` and `remove` alike.

        Returns
        -------
        Change
            Only what moved; its vectors are computed when asked for.

        Raises
        ------
        EventError
            If a row is bad; then the whole batch was left alone.

        Warns
        -----
        ClockWarning
            If a time is so far ahead of all before it that it may be in another unit.
        """
        if events is None and now is None and columns is None:
            pair = single_pair(add, remove)
            change = None if pair is None else self._apply_edge(*pair)
            if change is not None:
                return change
        batch = read_update(events, add, remove, self.model.kind, columns)
        warn_of_jump(self._state, batch, now)
        return self.apply(batch, now)

    def _apply_edge(self, a: object, b: object, op: int) -> Change | None:
        """Apply the commonest of all updates; None: apply it as a batch."""
        ends = self._state.find_edge(a, b)
        if ends is None:
            return None
        self._settle_latest()
        with self._state.changing:
            outcome = self._state.write_edge(*ends, op)
            return None if outcome is None else self._changed(outcome)

    def apply(self, batch: EventBatch, now: float | None, version: int | None = None) -> Change:
        """Apply events that were read and return what moved; see `change` for the version."""
        self._settle_latest()
        ready = self._state.stage(batch, now)
        with self._state.changing:
            outcome = self._state.write(ready)
            change = self._changed(outcome, version)
        # What follows may warn, and a warning may be an error: the update is whole before it.
        if self.model.paper is not None and health.wants_restart(self._state, self._version):
            base = fresh_base.base_or_warning(self._state)
            if base is not None:
                with self._state.changing:
                    change = self._note(fresh_base.renewed(self._state, base, outcome))
        return change

    @guarded
    def bulk(self, parts: Iterable[object], columns: Sequence[str] | None = None) -> Change:
        """Load a large graph: apply events part by part, and compute all messages once, at the end.

        What `update` does for one batch after the other, faster when most of the graph changes. All nodes
        count as moved, and ids that left in between are not told. The exact rule only; if a part is bad, the
        parts before it stay. `columns` is for every part.

        Examples
        --------
        >>> import dygcn
        >>> live = dygcn.start(dygcn.fit([(1, 2), (2, 3)], dim=8).model)
        >>> len(live.bulk([[(1, 2)], [(2, 3), (3, 4)]]))
        4
        """
        loading = writes.Loading(self._state, parts, columns)
        change = self.change(loading)
        loading.end()
        return change

    @guarded
    def set_features(self, ids: object, values: object) -> Change:
        """Give nodes features of their own, or replace them; a node needs no edge to have some."""
        return self.change(writes.features(self._state, ids, values))

    @guarded
    def restart(self, base: Embedding | None = None) -> Change:
        """Put a fresh base in place of all vectors: for the paper's rules, whose vectors drift.

        Parameters
        ----------
        base
            Vectors of your own. Without it the base that was fitted is computed on the graph as it is now
            (a base that is trained on every snapshot is trained, which needs the extra ``torch``).
        """
        return self.change(writes.base(self._state, base))

    @guarded
    def tolerate(self, tolerance: float) -> Change:
        """Withhold changes of messages that are too small to matter, so that hubs cost less.

        A change of a node's message reaches the node's neighbours only once all that was withheld of it is
        longer than `tolerance`, where a feature vector has length one. No message of order 2 is then further
        than that from the exact one, of order 3 not further than twice that, and so on; `error_bound` says
        how far for each node. Lowering the tolerance publishes everything first; 0 is exact again.

        Examples
        --------
        >>> import dygcn
        >>> live = dygcn.fit([(0, spoke) for spoke in range(1, 200)], dim=8)
        >>> _ = live.tolerate(0.05)
        >>> change = live.update(add=[(0, 200)])    # the hub's message hardly moves
        >>> change.rows
        4
        >>> _ = live.flush()
        >>> live.digest() == live.recompute().digest()
        True
        """
        allowed = read_tolerance(tolerance)
        return self.change(lambda: self._state.tolerate(allowed))

    @guarded
    def flush(self) -> Change:
        """Publish every change that a tolerance withheld: the state is exact after it, to the bit."""
        return self.change(self._state.flush)

    @guarded
    def remove_nodes(self, ids: object) -> Change:
        """Remove nodes with their edges, their features and what is remembered of removed edges.

        Ids that are not in the graph are counted in ``change.missing``.
        """
        return self.change(writes.removal(self._state, ids))

    def change(self, write: writes.Write, version: int | None = None) -> Change:
        """Write a change that was read and checked, and return what moved.

        Parameters
        ----------
        write
            What changes the state.
        version
            The number of the change, where a log numbers it; else one more than the last.
        """
        self._settle_latest()
        with self._state.changing:
            return self._changed(write(), version)

    def _settle_latest(self) -> None:
        """Let the last change look up its ids while its nodes still have them."""
        latest = self._latest() if self._latest is not None else None
        if latest is not None:
            latest.keep_ids()

    def _changed(self, outcome: Outcome, version: int | None = None) -> Change:
        self._version = self._version + 1 if version is None else version
        return self._note(outcome)

    def _note(self, outcome: Outcome) -> Change:
        """Tell whoever follows who moved; return the change that belongs to this version."""
        if self.on_change is not None:
            self.on_change(outcome)
        if self._cache is not None:
            self._cache.mark(outcome.moved.nodes)
        change = Change(self, outcome, self._version)
        self._latest = weakref.ref(change)
        return change

    # ---- describing --------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """How many updates were applied."""
        return self._version

    def recompute(self) -> LiveEmbedding:
        """Return a new embedding, built from scratch from the same model and graph (exact rule only).

        It also heals what an interrupted update left: the new embedding is that of the graph with all of the
        update, or with nothing of it.
        """
        if self.model.paper is not None:
            raise OptionError(
                f"the vectors of the {self.model.rule} rule do not follow from the graph alone; "
                "restart() takes a fresh base"
            )
        image, version = self.guard.run_torn(lambda: (self._whole_image(), self._version))
        return LiveEmbedding(State.from_image(self.model, image), version)

    def refit(self, progress: Progress | None = None) -> refitting.Refit:
        """Make the rows of a walk model anew, beside these; see `Refit`. Nothing here is changed."""
        return refitting.refit(self, LiveEmbedding, progress)

    def _whole_image(self) -> StateImage:
        if self._state.torn:
            self._state.complete()
        return self._state.image()[0]

    @guarded
    def save(self, path: str | os.PathLike[str]) -> None:
        """Save model and graph to a folder, in one step. See `dygcn.load`."""
        take_snapshot(self._state, self._version).write(path)

    # ---- for the other modules of this room -----------------------------------------------------------

    def renumber(self, version: int) -> None:
        """Take a version over, that of a log whose events were applied to the state itself."""
        self._version = version

    def cached(self) -> VectorCache:
        """Return the vectors that were read and did not move since."""
        if self._cache is None:
            self._cache = VectorCache(self._state)
        return self._cache
