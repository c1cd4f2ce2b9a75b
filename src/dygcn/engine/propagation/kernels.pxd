cimport cython
from libc.stdint cimport int8_t, int32_t, int64_t, uint64_t
from dygcn.engine._holder cimport Holder
from dygcn.engine._native cimport prefetch_8
from dygcn.engine._rows cimport RowBlock, add_all, add_row, clear_row, prefetch_row
from dygcn.engine.features.units cimport UnitTable, find_units
from dygcn.engine.graph.arcs cimport ArcArrays, tier_is_due
from dygcn.engine.graph.delta cimport BatchArrays, EventArrays, GraphArrays
from dygcn.engine.graph.ids_kernels cimport IdArrays, hashes_at, keys_at
from dygcn.engine.graph.ticks cimport prefetch_stamp, stamp
from dygcn.engine.graph.writing cimport apply_events
from dygcn.engine.propagation.gathering cimport ArcChanges, number_nodes, Arcs, Marks, MessageBuffer, ReachedNodes, Work, count_pushes, gather, in_units, note_orders
from dygcn.engine.propagation.pulling cimport HeavyRows, follow
from dygcn.engine.propagation.sum_rows cimport SumRows, inverse_of, narrow_row, write_messages

cdef int64_t AHEAD
cdef int64_t CACHED
cdef int64_t AT_ONCE
cdef int64_t EVERYBODY
cdef int64_t NOT_DONE
cdef int64_t NARROW
cdef int64_t CAME
cdef int64_t WRITTEN
cdef int64_t MOVED
cdef int64_t TOUCHED
cdef int64_t WENT
cdef int64_t ALL_DONE
cdef int64_t NOT_BEGUN

@cython.final
cdef class Tools(Holder):
    cdef Work work
    cdef Marks marks
    cdef ReachedNodes reached
    cdef HeavyRows heavy

@cython.final
cdef class Step(Holder):
    cdef SumRows sums
    cdef MessageBuffer out
    cdef int64_t order
    cdef Step following

@cython.locals(found=bint)
cdef bint _pulls(int64_t v, int64_t first, int64_t stop, Work work, ArcArrays pull) noexcept nogil
cdef void _prefetch_sums(SumRows sums, int64_t node, int64_t slot) noexcept nogil
@cython.locals(was=double, now=double, first=int64_t, stop=int64_t)
cdef bint _add_one(RowBlock stored, Py_ssize_t at, Work work, Py_ssize_t i, double scale, RowBlock table, RowBlock out, Py_ssize_t to) noexcept nogil
@cython.locals(n=int64_t, found=int64_t, out_row=int64_t, near=int64_t, v=int64_t, slot=int64_t, row=int64_t, first=int64_t, stop=int64_t, to=int64_t, gained=int64_t, wanted=bint, changed=bint)
cdef int64_t _add_up(Work work, SumRows sums, MessageBuffer frontier, MessageBuffer out, Py_ssize_t at, Py_ssize_t old, ArcArrays pull) noexcept nogil
@cython.locals(changed=int64_t)
cpdef object add_part(Work work, SumRows sums, MessageBuffer frontier, MessageBuffer out, Py_ssize_t at, Py_ssize_t old, ArcArrays pull)
@cython.locals(pushes=int64_t, found=int64_t, moving=int64_t, small=bint)
cdef int64_t do_order(MessageBuffer frontier, Arcs arcs, Py_ssize_t changed_senders, Tools tools, Step step, int64_t reached) noexcept nogil
@cython.locals(v=int64_t, d=int64_t, weight=int64_t)
cpdef object sum_degrees(Py_ssize_t low, Py_ssize_t high, ArcArrays pull, const int64_t[::1] has, SumRows sums)
@cython.locals(first=int64_t)
cdef int64_t _first_arc(int64_t node, ArcArrays pull, SumRows sums) noexcept nogil
@cython.locals(weight=int64_t)
cdef void _sum_row(RowBlock stored, Py_ssize_t at, int64_t start, int64_t stop, ArcArrays pull, RowBlock message, int64_t shift) noexcept nogil
@cython.locals(v=int64_t, slot=int64_t, start=int64_t, stop=int64_t)
cpdef object sum_neighbours(Py_ssize_t low, Py_ssize_t high, ArcArrays pull, RowBlock message, SumRows sums, int64_t shift)

@cython.final
cdef class UpdatePlan(Holder):
    cdef Arcs arcs
    cdef MessageBuffer start
    cdef uint64_t[::1] wanted
    cdef Tools tools
    cdef int64_t heavy_from
    cdef Step first
    cdef UnitTable units
    cdef IdArrays ids
    cdef GraphArrays graph
    cdef EventArrays edge
    cdef int32_t[::1] src
    cdef int32_t[::1] dst
    cdef int8_t[::1] op
    cdef int64_t[::1] weight
    cdef double[::1] t

@cython.locals(reached_count=int64_t, node=int64_t)
cdef int64_t _note_nodes(UpdatePlan plan, BatchArrays batch) noexcept nogil
@cython.locals(n=int64_t, arcs=int64_t)
cdef int64_t _start(UpdatePlan plan, ArcChanges changes, BatchArrays batch, IdArrays ids, UnitTable units) noexcept nogil
@cython.locals(last=bint, now=int64_t)
cdef (int64_t, int64_t, int64_t) _orders_from(Step step, MessageBuffer frontier, UpdatePlan plan, Py_ssize_t changed_senders, int64_t reached, int64_t added) noexcept nogil
cdef void _forget_marks(UpdatePlan plan, BatchArrays batch, Py_ssize_t reached_count) noexcept nogil
@cython.locals(reached_count=int64_t, reached=int64_t, changed_senders=int64_t, order=int64_t, added=int64_t)
cdef (int64_t, int64_t, int64_t) _propagate(UpdatePlan plan, BatchArrays batch) noexcept nogil
@cython.locals(due=int64_t, node=int64_t, arcs=int64_t)
cdef int64_t _count_due(UpdatePlan plan, BatchArrays batch) noexcept nogil
@cython.locals(status=int64_t, order=int64_t, reached_count=int64_t, added=int64_t, due=int64_t)
cdef (int64_t, int64_t, int64_t, int64_t, int64_t) _update(UpdatePlan plan, EventArrays events) noexcept nogil
@cython.locals(done=(int64_t, int64_t, int64_t, int64_t, int64_t))
cpdef tuple update_at_once(UpdatePlan plan, EventArrays events)
@cython.locals(done=(int64_t, int64_t, int64_t, int64_t, int64_t))
cpdef tuple update_edge(UpdatePlan plan, int64_t a, int64_t b, int64_t op, int64_t weight, double t)
