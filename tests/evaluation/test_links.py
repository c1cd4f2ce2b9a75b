import numpy as np

from dygcn.evaluation import Snapshots, auc, link_auc, strangers_for


def test_auc_counts_pairs():
    random = np.random.default_rng(0)
    linked, others = random.integers(0, 6, 40).astype(float), random.integers(0, 6, 30).astype(float)
    slow = np.mean([(a > b) + 0.5 * (a == b) for a in linked for b in others])
    assert auc(linked, others) == np.float64(slow) or abs(auc(linked, others) - slow) < 1e-12


def test_strangers_are_active_and_not_linked():
    random = np.random.default_rng(1)
    edges = np.unique(np.sort(random.integers(0, 30, (200, 2)), axis=1), axis=0)
    edges = edges[edges[:, 0] != edges[:, 1]]
    kept, strangers = strangers_for(edges, random)
    linked = set(map(tuple, edges.tolist()))
    assert len(kept) > 0.9 * len(edges)
    for a, b in zip(kept.tolist(), strangers.tolist(), strict=True):
        assert a != b
        assert (min(a, b), max(a, b)) not in linked
        assert b in set(edges.reshape(-1).tolist())


def test_an_end_linked_to_everybody_is_left_out():
    edges = np.array([(0, i) for i in range(1, 6)])
    kept, _ = strangers_for(edges, np.random.default_rng(0))
    assert 0 not in kept.tolist()


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
