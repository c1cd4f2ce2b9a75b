/* Loops over one row, built once for each CPU level (see _rows.c and meson.build). */
#ifndef DYGCN_ROWS_H
#define DYGCN_ROWS_H
#include <stddef.h>
#include <stdint.h>

enum { DYGCN_INT8, DYGCN_INT16, DYGCN_INT32, DYGCN_INT64, DYGCN_KINDS };

#ifdef _MSC_VER
#include <intrin.h>
#pragma fp_contract(off)
#define dygcn_prefetch_line(address) _mm_prefetch((const char *)(address), _MM_HINT_T0)
#else
#define dygcn_prefetch_line(address) __builtin_prefetch((address), 1, 3)
#endif

/* Where a row of a block lies; a build that checks indices ends the process if there is none. */
#ifdef DYGCN_CHECKED
#include <stdio.h>
#include <stdlib.h>
static inline char *dygcn_row_at(char *data, ptrdiff_t rows, ptrdiff_t size, ptrdiff_t at) {
    if (at < 0 || at >= rows) {
        fprintf(stderr, "row %lld of %lld\n", (long long)at, (long long)rows);
        abort();
    }
    return data + at * size;
}
static inline char *dygcn_table_of(char *data, ptrdiff_t rows, const int32_t *at, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count; i++) dygcn_row_at(data, rows, 0, at[i]);
    return data;
}
#else
#define dygcn_row_at(data, rows, size, at) ((data) + (at) * (size))
#define dygcn_table_of(data, rows, at, count) (data)
#endif
#define dygcn_row(block, at) dygcn_row_at((block)->data, (block)->rows, (block)->size, (at))

/* Rows of a table that are added to one row of sums, each times a factor. */
typedef struct {
    const int32_t *row;
    const int64_t *factor;
    ptrdiff_t count;
    ptrdiff_t known; /* how many more rows, also of others, can be asked for ahead; 0: the table is near */
    double was, now; /* what makes the sum a message, before and after */
} dygcn_rows_to_add;

typedef struct {
    const char *name;
    /* stored += weight * row; sums may wrap around on the way */
    void (*add[DYGCN_KINDS][DYGCN_KINDS])(void *stored, const void *row, int64_t weight, ptrdiff_t n);
    /* add rows of a table; out = round(stored * now) - round(before * was), if it is not NULL; whether any is not zero */
    int (*add_all[DYGCN_KINDS][DYGCN_KINDS])(void *stored, const void *table, const dygcn_rows_to_add *add,
                                             int32_t *out, ptrdiff_t n);
    /* out = round(stored * inverse) */
    void (*message[DYGCN_KINDS])(const void *stored, double inverse, int32_t *out, ptrdiff_t n);
    /* out += row * (weight / max(|row|, floor)) for each row; squares are whole numbers, so their sum is exact */
    void (*add_units[DYGCN_KINDS])(const void *rows, ptrdiff_t count, double floor, double weight, double *out,
                                   ptrdiff_t n);
    /* out = row * steps / max(|row * steps|, floor) for each row, squares summed in order */
    void (*units[DYGCN_KINDS])(const void *rows, ptrdiff_t count, const double *steps, double floor, float *out,
                               ptrdiff_t n);
    /* out = row / |row| for each row, squares summed in order; how many are zero, and were not
       written. The rows are zero afterwards */
    ptrdiff_t (*scale_to_one)(double *rows, ptrdiff_t count, float *out, ptrdiff_t n);
    /* products of two rows in double precision, summed in order; rows are the first ones where none are named */
    void (*dots)(const float *left, const int64_t *left_at, const float *right, const int64_t *right_at,
                 ptrdiff_t count, double *out, ptrdiff_t n);
    /* products of rows with one query in single precision: sixteen sums each, added up in order */
    void (*scores)(const float *rows, const int64_t *at, ptrdiff_t count, const float *query, double *out, ptrdiff_t n);
    /* out[rows, dim] += in[rows, width] @ weights[width, dim], each number summed in the order of the width */
    void (*project)(const float *in, ptrdiff_t rows, ptrdiff_t width, const float *weights, ptrdiff_t dim,
                    float *out);
    /* out[rows, width] = matrix @ old[:, width], of a sparse matrix row by row; out has rows of step numbers */
    void (*multiply)(const int64_t *start, const int32_t *columns, const float *values, ptrdiff_t rows,
                     const float *old, ptrdiff_t width, float *out, ptrdiff_t step);
} dygcn_row_loops;

/* The loops of a CPU level: "baseline", "avx2", "avx512"; NULL if this machine or this build has no such. */
const dygcn_row_loops *dygcn_rows_of(const char *name);
/* The loops of the highest level that there is. */
const dygcn_row_loops *dygcn_rows_best(void);

#endif
