/* SPDX-License-Identifier: MIT */
#include "shard/log/position.h"

#include <assert.h>
#include <string.h>
#include "base/number.h"

/* --- ids --- */

int log_id_compare(struct log_id a, struct log_id b)
{
    if (a.ms != b.ms)
        return a.ms < b.ms ? -1 : 1;
    return (a.number > b.number) - (a.number < b.number);
}

size_t log_id_format(struct log_id id, char out[LOG_ID_TEXT_MAX])
{
    char *end = number_write(out, id.ms);
    *end++ = '-';
    end = number_write(end, id.number);
    *end = '\0';
    return (size_t)(end - out);
}

bool log_id_parse(struct log_id *out, const char *text, size_t length)
{
    const char *dash = memchr(text, '-', length);
    struct log_id id;
    if (dash == NULL || !number_u64(text, (size_t)(dash - text), &id.ms) ||
        !number_u64(dash + 1, length - (size_t)(dash + 1 - text), &id.number))
        return false;
    *out = id;
    return true;
}

/* --- positions --- */

void log_position_set(struct log_position *p, struct log_id id, const void *bytes, size_t length)
{
    assert(length <= LOG_ENTRY_BYTES_MAX);
    p->id = id;
    p->length = (uint32_t)length;
    memcpy(p->bytes, bytes, length);
}

bool log_position_is(const struct log_position *p, struct log_id id, const void *bytes, size_t length)
{
    return log_id_compare(p->id, id) == 0 && p->length == length && memcmp(p->bytes, bytes, length) == 0;
}

struct log_mark log_mark_of(const struct log_position *p)
{
    struct log_mark mark = {.id = p->id};
    memcpy(mark.head, p->bytes, sizeof(mark.head));
    return mark;
}

/* Below 0: @c is no digit. */
/* One more than the value of a digit; 0: it is none. By a table, as each look at a filter reads 3,200 of
 * them. */
static const uint8_t digit_value[256] = {
    ['0'] = 1, ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9, ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16};

void log_position_format(const struct log_position *p, struct buffer *out)
{
    static const char digits[] = "0123456789abcdef";
    char id[LOG_ID_TEXT_MAX];
    buffer_append(out, id, log_id_format(p->id, id));
    buffer_append(out, " ", 1);
    char *at = buffer_reserve(out, (size_t)p->length * 2);
    if (at == NULL)
        return;
    for (uint32_t i = 0; i < p->length; i++) {
        *at++ = digits[p->bytes[i] >> 4];
        *at++ = digits[p->bytes[i] & 15];
    }
    out->length += (size_t)p->length * 2;
}

static bool read_digits(uint8_t *out, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned high = digit_value[(uint8_t)text[2 * i]], low = digit_value[(uint8_t)text[2 * i + 1]];
        if (high == 0 || low == 0)
            return false;
        out[i] = (uint8_t)((high - 1) << 4 | (low - 1));
    }
    return true;
}

enum err log_position_parse(struct log_position *out, const char *text, size_t length, struct error *e)
{
    const char *blank = memchr(text, ' ', length);
    size_t rest = blank == NULL ? 0 : length - (size_t)(blank + 1 - text);
    struct log_entry entry;
    if (blank == NULL || !log_id_parse(&out->id, text, (size_t)(blank - text)) || rest % 2 != 0 ||
        rest / 2 > LOG_ENTRY_BYTES_MAX || !read_digits(out->bytes, blank + 1, rest / 2))
        return error_set(e, ERR_PARSE, "not a position in a lane: %.*s", length < 60 ? (int)length : 60,
                         text);
    out->length = (uint32_t)(rest / 2);
    return log_entry_decode(&entry, out->bytes, out->length, e);
}
