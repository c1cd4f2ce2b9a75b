"""How many seeded bugs the quick tests notice: ``python -m tests.quick_notices``.

Each seeded bug of a test of the kind `mutant` is recorded while that test runs: attributes that it replaces,
or a line that it has written wrong into a copy of the package. With the bug in it, quick tests are run in a
process of their own: those of the bug's file, then those of its folder. It is noticed if one fails, so the
figure is a lower bound of what all quick tests notice. Bugs that are made in another way are counted apart.
"""

import argparse
import inspect
import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from tests import seeded

NOTICED, MISSED, ELSEWHERE = 10, 11, 12
WORDS = {NOTICED: "noticed", MISSED: "not noticed", ELSEWHERE: "made in another way"}
SECONDS = 300


class Recorder:
    """Keeps what a test replaces in the package, and lines that it writes wrong."""

    def __init__(self):
        self.replaced, self.lines = [], []
        self._setattr, self._try_with = pytest.MonkeyPatch.setattr, seeded.try_with

    def __enter__(self):
        recorder = self

        def record(patch, *arguments, **options):
            recorder._setattr(patch, *arguments, **options)
            target, name, _ = patch._setattr[-1]
            module = target.__name__ if inspect.ismodule(target) else getattr(target, "__module__", "")
            if str(module).startswith("dygcn"):
                recorder.replaced.append((target, name, inspect.getattr_static(target, name)))

        def write(folder, name, line, wrong, hunt, *arguments):
            recorder.lines.append((name, line, wrong))
            return subprocess.CompletedProcess([], seeded._NOTICED, "", "")

        pytest.MonkeyPatch.setattr, seeded.try_with = record, write
        return self

    def __exit__(self, *error):
        pytest.MonkeyPatch.setattr, seeded.try_with = self._setattr, self._try_with


def fails(item, following=None):
    """Run a test; say whether it failed."""
    item.session._setupstate.teardown_exact(None)
    return any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))


def notices(bug, chosen):
    """Return what quick tests say about a bug; in a process that ends afterwards."""
    with Recorder() as recorder:
        if fails(bug):
            return ELSEWHERE
    if recorder.lines:
        return notice_line(recorder.lines[0], {item.path for item in chosen})
    if not recorder.replaced:
        return ELSEWHERE
    for target, name, value in recorder.replaced:
        setattr(target, name, value)
    return NOTICED if any(fails(item) for item in chosen) else MISSED


def notice_line(bug, files):
    """Return what quick tests say about an uncompiled copy of the package with a wrong line."""
    with tempfile.TemporaryDirectory() as folder:
        copy = seeded.wrong_copy(Path(folder), *bug)
        env = {**os.environ, **seeded.elsewhere(), "PYTHONPATH": f"{copy}{os.pathsep}{seeded.ROOT}"}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-m",
            "quick",
            "-p",
            "no:cacheprovider",
            *files,
        ]
        done = subprocess.run(command, env=env, cwd=seeded.ROOT, capture_output=True)
    return NOTICED if done.returncode == 1 else MISSED


def in_a_fork(bug, chosen):
    """Return the verdict on a bug; one that keeps quick tests from ending is not noticed."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            verdict = notices(bug, chosen)
        except BaseException:
            verdict = ELSEWHERE
        os._exit(verdict)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if status in WORDS else MISSED


class Trials:
    """A plugin for pytest that tries bugs in the place of running tests."""

    def __init__(self, sample, seed):
        self.sample, self.seed, self.verdicts = sample, seed, []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        marks = {item: {mark.name for mark in item.own_markers} for item in session.items}
        bugs = [item for item in session.items if "mutant" in marks[item]]
        quick = [item for item in session.items if "quick" in marks[item]]
        if self.sample is not None and self.sample < len(bugs):
            bugs = random.Random(self.seed).sample(bugs, self.sample)
        for bug in bugs:
            here = [item for item in quick if item.path.parent == bug.path.parent]
            chosen = sorted(here, key=lambda item: item.path != bug.path)
            self.verdicts.append(in_a_fork(bug, chosen))
            os.write(1, f"{WORDS[self.verdicts[-1]]}: {bug.nodeid}\n".encode())
        return True

    def summary(self):
        """Return the figures as a sentence."""
        noticed, missed, elsewhere = (self.verdicts.count(verdict) for verdict in WORDS)
        return (
            f"{noticed} of {noticed + missed} seeded bugs were noticed; {elsewhere} are made in another way"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", type=int, help="so many bugs, drawn at random; without it, all of them")
    parser.add_argument("--seed", type=int, default=0)
    chosen, rest = parser.parse_known_args()
    trials = Trials(chosen.sample, chosen.seed)
    plugins = ["-p", "no:cacheprovider", "-p", "no:unraisableexception"]  # some libraries complain of a fork
    pytest.main(["-q", *plugins, "-m", "mutant or quick", *(rest or ["tests"])], plugins=[trials])
    os.write(1, (trials.summary() + "\n").encode())
