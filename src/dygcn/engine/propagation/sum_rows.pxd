cimport cython
from libc.stdint cimport int32_t, int64_t
from dygcn.engine._holder cimport Holder
from dygcn.engine._rows cimport RowBlock, add_row, clear_row, prefetch_row, write_message
from dygcn.engine.graph.ticks cimport Ticks, stamp

cdef int64_t AHEAD
cdef int32_t NARROW

@cython.final
cdef class SumRows(Holder):
    cdef int64_t[::1] degree
    cdef int32_t[::1] slot
    cdef RowBlock narrow
    cdef RowBlock wide
    cdef int32_t[::1] free
    cdef int64_t[::1] counts
    cdef double scale
    cdef int64_t limit
    cdef Ticks ticks
    cdef bint pooled
    cdef int32_t[::1] holes
    cdef bint partial

cdef double inverse_of(int64_t degree) noexcept nogil
cdef int64_t narrow_row(int64_t slot, int64_t node) noexcept nogil
@cython.locals(v=int64_t, at=int64_t, degree=int64_t)
cdef void write_messages(SumRows sums, const int32_t[::1] nodes, Py_ssize_t n, RowBlock out, int64_t[::1] has, Py_ssize_t first=*) noexcept nogil
@cython.locals(has=int64_t[::1], out=RowBlock)
cpdef object messages_of(SumRows sums, const int32_t[::1] nodes, Py_ssize_t width)
cpdef object put_messages(SumRows sums, const int32_t[::1] nodes, RowBlock out, int64_t[::1] has)
@cython.locals(wide=int64_t, narrow=int64_t, at=int64_t)
cpdef object count_moves(SumRows sums, const int32_t[::1] nodes, const int64_t[::1] degree)
@cython.locals(at=int64_t)
cpdef object place_rows(SumRows sums, const int32_t[::1] nodes, const int64_t[::1] degree)
@cython.locals(at=int64_t)
cpdef object drop_rows(SumRows sums, const int32_t[::1] nodes)
@cython.locals(at=int64_t)
cdef void _take_narrow(SumRows sums, Py_ssize_t node) noexcept nogil
cdef void _give_back(int32_t[::1] free, int64_t[::1] counts, Py_ssize_t kind, int64_t at) noexcept nogil
@cython.locals(was=int64_t, at=int64_t, row=int64_t)
cdef void _widen(SumRows sums, Py_ssize_t node) noexcept nogil
@cython.locals(at=int64_t, row=int64_t)
cdef void _narrow(SumRows sums, Py_ssize_t node) noexcept nogil
