/* SPDX-License-Identifier: MIT */
#include "base/number.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool number_u64(const char *text, size_t length, uint64_t *out)
{
    if (length == 0 || length > 20)
        return false;
    uint64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
            return false;
    }
    *out = value;
    return true;
}

bool number_i64(const char *text, size_t length, int64_t *out)
{
    bool negative = length > 0 && text[0] == '-';
    uint64_t magnitude;
    if (!number_u64(text + negative, length - negative, &magnitude))
        return false;
    if (magnitude > (uint64_t)INT64_MAX + negative)
        return false;
    *out = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

bool number_double(const char *text, size_t length, double *out)
{
    char copy[64];
    if (length == 0 || length >= sizeof(copy))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isdigit((unsigned char)text[i]) && strchr("-+.eE", text[i]) == NULL)
            return false;
    if (text[0] == '+' || memchr(text, '\0', length) != NULL)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    char *end;
    double value = strtod(copy, &end);
    if (end != copy + length || !isfinite(value))
        return false;
    *out = value;
    return true;
}

struct unit {
    const char *name;
    uint64_t factor;
};

static bool with_unit(const char *text, size_t length, const struct unit *units, size_t count, uint64_t *out)
{
    size_t digits = 0;
    while (digits < length && isdigit((unsigned char)text[digits]))
        digits++;
    uint64_t value;
    if (!number_u64(text, digits, &value))
        return false;
    size_t rest = digits;
    while (rest < length && text[rest] == ' ')
        rest++;
    for (size_t i = 0; i < count; i++)
        if (strlen(units[i].name) == length - rest &&
            strncasecmp(text + rest, units[i].name, length - rest) == 0)
            return !__builtin_mul_overflow(value, units[i].factor, out);
    return false;
}

bool number_bytes(const char *text, size_t length, uint64_t *out)
{
    static const struct unit units[] = {{"", 1},          {"B", 1},          {"K", 1u << 10},
                                        {"KB", 1u << 10}, {"KiB", 1u << 10}, {"M", 1u << 20},
                                        {"MB", 1u << 20}, {"MiB", 1u << 20}, {"G", 1u << 30},
                                        {"GB", 1u << 30}, {"GiB", 1u << 30}, {"TiB", 1ull << 40}};
    return with_unit(text, length, units, sizeof(units) / sizeof(units[0]), out);
}

bool number_duration_ms(const char *text, size_t length, uint64_t *out)
{
    static const struct unit units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    if (length == 1 && *text == '0') {
        *out = 0;
        return true;
    }
    return with_unit(text, length, units, sizeof(units) / sizeof(units[0]), out);
}

bool number_hex64(const char *text, size_t length, uint64_t *out)
{
    if (length == 0 || length > 16)
        return false;
    uint64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        int c = tolower((unsigned char)text[i]);
        if (!isxdigit(c))
            return false;
        value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *out = value;
    return true;
}

const char *number_grouped(uint64_t value, char out[NUMBER_GROUPED_SIZE])
{
    char reversed[NUMBER_GROUPED_SIZE];
    size_t length = 0;
    for (unsigned digits = 0; digits == 0 || value != 0; digits++, value /= 10) {
        if (digits != 0 && digits % 3 == 0)
            reversed[length++] = ',';
        reversed[length++] = (char)('0' + value % 10);
    }
    for (size_t i = 0; i < length; i++)
        out[i] = reversed[length - 1 - i];
    out[length] = '\0';
    return out;
}

char *number_write(char *out, uint64_t value)
{
    char digits[20];
    int count = 0;
    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    while (count > 0)
        *out++ = digits[--count];
    return out;
}

bool number_unpercent(const char *text, size_t length, char *out, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '%') {
            uint64_t byte;
            if (length - i < 3 || !number_hex64(text + i + 1, 2, &byte))
                return false;
            c = (char)byte;
            i += 2;
        }
        if (c == '\0' || used + 1 >= size)
            return false;
        out[used++] = c;
    }
    out[used] = '\0';
    return true;
}
