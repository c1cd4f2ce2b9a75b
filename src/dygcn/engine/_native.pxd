# C declarations of what `_native.py` writes in Python.
from libc.stdint cimport int8_t, int32_t, int64_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #ifdef _MSC_VER
    #include <intrin.h>
    #define dygcn_prefetch_line(address) _mm_prefetch((const char *)(address), _MM_HINT_T0)
    static inline uint64_t dygcn_folded(uint64_t a, uint64_t b) {
        uint64_t upper, lower = _umul128(a, b, &upper);
        return lower ^ upper;
    }
    #else
    #define dygcn_prefetch_line(address) __builtin_prefetch((address), 1, 3)
    static inline uint64_t dygcn_folded(uint64_t a, uint64_t b) {
        unsigned __int128 product = (unsigned __int128)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    #endif
    #define dygcn_word(number) ((uint64_t)(number))
    #define dygcn_prefetch(view, at) dygcn_prefetch_line((view).data + (view).strides[0] * (at))
    """
    uint64_t word "dygcn_word"(int64_t number) noexcept nogil
    uint64_t folded "dygcn_folded"(uint64_t left, uint64_t right) noexcept nogil
    void prefetch_8 "dygcn_prefetch"(const int8_t[::1] array, Py_ssize_t at) noexcept nogil
    void prefetch_32 "dygcn_prefetch"(const int32_t[::1] array, Py_ssize_t at) noexcept nogil
    void prefetch_64 "dygcn_prefetch"(const int64_t[::1] array, Py_ssize_t at) noexcept nogil
    void prefetch_words "dygcn_prefetch"(const uint64_t[::1] array, Py_ssize_t at) noexcept nogil
