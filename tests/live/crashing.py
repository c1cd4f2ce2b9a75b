"""Small models in folders, and ways to stop without stopping in good order."""

import itertools
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import dygcn
from dygcn.engine.models.model import Model
from dygcn.errors import EventError

WIDTH, DIM = 16, 8
TOO_HEAVY = 1e30  # no model carries it, so an event with it is refused before it is in the log


@contextmanager
def many_folders():
    """Yield a function that returns a new place each time; in memory, where nobody waits for a disk."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as workdir:
        numbers = itertools.count()
        yield lambda: Path(workdir) / str(next(numbers))


def small_model(kind="int64", directed=False, half_life=None, orders=2, unit=None):
    random = np.random.default_rng(7)
    weights = tuple(random.standard_normal((WIDTH, DIM)).astype(np.float32) for _ in range(orders + 1))
    return Model(weights, kind, "hashed", np.ones(WIDTH), 0, directed, half_life=half_life, unit=unit)


def begin(path, snapshot_every=10**9, keep_log=None, after=None, **options):
    """A folder that was just begun, without an edge."""
    live = dygcn.start(small_model(**options))
    return dygcn.open(path, live, snapshot_every=snapshot_every, keep_log=keep_log, after=after)


def crash(live):
    """Let go of the folder without writing anything, as the end of a process does."""
    live._let_go()


def crashed_copy(live, path):
    """Copy the folder as it lies there now, with a journal that is in use; return where to."""
    live._snapshots.wait()
    return shutil.copytree(live._folder, path, ignore=shutil.ignore_patterns("*-shm", "lock"))


def refuse_one(live):
    """Have something refused after it is in the log: a change that only a snapshot would hold."""
    with pytest.raises(EventError):
        live.update(remove_nodes=["of another type" if live.model.ids == "int64" else 7])


def reopened(live, **options):
    """Crash, and open again."""
    crash(live)
    return dygcn.open(live._folder, **options)


def same(one, other):
    """Say whether everything is the same that a restart must not change."""
    return (one.digest(), one.streams, one.sequence, one._state.graph.clock) == (
        other.digest(),
        other.streams,
        other.sequence,
        other._state.graph.clock,
    )


def comes_back(live):
    """Crash and open again: everything is the same."""
    again = reopened(live)
    assert same(again, live)
    crash(again)
