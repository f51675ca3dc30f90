/* SPDX-License-Identifier: MIT */
/* What a view of format 3 (shard/view/log_view.h), that of a filter that is a log, says to those who do not
 * follow the log: administration, plans, status. */
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/number.h"
#include "shard/view_internal.h"

typedef bool parse_fn(struct view *v, const char *value, size_t length, struct error *e);

static bool parse_version(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    bool ok = number_u64(value, length, &v->epoch) && v->epoch != 0;
    v->fenced_epoch = v->epoch; /* there is nothing to fence */
    return ok;
}

static bool parse_deleting(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    v->dropped = length == 1 && *value == '1' ? VIEW_DROP_BEGUN : VIEW_KEPT;
    return length == 1 && (*value == '0' || *value == '1');
}

static bool parse_degraded(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    v->degraded = length == 1 && *value == '1';
    return length == 1 && (*value == '0' || *value == '1');
}

/* "<generation> <keys>", and maybe where they were counted */
static bool parse_keys(struct view *v, unsigned slot, const char *value, size_t length)
{
    const char *space = memchr(value, ' ', length);
    size_t first = space == NULL ? 0 : (size_t)(space - value);
    const char *behind = space == NULL ? NULL : memchr(space + 1, ' ', length - first - 1);
    size_t second = behind == NULL ? length - first - 1 : (size_t)(behind - space - 1);
    return space != NULL && number_u64(value, first, &v->keys_of[slot]) &&
           number_u64(space + 1, second, &v->keys[slot]);
}

static bool parse_keys0(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return parse_keys(v, 0, value, length);
}

static bool parse_keys1(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return parse_keys(v, 1, value, length);
}

static const struct field {
    const char *name;
    bool is_optional;
    parse_fn *parse;
    const char *expected;
} known[] = {
    {"incarnation", false, view_parse_incarnation, "16 hexadecimal digits"},
    {"version", false, parse_version, "a whole number, 1 or more"},
    {"bloom_filter_current_index", false, view_parse_current, "0 or 1"},
    {"generation0", false, view_parse_generation0, "a generation"},
    {"generation1", false, view_parse_generation1, "a generation"},
    {"last_generation", false, view_parse_last_generation, "a whole number"},
    {"expansion", false, view_parse_expansion, "a whole number below 2^32"},
    {"sourced", false, view_parse_sourced, "0 or 1"},
    {"degraded", false, parse_degraded, "0 or 1"},
    {"deleting", false, parse_deleting, "0 or 1"},
    {"keys0", true, parse_keys0, "a generation's number and keys"},
    {"keys1", true, parse_keys1, "a generation's number and keys"},
    {"expire_at", true, view_parse_expire_at, "Unix milliseconds"},
    {"healthy_ms", true, view_parse_trusted_ms, "Unix milliseconds"},
};

enum { KNOWN = sizeof(known) / sizeof(known[0]) };

static unsigned index_of(const struct view_field *f)
{
    unsigned i = 0;
    while (i < KNOWN &&
           (strlen(known[i].name) != f->name_length || memcmp(known[i].name, f->name, f->name_length) != 0))
        i++;
    return i;
}

/* A later generation beside the one that is read is being built, or was read before a rollback; an earlier
 * one was read before the cutover. */
static enum phase phase_of(const struct view *v)
{
    const struct generation *current = view_current(v), *other = view_alternate(v);
    if (other == NULL)
        return phase_alone(current->layer_count);
    return other->number > current->number ? PHASE_BUILDING : PHASE_SWITCHED;
}

enum err view_parse_log(struct view *out, const struct view_field *fields, size_t count, struct error *e)
{
    bool seen[KNOWN] = {false};
    out->log = true;
    for (size_t i = 0; i < count; i++) {
        struct error why = {""};
        unsigned at = index_of(&fields[i]);
        if (at == KNOWN)
            continue;
        seen[at] = true;
        if (!known[at].parse(out, fields[i].value, fields[i].value_length, &why))
            return view_refuse(e, known[at].name, known[at].expected, &fields[i], why.text);
    }
    for (unsigned i = 0; i < KNOWN; i++)
        if (!seen[i] && !known[i].is_optional)
            return error_set(e, ERR_PARSE, "view is damaged: field %s is missing", known[i].name);
    if (view_current(out)->number == 0)
        return error_set(e, ERR_PARSE, "view is damaged: bloom_filter_current_index names an empty slot");
    for (unsigned s = 0; s < 2; s++)
        if (out->keys_of[s] != out->slot[s].number)
            out->keys[s] = 0;
    out->phase = phase_of(out);
    return ERR_OK;
}

enum err view_refuse_core(const struct view *v, struct error *e)
{
    return v->log ? error_set(e, ERR_FORMAT,
                              "the filter has format %d, which this version does not keep filters in",
                              VIEW_FORMAT_LOG)
                  : error_set(e, ERR_FORMAT,
                              "an earlier version made the filter (format %d or less): delete it, and have "
                              "it built from "
                              "its table, or add its keys again",
                              VIEW_FORMAT);
}
