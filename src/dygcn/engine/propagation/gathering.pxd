cimport cython
from libc.stdint cimport int8_t, int32_t, int64_t
from dygcn.engine._holder cimport Holder
from dygcn.engine._native cimport prefetch_8, prefetch_32, prefetch_64
from dygcn.engine._rows cimport RowBlock
from dygcn.engine.graph.arcs cimport ArcArrays, is_upper
from dygcn.engine.propagation.sum_rows cimport SumRows

cdef int64_t NEAR
cdef int64_t FAR
cdef int64_t EAGER
cdef int64_t BLOCK
cdef int64_t MANY
cdef int64_t SPAN
cdef int64_t SPANS
cdef int64_t NARROW

@cython.final
cdef class Work(Holder):
    cdef int32_t[::1] node
    cdef int32_t[::1] row
    cdef int64_t[::1] factor
    cdef int32_t[::1] receivers
    cdef int32_t[::1] first
    cdef int32_t[::1] sorted_row
    cdef int64_t[::1] sorted_factor
    cdef int64_t[::1] before
    cdef int64_t[::1] after
    cdef int32_t[::1] slots
    cdef int32_t[::1] movers
    cdef int64_t[::1] spans
    cdef int64_t bits
    cdef readonly int64_t found
    cdef int64_t ahead

@cython.final
cdef class MessageBuffer(Holder):
    cdef readonly RowBlock table
    cdef int64_t[::1] has
    cdef int32_t[::1] nodes
    cdef int32_t[::1] row
    cdef readonly Py_ssize_t count  # loops write it, too

@cython.final
cdef class ArcChanges(Holder):
    cdef int32_t[::1] receiver
    cdef int32_t[::1] row
    cdef int64_t[::1] change
    cdef int32_t[::1] changed_senders
    cdef bint turned

@cython.final
cdef class Arcs:
    cdef readonly ArcChanges changes
    cdef readonly Py_ssize_t count
    cdef readonly object changed_senders
    cdef readonly ArcArrays pull
    cdef readonly ArcArrays push
    cdef readonly int64_t shift

@cython.final
cdef class Marks(Holder):
    cdef int32_t[::1] place
    cdef int8_t[::1] seen
    cdef int8_t[::1] own

@cython.final
cdef class ReachedNodes(Holder):
    cdef int32_t[::1] nodes
    cdef int8_t[::1] orders

cdef int64_t in_units(int64_t weight, int64_t shift) noexcept nogil
cdef bint is_mine(int64_t v, int64_t mine) noexcept nogil
cdef bint is_own(int64_t v, const int8_t[::1] own) noexcept nogil
@cython.locals(count=int64_t, v=int64_t)
cdef int64_t number_nodes(const int32_t[::1] nodes, Py_ssize_t first, Py_ssize_t n, int32_t[::1] place, int32_t[::1] found, int32_t[::1] row) noexcept nogil
@cython.locals(into=int32_t[::1], rows=int32_t[::1], count=int64_t)
cpdef object distinct_rows(const int32_t[::1] nodes, int32_t[::1] place)
@cython.locals(count=int64_t)
cdef int64_t _listeners(ArcArrays push, int64_t sender, SumRows sums) noexcept nogil
@cython.locals(bar=int64_t)
cdef int64_t _bar(ArcArrays push, int64_t sender, SumRows sums) noexcept nogil
@cython.locals(total=int64_t, senders=int64_t)
cpdef int64_t count_pushes(MessageBuffer frontier, ArcArrays push, SumRows sums) noexcept nogil
@cython.locals(bits=int64_t)
cdef int64_t _span(int64_t pushes, int64_t nodes) noexcept nogil
@cython.locals(v=int64_t, base=int64_t, bar=int64_t, senders=int64_t, bits=int64_t)
cdef void _count_spans(MessageBuffer frontier, ArcArrays push, int64_t mine, SumRows sums, Marks marks, Work work) noexcept nogil
@cython.locals(v=int64_t)
cdef void _begin_spans(MessageBuffer frontier, Arcs arcs, int64_t mine, SumRows sums, Marks marks, Work work) noexcept nogil
@cython.locals(at=int64_t)
cdef void _list(int64_t v, int32_t row, int64_t factor, int64_t bits, Work work) noexcept nogil
@cython.locals(v=int64_t, base=int64_t, bar=int64_t, stop=int64_t, ahead=int64_t, row=int32_t, weight=int64_t, eager=bint, senders=int64_t, bits=int64_t)
cdef void _list_pushes(MessageBuffer frontier, ArcArrays push, int64_t shift, int64_t mine, SumRows sums, Marks marks, Work work) noexcept nogil
@cython.locals(v=int64_t, change=int64_t, leave_out=bint)
cdef void _list_changes(Arcs arcs, ArcChanges changes, int64_t mine, SumRows sums, Work work) noexcept nogil
@cython.locals(found=int64_t, v=int64_t, at=int64_t, total=int64_t, size=int64_t, to=int64_t)
cdef int64_t _group(Py_ssize_t low, Py_ssize_t n, Py_ssize_t known, int32_t[::1] place, Work work) noexcept nogil
@cython.locals(moving=int64_t, v=int64_t, before=int64_t, now=int64_t, at=int64_t, top=int64_t, unit=int64_t, gained=int64_t, misplaced=bint)
cdef int64_t _degrees(Py_ssize_t found, int64_t shift, MessageBuffer frontier, SumRows sums, Work work) noexcept nogil
@cython.locals(found=int64_t, low=int64_t)
cdef (int64_t, int64_t) gather(MessageBuffer frontier, Arcs arcs, int64_t mine, SumRows sums, Marks marks, Work work, int64_t pushes) noexcept nogil
@cython.locals(gathered=(int64_t, int64_t))
cpdef object gather_part(MessageBuffer frontier, Arcs arcs, int64_t mine, SumRows sums, Marks marks, Work work, int64_t pushes)
@cython.locals(node=int64_t)
cpdef int64_t note_orders(const int32_t[::1] nodes, Py_ssize_t n, int64_t order, int8_t[::1] seen, ReachedNodes reached, int64_t reached_count) noexcept nogil
@cython.locals(out=int32_t[::1], n=int64_t)
cpdef object next_ring(const int32_t[::1] ring, int8_t[::1] seen, const int64_t[::1] start, const int32_t[::1] count, const int32_t[::1] others)
