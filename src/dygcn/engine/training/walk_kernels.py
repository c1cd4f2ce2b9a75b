"""The loops of the walk base: arcs in rows, walks over them, and a sparse matrix times a block of columns.

Each row is written by one pass in the order of its arcs, so the bits depend on the arguments alone.
"""

from __future__ import annotations

import numpy as np

from dygcn.engine.records import Float32, Float64, Int32, Int64

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from math import log

    from dygcn.engine._rows import write_sparse_product


LEAST = 2.0**-126
"""Of a weight after scaling: nothing underflows to zero, which would mean that there is no arc."""
ROUNDING = 1e-9
"""Above 1, a ratio counts as 1: on a complete bipartite graph every ratio is 1 but for rounding."""


def count_ends(first: Int32, second: Int32, count: Int64) -> None:
    """Add the number of edges of each node to `count`."""
    with cython.nogil:
        for edge in range(len(first)):
            count[first[edge]] += 1
            count[second[edge]] += 1


def count_inner_edges(first: Int32, second: Int32, place: Int32, count: Int64) -> None:
    """Add to `count[i]` the number of edges from the node at place i to nodes at lower places."""
    with cython.nogil:
        for edge in range(len(first)):
            count[max(place[first[edge]], place[second[edge]])] += 1


def count_arcs(first: Int32, second: Int32, place: Int32, core: int, start: Int64) -> None:
    """Set `start` to where each row of the core begins."""
    with cython.nogil:
        for row in range(core + 1):
            start[row] = 0
        for edge in range(len(first)):
            a, b = place[first[edge]], place[second[edge]]
            if a < core and b < core:
                start[a + 1] += 1
                start[b + 1] += 1
        for row in range(core):
            start[row + 1] += start[row]


def fill_arcs(
    first: Int32,
    second: Int32,
    weight: Float64,
    scale: float,
    place: Int32,
    start: Int64,
    columns: Int32,
    values: Float32,
) -> None:
    """Write both arcs of every edge inside the core, in the order of the edges."""
    core = len(start) - 1
    at = np.array(start)
    with cython.nogil:
        for edge in range(len(first)):
            a, b = place[first[edge]], place[second[edge]]
            if a < core and b < core:
                value = max(weight[edge] * scale, LEAST)
                columns[at[a]] = b
                values[at[a]] = value
                at[a] += 1
                columns[at[b]] = a
                values[at[b]] = value
                at[b] += 1


def turn(start: Int64, columns: Int32, values: Float32, turned: Int32, turned_values: Float32) -> None:
    """Write the transposed of a symmetric matrix: the same one, each row sorted."""
    at = np.array(start)
    with cython.nogil:
        for row in range(len(start) - 1):
            for arc in range(start[row], start[row + 1]):
                other = columns[arc]
                turned[at[other]] = row
                turned_values[at[other]] = values[arc]
                at[other] += 1


def sum_rows(start: Int64, values: Float32, total: Float64) -> None:
    """Write the sum of each row."""
    with cython.nogil:
        for row in range(len(total)):
            total[row] = 0.0
            for arc in range(start[row], start[row + 1]):
                total[row] += values[arc]


def count_walks(window: int, start: Int64, columns: Int32) -> tuple[int, int, int]:
    """Count what walks reach, without a value.

    Return pairs of nodes that a walk of 1 to `window` steps joins; pairs that one of `window` steps
    joins; and multiplications that walks of one more step take.
    """
    rows = len(start) - 1
    mark = np.full((2, rows), -1, np.int64)
    reached = np.full(rows, -1, np.int64)
    queue = np.empty((2, rows), np.int32)
    joined, joined_last, ahead = 0, 0, 0
    with cython.nogil:
        for row in range(rows):
            now, count = 0, start[row + 1] - start[row]
            for i in range(count):
                queue[0, i] = columns[start[row] + i]
                reached[queue[0, i]] = row
            joined += count
            for step in range(1, window):
                after, found = 1 - now, 0
                stamp = row * window + step
                for i in range(count):
                    middle = queue[now, i]
                    for arc in range(start[middle], start[middle + 1]):
                        other = columns[arc]
                        if mark[after, other] != stamp:
                            mark[after, other] = stamp
                            queue[after, found] = other
                            found += 1
                            if reached[other] != row:
                                reached[other] = row
                                joined += 1
                now, count = after, found
            joined_last += count
            for i in range(count):
                other = queue[now, i]
                ahead += start[other + 1] - start[other]
    return joined, joined_last, ahead


def log_walks(
    low: int,
    high: int,
    window: int,
    start: Int64,
    columns: Int32,
    values: Float32,
    degree: Float64,
    scale: float,
    share: Float64,
    queue: Int32,
    log_start: Int64,
    log_columns: Int32,
    log_values: Float32,
) -> None:
    """Write rows of the logarithms of walks: ``log(max(scale * sum of P^r / d_column, 1))``, without zeros.

    `share`, (3, n), is all zero before the first row: the chances with which walks of this step and of
    the next one reach each node, and their sum over steps; `queue`, (3, n): the columns of them that are
    not zero.
    """
    with cython.nogil:
        to = log_start[low]
        for row in range(low, high):
            now, count = 0, start[row + 1] - start[row]
            touched = count
            for i in range(count):
                other = columns[start[row] + i]
                chance = values[start[row] + i] / degree[row]
                queue[0, i] = queue[2, i] = other
                share[0, other] = share[2, other] = chance
            for step in range(1, window):
                last = step == window - 1  # what it reaches is added to the sum at once
                after = 2 if last else 1 - now
                found = touched if last else 0
                for i in range(count):
                    middle = queue[now, i]
                    part = share[now, middle] / degree[middle]
                    share[now, middle] = 0.0
                    for arc in range(start[middle], start[middle + 1]):
                        other = columns[arc]
                        if share[after, other] == 0.0:
                            queue[after, found] = other
                            found += 1
                        share[after, other] += part * values[arc]
                if last:
                    touched = found
                    break
                for i in range(found):
                    other = queue[after, i]
                    if share[2, other] == 0.0:
                        queue[2, touched] = other
                        touched += 1
                    share[2, other] += share[after, other]
                now, count = after, found
            for i in range(touched):
                other = queue[2, i]
                ratio = share[2, other] * scale / degree[other]
                share[2, other] = 0.0
                if ratio > 1.0 + ROUNDING:
                    log_columns[to] = other
                    log_values[to] = log(ratio)
                    to += 1
            log_start[row + 1] = to


def multiply(
    start: Int64, columns: Int32, values: Float32, old: Float32, block: Float32, column: int
) -> None:
    """Write a sparse matrix times `old` into the columns of `block` from `column` on."""
    with cython.nogil:
        write_sparse_product(start, columns, values, old, block, column)


def add_columns(
    start: Int64, columns: Int32, values: Float32, to: Int32, sign: Float32, block: Float32
) -> None:
    """Add each column of a sparse matrix, times its sign, to one column of a block of fewer columns."""
    with cython.nogil:
        for row in range(len(start) - 1):
            for arc in range(start[row], start[row + 1]):
                block[row, to[columns[arc]]] += sign[columns[arc]] * values[arc]


def write_dense(start: Int64, columns: Int32, values: Float32, dense: Float64) -> None:
    """Write a sparse matrix into a dense one of zeros."""
    with cython.nogil:
        for row in range(len(start) - 1):
            for arc in range(start[row], start[row + 1]):
                dense[row, columns[arc]] = values[arc]
