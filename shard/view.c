/* SPDX-License-Identifier: MIT */
#include "shard/view_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/number.h"

typedef bool parse_fn(struct view *v, const char *value, size_t length, struct error *e);

static bool parse_format(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)v;
    (void)e;
    uint64_t format;
    return number_u64(value, length, &format) && format >= 1 && format <= VIEW_FORMAT;
}

bool view_parse_incarnation(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return length == 16 && number_hex64(value, length, &v->incarnation);
}

static bool parse_epoch(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return number_u64(value, length, &v->epoch) && v->epoch != 0;
}

static bool parse_fenced_epoch(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return number_u64(value, length, &v->fenced_epoch);
}

static bool parse_phase(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return phase_parse(value, length, &v->phase);
}

static bool parse_bit(const char *value, size_t length)
{
    return length == 1 && (*value == '0' || *value == '1');
}

bool view_parse_current(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    v->current = parse_bit(value, length) && *value == '1';
    return parse_bit(value, length);
}

static bool parse_size(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)v; /* for people: the generation says it too */
    (void)e;
    uint64_t shards;
    return number_u64(value, length, &shards);
}

static bool parse_slot(struct generation *g, const char *value, size_t length, struct error *e)
{
    g->number = 0;
    return length == 0 || generation_parse(g, value, length, e) == ERR_OK;
}

bool view_parse_generation0(struct view *v, const char *value, size_t length, struct error *e)
{
    return parse_slot(&v->slot[0], value, length, e);
}

bool view_parse_generation1(struct view *v, const char *value, size_t length, struct error *e)
{
    return parse_slot(&v->slot[1], value, length, e);
}

bool view_parse_last_generation(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return number_u64(value, length, &v->last_generation);
}

bool view_parse_expansion(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    uint64_t expansion = 0;
    bool ok = number_u64(value, length, &expansion) && expansion <= UINT32_MAX;
    v->expansion = (uint32_t)expansion;
    return ok;
}

bool view_parse_sourced(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    v->sourced = parse_bit(value, length) && *value == '1';
    return parse_bit(value, length);
}

static bool parse_retiring_epoch(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return number_u64(value, length, &v->retiring_epoch);
}

static bool parse_retiring(struct view *v, const char *value, size_t length, struct error *e)
{
    return parse_slot(&v->retiring, value, length, e);
}

static bool parse_dropped(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    bool begun = length == 5 && memcmp(value, "begun", 5) == 0;
    v->dropped = begun ? VIEW_DROP_BEGUN : VIEW_DROP_DONE;
    return begun || (length == 4 && memcmp(value, "done", 4) == 0);
}

static const char *const recoveries[] = {
    [RECOVERY_NONE] = "", [RECOVERY_DUE] = "due", [RECOVERY_FENCE] = "fence"};

static bool parse_recovery(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    for (unsigned i = 0; i < sizeof(recoveries) / sizeof(recoveries[0]); i++)
        if (strlen(recoveries[i]) == length && memcmp(recoveries[i], value, length) == 0) {
            v->recovery = (enum view_recovery)i;
            return true;
        }
    return false;
}

bool view_parse_expire_at(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return number_u64(value, length, &v->expire_at_ms);
}

static bool parse_trusted(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return trusted_parse(&v->trusted, value, length);
}

bool view_parse_trusted_ms(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return number_u64(value, length, &v->trusted_ms);
}

static bool parse_unsure(struct view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return unsure_parse(&v->unsure, value, length);
}

/* FIELD_IN_MARKER: the marker of a filter that was deleted has it, too. */
enum { FIELD_OPTIONAL = 1, FIELD_IN_MARKER = 2 };

struct field {
    const char *name;
    unsigned flags;
    parse_fn *parse;
    const char *expected;
};

static const struct field fields_known[] = {
    {"format", FIELD_OPTIONAL, parse_format, "a whole number"},
    {"incarnation", FIELD_IN_MARKER, view_parse_incarnation, "16 hexadecimal digits"},
    {"epoch", 0, parse_epoch, "a whole number, 1 or more"},
    {"fenced_epoch", 0, parse_fenced_epoch, "a whole number"},
    {"phase", 0, parse_phase, "the name of a phase"},
    {"bloom_filter_current_index", 0, view_parse_current, "0 or 1"},
    {"bloom_filter_size", 0, parse_size, "a whole number"},
    {"generation0", 0, view_parse_generation0, "a generation"},
    {"generation1", 0, view_parse_generation1, "a generation"},
    {"last_generation", FIELD_IN_MARKER, view_parse_last_generation, "a whole number"},
    {"expansion", 0, view_parse_expansion, "a whole number below 2^32"},
    {"sourced", 0, view_parse_sourced, "0 or 1"},
    {"retiring_epoch", FIELD_OPTIONAL, parse_retiring_epoch, "a whole number"},
    {"retiring", FIELD_OPTIONAL, parse_retiring, "a generation"},
    {"dropped", FIELD_OPTIONAL, parse_dropped, "begun or done"},
    {"expire_at", FIELD_OPTIONAL, view_parse_expire_at, "Unix milliseconds"},
    {"trusted", FIELD_OPTIONAL, parse_trusted, "replication ids"},
    {"trusted_ms", FIELD_OPTIONAL, view_parse_trusted_ms, "Unix milliseconds"},
    {"recovery", FIELD_OPTIONAL, parse_recovery, "nothing, due or fence"},
    {"unsure", FIELD_OPTIONAL, parse_unsure, "a list of shards"},
};

enum { FIELD_COUNT = sizeof(fields_known) / sizeof(fields_known[0]) };

static unsigned field_index(const struct view_field *f)
{
    unsigned i = 0;
    while (i < FIELD_COUNT && (strlen(fields_known[i].name) != f->name_length ||
                               memcmp(fields_known[i].name, f->name, f->name_length) != 0))
        i++;
    return i;
}

static enum err damaged(struct error *e, const char *field, const char *why)
{
    return error_set(e, ERR_PARSE, "view is damaged: field %s %s", field, why);
}

enum err view_refuse(struct error *e, const char *name, const char *expected, const struct view_field *found,
                     const char *why)
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

/* The generation whose shards are unsure; NULL: there is none. */
static const struct generation *unsure_of(const struct view *v)
{
    for (unsigned s = 0; s < 2; s++)
        if (v->slot[s].number != 0 && v->slot[s].number == v->unsure.generation)
            return &v->slot[s];
    return NULL;
}

/* What the fields must be to each other. */
static enum err check(const struct view *v, struct error *e)
{
    static const char *const slot_names[] = {"generation0", "generation1"};
    if (v->fenced_epoch > v->epoch)
        return damaged(e, "fenced_epoch", "is greater than epoch");
    for (unsigned i = 0; i < 2; i++) {
        if (v->slot[i].number != 0 && v->slot[i].number % 2 != i)
            return damaged(e, slot_names[i], "belongs to the other slot by its number");
        if (v->slot[i].number > v->last_generation)
            return damaged(e, "last_generation", "is less than the number of a generation");
    }
    if (view_current(v)->number == 0)
        return damaged(e, "bloom_filter_current_index", "names an empty slot");
    if (phase_row(v->phase)->writes_alternate && view_alternate(v) == NULL)
        return damaged(e, "phase", "needs an alternate generation and there is none");
    enum opening opening = phase_row(v->phase)->opening;
    if (opening == OPENING_ALWAYS && !view_current(v)->opening)
        return damaged(e, "phase", "needs a layer that is opening and there is none");
    if (opening == OPENING_NEVER && view_current(v)->opening)
        return damaged(e, "phase", "does not go with a layer that is opening");
    if ((v->retiring_epoch != 0) != (v->retiring.number != 0))
        return damaged(e, "retiring", "and retiring_epoch do not belong together");
    if (v->retiring_epoch > v->epoch)
        return damaged(e, "retiring_epoch", "is greater than epoch");
    if (v->unsure.generation != 0 && (unsure_of(v) == NULL || v->unsure.epoch > v->epoch ||
                                      v->unsure.shards != unsure_of(v)->layers[0].geometry.shards))
        return damaged(e, "unsure", "is not of this view");
    return ERR_OK;
}

static bool must_have(const struct field *f, bool marker)
{
    return (f->flags & FIELD_OPTIONAL) == 0 && (!marker || (f->flags & FIELD_IN_MARKER) != 0);
}

/* Looked at before all else: of a later format no other field need be what it seems. */
static enum err check_format(const struct view_field *fields, size_t count, bool *is_log, struct error *e)
{
    static const char name[] = "format";
    for (size_t i = 0; i < count; i++) {
        const struct view_field *f = &fields[i];
        uint64_t format;
        if (f->name_length == sizeof(name) - 1 && memcmp(f->name, name, sizeof(name) - 1) == 0 &&
            number_u64(f->value, f->value_length, &format)) {
            *is_log = format == VIEW_FORMAT_LOG;
            if (format > VIEW_FORMAT_LOG)
                return error_set(e, ERR_FORMAT,
                                 "filter format %" PRIu64
                                 " is newer than this coordinator supports (%d); upgrade it",
                                 format, VIEW_FORMAT_LOG);
        }
    }
    return ERR_OK;
}

enum err view_parse(struct view *out, const struct view_field *fields, size_t count, struct error *e)
{
    bool seen[FIELD_COUNT] = {false};
    out->log = out->degraded = false;
    for (unsigned s = 0; s < 2; s++)
        out->keys[s] = out->keys_of[s] = 0;
    out->dropped = VIEW_KEPT;
    out->expire_at_ms = out->trusted_ms = 0;
    out->recovery = RECOVERY_NONE;
    out->trusted.known = false;
    out->trusted.count = 0;
    unsure_clear(&out->unsure);
    if (count == 0)
        return error_set(e, ERR_NOT_FOUND, "the filter has no view");
    bool is_log = false;
    enum err code = check_format(fields, count, &is_log, e);
    if (code != ERR_OK)
        return code;
    out->retiring_epoch = 0;
    out->retiring.number = 0;
    if (is_log)
        return view_parse_log(out, fields, count, e);
    for (size_t i = 0; i < count; i++) {
        unsigned at = field_index(&fields[i]);
        if (at == FIELD_COUNT)
            continue;
        const struct field *known = &fields_known[at];
        if (seen[at])
            return damaged(e, known->name, "occurs twice");
        seen[at] = true;
        struct error why = {.text = ""};
        if (!known->parse(out, fields[i].value, fields[i].value_length, &why))
            return view_refuse(e, known->name, known->expected, &fields[i], why.text);
    }
    bool marker = out->dropped == VIEW_DROP_DONE;
    for (unsigned i = 0; i < FIELD_COUNT; i++)
        if (!seen[i] && must_have(&fields_known[i], marker))
            return damaged(e, fields_known[i].name, "is missing");
    if (marker)
        return error_set(e, ERR_NOT_FOUND, "the filter was deleted");
    return check(out, e);
}

static void format_u64(view_field_fn *fn, void *arg, const char *name, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    fn(arg, name, text);
}

static void format_generation(view_field_fn *fn, void *arg, const char *name, const struct generation *g)
{
    char text[GENERATION_TEXT_MAX] = "";
    if (g->number != 0)
        (void)generation_text(g, text);
    fn(arg, name, text);
}

void view_format(const struct view *v, view_field_fn *fn, void *arg)
{
    char incarnation[17];
    (void)snprintf(incarnation, sizeof(incarnation), "%016" PRIx64, v->incarnation);
    /* A coordinator that knows nothing of unsure shards would say "no" by them. */
    format_u64(fn, arg, "format", v->unsure.generation != 0 ? VIEW_FORMAT : 1);
    fn(arg, "incarnation", incarnation);
    format_u64(fn, arg, "epoch", v->epoch);
    format_u64(fn, arg, "fenced_epoch", v->fenced_epoch);
    fn(arg, "phase", phase_row(v->phase)->name);
    format_u64(fn, arg, "bloom_filter_current_index", v->current);
    format_u64(fn, arg, "bloom_filter_size", generation_shards(view_current(v)));
    format_generation(fn, arg, "generation0", &v->slot[0]);
    format_generation(fn, arg, "generation1", &v->slot[1]);
    format_u64(fn, arg, "last_generation", v->last_generation);
    format_u64(fn, arg, "expansion", v->expansion);
    format_u64(fn, arg, "sourced", v->sourced);
    format_u64(fn, arg, "retiring_epoch", v->retiring_epoch);
    format_generation(fn, arg, "retiring", &v->retiring);
    fn(arg, "recovery", recoveries[v->recovery]);
    char unsure[UNSURE_TEXT_MAX];
    (void)unsure_text(&v->unsure, unsure);
    fn(arg, "unsure", unsure);
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

bool view_unfenced(const struct view *v)
{
    return v->fenced_epoch < v->epoch;
}

uint32_t view_unsure(const struct view *v)
{
    return v->unsure.generation == view_current(v)->number ? v->unsure.count : 0;
}

bool view_is_anew(const struct view *v, const struct generation *g, unsigned layer, uint32_t shard)
{
    return v->unsure.epoch == v->epoch && unsure_contains(&v->unsure, g->number, layer, shard);
}

void view_trim_unsure(struct view *v)
{
    if (unsure_of(v) == NULL)
        unsure_clear(&v->unsure);
}
