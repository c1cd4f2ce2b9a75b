"""Features that `fit` made: one row for each node of the fitted graph, looked up by the id.

The rows are a part of the model (`training.walks` makes them), not of the graph: a node that leaves and
returns has its row again, and a row never makes a node own anything. A node without a row is a newcomer. The
means of its neighbours leave it out, and it starts as the mean of its own neighbours.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import Book, folded, kernel, page, page_of_rows
from dygcn.errors import FeatureError
from dygcn.features.grid import GRID_BITS
from dygcn.features.hashed import hashed_signs

if TYPE_CHECKING:
    from dygcn.features.grid import Names
    from dygcn.records import FeatureDelta, Float32, Float64, IdColumn, Int8, Int32, Int64, Nodes, UInt64

ROW_BITS = 7  # a row holds whole numbers from -127 to 127: the sum of 255 rows fits 16 bits
CANNOT_BE_SET = (
    'this model has features="walks", which fit made and an update never changes; '
    "fit with features=(ids, values) to bring your own"
)


@kernel
def _place(hashes: UInt64, slots: Int32, secret: UInt64) -> None:
    """Fill a hash table with the numbers of rows; of two rows with one hash the first counts."""
    last = np.uint64(len(slots) - 1)
    for row in range(len(hashes)):
        at = folded(hashes[row] ^ secret[0], secret[1]) & last
        while slots[at] >= 0 and hashes[slots[at]] != hashes[row]:
            at = (at + np.uint64(1)) & last
        if slots[at] < 0:
            slots[at] = row


@kernel
def _find_rows(
    wanted: UInt64, hashes: UInt64, slots: Int32, rows: Int8, secret: UInt64
) -> tuple[Int8, Int64]:
    """Return the row of each hash, zeros where there is none, and 1 where there is one."""
    out, has = np.zeros((len(wanted), rows.shape[1]), np.int8), np.zeros(len(wanted), np.int64)
    last = np.uint64(len(slots) - 1)
    for i in range(len(wanted)):
        at = folded(wanted[i] ^ secret[0], secret[1]) & last
        while slots[at] >= 0 and hashes[slots[at]] != wanted[i]:
            at = (at + np.uint64(1)) & last
        if slots[at] >= 0:
            has[i] = 1
            out[i, :] = rows[slots[at], :]
    return out, has


@kernel
def find_units(nodes: Nodes, names: Int64, seed: np.uint64, width: int, table: Int64) -> tuple[Int8, Int64]:
    """Return x of nodes in stored units, and who has one.

    Parameters
    ----------
    names
        Book of the nodes' public keys and secret hashes.
    seed, width
        Of hashed features.
    table
        Book of a table of rows; empty: features are hashed.
    """
    source = page(names, 1 if len(table) else 0, np.uint64)
    wanted = np.empty(len(nodes), np.uint64)
    for i in range(len(nodes)):
        wanted[i] = source[nodes[i]]
    if len(table) == 0:
        return hashed_signs(wanted, seed, width), np.ones(len(nodes), np.int64)
    hashes, slots = page(table, 0, np.uint64), page(table, 1, np.int32)
    return _find_rows(wanted, hashes, slots, page_of_rows(table, 2, np.int8), page(table, 3, np.uint64))


class RowTable:
    """Rows by id. Nothing in it ever changes, so copies of a model share it.

    Parameters
    ----------
    ids
        User ids, each once.
    rows
        (n, width) whole numbers from -127 to 127.
    scale
        A power of two: a number q stands for ``q / 128 * scale``.
    window
        Steps of the walks that the rows were made of.

    Examples
    --------
    >>> from dygcn.events import id_column
    >>> table = RowTable.of(id_column(["ann", "bob"]), np.array([[0.5, 0.0], [0.0, 0.25]], np.float32))
    >>> table.rows.tolist(), table.scale
    ([[127, 0], [0, 64]], 0.5)
    """

    def __init__(self, ids: IdColumn, rows: Int8, scale: float, window: int = 1) -> None:
        self.ids, self.rows, self.scale, self.window = ids, np.ascontiguousarray(rows), scale, window

    @classmethod
    def of(cls, ids: IdColumn, values: Float32, window: int = 1) -> RowTable:
        """Round rows of numbers to 8 bits, all columns on one scale."""
        peak = float(np.abs(values).max(initial=0.0))
        scale = float(2.0 ** np.ceil(np.log2(peak))) if peak > 0 else 1.0
        whole = np.rint(values * np.float32((1 << ROW_BITS) / scale))
        return cls(ids, whole.clip(-127, 127).astype(np.int8), scale, window)

    def __len__(self) -> int:
        return len(self.rows)

    def __deepcopy__(self, memo: object) -> RowTable:
        return self


class Walks:
    """Features of a fitted table.

    Examples
    --------
    >>> from dygcn.events import id_column
    >>> from dygcn.graph.ids import IdMap
    >>> features = Walks(RowTable.of(id_column([7]), np.array([[0.5, -0.25]], np.float32)))
    >>> names = IdMap("int64")
    >>> rows, has = features.units(names.intern(id_column([7, 8])), names)
    >>> rows.tolist(), has.tolist()
    ([[127, -64], [0, 0]], [1, 0])
    """

    message_bits = GRID_BITS
    message_shift = GRID_BITS - ROW_BITS

    def __init__(self, table: RowTable) -> None:
        self.table = table
        self.width = table.rows.shape[1]
        self.scales: Float64 = np.full(self.width, table.scale)
        self._names: Names | None = None
        self._book: Book

    def __reduce__(self) -> tuple[type[Walks], tuple[RowTable]]:
        # A copy makes its own book, and shares the rows.
        return Walks, (self.table,)

    @property
    def length(self) -> float:
        """The length of a row on the grid: rows have length one."""
        return float(2.0**GRID_BITS / self.table.scale)

    def book(self, names: Names) -> Book:
        """Return hashes, hash table, rows and the secret of the hash table, for compiled loops."""
        if self._names is not names:
            hashes = names.hashes_of(self.table.ids)
            secret = np.frombuffer(os.urandom(16), np.uint64) | np.uint64(1)
            slots = np.full(1 << max((2 * len(hashes)).bit_length(), 1), -1, np.int32)
            _place(hashes, slots, secret)
            self._book, self._names = Book(hashes, slots, self.table.rows, secret), names
        return self._book

    def rows(self, nodes: Nodes, names: Names) -> tuple[Int32, Int64]:
        """Return x on the grid, zero where a node has none, and who has one."""
        units, has = self.units(nodes, names)
        return units.astype(np.int32) << self.message_shift, has

    def units(self, nodes: Nodes, names: Names) -> tuple[Int8, Int64]:
        """Return x as it is stored: from -127 to 127."""
        return _find_rows(names.hashes.take(nodes), *self.book(names).arrays)

    def write(self, delta: FeatureDelta) -> None:
        """Refuse: rows are a part of the model."""
        if len(delta.nodes):
            raise FeatureError(CANNOT_BE_SET)
