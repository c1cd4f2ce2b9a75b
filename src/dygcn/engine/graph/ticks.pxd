cimport cython
from libc.stdint cimport int32_t, int64_t
from dygcn.engine._holder cimport Holder
from dygcn.engine._native cimport fence, load_64, prefetch_64, store_64

@cython.final
cdef class Ticks(Holder):
    cdef int64_t[::1] stamps
    cdef int64_t[::1] now

cdef void stamp(Ticks ticks, int64_t node) noexcept nogil
cdef void prefetch_stamp(Ticks ticks, int64_t node) noexcept nogil
cpdef object stamp_all(Ticks ticks, const int32_t[::1] nodes)
@cython.locals(found=int64_t)
cpdef object latest(Ticks ticks, const int32_t[::1] nodes)
cpdef object stamps_of(Ticks ticks, const int32_t[::1] nodes, int64_t[::1] most)
@cython.locals(found=int64_t)
cpdef int64_t published(const int64_t[::1] words, Py_ssize_t at)
cpdef object publish(int64_t[::1] words, Py_ssize_t at, int64_t value)
