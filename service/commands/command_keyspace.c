/* SPDX-License-Identifier: MIT */
/* The arguments of commands for filters as keys. Errors are verbatim those of Redis. */
#include "base/clock.h"
#include "base/number.h"
#include "service/commands/command.h"

enum { SCAN_COUNT = 10 };

static const char not_an_integer[] = "ERR value is not an integer or out of range";

const char *command_take_names(const struct command_words *w, struct admin_call *call)
{
    return admin_call_names(call, &w->a[1], w->count - 1) ? NULL : "OOM out of memory";
}

/* cursor [MATCH pattern] [COUNT count] [TYPE type] */
const char *command_take_scan(const struct command_words *w, struct admin_call *call)
{
    struct argument pattern = {.bytes = "*", .length = 1};
    call->count = SCAN_COUNT;
    if (!number_u64(w->a[1].bytes, w->a[1].length, &call->cursor))
        return "ERR invalid cursor";
    for (size_t i = 2; i < w->count; i += 2) {
        int64_t n;
        if (i + 1 >= w->count)
            return "ERR syntax error";
        const struct argument *word = &w->a[i], *value = word + 1;
        if (argument_is(word, "MATCH")) {
            pattern = *value;
        } else if (argument_is(word, "COUNT")) {
            if (!number_i64(value->bytes, value->length, &n))
                return not_an_integer;
            if (n < 1)
                return "ERR syntax error";
            call->count = (uint64_t)n;
        } else if (argument_is(word, "TYPE")) {
            call->flags = argument_is(value, "MBbloom--") ? 0 : SCAN_OTHER_TYPE;
        } else {
            return "ERR syntax error";
        }
    }
    return admin_call_name(call, pattern.bytes, pattern.length) ? NULL : "OOM out of memory";
}

/* USAGE filter [SAMPLES count] */
const char *command_take_usage(const struct command_words *w, struct admin_call *call)
{
    const struct argument *a = w->a;
    uint64_t samples;
    if (!argument_is(&a[1], "USAGE")) {
        (void)error_set(&call->error, ERR_RANGE, "ERR unknown subcommand '%.*s'. Try MEMORY USAGE key.",
                        command_shown(a[1].length), a[1].bytes);
        return call->error.text;
    }
    if (w->count != 3 && (w->count != 5 || !argument_is(&a[3], "SAMPLES")))
        return "ERR syntax error";
    return w->count == 5 && !number_u64(a[4].bytes, a[4].length, &samples) ? not_an_integer : NULL;
}

/* --- expiry --- */

/* [NX | XX] [GT | LT]. Returns NULL, or the error, which may lie in @e. */
static const char *expire_options(const struct argument *a, size_t count, unsigned *flags, struct error *e)
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
            (void)error_set(e, ERR_RANGE, "ERR Unsupported option %.*s",
                            (int)(a[i].length < 64 ? a[i].length : 64), a[i].bytes);
            return e->text;
        }
        *flags |= options[o].bit;
    }
    if ((*flags & EXPIRE_NX) != 0 && *flags != EXPIRE_NX)
        return "ERR NX and XX, GT or LT options at the same time are not compatible";
    if ((*flags & EXPIRE_GT) != 0 && (*flags & EXPIRE_LT) != 0)
        return "ERR GT and LT options at the same time are not compatible";
    return NULL;
}

/* time [NX | XX] [GT | LT]; the command's value says what the time is. */
const char *command_take_expiry(const struct command_words *w, struct admin_call *call)
{
    const unsigned value = w->command->value;
    int64_t at = 0, now = (value & TTL_ABSOLUTE) != 0 ? 0 : (int64_t)(clock_wall_us() / 1000);
    const char *error = expire_options(w->a, w->count, &call->flags, &call->error);
    if (error != NULL)
        return error;
    if (!number_i64(w->a[2].bytes, w->a[2].length, &at))
        return not_an_integer;
    if (__builtin_mul_overflow(at, (value & TTL_SECONDS) != 0 ? 1000 : 1, &at) ||
        __builtin_add_overflow(at, now, &at)) {
        char lower[32];
        command_lower(w->command, lower);
        (void)error_set(&call->error, ERR_RANGE, "ERR invalid expire time in '%s' command", lower);
        return call->error.text;
    }
    call->expire_at_ms = at < 1 ? 1 : (uint64_t)at; /* a time that has long passed */
    return NULL;
}
