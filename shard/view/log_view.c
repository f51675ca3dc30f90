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

static bool parse_degraded(struct log_view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    v->degraded = is_bit(value, length) && *value == '1';
    return is_bit(value, length);
}

static bool parse_deleting(struct log_view *v, const char *value, size_t length, struct error *e)
{
    (void)e;
    v->deleting = is_bit(value, length) && *value == '1';
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

/* "<number>:<era>" */
static bool parse_lane(struct log_lane *out, const char *text, size_t length)
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
        if (!parse_lane(&v->lane[v->lane_count++], value, (size_t)(stop - value)))
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

static enum err damaged(struct error *e, const struct view_field *f, const char *why)
{
    return error_set(e, ERR_PARSE, "field %.*s of the view is damaged: \"%.*s\"%s%.300s", (int)f->name_length,
                     f->name, f->value_length < 64 ? (int)f->value_length : 64, f->value,
                     *why == '\0' ? "" : ": ", why);
}

/* --- fields of which there are several --- */

/* What stands behind @prefix in the name of @f; NULL: it does not begin so. */
static const char *behind(const struct view_field *f, const char *prefix, size_t *length)
{
    size_t at = strlen(prefix);
    if (f->name_length < at || memcmp(f->name, prefix, at) != 0)
        return NULL;
    *length = f->name_length - at;
    return f->name + at;
}

static bool parse_lane_index(const char *text, size_t length, unsigned *lane)
{
    uint64_t n;
    if (!number_u64(text, length, &n) || n >= LOG_LANES_MAX)
        return false;
    *lane = (unsigned)n;
    return true;
}

/* Split "<number> <rest>". */
static bool parse_numbered(const struct view_field *f, uint64_t *number, const char **rest, size_t *length)
{
    const char *blank = memchr(f->value, ' ', f->value_length);
    if (blank == NULL || !number_u64(f->value, (size_t)(blank - f->value), number))
        return false;
    *rest = blank + 1;
    *length = f->value_length - (size_t)(*rest - f->value);
    return true;
}

/* "<slot>.<lane>" */
static bool parse_slot_lane(const char *name, size_t length, unsigned *slot, unsigned *lane)
{
    if (length < 3 || !is_bit(name, 1) || name[1] != '.' || !parse_lane_index(name + 2, length - 2, lane))
        return false;
    *slot = *name == '1';
    return true;
}

/* "folded<slot>.<lane>=<lane number> <position>" */
static enum err parse_folded(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                             struct error *e)
{
    struct error why = {"not \"<lane number> <position>\""};
    struct log_folded *out;
    const char *text;
    unsigned slot, lane;
    if (!parse_slot_lane(name, length, &slot, &lane))
        return ERR_OK; /* a field of a later version */
    out = &v->slot[slot].folded[lane];
    if (!parse_numbered(f, &out->lane_number, &text, &length) ||
        log_position_parse(&out->position, text, length, &why) != ERR_OK)
        return damaged(e, f, why.text);
    return ERR_OK;
}

/* "full<slot>.<lane>=<generation> <lane number>:<era> <id>" */
static enum err parse_full(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                           struct error *e)
{
    const char *text, *blank;
    unsigned slot, lane;
    if (!parse_slot_lane(name, length, &slot, &lane))
        return ERR_OK;
    struct log_full_at *out = &v->slot[slot].full[lane];
    if (!parse_numbered(f, &out->generation, &text, &length) || (blank = memchr(text, ' ', length)) == NULL ||
        !parse_lane(&out->lane, text, (size_t)(blank - text)) ||
        !log_id_parse(&out->id, blank + 1, length - (size_t)(blank + 1 - text)))
        return damaged(e, f, "not \"<generation> <lane number>:<era> <id>\"");
    return ERR_OK;
}

/* "keys<slot>=<generation> <n>": of a generation that had the slot before they say nothing. */
static enum err parse_keys(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                           struct error *e)
{
    const char *text;
    if (length != 1 || !is_bit(name, 1))
        return ERR_OK;
    struct log_generation *out = &v->slot[*name == '1'];
    if (!parse_numbered(f, &out->keys_of, &text, &length) || !number_u64(text, length, &out->keys))
        return damaged(e, f, "not \"<generation> <keys>\"");
    return ERR_OK;
}

/* "next<slot>=" a generation */
static enum err parse_next(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                           struct error *e)
{
    struct error why = {""};
    if (length != 1 || !is_bit(name, 1))
        return ERR_OK;
    if (generation_parse(&v->slot[*name == '1'].next, f->value, f->value_length, &why) != ERR_OK)
        return damaged(e, f, why.text);
    return ERR_OK;
}

/* "lost<slot>=<generation> <layer>.<shard>" */
static enum err parse_lost(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                           struct error *e)
{
    const char *text, *dot;
    uint64_t layer, shard;
    if (length != 1 || !is_bit(name, 1))
        return ERR_OK;
    struct log_lost *out = &v->slot[*name == '1'].lost;
    if (!parse_numbered(f, &out->generation, &text, &length) || (dot = memchr(text, '.', length)) == NULL ||
        !number_u64(text, (size_t)(dot - text), &layer) || layer >= GENERATION_LAYERS_MAX ||
        !number_u64(dot + 1, length - (size_t)(dot + 1 - text), &shard) || shard > UINT32_MAX)
        return damaged(e, f, "not \"<generation> <layer>.<shard>\"");
    out->layer = (unsigned)layer;
    out->shard = (uint32_t)shard;
    return ERR_OK;
}

/* "hold.<lane>=<lane number> <id>" */
static enum err parse_hold(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                           struct error *e)
{
    const char *text;
    unsigned lane;
    if (!parse_lane_index(name, length, &lane))
        return ERR_OK;
    struct log_hold *out = &v->hold[lane];
    if (!parse_numbered(f, &out->lane_number, &text, &length) || !log_id_parse(&out->from, text, length))
        return damaged(e, f, "not \"<lane number> <id>\"");
    return ERR_OK;
}

static bool parse_writer_id(uint8_t id[LOG_WRITER_BYTES], const char *text, size_t length)
{
    uint64_t byte = 0;
    if (length != (size_t)2 * LOG_WRITER_BYTES)
        return false;
    for (unsigned i = 0; i < LOG_WRITER_BYTES; i++) {
        if (!number_hex64(text + (size_t)2 * i, 2, &byte))
            return false;
        id[i] = (uint8_t)byte;
    }
    return true;
}

/* "<lane>.<number>:<era>" */
static bool parse_one_said(struct log_said *out, const char *text, size_t length)
{
    struct log_lane lane;
    const char *dot = memchr(text, '.', length);
    if (dot == NULL || !parse_lane_index(text, (size_t)(dot - text), &out->lane) ||
        !parse_lane(&lane, dot + 1, length - (size_t)(dot + 1 - text)))
        return false;
    out->number = lane.number;
    out->era = lane.era;
    return true;
}

/* Several of them with a blank between, or "-" */
static bool parse_said(struct log_writer *w, const char *text, size_t length)
{
    const char *end = text + length;
    if (length == 1 && *text == '-')
        return true;
    while (w->said_count < LOG_LANES_MAX) {
        const char *blank = memchr(text, ' ', (size_t)(end - text));
        const char *stop = blank == NULL ? end : blank;
        if (!parse_one_said(&w->said[w->said_count++], text, (size_t)(stop - text)))
            return false;
        if (blank == NULL)
            return true;
        text = blank + 1;
    }
    return false;
}

/* "writer.<id>=<lane>.<number>:<era>..." */
static enum err parse_writer(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                             struct error *e)
{
    struct log_writer *w = &v->writer[v->writer_count];
    if (v->writer_count == LOG_WRITERS_MAX)
        return damaged(e, f, "there are too many writers");
    *w = (struct log_writer){.said_count = 0};
    if (!parse_writer_id(w->id, name, length) || !parse_said(w, f->value, f->value_length))
        return damaged(e, f, "not a writer and the lanes of which it has said that no entry is missing");
    v->writer_count++;
    return ERR_OK;
}

static const struct family {
    const char *prefix;
    enum err (*parse)(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                      struct error *e);
} families[] = {{"folded", parse_folded}, {"full", parse_full}, {"hold.", parse_hold},
                {"keys", parse_keys},     {"next", parse_next}, {"writer.", parse_writer},
                {"lost", parse_lost}};

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
    for (unsigned i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        size_t length;
        const char *name = behind(f, families[i].prefix, &length);
        if (name != NULL)
            return families[i].parse(out, f, name, length, e);
    }
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

static void clear(struct log_generation *g)
{
    g->shape.number = g->next.number = g->keys = g->keys_of = g->lost.generation = 0;
    for (unsigned lane = 0; lane < LOG_LANES_MAX; lane++)
        g->folded[lane].lane_number = g->full[lane].generation = 0;
}

/* What a generation that had the slot before has left behind. */
static void drop_foreign(struct log_generation *g)
{
    if (g->keys_of != g->shape.number)
        g->keys = 0;
    if (g->next.number != g->shape.number)
        g->next.number = 0;
}

enum err log_view_parse(struct log_view *out, const struct view_field *fields, size_t count, struct error *e)
{
    bool seen[KNOWN] = {false};
    if (count == 0)
        return error_set(e, ERR_NOT_FOUND, "the filter has no view");
    enum err code = check_format(fields, count, e);
    out->writer_count = 0;
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
    char text[LOG_LANES_MAX * 38 + 1];
    size_t at = 0;
    for (unsigned i = 0; i < v->lane_count; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%" PRIu64 ":%016" PRIx64, i == 0 ? "" : ",",
                               v->lane[i].number, v->lane[i].era);
    fn(arg, "lanes", text);
}

static void format_lane_nodes(const struct log_view *v, view_field_fn *fn, void *arg)
{
    char text[LOG_LANES_MAX * NODE_NAME_MAX + 1] = "";
    size_t at = 0;
    for (unsigned i = 0; i < v->lane_node_count; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", i == 0 ? "" : ",", v->lane_node[i]);
    fn(arg, "lane_nodes", text);
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
    format_number(fn, arg, "degraded", v->degraded);
    format_number(fn, arg, "deleting", v->deleting);
    format_number(fn, arg, "bloom_filter_current_index", v->current);
    format_number(fn, arg, "bloom_filter_size", generation_shards(&v->slot[v->current].shape));
    format_lanes(v, fn, arg);
    format_lane_nodes(v, fn, arg);
    format_eras(v, fn, arg);
    format_slot(fn, arg, &v->slot[0], "generation0", "token0");
    format_slot(fn, arg, &v->slot[1], "generation1", "token1");
}

unsigned log_lane_of(struct key_hash h, unsigned lanes)
{
    /* Bits that choose neither the shard nor a position by themselves: those are mixed once more. */
    return (unsigned)(((h.low >> 32) * lanes) >> 32);
}

enum err log_view_lane_at(const struct log_view *v, const struct names *names, const struct nodes *nodes,
                          unsigned lane, struct lane *out, struct error *e)
{
    unsigned node = 0;
    *out = (struct lane){.era = v->lane[lane].era};
    lane_key(&out->key, names, lane, v->lane[lane].number);
    out->where = nodes_key(nodes, out->key.text, out->key.length);
    if (v->lane_node_count == 0)
        return ERR_OK;
    const char *name = v->lane_node[lane % v->lane_node_count];
    while (node < nodes->count && !node_is_named(&nodes->node[node], name))
        node++;
    if (node == nodes->count)
        return error_set(e, ERR_CONFIG, "the filter has lane %u on node %s, which is not configured", lane,
                         name);
    out->where = node;
    return ERR_OK;
}

bool log_view_is_full(const struct log_view *v, const struct log_generation *g, unsigned lane)
{
    const struct log_full_at *full = &g->full[lane];
    return full->generation != 0 && full->generation == g->shape.number &&
           full->lane.number == v->lane[lane].number && full->lane.era == v->lane[lane].era;
}

bool log_view_is_folded(const struct log_view *v, const struct log_generation *g, unsigned lane)
{
    return g->folded[lane].lane_number != 0 && g->folded[lane].lane_number == v->lane[lane].number;
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

bool log_writer_has_said(const struct log_writer *w, unsigned lane, uint64_t number, uint64_t era)
{
    for (unsigned i = 0; i < w->said_count; i++)
        if (w->said[i].lane == lane && w->said[i].number == number && w->said[i].era == era)
            return true;
    return false;
}

const struct log_writer *log_view_writer(const struct log_view *v, const uint8_t id[LOG_WRITER_BYTES])
{
    for (unsigned i = 0; i < v->writer_count; i++)
        if (memcmp(v->writer[i].id, id, LOG_WRITER_BYTES) == 0)
            return &v->writer[i];
    return NULL;
}

void log_writer_name(const uint8_t id[LOG_WRITER_BYTES], char out[LOG_WRITER_NAME_MAX])
{
    int at = snprintf(out, LOG_WRITER_NAME_MAX, "writer.");
    for (unsigned i = 0; i < LOG_WRITER_BYTES; i++)
        at += snprintf(out + at, LOG_WRITER_NAME_MAX - (size_t)at, "%02x", id[i]);
}

void log_folded_name(unsigned slot, unsigned lane, char out[LOG_FOLDED_NAME_MAX])
{
    (void)snprintf(out, LOG_FOLDED_NAME_MAX, "folded%u.%u", slot & 1, lane & 0xffu);
}

void log_full_name(unsigned slot, unsigned lane, char out[LOG_FOLDED_NAME_MAX])
{
    (void)snprintf(out, LOG_FOLDED_NAME_MAX, "full%u.%u", slot & 1, lane & 0xffu);
}

void log_lost_text(const struct log_lost *lost, char out[LOG_LOST_TEXT_MAX])
{
    (void)snprintf(out, LOG_LOST_TEXT_MAX, "%" PRIu64 " %u.%" PRIu32, lost->generation, lost->layer,
                   lost->shard);
}
