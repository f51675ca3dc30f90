/* SPDX-License-Identifier: MIT */
/* Reading a view: the fields that each view has one of, and what must hold between fields. */
#include "shard/view/log_view_internal.h"

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

bool log_view_is_bit(const char *value, size_t length)
{
    return length == 1 && (*value == '0' || *value == '1');
}

static bool parse_sourced(struct log_view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    v->sourced = log_view_is_bit(value, length) && *value == '1';
    return log_view_is_bit(value, length);
}

static bool parse_degraded(struct log_view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    v->degraded = log_view_is_bit(value, length) && *value == '1';
    return log_view_is_bit(value, length);
}

static bool parse_deleting(struct log_view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    v->deleting = log_view_is_bit(value, length) && *value == '1';
    return log_view_is_bit(value, length);
}

static bool parse_current(struct log_view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    v->current = log_view_is_bit(value, length) && *value == '1';
    return log_view_is_bit(value, length);
}

static bool parse_size(struct log_view *v, const char *value, size_t length, struct error *e)
{
    uint64_t shards; /* for people: the generation says it too */
    (void)v;
    (void)e;
    return number_u64(value, length, &shards);
}

bool log_view_parse_lane(struct log_lane *out, const char *text, size_t length)
{
    const char *colon = memchr(text, ':', length);
    return colon != NULL && number_u64(text, (size_t)(colon - text), &out->number) && out->number != 0 &&
           length - (size_t)(colon + 1 - text) == LINEAGE_DIGITS &&
           number_hex64(colon + 1, LINEAGE_DIGITS, &out->era);
}

static bool parse_lanes(struct log_view *v, const char *value, size_t length, struct error *e)
{
    const char *end = value + length;
    (void)e;
    for (v->lane_count = 0; v->lane_count < LOG_LANES_MAX; value++) {
        const char *comma = memchr(value, ',', (size_t)(end - value));
        const char *stop = comma == NULL ? end : comma;
        if (!log_view_parse_lane(&v->lane[v->lane_count++], value, (size_t)(stop - value)))
            return false;
        if (comma == NULL)
            return true;
        value = comma;
    }
    return false;
}

/* "<node>,<node>..." */
static bool parse_lane_nodes(struct log_view *v, const char *value, size_t length, struct error *e)
{
    const char *end = value + length;
    (void)e;
    v->lane_node_count = 0;
    if (length == 0)
        return true;
    for (;; value++) {
        const char *comma = memchr(value, ',', (size_t)(end - value));
        size_t n = (size_t)((comma == NULL ? end : comma) - value);
        if (n == 0 || n >= NODE_NAME_MAX || v->lane_node_count == LOG_LANES_MAX)
            return false;
        (void)snprintf(v->lane_node[v->lane_node_count++], NODE_NAME_MAX, "%.*s", (int)n, value);
        if (comma == NULL)
            return true;
        value = comma;
    }
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
    {"degraded", parse_degraded},
    {"deleting", parse_deleting},
    {"bloom_filter_current_index", parse_current},
    {"bloom_filter_size", parse_size},
    {"lanes", parse_lanes},
    {"lane_nodes", parse_lane_nodes},
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

enum err log_view_damaged(struct error *e, const struct view_field *f, const char *why)
{
    return error_set(e, ERR_PARSE, "field %.*s of the view is damaged: \"%.*s\"%s%.300s", (int)f->name_length,
                     f->name, f->value_length < 64 ? (int)f->value_length : 64, f->value,
                     *why == '\0' ? "" : ": ", why);
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
    enum err code = ERR_OK;
    if (log_view_parse_family(out, f, &code, e))
        return code;
    for (unsigned i = 0; i < KNOWN; i++) {
        struct error why = {""};
        if (!is_named(f, known[i].name))
            continue;
        seen[i] = true;
        return known[i].parse(out, f->value, f->value_length, &why) ? ERR_OK
                                                                    : log_view_damaged(e, f, why.text);
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
    for (unsigned at = 0; at < 2 * LOG_LANES_MAX; at++) {
        const struct log_generation *g = &v->slot[at % 2];
        const struct log_folded *f = &g->folded[at / 2];
        if (g->shape.number != 0 && f->lane_number != 0 && f->layers > g->shape.layer_count)
            return error_set(e, ERR_PARSE, "the view is damaged: folded%u.%u names %u layers of %u", at % 2,
                             at / 2, f->layers, g->shape.layer_count);
    }
    if (v->slot[v->current].shape.number == 0)
        return error_set(e, ERR_PARSE, "the view is damaged: bloom_filter_current_index names an empty slot");
    return ERR_OK;
}

static void clear(struct log_generation *g)
{
    g->shape.number = g->next.number = g->keys = g->keys_of = g->lost.generation = 0;
    g->counted_lanes = 0;
    for (unsigned lane = 0; lane < LOG_LANES_MAX; lane++)
        g->folded[lane].lane_number = g->full[lane].generation = 0;
}

/* What a generation that had the slot before has left behind. */
static void drop_foreign(struct log_generation *g)
{
    if (g->keys_of != g->shape.number)
        g->keys = g->counted_lanes = 0;
    if (g->next.number != g->shape.number)
        g->next.number = 0;
}

enum err log_view_parse(struct log_view *out, const struct view_field *fields, size_t count, struct error *e)
{
    bool seen[KNOWN] = {false};
    if (count == 0)
        return error_set(e, ERR_NOT_FOUND, "the filter has no view");
    enum err code = check_format(fields, count, e);
    out->writer_count = out->left_count = out->history_count = 0;
    out->strays = false;
    for (unsigned s = 0; s < 2; s++)
        clear(&out->slot[s]);
    for (unsigned lane = 0; lane < LOG_LANES_MAX; lane++)
        out->hold[lane].lane_number = 0;
    for (size_t i = 0; i < count && code == ERR_OK; i++)
        code = parse_field(out, &fields[i], seen, e);
    for (unsigned i = 0; i < KNOWN && code == ERR_OK; i++)
        if (!seen[i])
            code = error_set(e, ERR_PARSE, "the view is damaged: field %s is missing", known[i].name);
    for (unsigned s = 0; s < 2; s++)
        drop_foreign(&out->slot[s]);
    return code == ERR_OK ? check(out, e) : code;
}
