import numpy as np

from dygcn.engine.measures import PairSet, auc, pair_cosines, unit_rows


def test_the_area_under_the_curve_counts_ties_half():
    assert auc(np.array([2.0, 1.0]), np.array([1.0, 0.0])) == 0.875


def test_pairs_are_undirected():
    linked = PairSet(np.array([[1, 2], [2, 5]]), nodes=6)
    assert linked.has(np.array([2, 1]), np.array([1, 5])).tolist() == [True, False]
    begins, others = linked.neighbours()
    assert sorted(others[begins[2] : begins[3]].tolist()) == [1, 5]


def test_a_row_of_zeros_scores_zero():
    units = unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]], np.float32))
    assert pair_cosines(units, np.array([[0, 0], [0, 1]])).tolist() == [1.0, 0.0]
