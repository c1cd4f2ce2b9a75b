/* Loops over several rows, and products of matrices, for one CPU level: a part of _rows.c.
   Every number is summed in one order, however many rows there are: bits depend on nothing else. */

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static __forceinline
#endif

/* A sum in order waits for each addition: so sums of several rows go on side by side. */
#define CHAINS 8
#define STEPS 32

INLINE void add_in_order(double part[CHAINS][STEPS], const ptrdiff_t count, const ptrdiff_t stop, double *sum) {
    double total[CHAINS];
    for (ptrdiff_t i = 0; i < count; i++) total[i] = sum[i];
    for (ptrdiff_t j = 0; j < stop; j++)
        for (ptrdiff_t i = 0; i < count; i++) total[i] += part[i][j];
    for (ptrdiff_t i = 0; i < count; i++) sum[i] = total[i];
}

INLINE void add_row_squares(const double *restrict rows, ptrdiff_t n, double *sum, const ptrdiff_t count,
                            const ptrdiff_t stop) {
    double part[CHAINS][STEPS];
    for (ptrdiff_t i = 0; i < count; i++)
        for (ptrdiff_t j = 0; j < stop; j++) part[i][j] = rows[i * n + j] * rows[i * n + j];
    add_in_order(part, count, stop, sum);
}

static void row_squares(const double *rows, ptrdiff_t count, double *sum, ptrdiff_t n) {
    ptrdiff_t j = 0;
    if (count == CHAINS)
        for (; j + STEPS <= n; j += STEPS) add_row_squares(rows + j, n, sum, CHAINS, STEPS);
    for (; j < n; j += STEPS) add_row_squares(rows + j, n, sum, count, n - j < STEPS ? n - j : STEPS);
}

/* Rows of doubles to length one; how many have none, and are not written. The rows are zero afterwards. */
static ptrdiff_t scale_to_one(double *restrict rows, ptrdiff_t count, float *restrict out, ptrdiff_t n) {
    ptrdiff_t none = 0;
    for (ptrdiff_t first = 0; first < count; first += CHAINS) {
        const ptrdiff_t some = count - first < CHAINS ? count - first : CHAINS;
        double square[CHAINS] = {0};
        row_squares(rows + first * n, some, square, n);
        for (ptrdiff_t i = 0; i < some; i++) {
            const double *restrict row = rows + (first + i) * n;
            const double inverse = 1.0 / sqrt(square[i]);
            if (square[i] > 0)
                for (ptrdiff_t j = 0; j < n; j++) out[(first + i) * n + j] = (float)(row[j] * inverse);
            else
                none++;
        }
        memset(rows + first * n, 0, some * n * sizeof(double));
    }
    return none;
}

INLINE void add_products(const float *const *left, const float *const *right, ptrdiff_t from, double *sum,
                         const ptrdiff_t count, const ptrdiff_t stop) {
    double part[CHAINS][STEPS];
    for (ptrdiff_t i = 0; i < count; i++) {
        const float *restrict a = left[i] + from, *restrict b = right[i] + from;
        for (ptrdiff_t j = 0; j < stop; j++) part[i][j] = (double)a[j] * (double)b[j];
    }
    add_in_order(part, count, stop, sum);
}

/* Row i, or the one that is named, of `left` times that of `right`. */
static void dots(const float *left, const int64_t *left_at, const float *right, const int64_t *right_at,
                 ptrdiff_t count, double *restrict out, ptrdiff_t n) {
    for (ptrdiff_t first = 0; first < count; first += CHAINS) {
        const ptrdiff_t some = count - first < CHAINS ? count - first : CHAINS;
        const float *a[CHAINS], *b[CHAINS];
        double sum[CHAINS] = {0};
        ptrdiff_t j = 0;
        for (ptrdiff_t i = 0; i < some; i++) {
            a[i] = left + (left_at ? left_at[first + i] : first + i) * n;
            b[i] = right + (right_at ? right_at[first + i] : first + i) * n;
        }
        if (some == CHAINS)
            for (; j + STEPS <= n; j += STEPS) add_products(a, b, j, sum, CHAINS, STEPS);
        for (; j < n; j += STEPS) add_products(a, b, j, sum, some, n - j < STEPS ? n - j : STEPS);
        for (ptrdiff_t i = 0; i < some; i++) out[first + i] = sum[i];
    }
}

#define AHEAD 8 /* rows that are asked for before they are needed */
#define SIDE 16 /* sums of a score that go on side by side, at every level */

/* Rows times one query: less exact than `dots`, and as fast as rows come from memory. */
static void scores(const float *restrict table, const int64_t *restrict at, ptrdiff_t count,
                   const float *restrict query, double *restrict out, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < count; i++) {
        const float *rows = table + at[i] * n;
        float sum[SIDE] = {0};
        if (i + AHEAD < count)
            for (ptrdiff_t j = 0; j < n; j += 16) dygcn_prefetch_line(table + at[i + AHEAD] * n + j);
        double total = 0;
        ptrdiff_t j = 0;
        for (; j + SIDE <= n; j += SIDE)
            for (ptrdiff_t s = 0; s < SIDE; s++) sum[s] += rows[j + s] * query[j + s];
        for (ptrdiff_t s = 0; j + s < n; s++) sum[s] += rows[j + s] * query[j + s];
        for (ptrdiff_t s = 0; s < SIDE; s++) total += sum[s];
        out[i] = total;
    }
}

/* ---- products of matrices: tiles of rows by vectors stay in registers, each number is summed in order ---- */

/* Numbers in a register, and registers for sums: others hold weights. */
#if defined(__AVX512F__)
#define LANES 16
#define SUMS 24
#elif defined(__AVX2__)
#define LANES 8
#define SUMS 12
#else
#define LANES 4
#define SUMS 8
#endif
#define NEAR 4096 /* numbers that fit the nearest cache beside others */
#define MANY 12

#if defined(__GNUC__)
typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float anywhere __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
#define ALL_OF _Pragma("GCC unroll 24")
#else
typedef struct { float at[LANES]; } vec, anywhere;
#define ALL_OF
#endif

INLINE vec loaded(const float *from) {
    return *(const anywhere *)from;
}

INLINE vec plus(vec sum, float a, vec w) {
#if defined(__GNUC__)
    return sum + a * w;
#else
    for (int i = 0; i < LANES; i++) sum.at[i] += a * w.at[i];
    return sum;
#endif
}

/* Sums of some rows by some vectors of columns, over `depth` columns of the input. */
INLINE void project_tile(const float *restrict in, ptrdiff_t width, ptrdiff_t depth, const float *restrict weights,
                         ptrdiff_t dim, float *restrict out, ptrdiff_t step, const int rows, const int vectors) {
    vec sum[SUMS];
    ALL_OF for (int i = 0; i < rows; i++)
        ALL_OF for (int v = 0; v < vectors; v++) sum[i * vectors + v] = loaded(out + i * step + v * LANES);
    for (ptrdiff_t c = 0; c < depth; c++) {
        vec w[8];
        ALL_OF for (int v = 0; v < vectors; v++) w[v] = loaded(weights + c * dim + v * LANES);
        ALL_OF for (int i = 0; i < rows; i++) {
            const float a = in[i * width + c];
            ALL_OF for (int v = 0; v < vectors; v++) sum[i * vectors + v] = plus(sum[i * vectors + v], a, w[v]);
        }
    }
    ALL_OF for (int i = 0; i < rows; i++)
        ALL_OF for (int v = 0; v < vectors; v++) *(anywhere *)(out + i * step + v * LANES) = sum[i * vectors + v];
}

/* All rows by some vectors of columns, over as many columns of the input at a time as fit the nearest cache.
   For many rows these weights are copied side by side first: no load then lies across two lines of the cache. */
#define PROJECT(vectors)                                                                              \
    static void project_##vectors(const float *in, ptrdiff_t rows, ptrdiff_t width, const float *weights, \
                                  ptrdiff_t dim, float *out, ptrdiff_t step) {                        \
        const ptrdiff_t some = SUMS / vectors, columns = vectors * LANES, most = NEAR / columns;      \
        _Alignas(64) float near[NEAR];                                                                \
        for (ptrdiff_t c = 0; c < width; c += most) {                                                 \
            const ptrdiff_t depth = width - c < most ? width - c : most;                              \
            const float *w = weights + c * dim;                                                       \
            ptrdiff_t w_step = dim, i = 0;                                                            \
            if (rows >= MANY) {                                                                       \
                for (ptrdiff_t r = 0; r < depth; r++)                                                 \
                    memcpy(near + r * columns, w + r * dim, columns * sizeof(float));                 \
                w = near;                                                                             \
                w_step = columns;                                                                     \
            }                                                                                         \
            for (; i + some <= rows; i += some)                                                       \
                project_tile(in + i * width + c, width, depth, w, w_step, out + i * step, step,       \
                             SUMS / vectors, vectors);                                                \
            for (; i < rows; i++)                                                                     \
                project_tile(in + i * width + c, width, depth, w, w_step, out + i * step, step, 1,    \
                             vectors);                                                                \
        }                                                                                             \
    }

PROJECT(8)
PROJECT(4)
PROJECT(2)
PROJECT(1)

/* The last columns, too few for a vector: with some before them, which are summed again and thrown away. */
static void project_rest(const float *in, ptrdiff_t rows, ptrdiff_t width, const float *weights, ptrdiff_t dim,
                         float *out, ptrdiff_t rest) {
    float sums[SUMS][LANES];
    const ptrdiff_t first = dim - LANES;
    for (ptrdiff_t i = 0; i < rows; i += SUMS) {
        const ptrdiff_t some = rows - i < SUMS ? rows - i : SUMS;
        for (ptrdiff_t r = 0; r < some; r++) memcpy(sums[r], out + (i + r) * dim + first, sizeof sums[r]);
        project_1(in + i * width, some, width, weights + first, dim, sums[0], LANES);
        for (ptrdiff_t r = 0; r < some; r++)
            memcpy(out + (i + r + 1) * dim - rest, sums[r] + LANES - rest, rest * sizeof(float));
    }
}

static void project(const float *restrict in, ptrdiff_t rows, ptrdiff_t width, const float *restrict weights,
                    ptrdiff_t dim, float *restrict out) {
    if (dim < LANES) {
        for (ptrdiff_t i = 0; i < rows; i++)
            for (ptrdiff_t c = 0; c < width; c++)
                for (ptrdiff_t j = 0; j < dim; j++) out[i * dim + j] += in[i * width + c] * weights[c * dim + j];
        return;
    }
    if (dim % LANES) project_rest(in, rows, width, weights, dim, out, dim % LANES);
    ptrdiff_t j = 0;
    if (rows == 1)
        for (; dim - j >= 8 * LANES; j += 8 * LANES) project_8(in, rows, width, weights + j, dim, out + j, dim);
    for (; dim - j >= 4 * LANES; j += 4 * LANES) project_4(in, rows, width, weights + j, dim, out + j, dim);
    for (; dim - j >= 2 * LANES; j += 2 * LANES) project_2(in, rows, width, weights + j, dim, out + j, dim);
    for (; dim - j >= LANES; j += LANES) project_1(in, rows, width, weights + j, dim, out + j, dim);
}

/* One row of a sparse matrix times a dense one, in columns that stay in registers. */
INLINE void multiply_tile(const int32_t *restrict columns, const float *restrict values, ptrdiff_t count,
                          ptrdiff_t more, const float *restrict old, ptrdiff_t width, float *restrict out,
                          const int vectors) {
    vec sum[4] = {0};
    for (ptrdiff_t arc = 0; arc < count; arc++) {
        if (arc + AHEAD < more)
            for (int v = 0; v < vectors; v++)
                dygcn_prefetch_line(old + columns[arc + AHEAD] * width + v * LANES);
        const float *restrict row = old + columns[arc] * width;
        ALL_OF for (int v = 0; v < vectors; v++) sum[v] = plus(sum[v], values[arc], loaded(row + v * LANES));
    }
    ALL_OF for (int v = 0; v < vectors; v++) *(anywhere *)(out + v * LANES) = sum[v];
}

static void multiply_rest(const int32_t *restrict columns, const float *restrict values, ptrdiff_t count,
                          const float *restrict old, ptrdiff_t width, float *restrict out, ptrdiff_t n) {
    float sum[LANES] = {0};
    for (ptrdiff_t arc = 0; arc < count; arc++)
        for (ptrdiff_t j = 0; j < n; j++) sum[j] += values[arc] * old[columns[arc] * width + j];
    for (ptrdiff_t j = 0; j < n; j++) out[j] = sum[j];
}

static void multiply(const int64_t *restrict start, const int32_t *columns, const float *values, ptrdiff_t rows,
                     const float *old, ptrdiff_t width, float *out, ptrdiff_t step) {
    for (ptrdiff_t i = 0; i < rows; i++, out += step) {
        const ptrdiff_t count = start[i + 1] - start[i], more = start[rows] - start[i];
        const int32_t *c = columns + start[i];
        const float *x = values + start[i];
        ptrdiff_t j = 0;
        for (; width - j >= 4 * LANES; j += 4 * LANES) multiply_tile(c, x, count, more, old + j, width, out + j, 4);
        for (; width - j >= LANES; j += LANES) multiply_tile(c, x, count, more, old + j, width, out + j, 1);
        if (j < width) multiply_rest(c, x, count, old + j, width, out + j, width - j);
    }
}
