/* SPDX-License-Identifier: MIT */
/* The arguments of BF.*, and of those commands of TB.* that are similar. Errors are verbatim those of
 * RedisBloom, some of which have no prefix. */
#include <stdio.h>
#include <string.h>
#include "base/number.h"
#include "service/commands/command.h"

enum { EXPANSION_MAX = 32768 };

/* Read a whole number as Redis does: each number has exactly one valid form. */
static bool whole_number(const struct argument *a, int64_t *out)
{
    bool negative = a->length > 0 && a->bytes[0] == '-';
    bool padded = a->length > 1 && a->bytes[negative] == '0';
    return !padded && number_i64(a->bytes, a->length, out);
}

/* Read an error rate, which may have a sign. */
static bool rate(const struct argument *a, double *out)
{
    bool plus = a->length > 1 && a->bytes[0] == '+' && a->bytes[1] != '-';
    return number_double(a->bytes + plus, a->length - plus, out);
}

/* The index of @word among the options of BF.RESERVE; 0: it is missing. */
static size_t option_at(const struct argument *a, size_t count, const char *word)
{
    for (size_t i = 4; i < count; i++)
        if (argument_is(&a[i], word))
            return i;
    return 0;
}

/* [EXPANSION n] [NONSCALING] of BF.RESERVE. Other words are ignored, as in RedisBloom. Returns NULL, or the
 * error. */
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
    if (!whole_number(&a[at + 1], &n))
        return "ERR bad expansion";
    if (n < 1)
        return "ERR expansion should be greater or equal to 1";
    if (n > EXPANSION_MAX)
        return "ERR expansion must be in the range [0, 32768]";
    out->expansion = (uint32_t)n;
    return NULL;
}

/* rate capacity [EXPANSION n] [NONSCALING] */
const char *command_take_creation(const struct command_words *w, struct admin_call *call)
{
    struct creation *creation = &call->creation;
    int64_t capacity;
    creation->allowed = true;
    if (!rate(&w->a[2], &creation->error_rate))
        return "ERR bad error rate";
    if (creation->error_rate <= 0 || creation->error_rate >= 1)
        return "ERR (0 < error rate range < 1) ";
    if (!whole_number(&w->a[3], &capacity))
        return "ERR bad capacity";
    if (capacity <= 0)
        return "ERR (capacity should be larger than 0)";
    creation->capacity = (uint64_t)capacity;
    return reserve_options(w->a, w->count, creation);
}

struct insert {
    struct creation creation;
    /* Values that are out of range; reported after all words were read, as a later value may replace one. */
    struct {
        bool error, capacity, expansion;
    } bad;
    size_t items; /* index of the first item; 0: there is no ITEMS */
};

/* Read one option with a value. Returns the error; NULL: the value is valid, or out of range. */
static const char *insert_value(const struct argument *name, const struct argument *value, struct insert *out)
{
    int64_t n;
    if (argument_is(name, "ERROR")) {
        double *to = &out->creation.error_rate;
        if (!rate(value, to))
            return "Bad error rate";
        out->bad.error = *to <= 0 || *to >= 1;
        return NULL;
    }
    bool capacity = argument_is(name, "CAPACITY");
    if (!whole_number(value, &n) || (!capacity && n > EXPANSION_MAX))
        return capacity ? "Bad capacity" : "Bad expansion";
    *(capacity ? &out->bad.capacity : &out->bad.expansion) = n < 1;
    if (capacity)
        out->creation.capacity = (uint64_t)n;
    else
        out->creation.expansion = (uint32_t)n;
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
                return NULL; /* ITEMS is missing, too: an arity error */
            const char *error = insert_value(&a[i], &a[i + 1], out);
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
    else if (insert.bad.error || insert.bad.capacity || insert.bad.expansion)
        client_error(c, "Bad argument received");
    else
        client_operate(c, OPERATION_ADD, &a[1], &a[insert.items], count - insert.items, REPLY_ARRAY,
                       &insert.creation);
}

/* The name of a field of BF.INFO. An impossible one becomes "?", which no field has. */
const char *command_take_field(const struct command_words *w, struct admin_call *call)
{
    const struct argument *field = &w->a[2];
    if (w->count < 3)
        return NULL;
    bool text = field->length > 0 && field->length < sizeof(call->field) &&
                memchr(field->bytes, '\0', field->length) == NULL;
    (void)snprintf(call->field, sizeof(call->field), "%.*s", text ? (int)field->length : 1,
                   text ? field->bytes : "?");
    return NULL;
}

/* The position is not checked here: first the admin thread checks that the filter exists. */
const char *command_take_position(const struct command_words *w, struct admin_call *call)
{
    call->position_given = number_i64(w->a[2].bytes, w->a[2].length, &call->position);
    return NULL;
}

const char *command_take_chunk(const struct command_words *w, struct admin_call *call)
{
    (void)command_take_position(w, call);
    if (!call->position_given)
        return "ERR Second argument must be numeric";
    buffer_append(&call->data, w->a[3].bytes, w->a[3].length);
    return buffer_failed(&call->data) ? "OOM out of memory" : NULL;
}
