cimport cython
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t
from dygcn.engine._holder cimport Holder
from dygcn.engine.graph.arcs cimport ArcArrays, slot_of
from dygcn.engine.graph.delta cimport BatchArrays, EventArrays, GraphArrays, find_stored, seat_of
from dygcn.engine.graph.pairs cimport DueQueue, pair_key, put_due, take_first

cdef int64_t FOUND
cdef int64_t LAPSE
cdef int64_t LOWER
cdef int64_t NO_EFFECT
cdef double NEVER

@cython.final
cdef class Lapses(Holder):
    cdef DueQueue queue
    cdef double span
    cdef int64_t[::1] at
    cdef int64_t[::1] keys
    cdef double[::1] times
    cdef int64_t[::1] unqueued
    cdef int64_t[::1] counts

cpdef object note(Lapses lapses, BatchArrays batch)
@cython.locals(key=int64_t, slot=int64_t, at=int64_t)
cpdef object queue_again(Lapses lapses, ArcArrays pull)
@cython.locals(found=int64_t, count=int64_t, new=int64_t, p=int64_t, last_of_all=int64_t, now=double)
cpdef int64_t find(
    Lapses lapses, GraphArrays graph, EventArrays events, const double[::1] seen, const int64_t[::1] cell,
    const int64_t[::1] first, int64_t[::1] value, double before, double clock,
)
cdef void _begin(BatchArrays batch, int64_t found) noexcept nogil
@cython.locals(new=int64_t)
cdef int64_t _total_after(int64_t op, int64_t weight, int64_t c, int64_t[::1] value, int64_t total) noexcept nogil
@cython.locals(was=int64_t)
cdef void _happen(Lapses lapses, BatchArrays batch, int64_t p, int64_t new, double t, double clock) noexcept nogil
@cython.locals(
    before=int64_t, then=double, due=double, key=int64_t, p=int64_t, there=bint, end=double,
    slot=int64_t, at=int64_t,
)
cdef int64_t _let_go(
    Lapses lapses, GraphArrays graph, const int64_t[::1] first, int64_t[::1] value, int64_t i, double now, int64_t count
) noexcept nogil
cdef void _note_unqueued(Lapses lapses, int64_t key) noexcept nogil
