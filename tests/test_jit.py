"""How kernels are handed arrays by their addresses."""

import copy
import gc
import weakref

import numpy as np
import pytest
from numba.core.caching import NullCache

from dygcn._jit import Book, Shelf, kernel, page, page_of_rows
from tests.seeded import with_line


@kernel
def _write(pages):
    numbers, rows = page(pages, 0, np.int64), page_of_rows(pages, 1, np.int8)
    numbers[-1] = 7
    rows[len(rows) - 1, :] = -1
    return len(numbers), rows.shape[0], rows.shape[1], page(pages, 2, np.float64).size


def test_a_kernel_reads_and_writes_the_arrays_of_a_book():
    numbers, rows = np.arange(5), np.zeros((3, 4), np.int8)
    book = Book(numbers, rows, np.empty(0))
    assert _write(book.pages) == (5, 3, 4, 0)
    assert numbers.tolist() == [0, 1, 2, 3, 7]
    assert rows.tolist() == [[0] * 4, [0] * 4, [-1] * 4]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(10)[::2],
        np.arange(10)[::-1],
        np.zeros((4, 4))[:, :2],
        np.zeros((4, 4)).T[:2],
        np.zeros((3, 4), order="F"),
    ],
    ids=["every second", "backwards", "some columns", "turned", "columns first"],
)
def test_a_book_refuses_what_does_not_lie_in_one_piece(array):
    with pytest.raises(ValueError, match="only contiguous arrays"):
        Book(np.arange(3), array)


def test_a_book_keeps_its_arrays_alive():
    numbers, rows = np.arange(5), np.zeros((3, 4), np.int8)
    alive = [weakref.ref(numbers), weakref.ref(rows)]
    book = Book(numbers, rows, np.empty(0))
    del numbers, rows
    gc.collect()
    assert all(reference() is not None for reference in alive)
    _write(book.pages)
    assert book.arrays[0].tolist() == [0, 1, 2, 3, 7]
    del book
    gc.collect()
    assert all(reference() is None for reference in alive)


def test_a_copy_of_a_book_knows_where_the_copies_lie():
    numbers = np.arange(5)
    shelf = Shelf(Book(numbers), Book(np.arange(3)))
    assert shelf.pages.shape == (2, 1, 3)
    other, others = copy.deepcopy((shelf, numbers))
    assert other.books[0].arrays[0] is others
    assert other.pages[:, 0, 0].tolist() == [book.arrays[0].ctypes.data for book in other.books]
    assert other.pages[0, 0, 0] != shelf.pages[0, 0, 0] == numbers.ctypes.data


def test_a_kernel_without_a_file_is_compiled_and_not_kept():
    """The seeded bugs depend on it, and so does who can write nowhere."""
    names = {"kernel": kernel}
    exec(compile("@kernel\ndef twice(x):\n    return 2 * x\n", "<nowhere>", "exec"), names)
    assert names["twice"](21) == 42
    assert isinstance(names["twice"]._cache, NullCache)


def test_a_seeded_line_must_stand_there_once():
    source = "def f(x):\n    y = x\n    return y\n"
    assert with_line(source, "y = x", "y = x\ny += 1") == "def f(x):\n    y = x\n    y += 1\n    return y\n"
    with pytest.raises(AssertionError, match="0 times"):
        with_line(source, "y = 2", "")
    with pytest.raises(AssertionError, match="2 times"):
        with_line(source + source, "y = x", "")
