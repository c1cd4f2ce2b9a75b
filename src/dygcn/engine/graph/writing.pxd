cimport cython
from libc.stdint cimport int8_t, int32_t, int64_t
from dygcn.engine._native cimport prefetch_8
from dygcn.engine.graph.arcs cimport (
    ArcArrays, add_needs, count_new, fits, forget_needs, give_back_empty, reserve, slot_of, write
)
from dygcn.engine.graph.delta cimport BatchArrays, EventArrays, GraphArrays, NodeArrays, census, find_stored, magnitude, overweight, play, touch_nodes
from dygcn.engine.graph.pairs cimport recall
from dygcn.engine.graph.ticks cimport stamp

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

@cython.locals(counted=double)
cdef int64_t apply_events(GraphArrays graph, EventArrays events) noexcept nogil
@cython.locals(found=int64_t, heavy=bint)
cdef int64_t _play(GraphArrays graph, EventArrays events, double before, double clock) noexcept nogil
cpdef int64_t play_events(GraphArrays graph, EventArrays events, double before=*, double clock=*)
cpdef int64_t write_events(GraphArrays graph, EventArrays events)

cpdef int64_t write_pairs(GraphArrays graph, const int32_t[::1] named, bint contacts)
@cython.locals(found=int64_t)
cdef int64_t commit(
    GraphArrays graph, const int32_t[::1] named, const int32_t[::1] other, const double[::1] t,
    bint contacts, double half_life,
) noexcept nogil
@cython.locals(slot=int64_t)
cdef void _note_times(BatchArrays batch, int64_t found, ArcArrays pull) noexcept nogil
@cython.locals(at=int64_t)
cdef void _set_contacts(
    ArcArrays pull, BatchArrays batch, int64_t found, const int32_t[::1] nodes, const int32_t[::1] other
) noexcept nogil
@cython.locals(n=int64_t, edges=int64_t)
cdef bint _write_changed(GraphArrays graph, BatchArrays batch, int64_t found) noexcept nogil
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
