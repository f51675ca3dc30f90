/* SPDX-License-Identifier: MIT */
#include "tests/lib/wire.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"

/* --- Redis --- */

struct cursor {
    const char *bytes;
    size_t length, at;
};

/* Read one line of RESP: its type and number. Returns 1: read, 0: incomplete, -1: not RESP. */
static int read_line(struct cursor *c, char *type, int64_t *number)
{
    const char *line = c->bytes + c->at;
    const char *end = memchr(line, '\n', c->length - c->at);
    if (end == NULL)
        return 0;
    size_t length = (size_t)(end - line);
    if (length < 2 || end[-1] != '\r')
        return -1;
    *type = line[0];
    *number = 0;
    if (strchr("*$%~>=!|", *type) != NULL && !number_i64(line + 1, length - 2, number))
        return -1;
    c->at += length + 1;
    return 1;
}

enum { ARGUMENTS_KEPT = 3 };

/* Read a command, which is an array of strings. Its first words are kept. */
static ssize_t redis_request(struct cursor *c, struct wire_request *out)
{
    char type;
    int64_t count, length;
    const char *words[ARGUMENTS_KEPT] = {"", "", ""};
    size_t lengths[ARGUMENTS_KEPT] = {0};
    int read = read_line(c, &type, &count);
    if (read <= 0)
        return read;
    if (type != '*')
        return -1;
    for (int64_t i = 0; i < count; i++) {
        read = read_line(c, &type, &length);
        if (read <= 0)
            return read;
        if (type != '$' || length < 0)
            return -1;
        if (c->length - c->at < (size_t)length + 2)
            return 0;
        if (i < ARGUMENTS_KEPT) {
            words[i] = c->bytes + c->at;
            lengths[i] = (size_t)length;
        }
        c->at += (size_t)length + 2;
    }
    out->kind = WIRE_REQUEST;
    if (count == 3 && lengths[0] == 4 && strncasecmp(words[0], "AUTH", 4) == 0)
        (void)snprintf(out->user, sizeof(out->user), "%.*s", (int)lengths[1], words[1]);
    if (count == 3 && lengths[0] == 6 && lengths[1] == 7 && strncasecmp(words[0], "CLIENT", 6) == 0 &&
        strncasecmp(words[1], "SETNAME", 7) == 0)
        (void)snprintf(out->name, sizeof(out->name), "%.*s", (int)lengths[2], words[2]);
    return (ssize_t)c->at;
}

static ssize_t redis_reply(struct cursor *c)
{
    for (int64_t wanted = 1; wanted > 0; wanted--) {
        char type;
        int64_t number;
        int read = read_line(c, &type, &number);
        if (read <= 0)
            return read;
        if (strchr("*~>", type) != NULL && number > 0)
            wanted += number;
        else if (strchr("%|", type) != NULL && number > 0)
            wanted += 2 * number;
        else if (strchr("$=!", type) != NULL && number >= 0) {
            if (c->length - c->at < (size_t)number + 2)
                return 0;
            c->at += (size_t)number + 2;
        }
    }
    return (ssize_t)c->at;
}

/* --- Postgres --- */

enum { STARTUP = 196608, CANCEL = 80877102, TLS = 80877103, GSS = 80877104, LENGTH_MAX = 1 << 28 };

static uint32_t read_int32(const char *bytes)
{
    const unsigned char *b = (const unsigned char *)bytes;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Read names and values, each ended by a NUL. An empty name ends the list. */
static void read_parameters(const char *at, const char *end, struct wire_request *out)
{
    while (at < end && *at != '\0') {
        const char *value = at + strnlen(at, (size_t)(end - at)) + 1;
        if (value >= end)
            return;
        int length = (int)strnlen(value, (size_t)(end - value));
        if (strcmp(at, "user") == 0)
            (void)snprintf(out->user, sizeof(out->user), "%.*s", length, value);
        else if (strcmp(at, "application_name") == 0)
            (void)snprintf(out->name, sizeof(out->name), "%.*s", length, value);
        at = value + length + 1;
    }
}

static ssize_t postgres_start(const char *bytes, size_t length, struct wire_request *out)
{
    if (length < 8)
        return 0;
    uint32_t whole = read_int32(bytes), code = read_int32(bytes + 4);
    if (whole < 8 || whole > LENGTH_MAX)
        return -1;
    if (length < whole)
        return 0;
    out->kind = code == CANCEL ? WIRE_ONE_WAY : code == TLS || code == GSS ? WIRE_ENCRYPT : WIRE_STARTUP;
    if (out->kind == WIRE_STARTUP && code != STARTUP)
        return -1;
    if (out->kind == WIRE_STARTUP)
        read_parameters(bytes + 8, bytes + whole, out);
    return (ssize_t)whole;
}

/* The length of one message: a type byte, then a length that includes itself. */
static ssize_t postgres_message(const char *bytes, size_t length)
{
    if (length < 5)
        return 0;
    uint32_t size = read_int32(bytes + 1);
    if (size < 4 || size > LENGTH_MAX)
        return -1;
    return length < (size_t)size + 1 ? 0 : (ssize_t)size + 1;
}

static ssize_t postgres_request(const char *bytes, size_t length, struct wire_request *out)
{
    size_t at = 0;
    for (;;) {
        ssize_t one = postgres_message(bytes + at, length - at);
        if (one <= 0)
            return one;
        char type = bytes[at];
        at += (size_t)one;
        if (type == 'X' || type == 'p') { /* terminate, or a password, whose answer is part of the startup */
            out->kind = WIRE_ONE_WAY;
            return (ssize_t)at;
        }
        if (type == 'S' || type == 'Q') {
            out->kind = WIRE_REQUEST;
            return (ssize_t)at;
        }
    }
}

/* --- both protocols --- */

ssize_t wire_request(enum wire_protocol protocol, bool started, const char *bytes, size_t length,
                     struct wire_request *out)
{
    *out = (struct wire_request){.kind = WIRE_REQUEST};
    struct cursor c = {bytes, length, 0};
    if (protocol == WIRE_REDIS)
        return redis_request(&c, out);
    return started ? postgres_request(bytes, length, out) : postgres_start(bytes, length, out);
}

ssize_t wire_reply(enum wire_protocol protocol, const char *bytes, size_t length, bool *ends)
{
    struct cursor c = {bytes, length, 0};
    *ends = true;
    if (protocol == WIRE_REDIS)
        return redis_reply(&c);
    ssize_t one = postgres_message(bytes, length);
    *ends = one > 0 && bytes[0] == 'Z'; /* ReadyForQuery */
    return one;
}
