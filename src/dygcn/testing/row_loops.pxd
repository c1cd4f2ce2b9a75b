from libc.stdint cimport int32_t, int64_t
from dygcn.engine._rows cimport (
    RowBlock,
    add_all,
    add_product,
    add_row,
    add_units,
    clear_row,
    copy_row,
    number_at,
    scale_to_one,
    write_dots,
    write_message,
    write_sparse_product,
    write_scores,
    write_squares,
    write_units,
)

cpdef int64_t change_rows(
    RowBlock stored, RowBlock table, RowBlock messages, const int32_t[::1] rows, const int64_t[::1] factors, double was, double now
)
cpdef object read_rows(
    RowBlock block, const double[::1] steps, double floor, double[:, ::1] total, float[:, ::1] units, float[:, ::1] ones
)
cpdef object multiply_rows(
    const float[:, ::1] left, const int64_t[::1] at, const int64_t[::1] every, double[::1] squares, double[::1] dots, double[::1] scores, const float[:, ::1] weights, float[:, ::1] out
)
cpdef object multiply_sparse(
    const int64_t[::1] start, const int32_t[::1] columns, const float[::1] values, const float[:, ::1] old, float[:, ::1] out
)
