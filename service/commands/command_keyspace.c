/* SPDX-License-Identifier: MIT */
/* Filters as keys, as far as clients of Redis use them so. Errors are verbatim those of Redis. */
#include <stdio.h>
#include "base/clock.h"
#include "base/number.h"
#include "service/admin/admin.h"
#include "service/commands/command.h"

enum { SCAN_COUNT = 10 };

static const struct argument all_names = {.bytes = "*", .length = 1};
static const char not_an_integer[] = "ERR value is not an integer or out of range";

/* NULL: no memory, and the error was sent. */
static struct admin_call *new_call(struct client *c, admin_fn *fn, const struct argument *name)
{
    struct admin_call *call =
        admin_call_new(fn, name == NULL ? "" : name->bytes, name == NULL ? 0 : name->length);
    if (call == NULL)
        client_error(c, "OOM out of memory");
    return call;
}

static void call_names(struct client *c, admin_fn *fn, const struct argument *a, size_t count)
{
    struct admin_call *call = new_call(c, fn, NULL);
    if (call != NULL && !admin_call_names(call, a, count)) {
        admin_call_free(call);
        client_error(c, "OOM out of memory");
    } else if (call != NULL) {
        client_call_admin(c, call);
    }
}

static void call_name(struct client *c, admin_fn *fn, const struct argument *name, unsigned flags)
{
    struct admin_call *call = new_call(c, fn, name);
    if (call == NULL)
        return;
    call->flags = flags;
    client_call_admin(c, call);
}

void command_del(struct client *c, const struct argument *a, size_t count)
{
    call_names(c, admin_drop, &a[1], count - 1);
}

void command_exists(struct client *c, const struct argument *a, size_t count)
{
    call_names(c, admin_exists, &a[1], count - 1);
}

void command_type(struct client *c, const struct argument *a, size_t count)
{
    (void)count;
    call_name(c, admin_type, &a[1], 0);
}

/* --- names --- */

/* Read the options of SCAN. Returns NULL, or the error. */
static const char *scan_options(const struct argument *a, size_t count, struct admin_call *call,
                                const struct argument **pattern)
{
    for (size_t i = 2; i < count; i += 2) {
        int64_t n;
        if (i + 1 >= count)
            return "ERR syntax error";
        const struct argument *value = &a[i + 1];
        if (argument_is(&a[i], "MATCH")) {
            *pattern = value;
        } else if (argument_is(&a[i], "COUNT")) {
            if (!number_i64(value->bytes, value->length, &n))
                return not_an_integer;
            if (n < 1)
                return "ERR syntax error";
            call->count = (uint64_t)n;
        } else if (argument_is(&a[i], "TYPE")) {
            call->flags = argument_is(value, "MBbloom--") ? 0 : SCAN_OTHER_TYPE;
        } else {
            return "ERR syntax error";
        }
    }
    return NULL;
}

void command_scan(struct client *c, const struct argument *a, size_t count)
{
    const struct argument *pattern = &all_names;
    struct admin_call options = {.count = SCAN_COUNT};
    const char *error = NULL;
    if (!number_u64(a[1].bytes, a[1].length, &options.cursor))
        error = "ERR invalid cursor";
    else
        error = scan_options(a, count, &options, &pattern);
    if (error != NULL) {
        client_error(c, "%s", error);
        return;
    }
    struct admin_call *call = new_call(c, admin_scan, pattern);
    if (call == NULL)
        return;
    call->cursor = options.cursor;
    call->count = options.count;
    call->flags = options.flags;
    client_call_admin(c, call);
}

void command_keys(struct client *c, const struct argument *a, size_t count)
{
    (void)count;
    call_name(c, admin_list, &a[1], 0);
}

void command_dbsize(struct client *c, const struct argument *a, size_t count)
{
    (void)a;
    (void)count;
    call_name(c, admin_list, &all_names, LIST_COUNT);
}

void command_randomkey(struct client *c, const struct argument *a, size_t count)
{
    (void)a;
    (void)count;
    call_name(c, admin_list, &all_names, LIST_ANY);
}

void command_memory(struct client *c, const struct argument *a, size_t count)
{
    uint64_t samples;
    if (!argument_is(&a[1], "USAGE"))
        client_error(c, "ERR unknown subcommand '%.*s'. Try MEMORY USAGE key.",
                     (int)(a[1].length < 128 ? a[1].length : 128), a[1].bytes);
    else if (count != 3 && (count != 5 || !argument_is(&a[3], "SAMPLES")))
        client_error(c, "ERR syntax error");
    else if (count == 5 && !number_u64(a[4].bytes, a[4].length, &samples))
        client_error(c, "%s", not_an_integer);
    else
        call_name(c, admin_usage, &a[2], 0);
}

/* --- expiry --- */

/* [NX | XX] [GT | LT]. Returns NULL, or the error, which may lie in @text. */
static const char *expire_options(const struct argument *a, size_t count, unsigned *flags, char text[96])
{
    static const struct {
        const char *word;
        unsigned bit;
    } options[] = {{"NX", EXPIRE_NX}, {"XX", EXPIRE_XX}, {"GT", EXPIRE_GT}, {"LT", EXPIRE_LT}};
    *flags = 0;
    for (size_t i = 3; i < count; i++) {
        size_t o = 0;
        while (o < 4 && !argument_is(&a[i], options[o].word))
            o++;
        if (o == 4) {
            (void)snprintf(text, 96, "ERR Unsupported option %.*s",
                           (int)(a[i].length < 64 ? a[i].length : 64), a[i].bytes);
            return text;
        }
        *flags |= options[o].bit;
    }
    if ((*flags & EXPIRE_NX) != 0 && *flags != EXPIRE_NX)
        return "ERR NX and XX, GT or LT options at the same time are not compatible";
    if ((*flags & EXPIRE_GT) != 0 && (*flags & EXPIRE_LT) != 0)
        return "ERR GT and LT options at the same time are not compatible";
    return NULL;
}

static void call_expire(struct client *c, const struct argument *a, size_t count, const char *name,
                        int64_t unit, bool relative)
{
    char text[96];
    unsigned flags;
    int64_t at = 0, now = relative ? (int64_t)(clock_wall_us() / 1000) : 0;
    const char *error = expire_options(a, count, &flags, text);
    if (error == NULL && !number_i64(a[2].bytes, a[2].length, &at))
        error = not_an_integer;
    if (error != NULL) {
        client_error(c, "%s", error);
        return;
    }
    if (__builtin_mul_overflow(at, unit, &at) || __builtin_add_overflow(at, now, &at)) {
        client_error(c, "ERR invalid expire time in '%s' command", name);
        return;
    }
    struct admin_call *call = new_call(c, admin_expire, &a[1]);
    if (call == NULL)
        return;
    call->expire_at_ms = at < 1 ? 1 : (uint64_t)at; /* a time that has long passed */
    call->flags = flags;
    client_call_admin(c, call);
}

void command_expire(struct client *c, const struct argument *a, size_t count)
{
    call_expire(c, a, count, "expire", 1000, true);
}

void command_pexpire(struct client *c, const struct argument *a, size_t count)
{
    call_expire(c, a, count, "pexpire", 1, true);
}

void command_expireat(struct client *c, const struct argument *a, size_t count)
{
    call_expire(c, a, count, "expireat", 1000, false);
}

void command_pexpireat(struct client *c, const struct argument *a, size_t count)
{
    call_expire(c, a, count, "pexpireat", 1, false);
}

void command_persist(struct client *c, const struct argument *a, size_t count)
{
    (void)count;
    call_name(c, admin_expire, &a[1], 0);
}

void command_ttl(struct client *c, const struct argument *a, size_t count)
{
    (void)count;
    call_name(c, admin_ttl, &a[1], TTL_SECONDS);
}

void command_pttl(struct client *c, const struct argument *a, size_t count)
{
    (void)count;
    call_name(c, admin_ttl, &a[1], 0);
}

void command_expiretime(struct client *c, const struct argument *a, size_t count)
{
    (void)count;
    call_name(c, admin_ttl, &a[1], TTL_SECONDS | TTL_ABSOLUTE);
}

void command_pexpiretime(struct client *c, const struct argument *a, size_t count)
{
    (void)count;
    call_name(c, admin_ttl, &a[1], TTL_ABSOLUTE);
}
