cimport cython
from libc.math cimport exp2
from libc.stdint cimport int32_t, int64_t
from dygcn.engine.graph.arcs cimport ArcArrays
from dygcn.engine.graph.batch cimport BatchArrays, NodeArrays

cdef int64_t LAPSED
cdef int64_t LINKED
cdef int64_t NO_CONTACT
cdef int64_t PARTED
cdef double NEVER

cdef double count_after(double last, double count, double t, double half_life) noexcept nogil
cdef void touch_pair(BatchArrays batch, int64_t pair, double t, double half_life) noexcept nogil
cdef void _touch_node(NodeArrays nodes, int64_t node, double t, double half_life) noexcept nogil
@cython.locals(gained=int64_t, lapsed=bint, node=int64_t, arcs=int64_t)
cdef void touch_nodes(
    BatchArrays batch, int64_t found, ArcArrays pull, ArcArrays push, NodeArrays nodes,
    const int32_t[::1] src, const int32_t[::1] dst, const double[::1] t,
    bint directed, bint stay, double half_life,
) noexcept nogil
cpdef object touch_ends(
    const int64_t[::1] a, const int64_t[::1] b, const double[::1] t, double half_life,
    double[::1] last, float[::1] count,
)
