/* SPDX-License-Identifier: MIT */
/* BF.*, and what of TB.* is like it: errors verbatim as RedisBloom gives them, some without a prefix. */
#include <stdio.h>
#include <string.h>
#include "base/number.h"
#include "service/admin.h"
#include "service/command.h"

enum { EXPANSION_MAX = 32768 };

static const struct creation as_configured = {.allowed = true};

static void call_admin(struct client *c, admin_fn *fn, const struct argument *filter,
                       const struct creation *creation, const struct argument *field)
{
    struct admin_call *call = admin_call_new(fn, filter->bytes, filter->length);
    if (call == NULL) {
        client_error(c, "OOM out of memory");
        return;
    }
    if (creation != NULL)
        call->creation = *creation;
    if (field != NULL) { /* one that no text can be is none that there is */
        bool text = field->length > 0 && field->length < sizeof(call->field) &&
                    memchr(field->bytes, '\0', field->length) == NULL;
        (void)snprintf(call->field, sizeof(call->field), "%.*s", text ? (int)field->length : 1,
                       text ? field->bytes : "?");
    }
    client_call_admin(c, call);
}

/* Where @word stands among the options of BF.RESERVE; 0: nowhere. */
static size_t option_at(const struct argument *a, size_t count, const char *word)
{
    for (size_t i = 4; i < count; i++)
        if (argument_is(&a[i], word))
            return i;
    return 0;
}

/* [EXPANSION n] [NONSCALING] of BF.RESERVE; other words are passed over, as RedisBloom does. NULL: fine; else
 * the error. */
static const char *reserve_options(const struct argument *a, size_t count, struct creation *out)
{
    int64_t n;
    size_t at = option_at(a, count, "EXPANSION");
    out->non_scaling = option_at(a, count, "NONSCALING") != 0;
    if (at == 0)
        return NULL;
    if (at + 1 == count)
        return "ERR no expansion";
    if (out->non_scaling)
        return "Nonscaling filters cannot expand";
    if (!number_i64(a[at + 1].bytes, a[at + 1].length, &n))
        return "ERR bad expansion";
    if (n < 1 || n > EXPANSION_MAX)
        return "ERR expansion should be greater or equal to 1";
    out->expansion = (uint32_t)n;
    return NULL;
}

/* key rate capacity [EXPANSION n] [NONSCALING]; @fn makes the filter. */
static void reserve(struct client *c, const struct argument *a, size_t count, admin_fn *fn, const char *name)
{
    struct creation creation = {.allowed = true};
    int64_t capacity;
    const char *error = NULL;
    if (count > 7) {
        client_error(c, "ERR wrong number of arguments for '%s' command", name);
        return;
    }
    if (!number_double(a[2].bytes, a[2].length, &creation.error_rate))
        error = "ERR bad error rate";
    else if (creation.error_rate <= 0 || creation.error_rate >= 1)
        error = "ERR (0 < error rate range < 1) ";
    else if (!number_i64(a[3].bytes, a[3].length, &capacity))
        error = "ERR bad capacity";
    else if (capacity <= 0)
        error = "ERR (capacity should be larger than 0)";
    else
        error = reserve_options(a, count, &creation);
    if (error != NULL) {
        client_error(c, "%s", error);
        return;
    }
    creation.capacity = (uint64_t)capacity;
    call_admin(c, fn, &a[1], &creation, NULL);
}

void command_bf_reserve(struct client *c, const struct argument *a, size_t count)
{
    reserve(c, a, count, admin_reserve, "bf.reserve");
}

void command_tb_init(struct client *c, const struct argument *a, size_t count)
{
    reserve(c, a, count, admin_init, "tb.init");
}

void command_bf_add(struct client *c, const struct argument *a, size_t count)
{
    (void)count;
    client_operate(c, OPERATION_ADD, &a[1], &a[2], 1, REPLY_ONE, &as_configured);
}

void command_bf_madd(struct client *c, const struct argument *a, size_t count)
{
    client_operate(c, OPERATION_ADD, &a[1], &a[2], count - 2, REPLY_ARRAY, &as_configured);
}

void command_tb_madd(struct client *c, const struct argument *a, size_t count)
{
    client_operate(c, OPERATION_ADD, &a[1], &a[2], count - 2, REPLY_COUNT, &as_configured);
}

void command_bf_exists(struct client *c, const struct argument *a, size_t count)
{
    (void)count;
    client_operate(c, OPERATION_CHECK, &a[1], &a[2], 1, REPLY_ONE, NULL);
}

void command_bf_mexists(struct client *c, const struct argument *a, size_t count)
{
    client_operate(c, OPERATION_CHECK, &a[1], &a[2], count - 2, REPLY_ARRAY, NULL);
}

void command_tb_mexists(struct client *c, const struct argument *a, size_t count)
{
    client_operate(c, OPERATION_CHECK, &a[1], &a[2], count - 2, REPLY_COUNT, NULL);
}

struct insert {
    struct creation creation;
    size_t items; /* index of the first; 0: no ITEMS */
};

/* One option with a value. NULL: fine; else the error. */
static const char *insert_value(const struct argument *name, const struct argument *value,
                                struct creation *out)
{
    int64_t n;
    if (argument_is(name, "ERROR")) {
        if (!number_double(value->bytes, value->length, &out->error_rate))
            return "Bad error rate";
        return out->error_rate > 0 && out->error_rate < 1 ? NULL : "Bad argument received";
    }
    bool capacity = argument_is(name, "CAPACITY");
    if (!number_i64(value->bytes, value->length, &n))
        return capacity ? "Bad capacity" : "Bad expansion";
    if (n < 1 || (!capacity && n > EXPANSION_MAX))
        return "Bad argument received";
    if (capacity)
        out->capacity = (uint64_t)n;
    else
        out->expansion = (uint32_t)n;
    return NULL;
}

static const char *insert_options(const struct argument *a, size_t count, struct insert *out)
{
    *out = (struct insert){.creation = {.allowed = true}};
    for (size_t i = 2; i < count; i++) {
        if (argument_is(&a[i], "ITEMS")) {
            out->items = i + 1;
            return NULL;
        }
        if (argument_is(&a[i], "NOCREATE")) {
            out->creation.allowed = false;
        } else if (argument_is(&a[i], "NONSCALING")) {
            out->creation.non_scaling = true;
        } else if (argument_is(&a[i], "CAPACITY") || argument_is(&a[i], "ERROR") ||
                   argument_is(&a[i], "EXPANSION")) {
            if (i + 1 >= count)
                return NULL; /* no ITEMS either: an arity error */
            const char *error = insert_value(&a[i], &a[i + 1], &out->creation);
            if (error != NULL)
                return error;
            i++;
        } else {
            return "Unknown argument received";
        }
    }
    return NULL;
}

void command_bf_insert(struct client *c, const struct argument *a, size_t count)
{
    struct insert insert;
    const char *error = insert_options(a, count, &insert);
    if (error != NULL)
        client_error(c, "%s", error);
    else if (insert.items == 0 || insert.items >= count)
        client_error(c, "ERR wrong number of arguments for 'bf.insert' command");
    else
        client_operate(c, OPERATION_ADD, &a[1], &a[insert.items], count - insert.items, REPLY_ARRAY,
                       &insert.creation);
}

void command_bf_card(struct client *c, const struct argument *a, size_t count)
{
    (void)count;
    call_admin(c, admin_card, &a[1], NULL, NULL);
}

void command_bf_debug(struct client *c, const struct argument *a, size_t count)
{
    (void)count;
    call_admin(c, admin_debug, &a[1], NULL, NULL);
}

void command_tb_count(struct client *c, const struct argument *a, size_t count)
{
    (void)count;
    call_admin(c, admin_count, &a[1], NULL, NULL);
}

void command_bf_info(struct client *c, const struct argument *a, size_t count)
{
    if (count > 3)
        client_error(c, "ERR wrong number of arguments for 'bf.info' command");
    else
        call_admin(c, admin_info, &a[1], NULL, count == 3 ? &a[2] : NULL);
}
