"""How the numba loops of this package are compiled: one place, one set of flags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

_CACHE_LINE = 64  # bytes
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


def _prefetch_row(typing: Any, array: Any, row: Any) -> Any:
    """Ask for a row of a two-dimensional array before it is needed.

    Rows of the state lie anywhere in gigabytes: without this, a kernel spends its time waiting.
    It has no effect on any value.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0])
        size = builder.extract_value(data.strides, 0)
        address, word, flag = ir.IntType(8).as_pointer(), ir.IntType(64), ir.IntType(32)
        start = builder.bitcast(data.data, address)
        offset = builder.mul(builder.sext(arguments[1], word), size)
        call = ir.FunctionType(ir.VoidType(), [address, flag, flag, flag])
        request = builder.module.declare_intrinsic("llvm.prefetch", [address], call)
        line = ir.Constant(word, _CACHE_LINE)
        with cgutils.for_range(builder, builder.sdiv(size, line)) as loop:
            place = builder.add(offset, builder.mul(loop.index, line))
            builder.call(request, [builder.gep(start, [place]), flag(1), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, types.int32), generate


prefetch_row = cast("Callable[[object, object], None]", intrinsic(_prefetch_row))
