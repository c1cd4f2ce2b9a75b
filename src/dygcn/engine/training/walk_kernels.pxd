cimport cython
from libc.math cimport log
from libc.stdint cimport int32_t, int64_t
from dygcn.engine._rows cimport write_sparse_product

cdef double LEAST
cdef double ROUNDING

cpdef object count_ends(const int32_t[::1] first, const int32_t[::1] second, int64_t[::1] count)
cpdef object count_inner_edges(const int32_t[::1] first, const int32_t[::1] second, const int32_t[::1] place, int64_t[::1] count)
cpdef object count_arcs(const int32_t[::1] first, const int32_t[::1] second, const int32_t[::1] place, int64_t core, int64_t[::1] start)
@cython.locals(at=int64_t[::1], value=double)
cpdef object fill_arcs(const int32_t[::1] first, const int32_t[::1] second, const double[::1] weight, double scale, const int32_t[::1] place, const int64_t[::1] start, int32_t[::1] columns, float[::1] values)
@cython.locals(at=int64_t[::1])
cpdef object turn(const int64_t[::1] start, const int32_t[::1] columns, const float[::1] values, int32_t[::1] turned, float[::1] turned_values)
cpdef object sum_rows(const int64_t[::1] start, const float[::1] values, double[::1] total)
@cython.locals(rows=int64_t, mark=int64_t[:, ::1], reached=int64_t[::1], queue=int32_t[:, ::1], joined=int64_t, joined_last=int64_t, ahead=int64_t, now=int64_t, after=int64_t, count=int64_t, found=int64_t, stamp=int64_t)
cpdef object count_walks(int64_t window, const int64_t[::1] start, const int32_t[::1] columns)
@cython.locals(now=int64_t, after=int64_t, count=int64_t, found=int64_t, touched=int64_t, chance=double, part=double, ratio=double, last=bint)
cpdef object log_walks(int64_t low, int64_t high, int64_t window, const int64_t[::1] start, const int32_t[::1] columns, const float[::1] values, const double[::1] degree, double scale, double[:, ::1] share, int32_t[:, ::1] queue, int64_t[::1] log_start, int32_t[::1] log_columns, float[::1] log_values)
cpdef object multiply(const int64_t[::1] start, const int32_t[::1] columns, const float[::1] values, const float[:, ::1] old, float[:, ::1] block, Py_ssize_t column)
cpdef object add_columns(const int64_t[::1] start, const int32_t[::1] columns, const float[::1] values, const int32_t[::1] to, const float[::1] sign, float[:, ::1] block)
cpdef object write_dense(const int64_t[::1] start, const int32_t[::1] columns, const float[::1] values, double[:, ::1] dense)
