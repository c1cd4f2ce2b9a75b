"""Whether requests should come: after a read and a search were answered, and until the drain begins."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from dygcn.errors import DygcnError

if TYPE_CHECKING:
    from dygcn.serving.service.service import Service

_BETWEEN = 0.2  # seconds between two tries


class Readiness:
    """Asks the service as a request would, until it answers.

    The machine code of a write is warm by then: `warm_up` wrote to a graph of its own, in every form.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._reason: str | None = "the service starts"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="dygcn-ready", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no longer."""
        self._stop.set()

    def reason(self) -> str | None:
        """Return why no request should come now; None: they may come. Nobody is waited for."""
        if self._service.drain.begun:
            return "the service is going down"
        if self._is_torn():
            return "an update was cut off within the state; restart the service"
        return self._reason

    def _is_torn(self) -> bool:
        """Say whether an update was cut off; one that is being made, and has the lock, is whole."""
        live = self._service.live
        if not live._state.torn or not live.lock.acquire(blocking=False):
            return False
        try:
            return live._state.torn
        finally:
            live.lock.release()

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                self._service.try_reads()
            except DygcnError as error:
                self._reason = f"a read or a search is not answered yet: {error}"
                self._stop.wait(_BETWEEN)
            else:
                self._reason = None
                self._service.observations.begun_serving()
                return
