"""Streams against a dict, with everything that an embedding can do, and invariants after every step."""

import copy

import numpy as np
import pytest

import dygcn
from dygcn.engine.propagation.spreading import set_threads
from dygcn.errors import CapacityError
from dygcn_lab.testbed.dense import twin_vectors
from dygcn_lab.testbed.graphs import GraphOracle
from dygcn_lab.testbed.seeding import small_model
from tests.attacks.invariants import check_invariants
from tests.live.test_hubs import batch
from tests.seeded import assert_noticed

TOO_HEAVY = 1e30


class Life:
    """One embedding, its dict, and what is done to both."""

    def __init__(self, seed):
        self.random = random = np.random.default_rng(seed)
        half_life = [None, 3.0][int(random.integers(2))]
        orders, directed = int(random.integers(1, 4)), bool(random.integers(2))
        model = small_model(directed=directed, half_life=half_life, orders=orders, seed=seed)
        self.live, self.oracle = dygcn.start(model), GraphOracle(directed, half_life)
        self.nodes, self.clock, self.steps = int(random.integers(10, 300)), 0.0, 0
        self.weights = str(random.choice(["one", "few", "any"]))

    def events(self):
        self.clock += float(2 * self.random.random())
        weights = self.weights if self.steps > 4 else "one"
        return batch(self.random, self.nodes, self.clock, self.oracle, weights)

    def update(self):
        events = self.events()
        self.live.update(events)
        self.oracle.apply(events)

    def bulk(self):
        parts = [self.events(), self.events()]
        self.live.bulk(parts)
        for events in parts:
            self.oracle.apply(events)

    def remove_nodes(self):
        gone = self.random.integers(0, self.nodes, 3).tolist()
        self.live.update(remove_nodes=gone)
        for node in gone:
            self.oracle.remove_node(node)

    def be_refused(self):
        """A refused batch leaves no mark: neither does its time count."""
        before = self.live.digest()
        with pytest.raises(CapacityError):
            self.live.update([*self.events(), (1, 2, self.clock, 1, TOO_HEAVY)])
        assert self.live.digest() == before

    def tolerate(self):
        tolerance = float(self.random.choice([0.0, 0.05, 0.5]))
        self.live.publish(tolerance=tolerance if self.live.model.orders == 2 else 0.0)

    def copy(self):
        """A copy goes on, and the original is left as it was."""
        original, before = self.live, self.live.digest()
        self.live = copy.deepcopy(original)
        self.update()
        check_invariants(original)
        assert original.digest() == before

    def step(self):
        self.steps += 1
        acts = [self.update] * 6 + [self.bulk, self.remove_nodes, self.be_refused, self.tolerate, self.copy]
        acts[int(self.random.integers(len(acts)))]()
        check_invariants(self.live)

    def check(self):
        """Compare with the dict and its dense twin."""
        live, oracle = self.live, self.oracle
        check_invariants(live)
        assert set(live.ids().tolist()) == oracle.nodes()
        assert live.edge_count == len(oracle.edges)
        assert live.digest() == live.recompute().digest()
        if len(live):
            twin = twin_vectors(live, oracle.weights())
            np.testing.assert_allclose(live.vectors(live.ids()), twin, atol=1e-5, rtol=0)


def live_through(seeds, steps=16):
    for seed in seeds:
        set_threads(1 + seed % 2)
        life = Life(seed)
        for _ in range(steps):
            life.step()
        life.check()


@pytest.fixture(autouse=True)
def threads():
    yield
    set_threads(None)


def test_invariants_hold_after_every_step():
    """Else: an array of marks, blocks or hubs is left wrong, and a later update computes from it."""
    live_through(range(24))


@pytest.mark.slow
def test_invariants_hold_after_every_step_of_many_lives():
    live_through(range(1_000, 5_000), 40)


LINES = {
    "a block is given back and kept": (
        "dygcn.engine.graph.arcs",
        "arcs.capacity[node] = 0",
        "pass",
    ),
    "a mark of a batch stays": (
        "dygcn.engine.propagation.kernels",
        "plan.tools.marks.seen[plan.tools.reached.nodes[i]] = 0",
        "pass",
    ),
}


def hunt():
    """Few edges, which come and go: kernels that are not compiled are slow."""
    live = dygcn.start(small_model())
    for other in range(12):
        live.update(add=[(0, 1 + other)])
        check_invariants(live)
    live.update(remove=[(0, 1 + other) for other in range(6)])
    check_invariants(live)


def test_without_a_bug_the_hunt_finds_nothing():
    hunt()


@pytest.mark.parametrize("bug", LINES)
def test_a_wrong_line_of_a_kernel_would_be_noticed(bug, tmp_path):
    assert_noticed(tmp_path, *LINES[bug], hunt)
