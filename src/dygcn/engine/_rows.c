/* Loops over one row. This file is compiled once for each CPU level, with another LEVEL each time; once more
   without one, for choosing between them. No fused multiply-add, no reordering: all levels give the same bits. */
#include "_rows.h"

#include <math.h>
#include <string.h>

#ifdef LEVEL

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

/* Adding this to a number below 2^51 in magnitude leaves it rounded to even in the low bits. */
#define ROUND_MAGIC 6755399441055744.0

#include "_products.h"

static inline int32_t rounded(double x) {
    double moved = x + ROUND_MAGIC;
    int64_t bits;
    memcpy(&bits, &moved, sizeof bits);
    return (int32_t)bits;
}

/* Arithmetic in the unsigned type of the row: it wraps around, and is as wide as need be. */
#define ADD(S, US, T, name)                                                                          \
    static void name(void *restrict to, const void *restrict from, int64_t weight, ptrdiff_t n) {    \
        S *restrict s = to;                                                                          \
        const T *restrict t = from;                                                                  \
        if (weight == 1)                                                                             \
            for (ptrdiff_t j = 0; j < n; j++) s[j] = (S)((US)s[j] + (US)t[j]);                       \
        else if (weight == -1)                                                                       \
            for (ptrdiff_t j = 0; j < n; j++) s[j] = (S)((US)s[j] - (US)t[j]);                       \
        else {                                                                                       \
            const US w = (US)weight;                                                                 \
            for (ptrdiff_t j = 0; j < n; j++) s[j] = (S)((US)s[j] + (US)((uint64_t)w * (US)t[j]));   \
        }                                                                                            \
    }

#define BLOCK 64 /* columns */
#define ROWS_AHEAD 6

static inline void prefetch_row(const char *row, ptrdiff_t size) {
    for (ptrdiff_t at = 0; at < size; at += 64) dygcn_prefetch_line(row + at);
}

/* Blocks of columns stay in registers while all rows are added to them. Where nobody asks by how much a message
   moved, the first column nearly always settles that it did. */
#define ADD_ALL(S, US, k, T, t)                                                                               \
    static inline int32_t first_moves_##k##_##t(const S *s, const T *table, const dygcn_rows_to_add *add,     \
                                                ptrdiff_t n) {                                                \
        US sum = (US)s[0];                                                                                    \
        for (ptrdiff_t c = 0; c < add->count; c++)                                                            \
            sum = (US)(sum + (US)((uint64_t)(US)add->factor[c] * (US)table[add->row[c] * n]));                \
        return rounded((double)(S)sum * add->now) ^ rounded((double)s[0] * add->was);                         \
    }                                                                                                         \
    INLINE int32_t add_in_##k##_##t(S *restrict s, const T *restrict table, const dygcn_rows_to_add *add,     \
                                    int32_t *restrict out, int asked, ptrdiff_t known, ptrdiff_t width,       \
                                    const ptrdiff_t n) {                                                      \
        US sum[BLOCK];                                                                                        \
        const double was = add->was, now = add->now;                                                          \
        int32_t any = 0;                                                                                      \
        for (ptrdiff_t j = 0; j < n; j++) sum[j] = (US)s[j];                                                  \
        for (ptrdiff_t c = 0; c < add->count; c++) {                                                          \
            const T *restrict row = table + add->row[c] * width;                                              \
            const US w = (US)add->factor[c];                                                                  \
            if (c + ROWS_AHEAD < known)                                                                       \
                prefetch_row((const char *)(table + add->row[c + ROWS_AHEAD] * width),                        \
                             width * (ptrdiff_t)sizeof(T));                                                   \
            if (w == 1)                                                                                       \
                for (ptrdiff_t j = 0; j < n; j++) sum[j] = (US)(sum[j] + (US)row[j]);                         \
            else                                                                                              \
                for (ptrdiff_t j = 0; j < n; j++) sum[j] = (US)(sum[j] + (US)((uint64_t)w * (US)row[j]));     \
        }                                                                                                     \
        if (out != NULL)                                                                                      \
            for (ptrdiff_t j = 0; j < n; j++) {                                                               \
                int32_t d = rounded((double)(S)sum[j] * now) - rounded((double)s[j] * was);                   \
                out[j] = d;                                                                                   \
                any |= d;                                                                                     \
            }                                                                                                 \
        else if (asked)                                                                                       \
            for (ptrdiff_t j = 0; j < n; j++)                                                                 \
                any |= rounded((double)(S)sum[j] * now) ^ rounded((double)s[j] * was);                        \
        for (ptrdiff_t j = 0; j < n; j++) s[j] = (S)sum[j];                                                   \
        return any;                                                                                           \
    }                                                                                                         \
    static int32_t add_block_##k##_##t(S *restrict s, const T *restrict table, const dygcn_rows_to_add *add,  \
                                       int32_t *restrict out, int asked, ptrdiff_t known, ptrdiff_t width) {  \
        return add_in_##k##_##t(s, table, add, out, asked, known, width, BLOCK);                              \
    }                                                                                                         \
    static int32_t add_rest_##k##_##t(S *restrict s, const T *restrict table, const dygcn_rows_to_add *add,   \
                                      int32_t *restrict out, int asked, ptrdiff_t known, ptrdiff_t width,     \
                                      ptrdiff_t n) {                                                          \
        return add_in_##k##_##t(s, table, add, out, asked, known, width, n);                                  \
    }                                                                                                         \
    static int add_all_##k##_##t(void *stored, const void *rows, const dygcn_rows_to_add *add, int32_t *out,  \
                                 ptrdiff_t n) {                                                               \
        S *s = stored;                                                                                        \
        const T *table = rows;                                                                                \
        int32_t any = 0;                                                                                      \
        ptrdiff_t j = 0;                                                                                      \
        if (out == NULL) {                                                                                    \
            any = first_moves_##k##_##t(s, table, add, n);                                                    \
            if (any && add->count == 1) {                                                                     \
                if (ROWS_AHEAD < add->known)                                                                  \
                    prefetch_row((const char *)(table + add->row[ROWS_AHEAD] * n), n * (ptrdiff_t)sizeof(T)); \
                add_##k##_##t(s, table + add->row[0] * n, add->factor[0], n);                                 \
                return 1;                                                                                     \
            }                                                                                                 \
        }                                                                                                     \
        for (; j + BLOCK <= n; j += BLOCK)                                                                    \
            any |= add_block_##k##_##t(s + j, table + j, add, out ? out + j : NULL, any == 0,                 \
                                       j ? 0 : add->known, n);                                                \
        if (j < n)                                                                                            \
            any |= add_rest_##k##_##t(s + j, table + j, add, out ? out + j : NULL, any == 0,                  \
                                      j ? 0 : add->known, n, n - j);                                          \
        return any != 0;                                                                                      \
    }

#define ROWS(S, US, k)                                                                               \
    ADD(S, US, int8_t, add_##k##_8)                                                                  \
    ADD(S, US, int16_t, add_##k##_16)                                                                \
    ADD(S, US, int32_t, add_##k##_32)                                                                \
    ADD(S, US, int64_t, add_##k##_64)                                                                \
    ADD_ALL(S, US, k, int8_t, 8)                                                                     \
    ADD_ALL(S, US, k, int16_t, 16)                                                                   \
    ADD_ALL(S, US, k, int32_t, 32)                                                                   \
    ADD_ALL(S, US, k, int64_t, 64)                                                                   \
    static void message_##k(const void *stored, double inverse, int32_t *restrict out, ptrdiff_t n) { \
        const S *restrict s = stored;                                                                \
        for (ptrdiff_t j = 0; j < n; j++) out[j] = rounded((double)s[j] * inverse);                  \
    }                                                                                                \
    static void add_units_##k(const void *rows, ptrdiff_t count, double floor, double weight,        \
                              double *restrict out, ptrdiff_t n) {                                   \
        for (ptrdiff_t i = 0; i < count; i++, out += n) {                                            \
            const S *restrict s = (const S *)rows + i * n;                                           \
            int64_t square = 0;                                                                      \
            for (ptrdiff_t j = 0; j < n; j++) square += (int64_t)s[j] * (int64_t)s[j];               \
            double length = sqrt((double)square);                                                    \
            double factor = weight / (length > floor ? length : floor);                              \
            for (ptrdiff_t j = 0; j < n; j++) out[j] += (double)s[j] * factor;                       \
        }                                                                                            \
    }                                                                                                \
    INLINE void add_squares_##k(const S *restrict s, ptrdiff_t n, const double *restrict steps,      \
                                double *square, const ptrdiff_t count, const ptrdiff_t stop) {       \
        double part[CHAINS][STEPS];                                                                  \
        for (ptrdiff_t i = 0; i < count; i++)                                                        \
            for (ptrdiff_t j = 0; j < stop; j++) {                                                   \
                double value = (double)s[i * n + j] * steps[j];                                      \
                part[i][j] = value * value;                                                          \
            }                                                                                        \
        add_in_order(part, count, stop, square);                                                     \
    }                                                                                                \
    static void units_of_##k(const S *restrict s, ptrdiff_t count, const double *restrict steps,     \
                             double floor, float *restrict out, ptrdiff_t n) {                       \
        double square[CHAINS] = {0};                                                                 \
        ptrdiff_t j = 0;                                                                             \
        if (count == CHAINS)                                                                         \
            for (; j + STEPS <= n; j += STEPS) add_squares_##k(s + j, n, steps + j, square, CHAINS, STEPS); \
        for (; j < n; j += STEPS)                                                                    \
            add_squares_##k(s + j, n, steps + j, square, count, n - j < STEPS ? n - j : STEPS);      \
        for (ptrdiff_t i = 0; i < count; i++, s += n, out += n) {                                    \
            double length = sqrt(square[i]);                                                         \
            double inverse = 1.0 / (length > floor ? length : floor);                                \
            for (ptrdiff_t j = 0; j < n; j++) out[j] = (float)((double)s[j] * steps[j] * inverse);   \
        }                                                                                            \
    }                                                                                                \
    static void units_##k(const void *rows, ptrdiff_t count, const double *steps, double floor,      \
                          float *out, ptrdiff_t n) {                                                 \
        for (ptrdiff_t i = 0; i < count; i += CHAINS)                                                \
            units_of_##k((const S *)rows + i * n, count - i < CHAINS ? count - i : CHAINS, steps,    \
                         floor, out + i * n, n);                                                     \
    }

ROWS(int8_t, uint8_t, 8)
ROWS(int16_t, uint16_t, 16)
ROWS(int32_t, uint32_t, 32)
ROWS(int64_t, uint64_t, 64)

#define OF_KINDS(name) {name##_8, name##_16, name##_32, name##_64}
const dygcn_row_loops JOIN(dygcn_rows_, LEVEL) = {
    TEXT(LEVEL),
    {OF_KINDS(add_8), OF_KINDS(add_16), OF_KINDS(add_32), OF_KINDS(add_64)},
    {OF_KINDS(add_all_8), OF_KINDS(add_all_16), OF_KINDS(add_all_32), OF_KINDS(add_all_64)},
    OF_KINDS(message),
    OF_KINDS(add_units),
    OF_KINDS(units),
    scale_to_one,
    dots,
    scores,
    project,
    multiply,
};

#else /* choosing between levels */

extern const dygcn_row_loops dygcn_rows_baseline;
#ifdef DYGCN_HAS_LEVELS
extern const dygcn_row_loops dygcn_rows_avx2, dygcn_rows_avx512;

#ifdef _MSC_VER
#include <windows.h>
static int has_avx2(void) { return IsProcessorFeaturePresent(40); }
static int has_avx512(void) { return IsProcessorFeaturePresent(41); }
#else
static int has_avx2(void) { return __builtin_cpu_supports("avx2"); }
static int has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif
#endif

const dygcn_row_loops *dygcn_rows_of(const char *name) {
    if (strcmp(name, "baseline") == 0) return &dygcn_rows_baseline;
#ifdef DYGCN_HAS_LEVELS
    if (strcmp(name, "avx2") == 0 && has_avx2()) return &dygcn_rows_avx2;
    if (strcmp(name, "avx512") == 0 && has_avx512()) return &dygcn_rows_avx512;
#endif
    return NULL;
}

const dygcn_row_loops *dygcn_rows_best(void) {
    const char *names[] = {"avx512", "avx2"};
    for (int i = 0; i < 2; i++) {
        const dygcn_row_loops *found = dygcn_rows_of(names[i]);
        if (found != NULL) return found;
    }
    return &dygcn_rows_baseline;
}

#endif
