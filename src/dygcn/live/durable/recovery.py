"""Recovers the acknowledged state of a folder: the newest good snapshot, then the log after it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np

from dygcn.engine.events import join_events, join_ids, read_events, take
from dygcn.engine.models.state import State
from dygcn.engine.propagation import influence
from dygcn.engine.records import EventBatch, GraphDelta, IdColumn, Nodes
from dygcn.errors import DamagedFolder, DamagedLog, FolderError
from dygcn.live.changed import FeedImage
from dygcn.live.durable.source_batch import is_packed
from dygcn.live.durable.storage.entries import Entry, Epoch, Kind, pack, unpack, unpack_tolerance
from dygcn.live.durable.storage.layout import list_snapshots
from dygcn.live.durable.storage.log import EventLog
from dygcn.live.durable.storage.sqlite_file import LogReader
from dygcn.live.files import Loaded, load_snapshot
from dygcn.live.model_files import LogPosition

_NO_EVENTS = pack(read_events([]))
_MERGED = 20_000  # events that are replayed as one batch, where borders of batches do not show in the result
_SHARE = 4  # a part of what remains of the log, and no more, is replayed as one batch


@dataclass(slots=True)
class Beginning:
    """The snapshot and log position that recovery starts from."""

    state: State
    version: int
    position: LogPosition
    feed: FeedImage | None = None  # moves up to it; None: unknown
    damage: list[str] = field(default_factory=list)  # snapshots that could not be used, and why
    unusable: list[Path] = field(default_factory=list)  # where they lie


def newest_good(
    folder: Path,
    log: EventLog | LogReader,
    first: Loaded | None = None,
    places: Sequence[tuple[int, Path]] | None = None,
) -> Beginning:
    """Return the newest undamaged snapshot that belongs to the log, among all or some by their sequences.

    Sequence 0 is the state that the folder began with; `first` is that one, if it was read already.
    """
    damage: list[str] = []
    unusable: list[Path] = []
    found = list_snapshots(folder) if places is None else []
    if log.saved > max((sequence for sequence, _ in found), default=0):
        damage.append(f"the snapshot of entry {log.saved} is missing")
    for sequence, path in [*found, (0, folder)] if places is None else places:
        try:
            state, version, position, feed = (first if path == folder else None) or load_snapshot(path)
            if sequence == 0:
                position = position or LogPosition(0, 0, log.genesis.hex(), {}, log.genesis.hex(), 0.0)
            elif position is None or position.sequence != sequence or not makes_sense(position):
                raise DamagedFolder(f"{path} is not the snapshot of entry {sequence}")
        except FolderError as error:
            damage.append(str(error))
            if path != folder:
                unusable.append(path)
            continue
        chain = log.chain_at(position.sequence) if makes_sense(position) else None
        if chain is not None and chain.hex() == position.chain:
            return Beginning(state, version, position, feed, damage, unusable)
        if position.sequence > 0 or log.last == 0:
            raise DamagedLog(
                f"{log.path} does not hold entry {position.sequence}, which {path} was made of; "
                "log and snapshots are not of one folder, or the log lost its end: restore a copy of both"
            )
        damage.append(f"the log no longer reaches back to {path}")
    raise DamagedFolder(f"{folder} has no snapshot that can be used: {'; '.join(damage)}")


def makes_sense(position: LogPosition) -> bool:
    """Return whether a snapshot can hold this position."""
    numbers = position.sequence, position.batch_id, *position.streams.values()
    whole = all(0 <= number < 1 << 63 for number in numbers) and max(numbers[:2]) < 1 << 62
    try:
        epoch_of(position)
    except (DamagedLog, ValueError):
        return False
    return whole and 0 <= position.tolerance < math.inf and is_packed(position.forgotten)


def epoch_of(position: LogPosition) -> Epoch:
    """Return the epoch in which a snapshot was taken."""
    return Epoch.unpack(bytes.fromhex(position.epoch))


LoggedBatch: TypeAlias = list[Entry]  # entries that are applied as one batch


def logged_batches(entries: Iterable[Entry]) -> Iterator[tuple[LoggedBatch, bool]]:
    """Yield the batches that were not refused, and whether that is certain (not for the last one)."""
    pending: list[Entry] = []
    for entry in entries:
        if pending and entry.kind == Kind.REFUSAL and entry.body == str(pending[0].batch_id).encode():
            pending = []
            continue
        if pending and pending[0].batch_id != entry.batch_id:
            if pending[0].kind == Kind.BARRIER:
                raise DamagedLog(
                    f"what entry {pending[0].seq} of the log stands for is only in a snapshot that "
                    "cannot be used; restore a copy"
                )
            yield pending, False
            pending = []
        if entry.kind in (Kind.EVENTS, Kind.BARRIER, Kind.FORGET, Kind.TOLERANCE, Kind.FLUSH):
            pending.append(entry)
    if pending:
        yield pending, True


@dataclass(slots=True)
class ReplayedBatch:
    """Batches that are applied together; `certain` unless the last may have been refused."""

    batch: EventBatch
    now: float | None
    logged_batches: list[LoggedBatch]
    certain: bool = True


def batches(
    found: Iterable[tuple[LoggedBatch, bool]], merge: Callable[[], bool], end: int | None = None
) -> Iterator[ReplayedBatch]:
    """Yield what to apply: each logged batch, or several joined where the result is the same."""
    gathered: list[ReplayedBatch] = []
    for logged, doubtful in found:
        read = [unpack(entry.body if entry.kind == Kind.EVENTS else _NO_EVENTS) for entry in logged]
        now = read[0][1]
        one = ReplayedBatch(join_events([batch for batch, _ in read]), now, [logged], not doubtful)
        mergeable = logged[0].kind in (Kind.EVENTS, Kind.BARRIER)
        alone = not merge() or doubtful or now is not None or not mergeable
        fits = not gathered or (gathered[0].batch.t is None) == (one.batch.t is None)
        if gathered and end is not None:
            start = gathered[0].logged_batches[0][0].seq
            fits = fits and _SHARE * (logged[-1].seq - start) <= end - start
        if gathered and (alone or not fits or sum(len(g.batch) for g in gathered) >= _MERGED):
            yield _joined(gathered)
            gathered = []
        gathered.append(one)
        if alone:
            yield gathered.pop()
    if gathered:
        yield _joined(gathered)


def _joined(gathered: list[ReplayedBatch]) -> ReplayedBatch:
    return ReplayedBatch(
        join_events([one.batch for one in gathered]),
        None,
        [logged for one in gathered for logged in one.logged_batches],
    )


@dataclass(slots=True)
class Standing:
    """The state of a log beside its events, up to an entry: epoch, tolerance, refusals."""

    epoch: Epoch
    tolerance: float
    tolerated: bool  # whether moves may have been kept back from readers
    refused: list[int] = field(default_factory=list)  # barriers whose change never happened

    def follow(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Yield entries unchanged, and read the state from those that are no events."""
        barrier: Entry | None = None
        for entry in entries:
            if entry.kind == Kind.BARRIER:
                barrier = entry
            elif entry.kind == Kind.REFUSAL and barrier and entry.body == str(barrier.batch_id).encode():
                self.refused.append(barrier.seq)
            if entry.kind == Kind.EPOCH:
                self.epoch = Epoch.unpack(entry.body)
            elif entry.kind == Kind.TOLERANCE:
                self.tolerance = unpack_tolerance(entry.body)
                self.tolerated |= self.tolerance > 0
            yield entry


def replay(
    log: EventLog, begin: LogPosition, merge: bool, apply: Callable[[ReplayedBatch], None]
) -> Standing:
    """Pass the changes after a snapshot to `apply`, in order, all checked; return the rest of the state.

    With a tolerance batches are not joined: what is announced depends on where each ends.
    """
    standing = Standing(epoch_of(begin), begin.tolerance, begin.tolerance > 0)
    entries = log.entries(begin.sequence, bytes.fromhex(begin.chain))
    found = logged_batches(standing.follow(entries))
    for one in batches(found, lambda: merge and not standing.tolerance, log.last):
        apply(one)
    return standing


def may_have_moved(
    state: State, one: ReplayedBatch, delta: GraphDelta, left: IdColumn
) -> tuple[Nodes, IdColumn]:
    """Return the nodes that a replay on the graph alone may have moved, and the ids that are gone.

    These are the nodes reached from touched ones along the final edges: both ends of a new or removed edge
    are touched. For one batch they are the nodes that moved when it was first applied; of joined batches
    one may have undone another, so all ends of events count.
    """
    graph, touched = state.graph, np.unique(np.concatenate((delta.receiver, delta.arrived)))
    if len(one.logged_batches) > 1:
        names = join_ids([ids for ids in (one.batch.src, one.batch.dst, left) if len(ids)] or [left])
        ends = graph.find(names)
        touched = np.unique(np.concatenate((ends[ends >= 0], touched)))
        left = take(names, np.flatnonzero(ends < 0))
    rings = influence(graph, touched[graph.present(touched)], state.model.orders).orders
    return np.concatenate(rings), left
