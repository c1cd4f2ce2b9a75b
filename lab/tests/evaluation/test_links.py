import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.linked import link_auc

from dygcn.engine.measures import PairSet, auc, draw_negatives
from dygcn_lab.evaluation.links import ask_links, best_bar, f1_above, median_bar
from dygcn_lab.evaluation.steps import Snapshots


def random_edges(random, nodes, count):
    edges = np.unique(np.sort(random.integers(0, nodes, (count, 2)), axis=1), axis=0)
    return edges[edges[:, 0] != edges[:, 1]]


def test_auc_counts_pairs():
    random = np.random.default_rng(0)
    linked, others = random.integers(0, 6, 40).astype(float), random.integers(0, 6, 30).astype(float)
    slow = np.mean([(a > b) + 0.5 * (a == b) for a in linked for b in others])
    assert abs(auc(linked, others) - slow) < 1e-12


def test_best_bar_is_the_best_of_all():
    random = np.random.default_rng(1)
    for _ in range(50):
        linked, others = random.integers(0, 8, 20).astype(float), random.integers(-3, 6, 25).astype(float)
        bars = np.concatenate((linked, others, [linked.min() - 10, others.min() - 10]))
        best = max(f1_above(bar, linked, others) for bar in bars)
        assert f1_above(best_bar(linked, others), linked, others) == pytest.approx(best)
        assert f1_above(median_bar(linked, others), linked, others) <= best + 1e-12


@pytest.mark.parametrize("seed", range(20))
def test_questions_are_what_they_say(seed):
    random = np.random.default_rng(seed)
    now, coming = random_edges(random, 40, 120), random_edges(random, 44, 140)
    old, new = set(map(tuple, now.tolist())), set(map(tuple, coming.tolist()))
    warm, active = set(now.ravel().tolist()), set(coming.ravel().tolist())
    questions = ask_links(now, coming, 44, random)
    everything, fresh = questions["all"], questions["new-warm"]
    assert set(map(tuple, everything.linked.tolist())) == new
    expected = {(a, b) for a, b in new - old if a in warm and b in warm}
    assert set(map(tuple, fresh.linked.tolist())) == expected
    for kind in ("uniform", "degree"):
        for a, b in np.sort(everything.negatives[kind], axis=1).tolist():
            assert a != b
            assert (a, b) not in new
            assert {a, b} <= active
        for a, b in np.sort(fresh.negatives[kind], axis=1).tolist():
            assert a != b
            assert (a, b) not in new | old
            assert {a, b} <= warm
        assert len(fresh.negatives[kind]) >= 0.9 * len(fresh.linked)
    ends = set(fresh.linked.ravel().tolist())
    assert set(fresh.negatives["degree"].ravel().tolist()) <= ends


def test_degree_matched_strangers_are_as_popular_as_links():
    random = np.random.default_rng(3)
    weights = 1.0 / np.arange(1, 2001)
    edges = np.sort(random.choice(2000, (8000, 2), p=weights / weights.sum()), axis=1)
    edges = np.unique(edges[edges[:, 0] != edges[:, 1]], axis=0)
    degree = np.log(np.bincount(edges.ravel(), minlength=2000) + 1.0)
    question = ask_links(edges, edges, 2000, random)["all"]
    linked = degree[question.linked].mean()
    assert abs(degree[question.negatives["degree"]].mean() - linked) < 0.15 * linked
    assert degree[question.negatives["uniform"]].mean() < 0.85 * linked


def test_an_end_linked_to_everybody_is_left_out():
    edges = np.array([(0, i) for i in range(1, 6)])
    linked = PairSet(edges, 6)
    kept, _ = draw_negatives(np.array([0, 1, 0, 2]), np.arange(6), (linked,), np.random.default_rng(0))
    assert kept.tolist() == [1, 2]


def test_perfect_and_random_vectors():
    edges = np.array([(2 * i, 2 * i + 1) for i in range(100)])
    vectors = np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32)
    assert abs(link_auc(vectors, edges, np.random.default_rng(1)) - 0.5) < 0.1
    vectors[1::2] = vectors[::2]
    assert link_auc(vectors, edges, np.random.default_rng(1)) == 1.0
    vectors[:] = 0
    assert link_auc(vectors, edges, np.random.default_rng(1)) == 0.5


def test_snapshots_follow_the_rules_for_events():
    graph = Snapshots()
    edges = graph.apply(np.array([3, 1, 2, 2]), np.array([1, 3, 2, 9]), np.array([1, 1, 1, -1]))
    assert edges.tolist() == [[1, 3]]


PARTS = st.lists(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=12), max_size=6)


@given(PARTS)
def test_pairs_can_be_added_part_by_part(parts):
    pairs, known = PairSet(np.empty((0, 2), np.int64), 8), set()
    everyone = np.array([(a, b) for a in range(8) for b in range(8)])
    for part in parts:
        part = [pair for pair in part if pair[0] != pair[1]]
        ends = np.array(part, np.int64).reshape(-1, 2)
        pairs.add(ends[:, 0], ends[:, 1])
        known |= {frozenset(pair) for pair in part}
        assert pairs.has(*everyone.T).tolist() == [frozenset(pair) in known for pair in everyone.tolist()]
