from libc.stdint cimport int32_t, int64_t, uint64_t
from dygcn.engine._native cimport folded  # brings its C declarations along

cdef extern from "_rows.h":
    ctypedef struct dygcn_row_loops:
        const char *name
        void (*add[4][4])(void *stored, const void *row, int64_t weight, Py_ssize_t n) noexcept nogil
        void (*message[4])(const void *stored, double inverse, int32_t *out, Py_ssize_t n) noexcept nogil
        void (*add_units[4])(const void *rows, Py_ssize_t count, double floor, double weight, double *out, Py_ssize_t n) noexcept nogil
        void (*units[4])(const void *rows, Py_ssize_t count, const double *steps, double floor, float *out, Py_ssize_t n) noexcept nogil
        Py_ssize_t (*scale_to_one)(double *rows, Py_ssize_t count, float *out, Py_ssize_t n) noexcept nogil
        void (*dots)(const float *left, const int64_t *left_at, const float *right, const int64_t *right_at, Py_ssize_t count, double *out, Py_ssize_t n) noexcept nogil
        void (*scores)(const float *rows, const int64_t *at, Py_ssize_t count, const float *query, double *out, Py_ssize_t n) noexcept nogil
        void (*project)(const float *inputs, Py_ssize_t rows, Py_ssize_t width, const float *weights, Py_ssize_t dim, float *out) noexcept nogil
        void (*multiply)(const int64_t *start, const int32_t *columns, const float *values, Py_ssize_t rows, const float *old, Py_ssize_t width, float *out, Py_ssize_t step) noexcept nogil
    const dygcn_row_loops *dygcn_rows_of(const char *name)
    const dygcn_row_loops *dygcn_rows_best()

cdef extern from *:
    """
    static inline void dygcn_prefetch_row(const char *row, ptrdiff_t size) {
        for (ptrdiff_t at = 0; at < size; at += 64) dygcn_prefetch_line(row + at);
    }
    #define dygcn_copy_row(to, from, size) memcpy((to), (from), (size))
    #define dygcn_clear_row(to, size) memset((to), 0, (size))
    /* +1 where a bit is set, else -1; eight at once, each in a byte of a word */
    static inline void dygcn_write_signs(signed char *to, uint64_t bits, ptrdiff_t n) {
        const uint64_t ones = 0x0101010101010101u;
        for (ptrdiff_t j = 0; j < n; j += 8, bits >>= 8) {
            uint64_t apart = (bits & 255) * ones & 0x8040201008040201u;
            uint64_t set = (apart + 0x7F * ones) >> 7 & ones;
            uint64_t signs = (ones - set) * 255 | set;
            if (j + 8 <= n) for (int k = 0; k < 8; k++) to[j + k] = (signed char)(signs >> 8 * k);
            else for (ptrdiff_t k = 0; k < n - j; k++) to[j + k] = (signed char)(signs >> 8 * k);
        }
    }
    """
    void dygcn_write_signs(signed char *to, uint64_t bits, Py_ssize_t n) noexcept nogil
    void dygcn_prefetch_row(const char *row, Py_ssize_t size) noexcept nogil
    void dygcn_copy_row(char *to, const char *row, Py_ssize_t size) noexcept nogil
    void dygcn_clear_row(char *to, Py_ssize_t size) noexcept nogil

cdef const dygcn_row_loops *LOOPS


cdef class RowBlock:
    cdef readonly object array
    cdef const unsigned char[::1] owner
    cdef char *data
    cdef const dygcn_row_loops *loops
    cdef Py_ssize_t rows
    cdef Py_ssize_t width
    cdef Py_ssize_t size
    cdef int kind


cdef extern from "_rows.h":
    char *row_at "dygcn_row"(RowBlock block, Py_ssize_t at) noexcept nogil


cdef inline void prefetch_row(RowBlock block, Py_ssize_t at) noexcept nogil:
    dygcn_prefetch_row(block.data + at * block.size, block.size)


cdef inline void clear_row(RowBlock block, Py_ssize_t at) noexcept nogil:
    dygcn_clear_row(row_at(block, at), block.size)


cdef inline void copy_row(RowBlock block, Py_ssize_t at, RowBlock out, Py_ssize_t to) noexcept nogil:
    dygcn_copy_row(row_at(out, to), row_at(block, at), block.size)


cdef inline void write_signs(RowBlock out, Py_ssize_t to, Py_ssize_t start, uint64_t bits) noexcept nogil:
    dygcn_write_signs(<signed char *>(out.data + to * out.size + start), bits, min(out.width - start, 64))


cdef inline int64_t number_at(RowBlock block, Py_ssize_t at, Py_ssize_t column) noexcept nogil:
    cdef const char *row = row_at(block, at)
    if block.kind == 2:
        return (<const int32_t *>row)[column]
    if block.kind == 0:
        return (<const signed char *>row)[column]
    if block.kind == 3:
        return (<const int64_t *>row)[column]
    return (<const short *>row)[column]


cdef inline void add_row(RowBlock stored, Py_ssize_t at, RowBlock table, Py_ssize_t row, int64_t weight) noexcept nogil:
    stored.loops.add[stored.kind][table.kind](
        row_at(stored, at), row_at(table, row), weight, stored.width
    )


cdef inline void write_message(RowBlock stored, Py_ssize_t at, double inverse, RowBlock out, Py_ssize_t to) noexcept nogil:
    stored.loops.message[stored.kind](
        row_at(stored, at), inverse, <int32_t *>(row_at(out, to)), stored.width
    )


cdef inline void add_units(RowBlock block, Py_ssize_t n, double floor, double weight, double[:, ::1] out) noexcept nogil:
    if n > 0 and block.width > 0:
        LOOPS.add_units[block.kind](block.data, n, floor, weight, &out[0, 0], block.width)


cdef inline void write_units(
    RowBlock block, Py_ssize_t first, Py_ssize_t n, const double[::1] steps, double floor, float[:, ::1] out
) noexcept nogil:
    if n > 0 and block.width > 0:
        LOOPS.units[block.kind](block.data + first * block.size, n, &steps[0], floor, &out[0, 0], block.width)


cdef inline Py_ssize_t scale_to_one(double[:, ::1] rows, Py_ssize_t n, float[:, ::1] out, Py_ssize_t first) noexcept nogil:
    return LOOPS.scale_to_one(&rows[0, 0], n, &out[first, 0], rows.shape[1]) if n > 0 and rows.shape[1] > 0 else n


cdef inline void write_squares(const float[:, ::1] rows, double[::1] out) noexcept nogil:
    if rows.shape[0] > 0 and rows.shape[1] > 0:
        LOOPS.dots(&rows[0, 0], NULL, &rows[0, 0], NULL, rows.shape[0], &out[0], rows.shape[1])


cdef inline void write_dots(
    const float[:, ::1] left, const int64_t[::1] left_at, const float[:, ::1] right, const int64_t[::1] right_at, double[::1] out
) noexcept nogil:
    if out.shape[0] > 0 and left.shape[1] > 0:
        LOOPS.dots(&left[0, 0], &left_at[0], &right[0, 0], &right_at[0], out.shape[0], &out[0], left.shape[1])


cdef inline void write_scores(const float[:, ::1] rows, const int64_t[::1] at, const float[::1] query, double[::1] out) noexcept nogil:
    if out.shape[0] > 0 and query.shape[0] > 0:
        LOOPS.scores(&rows[0, 0], &at[0], out.shape[0], &query[0], &out[0], query.shape[0])


cdef inline void add_product(const float[:, ::1] inputs, Py_ssize_t n, const float[:, ::1] weights, float[:, ::1] out, Py_ssize_t first) noexcept nogil:
    if n > 0 and weights.shape[0] > 0 and weights.shape[1] > 0:
        LOOPS.project(&inputs[0, 0], n, weights.shape[0], &weights[0, 0], weights.shape[1], &out[first, 0])


cdef inline void write_sparse_product(
    const int64_t[::1] start, const int32_t[::1] columns, const float[::1] values, const float[:, ::1] old, float[:, ::1] out, Py_ssize_t column
) noexcept nogil:
    if old.shape[0] > 0 and old.shape[1] > 0:
        LOOPS.multiply(
            &start[0], &columns[0] if columns.shape[0] else NULL, &values[0] if values.shape[0] else NULL,
            old.shape[0], &old[0, 0], old.shape[1], &out[0, column], out.shape[1],
        )


cdef extern from *:
    """
    #define dygcn_add_all(stored, at, table, rows_, factors, first, stop, ahead, before, after, out, to)             \
        ((stored)->loops->add_all[(stored)->kind][(table)->kind](                                                    \
            dygcn_row(stored, at),                                                                                   \
            dygcn_table_of((table)->data, (table)->rows, (const int32_t *)(rows_).data + (first), (stop) - (first)), \
            &(dygcn_rows_to_add){(const int32_t *)(rows_).data + (first), (const int64_t *)(factors).data + (first), \
                                 (stop) - (first), (ahead) - (first), (before), (after)},                            \
            (int32_t *)((to) < 0 ? NULL : dygcn_row(out, to)), (stored)->width))
    """
    # A macro, since it is handed arrays for every row, and these are large structures.
    bint add_all "dygcn_add_all"(
        RowBlock stored, Py_ssize_t at, RowBlock table, const int32_t[::1] rows, const int64_t[::1] factors,
        Py_ssize_t first, Py_ssize_t stop, Py_ssize_t stop_ahead, double was, double now, RowBlock out, Py_ssize_t to
    ) noexcept nogil
