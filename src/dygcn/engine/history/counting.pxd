cimport cython
from libc.math cimport exp2, log1p
from libc.stdint cimport int8_t, int32_t, int64_t
from dygcn.engine._holder cimport Holder
from dygcn.engine.graph.pairs cimport PairTable, pair_key, pair_put, pair_slot
from dygcn.engine.graph.delta cimport count_after

cdef int64_t ANSWERS
cdef int64_t PARTNERS
cdef double FADE
cdef double REPEATS
cdef double FAR
cdef int64_t ANSWERED
cdef int64_t PARTNERED
cdef int64_t HABIT
cdef int64_t FAST
cdef int64_t SLOW
cdef int64_t NEW
cdef int64_t ASKED
cdef int64_t MET
cdef int64_t FIRST
cdef int64_t PAIRS
cdef int64_t PLAYED
cdef int64_t COUNTED
cdef double WALK_SCALE
cdef int64_t RAW_COLUMNS
cdef int64_t MOST
cdef double NEVER

@cython.final
cdef class HistoryArrays(Holder):
    cdef PairTable table
    cdef double[:, ::1] times
    cdef float[:, ::1] marks
    cdef int64_t[:, ::1] counts
    cdef int32_t[:, ::1] answers
    cdef int32_t[:, ::1] partners
    cdef int32_t[::1] first
    cdef double[::1] pair_t
    cdef double[::1] pair_gone
    cdef float[::1] pair_fast
    cdef int32_t[::1] pair_n
    cdef int32_t[::1] pair_dst
    cdef int32_t[::1] behind
    cdef double[::1] two
    cdef double[::1] three
    cdef int64_t[::1] sizes
    cdef double[::1] clock
    cdef double unit
    cdef double fast
    cdef double slow

cpdef object play(
    HistoryArrays of, const int32_t[::1] src, const int32_t[::1] dst, const int8_t[::1] op,
    const double[::1] t,
)
@cython.locals(key=int64_t, pair=int64_t, repeat=double)
cdef void _count(HistoryArrays of, int64_t u, int64_t v, double t) noexcept nogil
@cython.locals(pair=int64_t)
cdef void _remove(HistoryArrays of, int64_t u, int64_t v, double t) noexcept nogil
cdef void _step_between(HistoryArrays of, int64_t node, int64_t partner) noexcept nogil
cdef double _age(double now, double last, double unit) noexcept nogil
cdef double _left(double count, double last, double now, double half_life) noexcept nogil
@cython.locals(have=int64_t, total=double, share=double, back=int64_t, other=int64_t)
cdef int64_t _spread(
    HistoryArrays of, int64_t node, double mass, double[::1] to, int32_t[::1] touched, int64_t count,
) noexcept nogil
@cython.locals(begun=int64_t, second=int64_t, ends=int64_t, mass=double)
cdef int64_t _walk(
    HistoryArrays of, int64_t u, int32_t[::1] one, int32_t[::1] two, int32_t[::1] three,
) noexcept nogil
@cython.locals(one=int32_t[::1], two=int32_t[::1], three=int32_t[::1], ends=int64_t)
cpdef object describe(
    HistoryArrays of, const int32_t[::1] askers, const int32_t[::1] candidates, double now,
    tuple walks, double[:, ::1] out,
)
cdef void _forget_walks(HistoryArrays of, int32_t[::1] three, int64_t ends) noexcept nogil
@cython.locals(there=int64_t, back=int64_t, age=double)
cdef void _describe_one(
    HistoryArrays of, int64_t u, int64_t v, double now,
    double[:, ::1] out, int64_t row,
) noexcept nogil
@cython.locals(gone=double, here=int64_t)
cdef void _describe_edge(
    HistoryArrays of, int64_t there, int64_t back, double now, double[:, ::1] out, int64_t row,
) noexcept nogil
@cython.locals(others=int64_t, back=int64_t, later=int64_t, at=int64_t, seen=int64_t)
cdef double _place(const int32_t[:, ::1] ring, int64_t u, int64_t v, int64_t count, int64_t size) noexcept nogil
@cython.locals(count=int64_t, pair=int64_t)
cpdef int64_t partners_of(HistoryArrays of, int64_t u, int32_t[::1] out)
@cython.locals(key=int64_t, found=int64_t)
cpdef int64_t chain(HistoryArrays of, const int32_t[::1] src)
