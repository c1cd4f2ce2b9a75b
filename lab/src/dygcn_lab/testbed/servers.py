"""Real servers for tests: on loopback only, on a free port, in a folder of their own, gone at the end."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dygcn._extras import extra
from dygcn.errors import DygcnError, MissingExtra

LOOPBACK = "127.0.0.1"
_PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/local/bin")  # often not on the path of a user
_PATIENCE = 20.0  # seconds that a server may take until it answers
_TRIES = 5  # a free port may be taken before the server gets to it


class ServerFailed(DygcnError, RuntimeError):
    """A server of a test did not start."""


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def find_program(name: str) -> str:
    """Return the path of a server's program.

    Raises `MissingExtra` if it is not installed.
    """
    found = shutil.which(name) or shutil.which(name, path=":".join(_PLACES))
    if found is None:
        raise MissingExtra(f"the program {name} is not installed; install it with your system's packages")
    return found


class Server:
    """A server in a process of its own, which can be killed and started again on the same port and folder.

    `command`: makes the command line from a port and the server's folder; `greeting`: what to send to a new
    connection, and how the answer of a server that is ready begins; `scheme`: of the address, such as
    ``"nats"``; `folder`: where it keeps its data.
    """

    def __init__(
        self,
        command: Callable[[int, Path], Sequence[str]],
        greeting: tuple[bytes, bytes],
        scheme: str,
        folder: Path,
    ) -> None:
        self.host = LOOPBACK
        self.port = 0
        self.folder = folder
        self._command, self._greeting, self._scheme = command, greeting, scheme
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address, such as ``nats://127.0.0.1:4222``."""
        return f"{self._scheme}://{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The id of the process while it runs."""
        return None if self._process is None else self._process.pid

    @property
    def log(self) -> str:
        """The output of the server so far."""
        file = self.folder / "server.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def start(self) -> None:
        """Start it and wait until it answers; after the first time, on the port that it had.

        Raises `ServerFailed` if it ends, or does not answer in time.
        """
        if self._process is not None:
            return
        first = self.port == 0
        for _ in range(_TRIES):
            if first:
                self.port = free_port()
            with (self.folder / "server.log").open("ab") as log:
                self._process = subprocess.Popen(
                    self._command(self.port, self.folder), stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
            if self._answers():
                return
            self.kill()
        text = self.log.strip()
        text = text if len(text) <= 1000 else f"{text[:500]} ... {text[-500:]}"
        raise ServerFailed(f"{self._command(0, self.folder)[0]} did not start: {text}")

    def kill(self) -> None:
        """End it at once, as kill -9 does. Its data stays."""
        self._end(lambda process: process.kill())

    def stop(self) -> None:
        """End it in order. Its data stays."""
        self._end(lambda process: process.terminate())

    def restart(self) -> None:
        """Kill it and start it again with the same port and data."""
        self.kill()
        self.start()

    def _end(self, how: Callable[[subprocess.Popen[bytes]], None]) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        how(process)
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _answers(self) -> bool:
        """Wait until a connection gets the right answer; False as soon as the process has ended."""
        say, expected = self._greeting
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until and self._process is not None and self._process.poll() is None:
            try:
                with socket.create_connection((self.host, self.port), timeout=1) as connection:
                    connection.sendall(say)
                    if connection.recv(len(expected), socket.MSG_WAITALL) == expected:
                        return True
            except OSError:
                pass
            time.sleep(0.02)
        return False


@contextmanager
def running(
    command: Callable[[int, Path], Sequence[str]],
    greeting: tuple[bytes, bytes],
    scheme: str,
) -> Iterator[Server]:
    """Run a server in a temporary folder; see `Server` for the arguments."""
    with tempfile.TemporaryDirectory(prefix="dygcn-") as folder:
        server = Server(command, greeting, scheme, Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.kill()


@contextmanager
def nats_server(*options: str) -> Iterator[Server]:
    """Run a NATS server with JetStream; further options go to its command line."""
    program = find_program("nats-server")

    def command(port: int, folder: Path) -> list[str]:
        return [program, "-js", "-sd", str(folder), "-a", LOOPBACK, "-p", str(port), *options]

    with running(command, (b"", b"INFO {"), "nats") as server:
        yield server


@contextmanager
def redis_server(*options: str) -> Iterator[Server]:
    """Run a Redis server that syncs every write to its append-only file.

    Further options go to its command line. With a password (``"--requirepass", "..."``) put it into the
    address yourself.
    """
    program = find_program("redis-server")

    def command(port: int, folder: Path) -> list[str]:
        kept = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        return [program, "--bind", LOOPBACK, "--port", str(port), "--dir", str(folder), *kept, *options]

    expected = b"-NOAUTH" if "--requirepass" in options else b"+PONG"
    with running(command, (b"PING\r\n", expected), "redis") as server:
        yield server


class KafkaMock:
    """A Kafka cluster inside librdkafka, in this process. It keeps nothing once it is killed."""

    def __init__(self, brokers: int) -> None:
        with extra("kafka"):
            from confluent_kafka import Producer  # noqa: PLC0415
        self._holder: Any = Producer(
            {
                "test.mock.num.brokers": brokers,
                "bootstrap.servers": "mock",
                "log_level": 3,
            }
        )
        found = self._holder.list_topics(timeout=_PATIENCE).brokers.values()
        self.servers = ",".join(f"{broker.host}:{broker.port}" for broker in found)

    def kill(self) -> None:
        """End the cluster, with all its messages."""
        self._holder = None


@contextmanager
def kafka_mock(brokers: int = 1) -> Iterator[KafkaMock]:
    """Run a mock of a Kafka cluster; a topic is there, with four partitions, once it is asked for."""
    cluster = KafkaMock(brokers)
    try:
        yield cluster
    finally:
        cluster.kill()
