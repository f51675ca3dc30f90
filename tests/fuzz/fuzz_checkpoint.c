/* SPDX-License-Identifier: MIT */
/* The job's record: lines of NAME=VALUE. No value may harm its reader or leave it with numbers that lead past
 * an array or a pass; what was understood is written as fields that are all taken again, and then written
 * the same. */
#include <stdbool.h>
#include <string.h>

#include "base/buffer.h"
#include "expansion/checkpoint.h"
#include "shard/generation.h"
#include "tests/fuzz/fuzz.h"

static uint8_t *copy(const uint8_t *bytes, size_t length) /* of the exact size: no terminator */
{
    uint8_t *out = malloc(length > 0 ? length : 1);
    fuzz_check(out != NULL);
    if (length > 0)
        memcpy(out, bytes, length);
    return out;
}

struct line {
    const uint8_t *name, *value;
    size_t name_length, value_length;
    bool taken;
};

/* What was taken is written as it was, but for the zeros in front of a number; what was refused, as nothing.
 */
static void check_written(void *arg, const char *field, const char *text)
{
    const struct line *l = arg;
    if (strlen(field) != l->name_length || memcmp(field, l->name, l->name_length) != 0)
        return;
    size_t length = strlen(text), zeros = 0;
    if (!l->taken) {
        fuzz_check(length == 0 || strcmp(text, "0") == 0);
        return;
    }
    while (l->value_length - zeros > length && l->value[zeros] == '0')
        zeros++;
    fuzz_check(l->value_length - zeros == length && memcmp(l->value + zeros, text, length) == 0);
}

static bool take_line(struct record *r, const uint8_t *line, size_t length)
{
    const uint8_t *equals = memchr(line, '=', length);
    size_t name_length = equals != NULL ? (size_t)(equals - line) : length;
    size_t value_length = equals != NULL ? length - name_length - 1 : 0;
    uint8_t *name = copy(line, name_length), *value = copy(line + (length - value_length), value_length);
    struct line l = {name, value, name_length, value_length, false};
    l.taken = checkpoint_take(r, (const char *)name, name_length, (const char *)value, value_length);
    checkpoint_each(r, true, check_written, &l);
    free(name);
    free(value);
    return l.taken;
}

static bool parse(struct record *r, const uint8_t *bytes, size_t size)
{
    bool all = true;
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(bytes + at, '\n', size - at);
        size_t length = end != NULL ? (size_t)(end - bytes) - at : size - at;
        all = take_line(r, bytes + at, length) && all;
        at += length + 1;
    }
    return all;
}

static void put(void *arg, const char *field, const char *value)
{
    struct buffer *out = arg;
    buffer_puts(out, field);
    buffer_puts(out, "=");
    buffer_puts(out, value);
    buffer_puts(out, "\n");
}

static bool ends(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

static void check_bounds(const struct record *r)
{
    enum job_step step;
    const char *name = step_name(r->step);
    fuzz_check(step_parse(name, strlen(name), &step) && step == r->step);
    fuzz_check(ends(r->segment_after, sizeof(r->segment_after)) && ends(r->low_water, sizeof(r->low_water)));
    fuzz_check(ends(r->segment_upto, sizeof(r->segment_upto)) && ends(r->last_id, sizeof(r->last_id)));
    fuzz_check(ends(r->upto, sizeof(r->upto)) && ends(r->horizon, sizeof(r->horizon)));
    fuzz_check(ends(r->reason, sizeof(r->reason)));
    if (checkpoint_is_sound(r, GENERATION_LAYERS_MAX))
        fuzz_check(r->layer < GENERATION_LAYERS_MAX && r->pass <= r->passes &&
                   (r->pass < r->passes || r->passes == 0));
    fuzz_check(!checkpoint_is_sound(r, r->layer));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct record r = {.step = STEP_FENCE}, again = {.step = STEP_FENCE};
    struct buffer text = {0}, text_again = {0};
    (void)parse(&r, data, size);
    check_bounds(&r);
    checkpoint_each(&r, true, put, &text);
    fuzz_check(!buffer_failed(&text));
    fuzz_check(parse(&again, (const uint8_t *)text.data, text.length));
    checkpoint_each(&again, true, put, &text_again);
    fuzz_check(text.length == text_again.length && memcmp(text.data, text_again.data, text.length) == 0);
    unsigned layers = GENERATION_LAYERS_MAX;
    fuzz_check(checkpoint_is_sound(&r, layers) == checkpoint_is_sound(&again, layers));
    buffer_fini(&text);
    buffer_fini(&text_again);
    return 0;
}
