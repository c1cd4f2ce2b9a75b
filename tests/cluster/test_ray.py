"""Shards on a real Ray cluster."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dygcn.cluster.ray_shards  # noqa: F401  (skips, where there is no Ray)

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


@pytest.fixture
def environment(tmp_path_factory):
    """Give Ray a home and a folder of its own; its sockets need a short path."""
    home = str(tmp_path_factory.mktemp("r"))
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    # A token is asked for: it is made in that home, and without the mode a front would not send it.
    return os.environ | {"HOME": home, "RAY_TMPDIR": home, "RAY_AUTH_MODE": "token", "PYTHONPATH": path}


@pytest.fixture
def held(environment):
    """Start a Ray cluster that outlives its fronts."""
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    process = subprocess.Popen([sys.executable, "-c", _HOLD], env=environment, text=True, **pipes)
    try:
        yield process
    finally:
        process.communicate("", timeout=60)


def test_shards_on_ray_are_one_graph(environment, held, tmp_path):
    address = held.stdout.readline().strip()
    assert address
    command = [sys.executable, "-m", "tests.cluster.on_ray", str(tmp_path), address, str(held.pid)]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, timeout=300, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-5_000:]
