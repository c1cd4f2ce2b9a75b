cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t
from dygcn.engine._native cimport word

cdef uint64_t _FNV_BASIS
cdef uint64_t _FNV_PRIME
cdef uint64_t _MULTIPLY_1
cdef uint64_t _MULTIPLY_2

cdef uint64_t mix(uint64_t x) noexcept nogil
cdef uint64_t key_of_int(int64_t value) noexcept nogil
cdef uint64_t key_of_string(const uint8_t[::1] data, int64_t start, int64_t stop) noexcept nogil
@cython.locals(out=uint64_t[::1])
cpdef object keys_of_ints(const int64_t[::1] values)
@cython.locals(out=uint64_t[::1])
cpdef object keys_of_strings(const int64_t[::1] offsets, const uint8_t[::1] data)
@cython.locals(out=uint64_t[::1])
cpdef object salted(const uint64_t[::1] keys, int64_t salt)
