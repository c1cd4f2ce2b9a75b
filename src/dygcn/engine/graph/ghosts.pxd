cimport cython
from libc.math cimport floor, nextafter
from libc.stdint cimport int32_t, int64_t
from dygcn.engine._holder cimport Holder
from dygcn.engine.graph.pairs cimport (
    DueQueue, PairTable, count_due, pair_drop, pair_find, pair_key, pair_put, pair_slot, put_due, take_first
)

cdef int64_t DEEPEST
cdef double FOR_EVER

@cython.final
cdef class GhostArrays(Holder):
    cdef PairTable table
    cdef int64_t[::1] weights
    cdef double[::1] times
    cdef int32_t[::1] free
    cdef int64_t[::1] counts
    cdef DueQueue queue

@cython.locals(steps=int64_t)
cdef int64_t ghost_weight(int64_t weight, double t, double clock, double half_life) noexcept nogil
@cython.locals(out=int64_t[::1])
cpdef object weights_left(const int64_t[::1] weight, const double[::1] t, double clock, double half_life)
cdef void recall(
    GhostArrays ghosts, int64_t n, const int32_t[::1] a, const int32_t[::1] b, int64_t[::1] weight, double[::1] t
) noexcept nogil
@cython.locals(weight=int64_t[::1], t=double[::1])
cpdef tuple recalled(GhostArrays ghosts, const int32_t[::1] a, const int32_t[::1] b)

@cython.locals(due=double, after=double)
cdef double _due(double t, double clock, double half_life) noexcept nogil
@cython.locals(out=int64_t[::1], found=int64_t, key=int64_t)
cpdef object take_due(GhostArrays ghosts, double clock)
@cython.locals(t=double)
cpdef object queue_all(GhostArrays ghosts, double clock, double half_life)

@cython.locals(key=int64_t, slot=int64_t)
cpdef object remember(
    GhostArrays ghosts, const int32_t[::1] a, const int32_t[::1] b, const int64_t[::1] weight,
    const double[::1] t, double clock, double half_life,
)
cdef void _forget(GhostArrays ghosts, int64_t key) noexcept nogil
@cython.locals(slot=int64_t)
cdef int64_t _slot_for(GhostArrays ghosts, int64_t key) noexcept nogil
