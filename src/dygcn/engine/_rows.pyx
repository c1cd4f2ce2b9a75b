"""Blocks of rows, and the loops over one row in C; `_rows.py` says what each of them does."""

import os

import numpy as np

cdef dict KINDS = {np.dtype(kind).str: i for i, kind in enumerate(("int8", "int16", "int32", "int64"))}
LOOPS = dygcn_rows_best()

_wanted = os.environ.get("DYGCN_CPU", "")
if _wanted:
    LOOPS = dygcn_rows_of(_wanted.encode())
    if LOOPS == NULL:
        raise ImportError(
            f"DYGCN_CPU is {_wanted!r}, which this machine or this build does not have; "
            "allowed are baseline, avx2 and avx512, or nothing: then the best is taken"
        )


def cpu_level():
    return LOOPS.name.decode()


cdef class RowBlock:
    def __init__(self, array):
        if array.ndim != 2 or not array.flags.c_contiguous or array.dtype.str not in KINDS:
            raise ValueError("a block of rows is a contiguous array of two dimensions and of integers")
        self.array = array
        self.owner = array.reshape(-1).view(np.uint8)
        self.rows, self.width = array.shape
        self.size = self.width * array.dtype.itemsize
        self.kind = KINDS[array.dtype.str]  # not the name, which is made anew in Python each time
        self.loops = LOOPS
        self.data = <char *>&self.owner[0] if self.owner.shape[0] else NULL

    def __reduce__(self):
        return RowBlock, (self.array,)
