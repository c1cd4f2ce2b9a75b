"""Shards beside one process: whatever is done to both, digests, answers and refusals are the same."""

import random

import numpy as np
import pytest

import dygcn
from dygcn import cluster
from dygcn.cluster.front import FrontState
from dygcn.errors import DygcnError
from dygcn_lab.testbed.seeding import small_model
from tests.live.crashing import many_folders

WEIGHTS = [1.0, 0.5, 3.7, 2.0**-14, 1e-3]
OFF_THE_GRID = [1e300, 1e-200, 1e12]


class Pair:
    """One embedding in one process and one on shards, which get the same."""

    def __init__(self, folder, seed):
        self.folder, self.random = folder, random.Random(seed)
        strings, self.half_life = self.random.random() < 0.5, self.random.choice([None, 5.0])
        self.name = (lambda node: f"é{node}") if strings else (lambda node: node * 7_919 - 1_000)
        self.nodes, self.clock = self.random.choice([8, 40, 150]), 0.0
        model = small_model(
            "string" if strings else "int64",
            directed=self.random.random() < 0.4,
            half_life=self.half_life,
            features=self.random.choice(["hashed", "hashed", "walks"]),
        )
        self.one = dygcn.start(model)
        self.one.update(self.events(100, removes=False))
        self.one.save(folder)
        self.live = cluster.launch(
            folder,
            self.random.choice([1, 2, 3, 5]),
            on="here",
            batches=self.random.choice([1, 3, 1_000]),
            snapshot_every=self.random.choice([1, 5, 10**6]),
        )
        self.acts = [self.update] * 5 + [self.remove_nodes, self.bulk, self.resize, self.restart, self.crash]
        self.acts += [self.read, self.snapshot, self.be_refused, self.wait]

    def events(self, count, removes=True):
        rows = []
        for _ in range(count):
            self.clock += self.random.choice([0.0, 0.0, 0.1, 3.0])
            ends = (
                self.random.choice([0, self.random.randrange(self.nodes)]),
                self.random.randrange(self.nodes),
            )
            op = self.random.choice([1, 1, 1, -1]) if removes else 1
            rows.append((*map(self.name, ends), self.clock, op, self.random.choice(WEIGHTS)))
        return rows

    def run(self, steps):
        try:
            for _ in range(steps):
                act = self.random.choice(self.acts)
                act()
                assert self.live.digest() == self.one.digest(), act
        finally:
            self.live._let_go()

    def update(self):
        events = self.events(self.random.choice([1, 1, 5, 40]))
        found, expected = self.live.update(events), self.one.update(events)
        for name in ("unchanged", "missing", "loops"):
            assert getattr(found, name) == getattr(expected, name)
        assert sorted(found.ids.tolist()) == sorted(expected.ids.tolist())
        assert sorted(found.left.tolist()) == sorted(expected.left.tolist())

    def remove_nodes(self):
        ids = [self.name(self.random.randrange(self.nodes + 3)) for _ in range(self.random.choice([1, 3]))]
        assert self.live.update(remove_nodes=ids).missing == self.one.update(remove_nodes=ids).missing

    def bulk(self):
        parts = [self.events(20) for _ in range(2)]
        self.live.bulk(parts)
        self.one.bulk(parts)

    def resize(self):
        self.live.resize(self.random.choice([1, 2, 3, 4, 7]))

    def restart(self, end="close"):
        getattr(self.live, end)()
        self.live = cluster.launch(self.folder, on="here")

    def crash(self):
        self.restart("_let_go")

    def snapshot(self):
        self.live.snapshot()

    def read(self):
        ids = self.one.ids().tolist()
        assert sorted(self.live.ids().tolist()) == sorted(ids)
        if ids:
            node, k = self.random.choice(ids), self.random.choice([1, 3, 10])
            np.testing.assert_array_equal(self.live[node], self.one[node])
            assert self.live.nearest(node, k) == self.one.nearest(node, k)
            assert self.live.edges().equals(self.one.edges())

    def be_refused(self):
        event = (self.name(0), self.name(1), self.clock, 1, self.random.choice(OFF_THE_GRID))
        found = []
        for live in (self.one, self.live):
            with pytest.raises(DygcnError) as refused:
                live.update([event])
            found.append(refused.type)
        assert found[0] is found[1]

    def wait(self):
        if self.half_life is not None:
            self.clock += self.random.choice([1.0, 20.0])
            for live in (self.one, self.live):
                live.update([], now=self.clock)


def live_through(seeds, steps):
    for seed in seeds:
        with many_folders() as new_folder:
            Pair(new_folder(), seed).run(steps)


def test_shards_are_one_process_whatever_is_done_to_both():
    """Else: a batch is lost, applied twice or by the wrong shard when slots move or processes start again."""
    live_through(range(8), 12)


@pytest.mark.slow
def test_shards_are_one_process_in_many_lives():
    live_through(range(100, 500), 40)


def test_a_front_that_hears_one_shard_alone_would_be_noticed(monkeypatch):
    """The seeded bug: what other shards changed is not told."""
    follow = FrontState.follow

    def follow_one(self, entry):
        everyone = self.queries.all
        monkeypatch.setattr(self.queries, "all", lambda query: everyone(query)[:1])
        try:
            return follow(self, entry)
        finally:
            monkeypatch.setattr(self.queries, "all", everyone)

    monkeypatch.setattr(FrontState, "follow", follow_one)
    with pytest.raises(AssertionError):
        live_through(range(4), 6)
