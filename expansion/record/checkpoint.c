/* SPDX-License-Identifier: MIT */
#include "expansion/record/checkpoint.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"

enum kind {
    NUMBER, /* uint64_t */
    COUNT,  /* unsigned */
    YES_NO,
    TEXT,  /* rejected if too long */
    REMARK /* for people: cut if too long */
};

enum writer { BY_OTHERS, BY_SETTLE, BY_SCAN };

struct field {
    const char *name;
    enum kind kind;
    enum writer writer;
    size_t offset, size;
};

static const struct field fields[] = {
#define FIELD(name, kind, writer, member)                                                                    \
    {                                                                                                        \
        name, kind, writer, offsetof(struct record, member), sizeof(((struct record *)0)->member)            \
    }
    FIELD("id", NUMBER, BY_OTHERS, id),
    FIELD("generation", NUMBER, BY_SCAN, generation),
    FIELD("made", NUMBER, BY_SCAN, made),
    FIELD("settled", YES_NO, BY_SETTLE, settled),
    FIELD("scan_ended", YES_NO, BY_SCAN, scan_ended),
    FIELD("horizon", TEXT, BY_SETTLE, horizon),
    FIELD("swept", TEXT, BY_SETTLE, swept),
    FIELD("system", NUMBER, BY_SETTLE, system),
    FIELD("blocks", YES_NO, BY_SETTLE, blocks),
    FIELD("tables_hash", NUMBER, BY_SETTLE, tables_hash),
    FIELD("keys_hash", NUMBER, BY_SETTLE, keys_hash),
    FIELD("source", NUMBER, BY_SETTLE, source),
    FIELD("newest", TEXT, BY_SETTLE, newest),
    FIELD("tables", COUNT, BY_SETTLE, tables),
    FIELD("next_table", COUNT, BY_SCAN, next_table),
    FIELD("ranges", COUNT, BY_SCAN, range_count),
    FIELD("checkpoint_rows", NUMBER, BY_SCAN, rows),
    FIELD("rows_total", NUMBER, BY_SETTLE, rows_total),
    FIELD("coverage", TEXT, BY_SETTLE, coverage),
    FIELD("skipped_null", NUMBER, BY_SCAN, skipped_null),
    FIELD("started_ms", NUMBER, BY_OTHERS, started_ms),
    FIELD("switched_ms", NUMBER, BY_OTHERS, switched_ms),
    FIELD("unconfirmed", YES_NO, BY_OTHERS, unconfirmed),
    FIELD("verify_full", YES_NO, BY_OTHERS, verify_full),
    FIELD("healed", REMARK, BY_OTHERS, healed),
    FIELD("reason", REMARK, BY_OTHERS, reason),
#undef FIELD
};

/* Fields in lists: "range.3.after". */
static const struct list_field {
    const char *list, *name;
    enum kind kind;
    size_t offset, size;
} list_fields[] = {
    {"range", "table", COUNT, offsetof(struct scan_range, table), sizeof(unsigned)},
    {"range", "after", TEXT, offsetof(struct scan_range, after), SOURCE_ID_MAX},
    {"range", "upto", TEXT, offsetof(struct scan_range, upto), SOURCE_ID_MAX},
    {"table", "low_water", TEXT, offsetof(struct table_mark, low_water), SOURCE_ID_MAX},
    {"table", "upto", TEXT, offsetof(struct table_mark, upto), SOURCE_ID_MAX},
};

enum {
    FIELDS = sizeof(fields) / sizeof(fields[0]),
    LIST_FIELDS = sizeof(list_fields) / sizeof(list_fields[0])
};

/* --- memory --- */

void record_fini(struct record *r)
{
    free(r->ranges);
    free(r->marks);
    *r = (struct record){.ranges = NULL};
}

static bool grow(void **list, unsigned *have, unsigned wanted, size_t size)
{
    if (wanted <= *have)
        return true;
    char *more = reallocarray(*list, wanted, size);
    if (more == NULL)
        return false;
    memset(more + *have * size, 0, (wanted - *have) * size);
    *list = more;
    *have = wanted;
    return true;
}

bool record_make_room(struct record *r, unsigned ranges, unsigned marks)
{
    void *of_ranges = r->ranges, *of_marks = r->marks;
    bool fine = grow(&of_ranges, &r->ranges_taken, ranges, sizeof(*r->ranges));
    r->ranges = of_ranges;
    fine = grow(&of_marks, &r->marks_taken, marks, sizeof(*r->marks)) && fine;
    r->marks = of_marks;
    return fine;
}

/* --- values --- */

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

static bool take(enum kind kind, void *member, size_t size, const char *value, size_t length)
{
    switch (kind) {
    case NUMBER:
        return take_number(member, value, length);
    case COUNT:
        return take_count(member, value, length);
    case YES_NO:
        return take_yes_no(member, value, length);
    case TEXT:
        return take_text(member, size, value, length);
    case REMARK:
        take_remark(member, size, value, length);
        return true;
    }
    return false;
}

/* Split "range.3.after" into its parts; NULL: the name is not of a list. */
static const struct list_field *find_in_list(const char *name, size_t length, uint64_t *index)
{
    const char *dot = memchr(name, '.', length);
    const char *last = memrchr(name, '.', length);
    if (dot == NULL || last == dot || !number_u64(dot + 1, (size_t)(last - dot) - 1, index))
        return NULL;
    for (size_t i = 0; i < LIST_FIELDS; i++)
        if (is(name, (size_t)(dot - name), list_fields[i].list) &&
            is(last + 1, (size_t)(name + length - last) - 1, list_fields[i].name))
            return &list_fields[i];
    return NULL;
}

static bool take_in_list(struct record *r, const struct list_field *f, uint64_t index, const char *value,
                         size_t length)
{
    bool of_range = strcmp(f->list, "range") == 0;
    if (index >= (of_range ? (uint64_t)READERS_RANGES_MAX : (uint64_t)SOURCE_TABLES_MAX))
        return false;
    unsigned wanted = (unsigned)index + 1;
    if (!record_make_room(r, of_range ? wanted : 0, of_range ? 0 : wanted))
        return false;
    char *member = of_range ? (char *)&r->ranges[index] : (char *)&r->marks[index];
    return take(f->kind, member + f->offset, f->size, value, length);
}

bool checkpoint_take(struct record *r, const char *name, size_t name_length, const char *value,
                     size_t value_length)
{
    uint64_t index = 0;
    const struct list_field *l = find_in_list(name, name_length, &index);
    if (l != NULL)
        return take_in_list(r, l, index, value, value_length);
    for (size_t i = 0; i < FIELDS; i++)
        if (is(name, name_length, fields[i].name)) {
            const struct field *f = &fields[i];
            bool fine = take(f->kind, (char *)r + f->offset, f->size, value, value_length);
            return fine || f->writer == BY_OTHERS; /* other writers' fields select no rows */
        }
    if (is(name, name_length, "step"))
        (void)step_parse(value, value_length, &r->step); /* an unknown step: begin with the settle */
    else if (is(name, name_length, "state"))
        r->running = is(value, value_length, "running");
    return true;
}

/* True if the range is of blocks: from a number to a number; "": a part that is read as a whole. */
static bool are_blocks(const struct scan_range *at)
{
    uint64_t after = 0, upto = UINT64_MAX;
    return (at->after[0] == '\0' || number_u64(at->after, strlen(at->after), &after)) &&
           (at->upto[0] == '\0' || number_u64(at->upto, strlen(at->upto), &upto)) && after <= upto;
}

bool checkpoint_is_sound(const struct record *r)
{
    if (!r->settled)
        return true; /* none of it is used */
    bool sound = r->tables <= SOURCE_TABLES_MAX * 64u && r->next_table <= r->tables &&
                 r->range_count <= r->ranges_taken && r->range_count <= READERS_RANGES_MAX;
    for (unsigned i = 0; i < r->range_count && sound; i++)
        sound = r->ranges[i].table < r->tables && (!r->blocks || are_blocks(&r->ranges[i]));
    return sound;
}

/* --- writing --- */

static void write_value(enum kind kind, const void *member, const char *name, checkpoint_fn *fn, void *arg)
{
    char text[24] = "";
    if (kind == NUMBER)
        (void)snprintf(text, sizeof(text), "%" PRIu64, *(const uint64_t *)member);
    else if (kind == COUNT)
        (void)snprintf(text, sizeof(text), "%u", *(const unsigned *)member);
    else if (kind == YES_NO)
        (void)snprintf(text, sizeof(text), "%d", *(const bool *)member);
    fn(arg, name, kind == TEXT ? (const char *)member : text);
}

static void write_list(const char *list, unsigned i, const void *member, checkpoint_fn *fn, void *arg)
{
    for (const struct list_field *f = list_fields; f < list_fields + LIST_FIELDS; f++)
        if (strcmp(f->list, list) == 0) {
            char name[48];
            (void)snprintf(name, sizeof(name), "%s.%u.%s", list, i, f->name);
            write_value(f->kind, (const char *)member + f->offset, name, fn, arg);
        }
}

void checkpoint_marks(const struct record *r, checkpoint_fn *fn, void *arg)
{
    for (unsigned i = 0; i < r->marks_taken; i++)
        write_list("table", i, &r->marks[i], fn, arg);
}

void checkpoint_each(const struct record *r, bool settled, checkpoint_fn *fn, void *arg)
{
    for (const struct field *f = fields; f < fields + FIELDS; f++)
        if (f->writer == BY_SCAN || (settled && f->writer == BY_SETTLE))
            write_value(f->kind, (const char *)r + f->offset, f->name, fn, arg);
    for (unsigned i = 0; i < r->range_count && i < r->ranges_taken; i++)
        write_list("range", i, &r->ranges[i], fn, arg);
    if (settled)
        checkpoint_marks(r, fn, arg);
}
