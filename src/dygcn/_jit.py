"""How the numba loops of this package are compiled: one place, one set of flags."""

from __future__ import annotations

import functools
import hashlib
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dygcn.records import Int64

carray: Any = numba.carray  # type: ignore[attr-defined]
CHECKED = os.environ.get("DYGCN_CHECKED") == "1"
"""Whether loops assert what must hold; a NUMBA_CACHE_DIR of its own keeps it from replacing others."""
_CACHE_LINE = 64  # bytes
_ROOMS = ("_jit.py", "records.py", "events", "features", "graph", "propagation")
_F = TypeVar("_F", bound="Callable[..., object]")


def kernel(function: _F) -> _F:
    """Compile `function` on first use and keep the machine code on disk, until any kernel changes.

    No fastmath, ever: it lets the compiler reorder and contract floating-point
    operations, and then the same sums no longer give the same messages.
    """
    return _compiled(function)


def inlined(function: _F) -> _F:
    """Compile a small function into each kernel that calls it."""
    return _compiled(function, inline="always")


def _compiled(function: _F, **options: Any) -> _F:
    compiled: Any = numba.njit(nogil=True, error_model="numpy", **options)(function)
    with suppress(RuntimeError, OSError):  # it has no file, or no folder can be written: nothing is kept
        compiled._cache = _Kept(function)
    return cast("_F", compiled)


class _Kept(FunctionCache):
    """Machine code on disk, where numba would keep it; it counts as long as no kernel of the package changes.

    numba looks at the file of the function alone. But its machine code holds copies of functions and
    constants of other files, and would go on with the old ones.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        stamp = (
            self._impl.locator.get_source_stamp(),
            sources_digest(),
            CHECKED,
            os.environ.get("NUMBA_BOUNDSCHECK"),
        )
        self._cache_file = IndexDataCacheFile(  # type: ignore[no-untyped-call]
            self._cache_path, self._impl.filename_base, stamp
        )


def kernel_sources() -> dict[str, bytes]:
    """Return the files that machine code depends on, by their place in the package.

    Every module of the rooms that kernels are built on, and every other one that uses this one.
    """
    package = os.path.dirname(__file__)
    found = {}
    for folder, folders, names in os.walk(package):
        folders[:] = [one for one in folders if one != "__pycache__"]
        for name in names:
            if name.endswith(".py") and not name.startswith("."):
                path = f"{folder}{os.sep}{name}"
                place = path[len(package) + 1 :].replace(os.sep, "/")
                with open(path, "rb") as file:
                    content = file.read()
                if place.partition("/")[0] in _ROOMS or b"dygcn._jit" in content:
                    found[place] = content
    return found


@functools.cache
def sources_digest() -> str:
    """Return a digest of these files, of their places and contents.

    Raises
    ------
    RuntimeError
        If there are none, as in a zip archive.
    """
    found, digest = kernel_sources(), hashlib.sha256()
    if not found:
        raise RuntimeError("the source files of the kernels cannot be read")
    for place, content in sorted(found.items()):
        digest.update(f"{place} {len(content)}\n".encode() + content)
    return digest.hexdigest()


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


def _prefetch(typing: Any, array: Any, at: Any) -> Any:
    """Ask for an element of a one-dimensional array before it is needed."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0])
        address, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        call = ir.FunctionType(ir.VoidType(), [address, flag, flag, flag])
        request = builder.module.declare_intrinsic("llvm.prefetch", [address], call)
        place = builder.bitcast(builder.gep(data.data, [arguments[1]]), address)
        builder.call(request, [place, flag(1), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


prefetch_row = cast("Callable[[object, object], None]", intrinsic(_prefetch_row))
prefetch = cast("Callable[[object, object], None]", intrinsic(_prefetch))


def _folded(typing: Any, left: Any, right: Any) -> Any:
    """Multiply two words to 128 bits, and return the upper half xor the lower half."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, wide = ir.IntType(64), ir.IntType(128)
        product = builder.mul(*(builder.zext(one, wide) for one in arguments))
        upper = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), word)
        return builder.xor(builder.trunc(product, word), upper)

    return types.uint64(types.uint64, types.uint64), generate


folded = cast("Callable[[object, object], np.uint64]", intrinsic(_folded))


class Book:
    """Where arrays lie: many arguments of a kernel as one, handed over in a tenth of the time.

    A kernel opens a page as an array (`page`, `page_of_rows`). The book keeps its arrays alive; who puts
    another array in the place of one must make a new book.
    """

    __slots__ = ("arrays", "pages")

    def __init__(self, *arrays: NDArray[Any]) -> None:
        if not all(array.flags.c_contiguous for array in arrays):
            raise ValueError("only contiguous arrays have a place in a book")
        self.arrays = arrays
        shapes = [(*array.shape, 0)[:2] for array in arrays]
        self.pages: Int64 = np.array(
            [(array.ctypes.data, *shape) for array, shape in zip(arrays, shapes, strict=True)], np.int64
        )

    def __reduce__(self) -> tuple[type[Book], tuple[NDArray[Any], ...]]:
        # A copy has other arrays, so it needs other addresses.
        return Book, self.arrays


class Shelf:
    """Books of one size side by side, (books, pages, 3)."""

    __slots__ = ("books", "pages")

    def __init__(self, *books: Book) -> None:
        self.books = books
        self.pages: Int64 = np.stack([book.pages for book in books])

    def __reduce__(self) -> tuple[type[Shelf], tuple[Book, ...]]:
        return Shelf, self.books


def _pointer(typing: Any, address: Any) -> Any:
    """Turn a number into a pointer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


_as_pointer: Any = intrinsic(_pointer)


@inlined
def page(pages: Int64, number: int, kind: Any) -> Any:
    """Open a page of a book as a one-dimensional array."""
    return carray(_as_pointer(pages[number, 0]), (pages[number, 1],), kind)


@inlined
def page_of_rows(pages: Int64, number: int, kind: Any) -> Any:
    """Open a page of a book as an array of rows."""
    return carray(_as_pointer(pages[number, 0]), (pages[number, 1], pages[number, 2]), kind)
