"""Many pushes are sorted span by span of the nodes; few are one span."""

import numpy as np

import dygcn
from tests.seeded import assert_noticed, try_with

MODULE = "dygcn.engine.propagation.gathering"
CHOICE = "work.bits = _span(pushes, len(marks.place))"
SPANS_OF_FOUR = "work.bits = 2"


def play(nodes, events, batches):
    """Change a random graph in large batches; messages must be those of the graph."""
    random = np.random.default_rng(5)
    live = dygcn.fit(random.integers(0, nodes, (100, 2)), dim=8, features="hashed", steps=2)
    for _ in range(batches):
        live.update(add=random.integers(0, nodes, (events, 2)))
        edges = np.stack(
            [live._state.graph.ids.names(ends).values for ends in live._state.graph.edges()[:2]], 1
        )
        live.update(remove=edges[random.permutation(len(edges))[: events // 2]])
        assert live.digest() == live.recompute().digest()


def test_many_pushes():
    play(12_000, 9_000, 2)  # some 40,000 pushes of order 2, over three spans of 4,096 nodes


def test_spans_of_four_nodes(tmp_path):
    done = try_with(tmp_path, MODULE, CHOICE, SPANS_OF_FOUR, play, 60, 40, 4)
    assert done.returncode == 0, done.stderr


def test_a_receiver_that_starts_in_another_span_is_noticed(tmp_path):
    start = "work.first[known] = low"
    wrong = SPANS_OF_FOUR, "work.first[known] = max(low - 1, 0)"
    assert_noticed(tmp_path, MODULE, (CHOICE, start), wrong, play, 60, 40, 4)
