cimport cython
from libc.stdint cimport int64_t, uint8_t

cdef int64_t _QUOTE
cdef int64_t _ESCAPE
cdef int64_t _PLUS
cdef int64_t _MINUS
cdef int64_t _ZERO
cdef int64_t _NINE
cdef int64_t _LOWER
cdef int64_t _UPPER

cpdef int64_t count_long_exponents(const uint8_t[::1] data) noexcept
@cython.locals(found=int64_t, at=int64_t, size=int64_t, inside=bint, sign=int64_t, digits=int64_t)
cdef int64_t _count(const uint8_t[::1] data) noexcept nogil
