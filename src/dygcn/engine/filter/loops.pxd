cimport cython
from libc.math cimport exp2, floor, rint, sqrt
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t
from dygcn.engine._holder cimport Holder
from dygcn.engine._rows cimport RowBlock, add_row, prefetch_row, write_scores
from dygcn.engine.graph.arcs cimport ArcArrays
from dygcn.engine.graph.delta cimport BatchArrays

cdef extern from *:
    int64_t whole "(int64_t)"(double x) noexcept nogil

cdef int64_t ANSWERS
cdef int64_t ASKS
cdef int64_t COUNTED
cdef int64_t DIRTY
cdef int64_t GREATEST_MESSAGE
cdef double MESSAGE_SCALE
cdef int64_t MOST_EDGES
cdef double MOST_OCTAVES
cdef double PATH_UNIT
cdef int64_t ROWS
cdef int64_t MOST_ON_PATHS
cdef int64_t SUMS
cdef int64_t TOUCHED
cdef int64_t TREND
cdef int64_t WINDOW

@cython.final
cdef class FilterArrays(Holder):
    cdef int8_t[::1] role
    cdef int32_t[::1] asks
    cdef int32_t[::1] answers
    cdef int32_t[::1] out
    cdef int32_t[::1] into
    cdef int32_t[::1] asker
    cdef int32_t[:, ::1] taste
    cdef int16_t[:, ::1] said
    cdef int8_t[::1] dirty
    cdef int32_t[::1] dirty_rows
    cdef int32_t[::1] answer
    cdef int64_t[:, ::1] total
    cdef int64_t[::1] recent
    cdef float[:, ::1] prepared
    cdef int8_t[::1] touched
    cdef int32_t[::1] touched_rows
    cdef int32_t[:, ::1] change
    cdef int64_t[::1] sizes
    cdef int64_t[::1] base
    cdef double[::1] half_life
    cdef RowBlock row_block
    cdef RowBlock taste_block
    cdef RowBlock said_block
    cdef RowBlock total_block
    cdef RowBlock change_block

@cython.locals(age=double)
cdef double _age(FilterArrays of, int64_t which, double t) noexcept nogil
cpdef double octave_of(FilterArrays of, int64_t which, double t) noexcept nogil
@cython.locals(octave=double, above=double)
cpdef int64_t weight_of(FilterArrays of, int64_t which, double t) noexcept nogil
cdef bint _is_beyond(FilterArrays of, int64_t which, double t, int64_t top) noexcept nogil

@cython.locals(beyond=int64_t, before=double, last=double, was=bint, now=bint)
cpdef int64_t follow(FilterArrays of, BatchArrays batch, int64_t found, bint timed)
@cython.locals(row=int64_t, to=int64_t, step=int64_t, beyond=int64_t, which=int64_t)
cdef int64_t _change_edge(
    FilterArrays of, int64_t asking, int64_t answering, bint was, bint now, double before, double last
) noexcept nogil
cdef void _add_weights(FilterArrays of, int64_t row, int64_t to, int64_t weight, int64_t recent) noexcept nogil
@cython.locals(beyond=int64_t)
cpdef int64_t follow_later(FilterArrays of, BatchArrays batch, int64_t found, const int64_t[::1] tops)
@cython.locals(row=int64_t, to=int64_t, beyond=int64_t, which=int64_t, weight=int64_t)
cdef int64_t _add_later(
    FilterArrays of, int64_t asking, int64_t answering, double last, const int64_t[::1] tops
) noexcept nogil
cdef void _mark_dirty(FilterArrays of, int64_t row) noexcept nogil
cdef void _touch(FilterArrays of, int64_t row) noexcept nogil
@cython.locals(asking=int64_t, at=int64_t, to=int64_t, recent=int64_t)
cpdef object load(FilterArrays of, ArcArrays pull, int64_t nodes)

@cython.locals(edges=int64_t, factor=double, moved=bint, column=int64_t, value=int64_t)
cdef bint _next_message(FilterArrays of, int64_t row) noexcept nogil
@cython.locals(row=int64_t)
cpdef object tell(FilterArrays of, ArcArrays pull)
@cython.locals(end=int64_t, at=int64_t, to=int64_t, weight=int64_t)
cdef void _tell_answers(FilterArrays of, ArcArrays pull, int64_t node) noexcept nogil
@cython.locals(asking=int64_t, at=int64_t, to=int64_t, weight=int64_t, by=int64_t, row=int64_t, column=int64_t)
cpdef object advance(FilterArrays of, ArcArrays pull, int64_t nodes, int64_t rows, int64_t which, int64_t base)

@cython.locals(count=int64_t, row=int64_t, edges=int64_t, factor=double, column=int64_t)
cpdef int64_t prepare(FilterArrays of, const double[::1] powers)
cpdef object score(FilterArrays of, const int64_t[::1] rows, const float[::1] query, double[::1] out)
@cython.locals(
    last=int64_t, count=int64_t, one=int64_t, two=int64_t, answer=int64_t, other=int64_t, row=int64_t, mass=double
)
cpdef int64_t walk_paths(
    FilterArrays of, ArcArrays pull, int64_t node, const double[::1] roots, int64_t[::1] passing, int64_t[::1] out,
    int64_t[::1] reached
)
@cython.locals(at=int64_t, to=int64_t, weight=int64_t)
cdef int64_t _end_paths(
    FilterArrays of, ArcArrays pull, int64_t node, int64_t mass, int64_t[::1] out, int64_t[::1] reached, int64_t count
) noexcept nogil
