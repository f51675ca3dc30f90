/* SPDX-License-Identifier: MIT */
#include "base/info.h"

#include <string.h>
#include "base/number.h"

const char *info_value(const char *text, size_t length, const char *name, size_t *value_length)
{
    size_t name_length = strlen(name);
    const char *end = text + length;
    while (text < end) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        if (line_end == NULL)
            line_end = end;
        size_t n = (size_t)(line_end - text);
        if (n > name_length && memcmp(text, name, name_length) == 0 && text[name_length] == ':') {
            n -= name_length + 1;
            *value_length = n > 0 && text[name_length + n] == '\r' ? n - 1 : n;
            return text + name_length + 1;
        }
        text = line_end < end ? line_end + 1 : end;
    }
    return NULL;
}

bool info_is(const char *text, size_t length, const char *name, const char *value)
{
    size_t n = 0;
    const char *found = info_value(text, length, name, &n);
    return found != NULL && n == strlen(value) && memcmp(found, value, n) == 0;
}

uint64_t info_id(const char *text, size_t length, const char *name)
{
    size_t n = 0;
    uint64_t id = 0;
    const char *value = info_value(text, length, name, &n);
    return value != NULL && n >= INFO_ID_DIGITS && number_hex64(value, INFO_ID_DIGITS, &id) ? id : 0;
}

uint64_t info_master_id(const char *text, size_t length)
{
    return info_is(text, length, "role", "master") ? info_id(text, length, "master_replid") : 0;
}
