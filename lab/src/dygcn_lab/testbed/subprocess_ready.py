"""A program in a process of its own that says where it listens: for checks that kill it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence


def tell(address: str) -> None:
    """Say where a service listens, to the process that started it."""
    sys.stdout.write(json.dumps({"address": address}) + "\n")
    sys.stdout.flush()


def started(module: str, arguments: Sequence[str]) -> tuple[subprocess.Popen[str], str]:
    """Start a module that calls `tell`; return the process and the address."""
    command = [sys.executable, "-m", module, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        line = process.stdout.readline()
    if not line:
        raise AssertionError(f"the service did not start: exit code {process.wait()}")
    return process, json.loads(line)["address"]
