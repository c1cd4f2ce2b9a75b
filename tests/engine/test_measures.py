import numpy as np
import pytest

from dygcn.engine.measures import PairSet, auc, draw_negatives, pair_cosines, unit_rows


def test_the_area_under_the_curve_counts_ties_half():
    assert auc(np.array([2.0, 1.0]), np.array([1.0, 0.0])) == 0.875


def test_pairs_are_undirected():
    linked = PairSet(np.array([[1, 2], [2, 5]]), nodes=6)
    assert linked.has(np.array([2, 1]), np.array([1, 5])).tolist() == [True, False]


def test_a_row_of_zeros_scores_zero():
    units = unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]], np.float32))
    assert pair_cosines(units, np.array([[0, 0], [0, 1]])).tolist() == [1.0, 0.0]


def tried_to_the_end(nodes, pool, linked, random):
    """Draw for nodes without a negative a thousand times, too, as if nobody noticed."""
    negatives = random.choice(pool, len(nodes))
    for _ in range(1000):
        again = nodes == negatives
        for pairs in linked:
            again |= pairs.has(nodes, negatives)
        negatives[again] = random.choice(pool, int(again.sum()))
    return nodes[~again], negatives[~again]


@pytest.mark.parametrize("seed", range(30))
def test_nodes_without_a_negative_change_no_draw(seed):
    random = np.random.default_rng(seed)
    size, many, count = int(random.integers(2, 30)), int(random.integers(40)), int(random.integers(1, 40))
    linked = tuple(PairSet(random.integers(0, size, (random.integers(size**2), 2)), size) for _ in range(2))
    nodes, pool = random.integers(0, size, many), random.integers(0, size, count)
    one, other = np.random.default_rng(seed), np.random.default_rng(seed)
    expected, found = tried_to_the_end(nodes, pool, linked, one), draw_negatives(nodes, pool, linked, other)
    assert all(map(np.array_equal, expected, found))
    assert one.bit_generator.state == other.bit_generator.state
