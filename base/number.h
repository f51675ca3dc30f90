/* SPDX-License-Identifier: MIT */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H
/* Strict numbers from bytes that need no terminator: no '+', no blanks, nothing behind the digits. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool number_u64(const char *text, size_t length, uint64_t *out);
bool number_i64(const char *text, size_t length, int64_t *out);

/* Decimal or exponent form: 0.01, 1e-2, .01. Finite only. */
bool number_double(const char *text, size_t length, double *out);

/* Bytes with an optional unit: 512, 64KiB, 512MiB, 2GiB (also K, M, G, KB, MB, GB, all as powers of 1024). */
bool number_bytes(const char *text, size_t length, uint64_t *out);

/* Milliseconds, from a number with a unit: 250ms, 10s, 5m, 2h. 0 needs no unit. */
bool number_duration_ms(const char *text, size_t length, uint64_t *out);

/* At most 16 hexadecimal digits, no prefix. */
bool number_hex64(const char *text, size_t length, uint64_t *out);

/* @a / @b, rounded up. */
static inline uint64_t number_divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* Format a number for people: 1234567 as "1,234,567". Writes into @out, NUL-terminated, and returns it. */
enum { NUMBER_GROUPED_SIZE = 27 };
const char *number_grouped(uint64_t value, char out[NUMBER_GROUPED_SIZE]);

/* Write the decimal digits of @value to @out (at most 20 bytes, no terminator) and return their end. For hot
 * paths. */
char *number_write(char *out, uint64_t value);

/* Undo the percent-encoding of @text into @out, NUL-terminated. False: @text is malformed or holds a NUL, or
 * @out is too small. */
bool number_unpercent(const char *text, size_t length, char *out, size_t size);
#endif
