"""The bare additions, compiled by numba: a loop of its own, that no change of the engine touches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from dygcn._extras import extra
from dygcn.engine.records import Int32, Int64, Integer, Nodes, Stored

with extra("evidence", of="dygcn-lab"):
    import numba
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic


AHEAD = 6  # rows
_CACHE_LINE = 64  # bytes
_F = TypeVar("_F", bound="Callable[..., object]")


def _compiled(function: _F) -> _F:
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        return cast("_F", numba.njit(cache=True, **options)(function))
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return cast("_F", numba.njit(**options)(function))


def _prefetch_row(typing: Any, array: Any, row: Any) -> Any:
    """Ask for a row of a two-dimensional array before it is needed."""

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


@_compiled
def _write_message(stored: Stored, at: Integer, inverse: float, out: Int32) -> None:
    """Loops over columns are functions of their own: faster so."""
    for j in range(stored.shape[1]):
        out[0, j] = np.int32(np.rint(np.float64(stored[at, j]) * inverse))


@_compiled
def _add_row(stored: Stored, at: Integer, table: Stored, row: Integer, weight: Integer) -> None:
    for j in range(stored.shape[1]):
        stored[at, j] += weight * table[row, j]


@_compiled
def add_bare(
    receivers: Nodes,
    slot: Int32,
    degree: Int64,
    first: Int32,
    row: Int32,
    factor: Int32,
    table: Int32,
    narrow: Int32,
    wide: Int64,
    scale: float,
    message: Int32,
) -> None:
    """Add what each receiver has to add, and compute its message; rows are asked for ahead of time."""
    for i in range(len(receivers)):
        if i + AHEAD < len(receivers):
            if slot[i + AHEAD] < 0:
                prefetch_row(narrow, receivers[i + AHEAD])
            else:
                prefetch_row(wide, slot[i + AHEAD])
        inverse = scale / np.float64(degree[i]) if degree[i] > 0 else 0.0
        if slot[i] < 0:
            for c in range(first[i], first[i + 1]):
                _add_row(narrow, receivers[i], table, row[c], factor[c])
            _write_message(narrow, receivers[i], inverse, message)
        else:
            for c in range(first[i], first[i + 1]):
                _add_row(wide, slot[i], table, row[c], factor[c])
            _write_message(wide, slot[i], inverse, message)
