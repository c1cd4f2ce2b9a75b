"""The walk base: one fixed row for each node, made of the graph's short random walks.

With A the weights of edges, d its row sums, P = D^-1 A and vol the sum of d, ``M = log(max(mean over r <= w
of P^r vol / d_column, 1))`` says how much more often walks of up to w steps join two nodes than chance does;
DeepWalk factorises it implicitly (Qiu and others 2018). The base is the unit rows of U s, of a randomised SVD
of M (Halko, Martinsson and Tropp 2011, algorithm 4.4). Its block is kept orthonormal by Cholesky QR, which
needs no copy of it (Yamamoto, Nakatsukasa, Yanagisawa and Fukaya 2015; the shift: Fukaya and others 2020).

P^r / d_column is symmetric, so M is its own transposed, up to rounding. Nodes are taken in the order of their
degrees, then of their numbers: a result does not depend on the order of edges, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dygcn.engine._blas import one_blas_thread
from dygcn.engine.records import Bool, Float, Float32, Float64, Int8, Int32, Int64, Progress
from dygcn.engine.training import walk_kernels
from dygcn.errors import OptionError

OVERSAMPLE = 16
POWER_ITERATIONS = 3
PRODUCTS = 1 + 2 * POWER_ITERATIONS
_PIECES = 2 * PRODUCTS  # of the progress
_BLAS_ROWS = 1024  # that are handed to BLAS at once
_LARGE = 1e30  # what float32 need not hold
_SHIFT = 1e-13  # of the trace
_WELL_CONDITIONED = 1e-3  # of the diagonal of a triangular factor, smallest to greatest


def leading_block(
    multiply: Callable[[Float32], None],
    rows: int,
    rank: int,
    seed: int,
    products: int = PRODUCTS,
    begin: NDArray[Any] | None = None,
) -> Float32:
    """Return M Q, where Q has orthonormal columns that nearly span M's leading singular vectors.

    `multiply` replaces a block by M times it, `products` times. Two in a row need no orthonormal columns
    in between: float32 keeps what they do. `begin` is near to begin with; rows of zeros, and by default
    all, are drawn. It may be used as it is.
    """
    random = np.random.default_rng([seed, 8])
    if begin is None:
        block = random.standard_normal((rows, rank + OVERSAMPLE), dtype=np.float32)
    else:
        block = begin.astype(np.float32, copy=False)
        unknown = np.flatnonzero(~begin.any(axis=1))
        length = np.linalg.norm(block) / max(np.sqrt(rows - len(unknown)), 1.0) or 1.0
        drawn = random.standard_normal((len(unknown), begin.shape[1]), dtype=np.float32)
        block[unknown] = drawn * np.float32(length / np.sqrt(begin.shape[1]))
    for left in range(products, 0, -1):
        if left % 2 and (left < products or begin is not None):
            orthonormalise(block)
        multiply(block)
    return block


def rotation(block: Float32, rank: int) -> Float64:
    """Return the leading columns of V, which turn a block Y = U s V^T into the leading columns of U s."""
    _, vectors = np.linalg.eigh(gram(block))
    return np.ascontiguousarray(vectors[:, ::-1][:, :rank])


def orthonormalise(block: Float32) -> None:
    """Replace a block, in place, by orthonormal columns with the same span; dependent ones by small ones."""
    for _ in range(2):
        upper = _upper_factor(gram(block))
        inverse = np.linalg.inv(upper)
        turn_rows(block, inverse)
        sizes = np.abs(np.diag(upper))
        if sizes.min() > _WELL_CONDITIONED * sizes.max():
            return


def gram(block: Float32) -> Float64:
    """Return Y^T Y in float64."""
    total = np.zeros((block.shape[1], block.shape[1]))
    with np.errstate(invalid="ignore"):  # BLAS works on padding, too: its flags are not about the product
        for begin in range(0, len(block), _BLAS_ROWS):
            wide = block[begin : begin + _BLAS_ROWS].astype(np.float64)
            total += wide.T @ wide
    if not np.isfinite(total).all():
        raise FloatingPointError("the block of the factorisation is not finite")
    return total


def turn_rows(block: Float32, matrix: Float) -> None:
    """Multiply the rows of a block by a matrix, in place, into its leading columns."""
    if np.abs(matrix).max(initial=0.0) < _LARGE:
        matrix = matrix.astype(np.float32)
    with np.errstate(invalid="ignore"):
        for begin in range(0, len(block), _BLAS_ROWS):
            part = block[begin : begin + _BLAS_ROWS]
            part[:, : matrix.shape[1]] = part @ matrix


def _upper_factor(matrix: Float64) -> Float:
    """Return R with R^T R = matrix, plus the multiple of the identity that this needs."""
    shift = 0.0
    while True:
        try:
            lower = np.linalg.cholesky(matrix + shift * np.eye(len(matrix)))
        except np.linalg.LinAlgError:
            shift = max(10.0 * shift, _SHIFT * float(np.trace(matrix)), np.finfo(np.float64).tiny)
        else:
            return lower.T


BUDGET = 3 << 30  # bytes of working memory, beside the edges that come in and the rows that come out
LONGEST = 3  # steps of walks, where they fit
MULTIPLICATIONS = {2: 80_000_000, 3: 36_000_000}  # that the walks of the last step may take, by window
LARGEST_PRODUCT = 6_000_000  # pairs that walks of two steps may join, if there is to be a third one
# Of the block that are multiplied at once: fewer need less memory, and twice the time when there are 32.
COLUMNS = 64
_TINY = 1e-30  # the length of a row that is nothing but rounding
_ROWS = 1 << 11  # that are handled at once
_ARC = 4 + 4  # column, value
_ROW_OF_WALKS = 3 * 8 + 3 * 4 + 8 + 8  # share, queue, degree, start
_NODE = 3 * 8 + 4 + 1  # degree, order, its inverse and scratch to sort


@dataclass(frozen=True, slots=True)
class WalkBase:
    """One row for each node that has one."""

    rows: Float32  # (n, rank) unit rows; zero where a node has none
    has: Bool  # (n,) which nodes have a row
    window: int  # steps of walks that were used
    core: int  # nodes that were factorised


@dataclass(frozen=True, slots=True)
class Sparse:
    """A square matrix, row by row."""

    start: Int64  # (n + 1,)
    columns: Int32
    values: Float32

    def multiply(self, block: Float32, scratch: Float32) -> None:
        """Replace a block, in place, by the product; `scratch` has space for `COLUMNS` columns."""
        rows, width = block.shape
        for begin in range(0, width, COLUMNS):
            count = min(COLUMNS, width - begin)
            old = scratch[: rows * count].reshape(rows, count)
            old[:] = block[:, begin : begin + count]
            walk_kernels.multiply(self.start, self.columns, self.values, old, block, begin)


def walk_base(
    first: Int32,
    second: Int32,
    weight: Float64,
    nodes: int,
    rank: int,
    seed: int,
    *,
    budget: int = BUDGET,
    window: int | None = None,
    products: int = PRODUCTS,
    begin: Int8 | None = None,
    progress: Progress | None = None,
) -> WalkBase:
    """Factorise the walks of an undirected graph: every edge once, no loops; of a directed one, of A + A^T.

    Beyond `budget` bytes of working memory, only the nodes of the highest degrees are factorised. Walks have
    `window` steps; by default the most of 3, 2 and 1 that fits `budget`, `MULTIPLICATIONS` and
    `LARGEST_PRODUCT`. For `products` and `begin`, (n, rank) rows that are near, see `leading_block`.
    A node has no row if it has no edge, or if walks join it with no node more often than chance does: on
    a complete bipartite graph, walks of one and two steps cancel.
    """
    with one_blas_thread():
        reporter = _Reporter(progress)
        order, place = _by_degree(first, second, nodes)
        core = _core_size(first, second, place, len(order), rank, budget)
        arcs, degree = _arcs_of(first, second, weight, place, core)
        asked = window
        if window is None:
            window, joined = _choose_window(arcs, nodes, rank, budget)
        else:
            joined = walk_kernels.count_walks(window, arcs.start, arcs.columns)[0]
        reporter.done(1)
        logs = _log_walks(arcs, degree, window, joined, reporter)
        if len(logs.columns) == 0 and window > 1 and asked is None:
            window, joined = 1, walk_kernels.count_walks(1, arcs.start, arcs.columns)[0]
            logs = _log_walks(arcs, degree, window, joined, reporter)
        del arcs, degree
        rows, has = np.zeros((nodes, rank), np.float32), np.zeros(nodes, np.bool_)
        if len(logs.columns):
            near = None if begin is None else begin[order[:core]]
            found, least = _factorise(logs, rank, seed, products, near, reporter)
            del logs
            width = min(rank, found.shape[1])
            for start in range(0, core, _ROWS):
                some = order[start : min(start + _ROWS, core)]
                part = found[start : start + _ROWS, :width].astype(np.float64)
                length = np.sqrt(np.einsum("ij,ij->i", part, part))
                real = length > least
                rows[some[real], :width] = part[real] / length[real, None]
                has[some[real]] = True
        reporter.done(_PIECES)
        return WalkBase(rows, has, window, core)


@dataclass(slots=True)
class _Reporter:
    """Reports the progress of a factorisation: half walks, half matrix products."""

    progress: Progress | None
    count: int = 0

    def done(self, count: int = 0) -> None:
        """Record that at least so many pieces are done; 0: one more."""
        self.count = max(self.count, count or min(self.count + 1, _PIECES))
        if self.progress is not None:
            self.progress(self.count, _PIECES, "factorising walks")


def _by_degree(first: Int32, second: Int32, nodes: int) -> tuple[Int64, Int32]:
    """Return the nodes with edges, highest degree first, and every node's rank in this order."""
    degree = np.zeros(nodes, np.int64)
    walk_kernels.count_ends(first, second, degree)
    np.negative(degree, out=degree)
    order = np.argsort(degree, kind="stable")
    place = np.empty(nodes, np.int32)
    place[order] = np.arange(nodes, dtype=np.int32)
    return order[: np.count_nonzero(degree)], place


def _core_size(first: Int32, second: Int32, place: Int32, active: int, rank: int, budget: int) -> int:
    """Return the number of nodes whose edges and one-step walks fit into the budget."""
    if _bytes_needed(active, 2 * len(first), len(place), rank) <= budget:
        return active
    edges = np.zeros(len(place), np.int64)
    walk_kernels.count_inner_edges(first, second, place, edges)
    np.cumsum(edges, out=edges)
    low, high = 0, active
    while low < high:
        middle = (low + high + 1) // 2
        if _bytes_needed(middle, 2 * int(edges[middle - 1]), len(place), rank) <= budget:
            low = middle
        else:
            high = middle - 1
    if low == 0:
        raise OptionError(f"a budget of {budget} bytes is too small for a base of {len(place)} nodes")
    return low


def _bytes_needed(core: int, arcs: int, nodes: int, rank: int, joined: int = 0) -> int:
    """Return the peak memory in bytes; `joined`: pairs connected by walks of more than one step."""
    around = _NODE * nodes
    sorting = (2 * _ARC) * arcs + 16 * core
    walking = _ARC * (arcs + joined) + _ROW_OF_WALKS * core
    factorising = _ARC * (joined or arcs) + (8 + 4 * (rank + OVERSAMPLE + COLUMNS)) * core
    return around + max(sorting, walking, factorising)


def _arcs_of(first: Int32, second: Int32, weight: Float64, place: Int32, core: int) -> tuple[Sparse, Float64]:
    """Return the core's weights as a matrix with sorted rows, and their sums."""
    start = np.empty(core + 1, np.int64)
    walk_kernels.count_arcs(first, second, place, core, start)
    columns, values = np.empty(start[-1], np.int32), np.empty(start[-1], np.float32)
    # Walks do not depend on the unit of weights: a power of two keeps them in the range of float32.
    scale = 2.0 ** -np.frexp(weight.max() if len(weight) else 1.0)[1]
    walk_kernels.fill_arcs(first, second, weight, scale, place, start, columns, values)
    arcs = Sparse(start, np.empty_like(columns), np.empty_like(values))
    walk_kernels.turn(start, columns, values, arcs.columns, arcs.values)
    degree = np.empty(core, np.float64)
    walk_kernels.sum_rows(start, arcs.values, degree)
    return arcs, degree


def _choose_window(arcs: Sparse, nodes: int, rank: int, budget: int) -> tuple[int, int]:
    """Return the longest walks that fit, and a bound on the pairs they connect, without computing any."""
    core, count = len(arcs.start) - 1, len(arcs.columns)
    lengths = np.diff(arcs.start).astype(np.float64)
    window, joined, ahead, last = 1, count, int(lengths @ lengths), 0
    while window < LONGEST and ahead <= MULTIPLICATIONS[window + 1] and last <= LARGEST_PRODUCT:
        if window == 1 and _least_ahead(arcs, lengths) > MULTIPLICATIONS[LONGEST]:
            most = count + ahead  # where two steps fit, the number of pairs is not needed
            if _bytes_needed(core, count, nodes, rank, most) <= budget:
                return 2, most
        longer, last, ahead = walk_kernels.count_walks(window + 1, arcs.start, arcs.columns)
        if _bytes_needed(core, count, nodes, rank, longer) > budget:
            break
        window, joined = window + 1, longer
    return window, joined


def _least_ahead(arcs: Sparse, lengths: Float64) -> float:
    """Return a lower bound on the multiplications of a third step."""
    some = lengths > 0
    reached = np.maximum.reduceat(lengths[arcs.columns], arcs.start[:-1][some])
    return float(lengths[some] @ reached)


def _log_walks(arcs: Sparse, degree: Float64, window: int, most: int, reporter: _Reporter) -> Sparse:
    """Return M, with at most so many non-zero entries."""
    core = len(degree)
    logs = Sparse(np.zeros(core + 1, np.int64), np.empty(most, np.int32), np.empty(most, np.float32))
    share, queue = np.zeros((3, core)), np.empty((3, core), np.int32)
    scale = degree.sum() / window
    graph = arcs.start, arcs.columns, arcs.values, degree, scale
    for begin in range(0, core, _ROWS):
        stop = min(begin + _ROWS, core)
        walk_kernels.log_walks(
            begin, stop, window, *graph, share, queue, logs.start, logs.columns, logs.values
        )
        reporter.done(1 + (PRODUCTS - 1) * stop // core)
    count = logs.start[-1]
    return Sparse(logs.start, logs.columns[:count], logs.values[:count])


def _factorise(
    logs: Sparse, rank: int, seed: int, products: int, begin: Int8 | None, reporter: _Reporter
) -> tuple[Float, float]:
    """Return U s, as leading columns, and the length below which its rows are only rounding."""
    core = len(logs.start) - 1
    if core <= rank + OVERSAMPLE:
        dense = np.zeros((core, core))
        walk_kernels.write_dense(logs.start, logs.columns, logs.values, dense)
        left, sizes, _ = np.linalg.svd(dense)
        exact = np.ascontiguousarray((left * sizes)[:, :rank])
        return exact, 1e-9 * float(np.abs(exact).max())
    scratch = np.empty(core * COLUMNS, np.float32)

    def multiply(block: Float32) -> None:
        logs.multiply(block, scratch)
        reporter.done()

    found: Int8 | Float32 | None = begin
    if begin is None and products < PRODUCTS:
        found, products = _columns_together(logs, rank + OVERSAMPLE, seed), products - 1
    block = leading_block(multiply, core, rank, seed, products, found)
    turn_rows(block, rotation(block, rank))
    return block, _TINY


def _columns_together(logs: Sparse, width: int, seed: int) -> Float32:
    """Return the product with a random matrix of one 1 or -1 in each row, which is very cheap."""
    core = len(logs.start) - 1
    random, block = np.random.default_rng([seed, 9]), np.zeros((core, width), np.float32)
    to, sign = random.integers(0, width, core, np.int32), random.choice(np.array([-1, 1], np.float32), core)
    walk_kernels.add_columns(logs.start, logs.columns, logs.values, to, sign, block)
    return block
