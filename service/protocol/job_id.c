/* SPDX-License-Identifier: MIT */
#include "service/protocol/job_id.h"

#include <ctype.h>
#include <inttypes.h>
#include "base/number.h"

enum { DIGITS = 16 };

static bool is_plain(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '.' || c == '_';
}

void job_id_put_name(struct buffer *out, const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (is_plain(name[i]))
            buffer_append(out, &name[i], 1);
        else
            buffer_printf(out, "~%02x", (unsigned char)name[i]);
}

bool job_id_take_name(struct buffer *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        uint64_t byte;
        if (c == '~' && length - i > 2 && number_hex64(&text[i + 1], 2, &byte)) {
            c = (char)byte;
            i += 2;
        } else if (!is_plain(c)) {
            return false;
        }
        buffer_append(out, &c, 1);
    }
    return true;
}

void job_id_put(struct buffer *out, const char *name, size_t length, uint64_t number)
{
    job_id_put_name(out, name, length);
    buffer_printf(out, ".%016" PRIx64, number);
}

bool job_id_take(struct buffer *name, uint64_t *number, const char *text, size_t length)
{
    if (length <= DIGITS || text[length - DIGITS - 1] != '.')
        return false;
    return number_hex64(text + length - DIGITS, DIGITS, number) &&
           job_id_take_name(name, text, length - DIGITS - 1);
}
