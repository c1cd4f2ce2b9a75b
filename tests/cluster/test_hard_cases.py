"""What would lose state, leave a cluster stuck or give a wrong answer: each was seen once."""

import pytest

import dygcn
from dygcn import cluster
from dygcn.cluster.front_graph import FrontGraph
from dygcn.cluster.front_state import FrontState
from dygcn.cluster.protocol import Events
from dygcn.errors import CapacityError


def begin(folder, shards=2, **how):
    dygcn.fit([("a", "b"), ("b", "c"), ("c", "d")], dim=8).save(folder)
    return cluster.start(folder, shards, on="here", **how)


def overload(live):
    """Bring a node that was new in one batch beyond what a node carries in the next."""
    weight = 0.6 * live.state.graph.limit / live.state.graph.one
    live.update([("hub", "x", 0.0, 1, weight)])
    live.update([("hub", "y", 0.0, 1, weight)])


def test_a_new_node_that_would_carry_too_much_never_comes_to_the_log(tmp_path):
    live = begin(tmp_path / "x")
    with pytest.raises(CapacityError):
        overload(live)
    assert live.log.failure is None and live.log.last_batch_id == 1
    live.update(add=[("a", "hub")])
    digest = live.digest()
    live.let_go()
    with cluster.start(tmp_path / "x", on="here") as again:
        assert again.digest() == digest


def test_weights_that_are_noted_before_ids_have_nodes_would_be_noticed(tmp_path, monkeypatch):
    def write(self):
        batch, now = self._staged
        FrontGraph.note_weights(self.graph, batch)
        return self.follow(Events(batch, now))

    monkeypatch.setattr(FrontState, "write", write)
    live = begin(tmp_path / "x")
    with pytest.raises(CapacityError):
        overload(live)
    assert live.log.last_batch_id > 1  # every shard would die of what is in the log now
    live.let_go()
