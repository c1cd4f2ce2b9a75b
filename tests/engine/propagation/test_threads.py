"""Several threads at one update: the same bits as one."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dygcn.engine.events import read_events
from dygcn.engine.features.inputs import Hashed
from dygcn.engine.graph import Graph, apply_batch
from dygcn.engine.propagation import ExactRule, gathering, spreading
from dygcn.engine.propagation.spreading import set_threads, side_by_side, threads
from dygcn.errors import OptionError

LEAST = 200  # pushes that are shared here, so that small graphs will do
NODES = 400


@pytest.fixture(autouse=True)
def as_before():
    yield
    set_threads(None)


def batches(seed, weighted):
    """Events around a few hubs: some rows move to the wide pool and back, in every part of the nodes."""
    random = np.random.default_rng(seed)
    for turn in range(6):
        src, dst = random.integers(0, NODES, (2, 700))
        src = np.where(random.random(700) < 0.6, random.integers(0, 5, 700) * 64, src)
        op = np.where(random.random(700) < (0.8 if turn in (2, 4) else 0.2), -1, 1)
        weight = random.choice([0.25, 1.0, 3.0], 700) if weighted else np.ones(700)
        yield read_events({"src": src, "dst": dst, "op": op, "weight": weight})


def played(count, directed, weighted):
    """Return what every update changed, the state at the end and anew, on so many threads; as digests."""
    set_threads(count)
    graph, rule = Graph("int64", directed=directed), ExactRule(Hashed(7, seed=5), orders=3)
    moves = []
    for batch in batches(11, weighted):
        delta = apply_batch(graph, batch)
        changed = rule.apply(graph, delta)
        names = graph.ids.names(changed.nodes).values
        moves.append((sorted(zip(names.tolist(), changed.orders.tolist(), strict=True)), changed.rows))
        graph.release(delta.left)
    state = digest(*rule.state_bytes(graph, graph.nodes()))
    rule.rebuild(graph)
    return digest(repr(moves).encode()), state, digest(*rule.state_bytes(graph, graph.nodes()))


def digest(*blocks):
    """Return a short name of bytes: to explain how megabytes differ takes pytest minutes."""
    return hashlib.sha256(b"".join(memoryview(block).cast("B") for block in blocks)).hexdigest()


@pytest.fixture
def parts(monkeypatch):
    """How often an order was done in so many parts."""
    counts, whole = Counter(), spreading.Spreading._add

    def in_parts(self, order, arcs, frontier, parts, pushes):
        counts[parts] += parts > 1
        return whole(self, order, arcs, frontier, parts, pushes)

    monkeypatch.setattr(spreading, "SHARED", LEAST)
    monkeypatch.setattr(spreading.Spreading, "_add", in_parts)
    return counts


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_any_number_of_threads_gives_the_same_bits(directed, weighted, parts):
    one, two, three = (played(count, directed, weighted) for count in (1, 2, 3))
    assert one == two == three
    assert one[1] == one[2]
    assert parts[1] == 0
    assert parts[2] == parts[3] > 10


def test_parts_that_miss_nodes_would_be_noticed(parts, monkeypatch):
    """The mutant: nobody does the first block of each part."""
    gather = gathering.gather_part

    def miss(*arguments):
        before, mine, after = arguments[:2], arguments[2], arguments[3:]
        return gather(*before, mine & (mine - 1), *after)

    expected = played(1, False, False)
    monkeypatch.setattr(gathering, "gather_part", miss)
    assert played(2, False, False)[1] != expected[1]


def test_old_messages_that_a_part_leaves_out_would_be_noticed(parts, monkeypatch):
    """The mutant: only this thread writes the messages that senders had."""
    put, missed = spreading.put_messages, []

    def miss(*arguments):
        if threading.current_thread() is threading.main_thread():
            put(*arguments)
        else:
            missed.append(arguments)

    expected = played(1, False, False)
    monkeypatch.setattr(spreading, "put_messages", miss)
    assert played(2, False, False)[1] != expected[1]
    assert missed


def test_what_another_thread_raises_is_raised_here():
    def fail():
        raise ValueError("in a thread")

    with pytest.raises(ValueError, match="in a thread"):
        side_by_side([lambda: 1, fail])
    with pytest.raises(ValueError, match="in a thread"):
        side_by_side([fail, lambda: 1])
    assert side_by_side([lambda: 1, lambda: 2, lambda: 3]) == [1, 2, 3]


def test_nobody_goes_on_while_another_thread_still_works():
    done = []

    def fail():
        raise ValueError("at once")

    def work():
        time.sleep(0.2)
        done.append(True)

    for calls in ([fail, work], [lambda: 1, fail, work], [lambda: 1, work, fail]):
        done.clear()
        with pytest.raises(ValueError, match="at once"):
            side_by_side(calls)
        assert done


def test_how_many_threads(monkeypatch):
    monkeypatch.setenv("DYGCN_THREADS", "5")
    assert threads() == 5
    set_threads(2)
    assert threads() == 2
    set_threads(None)
    for nonsense in ("", "0", "many", "-1"):
        monkeypatch.setenv("DYGCN_THREADS", nonsense)
        assert 1 <= threads() <= 8
    for wrong in (0, -1, 1.5, "2"):
        with pytest.raises(OptionError, match="threads is"):
            set_threads(wrong)


FORKED = """
import os, signal, sys
from dygcn.engine.propagation import spreading
from tests.engine.propagation.test_threads import LEAST, played

spreading.SHARED = LEAST
expected = played(3, False, False)  # now there are threads
threads = sys.modules["dygcn.engine.propagation.spreading"]
pool = threads._pool
child = os.fork()
if child == 0:
    if "as it was" in sys.argv:
        threads._pool = pool
        signal.alarm(2)
    os._exit(0 if played(3, False, False) == expected else 1)
_, status = os.waitpid(child, 0)
assert pool is not None
assert played(3, False, False) == expected
sys.exit(abs(os.waitstatus_to_exitcode(status)))
"""


def run_forked(*arguments):
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", FORKED, *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_process_can_update():
    """It has none of its parent's threads."""
    done = run_forked()
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_process_that_keeps_the_pool_would_be_noticed():
    """The mutant: it waits for threads that it does not have."""
    assert run_forked("as it was").returncode == signal.SIGALRM
