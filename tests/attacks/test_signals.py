"""Signals in the middle of durable calls: acknowledged events are there, others wholly or not at all."""

import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from dygcn.errors import WriteFailed
from dygcn.live.durable.storage.log import EventLog
from tests.attacks.interrupted_life import LONGEST, Interrupted, Life
from tests.live.crashing import many_folders
from tests.seeded import ROOT


def live_through(seed, interrupts):
    """Interrupt so many calls by a timer; return how often the folder was opened again."""
    command = [sys.executable, "-m", "tests.attacks.interrupted_life", str(seed), str(interrupts)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_what_was_acknowledged_outlives_signals():
    """Else: Ctrl-C in an update loses acknowledged events, or leaves a part of a batch behind."""
    assert live_through(seed=1, interrupts=60) > 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_what_was_acknowledged_outlives_hundreds_of_signals(seed):
    assert live_through(seed, 400) > 1


@contextmanager
def behind_the_commit(seconds):
    """Interrupt half of the calls between the commit of an entry and the change of the state."""
    whole = EventLog._tidy_journal

    def interrupted(self, grown):
        if threading.current_thread() is not threading.main_thread():  # signals reach no other one
            return whole(self, grown)
        raise Interrupted

    if seconds < LONGEST / 2:
        EventLog._tidy_journal = interrupted
    try:
        yield
    finally:
        EventLog._tidy_journal = whole


def test_a_call_that_is_interrupted_behind_the_commit_has_happened():
    with many_folders() as new_folder:
        Life(new_folder(), 0, behind_the_commit).run(4)


def test_a_log_that_goes_on_after_an_interrupt_would_be_noticed(monkeypatch):
    """The seeded bug: two batches share a cut, and what is served is another graph than that of the log."""
    monkeypatch.setattr(EventLog, "fail", lambda self, error: WriteFailed(str(error)))
    with pytest.raises(AssertionError, match="lost, and too many"):
        test_a_call_that_is_interrupted_behind_the_commit_has_happened()
