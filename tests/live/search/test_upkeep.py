"""The parts of the index: who waits, what is kept, and how near cosines in float32 are."""

import numpy as np
import pytest

from dygcn.engine.models.links import cosines, norms
from dygcn.engine.models.read_kernels import to_units
from dygcn.live.search.backends import UnitRows
from dygcn.live.search.index import NearestIndex
from dygcn.live.search.nearest import VectorCache, rounding
from dygcn.live.search.upkeep import Upkeep
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


def test_those_wait_first_that_moved_first():
    live = fresh()
    live.update(add=[(1, 2), (5, 6)])
    kept = Upkeep(live._cached())
    kept.poll()
    assert kept.dirty.tolist() == [0, 1, 2, 3]  # a graph that was there before the index was made
    assert (kept.put(3), kept.dirty.tolist(), len(kept.backend)) == (3, [3], 3)
    change = live.update(add=[(1, 7)])
    kept.poll()
    assert kept.dirty.tolist() == [3, *sorted(change._nodes.tolist())]


def test_rows_without_gaps_hold_what_was_put_and_not_dropped():
    random = np.random.default_rng(0)
    rows, known = UnitRows(3), {}
    for _ in range(200):
        if known and random.random() < 0.5:
            gone = random.choice(list(known), random.integers(1, len(known) + 1), replace=False)
            rows.drop(gone.astype(np.int32))
            for node in gone.tolist():
                del known[node]
        else:
            new = np.setdiff1d(random.integers(0, 90, 12), list(known)).astype(np.int32)
            units = random.standard_normal((len(new), 3)).astype(np.float32)
            rows.put(new, units)
            known.update(zip(new.tolist(), units, strict=True))
        assert len(rows) == len(known)
        query = random.standard_normal(3).astype(np.float32)
        best = sorted(known, key=lambda node: -(known[node] @ query))
        assert set(best[:4]) <= set(rows.candidates(query, 4).tolist()) <= set(best[:5])
        assert sorted(rows.candidates(query, 1000).tolist()) == sorted(known)
