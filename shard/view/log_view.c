/* SPDX-License-Identifier: MIT */
#include "shard/view/log_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/number.h"
#include "base/span.h"

/* --- the stored form --- */

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
    char text[REPLICATIONS_MAX * (REPLICATION_ID_DIGITS + 1) + 2] = "-";
    size_t at = 0;
    for (unsigned i = 0; i < v->eras.count; i++)
        at +=
            (size_t)snprintf(text + at, sizeof(text) - at, "%s%016" PRIx64, i == 0 ? "" : " ", v->eras.id[i]);
    fn(arg, "eras", text);
}

void log_view_format(const struct log_view *v, view_field_fn *fn, void *arg)
{
    format_number(fn, arg, "format", VIEW_FORMAT);
    format_hex(fn, arg, "incarnation", v->incarnation);
    format_number(fn, arg, "version", v->version);
    format_hex(fn, arg, "seed", v->seed);
    format_number(fn, arg, "last_generation", v->last_generation);
    format_number(fn, arg, "expansion", v->expansion);
    format_number(fn, arg, "shard_bytes", v->shard_bytes);
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

/* --- what a view means --- */

void log_view_sum_up(const struct log_view *v, struct view *out)
{
    *out = (struct view){.incarnation = v->incarnation,
                         .epoch = v->version,
                         .current = v->current,
                         .slot = {v->slot[0].shape, v->slot[1].shape},
                         .last_generation = v->last_generation,
                         .expansion = v->expansion,
                         .sourced = v->sourced,
                         .degraded = v->degraded,
                         .deleting = v->deleting,
                         .expire_at_ms = v->expire_at_ms,
                         .healthy_ms = v->healthy_ms,
                         .keys = {v->slot[0].keys, v->slot[1].keys}};
    out->phase = view_phase(out);
}

unsigned log_lane_of(struct key_hash h, unsigned lanes)
{
    /* these bits alone choose neither shard nor position: positions come from them mixed once more */
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

struct log_id log_view_counted(const struct log_view *v, const struct log_generation *g, unsigned lane)
{
    struct log_id folded = g->folded[lane].position.id;
    bool known = g->counted_lanes == v->lane_count;
    for (unsigned i = 0; i < v->lane_count && known; i++)
        known = g->counted[i].lane.number == v->lane[i].number;
    return known && log_id_compare(g->counted[lane].id, folded) > 0 ? g->counted[lane].id : folded;
}

void log_token_text(const struct writer_token *t, char out[LOG_TOKEN_TEXT_MAX])
{
    (void)snprintf(out, LOG_TOKEN_TEXT_MAX, "%" PRIu64 " %016" PRIx64, t->number, t->random);
}

bool log_token_parse(struct writer_token *out, const char *text, size_t length)
{
    struct span rest = {text, length};
    return span_cut_u64(&rest, ' ', &out->number) && rest.length == 16 &&
           number_hex64(rest.at, rest.length, &out->random);
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

bool log_view_lacks(const struct log_view *v, const struct log_writer *w)
{
    for (unsigned i = 0; i < v->left_count; i++)
        if (memcmp(v->left[i].id, w->id, LOG_WRITER_BYTES) == 0 && v->left[i].registration >= w->registration)
            return false;
    return log_view_writer(v, w->id) == NULL;
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

void log_lane_text(struct log_lane lane, struct buffer *out)
{
    buffer_printf(out, "%" PRIu64 ":%016" PRIx64, lane.number, lane.era);
}

void log_lanes_text(const struct log_lane *lane, unsigned count, struct buffer *out)
{
    for (unsigned i = 0; i < count; i++) {
        buffer_puts(out, i == 0 ? "" : ",");
        log_lane_text(lane[i], out);
    }
}

void log_eras_text(const struct trusted *eras, struct buffer *out)
{
    for (unsigned i = 0; eras != NULL && i < eras->count; i++)
        buffer_printf(out, "%s%016" PRIx64, i == 0 ? "" : " ", eras->id[i]);
    if (eras == NULL || eras->count == 0)
        buffer_append(out, "-", 1);
}

void log_lost_text(const struct log_lost *lost, char out[LOG_LOST_TEXT_MAX])
{
    (void)snprintf(out, LOG_LOST_TEXT_MAX, "%" PRIu64 " %u.%" PRIu32 " %" PRIu64, lost->generation,
                   lost->layer, lost->shard, lost->since_ms);
}
