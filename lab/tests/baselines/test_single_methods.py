"""What only one baseline promises."""

import numpy as np
import pytest

from dygcn_lab.baselines import neighbours
from dygcn_lab.baselines.cleora import Cleora
from dygcn_lab.baselines.degrees import DegreeProduct
from dygcn_lab.baselines.dne import Dne
from dygcn_lab.baselines.dynwalks import DynWalks, random_walks
from dygcn_lab.baselines.fastrp import FastRp
from dygcn_lab.baselines.snapshot import adjacency
from dygcn_lab.baselines.timers import Timers, decomposed, lower_bound

from .planted import NODES, communities, history


def every_pair(count):
    return np.argwhere(np.triu(np.ones((count, count)), 1)).astype(np.int64)


def friends(edges):
    found = {node: set() for node in range(NODES)}
    for a, b in edges.tolist():
        found[a].add(b)
        found[b].add(a)
    return found


def test_degree_product_by_brute_force():
    moments = communities(3)
    method = DegreeProduct()
    method.begin(moments[:2], NODES)
    method.follow(moments[2])
    known, pairs = friends(moments[2].edges), every_pair(NODES)
    expected = [np.log((1 + len(known[a])) * (1 + len(known[b]))) for a, b in pairs.tolist()]
    np.testing.assert_allclose(method.score(pairs, "all"), expected)


@pytest.mark.parametrize("entries", [1, 100, 1 << 22])
def test_common_neighbours_by_brute_force(entries, monkeypatch):
    monkeypatch.setattr(neighbours, "ENTRIES", entries)
    moments = communities(3)
    method = neighbours.CommonNeighbours()
    method.begin(moments[:2], NODES)
    method.follow(moments[2])
    known, pairs = friends(moments[2].edges), every_pair(NODES)[::3]
    expected = [len(known[a] & known[b]) for a, b in pairs.tolist()]
    np.testing.assert_array_equal(method.score(pairs, "all"), expected)


def test_timers_updates_stay_close_to_a_fresh_decomposition():
    moments = communities(3, seed=3)
    edges = moments[-1].edges
    method = Timers(dim=10, theta=1e9)
    method.begin([moments[-1]], NODES)
    step = history([[(int(a), int(b), 1) for a, b in edges], [(int(edges[0, 0]), int(edges[1, 1]), 1)]])[1]
    method.follow(step)
    assert method.restarts == 0
    fresh = decomposed(adjacency(step.edges, NODES), 10, 0)
    np.testing.assert_allclose(
        np.sort(np.abs(method.factors.values)), np.sort(np.abs(fresh.values)), rtol=5e-3
    )
    np.testing.assert_allclose(method.factors.rows.T @ method.factors.rows, np.eye(10), atol=1e-10)


def test_timers_restarts_when_the_bound_is_exceeded():
    moments = communities(6, seed=4)
    counts = []
    for theta in (0.0, 0.05, 1e9):
        method = Timers(dim=10, theta=theta)
        method.begin(moments[:1], NODES)
        for moment in moments[1:]:
            method.follow(moment)
            assert method.loss() < (1 + theta) * method.bound or method.loss() == method.bound
        counts.append(method.restarts)
    assert counts[0] == 5  # no error is tolerated
    assert counts[0] >= counts[1] > counts[2] == 0


def test_timers_bound_is_below_the_least_loss():
    moments = communities(5, seed=5)
    before, after = (adjacency(moment.edges, NODES) for moment in (moments[0], moments[-1]))

    def least(matrix, count):
        return float(matrix.nnz) - float(np.square(decomposed(matrix, count, 0).values).sum())

    for count in (3, 10, 30):
        bound = lower_bound(before, after, least(before, count), count, seed=0)
        assert bound <= least(after, count)


def test_timers_gives_new_nodes_a_row_without_a_restart():
    first = communities(2)[0]
    method = Timers(dim=10, theta=1e9)
    method.begin([first], NODES)
    events = [(int(a), int(b), 1) for a, b in first.edges]
    method.follow(history([events, [(2, 110, 1), (4, 110, 1), (3, 111, 1)]])[1])
    assert method.vectors()[[110, 111]].any(axis=1).all()
    assert method.restarts == 0


def test_dne_moves_new_and_modified_nodes_alone():
    moments = communities()
    method = Dne(dim=8, epochs=20, modified=0.05)
    method.begin(moments[:3], NODES)
    before = method.vectors()
    method.follow(moments[3])
    moved = (method.vectors() != before).any(axis=1)
    new = ~before.any(axis=1) & method.vectors().any(axis=1)
    assert new.any()
    known = np.unique(moments[3].edges)
    assert new.sum() < moved.sum() <= new.sum() + np.ceil(0.05 * len(known))


def test_dne_keeps_modified_nodes_near_what_they_were():
    moments = communities()
    distances = []
    for keep in (0.0, 10.0):
        method = Dne(dim=8, epochs=20, keep=keep)
        method.begin(moments[:3], NODES)
        before = method.vectors()
        method.follow(moments[3])
        old = before.any(axis=1)
        distances.append(np.linalg.norm(method.vectors()[old] - before[old]))
    assert 0 < distances[1] < 0.5 * distances[0]


def test_dynwalks_walks_along_edges():
    moment = communities(2)[1]
    links = adjacency(moment.edges, NODES)
    starts = np.unique(moment.edges)
    walks = random_walks(links, starts, 30, np.random.default_rng(0))
    np.testing.assert_array_equal(walks[:, 0], starts)
    assert links[walks[:, :-1].ravel(), walks[:, 1:].ravel()].all()


def test_dynwalks_chooses_new_affected_and_random_nodes():
    ring = [(node, (node + 1) % 100, 1) for node in range(100)]
    moments = history([ring, [(0, 50, 1), (100, 7, 1)], [(0, 60, 1)]])
    method = DynWalks(dim=4, walks=1, length=5, alpha=0.04)
    method.begin(moments[:1], NODES)
    chosen = method._choose(moments[0].edges, moments[1].edges)
    assert 100 in chosen  # new
    assert {0, 7} <= set(chosen.tolist())  # 0, 7 and 50 were affected as much, two of them have a seat
    assert len(chosen) == 1 + 4
    assert method._reservoir[0] == 0
    chosen = method._choose(moments[1].edges, moments[2].edges)
    assert {0, 60} <= set(chosen.tolist())


def test_dynwalks_reservoir_remembers_changes_of_those_not_chosen():
    ring = [(node, (node + 1) % 100, 1) for node in range(100)]
    moments = history([ring, [(20, 70, 1)], [(20, 71, 1)]])
    method = DynWalks(dim=4, walks=1, length=5, alpha=0.0)
    method.begin(moments[:1], NODES)
    method.follow(moments[1])
    method.follow(moments[2])
    assert method._reservoir[[20, 70, 71, 5]].tolist() == [2, 1, 1, 0]


def test_dynwalks_limits_walks_on_large_graphs():
    moments = communities(2)
    method = DynWalks(dim=4, walks=10, length=10, words=3 * 10 * len(np.unique(moments[0].edges)))
    method.begin(moments[:1], NODES)
    assert method._turns == 3


def test_fastrp_by_its_formula():
    edges = communities(2)[1].edges
    method = FastRp(dim=6, weights=(0.5, 2.0), beta=-0.5)
    method.begin([communities(2)[1]], NODES)
    links = adjacency(edges, NODES).toarray()
    active = np.flatnonzero(links.any(axis=0))
    links = links[active][:, active]
    degrees = links.sum(axis=1)
    power = (degrees / degrees.sum())[:, None] ** -0.5 * method._projection[active]
    total = np.zeros_like(power)
    for weight in method.weights:
        power = links @ power / degrees[:, None]
        total += weight * power / np.linalg.norm(power, axis=1, keepdims=True)
    expected = (total - total.mean(axis=0)) / total.std(axis=0)
    np.testing.assert_allclose(method.vectors()[active], expected, atol=1e-3)


def test_cleora_without_whitening_is_a_lazy_walk():
    moment = history([[(0, 1, 1), (1, 2, 1), (1, 3, 1)]])[0]
    none, once = Cleora(dim=8, iterations=0, whiten=False), Cleora(dim=8, iterations=1, whiten=False)
    for method in (none, once):
        method.begin([moment], 5)
    start = none.vectors()
    leaf = start[0] + start[1]
    np.testing.assert_allclose(once.vectors()[0], leaf / np.linalg.norm(leaf), atol=1e-5)
