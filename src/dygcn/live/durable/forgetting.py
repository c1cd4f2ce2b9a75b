"""Forgetting ids: they leave the graph, the model and every file, and no old event brings them back.

Every step of a redaction, which takes the ids out of a file, is idempotent.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from dygcn.engine._disk import sync_names
from dygcn.engine.events import id_column, python_ids, rows_of, take
from dygcn.engine.models.contracts import StateReader, StateWriter
from dygcn.engine.models.folder import MANIFEST, FileEntry
from dygcn.engine.models.state import State
from dygcn.engine.records import Bool, IdColumn, Int64, Nodes
from dygcn.errors import DamagedLog, FolderError, StorageError
from dygcn.live.changed import FeedImage
from dygcn.live.durable.feed import without_forgotten
from dygcn.live.durable.snapshots import SnapshotWriter
from dygcn.live.durable.source_batch import SourceBatch
from dygcn.live.durable.storage.dead_letters import DeadLetter
from dygcn.live.durable.storage.entries import pack, unpack
from dygcn.live.durable.storage.erasures import Erasures
from dygcn.live.durable.storage.layout import DAMAGED, SNAPSHOTS, list_snapshots
from dygcn.live.durable.storage.log import EventLog
from dygcn.live.durable.write_ahead import WriteAhead
from dygcn.live.files import GRAPH_FILE, MODEL_FILE, load_snapshot, same_model_file, take_snapshot


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


_NUMBER = re.compile("-?[0-9]{1,19}")
_BEGIN, _WORD = re.compile(r"(?<![\w-])(?=.)", re.DOTALL), re.compile(r"[\w-]")
_STAGED = ".redacted"  # the files that the folder was begun with, without forgotten ids


class Redaction:
    """Takes the ids of pending erasures out of files."""

    def __init__(self, folder: Path, erasures: Erasures) -> None:
        self._folder, self._erasures = folder, erasures
        self._model_files: dict[str, FileEntry] = {}  # by the checksum that the file had before

    def concerns(self, ids: IdColumn | None, at: int) -> Bool:
        """Return which ids must be removed from a file that was written at a sequence."""
        if ids is None:
            return np.zeros(0, np.bool_)
        return self._erasures.find(ids, self._erasures.pending_at(at)) >= 0

    def nodes_in(self, state: StateReader, at: int) -> Nodes:
        """Return the nodes of a graph to remove."""
        nodes = state.graph.nodes()
        found: Nodes = nodes[self.concerns(state.graph.ids.names(nodes), at)]
        return found

    def forget_rows(self, state: StateWriter, at: int) -> None:
        """Remove rows of a model, and ids of its history, which also names ids without a row."""
        named, past = state.model.named_ids, state.past_ids
        if named is not None:
            state.forget_rows(take(named, np.flatnonzero(self.concerns(named, at))))
        if past is not None:
            state.forget_past(take(past, np.flatnonzero(self.concerns(past, at))))

    # ---- snapshots ---------------------------------------------------------------------------------

    def redact_snapshots(self) -> None:
        """Rewrite every snapshot, and the first one, that names one of the ids."""
        complete_base(self._folder)
        self._redact_base()
        shutil.rmtree(self._folder / SNAPSHOTS / DAMAGED, ignore_errors=True)
        for sequence, path in list_snapshots(self._folder):
            if self._erasures.pending_at(sequence):
                self._redact_snapshot(path)

    def _redact_snapshot(self, path: Path) -> None:
        try:
            self._rewrite(path, path)
        except FolderError:  # it cannot be read, so it may name the ids
            aside = path.rename(path.with_name(f".{path.name}.old"))
            sync_names(path.parent)
            shutil.rmtree(aside, ignore_errors=True)

    def _redact_base(self) -> None:
        try:
            staged = self._rewrite(self._folder, self._folder / _STAGED)
        except FolderError:
            for name in (GRAPH_FILE, MODEL_FILE):
                with suppress(FileNotFoundError):
                    os.unlink(self._folder / name)
            sync_names(self._folder)
            return
        if staged:
            complete_base(self._folder)

    def _rewrite(self, path: Path, target: Path) -> bool:
        """Write a snapshot without the ids to another folder or its own; return whether it named any."""
        state, version, position, feed = load_snapshot(path)
        at = 0 if position is None else position.sequence
        nodes, left = self.nodes_in(state, at), self.concerns(None if feed is None else feed.left, at)
        beside = state.model.named_ids, state.past_ids
        if not len(nodes) and not left.any() and not any(self.concerns(ids, at).any() for ids in beside):
            return False
        before, moved = same_model_file(state.model), _moved_by_node(state, feed)
        if state.model.spec.from_graph:
            state.remove_from_graph(nodes)
        else:
            state.rebuild()
            state.remove(nodes)
        self.forget_rows(state, at)

        def image(of: Nodes) -> tuple[FeedImage, int]:
            assert feed is not None
            assert position is not None
            kept = FeedImage(moved[of], feed.left, feed.left_at)  # nothing unsaid: rows were made of the ids
            return without_forgotten(kept, position.floor, self._erasures)

        taken = take_snapshot(state, version, position, image if feed is not None else None)
        known = None if before is None else self._model_files.get(before.blake2b)
        entry = taken.write(target, self._folder, known)
        if before is not None:
            self._model_files[before.blake2b] = entry
        return True

    # ---- the log -----------------------------------------------------------------------------------

    def redact_log(self, log: EventLog) -> tuple[int, int]:
        """Remove the ids from events and dead letters; return how many entries and dead letters changed."""
        return log.redact(self._left_of, self._names)

    def _left_of(self, at: int, body: bytes) -> bytes | None:
        try:
            batch, now = unpack(body)
        except DamagedLog:  # it may name the ids; reading that past reports it
            return b"" if body else None
        gone = self.concerns(batch.src, at) | self.concerns(batch.dst, at)
        return pack(rows_of(batch, np.flatnonzero(~gone)), now) if gone.any() else None

    def _names(self, letter: DeadLetter) -> bool:
        return not self._erasures.numbers_of(named_in(letter)[0]).isdisjoint(self._erasures.pending_at(0))


def complete_base(folder: Path) -> None:
    """Replace the files that a folder was begun with by staged ones, if there are any."""
    staged = folder / _STAGED
    if not staged.is_dir():
        return
    for name in (MODEL_FILE, GRAPH_FILE, MANIFEST):
        with suppress(FileNotFoundError):  # it is in its place already
            os.replace(staged / name, folder / name)
    sync_names(folder)
    staged.rmdir()


def _moved_by_node(state: State, feed: FeedImage | None) -> Int64:
    moved: Int64 = np.zeros(state.graph.ids.high, np.int64)
    if feed is not None:
        moved[state.graph.nodes()] = feed.moved
    return moved


# ---- ids in the texts of dead letters ---------------------------------------------------------------


def named_in(letter: DeadLetter) -> tuple[Iterator[int | str], float | None]:
    """Return the possible ids in a dead letter (values of its event, words of its texts), and its time."""
    event: object = None
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        event = msgspec.json.decode(letter.event)
    t = event.get("t") if isinstance(event, dict) else None
    return _named(letter, event), t if type(t) in (int, float) else None


def _named(letter: DeadLetter, event: object) -> Iterator[int | str]:
    for word in {*_words(letter.event), *_words(letter.reason)}:
        yield word
        if _NUMBER.fullmatch(word):
            yield int(word)
    with suppress(RecursionError):
        yield from _values(event)


def text_finder(ids: Sequence[int | str]) -> Callable[[str], bool]:
    """Return a function that finds out whether a text contains one of some ids as a word of its own.

    Ids are looked for as they are, and as JSON and Python write them, whole or as bytes. The work does not
    depend on how many there are.
    """
    texts = {form for one in ids for form in _forms(one)}
    lengths = sorted({len(text) for text in texts})

    def finds(text: str) -> bool:
        return any(
            text[begin : begin + length] in texts and not _WORD.match(text, begin + length)
            for begin in (found.start() for found in _BEGIN.finditer(text))
            for length in lengths
        )

    return finds


def _forms(one: int | str) -> set[str]:
    if not isinstance(one, str):
        return {str(one)}
    escaped = {json.dumps(one)[1:-1], msgspec.json.encode(one).decode()[1:-1]}
    return {form for form in {one, *escaped, repr(one)[1:-1], repr(one.encode())[2:-1]} if form}


def _words(text: str) -> list[str]:
    """Return the quoted parts and words of a text, with and without the punctuation around them."""
    found = []
    for quote in ("'", '"', None):
        found += text.split(quote)
    return found + [word.strip("\"'`()[]{}<>,;:") for word in found]


def _values(event: object) -> list[int | str]:
    """Return every number and text in a decoded event."""
    if isinstance(event, dict):
        return [value for part in (*event, *event.values()) for value in _values(part)]
    if isinstance(event, list):
        return [value for part in event for value in _values(part)]
    return [event] if isinstance(event, str) or type(event) is int else []
