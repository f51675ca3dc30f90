/* SPDX-License-Identifier: MIT */
#include "shard/filter/names.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "shard/filter/hash.h"
#include "shard/filter/slots.h"

/* These functions run for every command that is sent, so they write text by hand. */

static const char hex[] = "0123456789abcdef";

static char *put_bytes(char *at, const char *bytes, size_t n)
{
    memcpy(at, bytes, n);
    return at + n;
}

static char *put_hex64(char *at, uint64_t value)
{
    for (int shift = 60; shift >= 0; shift -= 4)
        *at++ = hex[value >> shift & 0xf];
    return at;
}

static bool must_escape(char c)
{
    return c == '{' || c == '}' || c == '%' || c == '\0' || c == '\r' || c == '\n';
}

/* Write the escaped form of @filter to @n. False: it is too long. */
static bool escape(struct names *n, const char *filter, size_t length)
{
    char *at = n->filter;
    const char *end = n->filter + FILTER_NAME_MAX;
    for (size_t i = 0; i < length; i++) {
        char c = filter[i];
        if (end - at < (must_escape(c) ? 3 : 1))
            return false;
        if (must_escape(c)) {
            *at++ = '%';
            *at++ = hex[(unsigned char)c >> 4];
            *at++ = hex[(unsigned char)c & 0xf];
        } else {
            *at++ = c;
        }
    }
    if (length == 0)
        *at++ = '%'; /* a % without digits: no other name has this form */
    *at = '\0';
    n->filter_length = (size_t)(at - n->filter);
    return true;
}

/* Read two digits in the form that escape() writes: lower case only. */
static bool unhex(const char *two, char *out)
{
    unsigned high = 0, low = 0;
    while (high < 16 && hex[high] != two[0])
        high++;
    while (low < 16 && hex[low] != two[1])
        low++;
    *out = (char)(high << 4 | low);
    return high < 16 && low < 16;
}

bool names_unescape(const char *escaped, size_t escaped_length, char out[FILTER_NAME_MAX], size_t *length)
{
    size_t n = 0;
    if (escaped_length == 0 || escaped_length > FILTER_NAME_MAX)
        return false;
    *length = 0;
    if (escaped_length == 1 && escaped[0] == '%')
        return true;
    for (size_t i = 0; i < escaped_length; i++) {
        out[n] = escaped[i];
        if (escaped[i] == '%') {
            if (escaped_length - i < 3 || !unhex(escaped + i + 1, &out[n]) || !must_escape(out[n]))
                return false;
            i += 2;
        } else if (must_escape(escaped[i])) {
            return false;
        }
        n++;
    }
    *length = n;
    return true;
}

enum err names_init(struct names *n, const char *prefix, const char *filter, size_t filter_length,
                    struct error *e)
{
    size_t length = strlen(prefix);
    if (length == 0 || length > PREFIX_MAX)
        return error_set(e, ERR_RANGE, "the prefix has %zu bytes, not 1 to %d", length, PREFIX_MAX);
    for (size_t i = 0; i < length; i++)
        if (prefix[i] == '{' || prefix[i] == '}' || (unsigned char)prefix[i] <= ' ' || prefix[i] == 0x7f)
            return error_set(e, ERR_RANGE, "the prefix holds a brace, blank or control character");
    if (!escape(n, filter, filter_length))
        return error_set(e, ERR_RANGE, "the name of the filter is longer than %d bytes (escaped)",
                         FILTER_NAME_MAX);
    memcpy(n->prefix, prefix, length + 1);
    n->prefix_length = length;
    n->incarnation = 0;
    n->crc = slots_crc(0, n->filter, n->filter_length);
    return ERR_OK;
}

/* "P:{F" */
static char *put_filter(char *at, const struct names *n)
{
    at = put_bytes(at, n->prefix, n->prefix_length);
    *at++ = ':';
    *at++ = '{';
    return put_bytes(at, n->filter, n->filter_length);
}

static void end_name(struct key_name *out, char *end)
{
    *end = '\0';
    out->length = (size_t)(end - out->text);
}

void names_literally(struct buffer *pattern, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (strchr("*?[]\\^", text[i]) != NULL)
            buffer_append(pattern, "\\", 1);
        buffer_append(pattern, &text[i], 1);
    }
}

void names_filter_key(const struct names *n, const char *what, struct key_name *out)
{
    size_t length = strlen(what);
    assert(length <= 64);
    char *at = put_filter(out->text, n);
    *at++ = '}';
    *at++ = ':';
    end_name(out, put_bytes(at, what, length));
}

uint16_t names_tag(const struct names *n, uint64_t generation)
{
    return hash_tag(n->incarnation, n->filter, n->filter_length, generation);
}

/* "P:{F.g.l.i}:<inc>" */
static char *put_shard_id(struct key_name *out, const struct names *n, struct shard_id id)
{
    char *at = put_filter(out->text, n);
    *at++ = '.';
    at = number_write(at, id.generation);
    *at++ = '.';
    at = number_write(at, id.layer);
    *at++ = '.';
    at = number_write(at, id.shard);
    *at++ = '}';
    *at++ = ':';
    return put_hex64(at, n->incarnation);
}

void names_log_shard(const struct names *n, struct shard_id id, struct key_name *out)
{
    end_name(out, put_shard_id(out, n, id));
}

/* "P:{F.g.l.i}:<inc>.n<token>.g" */
void names_new_shard(const struct names *n, struct shard_id id, uint64_t token, struct key_name *out)
{
    char *at = put_shard_id(out, n, id);
    *at++ = '.';
    *at++ = 'n';
    at = number_write(at, token);
    *at++ = '.';
    end_name(out, number_write(at, id.generation));
}

/* --- keys that are on every master --- */

static uint32_t tag_of_slot[SLOTS];

/* The smallest number whose digits belong into each slot. The last one is found below 200,000. */
static void find_tags(void)
{
    for (unsigned left = SLOTS, n = 1; left > 0; n++) {
        char digits[12];
        int length = snprintf(digits, sizeof(digits), "%u", n);
        unsigned slot = slots_of_crc(slots_crc(0, digits, (size_t)length));
        if (tag_of_slot[slot] == 0) {
            tag_of_slot[slot] = n;
            left--;
        }
    }
}

void names_on_master(const char *prefix, unsigned slot, const char *what, struct key_name *out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, find_tags);
    int length = slot < SLOTS
                     ? snprintf(out->text, sizeof(out->text), "%s:{%u}:%s", prefix, tag_of_slot[slot], what)
                     : snprintf(out->text, sizeof(out->text), "%s:%s", prefix, what);
    out->length = (size_t)length;
}
