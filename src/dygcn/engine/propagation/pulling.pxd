cimport cython
from libc.stdint cimport int32_t, int64_t
from dygcn.engine._holder cimport Holder
from dygcn.engine._native cimport fence, load_64, prefetch_32, prefetch_64, store_64
from dygcn.engine._rows cimport RowBlock, add_all, add_row, clear_row, copy_row, prefetch_row
from dygcn.engine.graph.arcs cimport ArcArrays
from dygcn.engine.graph.ticks cimport Ticks
from dygcn.engine.propagation.sum_rows cimport SumRows, inverse_of, narrow_row, write_messages
from dygcn.engine.propagation.gathering cimport MessageBuffer

cdef int64_t AHEAD
cdef int64_t AT_ONCE
cdef int64_t BUSY
cdef int64_t CHANGED
cdef int64_t NARROW

@cython.final
cdef class Earlier(Holder):
    cdef RowBlock rows
    cdef int64_t[::1] has
    cdef int64_t[::1] since
    cdef Ticks ticks

@cython.final
cdef class HeavyRows(Holder):
    cdef int32_t[::1] slot
    cdef RowBlock rows
    cdef int64_t[::1] has
    cdef int32_t[::1] free
    cdef int64_t[::1] counts
    cdef int32_t[::1] moved
    cdef Earlier earlier

@cython.final
cdef class PulledArcs(Holder):
    cdef int64_t[::1] start
    cdef int32_t[::1] upper
    cdef int32_t[::1] others
    cdef int64_t[::1] weights

@cython.final
cdef class Pulls(Holder):
    cdef PulledArcs arcs
    cdef HeavyRows heavy
    cdef int64_t shift

@cython.final
cdef class Scratch:
    cdef RowBlock narrow
    cdef RowBlock wide
    cdef int32_t[::1] row
    cdef int64_t[::1] factor

@cython.locals(last=int64_t)
cdef void keep(HeavyRows heavy, int64_t at) noexcept nogil
cpdef object keep_all(HeavyRows heavy, const int32_t[::1] rows)
@cython.locals(at=int64_t)
cdef void follow(HeavyRows heavy, MessageBuffer frontier, ArcArrays push) noexcept nogil
cpdef object follow_frontier(HeavyRows heavy, MessageBuffer frontier, ArcArrays push)
@cython.locals(start=int64_t, degree=int64_t, at=int64_t, weight=int64_t)
cdef int64_t _pulled_degree(PulledArcs arcs, HeavyRows heavy, int64_t node) noexcept nogil
@cython.locals(start=int64_t, weight=int64_t)
cdef void _add_pulled(PulledArcs arcs, HeavyRows heavy, int64_t node, int64_t shift, RowBlock out, Py_ssize_t to) noexcept nogil
@cython.locals(first=int64_t, i=int64_t, degree=int64_t)
cdef void write_whole(SumRows sums, Pulls pulls, const int32_t[::1] nodes, Py_ssize_t n, Scratch scratch, RowBlock out, int64_t[::1] has) noexcept nogil
@cython.locals(slot=int64_t, scale=double, start=int64_t, stop=int64_t, n=int64_t, into=int64_t, weight=int64_t)
cdef void _write_one(SumRows sums, Pulls pulls, int64_t node, int64_t degree, Scratch scratch, RowBlock total, RowBlock out, Py_ssize_t to) noexcept nogil
@cython.locals(out=RowBlock, has=int64_t[::1], scratch=Scratch)
cpdef object put_whole(SumRows sums, Pulls pulls, const int32_t[::1] nodes, Py_ssize_t width)
@cython.locals(out=RowBlock)
cpdef object add_pulled(Pulls pulls, const int32_t[::1] nodes, object rows, int64_t[::1] degree)

@cython.final
cdef class PulledCopies:
    cdef tuple _nodes
    cdef PulledArcs arcs
    cdef HeavyRows heavy
    cdef int64_t[::1] since
    cpdef object reserve(self, int64_t arcs)

@cython.locals(stamp=int64_t, since=int64_t)
cdef int64_t _copy_message(HeavyRows heavy, int64_t at, int64_t tick, PulledCopies copies) noexcept nogil
@cython.locals(latest=int64_t, start=int64_t, upper=int64_t, end=int64_t, other=int64_t, at=int64_t, since=int64_t)
cdef int64_t _copy_arcs(
    PulledArcs arcs, HeavyRows heavy, int64_t node, int64_t tick, PulledCopies copies, int64_t used
) noexcept nogil
@cython.locals(found=bint, wanted=int64_t, used=int64_t)
cpdef object copy_pulled(
    PulledArcs arcs, HeavyRows heavy, const int32_t[::1] nodes, int64_t tick, PulledCopies copies, int64_t[::1] latest
)
