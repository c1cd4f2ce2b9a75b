cimport cython
from libc.math cimport exp2
from libc.stdint cimport int8_t, int32_t, int64_t
from dygcn.engine._holder cimport Holder
from dygcn.engine._native cimport prefetch_64
from dygcn.engine.graph.arcs cimport ArcArrays, look_up
from dygcn.engine.graph.pairs cimport GhostArrays, ghost_weight, pair_home, pair_key
from dygcn.engine.graph.ticks cimport Ticks, stamp

cdef int64_t AGE
cdef int64_t CAME
cdef int64_t FAR
cdef int64_t FOUND
cdef int64_t IDLE
cdef int64_t LAPSE
cdef int64_t LAPSED
cdef int64_t LINKED
cdef int64_t LOOP
cdef int64_t LOOPS
cdef int64_t MET
cdef int64_t MISSING
cdef int64_t NO_CONTACT
cdef int64_t PARTED
cdef int64_t UNCHANGED
cdef int64_t UNKNOWN
cdef int64_t WENT
cdef double NEVER

@cython.final
cdef class EventArrays(Holder):
    cdef const int32_t[::1] src
    cdef const int32_t[::1] dst
    cdef const int8_t[::1] op
    cdef const int64_t[::1] weight
    cdef const double[::1] t

@cython.final
cdef class BatchArrays(Holder):
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
cdef class NodeArrays(Holder):
    cdef int64_t[::1] strength
    cdef int64_t[::1] change
    cdef int8_t[::1] own
    cdef int8_t[::1] active
    cdef int8_t[::1] seen
    cdef double[::1] last
    cdef float[::1] count
    cdef Ticks ticks

@cython.final
cdef class GraphArrays(Holder):
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

cdef int64_t magnitude(int64_t weight) noexcept nogil

@cython.locals(found=int64_t, low=int64_t, high=int64_t)
cdef int64_t number_pairs(
    BatchArrays batch, const int32_t[::1] src, const int32_t[::1] dst, bint directed
) noexcept nogil
@cython.locals(at=int64_t, mask=int64_t, p=int64_t)
cdef int64_t seat_of(BatchArrays batch, int64_t a, int64_t b) noexcept nogil
cpdef int64_t find_pairs(BatchArrays batch, const int32_t[::1] src, const int32_t[::1] dst, bint directed)

@cython.locals(found=int64_t)
cdef int64_t find_stored(GraphArrays graph, EventArrays events) noexcept nogil

@cython.locals(unchanged=int64_t, missing=int64_t, loops=int64_t, p=int64_t)
cdef void play(
    BatchArrays batch, EventArrays events, double before, double clock, double half_life, double count_half_life
) noexcept nogil
cdef bint _is_forgotten(BatchArrays batch, int64_t pair, double clock, double half_life) noexcept nogil
cdef void _forget_contacts(BatchArrays batch, int64_t pair) noexcept nogil
cdef void _age(BatchArrays batch, double clock, double half_life) noexcept nogil

@cython.locals(found=int64_t, heavy=bint, more=int64_t, a=int64_t, b=int64_t)
cpdef bint overweight(
    BatchArrays batch, bint directed, const int64_t[::1] strength, int64_t[::1] change, int64_t limit
) noexcept nogil
@cython.locals(refused=int8_t[::1], stored=int64_t[::1], new=int64_t, aged=double, more=int64_t, p=int64_t, a=int64_t, b=int64_t, heavy=bint)
cpdef tuple play_weights(
    BatchArrays batch, EventArrays events, object old, int64_t[::1] carried, bint directed, double clock, double half_life, int64_t limit, bint refuse,
)

@cython.locals(now=bint, node=int64_t)
cdef void census(GraphArrays graph, int64_t n) noexcept nogil
cdef void _list(BatchArrays batch, int64_t kind, int64_t node) noexcept nogil

cdef double count_after(double last, double count, double t, double half_life) noexcept nogil
cdef void touch_pair(BatchArrays batch, int64_t pair, double t, double half_life) noexcept nogil
cdef void _touch_node(NodeArrays nodes, int64_t node, double t, double half_life) noexcept nogil
@cython.locals(gained=int64_t, lapsed=bint, node=int64_t, arcs=int64_t)
cdef void touch_nodes(
    GraphArrays graph, int64_t found, const int32_t[::1] src, const int32_t[::1] dst, const double[::1] t
) noexcept nogil
cpdef object touch_ends(
    const int64_t[::1] a, const int64_t[::1] b, const double[::1] t, double half_life,
    double[::1] last, float[::1] count,
)
