cimport cython
from libc.stdint cimport int8_t, int32_t, int64_t
from dygcn.engine._rows cimport RowBlock
from dygcn.engine.graph.arcs cimport ArcArrays

@cython.final
cdef class Work:
    cdef readonly object arrays
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

@cython.final
cdef class Handoff:
    cdef readonly object arrays
    cdef readonly RowBlock table
    cdef int64_t[::1] has
    cdef int32_t[::1] nodes
    cdef int32_t[::1] row

@cython.final
cdef class ArcChanges:
    cdef readonly tuple arrays
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
cdef class Marks:
    cdef readonly object arrays
    cdef int32_t[::1] place
    cdef int8_t[::1] seen
    cdef int8_t[::1] own

@cython.final
cdef class Reach:
    cdef readonly object arrays
    cdef int32_t[::1] nodes
    cdef int8_t[::1] orders
