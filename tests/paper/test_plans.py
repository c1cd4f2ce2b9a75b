"""What an update of the paper's rules adds, on graphs of a few nodes."""

import numpy as np

from dygcn.engine.events import read_events
from dygcn.engine.graph import Graph, apply_batch
from dygcn.paper import RollingRule
from dygcn.paper.bases import snapshot_of
from dygcn.paper.equations import NumpyArrays
from dygcn.paper.plans import Mix, make_plan


def test_a_plan_names_rows_and_factors():
    graph = Graph("int64")
    apply_batch(graph, read_events([(0, 1), (1, 2)]))
    plan = make_plan(graph, apply_batch(graph, read_events([(0, 1, 0, -1), (0, 2, 0, 1)])), 2)
    assert plan.changes[0].row.tolist() == [1, 2, 0, 0]
    assert plan.changes[0].factor.tolist() == [-1.0, 1.0, -1.0, 1.0]


def test_pairs_of_a_snapshot_are_in_order():
    graph = Graph("int64")
    apply_batch(graph, read_events([(7, 5), (5, 6)]))
    assert snapshot_of(graph, "sum").pairs.tolist() == [[0, 1], [0, 2]]


def test_rows_are_combined():
    mix = Mix(np.array([0, 2]), np.array([0, 2]), np.array([1.0, -1.0]))
    assert NumpyArrays().combine(mix, np.array([[1.0], [5.0], [4.0]])).tolist() == [[-3.0]]


def test_a_rolled_update_of_three_nodes():
    eye = np.eye(2, dtype=np.float32)
    graph, rule = Graph("int64"), RollingRule((eye, eye, eye))
    rule.apply(graph, apply_batch(graph, read_events([(0, 1), (1, 2)])))
    rule.replace(np.array([0, 1, 2]), np.eye(3, 2, dtype=np.float32))
    changed = rule.apply(graph, apply_batch(graph, read_events([(0, 2)])))
    assert (changed.nodes.tolist(), changed.orders.tolist(), changed.rows) == ([0, 2, 1], [1, 1, 2], 3)
    assert rule.vectors(np.array([0, 1, 2])).tolist() == [[1.0, 0.0], [1.0, 1.0], [1.0, 0.0]]
