"""The index of neighbours beside everything else: kept up by a thread of its own, a little at a time."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from dygcn.errors import TornState
from dygcn.live.search.index import IndexStatus, NearestIndex

if TYPE_CHECKING:
    from dygcn.engine.records import Float32
    from dygcn.live import DurableEmbedding
    from dygcn.serving.service.settings import Nearest

_AT_ONCE = 512  # nodes that are put into the index before others may have it
_RECENT = 60.0  # seconds after a question in which the index is kept up
_SHARE = 0.2  # of the time that keeping it up may take
_PATIENCE = 0.05  # seconds to wait for a fresh status


class Neighbours:
    """Answers questions for neighbours, and keeps the index up while somebody asks.

    Two locks: the index's own, and the embedding's inside it, which is taken for moments only. Whoever
    writes never waits for the index.
    """

    def __init__(self, live: DurableEmbedding, settings: Nearest) -> None:
        self._live, self._settings = live, settings
        self._index = NearestIndex(live.cached(), exact_up_to=settings.exact_up_to, guard=live.lock)
        self._lock = threading.Lock()
        self._status = self._index.status()
        self._stop = threading.Event()
        self._asked_at = -_RECENT
        self._thread = threading.Thread(target=self._keep_up, name="dygcn-index", daemon=True)

    def start(self) -> None:
        """Begin to build and keep up the index."""
        self._index.load()
        self._thread.start()

    def stop(self) -> None:
        """Keep it up no longer."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def nearest(self, query: Float32, k: int, leave_out: int = -1) -> list[tuple[int, float]]:
        """Return nodes and cosines, nearest first."""
        self._asked_at = time.monotonic()
        with self._lock:
            return self._index.nearest(query, k, leave_out)

    def status(self) -> IndexStatus:
        """Return how the index stands; as it stood, if it is busy, or if the state is torn."""
        if not self._live.state.torn and self._lock.acquire(timeout=_PATIENCE):
            try:
                self._status = self._index.status()
            finally:
                self._lock.release()
        return self._status

    def _keep_up(self) -> None:
        with contextlib.suppress(TornState):  # then nothing is answered until the folder is opened again
            self._work()

    def _work(self) -> None:
        built, measured = False, time.monotonic()
        while not self._stop.is_set():
            recent = time.monotonic() - self._asked_at < _RECENT
            begun = time.monotonic()
            dirty = self._step() if recent or not built else 0
            built = built or not dirty
            spent = time.monotonic() - begun
            if built and recent and time.monotonic() - measured > self._settings.measure_seconds:
                with self._lock:
                    self._index.measure()
                measured = time.monotonic()
            self._stop.wait(0.25 if not dirty else spent / _SHARE if built else 0.001)

    def _step(self) -> int:
        with self._lock:
            return self._index.refresh(_AT_ONCE)
