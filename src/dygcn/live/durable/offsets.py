"""Offsets of streams: how far each was applied, and which batches are new, repeated, ahead or refused.

The offset of a stream is the number of the last event of a stream, so that a repeat is noticed. Senders
choose the names of HTTP clients, so these have a bound of their own: no number of them displaces a stream of
a broker. A forgotten client leaves a fingerprint and its offset behind: while the fingerprint is kept,
nothing that was applied is applied again in silence.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import time
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dygcn.engine.events import moment
from dygcn.live.durable.source_batch import (
    APPLIED,
    FORGOTTEN,
    FULL,
    GAP,
    REPEATED,
    Receipt,
    SourceBatch,
)

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
