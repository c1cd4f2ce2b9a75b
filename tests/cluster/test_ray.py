"""Shards on a real Ray cluster."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dygcn.cluster import ray_shards  # (skips, where there is no Ray)
from dygcn.errors import OptionError

ROOT = Path(__file__).parents[2]


_HOLD = """
import sys
import ray
about = ray.init(
    address="local", include_dashboard=False, num_cpus=2, _node_ip_address="127.0.0.1", log_to_driver=False,
    _system_config={"kill_worker_timeout_milliseconds": 500},
)
print(about.address_info["address"], flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def environment():
    """Give Ray a home and a folder of its own; its sockets need a short path."""
    home = tempfile.mkdtemp(prefix="r")
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    # A token is asked for: it is made in that home, and without the mode a front would not send it.
    yield os.environ | {"HOME": home, "RAY_TMPDIR": home, "RAY_AUTH_MODE": "token", "PYTHONPATH": path}
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def held(environment):
    """Start a Ray cluster that outlives its fronts."""
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    process = subprocess.Popen([sys.executable, "-c", _HOLD], env=environment, text=True, **pipes)
    try:
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.communicate("", timeout=60)


@pytest.fixture
def front(environment, held, tmp_path):
    """Run a front in a process of its own; return how it ended, and what it printed."""

    def run(what):
        command = [sys.executable, "-m", "tests.cluster.on_ray", what, str(tmp_path), *map(str, held)]
        named = environment | {"RAY_ADDRESS": held[0]}
        how = {"env": named, "cwd": ROOT, "timeout": 300, "capture_output": True, "text": True}
        done = subprocess.run(command, check=False, **how)
        return done.returncode, done.stderr[-5_000:]

    return run


def test_shards_on_ray_are_one_graph(front):
    code, printed = front("shards")
    assert code == 0, printed


def test_a_front_that_was_killed_finds_its_shards(front):
    code, printed = front("killed")
    assert code == -signal.SIGKILL, printed
    code, printed = front("again")
    assert code == 0, printed


@pytest.mark.parametrize(
    ("others", "alone"),
    [
        ([("10.0.0.1", True)], True),
        ([("127.0.0.2", True), ("10.0.0.1", True)], True),
        ([("10.0.0.2", False)], True),
        ([("10.0.0.2", True)], False),
    ],
)
def test_a_key_does_not_travel_to_other_machines(monkeypatch, others, alone):
    nodes = [{"NodeManagerAddress": address, "Alive": alive} for address, alive in others]
    monkeypatch.setattr(ray_shards.ray, "nodes", lambda: nodes)
    monkeypatch.setattr(ray_shards, "own_address", lambda: "10.0.0.1")
    if alone:
        ray_shards._check_one_machine()
        return
    with pytest.raises(OptionError, match=r"10\.0\.0\.2.*certificate, key and ca"):
        ray_shards._check_one_machine()
