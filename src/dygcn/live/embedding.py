"""LiveEmbedding: vectors of a graph that never stops changing."""

from __future__ import annotations

import copy
import os
import warnings
import weakref
from typing import TYPE_CHECKING, Unpack

import numpy as np

from dygcn._extras import late
from dygcn._progress import progress_of
from dygcn.engine.events import ColumnOptions, moment, read_events, read_update, single_pair
from dygcn.engine.features.inputs import CANNOT_BE_SET
from dygcn.engine.features.tables import Embedding
from dygcn.engine.models.checks import read_tolerance
from dygcn.engine.models.contracts import Outcome
from dygcn.engine.models.model import Model
from dygcn.engine.models.projection import feature_rows
from dygcn.engine.models.state import State
from dygcn.engine.records import NO_CHANGE, EventBatch
from dygcn.errors import ClockWarning, FeatureError, FolderError, OptionError, shown
from dygcn.live.change import Change, DistanceTracker, with_listeners
from dygcn.live.changed import Announcer, ChangeRecord, check_orders
from dygcn.live.durable.storage.layout import is_durable
from dygcn.live.files import load_state
from dygcn.live.finding import check_alone, check_parts, many_ids
from dygcn.live.guard import Guard, guarded
from dygcn.live.view import EmbeddingView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dygcn._progress import Asked
    from dygcn.engine.models.contracts import StateReader, StateWriter
    from dygcn.engine.records import Float32, IdColumn, Int64
    from dygcn.live import refitting
    from dygcn.live.changed import Unsaid
else:  # it brings all of training, and most who load an embedding never fit one
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

    def __init__(self, state: StateWriter, version: int = 0) -> None:
        super().__init__(state, Guard(state), version)
        self._changes: ChangeRecord | None = None  # until the first reader
        self._tracker: DistanceTracker | None = None
        self._announcer: Announcer | None = None  # with a tolerance
        self._latest: weakref.ReferenceType[Change] | None = None
        self._on_change: Callable[[Outcome], int] | None = None  # records the moves, returns the version

    # ---- changing ----------------------------------------------------------------------------------

    @guarded
    def update(
        self,
        events: object = None,
        *,
        add: object = None,
        remove: object = None,
        remove_nodes: object = None,
        now: float | None = None,
        **names: Unpack[ColumnOptions],
    ) -> Change:
        """Apply changes of the graph and return what moved.

        Parameters
        ----------
        events
            Anything that `dygcn.fit` takes as events, in order of arrival; the last one on an edge wins.
        add, remove
            Edges instead of events; removes come first. An added edge that exists gets the new weight.
        remove_nodes
            Ids to remove with their edges, their features and what is remembered of removed edges; those that
            are not in the graph are counted in ``change.missing``. Not together with events, edges or a time:
            an update happens as a whole, and this would be two.
        now
            The time: it moves the clock, and dates events without `t`. Without it they happen when the last
            one did; a model with memory refuses them.
        **names
            The options `columns`, `src`, `dst`, `t`, `op`, `weight`, `shared_ids` and `relation` of
            `dygcn.fit`; `columns` is for `add` and `remove` alike. A model with relations looks for the
            column `relation` itself, and every event must have one. Ids in common are looked for in this
            table alone: the graph does not know which of its nodes came as `src`, and which as `dst`.

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
        if remove_nodes is not None:
            check_alone(events, add, remove, now)
            return self._remove_nodes(remove_nodes)
        model = self._state.model
        plain = events is None and now is None and not names and not model.relations
        pair = single_pair(add, remove) if plain else None
        edge = None if pair is None else self._state.find_edge(*pair)
        if edge is not None:
            return self._apply(edge, now)
        batch = read_update(events, add, remove, model.ids, model.directed, model.relations, **names)
        if now is not None or batch.t is not None:
            warn_of_jump(self._state, batch, now)
        return self._apply(batch, now)

    def _apply(self, batch: EventBatch | tuple[int, int, int], now: float | None) -> Change:
        """Apply events, or one edge by its nodes."""
        self._before_change()
        state = self._state
        with state.transaction:
            if isinstance(batch, EventBatch):
                state.stage(batch, now)
            else:
                state.stage_edge(batch)
            outcome = state.write()
            change = self._changed(outcome, self._version + 1)
        if state.model.spec.drifts:  # it may warn, and a warning may be an error: the update is whole before
            state.model.spec.after_update(state, self._version)
        return change

    @guarded
    def bulk(self, parts: Iterable[object], **names: Unpack[ColumnOptions]) -> Change:
        """Load a large graph: apply events part by part, and compute all messages once, at the end.

        What `update` does for one batch after the other, faster when most of the graph changes. All nodes
        count as moved, and ids that left in between are not in it. The exact rule only; if a part is bad, the
        parts before it stay. `names` are for every part, as in `update`.

        Examples
        --------
        >>> import dygcn
        >>> live = dygcn.start(dygcn.fit([(1, 2), (2, 3)], dim=8).model)
        >>> len(live.bulk([[(1, 2)], [(2, 3), (3, 4)]]))
        4
        """
        _ = self._state.exact
        check_parts(parts)
        self._before_change()
        with self._state.changing:
            how = self.model.ids, self.model.directed, self.model.relations
            read = (read_events(part, *how, **names) for part in parts)
            outcome, failure = self._state.bulk(read)
            change = self._changed(outcome, self._version + 1)
        if failure is not None:
            raise failure
        return change

    @guarded
    def set_features(self, ids: object = None, values: object = None, *, nodes: object = None) -> Change:
        """Give nodes features of their own, or replace them; a node needs no edge to have some.

        Parameters
        ----------
        ids, values
            Ids, and a row of numbers for each: as many as the features had in `fit`.
        nodes
            Instead of both, a table with the columns that `nodes` had in `fit`.

        Examples
        --------
        >>> import dygcn
        >>> people = {"id": ["ann", "bob", "cat"], "age": [30, 40, 50], "town": ["Rome", "Oslo", "Rome"]}
        >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=8, nodes=people)
        >>> change = live.set_features(nodes={"id": ["dan"], "age": [35], "town": ["Lima"]})
        >>> change.ids.tolist(), bool(live["dan"].any())
        (['dan'], True)
        """
        read = self._read_features(ids, values, nodes)
        return self._write(lambda: self._state.set_features(*read))

    def _read_features(self, ids: object, values: object, nodes: object) -> tuple[IdColumn, Float32]:
        """Read what `set_features` takes, and refuse it, before anything is written."""
        if self.model.features in CANNOT_BE_SET:
            raise FeatureError(CANNOT_BE_SET[self.model.features])
        _ = self._state.exact  # the paper's rules have none
        column, matrix = feature_rows(self.model.projection, self.model.ids, ids, values, nodes)
        if self.model.projection is None and matrix.shape[1] != self.model.width:
            raise FeatureError(
                f"values have {matrix.shape[1]} columns; this model has width {self.model.width}"
            )
        return column, matrix

    @guarded
    def restart(self, base: Embedding | None = None) -> Change:
        """Put a fresh base in place of all vectors: for the paper's rules, whose vectors drift.

        Parameters
        ----------
        base
            Vectors of your own. Without it the base that was fitted is computed on the graph as it is now
            (a base that is trained on every snapshot is trained, which needs the extra ``torch``).
        """
        return self._write(self._fresh_base(base))

    def _fresh_base(self, base: Embedding | None) -> Callable[[], Outcome]:
        """Read or compute the base of a restart; return what writes it."""
        if not self.model.spec.drifts:
            raise OptionError(f"the {self.model.rule} rule never drifts, so it has nothing to restart")
        return self.model.spec.restart(self._state, base)

    @guarded
    def publish(self, tolerance: float | None = None) -> Change:
        """Publish every move that was kept back; with a tolerance, keep back smaller ones from now on.

        Reads are exact, whatever the tolerance is. Changes, the feed, sinks and the index follow what is
        published, and after this call that is exact, to the bit; `error_bound` says how far from the exact
        vector a published one may be later.

        Parameters
        ----------
        tolerance
            The neighbours of a node with 128 edges or more count as moved once the node's message is further
            than this from where it was when they last did, where a feature vector has length one; at 0, the
            default of an embedding, whenever it moves. None: the tolerance stays as it is.

        Examples
        --------
        >>> import dygcn
        >>> live = dygcn.fit([(0, spoke) for spoke in range(1, 200)] + [(300, 301), (301, 302)], dim=8)
        >>> len(live.update(add=[(0, 300)]))    # the hub's message hardly moves, and each neighbour a little
        202
        >>> _ = live.publish(tolerance=0.1)
        >>> live.update(add=[(0, 302)]).ids.tolist()
        [0, 301, 302]
        >>> len(live.publish())
        201
        """
        allowed = None if tolerance is None else check_orders(self._state, read_tolerance(tolerance))

        def publish() -> Outcome:
            moved = NO_CHANGE if self._announcer is None else self._announcer.flush()
            if allowed is not None:
                self._announce_beyond(allowed)
            return Outcome(moved, self._state.transaction.nobody)

        return self._write(publish, published=True)

    def _announce_beyond(self, tolerance: float, unsaid: Unsaid | None = None) -> None:
        """Set the tolerance; the caller has published all moves that an earlier one kept back."""
        self._announcer = Announcer(self._state, tolerance, unsaid) if tolerance else None

    def _unsaid(self) -> Unsaid | None:
        """Return the announcements that are kept back; None without a tolerance."""
        return None if self._announcer is None else self._announcer.image()

    def _announces(self) -> Announcer | None:
        return self._announcer

    @guarded
    def _remove_nodes(self, ids: object) -> Change:
        column = many_ids(self._state, ids)
        nodes = self._state.graph.find(column) if len(column) else np.empty(0, np.int32)
        known = nodes[nodes >= 0]
        change = self._write(lambda: self._state.remove(known))
        change.missing = len(nodes) - len(known)
        return change

    def _write(self, write: Callable[[], Outcome], published: bool = False) -> Change:
        """Apply a change that was read and checked, or publish moves that were kept back."""
        self._before_change()
        with self._state.changing:
            return self._changed(write(), self._version + 1, published)

    def _before_change(self) -> None:
        """Save the ids and distances of the last change before the state changes; track vectors if wanted."""
        latest = self._latest() if self._latest is not None else None
        if latest is not None:
            latest._keep()
        if self._tracker is not None:
            self._tracker.begin()

    def _changed(self, outcome: Outcome, version: int, published: bool = False) -> Change:
        """Record the nodes that moved; return the change, with its version."""
        moved = outcome.moved
        if self._changes is not None:
            self._changes.note(moved.nodes, moved.heavy, moved.turned)
        if self._tracker is not None:
            self._tracker.note(moved)
        if self._announcer is not None and not published:
            moved = outcome.moved = self._announcer.follow(moved)
        if self._on_change is not None:
            version = self._on_change(outcome)
        elif self._changes is not None:
            self._changes.announce(moved.nodes, version, moved.heavy)
        self._version = version
        before = None
        if self._tracker is not None:
            moved = outcome.moved = with_listeners(self._state.graph, moved)
            before = self._tracker.before(moved.nodes)
        change = Change(self, outcome, self._version, before)
        self._latest = weakref.ref(change)
        return change

    def _renumber(self, version: int) -> None:
        """Set the version to that of a log."""
        self._version = version

    @guarded
    def track(self, *, distances: bool | None = None, surprise: bool | None = None) -> None:
        """Let every update measure how far vectors move, or how surprising its events are; or no longer.

        Parameters
        ----------
        distances
            For `Change.distance`: all vectors are read once, now; then each update reads those that the last
            one moved. None: as before.
        surprise
            For `Change.surprise`, of a model that was fitted on events with times. Each event then costs some
            hundred microseconds more: it is compared with the asker's former partners, and with 256 others.
            None: as before.

        Examples
        --------
        >>> import dygcn
        >>> days = [(who, f"desk of {who}", float(day)) for day in range(99) for who in ("ann", "bob")]
        >>> live = dygcn.fit(days, columns=("src", "dst", "t"), dim=8)
        >>> live.track(distances=True, surprise=True)
        >>> change = live.update(add=[("ann", "desk of ann"), ("ann", "desk of bob")], now=99.0)
        >>> usual, odd = change.surprise.value
        >>> bool(odd > usual + 2), len(change.distance) == len(change)
        (True, True)
        """
        if surprise is not None:
            self._state.track_surprise(surprise)
        if distances is not None:
            self._tracker = DistanceTracker(self._state) if distances else None

    # ---- the rest ------------------------------------------------------------------------------------

    def recompute(self: EmbeddingView) -> LiveEmbedding:
        """Return a new embedding, built from scratch from the same model and graph (exact rule only).

        It also heals what an interrupted update left: the new embedding is that of the graph with all of the
        update, or with nothing of it.
        """
        if not self.model.spec.from_graph:
            raise OptionError(
                f"the vectors of the {self.model.rule} rule do not follow from the graph alone; "
                "restart() takes a fresh base"
            )

        with self._guard.held():
            if self._state.torn:
                self._state.complete()
            else:
                self._guard.check()
            image = self._state.image()[0]
        return LiveEmbedding(State.from_image(self.model, image), self.version)

    def refit(self: EmbeddingView, progress: Asked = "auto") -> refitting.Refit[LiveEmbedding]:
        """Make new rows of a walk model, next to the old ones; see `Refit`. The embedding does not change.

        `progress` is as in `dygcn.fit`.
        """

        def make(state: State, tolerance: float) -> LiveEmbedding:
            live = LiveEmbedding(state)
            live._announce_beyond(tolerance)
            return live

        with progress_of(progress, refitting.PHASES) as notify:
            return refitting.refit(self, make, notify)

    @guarded
    def __deepcopy__(self, memo: dict[int, object]) -> LiveEmbedding:
        made = LiveEmbedding(copy.deepcopy(self._state, memo), self._version)
        made._changes = copy.deepcopy(self._changes, memo)  # an index that is copied along reads the same one
        made._cache = copy.deepcopy(self._cache, memo)
        made._announcer = copy.deepcopy(self._announcer, memo)
        return made

    def _change_record(self, sequence: int | Int64 = 0) -> ChangeRecord:
        """Return the record of changes; earlier moves are dated `sequence` (one number, or one by node)."""
        if self._changes is None:
            self._changes = ChangeRecord(self._state.graph.ids.high, sequence, self._state.graph)
        return self._changes


def start(model: Model) -> LiveEmbedding:
    """Return a live embedding of the model on an empty graph.

    A model that keeps an embedding fresh starts with the nodes of that embedding, without edges. One of the
    paper's rules has no vectors yet: give it a graph (`update`), then a base (`restart`).

    Examples
    --------
    >>> import dygcn
    >>> live = dygcn.fit([(1, 2), (2, 3)], dim=8)
    >>> again = dygcn.start(live.model)
    >>> _ = again.update(add=[(2, 3), (1, 2)])
    >>> again.digest() == live.digest()
    True
    """
    if not isinstance(model, Model):
        raise OptionError(f"model is {shown(model)}; allowed is live.model, or dygcn.load(path).model")
    state = State(model)
    if model.baseline is not None:
        state.set_features(model.baseline.ids, model.baseline.vectors)
    return LiveEmbedding(state)


def load(path: str | os.PathLike[str]) -> LiveEmbedding:
    """Load what `LiveEmbedding.save` wrote. Every byte is checked before use; nothing is unpickled.

    Raises
    ------
    MissingFolder
        If there is none.
    DamagedFolder
        If it is truncated, altered or contradicts itself.
    UnsupportedFolder
        If it was written in another format version.

    Examples
    --------
    >>> import dygcn, tempfile
    >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     live.save(f"{folder}/friends.dygcn")
    ...     same = dygcn.load(f"{folder}/friends.dygcn")
    >>> same.digest() == live.digest()
    True
    """
    if is_durable(path):
        raise FolderError(f"{path} is durable: its log is newer than what is saved; use dygcn.open")
    return LiveEmbedding(*load_state(path))


SPANS, TIMES = 1000.0, 10.0


def usual_jump(state: StateReader) -> float | None:
    """Return the largest plausible jump of the clock; None if there is no clock or no time was seen yet.

    A thousand half-lives of the memory, a thousand training steps, or nine times the clock itself, whichever
    is most: seconds that become milliseconds are beyond it, a service that was off for a year is not.
    """
    model, clock = state.model, state.graph.clock
    if clock is None:
        return None
    spans = SPANS * (model.half_life or 0.0), SPANS * (model.unit or 0.0)
    return max(*spans, (TIMES - 1.0) * abs(clock))


def warn_of_jump(state: StateReader, batch: EventBatch, now: float | None) -> None:
    """Warn, before anything changes, if times are implausibly far ahead of the clock."""
    if now is None and batch.t is None:
        return
    jump = usual_jump(state)
    if jump is None:
        return
    seen = [] if now is None else [moment(now)]
    if batch.t is not None and len(batch):
        seen.append(float(batch.t.max()))
    latest = max(seen, default=-float("inf"))
    clock = state.graph.clock
    assert clock is not None
    if latest > clock + jump:
        warnings.warn(
            f"t is {latest:g} and the clock is at {clock:g}: is t in another unit? The clock never goes "
            "back, and takes with it what is remembered of removed edges, and edges that expire",
            ClockWarning,
            stacklevel=4,
        )
