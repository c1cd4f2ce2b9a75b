cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t
from dygcn.engine._native cimport folded, prefetch_32, prefetch_words, word
from dygcn.engine._rows cimport RowBlock, clear_row, copy_row, prefetch_row, write_signs
from dygcn.engine.events.keys cimport mix

cdef uint64_t _GAMMA
cdef int64_t _SOON
cdef int64_t _FAR

@cython.final
cdef class UnitTable:
    cdef readonly tuple arrays
    cdef readonly bint hashed
    cdef readonly uint64_t seed
    cdef const uint64_t[::1] hashes
    cdef int32_t[::1] slots
    cdef RowBlock rows
    cdef const uint64_t[::1] secret

cpdef object place_rows(UnitTable table)
cdef int64_t _home(UnitTable table, uint64_t wanted) noexcept nogil
@cython.locals(at=int64_t)
cdef int64_t _place(UnitTable table, uint64_t wanted) noexcept nogil
@cython.locals(n=Py_ssize_t, block=RowBlock, has=int64_t[::1])
cpdef tuple units_of(UnitTable table, const uint64_t[::1] wanted)
@cython.locals(row=int64_t)
cdef void find_units(UnitTable table, const uint64_t[::1] wanted, Py_ssize_t n, RowBlock out, int64_t[::1] has) noexcept nogil
@cython.locals(state=uint64_t)
cdef void _draw(UnitTable table, uint64_t key, RowBlock out, Py_ssize_t to) noexcept nogil
@cython.locals(row=int64_t)
cdef void _ask(UnitTable table, uint64_t wanted) noexcept nogil
