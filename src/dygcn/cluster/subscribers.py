"""Subscribers: how many nodes of each other shard aggregate each own node."""

from __future__ import annotations

import numpy as np

from dygcn.engine.graph.ids import grown
from dygcn.engine.records import Int32, Nodes

_NONE = -1


class Subscribers:
    """Counts by node and shard. Only own nodes that some shard mirrors have a row."""

    def __init__(self, shards: int) -> None:
        self._row: Int32 = np.empty(0, np.int32)
        self._counts: Int32 = np.zeros((0, shards), np.int32)
        self._free: Int32 = np.empty(0, np.int32)
        self._used = 0  # rows that were ever given

    def __len__(self) -> int:
        return self._used - len(self._free)

    def reserve(self, nodes: int) -> None:
        """Grow to so many nodes."""
        known = len(self._row)
        self._row = grown(self._row, nodes)
        self._row[known:] = _NONE

    def counts(self, nodes: Nodes) -> Int32:
        """Return the counts of nodes, (n, shards)."""
        row = self._row[nodes]
        found: Int32 = np.zeros((len(nodes), self._counts.shape[1]), np.int32)
        known = row != _NONE
        found[known] = self._counts[row[known]]
        return found

    def put(self, nodes: Nodes, counts: Int32) -> None:
        """Replace the counts of nodes, each named once."""
        mirrored, known = counts.any(axis=1), self._row[nodes] != _NONE
        gone = nodes[known & ~mirrored]
        self._free = np.concatenate((self._free, self._row[gone]))
        self._row[gone] = _NONE
        fresh = nodes[mirrored & ~known]
        again = min(len(fresh), len(self._free))
        more = np.arange(self._used, self._used + len(fresh) - again, dtype=np.int32)
        self._row[fresh] = np.concatenate((self._free[len(self._free) - again :], more))  # free rows first
        self._free = self._free[: len(self._free) - again]
        self._used += len(more)
        self._counts = grown(self._counts, self._used)
        self._counts[self._row[nodes[mirrored]]] = counts[mirrored]
