cimport cython
from libc.stdint cimport int32_t, int64_t
from dygcn.engine._native cimport prefetch_32
from dygcn.engine._rows cimport RowBlock, add_row, copy_row, length_of
from dygcn.engine.propagation.work cimport Handoff

cdef int64_t FAR
cdef int32_t NOTHING

@cython.final
cdef class HeldRows:
    cdef readonly object arrays
    cdef int32_t[::1] slot
    cdef RowBlock rows
    cdef double[::1] lengths
    cdef int32_t[::1] free
    cdef int64_t[::1] counts

@cython.locals(at=int64_t)
cpdef object take_back(HeldRows held, const int32_t[::1] nodes, Handoff wave)
@cython.locals(n=int64_t, v=int64_t, row=int64_t, at=int64_t, length=double)
cpdef object withhold(HeldRows held, Handoff wave, Py_ssize_t senders, double allowed)
@cython.locals(at=int64_t)
cdef void _keep(HeldRows held, Py_ssize_t node, Handoff wave, Py_ssize_t row, double length) noexcept nogil
cdef void _forget(HeldRows held, Py_ssize_t node) noexcept nogil
