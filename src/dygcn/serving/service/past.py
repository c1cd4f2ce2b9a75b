"""Vectors of earlier moments: one is rebuilt at a time, and the last one is kept."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dygcn.errors import NoSuchPast
from dygcn.live.durable.past import PastEmbedding, open_past, read_moment
from dygcn.serving.service.ingest_queue import Overloaded

if TYPE_CHECKING:
    from dygcn.engine.records import Float32
    from dygcn.live import DurableEmbedding

_COME_AGAIN = 5  # seconds


@dataclass(frozen=True, slots=True)
class PastVectors:
    """Vectors of those that were in the graph then, and the ids of those that were not."""

    sequence: int
    digest: str
    logged: str  # when the last batch was logged, in ISO 8601
    ids: list[int | str]
    vectors: Float32
    missing: list[int | str]


@dataclass(frozen=True, slots=True)
class _Kept:
    asked: str
    embedding: PastEmbedding
    digest: str
    forgotten: int  # ids, when it was rebuilt


class Past:
    """The past of the folder that is served. It takes none of its locks, so writers go on."""

    def __init__(self, live: DurableEmbedding) -> None:
        self._live = live
        self._kept: _Kept | None = None
        self._rebuilding = threading.Lock()

    def vectors(self, as_of: str, ids: list[int | str]) -> PastVectors:
        """Return the vectors of nodes as they were at a sequence or a time.

        Raises
        ------
        NoSuchPast
            If that is further back than is kept, or still to come.
        Overloaded
            While another moment is being rebuilt.
        """
        kept = self._at(as_of)
        then = kept.embedding
        with then._guard.lock:
            nodes = np.array([then._state.graph.find_one(one) for one in ids], np.int32)
            known = nodes >= 0
            vectors = then._vectors_of(nodes[known])
        here = [one for one, found in zip(ids, known, strict=True) if found]
        missing = [one for one, found in zip(ids, known, strict=True) if not found]
        logged = then.logged.isoformat().replace("+00:00", "Z")  # a plus is a space in an address
        return PastVectors(then.sequence, kept.digest, logged, here, vectors, missing)

    def _at(self, as_of: str) -> _Kept:
        kept = self._kept
        forgotten = self._live._forgetting.summary().ids
        if kept is not None and kept.asked == as_of and kept.forgotten == forgotten:
            return kept
        sequence, moment = read_moment(as_of)
        if sequence is not None and sequence > self._live.sequence:
            raise NoSuchPast(f"sequence {sequence} is still to come; the last is {self._live.sequence}")
        if not self._rebuilding.acquire(blocking=False):
            raise Overloaded(_COME_AGAIN, "another moment of the past is being rebuilt")
        try:
            self._kept = None  # two of them would be in memory
            embedding = open_past(Path(self._live._folder), as_of)
            found = _Kept(as_of, embedding, embedding.digest(), forgotten)
            later = moment is not None and moment < self._live._log.last_logged  # and so are all to come
            if as_of.strip() != "now" and (moment is None or later):
                self._kept = found
            return found
        finally:
            self._rebuilding.release()
