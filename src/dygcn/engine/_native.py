"""Python versions of the C primitives that compiled kernels use, for kernels that run uncompiled.

A kernel module is a plain `.py` file. The `.pxd` file beside it gives its functions C types, and Cython
compiles both when the package is built. Where no C compiler was to be had, the same `.py` runs as it is.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

compiled = False
nogil = nullcontext()
"""In the place of ``cython.nogil`` where the package `cython` is not installed."""
WORD = (1 << 64) - 1
"""Words wrap around: in C by themselves, in Python by this mask."""


def word(number: int) -> int:
    """Return the 64 bits of an integer as a number that is not below zero."""
    return int(number) & WORD


def folded(left: int, right: int) -> int:
    """Multiply two words to 128 bits, and return the upper half xor the lower half."""
    product = word(left) * word(right)
    return (product ^ (product >> 64)) & WORD


def prefetch_8(array: NDArray[Any], at: int) -> None:
    """Prefetch an element of an array; no value changes."""


prefetch_32 = prefetch_64 = prefetch_words = prefetch_8


def load_64(array: NDArray[Any], at: int) -> int:
    """Read a number that another process may be writing: either the old value or the new one."""
    return int(array[at])


def store_64(array: NDArray[Any], at: int, value: int) -> None:
    """Write a number that another process may be reading."""
    array[at] = value


def fence() -> None:
    """Order memory accesses: no other process sees one from one side of this call moved to the other."""
