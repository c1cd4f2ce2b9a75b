"""How the numba loops of this package are compiled: one place, one set of flags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

_F = TypeVar("_F", bound="Callable[..., object]")


def kernel(function: _F) -> _F:
    """Compile `function` on first use and keep the machine code on disk.

    No fastmath, ever: it lets the compiler reorder and contract floating-point
    operations, and then the same sums no longer give the same messages.
    """
    return _compiled(function)


def inlined(function: _F) -> _F:
    """Compile a small function into each kernel that calls it."""
    return _compiled(function, inline="always")


def _compiled(function: _F, **options: Any) -> _F:
    try:
        return cast("_F", numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function))
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return cast("_F", numba.njit(nogil=True, error_model="numpy", **options)(function))
