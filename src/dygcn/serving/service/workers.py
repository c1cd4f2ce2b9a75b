"""Workers beside HTTP: one reads a source into the queue, one writes changes to a sink."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import msgspec
import numpy as np

from dygcn.engine.events import join_events
from dygcn.engine.events.wire import BadEvent, Decoded, decode_events
from dygcn.engine.records import History, Message
from dygcn.errors import DygcnError, EventError, OtherHistory, SourceError
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.feed import Feed
from dygcn.live.durable.source_batch import FULL, Receipt, SourceBatch
from dygcn.live.durable.storage.layout import keep_cursor, read_cursor
from dygcn.serving.observing.events import Reachable, note
from dygcn.serving.service.ingest_queue import Closing, EventClock, IngestQueue, Overloaded, dead_letters_of
from dygcn.serving.service.observations import Observations
from dygcn.serving.sinks import OnOtherHistory, Sink
from dygcn.serving.sinks.sink import admit, described
from dygcn.serving.sources import Source

_READ, _PAUSE, _LONGEST_PAUSE = 1_000, 0.2, 10.0
_ROWS, _BETWEEN = 1_000, 0.1
_FOREVER = float("inf")
_ONE_BEGINS = threading.Lock()
SAME, NEW, REWRITING, REWRITTEN, REFUSED = "same", "new", "rewriting", "rewritten", "refused"


class _Worker:
    """A thread that retries after a failure, with growing pauses."""

    kind = ""

    def __init__(self, name: str) -> None:
        self.name = name
        self.reachable = Reachable(self.kind, name)
        self.failure: str | None = None
        self.failures = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"dygcn-{name}"[:60], daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ask_to_stop(self, until: float = _FOREVER) -> None:
        """Ask the thread to end in good order before a moment of the monotonic clock."""
        self._stop.set()

    def stop(self, until: float = _FOREVER) -> bool:
        """End the thread in good order, waiting until a moment; return whether it ended. Idempotent."""
        self.ask_to_stop(until)
        if self._thread.is_alive():
            self._thread.join(None if until == _FOREVER else max(until - time.monotonic(), 0.0))
        return not self._thread.is_alive()

    def status(self) -> dict[str, Any]:
        """Return the worker's entry in /v1/status; times are in seconds since 1970."""
        since = self.reachable.failing_since if self.failure is not None else None
        failures = {"failure": self.failure, "failures": self.failures, "failing_since": since}
        return {"name": self.name, **self._done(), **failures, "worked_at": self.reachable.worked_at or None}

    def _done(self) -> dict[str, Any]:
        raise NotImplementedError

    def _run(self) -> None:
        pause = _PAUSE
        while not self._stop.is_set():
            begun = time.monotonic()
            try:
                self._work()
            except Exception as error:  # whatever it is, it may be over the next time
                message = (
                    str(error) if isinstance(error, DygcnError) else f"{self.name}: {type(error).__name__}"
                )
                pause = _PAUSE if time.monotonic() - begun > _LONGEST_PAUSE else pause
                self.failure, self.failures = message, self.failures + 1
                self.reachable.fails(message)
                self._stop.wait(_LONGEST_PAUSE if isinstance(error, OtherHistory) else pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _work(self) -> None:
        raise NotImplementedError


class SourceWorker(_Worker):
    """Reads a source into the queue, from the offsets that the state has reached."""

    kind = "source"

    def __init__(self, source: Source, live: DurableEmbedding, queue: IngestQueue, clock: EventClock) -> None:
        super().__init__(source.name)
        self._source, self._live, self._queue, self._clock = source, live, queue, clock
        self.messages = 0
        self._answers: list[Receipt | BaseException] = []
        self._answered = threading.Condition()

    def _work(self) -> None:
        try:
            self._source.open(dict(self._live.streams))
            self.failure = None
            while not self._stop.is_set():
                messages = self._source.read(_READ, _PAUSE)
                self.reachable.works()
                if messages:
                    self._submit(messages)
        except Closing:
            self._stop.set()
        finally:
            self._source.close()

    def _submit(self, messages: Sequence[Message]) -> None:
        """Queue messages and wait until they are applied: the state then includes their offsets."""
        parts = source_batches(messages, self._live, self._clock.latest())
        for part in parts:
            part.check()
        for part in parts:
            while True:
                try:
                    self._queue.submit(part, self._answer, wait=1.0)
                    break
                except Overloaded:
                    if self._stop.is_set():
                        raise Closing("the service is going down") from None
        with self._answered:
            self._answered.wait_for(lambda: len(self._answers) >= len(parts))
            results, self._answers = self._answers, []
        self.messages += len(messages)
        for result in results:
            if isinstance(result, BaseException):
                raise SourceError(f"{self.name}: events were not taken: {result}") from result
            if result.status == FULL:
                raise SourceError(f"{self.name}: events were not taken: no more streams can be followed")

    def _answer(self, result: Receipt | BaseException) -> None:
        with self._answered:
            self._answers.append(result)
            self._answered.notify()

    def lag(self) -> int | None:
        """Return how many messages wait to be read; None if unknown."""
        return self._source.lag() if self._thread.is_alive() and self.failure is None else None

    def _done(self) -> dict[str, Any]:
        return {"messages": self.messages, "lag": self.lag()}


def source_batches(
    messages: Sequence[Message], live: DurableEmbedding, latest: float | None
) -> list[SourceBatch]:
    """Decode messages; consecutive similar ones of a stream are joined into one part."""
    kind, related = live.model.ids, bool(live.model.relations)
    parts: list[SourceBatch] = []
    for stream, run in groupby(_fresh(messages, live._offsets.last_of), key=lambda message: message.stream):
        decoded = [(message, _decode(message, kind, latest, related)) for message in run]
        for _, alike in groupby(enumerate(decoded), key=_alike):
            parts.append(_joined(stream, [one for _, one in alike]))
    return parts


def _alike(one: tuple[int, tuple[Message, Decoded]]) -> tuple[bool, int]:
    """Return the key by which messages may be joined; a message with forget events has a key of its own."""
    number, (_, decoded) = one
    return decoded.batch.t is None, number if decoded.forgets else -1


def _fresh(messages: Sequence[Message], last_of: Callable[[str], int | None]) -> Iterator[Message]:
    """Skip repeated messages, which would go unnoticed once joined with others."""
    reached: dict[str, int] = {}
    for message in messages:
        if message.stream not in reached:
            last = last_of(message.stream)
            reached[message.stream] = -1 if last is None else last
        if message.offset > reached[message.stream]:
            reached[message.stream] = message.offset
            yield message


def _joined(stream: str, group: list[tuple[Message, Decoded]]) -> SourceBatch:
    dead = [letter for one, found in group for letter in dead_letters_of(found.bad, stream, one.offset)]
    return SourceBatch(
        join_events([found.batch for _, found in group]),
        stream,
        group[-1][0].offset,
        rows=np.concatenate([found.rows for _, found in group]),
        dead=tuple(dead),
        origins=np.repeat([one.offset for one, _ in group], [len(found.batch) for _, found in group]),
        forgets=tuple(forget for _, found in group for forget in found.forgets),
    )


def _decode(message: Message, kind: str, latest: float | None, related: bool = False) -> Decoded:
    try:
        return decode_events(message.body, message.form, kind, latest=latest, related=related)
    except EventError as error:
        bad = BadEvent(-1, error.reason, repr(message.body[:500]))
        return dataclasses.replace(decode_events(b"[]", "json", kind), bad=(bad,))


class SinkWorker(_Worker):
    """Writes changes to a sink, each node once however often it moved meanwhile."""

    kind = "sink"

    def __init__(
        self,
        sink: Sink,
        live: DurableEmbedding,
        listeners: list[Callable[[], None]],
        observations: Observations,
        other_history: OnOtherHistory = "rewrite",
    ) -> None:
        super().__init__(sink.name)
        self._sink, self._rule, self._live = sink, other_history, live
        self._log = live.feed
        self._listeners, self._seen = listeners, observations
        self.rows = 0
        self.history: str | None = None  # not opened yet
        self.why = ""
        self._epoch = ""
        self._cursor, self._kept = self._read_cursor(), ""
        self._news = threading.Event()
        self._give_up = float("inf")
        listeners.append(self._news.set)

    def _read_cursor(self) -> SinkCursor:
        text = read_cursor(self._live._folder, self.name)
        try:
            cursor = SinkCursor() if text is None else msgspec.json.decode(text, type=SinkCursor)
        except msgspec.DecodeError:
            return SinkCursor()
        behind = cursor.history is not None and cursor.history.sequence <= self._live.sequence
        return cursor if behind else SinkCursor()  # one from ahead is of another log

    def ask_to_stop(self, until: float = _FOREVER) -> None:
        """Ask the thread to write everything up to the last sequence before a moment, and to end."""
        self._give_up = until
        super().ask_to_stop(until)
        self._news.set()

    def _work(self) -> None:
        try:
            self._begin()
            while True:
                stopping = self._stop.is_set()  # then nothing more is applied: a page behind it is the last
                more = self._write_page()
                if not more and stopping:
                    return
                if not more and not self._stop.is_set():
                    self._news.wait()
                    self._news.clear()
                    self._stop.wait(_BETWEEN)
        except OtherHistory as error:
            self._judged(REFUSED, str(error))
            raise
        finally:
            self._sink.close()

    def _begin(self) -> None:
        """Open the sink, and find out whether its rows are of this history."""
        live = self._live
        held = self._sink.open(live.model.ids, live.model.dim)
        with _ONE_BEGINS:  # or each of two sinks would begin an epoch, and write for the other's
            with live.lock:
                verdict = judge(held, self._cursor.history, self._log, self._rule, self.name)
            if verdict.begin_epoch:
                self._log.begin_epoch()
                for wake in self._listeners:
                    wake()
        if verdict.anew:
            self._cursor = SinkCursor(why=verdict.why if verdict.history == REWRITING else "")
        if verdict.history == SAME and self._cursor.why:
            self._judged(REWRITING, self._cursor.why)  # it goes on with what it had begun
        else:
            self._judged(verdict.history, verdict.why)
        with live.lock:
            self._epoch = self._log.history.epoch
        self.failure = None
        self.reachable.works()

    def _judged(self, history: str, why: str) -> None:
        if history != self.history:
            note(
                "sink.refused" if history == REFUSED else "sink.history",
                sink=self.name,
                history=history,
                why=why,
            )
        self.history, self.why = history, why

    def _write_page(self) -> bool:
        live, cursor = self._live, self._cursor
        with live.lock:
            ours = self._log.history.epoch == self._epoch
            page = live.feed.since(cursor.next, _ROWS) if ours else None
        if page is None:
            self._begin()
            return time.monotonic() < self._give_up
        if page.reset or not cursor.next:
            cursor.delete_below = page.floor
        if len(page.rows):
            with self._seen.writing_sink(self.name, len(page.rows)):
                self._sink.write(page.rows)
            self.rows += len(page.rows)
            cursor.history = page.rows.history
        if not page.more:
            self._delete_below(page.rows.history)
            cursor.reached = page.sequence
        cursor.next = page.next
        self._keep_cursor()
        self.reachable.works()
        return page.more and time.monotonic() < self._give_up

    def _keep_cursor(self) -> None:
        text = msgspec.json.encode(self._cursor).decode()
        if text != self._kept:
            keep_cursor(self._live._folder, self.name, text)
            self._kept = text

    def _delete_below(self, history: History) -> None:
        """Delete the rows that were not rewritten, once all others were."""
        cursor = self._cursor
        if cursor.delete_below is None:
            return
        self._sink.delete_below(cursor.delete_below, history)
        cursor.delete_below, cursor.history, cursor.why = None, history, ""
        if self.history == REWRITING:
            self._judged(REWRITTEN, self.why)

    def behind(self) -> int:
        """Return the number of sequences that the sink lags behind."""
        return max(self._live.sequence - self._cursor.reached, 0)

    def _done(self) -> dict[str, Any]:
        about = {"history": self.history, "why": self.why or None}
        return {"rows": self.rows, "behind": self.behind(), **about}


# ---- whose rows a sink has ----------------------------------------------------------------------------


class SinkCursor(msgspec.Struct, forbid_unknown_fields=True):
    """The stored position of a sink.

    It says which history it is of: a cursor in a folder that was copied, or restored, is not that of the
    log that goes on there.
    """

    next: str = ""  # the cursor in the feed
    delete_below: int | None = None  # what the sink has from before this sequence is to go, once all is there
    history: History | None = None  # the last position that was written
    reached: int = 0  # the sequence up to which nothing is missing
    why: str = ""  # all is being written again, and why


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about a sink that was opened."""

    history: str  # SAME, NEW or REWRITING
    why: str = ""
    anew: bool = False  # write everything, whatever the kept cursor says
    begin_epoch: bool = False  # first begin a new epoch, whose generation keeps other writers out


def judge(held: History | None, kept: History | None, log: Feed, rule: OnOtherHistory, name: str) -> Verdict:
    """Decide what to do with a sink that holds rows up to a position."""
    ours = log.history
    if held is None:
        return Verdict(NEW, f"{name} held nothing: all rows are written", anew=True)
    if (held.generation, held.epoch) == (ours.generation, ours.epoch):
        if held == kept or log.confirms(held):
            return _of_our_history(held, kept, log, name)
        of = f"a copy of this folder that went another way ({described(held)}; our log says otherwise)"
    else:
        if held.generation >= ours.generation:
            admit(held, ours, name)
        of = f"an older history ({described(held)}; ours is {described(ours)})"
    if rule == "refuse":
        raise OtherHistory(
            f'{name} holds rows of {of}, and its setting other_history is "refuse": choose another cursor, '
            'remove what is there, or set other_history = "rewrite"'
        )
    why = f"{name} held rows of {of}: all rows are written again, those of the other history are taken out"
    return Verdict(REWRITING, why, anew=True, begin_epoch=held.epoch == ours.epoch)


def _of_our_history(held: History, kept: History | None, log: Feed, name: str) -> Verdict:
    """Decide what to do with a sink that holds rows of this history: continue, if the position is known."""
    if kept is None or (held != kept and not log.confirms(kept)):
        return Verdict(SAME, anew=True)
    if held.sequence < kept.sequence:
        why = (
            f"{name} holds rows up to sequence {held.sequence}, and sequence {kept.sequence} was written: it "
            "lost some, or was restored from a copy; all rows are written again"
        )
        return Verdict(REWRITING, why, anew=True)
    return Verdict(SAME)
