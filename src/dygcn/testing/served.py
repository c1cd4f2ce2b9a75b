"""The service for checks: in a thread of this process, or in a process of its own.

`python -m dygcn.testing.served CONFIG.toml [MODULE:FUNCTION]` does what `dygcn run CONFIG.toml --json` does,
after it called the function: a bug to be noticed, say.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dygcn.errors import DygcnError
from dygcn.service.app import make_app, run_app
from dygcn.service.listening import Server
from dygcn.service.service import Service
from dygcn.service.settings import Http, ServiceSettings, Token, check_settings, read_settings

_PATIENCE = 120.0  # seconds until it answers; machines of others are slow


@dataclass(frozen=True, slots=True)
class Served:
    """A service in this process that answers."""

    service: Service
    server: Server
    address: str


@contextmanager
def served(settings: ServiceSettings) -> Iterator[Served]:
    """Serve in a thread until the end of the block, then drain.

    Examples
    --------
    >>> import dygcn, tempfile
    >>> from urllib.request import urlopen
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dygcn.fit([(1, 2), (2, 3)], dim=4).save(f"{folder}/graph")
    ...     with served(on_loopback(f"{folder}/graph")) as one:
    ...         urlopen(f"{one.address}/healthz").read()
    b'{"ok":true,"accepting":true}'
    """
    service = Service(check_settings(settings))
    app = make_app(service)
    listens, told = threading.Event(), []

    def ready(address: str) -> None:
        told.append(address)
        listens.set()

    server = Server(app, settings, app.state.waiters, ready)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        if not listens.wait(_PATIENCE):
            raise DygcnError("the service did not begin to answer")
        yield Served(service, server, told[0])
    finally:
        server.should_exit = True
        thread.join(_PATIENCE)


def on_loopback(folder: str | Path, *, tokens: tuple[Token, ...] = ()) -> ServiceSettings:
    """Return settings for a folder, on any free port of the loopback address."""
    return ServiceSettings(folder=str(folder), http=Http(port=0, tokens=list(tokens)))


class ServedProcess:
    """A service in a process of its own.

    Attributes
    ----------
    address
        Where it answers.
    """

    def __init__(self, process: subprocess.Popen[bytes], address: str) -> None:
        self._process, self.address = process, address

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def megabytes(self) -> float:
        """Return how much memory it has now (Linux only)."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def drain(self) -> tuple[int, str]:
        """Have it drain; return its exit code and all that it said."""
        self._process.send_signal(signal.SIGTERM)
        out, _ = self._process.communicate(timeout=_PATIENCE)
        return self._process.returncode, out.decode(errors="replace")


@contextmanager
def served_process(
    folder: Path, limits: Mapping[str, float] | None = None, tokens: tuple[Token, ...] = (), bug: str = ""
) -> Iterator[ServedProcess]:
    """Serve a folder in a process of its own, on any free port; it is killed at the end, if it still runs.

    Parameters
    ----------
    bug
        ``"module:function"`` that the process calls before it begins.
    """
    config = folder.with_name(f"{folder.name}.toml")
    lines = [f'folder = "{folder.name}"', "[http]", "port = 0"]
    for token in tokens:
        lines += ["[[http.tokens]]", f'name = "{token.name}"', f'sha256 = "{token.sha256}"']
        lines.append(f"scopes = {json.dumps(token.scopes)}")
    lines += ["[limits]", *(f"{name} = {value}" for name, value in (limits or {}).items())]
    config.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "dygcn.testing.served", str(config), *([bug] if bug else [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        yield ServedProcess(process, _address(process))
    finally:
        process.kill()
        process.communicate()


def _address(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], _PATIENCE)
    line = process.stdout.readline() if ready else b""
    try:
        found: str = json.loads(line)["address"]
    except ValueError:
        rest = process.stdout.read() if process.poll() is not None else b""
        raise DygcnError(f"the service did not begin: {(line + rest).decode(errors='replace')}") from None
    return found


def main(config: str, bug: str = "") -> None:
    """Serve what a file describes."""
    if bug:
        module, _, name = bug.partition(":")
        getattr(importlib.import_module(module), name)()

    def ready(address: str) -> None:
        sys.stdout.write(json.dumps({"address": address}) + "\n")
        sys.stdout.flush()

    run_app(Service(read_settings(config)), ready)


if __name__ == "__main__":
    main(*sys.argv[1:])
