import pytest

from dygcn.engine.events import read_events
from dygcn.engine.graph import Graph, apply_batch
from dygcn.errors import CapacityError, EventError

TIMED = ("src", "dst", "t")


def test_counts_of_events_without_effect():
    graph = Graph("int64")
    delta = apply_batch(graph, read_events([(1, 2), (2, 1), (3, 3), (4, 4)]))
    assert (delta.unchanged, delta.missing, delta.loops) == (1, 0, 2)
    assert len(graph) == 2
    delta = apply_batch(graph, read_events([(8, 9, 0, -1), (1, 9, 0, -1), (1, 2, 0, -1), (1, 2, 0, -1)]))
    assert (delta.unchanged, delta.missing, delta.loops) == (0, 3, 0)
    assert len(delta.left) == 2
    graph.release(delta.left)
    assert len(graph.ids) == len(graph) == 0


def test_the_touched_set_is_a_set():
    """A node that gains one edge and loses another is touched, and so are the ends of a no-op."""
    graph = Graph("int64")
    apply_batch(graph, read_events([(0, 1), (2, 3)]))
    delta = apply_batch(graph, read_events([(0, 1, 0, -1), (0, 2, 0, 1), (2, 3, 0, 1)]))
    named = graph.ids.find(read_events([(0, 1), (2, 3), (1, 1), (3, 3)]).src)
    assert sorted(delta.touched.tolist()) == sorted(named.tolist())


def test_weight_limits_name_the_grid_and_nothing_is_applied():
    graph = Graph("int64")
    with pytest.raises(CapacityError, match=r"carries weights from 1\.52588e-05"):
        apply_batch(graph, read_events([(1, 2, 0, 1, 1.0), (1, 3, 0, 1, 1e-9)]))
    assert len(graph.ids) == 0
    small = Graph("int64", limit=4 << 16)
    apply_batch(small, read_events([(1, 2), (1, 3)]))
    with pytest.raises(CapacityError, match="scale the weights down"):
        apply_batch(small, read_events([(1, 4), (1, 5), (6, 7)]))
    assert (len(small), len(small.ids), small.edge_count) == (3, 3, 2)
    assert small.strength[small.ids.find(read_events([(1, 2)]).src)].tolist() == [2 << 16]


def test_a_refused_batch_leaves_ghosts_ageing():
    """Ageing pairs are taken from a queue; a batch that is refused must put them back."""
    graph = Graph("int64", limit=4 << 16, half_life=1.0)
    apply_batch(graph, read_events([(1, 2, 0.0)], columns=TIMED))
    apply_batch(graph, read_events([(1, 2, 0.0, -1)]))
    with pytest.raises(CapacityError):
        apply_batch(graph, read_events([(1, node, 1.5) for node in range(3, 9)], columns=TIMED))
    weights = []
    for now in (0.5, 1.5, 2.5, 3.5, 4.5):
        apply_batch(graph, read_events([]), now=now)
        weights.append(graph.edges()[2].tolist())
    assert weights == [[-(1 << 15)], [-(1 << 14)], [-(1 << 13)], [-(1 << 12)], []]
    assert len(graph) == 0


def test_memory_needs_time():
    graph = Graph("int64", half_life=1.0)
    with pytest.raises(EventError, match="now="):
        apply_batch(graph, read_events([(1, 2)]))
    with pytest.raises(EventError, match="finite"):
        apply_batch(graph, read_events([(1, 2)]), now=float("nan"))
    apply_batch(graph, read_events([(1, 2)]), now=3.0)
    assert graph.clock == 3.0


def test_a_flapping_edge_does_not_fill_the_queue():
    graph = Graph("int64", half_life=1e9)
    for turn in range(300):
        rows = [(i, i + 1, float(turn), 1) for i in range(40)] + [
            (i, i + 1, float(turn), -1) for i in range(40)
        ]
        apply_batch(graph, read_events(rows))
    assert graph.memory is not None
    assert len(graph.memory) == 40
    assert len(graph.memory._queue) < 5000


def test_find():
    graph = Graph("string")
    apply_batch(graph, read_events([("a", "b"), ("b", "c")]))
    column = read_events([("c", "a"), ("zed", "b")]).src
    assert graph.find(column).tolist()[1] == -1


def test_a_ghost_dies_however_long_ago_it_was():
    for half_life, now in ((1e-9, 1e10), (1e-3, 1.7e18), (1e-300, 1e9), (1.0, 1e19)):
        graph = Graph("int64", half_life=half_life)
        apply_batch(graph, read_events([(1, 2, 0.0, 1), (3, 4, 0.0, 1), (1, 2, 0.0, -1)]))
        apply_batch(graph, read_events([]), now=now)
        assert graph.edges()[2].tolist() == [1 << 16]


def test_minus_zero_is_zero():
    clocks = set()
    for times in ((0.0, -0.0), (-0.0, 0.0)):
        graph = Graph("int64", half_life=1.0)
        for t in times:
            apply_batch(graph, read_events([(1, 2, t)], columns=TIMED))
        clocks.add(str(graph.clock))
    assert clocks == {"0.0"}


def test_ghosts_that_age_do_not_make_weights_finer():
    """What a ghost weighs follows from the edge it was: the low bits are reserved for it once."""
    graph = Graph("int64", half_life=1.0)
    apply_batch(graph, read_events([(1, 2, 0.0), (2, 3, 0.0)], columns=TIMED))
    apply_batch(graph, read_events([(1, 2, 0.0, -1)]))
    shifts = []
    for now in (1.5, 2.5, 3.5):
        apply_batch(graph, read_events([]), now=now)
        shifts.append(graph.weight_shift)
        weights = graph.edges()[2]
        assert all(weight % (1 << graph.weight_shift) == 0 for weight in weights.tolist())
    assert shifts == [12, 12, 12]
