"""Kills of shards in small, on a real Ray cluster, and what the judge must notice."""

import os
import subprocess
import sys

import msgspec
import numpy as np
import pytest

import dygcn.cluster.ray_shards  # noqa: F401  (skips, where there is no Ray)
from dygcn.live.durable.storage.entries import pack
from dygcn.live.embedding import load
from dygcn_lab.soak.shard_faults import Fault
from dygcn_lab.soak.shard_kills import deck, judge, silence
from dygcn_lab.soak.shard_script import ShardScript

SCRIPT = ShardScript(seed=4, edges=600, size=20)
LAST = 9


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kills") / "graph"
    SCRIPT.save_graph(folder)
    return folder


def logged():
    return [(position, pack(SCRIPT.batch(position), None)) for position in range(LAST + 1)]


def digest_of(graph, positions):
    live = load(graph)
    for position in positions:
        live.update(SCRIPT.batch(position))
    return live.digest()


def judged(graph, entries, positions=range(LAST + 1), last=LAST):
    return judge(SCRIPT, graph, entries, set(range(last + 1)), digest_of(graph, positions))


def test_everything_once_is_good(graph):
    found = judged(graph, logged())
    assert found.holds, found
    assert found.logged == LAST + 1


def test_a_batch_that_one_shard_missed_is_noticed(graph):
    found = judged(graph, logged(), [position for position in range(LAST + 1) if position != 4])
    assert not found.holds
    assert not found.digest_equal


def test_a_batch_that_was_applied_again_is_noticed(graph):
    found = judged(graph, logged(), [*range(LAST + 1), 2])
    assert not found.holds
    assert not found.digest_equal


def test_a_batch_that_is_twice_in_the_log_is_noticed(graph):
    found = judged(graph, [*logged(), (-1, logged()[3][1])])
    assert (found.doubled, found.lost, found.holds) == (1, 0, False)


def test_an_acknowledged_batch_that_is_not_in_the_log_is_noticed(graph):
    assert judged(graph, logged()[:-1]).lost == 1
    assert judged(graph, logged(), last=LAST + 1).lost == 1


def test_other_events_at_a_position_are_noticed(graph):
    entries = logged()
    entries[3], entries[4] = (3, entries[4][1]), (4, entries[3][1])
    assert judged(graph, entries).altered == 2


def test_kinds_of_faults_have_their_share():
    drawn = deck(100, np.random.default_rng(7))
    assert [drawn.count(kind) for kind in ("shard", "stop", "front", "node", "twin")] == [60, 12, 13, 10, 5]


def test_silence_is_around_the_fault():
    assert silence([1.0, 2.0, 6.0, 6.5, 20.0], Fault("shard", 2.1, (0,), 6.2)) == 4.0


def run(out, *options):
    command = [sys.executable, "-m", "dygcn_lab.soak.shard_kills", "--edges", "3000", "--shards", "2"]
    command += ["--rate", "400", "--size", "40", "--out", str(out), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=os.environ)
    assert out.exists(), done.stderr[-5_000:]
    return msgspec.json.decode(out.read_bytes())


def test_faults_leave_everything_there_once(tmp_path):
    found = run(tmp_path / "kills.json", "--faults", "shard", "twin", "front")
    assert found["holds"], found
    assert sum(found["faults"].values()) == 3
    assert found["stale_told_to_end"] >= 2


def test_a_front_that_says_no_positions_is_noticed(tmp_path):
    found = run(tmp_path / "kills.json", "--faults", "front", "--unsure")
    assert found["doubled"] > 0
    assert not found["holds"]
