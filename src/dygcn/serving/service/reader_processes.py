"""Reader processes, from the writer's side: started, restarted when they die, counted, stopped."""

from __future__ import annotations

import logging
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

from dygcn.errors import DygcnError, OptionError
from dygcn.live.shared import SharedRows, can_share
from dygcn.serving.observing.events import note
from dygcn.serving.observing.metrics import RequestCounts
from dygcn.serving.service.settings import Http, Limits, LogSettings

if TYPE_CHECKING:
    from dygcn.serving.service.service import Service

_LOG = logging.getLogger(__name__)
_MODULE = "dygcn.serving.readers"
_TO_BEGIN = 60.0  # seconds until the first one listens
_PAUSE, _LONGEST_PAUSE = 0.1, 10.0  # seconds before a reader is started again
_LIVED = 30.0  # seconds after which a death is no reason to wait longer
_SILENT = 30.0  # seconds; a reader says something every second
_TO_TAKE = 2.0  # seconds for a line: the event loop waits for it, if it is longer than the pipe holds
_LONGEST = 103  # bytes of the path of a Unix socket, where it is shortest
_encode = msgspec.json.Encoder().encode


# ---- messages: one JSON object a line, over the reader's pipe; it answers with lines of `RequestCounts` ----


class Start(msgspec.Struct, tag="start"):
    """The first line to a reader: addresses to listen on, the writer's socket, and its configuration."""

    listen: list[tuple[int, list[str | int]]]  # family and address
    writer: str  # path of its socket
    kind: str  # of ids
    rows: str  # handle of the shared rows; empty: there are none
    http: Http
    limits: Limits
    log: LogSettings


class Replace(msgspec.Struct, tag="replace"):
    """New tokens, names and limits."""

    http: Http
    limits: Limits


class Stop(msgspec.Struct, tag="stop"):
    """Accept no more requests, finish open ones within so many seconds, and end."""

    seconds: float


ToReader = Start | Replace | Stop


# ---- processes ---------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, number: int, first: Callable[[], Start], listens: threading.Event) -> None:
        self.number, self._first, self._listens = number, first, listens
        self.before, self.now = RequestCounts(), RequestCounts()  # of processes that ended, and of this one
        self.process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._speaking = threading.Lock()
        self._thread = threading.Thread(target=self._work, name=f"dygcn-reader-{number}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _work(self) -> None:
        pause = _PAUSE
        while not self._stopping.is_set():
            begun = time.monotonic()
            code = self._run_once()
            self.before, self.now = self.before.added([self.now]), RequestCounts()
            if not self._stopping.is_set():
                pause = _PAUSE if time.monotonic() - begun > _LIVED else pause
                note("reader.died", process=self.number, exit_code=code)
                self._stopping.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _run_once(self) -> int:
        """Run one process to its end; return its exit code, -1 if it could not be started."""
        try:
            process = self._begin()
        except OSError as error:  # no memory, no file descriptors: there may be some later
            _LOG.warning("reader %d cannot be started: %s", self.number, error)
            return -1
        if process is None:
            return 0
        assert process.stdout is not None
        for line in self._lines(process):
            with suppress(msgspec.DecodeError):
                self.now = msgspec.json.decode(line, type=RequestCounts)
                self._listens.set()
        process.stdout.close()
        code = process.wait()
        assert process.stdin is not None
        with self._speaking, suppress(OSError):
            process.stdin.close()
        return code

    def _lines(self, process: subprocess.Popen[bytes]) -> Iterator[bytes]:
        """Yield the lines that a process writes until it ends; kill a process that stops writing.

        It is silent twice in a row then: after a freeze of the whole machine it has a turn before that.
        """
        assert process.stdout is not None
        waiting, silent, spoke = select.poll(), 0, False
        waiting.register(process.stdout, select.POLLIN)
        while True:
            if not waiting.poll(_SILENT * 1e3):
                silent += spoke  # a start may take longer
                if silent == 2:
                    _LOG.warning("reader %d says nothing and is killed", self.number)
                    process.kill()
                continue
            line = process.stdout.readline()
            if not line:
                return
            silent, spoke = 0, True
            yield line

    def _begin(self) -> subprocess.Popen[bytes] | None:
        """Start a process and send its first line before any other."""
        command = [sys.executable, "-m", _MODULE]
        with self._speaking:
            if self._stopping.is_set():
                return None
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.process = process
            assert process.stdin is not None
            with suppress(OSError):  # it ended already; its exit code says so
                process.stdin.write(_encode(self._first()) + b"\n")
                process.stdin.flush()
                os.set_blocking(process.stdin.fileno(), False)
            return process

    def say(self, message: ToReader) -> None:
        """Send a line to the process, if one is running.

        A process that leaves its lines unread would go on with tokens that are no longer good: it is killed,
        and another one is started.
        """
        with self._speaking:
            pipe = self.process.stdin if self.process is not None else None
            if self.process is None or pipe is None or pipe.closed:
                return
            try:
                _write_soon(pipe.fileno(), _encode(message) + b"\n")
            except TimeoutError:
                _LOG.warning("reader %d does not listen to the writer and is killed", self.number)
                self.process.kill()
            except OSError:
                return  # it has ended

    def ask_to_stop(self, seconds: float) -> None:
        self._stopping.set()
        self.say(Stop(seconds))

    def stop(self, until: float) -> None:
        """Wait for the process's end until a moment, then kill it."""
        if self._thread.is_alive():
            self._thread.join(max(until - time.monotonic(), 0.0))
        with self._speaking:
            if self.process is not None and self.process.poll() is None:
                _LOG.warning("reader %d did not end in time and is killed", self.number)
                self.process.kill()
        if self._thread.is_alive():
            self._thread.join(1.0)


def _write_soon(pipe: int, data: bytes) -> None:
    """Write to a non-blocking pipe; raise TimeoutError if the reader does not read."""
    until, waiting = time.monotonic() + _TO_TAKE, select.poll()
    waiting.register(pipe, select.POLLOUT)
    while data:
        if not waiting.poll(max(until - time.monotonic(), 0.0) * 1e3):
            raise TimeoutError
        data = data[os.write(pipe, data) :]


class ReaderProcesses:
    """The readers of one writer.

    A reader has a pipe from the writer, which closes when the writer dies however it dies: then it ends.
    """

    def __init__(self, count: int, first: Callable[[], Start], path: str) -> None:
        self.path = path  # of the writer's socket
        self._listens = threading.Event()
        self._readers = [_Reader(number, first, self._listens) for number in range(count)]

    def start(self) -> None:
        """Start all readers; return when one of them listens."""
        for one in self._readers:
            one.start()
        if not self._listens.wait(_TO_BEGIN):
            raise DygcnError(f"no reader process listened within {_TO_BEGIN:g} s; the log says why")

    @property
    def pids(self) -> list[int]:
        """The ids of the running processes."""
        found = [one.process for one in self._readers]
        return [one.pid for one in found if one is not None and one.poll() is None]

    def counts(self) -> RequestCounts:
        """Return the sum of all readers' counts, also of ended processes; at most a second old."""
        return RequestCounts().added([part for one in self._readers for part in (one.before, one.now)])

    def replace(self, message: Replace) -> None:
        """Send all readers new tokens and limits."""
        for one in self._readers:
            one.say(message)

    def stop(self, seconds: float) -> None:
        """Stop accepting, finish what was begun, and end all of them; return when they have ended."""
        until = time.monotonic() + seconds
        for one in self._readers:
            one.ask_to_stop(0.8 * seconds)
        for one in self._readers:
            one.stop(until)


# ---- the writer --------------------------------------------------------------------------------------


@contextmanager
def behind_readers(service: Service, sockets: list[socket.socket]) -> Iterator[ReaderProcesses | None]:
    """Prepare readers, if the settings ask for some; the socket's folder is removed at the end."""
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

        processes = ReaderProcesses(service.settings.http.readers, first, path)
        service.observations.reader_processes = lambda: len(processes.pids)
        service.observations.other_requests = lambda: [processes.counts()]
        service.current.watch(
            lambda: processes.replace(Replace(service.current.http, service.current.limits))
        )
        try:
            yield processes
        finally:
            processes.stop(1.0)
            if rows is not None:
                rows.close()


def shared_rows(service: Service) -> SharedRows | None:
    """Return the rows shared with readers; None if this model cannot share them."""
    live = service.live
    with live.lock:
        return SharedRows(live._state, lambda: live.sequence) if can_share(live._state) else None
