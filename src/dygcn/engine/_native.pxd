# C declarations of what `_native.py` writes in Python.
from libc.stdint cimport int8_t, int32_t, int64_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #ifdef _MSC_VER
    #include <intrin.h>
    #define dygcn_prefetch_line(address) _mm_prefetch((const char *)(address), _MM_HINT_T0)
    #define dygcn_load(address) (*(volatile int64_t *)(address))
    #define dygcn_store(address, value) (*(volatile int64_t *)(address) = (value))
    #if defined(_M_ARM64)
    #define dygcn_fence() __dmb(_ARM64_BARRIER_ISH)
    #else
    #define dygcn_fence() _ReadWriteBarrier()
    #endif
    static inline uint64_t dygcn_folded(uint64_t a, uint64_t b) {
        uint64_t upper, lower = _umul128(a, b, &upper);
        return lower ^ upper;
    }
    #else
    #define dygcn_prefetch_line(address) __builtin_prefetch((address), 1, 3)
    #define dygcn_load(address) __atomic_load_n((int64_t *)(address), __ATOMIC_RELAXED)
    #define dygcn_store(address, value) __atomic_store_n((int64_t *)(address), (value), __ATOMIC_RELAXED)
    #define dygcn_fence() __atomic_thread_fence(__ATOMIC_ACQ_REL)
    static inline uint64_t dygcn_folded(uint64_t a, uint64_t b) {
        unsigned __int128 product = (unsigned __int128)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    #endif
    #define dygcn_word(number) ((uint64_t)(number))
    #define dygcn_at(view, at) ((view).data + (view).strides[0] * (at))
    #define dygcn_load_64(view, at) dygcn_load(dygcn_at(view, at))
    #define dygcn_store_64(view, at, value) dygcn_store(dygcn_at(view, at), value)
    #define dygcn_prefetch(view, at) dygcn_prefetch_line((view).data + (view).strides[0] * (at))
    """
    uint64_t word "dygcn_word"(int64_t number) noexcept nogil
    uint64_t folded "dygcn_folded"(uint64_t left, uint64_t right) noexcept nogil
    void prefetch_8 "dygcn_prefetch"(const int8_t[::1] array, Py_ssize_t at) noexcept nogil
    void prefetch_32 "dygcn_prefetch"(const int32_t[::1] array, Py_ssize_t at) noexcept nogil
    void prefetch_64 "dygcn_prefetch"(const int64_t[::1] array, Py_ssize_t at) noexcept nogil
    void prefetch_words "dygcn_prefetch"(const uint64_t[::1] array, Py_ssize_t at) noexcept nogil
    int64_t load_64 "dygcn_load_64"(const int64_t[::1] array, Py_ssize_t at) noexcept nogil
    void store_64 "dygcn_store_64"(int64_t[::1] array, Py_ssize_t at, int64_t value) noexcept nogil
    void fence "dygcn_fence"() noexcept nogil
