cimport cython
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t
from dygcn.engine._holder cimport Holder
from dygcn.engine.graph.pairs cimport PairTable, pair_drop, pair_key, pair_put, pair_slot

cdef int64_t LAPSE

@cython.final
cdef class PartArrays(Holder):
    cdef PairTable table
    cdef int16_t[::1] relations
    cdef int64_t[::1] weights
    cdef int32_t[::1] behind
    cdef int64_t[::1] counts

@cython.locals(slot=int64_t)
cdef int64_t _slot_of(PartArrays parts, int64_t key, int64_t relation) noexcept nogil
@cython.locals(out=int64_t[::1], slot=int64_t)
cpdef object recall(PartArrays parts, const int32_t[::1] a, const int32_t[::1] b, const int16_t[::1] relation)
@cython.locals(out=int64_t[::1], slot=int64_t)
cpdef object count(PartArrays parts, const int32_t[::1] a, const int32_t[::1] b)
@cython.locals(relation=int16_t[::1], weight=int64_t[::1], at=int64_t, slot=int64_t)
cpdef tuple listed(PartArrays parts, const int32_t[::1] a, const int32_t[::1] b, int64_t total)
@cython.locals(key=int64_t, slot=int64_t)
cpdef object put(
    PartArrays parts, const int32_t[::1] a, const int32_t[::1] b, const int16_t[::1] relation,
    const int64_t[::1] weight,
)
@cython.locals(key=int64_t, slot=int64_t)
cpdef object drop(PartArrays parts, const int32_t[::1] a, const int32_t[::1] b)
@cython.locals(slot=int64_t)
cdef int64_t _free_slot(PartArrays parts) noexcept nogil
@cython.locals(before=int64_t)
cdef void _take_out(PartArrays parts, int64_t key, int64_t slot) noexcept nogil
@cython.locals(p=int64_t, c=int64_t, new=int64_t)
cpdef object play(
    const int32_t[::1] pair, const int64_t[::1] cell, int32_t[::1] src, int8_t[::1] op, int64_t[::1] weight,
    int64_t[::1] total, int64_t[::1] value, int64_t every,
)
