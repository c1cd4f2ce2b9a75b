"""The exact rule's sums against plain Python integers: not near, equal."""

import numpy as np
import pytest

from dygcn.engine.events import read_events
from dygcn.engine.features.inputs import Hashed
from dygcn.engine.graph import Graph, apply_batch
from dygcn.engine.graph.ticks import NO_TICKS
from dygcn.engine.propagation import ExactRule, influence
from dygcn.engine.propagation.sum_rows import SumRows, messages_of
from dygcn_lab.testbed.graphs import GRAPHS, random_events


def python_sums(graph, rule):
    """s_k and deg_k with Python's own integers, from nothing but arcs and x."""
    nodes = graph.nodes()
    owner, other, weight = graph.pull.arcs(nodes)
    arcs = list(zip(owner.tolist(), other.tolist(), np.abs(weight).tolist(), strict=True))
    x, has = rule.messages(graph, nodes, 0)
    message = {v: (row.tolist() if h else None) for v, row, h in zip(nodes.tolist(), x, has, strict=True)}
    width = rule.features.width
    for _ in range(rule.orders):
        sums = {v: [0] * width for v in nodes.tolist()}
        degree = dict.fromkeys(nodes.tolist(), 0)
        for v, u, w in arcs:
            if message[u] is not None:
                degree[v] += w
                sums[v] = [s + w * m for s, m in zip(sums[v], message[u], strict=True)]
        yield sums, degree
        message = {
            v: [int(np.rint(s * (1.0 / degree[v]))) for s in sums[v]] if degree[v] else None
            for v in nodes.tolist()
        }


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("shape", sorted(GRAPHS))
def test_sums_equal_python_integers(shape, directed):
    graph = Graph("int64", directed=directed)
    rule = ExactRule(Hashed(6, seed=1), orders=3)
    events = random_events(shape, 9, nodes=25)
    for at in range(0, len(events), 11):
        delta = apply_batch(graph, read_events(events[at : at + 11]))
        rule.apply(graph, delta)
        graph.release(delta.left)
    for k, (sums, degree) in enumerate(python_sums(graph, rule)):
        for v in sums:
            assert rule.sums[k].rows(np.array([v], np.int32))[0].tolist() == sums[v]
            assert rule.sums[k].degree[v] == degree[v]


def mean_of(total, degree):
    first, counts = np.zeros(1, np.int32), np.array([1, 0])
    wide, narrow = np.array([[total]], np.int64), np.zeros((1, 1), np.int32)
    sums = SumRows(np.array([degree], np.int64), first, narrow, wide, first, counts, 1.0, 1, NO_TICKS)
    rows, _ = messages_of(sums, first, 1)
    return int(rows[0, 0])


def test_the_mean_stays_inside_the_range_of_what_was_averaged():
    random = np.random.default_rng(0)
    for _ in range(300):
        weights = random.integers(1, 2**31, 9)
        values = random.integers(-(2**28), 2**28 + 1, 9)
        total, degree = int((weights * values).sum()), int(weights.sum())
        found = mean_of(total, degree)
        assert values.min() <= found <= values.max()
        assert abs(found - total / degree) <= 0.5 + 1e-6
        assert mean_of(degree * int(values[0]), degree) == values[0]


def state_of(graph, rule):
    nodes = graph.nodes()
    return [
        [values.tolist() for values in rule.whole_sums(graph, nodes, order)]
        for order in range(1, rule.orders + 1)
    ]


@pytest.mark.parametrize("weight", [1.0, 0.25, 3.0, 0.001, 1000.0])
def test_narrow_and_wide_rows_hold_the_same_values(weight):
    """A hub grows past what an int32 holds and shrinks again, then weights bring finer bits: same values."""
    graph, rule = Graph("int64"), ExactRule(Hashed(5, seed=2), orders=3)
    spokes = [(0, i, 0, 1, 1.0) for i in range(1, 300)] + [(i, i + 1, 0, 1, 1.0) for i in range(1, 299)]
    batches = [
        spokes[:100],
        spokes[100:],
        [(0, 400, 0, 1, weight), (3, 9, 0, 1, weight)],
        [(0, i, 0, -1, 1.0) for i in range(20, 300)],
        [(0, 21, 0, 1, 1.0)],
        [(7, 8, 0, 1, 0.5)],
    ]
    places = []
    for batch in batches:
        delta = apply_batch(graph, read_events(batch))
        rule.apply(graph, delta)
        graph.release(delta.left)
        fresh = ExactRule(rule.features, 3)
        fresh.rebuild(graph)
        assert state_of(graph, rule) == state_of(graph, fresh)
        for k, (sums, degree) in enumerate(python_sums(graph, rule)):
            for v in (0, 3, 9):
                node = int(graph.ids.find(read_events([(v, v)]).src)[0])
                assert rule.sums[k].rows(np.array([node], np.int32))[0].tolist() == sums[node]
                assert rule.sums[k].degree[node] == degree[node]
        places.append(int((rule.sums[1].slot >= 0).sum()))
    assert places[1] > 0
    assert places[0] == 0
    if weight == 1.0:
        assert places[4] == 0


@pytest.mark.parametrize("orders", [1, 2, 3, 4])
def test_influence_is_breadth_first(orders):
    graph = Graph("int64")
    apply_batch(graph, read_events(random_events("sparse", 4, nodes=60)))
    nodes = graph.nodes()
    owner, other, _ = graph.pull.arcs(nodes)
    near = {v: set() for v in nodes.tolist()}
    for v, u in zip(owner.tolist(), other.tolist(), strict=True):
        near[v].add(u)
    touched = nodes[[1, 5]]
    rings = influence(graph, touched, orders).orders
    seen, ring = set(touched.tolist()), set(touched.tolist())
    assert set(rings[0].tolist()) == ring
    for k in range(1, orders):
        ring = {u for v in ring for u in near[v]} - seen
        seen |= ring
        assert set(rings[k].tolist()) == ring


def test_rows_touched_do_not_depend_on_the_size_of_the_graph():
    """The same star beside 100 and beside 10,000 other nodes: the same rows are added to."""
    rows = []
    for size in (100, 10_000):
        graph, rule = Graph("int64"), ExactRule(Hashed(8, seed=0), orders=2)
        path = [(i, i + 1) for i in range(1000, 1000 + size)] + [(0, i) for i in range(1, 20)]
        rule.apply(graph, apply_batch(graph, read_events(path)))
        rows.append(rule.apply(graph, apply_batch(graph, read_events([(0, 50)]))).rows)
    assert rows[0] == rows[1]


def star_against_python_integers():
    """299 leaves: the hub's second-order sum is 299 times 2^24 and does not fit an int32."""
    graph, rule = Graph("int64"), ExactRule(Hashed(5, seed=2), orders=2)
    for start in (1, 100, 200):
        rule.apply(
            graph, apply_batch(graph, read_events([(0, i) for i in range(start, start + 100) if i < 300]))
        )
    node = graph.ids.find(read_events([(0, 1)]).src)
    for k, (sums, _) in enumerate(python_sums(graph, rule)):
        assert rule.sums[k].rows(node)[0].tolist() == sums[int(node[0])]
    assert np.abs(rule.sums[1].rows(node) >> rule.sums[1].weight_shift).max() > 2**31


def test_a_sum_that_outgrows_an_int32_is_kept_wide():
    star_against_python_integers()


def test_rows_that_stay_narrow_would_be_noticed(monkeypatch):
    """The mutant: no row ever moves to the wide pool."""
    monkeypatch.setattr("dygcn.engine.propagation.sums.Sums.place", lambda self, nodes, degree: None)
    with pytest.raises(AssertionError):
        star_against_python_integers()
