cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t
from dygcn.engine._native cimport folded, word

cdef uint64_t _INIT_0
cdef uint64_t _INIT_1
cdef uint64_t _INIT_2
cdef uint64_t _INIT_3
cdef uint64_t _EIGHT_BYTES
cdef uint64_t _END

cdef uint64_t _turned(uint64_t x, int left) noexcept nogil
cdef (uint64_t, uint64_t, uint64_t, uint64_t) _round(uint64_t v0, uint64_t v1, uint64_t v2, uint64_t v3) noexcept nogil
cdef uint64_t _finished(uint64_t v0, uint64_t v1, uint64_t v2, uint64_t v3, uint64_t last) noexcept nogil
cpdef uint64_t hash_of_word(int64_t value, uint64_t first, uint64_t second) noexcept nogil
@cython.locals(text=uint64_t)
cpdef uint64_t hash_of_bytes(const uint8_t[::1] data, int64_t start, int64_t size, uint64_t first, uint64_t second) noexcept nogil
cpdef uint64_t hash_of_pair(int64_t key, uint64_t first, uint64_t second) noexcept nogil
