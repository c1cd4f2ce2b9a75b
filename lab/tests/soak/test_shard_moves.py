"""Slots move while events flow."""

import pytest

from dygcn_lab.soak import shard_moves


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(shard_moves, "STEPS", (3, 2))


def test_a_cluster_that_grows_and_shrinks_under_load_ends_right(tmp_path):
    found = shard_moves.measure(500, 1_000.0, "here", tmp_path)
    assert found["digest_equal"]
    assert [step["shards"] for step in found["steps"]] == [3, 2]
    assert all(step["moves"] > 1 for step in found["steps"])


def test_a_batch_that_is_left_out_would_be_noticed(tmp_path, monkeypatch):
    whole = shard_moves.replayed

    def all_but_one(one, moves):
        moves.batches.pop()
        return whole(one, moves)

    monkeypatch.setattr(shard_moves, "replayed", all_but_one)
    assert not shard_moves.measure(500, 1_000.0, "here", tmp_path)["digest_equal"]
