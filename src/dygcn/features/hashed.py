"""Hashed features: a fixed pseudo-random vector of +1 and -1 from the id. Nothing is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn._jit import kernel
from dygcn.errors import FeatureError
from dygcn.events.keys import mix
from dygcn.features.grid import GRID_BITS

if TYPE_CHECKING:
    from dygcn.features.grid import Names
    from dygcn.records import FeatureDelta, Float64, Int8, Int32, Int64, Nodes, UInt64

CANNOT_BE_SET = (
    'this model has features="hashed", which follow from the id and cannot be set; '
    "fit with features=(ids, values) to bring your own"
)
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_BYTE, _EIGHT = np.uint64(255), np.uint64(8)
_SIGNS = (
    2 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").astype(np.int8) - 1
)


@kernel
def hashed_signs(keys: UInt64, seed: np.uint64, width: int) -> Int8:
    """Return +-1 for each key. Column c is bit ``c % 64`` of the key's word ``c // 64``."""
    rows = np.empty((len(keys), width), np.int8)
    for i in range(len(keys)):
        word = np.uint64(0)
        state = mix(keys[i] ^ seed)
        for start in range(0, width - 7, 8):
            if start & 63 == 0:
                state += _GAMMA
                word = mix(state)
            byte = word & _BYTE
            for j in range(8):  # always eight, so that they are copied as one
                rows[i, start + j] = _SIGNS[byte, j]
            word >>= _EIGHT
        for c in range(width - width % 8, width):
            if c & 63 == 0:
                state += _GAMMA
                word = mix(state)
            rows[i, c] = _SIGNS[word & _BYTE, c % 8]
    return rows


class Hashed:
    """Features drawn from the node's id, so that a node never seen has them too.

    Examples
    --------
    >>> from dygcn.events import id_column
    >>> from dygcn.graph.ids import IdMap
    >>> names = IdMap("int64")
    >>> rows, has = Hashed(4, seed=0).rows(names.intern(id_column([7])), names)
    >>> (abs(rows) == 2**24).all(), has.tolist()
    (np.True_, [1])
    """

    message_bits = GRID_BITS
    message_shift = GRID_BITS

    def __init__(self, width: int, seed: int) -> None:
        self.width = width
        self.seed = np.uint64(seed % (1 << 64))
        self.scales: Float64 = np.ones(width)

    @property
    def length(self) -> float:
        """The length of a feature vector on the grid: every column as large as its scale."""
        return float(np.sqrt(self.width)) * 2.0**GRID_BITS

    def rows(self, nodes: Nodes, names: Names) -> tuple[Int32, Int64]:
        """Return x on the grid; every node has one."""
        signs, has = self.units(nodes, names)
        return signs.astype(np.int32) << GRID_BITS, has

    def units(self, nodes: Nodes, names: Names) -> tuple[Int8, Int64]:
        """Return x in units of one: +-1."""
        return hashed_signs(names.keys.take(nodes), self.seed, self.width), np.ones(len(nodes), np.int64)

    def write(self, delta: FeatureDelta) -> None:
        """Refuse: hashed features are a function of the id."""
        if len(delta.nodes):
            raise FeatureError(CANNOT_BE_SET)
