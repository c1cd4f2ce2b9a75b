cimport cython
from libc.stdint cimport int8_t, int32_t, int64_t
from dygcn.engine._native cimport prefetch_8
from dygcn.engine.graph.arcs cimport (
    ArcArrays, add_needs, count_new, fits, forget_needs, give_back_empty, look_up, reserve, set_contacts, slot_of, write
)
from dygcn.engine.graph.batch cimport BatchArrays, NodeArrays
from dygcn.engine.graph.delta cimport census, magnitude, number_pairs, overweight, play
from dygcn.engine.graph.ghosts cimport GhostArrays, recall
from dygcn.engine.graph.ticks cimport stamp
from dygcn.engine.graph.touching cimport touch_nodes

cdef double NEVER
cdef int64_t DONE
cdef int64_t EDGES
cdef int64_t FAR
cdef int64_t FOUND
cdef int64_t LOOP
cdef int64_t MOVED
cdef int64_t OVERWEIGHT
cdef int64_t SMALL_POOL
cdef int64_t TOUCHED
cdef int64_t UNCHANGED

cdef int64_t apply_events(
    BatchArrays batch, ArcArrays pull, ArcArrays push, NodeArrays nodes,
    bint directed, bint stay, int64_t limit, double half_life,
    const int32_t[::1] src, const int32_t[::1] dst, const int8_t[::1] op, const int64_t[::1] weight,
    const double[::1] t,
) noexcept nogil
cdef void _play_plain(
    BatchArrays batch, ArcArrays pull, bint directed, double half_life,
    const int32_t[::1] src, const int32_t[::1] dst, const int8_t[::1] op, const int64_t[::1] weight,
    const double[::1] t,
) noexcept nogil
cpdef object play_events(
    BatchArrays batch, ArcArrays pull, bint directed, double half_life,
    const int32_t[::1] src, const int32_t[::1] dst, const int8_t[::1] op, const int64_t[::1] weight,
    const double[::1] t,
)
cpdef int64_t write_events(
    BatchArrays batch, ArcArrays pull, ArcArrays push, NodeArrays nodes,
    bint directed, bint stay, int64_t limit, double half_life,
    const int32_t[::1] src, const int32_t[::1] dst, const int8_t[::1] op, const int64_t[::1] weight,
    const double[::1] t,
)
@cython.locals(heavy=bint)
cpdef int64_t play_remembered(
    BatchArrays batch, ArcArrays pull, NodeArrays nodes, GhostArrays ghosts,
    const int32_t[::1] src, const int32_t[::1] dst, const int8_t[::1] op, const int64_t[::1] weight,
    const double[::1] t, bint directed, int64_t limit,
    double before, double clock, double half_life, double count_half_life,
)
cdef bint _is_overweight(BatchArrays batch, NodeArrays nodes, bint directed, int64_t limit) noexcept nogil

cpdef int64_t write_pairs(
    BatchArrays batch, ArcArrays pull, ArcArrays push, NodeArrays nodes, const int32_t[::1] named,
    bint directed, bint stay, bint contacts,
)
cdef int64_t commit(
    BatchArrays batch, ArcArrays pull, ArcArrays push, NodeArrays nodes,
    const int32_t[::1] named, const int32_t[::1] other, const double[::1] t,
    bint directed, bint stay, bint contacts, double half_life,
) noexcept nogil
@cython.locals(slot=int64_t)
cdef void _note_times(BatchArrays batch, int64_t found, ArcArrays pull) noexcept nogil
@cython.locals(n=int64_t, edges=int64_t)
cdef bint _write_changed(
    BatchArrays batch, int64_t found, bint directed, ArcArrays pull, ArcArrays push, NodeArrays nodes
) noexcept nogil
cdef bint _capacity_for_arcs(
    BatchArrays batch, int64_t n, bint directed, ArcArrays pull, ArcArrays push
) noexcept nogil
@cython.locals(moved=int64_t, arcs=int64_t, i=int64_t, at=int64_t, receiver=int64_t)
cdef void _list_arcs(BatchArrays batch, int64_t found, bint directed, NodeArrays nodes) noexcept nogil
@cython.locals(n=int64_t)
cdef int64_t _list_nodes(
    BatchArrays batch, int64_t found, const int32_t[::1] named, NodeArrays nodes
) noexcept nogil
cdef int64_t _note(BatchArrays batch, int64_t n, int64_t node, NodeArrays nodes) noexcept nogil
