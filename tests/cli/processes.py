"""The `dygcn` command in a process of its own."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
from click.testing import CliRunner

from dygcn.cli import main

DYGCN = [sys.executable, "-c", "from dygcn.cli import main; main()"]
PATIENCE = 60.0


def is_refused(arguments, code, *words):
    """Check that a command ends with a code and one line that says why; return that line.

    It runs in this process, which is faster; an error that nobody expected would show, too.
    """
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    assert isinstance(done.exception, SystemExit)
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for word in words:
        assert str(word) in done.stderr
    return done.stderr


class Process:
    """A service that was begun by a command with --json."""

    def __init__(self, *arguments, cwd=None, script=DYGCN[-1]):
        self.process = subprocess.Popen(
            [*DYGCN[:-1], script, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            self.reported = json.loads(self._line())
            self.client = httpx.Client(base_url=self.reported["address"], timeout=20)
        except BaseException:
            self.kill()
            raise

    def _line(self):
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        assert ready, "it said nothing"
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return line

    def post(self, *edges, **params):
        events = [{"src": a, "dst": b} for a, b in edges]
        return self.client.post("/v1/events", json=events, params=params)

    def end(self, how=signal.SIGTERM):
        """Tell it to end; return its code, and what it wrote since."""
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=PATIENCE)
        self.client.close()
        return self.process.returncode, out, err

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        if hasattr(self, "client"):
            self.client.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


def until(ready):
    end = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.02)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path
