cimport cython
from libc.stdint cimport int8_t, int32_t, int64_t
from dygcn.engine.graph.arcs cimport ArcArrays
from dygcn.engine.graph.ghosts cimport GhostArrays
from dygcn.engine.graph.ticks cimport Ticks

@cython.final
cdef class EventArrays:
    cdef readonly tuple arrays
    cdef const int32_t[::1] src
    cdef const int32_t[::1] dst
    cdef const int8_t[::1] op
    cdef const int64_t[::1] weight
    cdef const double[::1] t

@cython.final
cdef class BatchArrays:
    cdef readonly tuple arrays
    cdef int32_t[::1] a
    cdef int32_t[::1] b
    cdef int64_t[::1] old
    cdef int64_t[::1] new
    cdef double[::1] last
    cdef float[::1] count
    cdef int64_t[::1] ghosts
    cdef double[::1] ghost_t
    cdef int32_t[::1] pair_of
    cdef int8_t[::1] mark
    cdef int32_t[::1] seat
    cdef int32_t[::1] table
    cdef int32_t[::1] end_a
    cdef int32_t[::1] end_b
    cdef int64_t[::1] weight
    cdef int64_t[::1] needed
    cdef int64_t[::1] sizes
    cdef int64_t[::1] secret
    cdef int32_t[::1] arcs
    cdef int64_t[::1] arc_weights
    cdef int32_t[:, ::1] nodes
    cdef double[::1] before

@cython.final
cdef class NodeArrays:
    cdef readonly tuple arrays
    cdef int64_t[::1] strength
    cdef int64_t[::1] change
    cdef int8_t[::1] own
    cdef int8_t[::1] active
    cdef int8_t[::1] seen
    cdef double[::1] last
    cdef float[::1] count
    cdef Ticks ticks

@cython.final
cdef class GraphArrays:
    cdef readonly tuple arrays
    cdef BatchArrays batch
    cdef ArcArrays pull
    cdef ArcArrays push
    cdef NodeArrays nodes
    cdef GhostArrays ghosts
    cdef bint directed
    cdef bint stay
    cdef int64_t limit
    cdef double half_life
    cdef double count_half_life
