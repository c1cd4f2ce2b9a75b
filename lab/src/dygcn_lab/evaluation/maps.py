"""What a map in the plane keeps of the vectors that it shows."""

from __future__ import annotations

import numpy as np

from dygcn.engine.records import Float32, Float64, Int64
from dygcn.live.plotting import unit_rows


def kept_neighbours(vectors: Float32, place: Float64, count: int = 10) -> float:
    """Return how many of the nearest rows by cosine are among the nearest in the plane, from 0 to 1."""
    units = unit_rows(vectors)
    apart = ((place[:, None] - place[None]) ** 2).sum(axis=2)
    near, flat = _nearest(-(units @ units.T), count), _nearest(apart, count)
    both = [len(np.intersect1d(one, other)) for one, other in zip(near, flat, strict=True)]
    return float(np.mean(both)) / count


def _nearest(distance: Float32 | Float64, count: int) -> Int64:
    np.fill_diagonal(distance, np.inf)
    found: Int64 = np.argpartition(distance, count, axis=1)[:, :count]
    return found
