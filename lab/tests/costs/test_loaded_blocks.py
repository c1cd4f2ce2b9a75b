"""Lists that are loaded into blocks of any length, and outgrow them: no arc is lost or written over."""

import numpy as np
import pytest

from dygcn.engine.events import read_events
from dygcn.engine.graph import Graph, apply_batch
from dygcn_lab.costs import shard_filling

NODES = 30


def batches(seed):
    random = np.random.default_rng(seed)
    for step in range(40):
        n = int(random.integers(1, 60))
        op = np.ones(n, np.int64) if step < 8 else random.choice([1, -1], n)
        src, dst = random.integers(0, NODES, n) % 7, random.integers(0, NODES, n)  # seven have many
        yield read_events({"src": src, "dst": dst, "op": op})


def arcs_of(graph):
    a, b, weight = graph.edges()
    ids = graph.ids.names(np.arange(graph.ids.high, dtype=np.int32)).values
    return sorted(zip(ids[a].tolist(), ids[b].tolist(), weight.tolist(), strict=True))


def loaded_differs(seed, directed):
    """Say whether a graph with blocks for its first edges ever has other arcs than one without."""
    plain, loaded = Graph("int64", directed=directed), Graph("int64", directed=directed)
    first = list(batches(seed))[:8]
    most = [np.zeros(NODES, np.int64), np.zeros(NODES, np.int64)]
    for batch in first:
        for graph in (plain, loaded):
            ends = graph.ids.resolve(batch.src, batch.dst, batch.op)
            graph.reserve()
        for count, nodes in zip(most, ends, strict=True):
            np.add.at(count, nodes, 1)
    for arcs, count in zip(
        (loaded.pull, loaded.push), most if directed else [most[0] + most[1]], strict=False
    ):
        shard_filling.give_blocks(arcs, count[: loaded.ids.high])
    for batch in batches(seed):
        for graph in (plain, loaded):
            graph.release(apply_batch(graph, batch).left)
        if arcs_of(plain) != arcs_of(loaded):
            return True
    return False


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_arcs_are_those_of_a_graph_without_blocks(seed, directed):
    assert not loaded_differs(seed, directed)


def test_a_block_that_is_shorter_than_its_room_would_be_noticed(monkeypatch):
    whole = shard_filling.give_blocks

    def given(arcs, most):
        whole(arcs, most)
        arcs._room[arcs._room > 0] += 4

    monkeypatch.setattr(shard_filling, "give_blocks", given)
    assert any(loaded_differs(seed, False) for seed in range(6))
