"""Forgetting ids: they leave the graph, the model and every file, and no old event brings them back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.events import id_column, python_ids
from dygcn.errors import FolderError, StorageError
from dygcn.live.durable.redacting import Redaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from dygcn.engine.records import IdColumn
    from dygcn.live.durable.snapshots import Snapshots
    from dygcn.live.durable.source_batch import SourceBatch
    from dygcn.live.durable.storage.erasures import Erasures
    from dygcn.live.durable.write_ahead import WriteAhead


@dataclass(frozen=True, slots=True)
class ForgetReceipt:
    """What `forget` did, for whoever asked for it.

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
class Forgotten:
    """What a folder knows of ids that were forgotten.

    Attributes
    ----------
    ids
        How many; one that was forgotten twice counts twice.
    sequence
        When the last one left: digests noted before are void. -1: none was forgotten.
    old_events
        Events of forgotten ids that were dropped since the folder was opened.
    """

    ids: int
    sequence: int
    old_events: int


class Forgetting:
    """Forgets ids of a durable folder.

    Parameters
    ----------
    folder, ahead, snapshots
        Of the durable embedding.
    then_snapshot
        Makes a change that only a snapshot holds.
    """

    def __init__(
        self,
        folder: Path,
        ahead: WriteAhead,
        snapshots: Snapshots,
        then_snapshot: Callable[[Callable[[], int]], int],
    ) -> None:
        self._folder, self._ahead, self._snapshots = folder, ahead, snapshots
        self._then_snapshot = then_snapshot
        self._old_events = 0

    def summary(self) -> Forgotten:
        """Return what is known of ids that were forgotten."""
        erasures = self._ahead.erasures
        return Forgotten(
            sum(len(one.hashes) for one in erasures.all), erasures.last_sequence, self._old_events
        )

    def forget(self, ids: IdColumn, t: float | None) -> ForgetReceipt:
        """Forget ids; see `DurableEmbedding.forget`."""
        ahead, state = self._ahead, self._ahead.live.state
        state.graph.ids.check_kind(ids)
        with ahead.one_writer():
            self._snapshots.wait()
            ahead.check_whole()
            before, offsets = ahead.live.digest(), ahead.followed.streams
            limit = state.graph.clock if t is None else t
            ahead.erasures.add(ids, ahead.log.last + 1, t=limit, offsets=offsets)
            counts = self._complete(python_ids(ids).tolist())
            return ForgetReceipt(ahead.sequence, before, ahead.live.digest(), *counts)

    def complete(self) -> None:
        """Take ids out of files where the process that forgot them died before it had."""
        if self._ahead.erasures.pending:
            with self._ahead.one_writer():
                self._complete([])

    def take_over(self, other: WriteAhead) -> None:
        """Take over the offsets and the erasures of another folder."""
        self._ahead.followed.take_over(other.followed)
        self._ahead.erasures.take_over(other.erasures)

    def _complete(self, ids: list[int | str]) -> tuple[int, int, int]:
        """Return how many of the ids were in the graph, and how many entries and dead letters changed."""
        ahead, live = self._ahead, self._ahead.live
        redaction = Redaction(self._folder, ahead.erasures, ids)

        def leave() -> int:
            nodes = redaction.nodes_in(live.state)
            live.remove_nodes(python_ids(live.names(nodes)))
            redaction.forget_rows(live.state)
            return len(nodes)

        found = self._then_snapshot(leave)
        try:
            redaction.redact_snapshots(ahead.sequence)
        except (OSError, FolderError) as error:
            raise StorageError(f"{self._folder}: a snapshot cannot be redacted: {error}; try again") from None
        entries, letters = redaction.redact_log(ahead.log)
        ahead.erasures.complete(ahead.sequence)
        return found, entries, letters

    # ---- events ------------------------------------------------------------------------------------

    def follow(self, part: SourceBatch) -> SourceBatch:
        """Forget the ids that a part asks for, unless it was applied before; return what else is in it."""
        last = self._ahead.followed.last_of(part.stream) if part.stream else None
        if last is None or part.position > last:
            times = [one.t for one in part.forgets if one.t is not None]
            self.forget(id_column([one.id for one in part.forgets]), max(times, default=None))
        return after_forgetting(part)

    def without_old(self, part: SourceBatch) -> SourceBatch:
        """Return a part without old events of ids that were forgotten."""
        part, old = without_old(part, self._ahead.erasures)
        self._old_events += old
        return part


def without_old(part: SourceBatch, erasures: Erasures) -> tuple[SourceBatch, int]:
    """Return a part without old events of ids that were forgotten, and how many these were."""
    batch = part.batch
    if not len(erasures) or not len(batch):
        return part, 0
    ends = erasures.find(batch.src), erasures.find(batch.dst)
    suspects = np.flatnonzero((ends[0] >= 0) | (ends[1] >= 0))
    if not len(suspects):
        return part, 0
    times = [None] * len(suspects) if batch.t is None else batch.t[suspects].tolist()
    old = [
        row
        for row, offset, t in zip(suspects.tolist(), part.offsets_of(suspects), times, strict=True)
        if any(end[row] >= 0 and erasures.is_old(int(end[row]), part.stream, offset, t) for end in ends)
    ]
    return part.only(np.setdiff1d(np.arange(len(batch)), old)), len(old)


def runs(parts: Sequence[SourceBatch]) -> Iterator[list[SourceBatch]]:
    """Yield parts in order; one with forget events stands first in its run."""
    run: list[SourceBatch] = []
    for part in parts:
        if part.forgets and run:
            yield run
            run = []
        run.append(part)
    if run:
        yield run


def after_forgetting(part: SourceBatch) -> SourceBatch:
    """Return a part as it is to be applied once the ids of its forget events are forgotten.

    Of events before a forget event, those of its id would have been taken out again, and the others do not
    depend on it: they may come after it.
    """
    rows = np.arange(len(part.batch)) if part.rows is None else part.rows
    gone = np.zeros(len(part.batch), np.bool_)
    for one in part.forgets:
        names_it = (python_ids(part.batch.src) == one.id) | (python_ids(part.batch.dst) == one.id)
        gone |= (rows < one.row) & names_it
    return replace(part.only(np.flatnonzero(~gone)), forgets=())
