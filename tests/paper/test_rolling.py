"""The paper's rules equal their dense twin: 192 and 144 random graphs; the authors' three bugs are caught."""

import numpy as np
import pytest

from dygcn.engine.events import read_events
from dygcn.engine.graph import Graph, apply_batch
from dygcn.engine.propagation import influence
from dygcn.paper import RollingRule, RuleOptions, SpectralRule, equations, plans
from dygcn_lab.testbed.graphs import GRAPHS, GraphOracle, random_events
from tests.paper.dense_twin import DenseTwin, dense_rolling

DIM = 5
ROLLING_SEEDS = range(2), pytest.param(range(2, 4), marks=pytest.mark.slow)
SPECTRAL_SEEDS = range(6), pytest.param(range(6, 13), marks=pytest.mark.slow)
PUBLISHED, OURS = RuleOptions(), RuleOptions("mean", "tanh", "rest", level=True)


def matrices(count: int, seed: int) -> list:
    random = np.random.default_rng([seed, 9])
    return [random.standard_normal((DIM, DIM)).astype(np.float32) / 3 for _ in range(count)]


def swaps(oracle: GraphOracle, random: np.random.Generator) -> list:
    """For some nodes one new neighbour for one lost one, of the same weight: equal gains and losses."""
    pairs = sorted(oracle.edges)
    nodes = sorted(oracle.nodes())
    events = []
    for at in random.permutation(len(pairs))[:3].tolist():
        a, b = pairs[at]
        other = nodes[int(random.integers(len(nodes)))]
        if other not in (a, b) and (a, other) not in oracle.edges and (other, a) not in oracle.edges:
            events += [(a, b, 0.0, -1, 1.0), (a, other, 0.0, 1, oracle.edges[a, b])]
    return events


class Pair:
    """The rule and its twin side by side."""

    def __init__(self, spectral: bool, orders: int, directed: bool, options: RuleOptions, seed: int) -> None:
        weights = matrices(3 if spectral else orders + 1, seed)
        self.graph = Graph("int64", directed=directed, stay=True)
        self.rule = (SpectralRule if spectral else RollingRule)(weights, options)
        self.oracle = GraphOracle(directed)
        self.twin = DenseTwin(
            [w.astype(np.float64) for w in weights],
            range(100),
            options,
            spectral,
            directed,
        )
        self.random = np.random.default_rng(seed)

    def begin(self, events: list) -> None:
        """Both start from random vectors on the same graph."""
        apply_batch(self.graph, read_events(events))
        self.oracle.apply(events)
        nodes, ids = self._here()
        vectors = np.abs(self.random.standard_normal((len(ids), DIM))).astype(np.float32)
        self.rule.restart(self.graph, nodes, vectors, nodes[:0])
        self.twin.start(self.oracle.weights(), dict(zip(ids, vectors, strict=True)))

    def step(self, events: list) -> None:
        """One batch; the twin starts from the rule's float32 vectors, so that errors do not pile up."""
        nodes, ids = self._here()
        self.twin.start(
            self.oracle.weights(), dict(zip(ids, self.rule.vectors(nodes).astype(np.float64), strict=True))
        )
        delta = apply_batch(self.graph, read_events(events))
        changed = self.rule.apply(self.graph, delta)
        self.oracle.apply(events)
        sizes = self.twin.move_to(self.oracle.weights())
        assert changed.rows == sum(sizes)
        nodes, ids = self._here()
        assert set(ids) == set(np.flatnonzero(self.twin.here).tolist()) >= self.oracle.nodes()
        found, wanted = self.rule.vectors(nodes), self.twin.Z[ids]
        np.testing.assert_allclose(
            found, wanted, rtol=1e-5, atol=1e-5 * max(1.0, np.abs(wanted).max(initial=0))
        )

    def _here(self) -> tuple:
        nodes = self.graph.nodes()
        return nodes, self.graph.ids.names(nodes).values.tolist()


def play(spectral, orders, shape, directed, options, seed, weighted=True):
    events = random_events(shape, seed, nodes=12 + 9 * (seed % 4), weighted=weighted)
    pair = Pair(spectral, orders, directed, options, seed)
    pair.begin(events[: len(events) // 3])
    events = events[len(events) // 3 :]
    while events:
        cut = int(pair.random.integers(1, 40))
        batch, events = events[:cut], events[cut:]
        pair.step(batch)
        pair.step(swaps(pair.oracle, pair.random))


@pytest.mark.parametrize("options", [PUBLISHED, OURS], ids=["published", "ours"])
@pytest.mark.parametrize("orders", [1, 2, 3, 4])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("shape", sorted(GRAPHS))
@pytest.mark.parametrize("seeds", ROLLING_SEEDS, ids=["few", "more"])
def test_rolling_equals_the_dense_twin(shape, directed, orders, options, seeds):
    for seed in seeds:
        play(False, orders, shape, directed, options, seed, weighted=seed % 2 == 0)


@pytest.mark.parametrize("options", [PUBLISHED, OURS], ids=["published", "ours"])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("shape", sorted(GRAPHS))
@pytest.mark.parametrize("seeds", SPECTRAL_SEEDS, ids=["few", "more"])
def test_spectral_equals_the_dense_twin(shape, directed, options, seeds):
    for seed in seeds:
        play(True, 1, shape, directed, options, seed, weighted=seed % 2 == 0)


def signed_sum(monkeypatch):
    """The authors' first bug: who is touched is read off a signed sum of the changes."""

    def influenced(graph, delta, orders, isolated):
        net = np.zeros(graph.ids.high)
        np.add.at(net, delta.receiver, delta.new - delta.old)
        return influence(graph, np.setdiff1d(np.flatnonzero(net).astype(np.int32), delta.left), orders)

    monkeypatch.setattr(plans, "influenced", influenced)


def no_self_matrix(monkeypatch):
    """The authors' second bug: the self matrix is made, and at order 1 not used."""
    right = equations.update_rows
    first = []

    def roll(arrays, plan, table, weights, activation):
        first[:] = [True]
        return whole(arrays, plan, table, weights, activation)

    def update_rows(arrays, own, change, W0, Wk, activation):
        W0, first[:] = (0 * W0 if first else W0), []
        return right(arrays, own, change, W0, Wk, activation)

    whole = equations.roll
    monkeypatch.setattr(equations, "roll", roll)
    monkeypatch.setattr(equations, "update_rows", update_rows)


def output_not_fed_forward(monkeypatch):
    """The authors' third bug: every update starts from the same old vectors."""
    whole = RollingRule.apply

    def apply(self, graph, delta, features=None):
        before = self._table.copy()
        changed = whole(self, graph, delta, features)
        kept = self.__dict__.setdefault("kept", before)
        n = min(len(kept), len(self._table))
        self._table[:n] = kept[:n]
        return changed

    monkeypatch.setattr(RollingRule, "apply", apply)


@pytest.mark.parametrize("bug", [signed_sum, no_self_matrix, output_not_fed_forward])
def test_a_copy_of_each_of_the_authors_bugs_is_caught(monkeypatch, bug):
    play(False, 2, "sparse", False, PUBLISHED, 1)
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        play(False, 2, "sparse", False, PUBLISHED, 1)


def test_the_dense_twin_by_hand():
    none, linked = np.zeros((3, 3)), np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, 0]])
    both, z = np.array([True, True, False]), np.array([[1.0], [2.0], [0.0]])
    found = dense_rolling(none, linked, both, both, z, [np.eye(1), 10 * np.eye(1)])
    assert found.ravel().tolist() == [21.0, 12.0, 0.0]
