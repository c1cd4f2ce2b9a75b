cimport cython
from libc.stdint cimport int64_t

@cython.final
cdef class DueQueue:
    cdef readonly tuple arrays
    cdef double[::1] times
    cdef int64_t[::1] keys
    cdef int64_t[::1] size

@cython.locals(earlier=bint)
cdef bint _is_before(DueQueue queue, int64_t at, double t, int64_t key) noexcept nogil
@cython.locals(at=int64_t, parent=int64_t)
cdef void put_due(DueQueue queue, double t, int64_t key) noexcept nogil
@cython.locals(at=int64_t, child=int64_t, key=int64_t, first=int64_t, last=int64_t, t=double)
cdef int64_t take_first(DueQueue queue) noexcept nogil
cpdef int64_t count_due(DueQueue queue, double now, int64_t at=*) noexcept nogil
