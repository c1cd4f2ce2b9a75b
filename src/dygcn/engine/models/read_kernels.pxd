cimport cython
from libc.math cimport INFINITY as inf
from libc.stdint cimport int32_t, int64_t, uint64_t
from dygcn.engine._rows cimport RowBlock, add_product, add_units, scale_to_one, write_dots, write_squares, write_units
from dygcn.engine.features.units cimport UnitTable, find_units
from dygcn.engine.graph.ids_kernels cimport IdArrays, hashes_at, keys_at
from dygcn.engine.propagation.pulling cimport Pulls, Scratch, write_whole
from dygcn.engine.propagation.sum_rows cimport SumRows, write_messages

cdef int64_t ROWS

@cython.final
cdef class ReadOrder:
    cdef SumRows sums
    cdef Pulls pulls
    cdef const float[:, ::1] weights
    cdef ReadOrder rest

@cython.final
cdef class ReadBuffers:
    cdef const double[::1] steps
    cdef const double[::1] feature_steps
    cdef double floor
    cdef double feature_floor
    cdef ReadOrder order
    cdef RowBlock features
    cdef RowBlock messages
    cdef Scratch scratch
    cdef float[:, ::1] units
    cdef double[:, ::1] total
    cdef uint64_t[::1] wanted
    cdef int64_t[::1] has

@cython.locals(order=ReadOrder)
cdef object _open(ReadBuffers buffers, object sums, Pulls pulls)
cdef void _write_messages(ReadOrder order, const int32_t[::1] nodes, Py_ssize_t n, ReadBuffers buffers) noexcept nogil
@cython.locals(first=int64_t, n=int64_t)
cpdef object read_projected(const int32_t[::1] nodes, RowBlock given, IdArrays ids, UnitTable table, object sums, Pulls pulls, ReadBuffers buffers, float[:, ::1] out)
cdef void _write_features(const int32_t[::1] nodes, Py_ssize_t n, IdArrays ids, UnitTable table, ReadBuffers buffers) noexcept nogil
cdef void _add_projected(ReadOrder order, const int32_t[::1] nodes, Py_ssize_t n, ReadBuffers buffers, float[:, ::1] out, Py_ssize_t first) noexcept nogil
@cython.locals(first=int64_t, n=int64_t, none=int64_t)
cpdef object read_mixed(const int32_t[::1] nodes, IdArrays ids, UnitTable table, object sums, Pulls pulls, ReadBuffers buffers, float[:, ::1] out)
cdef void _add_mixed(ReadOrder order, const int32_t[::1] nodes, Py_ssize_t n, ReadBuffers buffers) noexcept nogil
@cython.locals(n=Py_ssize_t, width=Py_ssize_t, weight=double, block=RowBlock, total=double[:, ::1], out=float[:, ::1])
cpdef object mix_units(object orders, object weights, double floor)
@cython.locals(block=RowBlock, out=float[:, ::1])
cpdef object unit_rows(object rows, const double[::1] steps, double floor)
cpdef object project(const float[:, ::1] inputs, const float[:, ::1] weights, float[:, ::1] out)
@cython.locals(out=double[::1])
cpdef object squares(const float[:, ::1] rows)
@cython.locals(out=double[::1])
cpdef object dots(const float[:, ::1] left, const int64_t[::1] left_at, const float[:, ::1] right, const int64_t[::1] right_at)
@cython.locals(out=float[:, ::1], inverse=double)
cpdef object to_units(const float[:, ::1] rows, const double[::1] lengths)
