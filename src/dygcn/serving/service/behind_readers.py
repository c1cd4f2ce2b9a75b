"""The writer behind reader processes: a Unix socket that only they reach, and what they are told."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dygcn.errors import OptionError
from dygcn.live.shared import SharedRows, can_share
from dygcn.serving.service.reader_messages import Replace, Start
from dygcn.serving.service.reader_processes import ReaderProcesses

if TYPE_CHECKING:
    from dygcn.serving.service.service import Service

_LONGEST = 103  # bytes of the path of a Unix socket, where it is shortest


@dataclass(frozen=True, slots=True)
class BehindReaders:
    """Where the writer listens, and the processes that ask it there."""

    path: str
    processes: ReaderProcesses


@contextmanager
def behind_readers(service: Service, sockets: list[socket.socket]) -> Iterator[BehindReaders | None]:
    """Prepare readers, if the settings want some; the folder of the socket is gone at the end.

    Parameters
    ----------
    sockets
        Where readers will listen, from `bind`.
    """
    if not service.settings.http.readers:
        yield None
        return
    rows = shared_rows(service)
    with tempfile.TemporaryDirectory(prefix="dygcn-") as folder:  # of mode 0700
        path = f"{folder}/writer"
        if len(os.fsencode(path)) > _LONGEST:
            raise OptionError(
                f"the folder for temporary files, {tempfile.gettempdir()}, has too long a name for a Unix "
                f"socket in it; set TMPDIR to a shorter one"
            )
        places = [(int(one.family), list(one.getsockname())) for one in sockets]

        def first() -> Start:
            current, handle = service.current, "" if rows is None else rows.handle().decode()
            kind = service.live.model.ids
            return Start(places, path, kind, handle, current.http, current.limits, service.settings.log)

        processes = ReaderProcesses(service.settings.http.readers, first)
        service.readers = processes
        service.observations.reader_processes = lambda: len(processes.pids)
        service.observations.other_requests = lambda: [processes.counts()]
        service.current.watch(
            lambda: processes.replace(Replace(service.current.http, service.current.limits))
        )
        try:
            yield BehindReaders(path, processes)
        finally:
            processes.stop(1.0)
            if rows is not None:
                rows.close()


def shared_rows(service: Service) -> SharedRows | None:
    """Return the rows that readers can read; None: this model cannot share them."""
    live = service.live
    with live.lock:
        return SharedRows(live._state, lambda: live.sequence) if can_share(live._state) else None
