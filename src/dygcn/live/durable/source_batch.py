"""Batches of events from sources and requests, on their way into a durable embedding, and their receipts."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import operator
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np

from dygcn.engine.events import as_dicts, moment, rows_of
from dygcn.engine.records import EventBatch, ForgetEvent, Int64
from dygcn.errors import EventError, OptionError, shown
from dygcn.live.durable.storage.dead_letters import DeadLetter
from dygcn.live.durable.storage.log import EventLog

APPLIED, REPEATED, GAP, FULL, FORGOTTEN = "applied", "repeated", "gap", "full", "forgotten"
LONGEST_STREAM = 200  # bytes
MOST_EVENTS = 100_000  # in an entry of the log: with the longest ids they fit
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """The events of one message or request."""

    batch: EventBatch
    stream: str = ""  # where they are from; "": repeats are not noticed
    offset: int = -1  # of the last event in that stream
    first: int | None = None  # numbers first..offset count the events, bad ones too; None: any gaps
    rows: Int64 | None = None  # (len(batch),) where each stood in its message; None: 0, 1, 2, ...
    dead: tuple[DeadLetter, ...] = ()
    now: float | None = None
    message: int = -1  # the place that dead letters name, where the part does not reach it itself
    origins: Int64 | None = None  # (len(batch),) the place of each one's own message, where there are several
    resumes: bool = False  # the sender knows that its stream was forgotten, and goes on where it ended
    replayed: tuple[tuple[int, DeadLetter], ...] = ()  # letters by number; `rows` and `dead` count in these
    forgets: tuple[ForgetEvent, ...] = ()  # of the one message that this is

    @property
    def numbers(self) -> Int64:
        """(len(batch),) where each event stood in its message."""
        return np.arange(len(self.batch)) if self.rows is None else self.rows

    def check(self) -> None:
        """Refuse a stream or a position that cannot be kept."""
        if not isinstance(self.stream, str):
            raise OptionError(f"stream is {shown(self.stream)}; allowed is text")
        if len(self.stream.encode("utf-8", "replace")) > LONGEST_STREAM or not self.stream.isprintable():
            raise OptionError(
                f"{self.stream[:40]!r}... names a stream; allowed are up to {LONGEST_STREAM} printable bytes"
            )
        if type(self.offset) is not int or not -1 <= self.offset <= _LARGEST:
            raise OptionError(f"offset is {self.offset}; allowed is a whole number from 0 to 2^63 - 1")
        if bool(self.stream) != (self.offset >= 0):
            raise OptionError("a stream and an offset belong together: pass both, or neither")

    def after(self, last: int) -> SourceBatch:
        """Return the part without events up to an offset, which were applied before."""
        if self.first is None or last < self.first:
            return self
        done = last - self.first + 1
        dead = tuple(letter for letter in self.dead if letter.row >= done)
        return dataclasses.replace(self.only(np.flatnonzero(self.numbers >= done)), dead=dead)

    def offsets_of(self, events: Int64) -> list[int]:
        """Return the offset of each of these events in its stream; -1 without one."""
        if self.first is not None:
            found: list[int] = (self.first + self.numbers[events]).tolist()
            return found
        return [self.offset] * len(events) if self.origins is None else self.origins[events].tolist()

    def with_dead_forgets(self, reason: str) -> SourceBatch:
        """Return the part with its forget events as dead letters."""
        letters = (
            self._letter(self.offset, one.row, reason, f'{{"op":"forget","id":{as_json(one.id)}}}')
            for one in self.forgets
        )
        return dataclasses.replace(self, dead=(*self.dead, *letters), forgets=())

    def only(self, keep: Int64) -> SourceBatch:
        """Return the part with some of its events."""
        origins = None if self.origins is None else self.origins[keep]
        rows = self.numbers[keep]
        return dataclasses.replace(self, batch=rows_of(self.batch, keep), rows=rows, origins=origins)

    def of_letters(self, left: Container[int]) -> SourceBatch:
        """Return the replay restricted to those dead letters that still exist."""
        gone = {row for row, (number, _) in enumerate(self.replayed) if number not in left}
        if not gone:
            return self
        assert self.rows is not None
        keep = [i for i, row in enumerate(self.rows.tolist()) if row not in gone]
        names = {_name(letter) for row, (_, letter) in enumerate(self.replayed) if row in gone}
        dead = tuple(letter for letter in self.dead if _name(letter) not in names)
        rest = np.array([row for row in range(len(self.replayed)) if row not in gone], np.int64)
        return dataclasses.replace(
            self.only(np.array(keep, np.int64)),
            rows=np.searchsorted(rest, self.rows[keep]).astype(np.int64),
            dead=dead,
            replayed=tuple(self.replayed[row] for row in rest.tolist()),
        )

    def chunks(self) -> Iterator[SourceBatch]:
        """Yield the part, split if it is too long for one entry; the last chunk has the part's offset."""
        n = len(self.batch)
        if n <= MOST_EVENTS:
            yield self
            return
        for start in range(0, n, MOST_EVENTS):
            batch = rows_of(self.batch, np.arange(start, min(start + MOST_EVENTS, n)))
            position = self.offset if start + MOST_EVENTS >= n else -1
            yield dataclasses.replace(self, batch=batch, offset=position)

    def _letter(self, origin: int, row: int, reason: str, event: str) -> DeadLetter:
        """Return a dead letter; one that was replayed keeps its stream, offset and row."""
        if self.replayed:
            return dataclasses.replace(self.replayed[row][1], reason=reason, event=event)
        return DeadLetter(self.stream, origin, row, reason, event)

    def without(self, refused: Mapping[int, str], sequence: int) -> SourceBatch:
        """Return the part with some of its events as dead letters."""
        if not refused:
            return self
        gone = np.fromiter(refused, np.int64, len(refused))
        offset = max(self.offset, self.message)
        offset = offset if offset >= 0 else sequence
        origins = [offset] * len(gone) if self.origins is None else self.origins[gone].tolist()
        columns = zip(
            origins, self.numbers[gone].tolist(), refused.values(), as_texts(self.batch, gone), strict=True
        )
        letters = tuple(self._letter(*letter) for letter in columns)
        kept = self.only(np.setdiff1d(np.arange(len(self.batch)), gone))
        return dataclasses.replace(kept, dead=(*self.dead, *letters))


def as_json(value: object) -> str:
    """Return a value as JSON text."""
    return msgspec.json.encode(value).decode()


def _name(letter: DeadLetter) -> tuple[str, int, int]:
    return letter.stream, letter.offset, letter.row


def without_refused(parts: Sequence[SourceBatch], refused: Mapping[int, str], last: int) -> list[SourceBatch]:
    """Return parts with the refused events as dead letters."""
    begins = np.cumsum([0, *(len(part.batch) for part in parts)])
    owners = np.searchsorted(begins, list(refused), side="right") - 1
    own: list[dict[int, str]] = [{} for _ in parts]
    for owner, (row, reason) in zip(owners.tolist(), refused.items(), strict=True):
        own[owner][row - int(begins[owner])] = reason
    return [part.without(own[i], last + 1 + i) for i, part in enumerate(parts)]


def one_by_one(
    parts: Sequence[SourceBatch],
    error: EventError,
    commit: Callable[[list[SourceBatch]], object],
    log: EventLog,
) -> list[SourceBatch]:
    """Commit parts of a refused batch one at a time; return them as applied.

    Of a part that is refused alone, all events become dead letters: some work for each part, never for each
    event.
    """
    done = []
    for part in parts:
        applied = dataclasses.replace(part, dead=())  # its dead letters are written
        try:
            if len(parts) == 1:
                raise error
            commit([applied])
        except EventError as refusal:
            every = dict.fromkeys(range(len(part.batch)), refusal.reason)
            applied = applied.without(every, log.last + 1)
            commit([applied])
        done.append(dataclasses.replace(applied, dead=(*part.dead, *applied.dead)))
    return done


def read_offset(offset: object) -> int:
    """Return an offset as a Python int, which the log can store; raise OptionError if it is no integer."""
    try:
        return operator.index(offset)  # type: ignore[arg-type]
    except TypeError:
        raise OptionError(f"offset is {offset!r}; allowed is a whole number") from None


def as_texts(batch: EventBatch, rows: Int64) -> list[str]:
    """Return some events of a batch as JSON."""
    return [as_json(event) for event in as_dicts(rows_of(batch, rows))]


def groups(fresh: Iterable[tuple[SourceBatch, Receipt]]) -> Iterator[list[tuple[SourceBatch, Receipt]]]:
    """Yield lists of parts that can form one batch: ids of one type, all with times or none, no `now`."""
    group: list[tuple[SourceBatch, Receipt]] = []
    for part, receipt in fresh:
        if group:
            first = group[0][0]
            alike = {(one.batch.t is None, one.batch.src.kind) for one, _ in group if len(one.batch)}
            fits = len(part.batch) == 0 or not alike or (part.batch.t is None, part.batch.src.kind) in alike
            if not fits or first.now is not None or part.now is not None:
                yield group
                group = []
        group.append((part, receipt))
    if group:
        yield group


@dataclass(slots=True)
class Receipt:
    """The result of a part."""

    status: str  # applied, repeated (it was before), gap (earlier ones are missing), full, forgotten
    sequence: int = 0  # reads at or behind this sequence reflect it
    applied: int = 0  # events
    dead: int = 0  # events that went to the dead letters
    expected: int = 0  # where there is a gap, or the stream was forgotten: the number to go on with


CLIENT = "http:"  # streams of HTTP clients begin with it
MOST_CLIENTS = 10_000
MOST_STREAMS = 10_000  # of brokers
MOST_FORGOTTEN = 100_000
IDLE_SECONDS = 30 * 86_400.0


def is_client(stream: str) -> bool:
    """Return whether a stream is one of an HTTP client."""
    return stream.startswith(CLIENT)


class StreamOffsets:
    """The offset of each stream, the time each client was last heard, and offsets of forgotten streams."""

    def __init__(
        self, streams: dict[str, int], heard: list[float] | None = None, forgotten: str = ""
    ) -> None:
        self.streams = dict(streams)
        self.idle_seconds = IDLE_SECONDS
        clients = [name for name in streams if is_client(name)]
        now = time.time()
        times = [now] * len(clients) if heard is None or len(heard) != len(clients) else heard
        self._heard = dict(sorted(zip(clients, times, strict=True), key=lambda one: one[1]))
        self._forgotten: dict[int, int] = {}  # fingerprint -> the last number, in the order of forgetting
        if forgotten:
            pairs = np.frombuffer(base64.b64decode(forgotten), np.int64).reshape(-1, 2)
            self._forgotten = dict(zip(*pairs.T.tolist(), strict=True))

    @property
    def clients(self) -> int:
        """How many of the streams are those of clients."""
        return len(self._heard)

    def reach(self, stream: str, position: int) -> None:
        """Record that a stream was applied up to an offset, just now."""
        self.streams[stream] = position
        if self._forgotten:
            self._forgotten.pop(_fingerprint(stream), None)
        self.hear(stream)

    def hear(self, *streams: str) -> None:
        """Record that streams were heard just now."""
        for stream in filter(is_client, streams):
            self._heard.pop(stream, None)  # the longest silent one stands first
            self._heard[stream] = time.time()

    def forget(self, *streams: str) -> None:
        """Forget streams."""
        for stream in streams:
            self._heard.pop(stream, None)
            self._forgotten[_fingerprint(stream)] = self.streams.pop(stream)
        while len(self._forgotten) > MOST_FORGOTTEN:
            del self._forgotten[next(iter(self._forgotten))]

    def last_of(self, stream: str) -> int | None:
        """Return a stream's offset, also if the stream was forgotten since; None for a new stream."""
        last = self.streams.get(stream)
        return self._forgotten.get(_fingerprint(stream)) if last is None and self._forgotten else last

    def silent(self) -> Iterator[str]:
        """Yield the clients that have been silent long enough to be forgotten, the longest silent first."""
        now = time.time()
        for name, heard in self._heard.items():
            if now - heard < self.idle_seconds:
                return
            yield name

    def take_over(self, other: StreamOffsets) -> None:
        """Replace all offsets by those of another object."""
        streams, heard, forgotten = other.image()
        self.__init__(streams, heard, forgotten)  # type: ignore[misc]

    def image(self) -> tuple[dict[str, int], list[float], str]:
        """Return the state from which an equal object can be made."""
        heard = [self._heard[name] for name in self.streams if is_client(name)]
        pairs = np.array(list(self._forgotten.items()), np.int64)
        return dict(self.streams), heard, base64.b64encode(pairs.tobytes()).decode()


def is_packed(forgotten: str) -> bool:
    """Return whether a text has the form of forgotten streams in `StreamOffsets.image`."""
    try:
        return len(base64.b64decode(forgotten, validate=True)) % 16 == 0
    except ValueError:
        return False


def _fingerprint(stream: str) -> int:
    digest = hashlib.blake2b(stream.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


class Screened(NamedTuple):
    """The decision on each batch."""

    receipts: list[Receipt]  # one for each part
    fresh: list[tuple[SourceBatch, Receipt]]  # those to apply, without what was applied before
    leaving: list[str]  # clients to forget first, so that others have their places
    repeated: list[str]  # streams that sent what was applied before


def screen(parts: Sequence[SourceBatch], offsets: StreamOffsets) -> Screened:
    """Classify batches in order of arrival, without changing anything."""
    admission = _Admission(offsets, {part.stream for part in parts})
    found = Screened([], [], admission.leaving, [])
    reached: dict[str, int] = {}
    for part in parts:
        part.check()
        if part.now is not None:
            part = dataclasses.replace(part, now=moment(part.now))
        receipt = Receipt(APPLIED)
        found.receipts.append(receipt)
        if part.stream:
            here = part.stream in reached or part.stream in offsets.streams
            last = reached[part.stream] if part.stream in reached else offsets.last_of(part.stream)
            receipt.status, receipt.expected = _judge(part, last, here)
            if receipt.status == REPEATED and part.stream in offsets.streams:
                found.repeated.append(part.stream)
            if receipt.status == APPLIED and not here and not admission.admit(part.stream):
                receipt.status = FULL
            if receipt.status != APPLIED:
                continue
            part = part if last is None else part.after(last)
            reached[part.stream] = part.offset
        found.fresh.append((part, receipt))
    return found


def _judge(part: SourceBatch, last: int | None, here: bool) -> tuple[str, int]:
    """Classify a batch as new, repeated, ahead or forgotten; the last two with the expected offset."""
    if part.first is None:
        return (REPEATED, 0) if last is not None and part.offset <= last else (APPLIED, 0)
    expected = 0 if last is None else last + 1  # what overtakes the first of its own would hide it
    if last is not None and not here and not (part.resumes and part.first == expected):
        return FORGOTTEN, expected
    if part.offset < expected:
        return REPEATED, 0
    return (GAP, expected) if part.first > expected else (APPLIED, 0)


class _Admission:
    """Streams that one transaction adds and forgets; `busy` ones take part, and are not silent."""

    def __init__(self, offsets: StreamOffsets, busy: Container[str]) -> None:
        self.leaving: list[str] = []
        brokers = len(offsets.streams) - offsets.clients
        self._free = {True: MOST_CLIENTS - offsets.clients, False: MOST_STREAMS - brokers}  # by is_client
        self._silent = (name for name in offsets.silent() if name not in busy)

    def admit(self, stream: str) -> bool:
        """Return whether a new stream fits; a client's may replace that of the longest silent client."""
        client = is_client(stream)
        if self._free[client] > 0:
            self._free[client] -= 1
            return True
        silent = next(self._silent, None) if client else None
        if silent is not None:
            self.leaving.append(silent)
        return silent is not None
