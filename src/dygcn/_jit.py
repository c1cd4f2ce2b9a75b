"""How the numba loops of this package are compiled: one place, one set of flags."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

_F = TypeVar("_F", bound="Callable[..., object]")


def kernel(function: _F) -> _F:
    """Compile `function` on first use and keep the machine code on disk.

    No fastmath, ever: it lets the compiler reorder and contract floating-point
    operations, and then the same sums no longer give the same messages.
    """
    return cast("_F", numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: _F) -> _F:
    """Compile a small function into each kernel that calls it."""
    return cast("_F", numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")(function))
