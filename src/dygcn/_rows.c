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

/* Blocks of columns stay in registers, or near, while all rows are added to them. */
#define PART 128
#define ROWS_AHEAD 6

static inline void prefetch_row(const char *row, ptrdiff_t size) {
    for (ptrdiff_t at = 0; at < size; at += 64) dygcn_prefetch_line(row + at);
}

#define ADD_ALL(S, US, T, name)                                                                            \
    static inline int32_t name##_part(S *restrict s, const T *restrict table, const dygcn_rows_to_add *add,\
                                      int32_t *restrict out, int asked, ptrdiff_t known,                   \
                                      ptrdiff_t width, ptrdiff_t n) {                                      \
        US sum[PART];                                                                                      \
        int32_t any = 0;                                                                                   \
        for (ptrdiff_t j = 0; j < n; j++) sum[j] = (US)s[j];                                               \
        for (ptrdiff_t c = 0; c < add->count; c++) {                                                       \
            const T *restrict t = table + add->row[c] * width;                                             \
            const int64_t factor = add->factor[c];                                                         \
            if (c + ROWS_AHEAD < known)                                                                    \
                prefetch_row((const char *)(table + add->row[c + ROWS_AHEAD] * width),                     \
                             width * (ptrdiff_t)sizeof(T));                                                \
            if (factor == 1)                                                                               \
                for (ptrdiff_t j = 0; j < n; j++) sum[j] = (US)(sum[j] + (US)t[j]);                        \
            else if (factor == -1)                                                                         \
                for (ptrdiff_t j = 0; j < n; j++) sum[j] = (US)(sum[j] - (US)t[j]);                        \
            else {                                                                                         \
                const US w = (US)factor;                                                                   \
                for (ptrdiff_t j = 0; j < n; j++) sum[j] = (US)(sum[j] + (US)((uint64_t)w * (US)t[j]));    \
            }                                                                                              \
        }                                                                                                  \
        if (out != NULL)                                                                                   \
            for (ptrdiff_t j = 0; j < n; j++) {                                                            \
                int32_t d = rounded((double)(S)sum[j] * add->now) - rounded((double)s[j] * add->was);      \
                out[j] = d;                                                                                \
                any |= d;                                                                                  \
            }                                                                                              \
        else if (asked)                                                                                    \
            for (ptrdiff_t j = 0; j < n; j++)                                                              \
                any |= rounded((double)(S)sum[j] * add->now) ^ rounded((double)s[j] * add->was);           \
        for (ptrdiff_t j = 0; j < n; j++) s[j] = (S)sum[j];                                                \
        return any;                                                                                        \
    }                                                                                                      \
    static int name(void *stored, const void *table, const dygcn_rows_to_add *add, int32_t *out,           \
                    ptrdiff_t n) {                                                                         \
        S *s = stored;                                                                                     \
        const T *t = table;                                                                                \
        int32_t any = 0;                                                                                   \
        ptrdiff_t j = 0;                                                                                   \
        for (; j + PART <= n; j += PART)                                                                   \
            any |= name##_part(s + j, t + j, add, out ? out + j : NULL, any == 0, j ? 0 : add->known, n, PART);\
        if (j < n)                                                                                         \
            any |= name##_part(s + j, t + j, add, out ? out + j : NULL, any == 0, j ? 0 : add->known, n, n - j);\
        return any != 0;                                                                                   \
    }

#define ROWS(S, US, k)                                                                               \
    ADD(S, US, int8_t, add_##k##_8)                                                                  \
    ADD(S, US, int16_t, add_##k##_16)                                                                \
    ADD(S, US, int32_t, add_##k##_32)                                                                \
    ADD(S, US, int64_t, add_##k##_64)                                                                \
    ADD_ALL(S, US, int8_t, add_all_##k##_8)                                                          \
    ADD_ALL(S, US, int16_t, add_all_##k##_16)                                                        \
    ADD_ALL(S, US, int32_t, add_all_##k##_32)                                                        \
    ADD_ALL(S, US, int64_t, add_all_##k##_64)                                                        \
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

/* The squares are not exact in sum: their order is part of the result. */
static double length(const int32_t *row, ptrdiff_t n) {
    double square = 0.0;
    for (ptrdiff_t j = 0; j < n; j++) square += (double)row[j] * (double)row[j];
    return sqrt(square);
}

#define OF_KINDS(name) {name##_8, name##_16, name##_32, name##_64}
const dygcn_row_loops JOIN(dygcn_rows_, LEVEL) = {
    TEXT(LEVEL),
    {OF_KINDS(add_8), OF_KINDS(add_16), OF_KINDS(add_32), OF_KINDS(add_64)},
    {OF_KINDS(add_all_8), OF_KINDS(add_all_16), OF_KINDS(add_all_32), OF_KINDS(add_all_64)},
    OF_KINDS(message),
    OF_KINDS(add_units),
    OF_KINDS(units),
    length,
    scale_to_one,
    dots,
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
