"""CONTRIBUTING.md followed to the letter: a clone, its first console block, in an empty environment."""

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def commands():
    """Return the commands of the first console block, without the last, which runs all of CI."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    block = re.search(r"```console\n(.*?)```", text, re.DOTALL)[1]
    *lines, everything = re.findall(r"^\$ (.*?)(?:\s+#.*)?$", block, re.MULTILINE)
    assert everything == "bash .ci/run"
    return lines


def test_ci_makes_its_environment_by_the_block_and_runs_the_rest_as_steps():
    *set_up, quick, hooks = commands()
    assert set_up[0].startswith("python -m venv")
    assert set_up[-1] == "bash .ci/develop"
    run = (ROOT / ".ci" / "run").read_text()
    assert "3< <(sed -n '/^```console/,/^```$/s/^\\$ //p' CONTRIBUTING.md)" in run
    assert f"run_quick() {{ {quick}; }}" in run
    assert f"run_lint() {{ {hooks}; }}" in run


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_it_works_as_it_is_written(tmp_path, capsys):
    """From a clone to the first green test, all quick ones, the hooks; times are printed, not asserted."""
    *set_up, quick, hooks = commands()
    first = f"{quick} tests/test_front_door.py"
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    begun = time.monotonic()
    subprocess.run(["git", "clone", "-q", str(ROOT), str(tmp_path / "clone")], check=True)
    scripts = {
        "from git clone to the first green test": " && ".join([*set_up, first]),
        "all quick tests": ". .venv/bin/activate && " + quick,
        "the hooks": ". .venv/bin/activate && " + hooks,
    }
    for what, script in scripts.items():
        done = subprocess.run(
            ["bash", "-ec", script], cwd=tmp_path / "clone", env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        with capsys.disabled():
            os.write(1, f"\n{what}: {time.monotonic() - begun:.0f} s\n{done.stdout[-300:]}".encode())
        begun = time.monotonic()
