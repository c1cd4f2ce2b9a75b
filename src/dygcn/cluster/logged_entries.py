"""The durable log, as shards read it: an entry for each of its batches."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING

from dygcn.cluster.messages import Entries, Events
from dygcn.cluster.wire import unpack as unpack_record
from dygcn.engine.events import join_events, read_events
from dygcn.errors import ClusterError
from dygcn.live.durable.storage.entries import Kind, check_entries
from dygcn.live.durable.storage.log import EventLog
from dygcn.live.durable.storage.packing import unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dygcn.cluster.messages import Entry
    from dygcn.cluster.queries import ShardProcesses
    from dygcn.live.durable.storage.entries import Entry as LogEntry

_RECENT = 512  # entries that are kept in memory
_EVERY = 256  # batches between two whose sequence is remembered


class ShardLog(EventLog):
    """A durable log that keeps every entry a shard may need: all after the batch that `needed` returns."""

    needed: Callable[[], int] | None = None

    def prune(self, below: int) -> None:
        """Delete entries before a sequence, unless a shard would begin before it."""
        if self.needed is not None:  # the number of a batch is never above a sequence of its entries
            super().prune(min(below, self.needed()))

    def behind(self, sequence: int) -> Iterator[LogEntry]:
        """Yield the entries after a sequence, or all that are left, each checked; for any thread.

        Raises `DamagedLog` at the first one that was changed, or is missing.
        """
        entries = self._some(sequence)
        if not entries:
            return
        chain = self.chain_at(sequence) or b""
        if entries[0].seq != sequence + 1:  # older ones were deleted
            sequence, chain = entries[0].seq, entries[0].chain
        yield from check_entries(self.path, self._some, sequence, chain)


class LoggedEntries:
    """Entries of shards, numbered as the batches of the log."""

    def __init__(self, log: ShardLog) -> None:
        self._log = log
        self._recent: OrderedDict[int, Entry] = OrderedDict()
        self._sequences = {log.last_batch_id: log.last}  # of recent batches, the last of each
        self._places: list[tuple[int, int]] = [(0, 0)]  # batches, and the last sequence before each
        self._lock = threading.Lock()
        self._announced = log.last_batch_id
        self.processes: ShardProcesses | None = None  # which are sent new entries

    @property
    def end(self) -> int:
        """The last batch that is on disk."""
        return self._log.last_batch_id

    def commit(self, entry: Entry) -> int:
        """Send shards an entry that was logged just now; return its number."""
        assert self.processes is not None
        number = self._log.last_batch_id
        with self._lock:
            self._recent[number], self._sequences[number] = entry, self._log.last
            while len(self._recent) > _RECENT:
                self._sequences.pop(self._recent.popitem(last=False)[0], None)
        entries: tuple[Entry, ...] = (entry,)
        if number > self._announced + 1:  # batches between, which move nothing
            entries = *self.read(self._announced, number - self._announced - 1), entry
        self.processes.announce(Entries(self._announced, entries, number))
        self._announced = number
        return number

    def sequence_of(self, batch: int) -> int:
        """Return the last sequence of a batch, or of one before it that is known."""
        with self._lock:
            known = self._sequences.get(batch)
            if known is None:  # no batch has a number above its sequences
                known = max([batch, *(last for one, last in self._sequences.items() if one < batch)])
            return known

    def read(self, after: int, count: int) -> Sequence[Entry]:
        """Return entries after a batch."""
        found: list[Entry] = []
        with self._lock:
            while len(found) < count and after + 1 + len(found) in self._recent:
                found.append(self._recent[after + 1 + len(found)])
        if found or count <= 0:
            return found
        for number, batch in self._batches(after):
            if number > after:
                if number != after + 1 + len(found):
                    raise ClusterError(
                        f"a shard needs batch {after + 1}, and the log begins at {number}: its snapshots are "
                        "older than the log; restore folder and snapshots from the same backup"
                    )
                found.append(_as_entry(batch))
            if len(found) == count:
                break
        return found

    def _batches(self, after: int) -> Iterator[tuple[int, list[LogEntry]]]:
        """Yield batches of the log from one at or before a number on; only the first may be incomplete."""
        with self._lock:
            sequence = self._places[bisect_right(self._places, (after, 1 << 62)) - 1][1]
        gathered: list[LogEntry] = []
        for entry in self._log.behind(sequence):
            if gathered and entry.batch_id != gathered[0].batch_id:
                self._note_place(gathered)
                yield gathered[0].batch_id, gathered
                gathered = []
            gathered.append(entry)
        if gathered:
            yield gathered[0].batch_id, gathered

    def _note_place(self, batch: list[LogEntry]) -> None:
        number = batch[0].batch_id
        with self._lock:
            if number >= self._places[-1][0] + _EVERY:
                self._places.append((number, batch[-1].seq))


def _as_entry(batch: list[LogEntry]) -> Entry:
    """Return the entry for shards of a batch of the log."""
    if batch[0].kind == Kind.SHARDS:
        entry: Entry = unpack_record(batch[0].body)
        return entry
    read = [unpack(entry.body) for entry in batch if entry.kind == Kind.EVENTS]
    if not read:
        return Events(read_events([]))
    return Events(join_events([events for events, _ in read]), read[0][1])
