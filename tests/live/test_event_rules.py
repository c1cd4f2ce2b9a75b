"""The event rules as a Hypothesis state machine: the live embedding against a dict, step by step."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import dygcn
from dygcn.engine.events import python_ids
from dygcn.engine.models.model import Model
from dygcn.errors import EventError
from dygcn_lab.testbed.dense import twin_vectors
from dygcn_lab.testbed.graphs import GraphOracle

NODES = st.integers(0, 11)
WEIGHTS = st.sampled_from([0.25, 0.5, 1.0, 1.0, 1.0, 2.0, 3.0, 7.5])
EVENTS = st.lists(st.tuples(NODES, NODES, st.floats(0, 3), st.sampled_from([1, 1, -1]), WEIGHTS), max_size=12)
BAD = st.sampled_from(
    [
        (1, 2, 0.0, 1, float("nan")),
        (1, 2, 0.0, 1, float("inf")),
        (1, 2, 0.0, 1, -1.0),
        (1, 2, 0.0, 1, 0.0),
        (1, 2, 0.0, 1, 1e30),
        (1, 2, 0.0, 1, 1e-30),
        (1, 2, 0.0, 2, 1.0),
        (1, 2, float("nan"), 1, 1.0),
        (1.5, 2, 0.0, 1, 1.0),
        (None, 2, 0.0, 1, 1.0),
        ("ann", 2, 0.0, 1, 1.0),
        (1, 2**63, 0.0, 1, 1.0),
    ]
)


class EventRules(RuleBasedStateMachine):
    half_life: float | None = None

    @initialize(
        directed=st.booleans(), orders=st.integers(1, 3), strings=st.booleans(), seed=st.integers(0, 9)
    )
    def begin(self, directed, orders, strings, seed):
        random = np.random.default_rng(seed)
        weights = tuple(random.standard_normal((24, 6)).astype(np.float32) / 5 for _ in range(orders + 1))
        kind = "string" if strings else "int64"
        self.live = dygcn.start(
            Model(weights, kind, "hashed", np.ones(24), seed, directed, half_life=self.half_life)
        )
        self.oracle = GraphOracle(directed, self.half_life)
        self.strings, self.now, self.held = strings, 0.0, []

    def named(self, node):
        return f"n{node}" if self.strings and isinstance(node, int) else node

    def event(self, src, dst, t, op, weight):
        return (self.named(src), self.named(dst), self.now + t, op, weight)

    @rule(events=EVENTS)
    def update(self, events):
        batch = [self.event(*event) for event in events]
        before = self.rows()
        change = self.live.update(batch)
        self.oracle.apply(batch)
        self.check_change(change, before)

    @rule(events=EVENTS)
    def update_and_keep_the_change(self, events):
        change = self.live.update([self.event(*event) for event in events])
        self.oracle.apply([self.event(*event) for event in events])
        self.held.append((change, python_ids(self.live._names(change._nodes)).tolist()))

    @rule(
        add=st.lists(st.tuples(NODES, NODES), max_size=6),
        remove=st.lists(st.tuples(NODES, NODES), max_size=6),
    )
    def add_and_remove(self, add, remove):
        adds = [(self.named(a), self.named(b)) for a, b in add]
        removes = [(self.named(a), self.named(b)) for a, b in remove]
        before = self.rows()
        change = self.live.update(add=adds, remove=removes, now=self.now)
        self.oracle.apply([(a, b, self.now, -1, 1.0) for a, b in removes])
        self.oracle.apply([(a, b, self.now, 1, 1.0) for a, b in adds])
        self.oracle.clock = max(self.oracle.clock, self.now)
        self.check_change(change, before)

    @rule(nodes=st.lists(NODES, max_size=3))
    def remove_nodes(self, nodes):
        named = [self.named(node) for node in nodes]
        before = self.rows()
        change = self.live.update(remove_nodes=named)
        for node in named:
            self.oracle.remove_node(node)
        self.check_change(change, before)

    @rule(passed=st.floats(0.1, 6))
    def time_passes(self, passed):
        self.now += passed
        before = self.rows()
        change = self.live.update([], now=self.now)
        self.oracle.clock = max(self.oracle.clock, self.now)
        self.check_change(change, before)

    @rule(events=EVENTS, bad=BAD, at=st.integers(0, 12))
    def bad_row_rejects_the_batch(self, events, bad, at):
        batch = [self.event(*event) for event in events]
        batch.insert(min(at, len(batch)), bad)
        before, version = self.live.digest(), self.live.version
        with pytest.raises(EventError):
            self.live.update(batch)
        assert self.live.digest() == before
        assert self.live.version == version

    @rule()
    def recompute(self):
        assert self.live.recompute().digest() == self.live.digest()

    @rule()
    def replace_by_recomputed(self):
        self.live = self.live.recompute()
        self.held = []

    def rows(self):
        ids = self.live.ids()
        return dict(zip(ids.tolist(), self.live.vectors(ids), strict=True))

    def check_change(self, change, before):
        after = self.rows()
        moved = {
            node for node, row in after.items() if node not in before or not np.array_equal(before[node], row)
        }
        assert moved <= set(change.ids.tolist()), "a vector moved and was not told"
        assert set(change.ids.tolist()) <= set(after)
        assert set(change.left.tolist()) == set(before) - set(after)
        assert len(set(change.ids.tolist())) == len(change.ids) == len(change.orders) == len(change)
        assert all(1 <= order <= self.live.model.orders for order in change.orders)

    @invariant()
    def agrees_with_the_dict(self):
        if not hasattr(self, "live"):
            return
        graph = self.live._state.graph
        a, b, weight = graph.edges()
        names = [python_ids(graph.ids.names(end)).tolist() for end in (a, b)]
        scaled = np.abs(weight) * graph.grid
        found = {
            (x, y) if graph.directed or x < y else (y, x): w
            for x, y, w in zip(*names, scaled.tolist(), strict=True)
        }
        assert found == self.oracle.weights()
        assert set(self.live.ids().tolist()) == self.oracle.nodes()
        assert len(self.live) == len(self.oracle.nodes())
        assert self.live.edge_count == len(self.oracle.edges)
        assert len(graph.ids) == len(self.live), "internal ids leak"

    @invariant()
    def agrees_with_the_dense_twin(self):
        if hasattr(self, "live") and len(self.live):
            twin = twin_vectors(self.live, self.oracle.weights())
            np.testing.assert_allclose(self.live.vectors(self.live.ids()), twin, atol=1e-5, rtol=0)

    @rule()
    def kept_changes_keep_their_ids(self):
        for change, ids in self.held:
            assert change.ids.tolist() == ids
        self.held = []


class EventRulesWithMemory(EventRules):
    half_life = 2.5


QUICK = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
LONG = settings(QUICK, max_examples=300, stateful_step_count=50)  # 15,000 steps


class TestEventRules(EventRules.TestCase):
    settings = QUICK


class TestEventRulesWithMemory(EventRulesWithMemory.TestCase):
    settings = QUICK


@pytest.mark.slow
class TestEventRulesLong(EventRules.TestCase):
    settings = LONG


@pytest.mark.slow
class TestEventRulesWithMemoryLong(EventRulesWithMemory.TestCase):
    settings = LONG
