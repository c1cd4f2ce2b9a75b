"""Loops over relations: a table from pairs of nodes to the weight of each relation; see `relations`."""

from __future__ import annotations

from typing import Any

import numpy as np

from dygcn.engine.graph.constants import LAPSE
from dygcn.engine.records import Int8, Int16, Int32, Int64, Nodes

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine._holder import Holder
    from dygcn.engine.graph.pairs import pair_drop, pair_key, pair_put, pair_slot


class PartArrays(Holder):
    """The arrays of `Relations`. They never grow or move."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        # The first slot of each pair that has a part; of each slot, relation and weight.
        self.table, self.relations, self.weights = arrays[:3]
        # Of each slot: the next one of its pair (if free: the next free one), or -1.
        self.behind = arrays[3]
        # Slots ever used; the first free one or -1.
        self.counts = arrays[4]


def _slot_of(parts: PartArrays, key: int, relation: int) -> int:
    slot = pair_slot(parts.table, key)
    while slot >= 0 and parts.relations[slot] != relation:
        slot = parts.behind[slot]
    return slot


def recall(parts: PartArrays, a: Nodes, b: Nodes, relation: Int16) -> Int64:
    """Return the weight of a relation in each pair; 0 where it has none."""
    found = np.zeros(len(a), np.int64)
    out = found
    with cython.nogil:
        for i in range(len(a)):
            slot = _slot_of(parts, pair_key(a[i], b[i]), relation[i])
            if slot >= 0:
                out[i] = parts.weights[slot]
    return found


def count(parts: PartArrays, a: Nodes, b: Nodes) -> Int64:
    """Return the number of relations in each pair."""
    found = np.zeros(len(a), np.int64)
    out = found
    with cython.nogil:
        for i in range(len(a)):
            slot = pair_slot(parts.table, pair_key(a[i], b[i]))
            while slot >= 0:
                out[i] += 1
                slot = parts.behind[slot]
    return found


def listed(parts: PartArrays, a: Nodes, b: Nodes, total: int) -> tuple[Int16, Int64]:
    """Return relations and weights of all `total` parts of pairs, pair by pair."""
    found = np.empty(total, np.int16), np.empty(total, np.int64)
    relation, weight = found
    at = 0
    with cython.nogil:
        for i in range(len(a)):
            slot = pair_slot(parts.table, pair_key(a[i], b[i]))
            while slot >= 0:
                relation[at] = parts.relations[slot]
                weight[at] = parts.weights[slot]
                at += 1
                slot = parts.behind[slot]
    return found


def put(parts: PartArrays, a: Nodes, b: Nodes, relation: Int16, weight: Int64) -> None:
    """Write the weights of relations in pairs; 0 removes a part. The caller has reserved capacity."""
    with cython.nogil:
        for i in range(len(a)):
            key = pair_key(a[i], b[i])
            slot = _slot_of(parts, key, relation[i])
            if weight[i] == 0:
                if slot >= 0:
                    _take_out(parts, key, slot)
                continue
            if slot < 0:
                slot = _free_slot(parts)
                parts.relations[slot] = relation[i]
                parts.behind[slot] = pair_slot(parts.table, key)
                pair_put(parts.table, key, slot)
            parts.weights[slot] = weight[i]


def drop(parts: PartArrays, a: Nodes, b: Nodes) -> None:
    """Remove all parts of pairs."""
    with cython.nogil:
        for i in range(len(a)):
            key = pair_key(a[i], b[i])
            slot = pair_slot(parts.table, key)
            while slot >= 0:
                _take_out(parts, key, slot)
                slot = pair_slot(parts.table, key)


def _free_slot(parts: PartArrays) -> int:
    slot: int = parts.counts[1]
    if slot >= 0:
        parts.counts[1] = parts.behind[slot]
    else:
        slot = parts.counts[0]
        parts.counts[0] += 1
    return slot


def _take_out(parts: PartArrays, key: int, slot: int) -> None:
    before = pair_slot(parts.table, key)
    if before == slot:
        if parts.behind[slot] >= 0:
            pair_put(parts.table, key, parts.behind[slot])
        else:
            pair_drop(parts.table, key)
    else:
        while parts.behind[before] != slot:
            before = parts.behind[before]
        parts.behind[before] = parts.behind[slot]
    parts.behind[slot] = parts.counts[1]
    parts.counts[1] = slot


def play(
    pair: Int32, cell: Int64, src: Nodes, op: Int8, weight: Int64, total: Int64, value: Int64, every: int
) -> None:
    """Turn events about relations into events about pairs, in order: each sets its pair's total.

    `pair` is below 0 where an event names none; `cell` is the number of its (pair, relation). `src`, `op` and
    `weight` are changed, and an event without effect gets the node -1. `total` (of pairs) and `value` (of
    cells) are brought up to date. A pair that lapses has `every` cells, one a relation, from that of the
    event on.
    """
    with cython.nogil:
        for i in range(len(pair)):
            p, c = pair[i], cell[i]
            if p < 0:
                continue
            if op[i] == LAPSE:
                for one in range(every):
                    value[c + one] = 0
                total[p] = 0
                continue
            new = weight[i] if op[i] > 0 else 0
            if (op[i] < 0 and value[c] == 0) or (new == 0 and op[i] > 0 and total[p] == 0):
                src[i] = -1
                continue
            total[p] += new - value[c]
            value[c] = new
            op[i] = 1 if total[p] > 0 else -1
            weight[i] = total[p]
