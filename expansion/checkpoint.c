/* SPDX-License-Identifier: MIT */
#include "expansion/checkpoint.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "base/number.h"

enum kind {
    NUMBER, /* uint64_t */
    COUNT,  /* unsigned */
    YES_NO,
    TEXT,  /* taken whole or not at all */
    REMARK /* for people: cut where it is too long */
};

enum writer { BY_OTHERS, BY_SETTLE, BY_SCAN };

static const struct field {
    const char *name;
    enum kind kind;
    enum writer writer;
    size_t offset, size;
} fields[] = {
#define FIELD(name, kind, writer, member)                                                                    \
    {                                                                                                        \
        name, kind, writer, offsetof(struct record, member), sizeof(((struct record *)0)->member)            \
    }
    FIELD("generation", NUMBER, BY_SCAN, generation),
    FIELD("settled", YES_NO, BY_SETTLE, settled),
    FIELD("scan_ended", YES_NO, BY_SCAN, scan_ended),
    FIELD("low_water", TEXT, BY_SETTLE, low_water),
    FIELD("upto", TEXT, BY_SETTLE, upto),
    FIELD("horizon", TEXT, BY_SETTLE, horizon),
    FIELD("last_id", TEXT, BY_SCAN, last_id),
    FIELD("segment_layer", COUNT, BY_SCAN, layer),
    FIELD("segment_after", TEXT, BY_SCAN, segment_after),
    FIELD("segment_upto", TEXT, BY_SCAN, segment_upto),
    FIELD("segment_rows", NUMBER, BY_SCAN, segment_rows),
    FIELD("checkpoint_pass", COUNT, BY_SCAN, pass),
    FIELD("checkpoint_passes", COUNT, BY_SCAN, passes),
    FIELD("checkpoint_rows", NUMBER, BY_SCAN, rows),
    FIELD("rows_total", NUMBER, BY_SETTLE, rows_total),
    FIELD("skipped_null", NUMBER, BY_SCAN, skipped_null),
    FIELD("skipped_empty", NUMBER, BY_SCAN, skipped_empty),
    FIELD("started_ms", NUMBER, BY_OTHERS, started_ms),
    FIELD("switched_ms", NUMBER, BY_OTHERS, switched_ms),
    FIELD("verify_full", YES_NO, BY_OTHERS, verify_full),
    FIELD("reason", REMARK, BY_OTHERS, reason),
#undef FIELD
};

static bool is(const char *text, size_t length, const char *wanted)
{
    return length == strlen(wanted) && memcmp(text, wanted, length) == 0;
}

static void take_remark(char *out, size_t size, const char *value, size_t length)
{
    if (size == 0)
        return;
    size_t most = length < size ? length : size - 1;
    const char *end = most > 0 ? memchr(value, '\0', most) : NULL;
    size_t n = end != NULL ? (size_t)(end - value) : most;
    memcpy(out, value, n);
    out[n] = '\0';
}

static bool take_text(char *out, size_t size, const char *value, size_t length)
{
    bool fits = length < size && memchr(value, '\0', length) == NULL;
    take_remark(out, size, value, fits ? length : 0);
    return fits;
}

static bool take_number(uint64_t *out, const char *value, size_t length)
{
    uint64_t number = 0;
    bool fine = number_u64(value, length, &number);
    *out = fine ? number : 0;
    return fine;
}

static bool take_count(unsigned *out, const char *value, size_t length)
{
    uint64_t number;
    bool fine = take_number(&number, value, length) && number <= UINT_MAX;
    *out = fine ? (unsigned)number : 0;
    return fine;
}

static bool take_yes_no(bool *out, const char *value, size_t length)
{
    *out = is(value, length, "1");
    return *out || is(value, length, "0");
}

static bool take(const struct field *f, void *member, const char *value, size_t length)
{
    switch (f->kind) {
    case NUMBER:
        return take_number(member, value, length);
    case COUNT:
        return take_count(member, value, length);
    case YES_NO:
        return take_yes_no(member, value, length);
    case TEXT:
        return take_text(member, f->size, value, length);
    case REMARK:
        take_remark(member, f->size, value, length);
        return true;
    }
    return false;
}

bool checkpoint_take(struct record *r, const char *name, size_t name_length, const char *value,
                     size_t value_length)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (is(name, name_length, fields[i].name)) {
            bool fine = take(&fields[i], (char *)r + fields[i].offset, value, value_length);
            return fine || fields[i].writer == BY_OTHERS; /* these lead to no row */
        }
    if (is(name, name_length, "step"))
        (void)step_parse(value, value_length, &r->step); /* one it does not know: from the settle */
    else if (is(name, name_length, "state"))
        r->running = is(value, value_length, "running");
    return true;
}

bool checkpoint_is_sound(const struct record *r, unsigned layers)
{
    bool before_first_pass = r->pass == 0 && r->passes == 0;
    return r->layer < layers && (r->pass < r->passes || before_first_pass);
}

void checkpoint_each(const struct record *r, bool settled, checkpoint_fn *fn, void *arg)
{
    for (const struct field *f = fields; f < fields + sizeof(fields) / sizeof(fields[0]); f++) {
        if (f->writer != BY_SCAN && !(settled && f->writer == BY_SETTLE))
            continue;
        const void *member = (const char *)r + f->offset;
        char text[24] = "";
        if (f->kind == NUMBER)
            (void)snprintf(text, sizeof(text), "%" PRIu64, *(const uint64_t *)member);
        else if (f->kind == COUNT)
            (void)snprintf(text, sizeof(text), "%u", *(const unsigned *)member);
        else if (f->kind == YES_NO)
            (void)snprintf(text, sizeof(text), "%d", *(const bool *)member);
        fn(arg, f->name, f->kind == TEXT ? (const char *)member : text);
    }
}
