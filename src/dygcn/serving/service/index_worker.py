"""The thread that keeps the index of neighbours up, a little at a time."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from dygcn.errors import TornState
from dygcn.live.search.upkeep import Cancelled
from dygcn.serving.observing.events import note

if TYPE_CHECKING:
    from dygcn.engine.models import State
    from dygcn.live.search.index import IndexStatus, NearestIndex

_AT_ONCE = 512  # nodes that are put into the index before others may have it
_RECENT = 60.0  # seconds after a question in which the index is kept up
_SHARE = 0.2  # of the time that keeping it up may take
_LONGEST_STOP = 1.0  # seconds
_PATIENCE = 0.05  # seconds to wait for a fresh status


class IndexWorker:
    """Builds the index, and keeps it up while somebody asks.

    Two locks: the index's own, and the embedding's inside it. Both are taken for moments only: an index is
    built beside the one that is asked, so that neither who writes nor who asks waits for it.
    """

    def __init__(self, index: NearestIndex, state: State, measure_seconds: float) -> None:
        self.index, self._state, self._measure_seconds = index, state, measure_seconds
        self._status = index.status()
        self._stop = threading.Event()
        self.asked_at = -_RECENT
        self._thread = threading.Thread(target=self._keep_up, name="dygcn-index", daemon=True)

    def start(self) -> None:
        """Begin to build and keep up the index."""
        self.index.load()
        self._thread.start()

    def stop(self, seconds: float = _LONGEST_STOP) -> bool:
        """Keep it up no longer, wait so long for the step that is being made, and say whether it ended.

        Learning the centres of lists is one step, of many seconds where there are many nodes, and cannot be
        interrupted. The thread then ends after it, or with the process: nobody waits, nothing is written.
        """
        self._stop.set()
        self.index.cancel()
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def status(self) -> IndexStatus:
        """Return how the index stands; as it stood, if it is busy, or if the state is torn."""
        if not self._state.torn and self.index.lock.acquire(timeout=_PATIENCE):
            try:
                self._status = self.index.status()
            finally:
                self.index.lock.release()
        return self._status

    def _keep_up(self) -> None:
        try:
            self._work()
        except TornState:  # then nothing is answered until the folder is opened again
            note("index.failed", error="the state is torn")
        except Cancelled:
            return
        except Exception as error:
            note("index.failed", error=str(error) or type(error).__name__)
            raise

    def _work(self) -> None:
        index, built, measured = self.index, False, time.monotonic()
        start, nodes = measured, len(self._state.graph)
        note("index.building", nodes=nodes)
        while not self._stop.is_set():
            recent = time.monotonic() - self.asked_at < _RECENT
            dirty, begun = 0, time.monotonic()
            if recent or not built:
                dirty = index.refresh(_AT_ONCE)
            if not built and not dirty:
                built = True
                note("index.ready", nodes=nodes, seconds=round(time.monotonic() - start, 3))
            spent = time.monotonic() - begun
            if built and recent and time.monotonic() - measured > self._measure_seconds:
                index.measure()
                measured = time.monotonic()
            self._stop.wait(0.25 if not dirty else spent / _SHARE if built else 0.001)
