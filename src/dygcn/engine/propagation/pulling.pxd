cimport cython
from libc.stdint cimport int32_t, int64_t
from dygcn.engine._native cimport prefetch_32, prefetch_64
from dygcn.engine._rows cimport RowBlock, add_all, add_row, clear_row, prefetch_row
from dygcn.engine.graph.arcs cimport ArcArrays
from dygcn.engine.propagation.sum_rows cimport SumRows, inverse_of, narrow_row, write_messages
from dygcn.engine.propagation.work cimport Handoff

cdef int64_t AHEAD
cdef int64_t AT_ONCE
cdef int64_t NARROW

@cython.final
cdef class HeavyRows:
    cdef readonly object arrays
    cdef int32_t[::1] slot
    cdef RowBlock rows
    cdef int64_t[::1] has
    cdef int32_t[::1] free
    cdef int64_t[::1] counts
    cdef int32_t[::1] moved

@cython.final
cdef class Pulls:
    cdef readonly tuple parts
    cdef ArcArrays arcs
    cdef HeavyRows heavy
    cdef int64_t shift

@cython.final
cdef class Scratch:
    cdef RowBlock narrow
    cdef RowBlock wide
    cdef int32_t[::1] row
    cdef int64_t[::1] factor

@cython.locals(at=int64_t)
cdef void follow(HeavyRows heavy, Handoff wave, Py_ssize_t n, ArcArrays push) noexcept nogil
cpdef object follow_wave(HeavyRows heavy, Handoff wave, Py_ssize_t n, ArcArrays push)
@cython.locals(start=int64_t, degree=int64_t, at=int64_t, weight=int64_t)
cdef int64_t _pulled_degree(ArcArrays arcs, HeavyRows heavy, int64_t node) noexcept nogil
@cython.locals(start=int64_t, weight=int64_t)
cdef void _add_pulled(ArcArrays arcs, HeavyRows heavy, int64_t node, int64_t shift, RowBlock out, Py_ssize_t to) noexcept nogil
@cython.locals(first=int64_t, i=int64_t, degree=int64_t)
cdef void write_whole(SumRows sums, Pulls pulls, const int32_t[::1] nodes, Py_ssize_t n, Scratch scratch, RowBlock out, int64_t[::1] has) noexcept nogil
@cython.locals(slot=int64_t, start=int64_t, stop=int64_t, n=int64_t, weight=int64_t)
cdef void _write_one(SumRows sums, Pulls pulls, int64_t node, int64_t degree, Scratch scratch, RowBlock total, RowBlock out, Py_ssize_t to) noexcept nogil
@cython.locals(out=RowBlock, has=int64_t[::1], scratch=Scratch)
cpdef object put_whole(SumRows sums, Pulls pulls, const int32_t[::1] nodes, Py_ssize_t width)
@cython.locals(out=RowBlock)
cpdef object add_pulled(Pulls pulls, const int32_t[::1] nodes, object rows, int64_t[::1] degree)
