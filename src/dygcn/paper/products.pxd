cimport cython
from cython cimport floating
from libc.stdint cimport int64_t

ctypedef fused other:
    float
    double

cdef int64_t TILE

cpdef object add_combined(const int64_t[::1] first, const int64_t[::1] row, const double[::1] factor, const floating[:, ::1] table, double[:, ::1] out)
@cython.locals(tile=int64_t)
cpdef object add_product(const floating[:, ::1] rows, const other[:, ::1] matrix, double[:, ::1] out)
