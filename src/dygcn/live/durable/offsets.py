"""Offsets of streams: bounds for each kind, clients that fell silent, and those that were forgotten.

The offset of a stream is the number of the last event of a stream, so that a repeat is noticed. Names of HTTP
clients are chosen by whoever sends, so they are bounded by themselves: no number of them takes a place from a
stream of a broker. A client that is forgotten leaves a fingerprint and its number behind: while the
fingerprint is kept, nothing that was applied is applied again in silence.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Iterator

import numpy as np

CLIENT = "http:"  # streams of HTTP clients begin with it
MOST_CLIENTS = 10_000
MOST_STREAMS = 10_000  # of brokers
MOST_FORGOTTEN = 100_000
IDLE_SECONDS = 30 * 86_400.0


def is_client(stream: str) -> bool:
    """Say whether a stream is one of an HTTP client."""
    return stream.startswith(CLIENT)


class StreamOffsets:
    """How far each stream was applied, when each client was heard of, and how far forgotten streams came."""

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
        """Note how far a stream was applied just now."""
        self.streams[stream] = position
        if self._forgotten:
            self._forgotten.pop(_fingerprint(stream), None)
        self.hear(stream)

    def hear(self, *streams: str) -> None:
        """Note that streams were heard of just now."""
        for stream in filter(is_client, streams):
            self._heard.pop(stream, None)  # the longest silent one stands first
            self._heard[stream] = time.time()

    def forget(self, *streams: str) -> None:
        """Follow streams no longer."""
        for stream in streams:
            self._heard.pop(stream, None)
            self._forgotten[_fingerprint(stream)] = self.streams.pop(stream)
        while len(self._forgotten) > MOST_FORGOTTEN:
            del self._forgotten[next(iter(self._forgotten))]

    def last_of(self, stream: str) -> int | None:
        """Return how far a stream was applied, also if it was forgotten since; None if it is new."""
        last = self.streams.get(stream)
        return self._forgotten.get(_fingerprint(stream)) if last is None and self._forgotten else last

    def silent(self) -> Iterator[str]:
        """Yield the clients that were silent for so long that they may be forgotten, the longest first."""
        now = time.time()
        for name, heard in self._heard.items():
            if now - heard < self.idle_seconds:
                return
            yield name

    def take_over(self, other: StreamOffsets) -> None:
        """Follow what another one follows, from where that one is."""
        streams, heard, forgotten = other.image()
        self.__init__(streams, heard, forgotten)  # type: ignore[misc]

    def image(self) -> tuple[dict[str, int], list[float], str]:
        """Return what another one is made from."""
        heard = [self._heard[name] for name in self.streams if is_client(name)]
        pairs = np.array(list(self._forgotten.items()), np.int64)
        return dict(self.streams), heard, base64.b64encode(pairs.tobytes()).decode()


def is_packed(forgotten: str) -> bool:
    """Say whether a text may be what `StreamOffsets.image` returns of forgotten streams."""
    try:
        return len(base64.b64decode(forgotten, validate=True)) % 16 == 0
    except ValueError:
        return False


def _fingerprint(stream: str) -> int:
    digest = hashlib.blake2b(stream.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
