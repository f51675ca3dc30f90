/* SPDX-License-Identifier: MIT */
/* Parsing a view: the fields that occur once, and the conditions between fields. */
#include "shard/view/log_view_internal.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "base/number.h"

bool log_view_parse_lane(struct log_lane *out, const char *text, size_t length)
{
    const char *colon = memchr(text, ':', length);
    return colon != NULL && number_u64(text, (size_t)(colon - text), &out->number) && out->number != 0 &&
           length - (size_t)(colon + 1 - text) == REPLICATION_ID_DIGITS &&
           number_hex64(colon + 1, REPLICATION_ID_DIGITS, &out->era);
}

static bool parse_lanes(void *out, const char *value, size_t length)
{
    struct log_view *v = out;
    const char *end = value + length;
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
static bool parse_lane_nodes(void *out, const char *value, size_t length)
{
    struct log_view *v = out;
    const char *end = value + length;
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

static bool parse_eras(void *out, const char *value, size_t length)
{
    return trusted_parse(&((struct log_view *)out)->eras, value, length);
}

static bool parse_token0(void *out, const char *value, size_t length)
{
    return log_token_parse(&((struct log_view *)out)->slot[0].writer, value, length);
}

static bool parse_token1(void *out, const char *value, size_t length)
{
    return log_token_parse(&((struct log_view *)out)->slot[1].writer, value, length);
}

/* The format was checked before all other fields. The size is for people; the generation also says it. */
static bool parse_no_more(void *out, const char *value, size_t length)
{
    uint64_t number;
    (void)out;
    return number_u64(value, length, &number);
}

#define TOKEN "a number and 16 hexadecimal digits"
#define FIELD(text, as, member) .name = (text), .kind = (as), .offset = offsetof(struct log_view, member)
static const struct view_row known[] = {
    {.name = "format", .kind = VIEW_OTHER, .parse = parse_no_more, .expected = "a whole number"},
    {FIELD("incarnation", VIEW_HEX, incarnation)},
    {FIELD("version", VIEW_POSITIVE, version)},
    {FIELD("seed", VIEW_HEX, seed)},
    {FIELD("last_generation", VIEW_NUMBER, last_generation)},
    {FIELD("expansion", VIEW_WORD, expansion)},
    {FIELD("sourced", VIEW_BIT, sourced)},
    {FIELD("degraded", VIEW_BIT, degraded)},
    {FIELD("deleting", VIEW_BIT, deleting)},
    {FIELD("bloom_filter_current_index", VIEW_BIT, current)},
    {.name = "bloom_filter_size", .kind = VIEW_OTHER, .parse = parse_no_more, .expected = "a whole number"},
    {.name = "lanes",
     .kind = VIEW_OTHER,
     .parse = parse_lanes,
     .expected = "\"<number>:<replication id>,...\""},
    {.name = "lane_nodes", .kind = VIEW_OTHER, .parse = parse_lane_nodes, .expected = "names of nodes"},
    {.name = "eras", .kind = VIEW_OTHER, .parse = parse_eras, .expected = "replication ids"},
    {FIELD("generation0", VIEW_GENERATION, slot[0].shape)},
    {FIELD("generation1", VIEW_GENERATION, slot[1].shape)},
    {.name = "token0", .kind = VIEW_OTHER, .parse = parse_token0, .expected = TOKEN},
    {.name = "token1", .kind = VIEW_OTHER, .parse = parse_token1, .expected = TOKEN},
};

static enum err check(const struct log_view *v, struct error *e)
{
    if (v->incarnation == 0)
        return error_set(e, ERR_PARSE, "field incarnation is 0");
    for (unsigned i = 0; i < 2; i++) {
        uint64_t number = v->slot[i].shape.number;
        if (number != 0 && (number % 2 != i || number > v->last_generation))
            return error_set(e, ERR_PARSE,
                             "generation%u has number %" PRIu64
                             ", which is the other slot's or above last_generation",
                             i, number);
    }
    for (unsigned at = 0; at < 2 * LOG_LANES_MAX; at++) {
        const struct log_generation *g = &v->slot[at % 2];
        const struct log_folded *f = &g->folded[at / 2];
        if (g->shape.number != 0 && f->lane_number != 0 && f->layers > g->shape.layer_count)
            return error_set(e, ERR_PARSE, "folded%u.%u names %u layers of %u", at % 2, at / 2, f->layers,
                             g->shape.layer_count);
    }
    if (v->slot[v->current].shape.number == 0)
        return error_set(e, ERR_PARSE, "bloom_filter_current_index names an empty slot");
    return ERR_OK;
}

static void clear(struct log_generation *g)
{
    g->shape.number = g->next.number = g->keys = g->keys_of = g->lost.generation = 0;
    g->counted_lanes = 0;
    for (unsigned lane = 0; lane < LOG_LANES_MAX; lane++)
        g->folded[lane].lane_number = g->full[lane].generation = 0;
}

/* Drop what the generation that had the slot before has left. */
static void drop_foreign(struct log_generation *g)
{
    if (g->keys_of != g->shape.number)
        g->keys = g->counted_lanes = 0;
    if (g->next.number != g->shape.number)
        g->next.number = 0;
}

enum err log_view_parse(struct log_view *out, const struct view_field *fields, size_t count, struct error *e)
{
    out->writer_count = out->left_count = out->history_count = 0;
    out->strays = false;
    out->near = 0;
    for (unsigned s = 0; s < 2; s++)
        clear(&out->slot[s]);
    for (unsigned lane = 0; lane < LOG_LANES_MAX; lane++)
        out->hold[lane].lane_number = 0;
    enum err code = view_parse_rows(out, known, sizeof(known) / sizeof(known[0]), VIEW_FORMAT, fields, count,
                                    log_view_parse_family, e);
    for (unsigned s = 0; s < 2; s++)
        drop_foreign(&out->slot[s]);
    return code == ERR_OK ? check(out, e) : code;
}
