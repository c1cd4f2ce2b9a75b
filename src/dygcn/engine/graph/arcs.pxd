cimport cython
from libc.stdint cimport int8_t, int32_t, int64_t
from dygcn.engine._holder cimport Holder
from dygcn.engine._native cimport prefetch_8, prefetch_32, prefetch_64
from dygcn.engine.graph.pairs cimport PairTable, pair_drop, pair_key, pair_prefetch, pair_put, pair_slot

cdef int64_t FAR
cdef int64_t FEW
cdef int64_t NEAR
cdef int64_t SMALLEST_BLOCK
cdef double NEVER

@cython.final
cdef class ArcArrays(Holder):
    cdef int64_t[::1] start
    cdef int32_t[::1] count
    cdef int32_t[::1] capacity
    cdef int32_t[::1] others
    cdef int64_t[::1] weights
    cdef int8_t[::1] hub
    cdef int32_t[::1] extra
    cdef int64_t[::1] heads
    cdef int64_t[::1] tail
    cdef PairTable table
    cdef double[::1] times
    cdef float[::1] counts
    cdef int32_t[::1] upper
    cdef int8_t[::1] tiers

cdef int64_t slot_of(ArcArrays arcs, int64_t node, int64_t other) noexcept nogil
cdef void _ask_for_node(ArcArrays arcs, int64_t node) noexcept nogil
cdef void _ask_for_arc(ArcArrays arcs, int64_t node, int64_t other) noexcept nogil
@cython.locals(contacts=bint)
cdef void look_up(
    ArcArrays arcs, int64_t n, const int32_t[::1] nodes, const int32_t[::1] other, int64_t[::1] found,
    double[::1] last, float[::1] count_at_last,
) noexcept nogil

@cython.locals(size=int64_t)
cdef int64_t _block_size(int64_t total) noexcept nogil
@cython.locals(c=int64_t)
cdef int64_t _class_of(int64_t size) noexcept nogil
cdef void count_new(ArcArrays arcs, int64_t n, const int32_t[::1] nodes, const int64_t[::1] new) noexcept nogil
@cython.locals(extra=int64_t, total=int64_t)
cdef void add_needs(ArcArrays arcs, int64_t n, const int32_t[::1] nodes, int64_t[::1] needed, int64_t at) noexcept nogil
cdef void forget_needs(ArcArrays arcs, int64_t n, const int32_t[::1] nodes) noexcept nogil
@cython.locals(enough=bint)
cpdef bint fits(ArcArrays arcs, int64_t pool, int64_t entries) noexcept nogil
@cython.locals(base=int64_t)
cdef int64_t _take_block(ArcArrays arcs, int64_t size) noexcept nogil
cdef void _give_back(ArcArrays arcs, int64_t node) noexcept nogil
cdef void _copy_block(ArcArrays arcs, int64_t node, ArcArrays other, int64_t base) noexcept nogil
@cython.locals(total=int64_t)
cdef void reserve(ArcArrays arcs, int64_t n, const int32_t[::1] nodes) noexcept nogil
cdef void give_back_empty(ArcArrays arcs, int64_t n, const int32_t[::1] nodes) noexcept nogil

cdef void write(
    ArcArrays arcs, int64_t n, const int32_t[::1] nodes, const int32_t[::1] other, const int64_t[::1] new
) noexcept nogil
@cython.locals(base=int64_t)
cdef void _move(ArcArrays arcs, int64_t node, int64_t at, int64_t to) noexcept nogil
@cython.locals(base=int64_t, last=int64_t)
cdef void _delete(ArcArrays arcs, int64_t node, int64_t other, int64_t slot) noexcept nogil
@cython.locals(base=int64_t, at=int64_t, end=int64_t)
cdef void _insert(ArcArrays arcs, int64_t node, int64_t other, int64_t weight) noexcept nogil

cdef bint is_upper(ArcArrays arcs, int64_t node, int64_t other) noexcept nogil
@cython.locals(tier=int64_t)
cdef bint tier_is_due(ArcArrays arcs, int64_t node, int64_t count, int64_t heavy_from) noexcept nogil
@cython.locals(base=int64_t, other=int32_t, weight=int64_t, time=double, count=float)
cdef void _swap(ArcArrays arcs, int64_t node, int64_t a, int64_t b) noexcept nogil
@cython.locals(node=int64_t, upper=int64_t)
cpdef object partition(ArcArrays arcs, const int32_t[::1] nodes)
@cython.locals(node=int64_t, slot=int64_t, wanted=bint, moved=int64_t)
cpdef object put_right(ArcArrays arcs, const int32_t[::1] nodes, const int32_t[::1] other)

cdef int _check_nodes(ArcArrays arcs, const int32_t[::1] nodes) except -1
@cython.locals(size=int64_t, kept=int64_t, found=int64_t[::1], last=double[::1], count_at_last=float[::1])
cpdef tuple look_up_arcs(ArcArrays arcs, const int32_t[::1] nodes, const int32_t[::1] other, bint contacts)
@cython.locals(
    size=int64_t, kept=int64_t, at=int64_t, base=int64_t, owner=int32_t[::1], other=int32_t[::1], weight=int64_t[::1],
    last=double[::1], count_at_last=float[::1],
)
cpdef tuple list_arcs(ArcArrays arcs, const int32_t[::1] nodes, bint upper=*, bint contacts=*)
@cython.locals(total=int64_t)
cpdef int64_t pool_of_all(ArcArrays arcs) noexcept nogil
@cython.locals(size=int64_t, base=int64_t)
cpdef object copy_blocks(ArcArrays arcs, ArcArrays other)
