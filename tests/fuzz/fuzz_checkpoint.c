/* SPDX-License-Identifier: MIT */
/* The job's record, as lines NAME=VALUE. No value may crash the parser, or leave numbers that lead beyond an
 * array or a table. The accepted fields are written, accepted again, and then written the same. */
#include <stdbool.h>
#include <string.h>

#include "base/buffer.h"
#include "base/number.h"
#include "expansion/record/checkpoint.h"
#include "tests/fuzz/fuzz.h"

static uint8_t *copy(const uint8_t *bytes, size_t length) /* exact size: no terminator */
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

/* An accepted value is written as it was, except for leading zeros. A refused value is written as "" or 0. */
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

enum { MARKS_CHECKED = 64 /* with more marks, writing all of them after each line takes too long */ };

/* Write also the ranges that the record does not count, or does not count yet. */
static void write_all(const struct record *r, const struct line *l)
{
    struct record all = *r;
    if (l->name_length > 6 && memcmp(l->name, "range.", 6) == 0)
        all.range_count = all.ranges_taken;
    if (r->marks_taken <= MARKS_CHECKED)
        checkpoint_each(&all, true, check_written, (void *)l);
}

static bool take_line(struct record *r, const uint8_t *line, size_t length)
{
    const uint8_t *equals = memchr(line, '=', length);
    size_t name_length = equals != NULL ? (size_t)(equals - line) : length;
    size_t value_length = equals != NULL ? length - name_length - 1 : 0;
    uint8_t *name = copy(line, name_length), *value = copy(line + (length - value_length), value_length);
    struct line l = {name, value, name_length, value_length, false};
    l.taken = checkpoint_take(r, (const char *)name, name_length, (const char *)value, value_length);
    write_all(r, &l);
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

static bool is_number(const char *text)
{
    uint64_t number;
    return text[0] == '\0' || number_u64(text, strlen(text), &number);
}

static void check_lists(const struct record *r, bool sound)
{
    fuzz_check(r->ranges_taken <= READERS_RANGES_MAX && r->marks_taken <= SOURCE_TABLES_MAX);
    for (unsigned i = 0; i < r->ranges_taken; i++) {
        const struct scan_range *at = &r->ranges[i];
        fuzz_check(ends(at->after, sizeof(at->after)) && ends(at->upto, sizeof(at->upto)));
        if (sound && i < r->range_count)
            fuzz_check(at->table < r->tables &&
                       (!r->blocks || (is_number(at->after) && is_number(at->upto))));
    }
    for (unsigned i = 0; i < r->marks_taken; i++)
        fuzz_check(ends(r->marks[i].low_water, SOURCE_ID_MAX) && ends(r->marks[i].upto, SOURCE_ID_MAX));
}

static void check_bounds(const struct record *r)
{
    enum job_step step;
    const char *name = step_name(r->step);
    fuzz_check(step_parse(name, strlen(name), &step) && step == r->step);
    fuzz_check(ends(r->horizon, sizeof(r->horizon)) && ends(r->swept, sizeof(r->swept)));
    fuzz_check(ends(r->reason, sizeof(r->reason)));
    bool sound = r->settled && checkpoint_is_sound(r);
    check_lists(r, sound);
    if (!sound)
        return;
    fuzz_check(r->range_count <= r->ranges_taken && r->next_table <= r->tables);
    struct record broken = *r;
    broken.next_table = r->tables + 1;
    fuzz_check(!checkpoint_is_sound(&broken));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct record r = {.step = STEP_RECLAIM}, again = {.step = STEP_RECLAIM};
    struct buffer text = {0}, text_again = {0};
    (void)parse(&r, data, size);
    check_bounds(&r);
    if (r.marks_taken > MARKS_CHECKED)
        r.marks_taken = MARKS_CHECKED;
    checkpoint_each(&r, true, put, &text);
    fuzz_check(!buffer_failed(&text));
    fuzz_check(parse(&again, (const uint8_t *)text.data, text.length));
    checkpoint_each(&again, true, put, &text_again);
    fuzz_check(text.length == text_again.length && memcmp(text.data, text_again.data, text.length) == 0);
    fuzz_check(checkpoint_is_sound(&r) == checkpoint_is_sound(&again));
    buffer_fini(&text);
    buffer_fini(&text_again);
    record_fini(&r);
    record_fini(&again);
    return 0;
}
