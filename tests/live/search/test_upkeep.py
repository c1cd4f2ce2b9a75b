"""The parts of the index: who waits, what is kept, and how near cosines in float32 are."""

import numpy as np
import pytest

from dygcn.engine.models.links import cosines, norms
from dygcn.engine.models.read_kernels import to_units
from dygcn.live.search.backends import Upkeep
from dygcn.live.search.index import NearestIndex
from dygcn.live.search.nearest import VectorCache, rounding
from tests.live.search.test_index import fresh, grouped, nearest


def test_rows_of_no_direction_become_zero():
    rows = np.array([[3, 4], [0, 0], [np.nan, 1], [1e38, 1e38], [1e-30, 0]], np.float32)
    units = to_units(rows, norms(rows))
    half = np.float32(np.sqrt(0.5))
    np.testing.assert_allclose(units, [[0.6, 0.8], [0, 0], [0, 0], [half, half], [1, 0]], rtol=1e-6)


@pytest.mark.parametrize("dim", [1, 7, 128, 1000])
def test_cosines_in_float32_are_as_near_as_is_said(dim):
    random = np.random.default_rng(dim)
    vectors = (random.standard_normal((500, dim)) * 10 ** random.uniform(-8, 8, (500, 1))).astype(np.float32)
    units = to_units(vectors, norms(vectors))
    for query, unit in zip(vectors[:20], units[:20], strict=True):
        truth = cosines(vectors, norms(vectors), query)
        assert np.abs(units @ unit - truth).max() < rounding(dim) / 2


def test_a_node_that_moved_costs_nothing_until_it_is_asked(monkeypatch):
    live = grouped(300, 10)
    index = NearestIndex(live._cached())
    index.refresh()
    reads = []
    whole = VectorCache._read
    monkeypatch.setattr(
        VectorCache, "_read", lambda self, nodes: (reads.append(len(nodes)), whole(self, nodes))
    )
    change = live.update(add=[(0, 1)])
    assert reads == []
    nearest(index, np.ones(16, np.float32), 3)
    nearest(index, np.ones(16, np.float32), 3)
    assert reads == [len(change)]


class Kept(set):
    """Stands for inverted lists: the nodes that are in them."""

    def put(self, nodes, units):
        assert self.isdisjoint(nodes.tolist())
        self.update(nodes.tolist())

    def drop(self, nodes):
        self -= set(nodes.tolist())


def test_those_wait_first_that_moved_first():
    live = fresh()
    live.update(add=[(1, 2), (5, 6)])
    kept = Upkeep(live._cached())
    kept.backend = Kept()
    kept.poll()
    assert kept.dirty.tolist() == [0, 1, 2, 3]  # a graph that was there before the index was made
    assert (kept.put(3), kept.dirty.tolist(), len(kept.backend)) == (3, [3], 3)
    change = live.update(add=[(1, 7)])
    kept.poll()
    assert kept.dirty.tolist() == [3, *sorted(change._nodes.tolist())]
