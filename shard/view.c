/* SPDX-License-Identifier: MIT */
#include "shard/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/number.h"

typedef bool parse_fn(struct view *v, const char *value, size_t length, struct error *e);

static bool parse_incarnation(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return length == 16 && number_hex64(value, length, &v->incarnation);
}

static bool parse_version(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    bool ok = number_u64(value, length, &v->epoch) && v->epoch != 0;
    return ok;
}

static bool parse_bit(const char *value, size_t length)
{
    return length == 1 && (*value == '0' || *value == '1');
}

static bool parse_current(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    v->current = parse_bit(value, length) && *value == '1';
    return parse_bit(value, length);
}

static bool parse_slot(struct generation *g, const char *value, size_t length, struct error *e)
{
    g->number = 0;
    return length == 0 || generation_parse(g, value, length, e) == ERR_OK;
}

static bool parse_generation0(struct view *v, const char *value, size_t length, struct error *e)
{
    return parse_slot(&v->slot[0], value, length, e);
}

static bool parse_generation1(struct view *v, const char *value, size_t length, struct error *e)
{
    return parse_slot(&v->slot[1], value, length, e);
}

static bool parse_last_generation(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return number_u64(value, length, &v->last_generation);
}

static bool parse_expansion(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    uint64_t expansion = 0;
    bool ok = number_u64(value, length, &expansion) && expansion <= UINT32_MAX;
    v->expansion = (uint32_t)expansion;
    return ok;
}

static bool parse_sourced(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    v->sourced = parse_bit(value, length) && *value == '1';
    return parse_bit(value, length);
}

static bool parse_expire_at(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return number_u64(value, length, &v->expire_at_ms);
}

static bool parse_healthy_ms(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return number_u64(value, length, &v->healthy_ms);
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
    {"incarnation", false, parse_incarnation, "16 hexadecimal digits"},
    {"version", false, parse_version, "a whole number, 1 or more"},
    {"bloom_filter_current_index", false, parse_current, "0 or 1"},
    {"generation0", false, parse_generation0, "a generation"},
    {"generation1", false, parse_generation1, "a generation"},
    {"last_generation", false, parse_last_generation, "a whole number"},
    {"expansion", false, parse_expansion, "a whole number below 2^32"},
    {"sourced", false, parse_sourced, "0 or 1"},
    {"degraded", false, parse_degraded, "0 or 1"},
    {"deleting", false, parse_deleting, "0 or 1"},
    {"keys0", true, parse_keys0, "a generation's number and keys"},
    {"keys1", true, parse_keys1, "a generation's number and keys"},
    {"expire_at", true, parse_expire_at, "Unix milliseconds"},
    {"healthy_ms", true, parse_healthy_ms, "Unix milliseconds"},
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

static enum err refuse(struct error *e, const char *name, const char *expected,
                       const struct view_field *found, const char *why)
{
    char text[64]; /* its beginning: a generation is long, and @why quotes the part */
    size_t n = found->value_length < sizeof(text) - 1 ? found->value_length : sizeof(text) - 1;
    memcpy(text, found->value, n);
    text[n] = '\0';
    if (why[0] != '\0')
        return error_set(e, ERR_PARSE, "view is damaged: field %s: %.250s", name, why);
    return error_set(e, ERR_PARSE, "view is damaged: field %s must be %s; here is %s", name, expected,
                     log_quote(text));
}

/* Looked at before all else: of another format no other field need be what it seems. */
static enum err check_format(const struct view_field *fields, size_t count, struct error *e)
{
    static const char name[] = "format";
    uint64_t format = 1; /* where there is none */
    for (size_t i = 0; i < count; i++)
        if (fields[i].name_length == sizeof(name) - 1 &&
            memcmp(fields[i].name, name, sizeof(name) - 1) == 0 &&
            !number_u64(fields[i].value, fields[i].value_length, &format))
            return error_set(e, ERR_PARSE, "view is damaged: field format is not a whole number");
    if (format > VIEW_FORMAT)
        return error_set(e, ERR_FORMAT,
                         "filter format %" PRIu64 " is newer than this coordinator supports (%d); upgrade it",
                         format, VIEW_FORMAT);
    if (format < VIEW_FORMAT)
        return error_set(e, ERR_FORMAT,
                         "an earlier version made the filter (format %" PRIu64
                         ", here it is %d): delete it, and "
                         "have it built from its table, or add its keys again",
                         format, VIEW_FORMAT);
    return ERR_OK;
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

enum err view_parse(struct view *out, const struct view_field *fields, size_t count, struct error *e)
{
    bool seen[KNOWN] = {false};
    if (count == 0)
        return error_set(e, ERR_NOT_FOUND, "the filter has no view");
    enum err code = check_format(fields, count, e);
    if (code != ERR_OK)
        return code;
    out->degraded = false;
    for (unsigned s = 0; s < 2; s++)
        out->keys[s] = out->keys_of[s] = 0;
    out->dropped = VIEW_KEPT;
    out->expire_at_ms = out->healthy_ms = 0;
    for (size_t i = 0; i < count; i++) {
        struct error why = {""};
        unsigned at = index_of(&fields[i]);
        if (at == KNOWN)
            continue;
        if (seen[at])
            return error_set(e, ERR_PARSE, "view is damaged: field %s occurs twice", known[at].name);
        seen[at] = true;
        if (!known[at].parse(out, fields[i].value, fields[i].value_length, &why))
            return refuse(e, known[at].name, known[at].expected, &fields[i], why.text);
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

const struct generation *view_current(const struct view *v)
{
    return &v->slot[v->current];
}

const struct generation *view_alternate(const struct view *v)
{
    const struct generation *g = &v->slot[1 - v->current];
    return g->number == 0 ? NULL : g;
}
