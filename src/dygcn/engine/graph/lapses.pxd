cimport cython
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t
from dygcn.engine.graph.arcs cimport ArcArrays, look_up, slot_of
from dygcn.engine.graph.batch cimport BatchArrays
from dygcn.engine.graph.delta cimport number_pairs, seat_of
from dygcn.engine.graph.due cimport DueQueue, put_due, take_first
from dygcn.engine.graph.pairs cimport pair_key

cdef int64_t FOUND
cdef int64_t LAPSE
cdef int64_t LOWER
cdef int64_t NO_EFFECT
cdef double NEVER

@cython.final
cdef class Lapses:
    cdef readonly tuple arrays
    cdef DueQueue queue
    cdef int64_t[::1] at
    cdef int64_t[::1] keys
    cdef double[::1] times
    cdef int64_t[::1] held
    cdef int64_t[::1] counts

cpdef object note(DueQueue queue, BatchArrays batch, double span)
@cython.locals(key=int64_t, slot=int64_t, at=int64_t)
cpdef object release_held(Lapses lapses, ArcArrays pull, double span)
@cython.locals(found=int64_t, count=int64_t, new=int64_t, p=int64_t, last_of_all=int64_t, now=double)
cpdef int64_t find(
    Lapses lapses, BatchArrays batch, ArcArrays pull, bint directed, const int32_t[::1] src,
    const int32_t[::1] dst, const int8_t[::1] op, const int64_t[::1] weight, const double[::1] t,
    const double[::1] seen, const int64_t[::1] cell, const int64_t[::1] first,
    int64_t[::1] value, double before, double clock, double span,
)
@cython.locals(new=int64_t)
cdef int64_t _total_after(int64_t op, int64_t weight, int64_t c, int64_t[::1] value, int64_t total) noexcept nogil
@cython.locals(was=int64_t)
cdef void _happen(
    DueQueue queue, BatchArrays batch, int64_t p, int64_t new, double t, double clock, double span
) noexcept nogil
@cython.locals(
    before=int64_t, then=double, due=double, key=int64_t, p=int64_t, there=bint, end=double,
    slot=int64_t, at=int64_t,
)
cdef int64_t _let_go(
    Lapses lapses, BatchArrays batch, ArcArrays pull, const int64_t[::1] first, int64_t[::1] value,
    int64_t i, double now, double span, int64_t count,
) noexcept nogil
cdef void _hold(Lapses lapses, int64_t key) noexcept nogil
@cython.locals(
    new_src=int32_t[::1], new_dst=int32_t[::1], new_op=int8_t[::1], new_weight=int64_t[::1], new_t=double[::1],
    new_codes=int16_t[::1], size=int64_t, lapsed=int64_t, one=int64_t, coded=bint,
)
cpdef tuple merged(
    Lapses lapses, int64_t count, const int32_t[::1] src, const int32_t[::1] dst, const int8_t[::1] op,
    const int64_t[::1] weight, const double[::1] t, const int16_t[::1] codes,
)
