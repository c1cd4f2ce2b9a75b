"""The durable log, as shards read it: an entry for each of its batches."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter

from dygcn.cluster.messages import Entries, Entry, Events
from dygcn.cluster.queries import ShardProcesses
from dygcn.cluster.wire import unpack as unpack_record
from dygcn.engine.events import join_events, read_events
from dygcn.errors import ClusterError
from dygcn.live.durable.storage.entries import Entry as LogEntry
from dygcn.live.durable.storage.entries import Kind, check_entries, unpack
from dygcn.live.durable.storage.log import EventLog, reading

_RECENT = 64  # batches whose end is kept in memory


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

    def end_of(self, batch: int) -> int:
        """Return the last sequence of a batch; 0 if it was deleted."""
        with self._lock, reading(self):
            first = self._db.execute("SELECT min(seq) FROM entries").fetchone()[0] or 0
            find = partial(self._db.execute, "SELECT batch_id FROM entries WHERE seq = ?")
            there = range(first, self.last + 1)  # along which the numbers of batches grow
            at = bisect_right(there, batch, key=lambda sequence: find((sequence,)).fetchone()[0])
            return there[at - 1] if at else 0


class LoggedEntries:
    """Entries of shards, numbered as the batches of the log."""

    def __init__(self, log: ShardLog) -> None:
        self._log = log
        self._ends = {log.last_batch_id: log.last}  # of recent batches: reads must not wait for the log
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
        self._ends = dict([*self._ends.items()][-_RECENT:]) | {number: self._log.last}
        entries: tuple[Entry, ...] = (entry,)
        if number > self._announced + 1:  # batches between, which move nothing
            entries = *self.read(self._announced, number - self._announced - 1), entry
        self.processes.announce(Entries(self._announced, entries, number))
        self._announced = number
        return number

    def sequence_of(self, batch: int) -> int:
        """Return the last sequence of a batch, or of one before it that is known."""
        ends = self._ends
        return max([batch, *(end for one, end in ends.items() if one <= batch)])  # none is below its number

    def read(self, after: int, count: int) -> Sequence[Entry]:
        """Return entries after a batch."""
        found: list[Entry] = []
        if after < self.end and count > 0:
            entries = self._log.behind(self._log.end_of(after))
            for number, batch in groupby(entries, key=attrgetter("batch_id")):
                if number != after + 1 + len(found):
                    raise ClusterError(
                        f"a shard needs batch {after + 1}, and the log begins at {number}: its snapshots are "
                        "older than the log; restore folder and snapshots from the same backup"
                    )
                found.append(_as_entry(list(batch)))
                if len(found) == count:
                    break
        return found


def _as_entry(batch: list[LogEntry]) -> Entry:
    if batch[0].kind == Kind.SHARDS:
        entry: Entry = unpack_record(batch[0].body)
        return entry
    read = [unpack(entry.body) for entry in batch if entry.kind == Kind.EVENTS]
    if not read:
        return Events(read_events([]))
    return Events(join_events([events for events, _ in read]), read[0][1])
