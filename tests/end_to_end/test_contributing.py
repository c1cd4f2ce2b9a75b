"""CONTRIBUTING.md followed to the letter: a clone, its first console block, in an empty environment."""

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def commands():
    """Return the commands of the first console block, without those that run all of CI."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    block = re.search(r"```console\n(.*?)```", text, re.DOTALL)[1]
    lines = re.findall(r"^\$ (.*?)(?:\s+#.*)?$", block, re.MULTILINE)
    return [line for line in lines if not line.startswith("bash .ci/run")]


def test_the_block_sets_up_and_runs_the_quick_tests():
    found = commands()
    assert found[0].startswith("python -m venv")
    assert any(line.endswith("-r requirements-dev.lock") for line in found)
    assert found[-1].startswith("pytest -m unit")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_it_works_as_it_is_written(tmp_path, capsys):
    """From a clone to the first green test, and all quick ones; times are printed, not asserted."""
    *set_up, quick = commands()
    first = f"{quick} tests/test_front_door.py"
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    begun = time.monotonic()
    subprocess.run(["git", "clone", "-q", str(ROOT), str(tmp_path / "clone")], check=True)
    for number, script in enumerate([" && ".join([*set_up, first]), ". .venv/bin/activate && " + quick]):
        done = subprocess.run(
            ["bash", "-ec", script], cwd=tmp_path / "clone", env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        with capsys.disabled():
            what = "from git clone to the first green test" if number == 0 else "all quick tests"
            os.write(1, f"\n{what}: {time.monotonic() - begun:.0f} s\n{done.stdout[-300:]}".encode())
        begun = time.monotonic()
