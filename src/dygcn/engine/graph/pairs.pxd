cimport cython
from libc.math cimport floor, nextafter
from libc.stdint cimport int32_t, int64_t, uint64_t
from dygcn.engine._holder cimport Holder
from dygcn.engine._native cimport prefetch_64, word
from dygcn.engine.graph.hashing cimport hash_of_pair

cdef int64_t EMPTY
cdef int64_t DEEPEST
cdef double FOR_EVER

@cython.final
cdef class PairTable(Holder):
    cdef int64_t[::1] keys
    cdef int32_t[::1] slots
    cdef int64_t[::1] used

cdef int64_t pair_key(int64_t a, int64_t b) noexcept nogil
cdef int64_t pair_home(int64_t key, int64_t mask, uint64_t first, uint64_t second) noexcept nogil
cdef void pair_prefetch(PairTable table, int64_t key) noexcept nogil
cdef int64_t pair_find(PairTable table, int64_t key) noexcept nogil
cdef int64_t pair_slot(PairTable table, int64_t key) noexcept nogil
cdef void pair_put(PairTable table, int64_t key, int64_t slot) noexcept nogil
cdef void pair_drop(PairTable table, int64_t key) noexcept nogil
cpdef object copy_table(PairTable table, PairTable other)

@cython.final
cdef class DueQueue(Holder):
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
