"""Counts of subscribers, against a dict: rows come and go, and are used again."""

import numpy as np

from dygcn.cluster.shard import Subscribers


def differ(seed, forget=False):
    """Say whether counts ever are other than those of a dict."""
    random, subscribers, twin = np.random.default_rng(seed), Subscribers(3), {}
    subscribers.reserve(40)
    for _ in range(200):
        nodes = random.choice(40, random.integers(0, 8), replace=False).astype(np.int32)
        counts = random.integers(0, 3, (len(nodes), 3)).astype(np.int32) * (
            random.random((len(nodes), 1)) < 0.5
        )
        subscribers.put(nodes, counts.astype(np.int32))
        twin.update(zip(nodes.tolist(), counts.tolist(), strict=True))
        if forget:
            subscribers._free = subscribers._free.repeat(2)
        everyone = np.arange(40, dtype=np.int32)
        if subscribers.counts(everyone).tolist() != [twin.get(node, [0, 0, 0]) for node in range(40)]:
            return True
        if len(subscribers) != sum(map(any, twin.values())):
            return True
    assert len(subscribers._counts) <= 64
    return False


def test_counts_are_those_of_a_dict():
    assert not any(map(differ, range(5)))


def test_a_row_that_is_given_twice_would_be_noticed():
    assert differ(0, forget=True)
