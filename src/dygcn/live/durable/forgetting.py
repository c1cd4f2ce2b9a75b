"""Forgetting ids: they leave the graph, the model and every file, and no old event brings them back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.events import id_column, python_ids, take
from dygcn.errors import FolderError, StorageError
from dygcn.live.durable.redacting import Redaction, named_in, text_finder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dygcn.engine.records import IdColumn
    from dygcn.live.durable.snapshots import SnapshotWriter
    from dygcn.live.durable.source_batch import SourceBatch
    from dygcn.live.durable.storage.dead_letters import DeadLetter
    from dygcn.live.durable.storage.erasures import Erasures
    from dygcn.live.durable.write_ahead import WriteAhead


@dataclass(frozen=True, slots=True)
class ForgetReceipt:
    """What `forget` did.

    Digests that were noted at an earlier sequence are void: the past that they are of has been redacted.

    Attributes
    ----------
    sequence
        The entry of the log since which the ids are forgotten.
    digest_before, digest_after
        Of the graph and the state with the ids, and without.
    found
        How many of the ids were in the graph.
    entries, dead_letters
        How many entries of the log were redacted, and how many dead letters dropped.
    """

    sequence: int
    digest_before: str
    digest_after: str
    found: int
    entries: int
    dead_letters: int


@dataclass(frozen=True, slots=True)
class ForgottenIds:
    """Counts of forgotten ids."""

    ids: int  # that are in no file any more; one that was forgotten twice counts twice
    sequence: int  # when the last one left: digests noted before are void. -1: none was forgotten
    old_events: int  # events of forgotten ids that were dropped since the folder was opened


class Forgetting:
    """Forgets ids of a durable folder."""

    def __init__(
        self,
        folder: Path,
        ahead: WriteAhead,
        snapshots: SnapshotWriter,
        then_snapshot: Callable[[Callable[[], int]], int],
    ) -> None:
        self._folder, self._ahead, self._snapshots = folder, ahead, snapshots
        self._then_snapshot = then_snapshot
        self._old_events = 0

    def summary(self) -> ForgottenIds:
        """Return counts of forgotten ids."""
        erasures = self._ahead.erasures
        ids = sum(len(one.hashes) for one in erasures.all if one.done)
        return ForgottenIds(ids, erasures.last_sequence, self._old_events)

    def forget(self, *wanted: tuple[IdColumn, float | None]) -> ForgetReceipt:
        """Forget ids, each with the time up to which its events are old; see `DurableEmbedding.forget`."""
        ahead, state = self._ahead, self._ahead.live._state
        for ids, _ in wanted:
            state.graph.ids.check_kind(ids)
        with ahead.one_writer():
            self._snapshots.wait()
            ahead.check_whole()
            before, offsets = ahead.live.digest(), ahead.offsets.streams
            letters = self._drop_letters([one for ids, _ in wanted for one in python_ids(ids).tolist()])
            for ids, t in wanted:
                ahead.erasures.add(ids, t=state.graph.clock if t is None else t, offsets=offsets)
            with ahead.live._guard.lock:
                for ids, _ in wanted:
                    ahead.observer.forgotten(ids)
            absent = [take(ids, np.flatnonzero(state.graph.find(ids) < 0)) for ids, _ in wanted]
            found, entries, others = self._complete()
            with ahead.live._guard.lock:
                for ids in absent:  # a sink may have missed that they left, when the process died, say
                    ahead.feed.note(state.graph.nodes()[:0], ids, ahead.sequence)
            return ForgetReceipt(
                ahead.sequence, before, ahead.live.digest(), found, entries, letters + others
            )

    def _drop_letters(self, ids: list[int | str]) -> int:
        """Drop dead letters that contain the text of an id, which is known only until a restart."""
        finds = text_finder(ids)
        return self._ahead.log.drop_letters(lambda one: finds(one.event) or finds(one.reason))

    def complete(self) -> None:
        """Finish removing ids from files, after the process that forgot them died."""
        if self._ahead.erasures.pending:
            with self._ahead.one_writer():
                self._complete()

    def take_over(self, other: WriteAhead) -> None:
        """Take over the offsets and the erasures of another folder."""
        self._ahead.offsets.take_over(other.offsets)
        self._ahead.erasures.take_over(other.erasures)

    def _complete(self) -> tuple[int, int, int]:
        """Return how many of the ids were in the graph, and how many entries and dead letters changed."""
        ahead, live = self._ahead, self._ahead.live
        redaction, now = Redaction(self._folder, ahead.erasures), ahead.sequence

        def leave() -> int:
            nodes = redaction.nodes_in(live._state, now)
            live.update(remove_nodes=python_ids(live._names(nodes)))
            redaction.forget_rows(live._state, now)
            live.publish()  # what was announced last was made of them, too
            return len(nodes)

        found = 0
        if ahead.erasures.pending_at(now):
            found = self._then_snapshot(leave)
            try:
                ahead.erasures.leave(ahead.sequence)
            except BaseException as error:  # an id that comes from now on is new, and would be taken for old
                ahead.log.fail(error)
                raise
        try:
            redaction.redact_snapshots()
        except (OSError, FolderError) as error:
            raise StorageError(f"{self._folder}: a snapshot cannot be redacted: {error}; try again") from None
        entries, letters = redaction.redact_log(ahead.log)
        ahead.erasures.complete()
        return found, entries, letters

    # ---- events ------------------------------------------------------------------------------------

    def follow(self, part: SourceBatch) -> SourceBatch:
        """Forget the ids of a part's forget events, unless applied before; return the part's other events."""
        last = self._ahead.offsets.last_of(part.stream) if part.stream else None
        if last is None or part.offset > last:
            ids: dict[float | None, list[int | str]] = {}
            for one in part.forgets:
                ids.setdefault(one.t, []).append(one.id)
            self.forget(*((id_column(some), t) for t, some in ids.items()))
        return after_forgetting(part)

    def without_old(self, part: SourceBatch) -> SourceBatch:
        """Return a part without old events of ids that were forgotten, and count these."""
        erasures = self._ahead.erasures
        if not len(erasures):
            return part
        dead = tuple(letter for letter in part.dead if not _is_old(letter, part, erasures))
        self._old_events += len(part.dead) - len(dead)
        part, batch = replace(part, dead=dead), part.batch
        ends = batch.src, batch.dst
        suspects = np.flatnonzero((erasures.find(ends[0]) >= 0) | (erasures.find(ends[1]) >= 0))
        if not len(suspects):
            return part
        times = [None] * len(suspects) if batch.t is None else batch.t[suspects].tolist()
        names = zip(*(python_ids(take(ids, suspects)).tolist() for ids in ends), strict=True)
        columns = zip(suspects.tolist(), names, part.offsets_of(suspects), times, strict=True)
        old = [row for row, ids, offset, t in columns if erasures.are_old(ids, part.stream, offset, t)]
        self._old_events += len(old)
        return part.only(np.setdiff1d(np.arange(len(batch)), old))


def _is_old(letter: DeadLetter, part: SourceBatch, erasures: Erasures) -> bool:
    """Return whether a dead letter names a forgotten id and predates the erasure."""
    offset = letter.offset if part.first is None else part.first + letter.row
    values, t = named_in(letter)
    return erasures.are_old(values, letter.stream, offset, t)


def after_forgetting(part: SourceBatch) -> SourceBatch:
    """Return the events of a part that remain once the ids of its forget events are forgotten.

    Of events before a forget event, those of its id would have been taken out again, and the others do not
    depend on it: they may come after it.
    """
    gone = np.zeros(len(part.batch), np.bool_)
    for one in part.forgets:
        names_it = (python_ids(part.batch.src) == one.id) | (python_ids(part.batch.dst) == one.id)
        gone |= (part.numbers < one.row) & names_it
    return replace(part.only(np.flatnonzero(~gone)), forgets=())
