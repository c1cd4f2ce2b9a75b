cimport cython
from libc.stdint cimport int8_t, int32_t, int64_t, uint64_t
from dygcn.engine.features.units cimport UnitTable, find_units
from dygcn.engine.graph.arcs cimport tier_is_due
from dygcn.engine.graph.batch cimport BatchArrays, EventArrays, GraphArrays
from dygcn.engine.graph.ids_kernels cimport IdArrays, hashes_at, keys_at
from dygcn.engine.graph.writing cimport apply_events
from dygcn.engine.propagation.gathering cimport ArcChanges, Arcs, MessageBuffer, number_nodes
from dygcn.engine.propagation.kernels cimport Step, Tools, do_order
from dygcn.engine.propagation.sum_rows cimport SumRows

cdef int64_t CAME
cdef int64_t DONE
cdef int64_t MOVED
cdef int64_t TOUCHED
cdef int64_t WENT
cdef int64_t ALL_DONE
cdef int64_t NOT_BEGUN

@cython.final
cdef class UpdatePlan:
    cdef readonly tuple parts
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
@cython.locals(last=bint, old=int64_t, status=int64_t, found=int64_t, changed=int64_t, now=int64_t)
cdef (int64_t, int64_t, int64_t, int64_t) _orders_from(Step step, MessageBuffer frontier, Py_ssize_t senders, UpdatePlan plan, Py_ssize_t changed_senders, int64_t reached, int64_t added) noexcept nogil
cdef void _forget_marks(UpdatePlan plan, BatchArrays batch, Py_ssize_t reached_count) noexcept nogil
@cython.locals(reached_count=int64_t, changed_senders=int64_t, order=int64_t, changed=int64_t, added=int64_t)
cdef (int64_t, int64_t, int64_t, int64_t) _propagate(UpdatePlan plan, BatchArrays batch) noexcept nogil
@cython.locals(due=int64_t, node=int64_t, arcs=int64_t)
cdef int64_t _count_due(UpdatePlan plan, BatchArrays batch) noexcept nogil
@cython.locals(status=int64_t, order=int64_t, changed=int64_t, reached_count=int64_t, added=int64_t, due=int64_t)
cdef (int64_t, int64_t, int64_t, int64_t, int64_t, int64_t) _update(UpdatePlan plan, EventArrays events) noexcept nogil
@cython.locals(done=(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t))
cpdef tuple update_at_once(UpdatePlan plan, EventArrays events)
@cython.locals(done=(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t))
cpdef tuple update_edge(UpdatePlan plan, int64_t a, int64_t b, int64_t op, int64_t weight, double t)
