/* SPDX-License-Identifier: MIT */
#include "shard/view/log_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/number.h"

typedef bool parse_fn(struct log_view *v, const char *value, size_t length, struct error *e);

static bool parse_format(struct log_view *v, const char *value, size_t length, struct error *e)
{
    uint64_t format;
    (void)v;
    (void)e;
    return number_u64(value, length, &format) && format == LOG_VIEW_FORMAT;
}

static bool parse_incarnation(struct log_view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return length == 16 && number_hex64(value, length, &v->incarnation) && v->incarnation != 0;
}

static bool parse_version(struct log_view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return number_u64(value, length, &v->version) && v->version != 0;
}

static bool parse_seed(struct log_view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return length == 16 && number_hex64(value, length, &v->seed);
}

static bool parse_last_generation(struct log_view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return number_u64(value, length, &v->last_generation);
}

static bool parse_expansion(struct log_view *v, const char *value, size_t length, struct error *e)
{
    uint64_t expansion = 0;
    (void)e;
    bool ok = number_u64(value, length, &expansion) && expansion <= UINT32_MAX;
    v->expansion = (uint32_t)expansion;
    return ok;
}

static bool is_bit(const char *value, size_t length)
{
    return length == 1 && (*value == '0' || *value == '1');
}

static bool parse_sourced(struct log_view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    v->sourced = is_bit(value, length) && *value == '1';
    return is_bit(value, length);
}

static bool parse_current(struct log_view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    v->current = is_bit(value, length) && *value == '1';
    return is_bit(value, length);
}

static bool parse_size(struct log_view *v, const char *value, size_t length, struct error *e)
{
    uint64_t shards; /* for people: the generation says it too */
    (void)v;
    (void)e;
    return number_u64(value, length, &shards);
}

static bool parse_lanes(struct log_view *v, const char *value, size_t length, struct error *e)
{
    const char *end = value + length;
    (void)e;
    for (v->lane_count = 0; v->lane_count < LOG_LANES_MAX; value++) {
        const char *comma = memchr(value, ',', (size_t)(end - value));
        const char *stop = comma == NULL ? end : comma;
        uint64_t *number = &v->lane_number[v->lane_count++];
        if (!number_u64(value, (size_t)(stop - value), number) || *number == 0)
            return false;
        if (comma == NULL)
            return true;
        value = comma;
    }
    return false;
}

static bool parse_eras(struct log_view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return trusted_parse(&v->eras, value, length);
}

static bool parse_generation(struct log_view *v, unsigned slot, const char *value, size_t length,
                             struct error *e)
{
    return length == 0 || generation_parse(&v->slot[slot].shape, value, length, e) == ERR_OK;
}

static bool parse_generation0(struct log_view *v, const char *value, size_t length, struct error *e)
{
    return parse_generation(v, 0, value, length, e);
}

static bool parse_generation1(struct log_view *v, const char *value, size_t length, struct error *e)
{
    return parse_generation(v, 1, value, length, e);
}

static bool parse_token0(struct log_view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return log_token_parse(&v->slot[0].writer, value, length);
}

static bool parse_token1(struct log_view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    return log_token_parse(&v->slot[1].writer, value, length);
}

static const struct field {
    const char *name;
    parse_fn *parse;
} known[] = {
    {"format", parse_format},
    {"incarnation", parse_incarnation},
    {"version", parse_version},
    {"seed", parse_seed},
    {"last_generation", parse_last_generation},
    {"expansion", parse_expansion},
    {"sourced", parse_sourced},
    {"bloom_filter_current_index", parse_current},
    {"bloom_filter_size", parse_size},
    {"lanes", parse_lanes},
    {"eras", parse_eras},
    {"generation0", parse_generation0},
    {"generation1", parse_generation1},
    {"token0", parse_token0},
    {"token1", parse_token1},
};

enum { KNOWN = sizeof(known) / sizeof(known[0]) };

static bool is_named(const struct view_field *f, const char *name)
{
    return strlen(name) == f->name_length && memcmp(name, f->name, f->name_length) == 0;
}

static enum err damaged(struct error *e, const struct view_field *f, const char *why)
{
    return error_set(e, ERR_PARSE, "field %.*s of the view is damaged: \"%.*s\"%s%.300s", (int)f->name_length,
                     f->name, f->value_length < 64 ? (int)f->value_length : 64, f->value,
                     *why == '\0' ? "" : ": ", why);
}

/* "folded<slot>.<lane>"; false: the field is none of these. */
static bool is_position(const struct view_field *f, unsigned *slot, unsigned *lane)
{
    static const char name[] = "folded";
    size_t at = sizeof(name) - 1;
    uint64_t n;
    if (f->name_length < at + 3 || memcmp(f->name, name, at) != 0 || !is_bit(f->name + at, 1) ||
        f->name[at + 1] != '.' || !number_u64(f->name + at + 2, f->name_length - at - 2, &n) ||
        n >= LOG_LANES_MAX)
        return false;
    *slot = f->name[at] == '1';
    *lane = (unsigned)n;
    return true;
}

static enum err parse_position(struct log_folded *out, const struct view_field *f, struct error *e)
{
    const char *blank = memchr(f->value, ' ', f->value_length);
    struct error why = {"not \"<lane number> <position>\""};
    if (blank == NULL || !number_u64(f->value, (size_t)(blank - f->value), &out->lane_number) ||
        log_position_parse(&out->position, blank + 1, f->value_length - (size_t)(blank + 1 - f->value),
                           &why) != ERR_OK)
        return damaged(e, f, why.text);
    return ERR_OK;
}

/* Of another format no other field need be what it seems. */
static enum err check_format(const struct view_field *fields, size_t count, struct error *e)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t format;
        if (is_named(&fields[i], "format") && number_u64(fields[i].value, fields[i].value_length, &format) &&
            format != LOG_VIEW_FORMAT)
            return error_set(e, ERR_FORMAT, "the filter's format is %" PRIu64 ", and this version reads %d",
                             format, LOG_VIEW_FORMAT);
    }
    return ERR_OK;
}

static enum err parse_field(struct log_view *out, const struct view_field *f, bool seen[KNOWN],
                            struct error *e)
{
    unsigned slot, lane;
    if (is_position(f, &slot, &lane))
        return parse_position(&out->slot[slot].folded[lane], f, e);
    for (unsigned i = 0; i < KNOWN; i++) {
        struct error why = {""};
        if (!is_named(f, known[i].name))
            continue;
        seen[i] = true;
        return known[i].parse(out, f->value, f->value_length, &why) ? ERR_OK : damaged(e, f, why.text);
    }
    return ERR_OK;
}

static enum err check(const struct log_view *v, struct error *e)
{
    for (unsigned i = 0; i < 2; i++) {
        uint64_t number = v->slot[i].shape.number;
        if (number != 0 && (number % 2 != i || number > v->last_generation))
            return error_set(e, ERR_PARSE,
                             "the view is damaged: generation%u has number %" PRIu64
                             ", which is the other slot's or above last_generation",
                             i, number);
    }
    if (v->slot[v->current].shape.number == 0)
        return error_set(e, ERR_PARSE, "the view is damaged: bloom_filter_current_index names an empty slot");
    return ERR_OK;
}

enum err log_view_parse(struct log_view *out, const struct view_field *fields, size_t count, struct error *e)
{
    bool seen[KNOWN] = {false};
    if (count == 0)
        return error_set(e, ERR_NOT_FOUND, "the filter has no view");
    enum err code = check_format(fields, count, e);
    for (unsigned s = 0; s < 2; s++) {
        out->slot[s].shape.number = 0;
        for (unsigned lane = 0; lane < LOG_LANES_MAX; lane++)
            out->slot[s].folded[lane].lane_number = 0;
    }
    for (size_t i = 0; i < count && code == ERR_OK; i++)
        code = parse_field(out, &fields[i], seen, e);
    for (unsigned i = 0; i < KNOWN && code == ERR_OK; i++)
        if (!seen[i])
            code = error_set(e, ERR_PARSE, "the view is damaged: field %s is missing", known[i].name);
    return code == ERR_OK ? check(out, e) : code;
}

static void format_number(view_field_fn *fn, void *arg, const char *name, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    fn(arg, name, text);
}

static void format_hex(view_field_fn *fn, void *arg, const char *name, uint64_t value)
{
    char text[17];
    (void)snprintf(text, sizeof(text), "%016" PRIx64, value);
    fn(arg, name, text);
}

static void format_slot(view_field_fn *fn, void *arg, const struct log_generation *g, const char *name,
                        const char *token_name)
{
    char text[GENERATION_TEXT_MAX] = "";
    char token[LOG_TOKEN_TEXT_MAX];
    if (g->shape.number != 0)
        (void)generation_text(&g->shape, text);
    fn(arg, name, text);
    log_token_text(&g->writer, token);
    fn(arg, token_name, token);
}

static void format_lanes(const struct log_view *v, view_field_fn *fn, void *arg)
{
    char text[LOG_LANES_MAX * 21 + 1];
    size_t at = 0;
    for (unsigned i = 0; i < v->lane_count; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%" PRIu64, i == 0 ? "" : ",",
                               v->lane_number[i]);
    fn(arg, "lanes", text);
}

static void format_eras(const struct log_view *v, view_field_fn *fn, void *arg)
{
    char text[LINEAGES_MAX * (LINEAGE_DIGITS + 1) + 2] = "-";
    size_t at = 0;
    for (unsigned i = 0; i < v->eras.count; i++)
        at +=
            (size_t)snprintf(text + at, sizeof(text) - at, "%s%016" PRIx64, i == 0 ? "" : " ", v->eras.id[i]);
    fn(arg, "eras", text);
}

void log_view_format(const struct log_view *v, view_field_fn *fn, void *arg)
{
    format_number(fn, arg, "format", LOG_VIEW_FORMAT);
    format_hex(fn, arg, "incarnation", v->incarnation);
    format_number(fn, arg, "version", v->version);
    format_hex(fn, arg, "seed", v->seed);
    format_number(fn, arg, "last_generation", v->last_generation);
    format_number(fn, arg, "expansion", v->expansion);
    format_number(fn, arg, "sourced", v->sourced);
    format_number(fn, arg, "bloom_filter_current_index", v->current);
    format_number(fn, arg, "bloom_filter_size", generation_shards(&v->slot[v->current].shape));
    format_lanes(v, fn, arg);
    format_eras(v, fn, arg);
    format_slot(fn, arg, &v->slot[0], "generation0", "token0");
    format_slot(fn, arg, &v->slot[1], "generation1", "token1");
}

unsigned log_view_lane(const struct log_view *v, struct key_hash h)
{
    /* Bits that choose neither the shard nor a position by themselves: those are mixed once more. */
    return (unsigned)(((h.low >> 32) * v->lane_count) >> 32);
}

bool log_view_is_folded(const struct log_view *v, const struct log_generation *g, unsigned lane)
{
    return g->folded[lane].lane_number != 0 && g->folded[lane].lane_number == v->lane_number[lane];
}

void log_token_text(const struct writer_token *t, char out[LOG_TOKEN_TEXT_MAX])
{
    (void)snprintf(out, LOG_TOKEN_TEXT_MAX, "%" PRIu64 " %016" PRIx64, t->number, t->random);
}

bool log_token_parse(struct writer_token *out, const char *text, size_t length)
{
    const char *blank = memchr(text, ' ', length);
    size_t digits = blank == NULL ? 0 : length - (size_t)(blank + 1 - text);
    return blank != NULL && digits == 16 && number_u64(text, (size_t)(blank - text), &out->number) &&
           number_hex64(blank + 1, digits, &out->random);
}

void log_folded_name(unsigned slot, unsigned lane, char out[LOG_FOLDED_NAME_MAX])
{
    (void)snprintf(out, LOG_FOLDED_NAME_MAX, "folded%u.%u", slot & 1, lane & 0xffu);
}
