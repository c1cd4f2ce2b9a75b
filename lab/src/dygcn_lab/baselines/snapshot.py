"""A graph as the baselines need it, from its list of edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from dygcn._extras import extra
from dygcn.engine.records import Float32, Float64, Int64

with extra("evidence", of="dygcn-lab"):
    from scipy.sparse import csr_array


def adjacency(edges: Int64, nodes: int) -> Any:
    """Return the symmetric adjacency matrix, a scipy CSR array of float64."""
    rows, columns = np.concatenate((edges, edges[:, ::-1])).T
    return csr_array((np.ones(len(rows)), (rows, columns)), shape=(nodes, nodes))


def compact(edges: Int64) -> tuple[Int64, Int64]:
    """Return the nodes that have an edge, in order, and the edges between their places in that order.

    Examples
    --------
    >>> active, places = compact(np.array([[3, 9], [5, 9]]))
    >>> active.tolist(), places.tolist()
    ([3, 5, 9], [[0, 2], [1, 2]])
    """
    active, places = np.unique(edges, return_inverse=True)
    return active, places.reshape(-1, 2).astype(np.int64)


def spread(rows: Float32 | Float64, at: Int64, nodes: int, dim: int) -> Float32:
    """Return (nodes, dim) with these rows at these nodes and zeros elsewhere, also where columns lack."""
    table = np.zeros((nodes, dim), np.float32)
    table[at, : rows.shape[1]] = rows
    return table
