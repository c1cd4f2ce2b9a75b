cimport cython
from libc.stdint cimport int32_t, int64_t
from dygcn.engine._native cimport prefetch_8
from dygcn.engine._rows cimport RowBlock, add_all, add_row, clear_row, prefetch_row
from dygcn.engine.graph.arcs cimport ArcArrays
from dygcn.engine.graph.ticks cimport prefetch_stamp, stamp
from dygcn.engine.propagation.gathering cimport Arcs, Marks, MessageBuffer, ReachedNodes, Work, count_pushes, gather, in_units, note_orders
from dygcn.engine.propagation.pulling cimport HeavyRows, follow
from dygcn.engine.propagation.sum_rows cimport SumRows, inverse_of, narrow_row, write_messages

cdef int64_t AHEAD
cdef int64_t CACHED
cdef int64_t AT_ONCE
cdef int64_t DONE
cdef int64_t EVERYBODY
cdef int64_t SMALL_WORK
cdef int64_t SMALL_TABLE
cdef int64_t MISPLACED
cdef int64_t NARROW

@cython.final
cdef class Tools:
    cdef readonly tuple parts
    cdef Work work
    cdef Marks marks
    cdef ReachedNodes reached
    cdef HeavyRows heavy

@cython.final
cdef class Step:
    cdef readonly tuple parts
    cdef SumRows sums
    cdef MessageBuffer out
    cdef int64_t order
    cdef Step following

@cython.locals(found=bint)
cdef bint _pulls(int64_t v, int64_t first, int64_t stop, Work work, ArcArrays pull) noexcept nogil
cdef void _prefetch_sums(SumRows sums, int64_t node, int64_t slot) noexcept nogil
@cython.locals(n=int64_t, ahead=int64_t, near=int64_t, v=int64_t, slot=int64_t, first=int64_t, stop=int64_t, was=double, now=double, to=int64_t, gained=int64_t, wanted=bint, changed=bint)
cdef int64_t _add_up(Py_ssize_t found, Work work, SumRows sums, MessageBuffer frontier, MessageBuffer out, Py_ssize_t at, Py_ssize_t out_row, ArcArrays pull) noexcept nogil
@cython.locals(changed=int64_t)
cpdef object add_part(Py_ssize_t found, Work work, SumRows sums, MessageBuffer frontier, MessageBuffer out, Py_ssize_t at, Py_ssize_t changed_senders, ArcArrays pull)
@cython.locals(pushes=int64_t, found=int64_t, moving=int64_t, n=int64_t)
cdef (int64_t, int64_t, int64_t, int64_t) do_order(MessageBuffer frontier, Py_ssize_t senders, Arcs arcs, Py_ssize_t changed_senders, Tools tools, Step step, int64_t reached) noexcept nogil
@cython.locals(done=(int64_t, int64_t, int64_t, int64_t))
cpdef object order_at_once(MessageBuffer frontier, Py_ssize_t senders, Arcs arcs, Py_ssize_t changed_senders, Tools tools, Step step, int64_t reached)
@cython.locals(done=(int64_t, int64_t))
cpdef object finish_gathered(Py_ssize_t found, Tools tools, Step step, MessageBuffer frontier, Arcs arcs, Py_ssize_t changed_senders, int64_t reached)
@cython.locals(v=int64_t, d=int64_t, weight=int64_t)
cpdef object sum_degrees(Py_ssize_t low, Py_ssize_t high, ArcArrays pull, const int64_t[::1] has, SumRows sums)
@cython.locals(first=int64_t)
cdef int64_t _first_arc(int64_t node, ArcArrays pull, SumRows sums) noexcept nogil
@cython.locals(weight=int64_t)
cdef void _sum_row(RowBlock stored, Py_ssize_t at, int64_t start, int64_t stop, ArcArrays pull, RowBlock message, int64_t shift) noexcept nogil
@cython.locals(v=int64_t, slot=int64_t, start=int64_t, stop=int64_t)
cpdef object sum_neighbours(Py_ssize_t low, Py_ssize_t high, ArcArrays pull, RowBlock message, SumRows sums, int64_t shift)
