/* SPDX-License-Identifier: MIT */
#include "migrate/verify/log_input.h"

#include <string.h>
#include "shard/redis/nodes/cluster.h"
#include "shard/resident/load.h"
#include "shard/view/shards.h"

/* --- lanes --- */

struct applying {
    struct log_input *in;
    unsigned lane;
};

/* Set the keys of an entry in the layer that had begun at the entry's place in its lane. */
static enum err apply(void *arg, const struct tail_record *record, struct error *e)
{
    const struct applying *to = arg;
    struct resident *r = to->in->resident;
    struct key_hash keys[LOG_KEYS_MAX];
    uint8_t added[LOG_KEYS_MAX];
    struct error unknown; /* the view had no such layer yet: its shards are not read */
    if (record->entry.kind == LOG_LAYER && record->entry.sequence == to->in->generation->number &&
        resident_begin_layer(r, to->lane, record->id, record->entry.layer, &unknown) == ERR_OK)
        return ERR_OK;
    for (unsigned i = 0; i < record->entry.count; i++)
        keys[i] = log_entry_hash(&record->entry, i);
    return resident_apply(r, to->lane, record->id, keys, record->entry.count, added, e);
}

static enum err read_lane(struct log_input *in, unsigned i, struct error *e)
{
    const struct lane *lane = &in->lane[i];
    struct applying to = {.in = in, .lane = i};
    enum tail_state state = TAIL_MORE;
    enum err code = ERR_OK;
    while (code == ERR_OK && state == TAIL_MORE)
        code = lane_read(in->redis, lane, &in->at[i], apply, &to, &state, e);
    if (code != ERR_OK || state == TAIL_COMPLETE)
        return code;
    return error_set(e, ERR_CONFLICT, "lane %.*s: %s: the shards cannot be compared with what it had",
                     (int)lane->key.length, lane->key.text, tail_state_name(state));
}

/* --- shards --- */

struct failure {
    enum err code;
    struct error *e;
};

static void on_failed(void *arg, uint32_t shard UNUSED, enum err code, const char *why)
{
    struct failure *f = arg;
    if (f->code == ERR_OK)
        f->code = error_set(f->e, code, "%s", why);
}

/* Shards of a cluster may have come to a node that the view accepts by way of one that it does not. So all
 * masters must be those of the view once the shards were read, unless no slot has moved since they were. */
static enum err check_way(struct log_input *in, const struct load *l, uint32_t moves, struct error *e)
{
    const struct cluster *cluster = sync_client_nodes(in->redis)->cluster;
    bool same = true;
    if (cluster == NULL || (in->is_checked && in->moves == cluster_moves(cluster) && !l->redirected))
        return ERR_OK;
    enum err code = shards_masters_are(in->redis, &in->eras, &same, e);
    if (code == ERR_OK && !same)
        code = error_set(e, ERR_FENCED,
                         "the cluster has other masters than those of the view: shards may have come from "
                         "one that lacks keys");
    in->is_checked = code == ERR_OK;
    in->moves = moves;
    return code;
}

/* The lanes' entries are applied while shards are loading, so that they reach these shards, too. The shards
 * stay in this state. */
enum err log_input_read(struct log_input *in, unsigned layer, uint32_t first, uint32_t count, struct error *e)
{
    struct failure failure = {.e = e};
    struct load l = {.resident = in->resident,
                     .layer = layer,
                     .names = in->names,
                     .placement = &in->placement,
                     .generation = in->generation->number,
                     .writer = {.number = UINT64_MAX}, /* any: a later writer has only added bits */
                     .made = in->generation->layers[layer].token,
                     .eras = &in->eras,
                     .first = first,
                     .count = count,
                     .failed = on_failed,
                     .arg = &failure};
    const struct cluster *cluster = sync_client_nodes(in->redis)->cluster;
    uint32_t moves = cluster == NULL ? 0 : cluster_moves(cluster);
    enum err code = load_begin(&l, e);
    if (code != ERR_OK)
        return code;
    load_and_wait(&l, in->redis);
    code = failure.code == ERR_OK ? check_way(in, &l, moves, e) : failure.code;
    for (unsigned i = 0; i < in->lanes && code == ERR_OK; i++)
        code = read_lane(in, i, e);
    return code;
}

void log_input_drop(struct log_input *in, unsigned layer, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        resident_load_cancel(in->resident, layer, i);
}

/* --- construction --- */

static enum err init(struct log_input *in, struct sync_client *l, const struct names *names,
                     const struct generation *g, const struct trusted *eras, unsigned lanes, struct error *e)
{
    uint16_t tag = hash_tag(names->incarnation, names->filter, names->filter_length, g->number);
    *in = (struct log_input){.redis = l, .names = names, .generation = g, .eras = *eras, .lanes = lanes};
    budget_init(&in->budget, UINT64_MAX);
    enum err code = placement_resolve(&in->placement, names, g, sync_client_nodes(l), e);
    if (code == ERR_OK)
        code = resident_new(&in->resident, g->seed, lanes, &in->budget, e);
    for (unsigned i = 0; i < g->layer_count && code == ERR_OK; i++)
        code = resident_add_layer(in->resident, &g->layers[i].geometry, tag, e);
    return code;
}

enum err log_input_init(struct log_input *in, struct sync_client *l, const struct names *names,
                        const struct log_view *v, unsigned slot, struct error *e)
{
    const struct log_generation *g = &v->slot[slot];
    enum err code = init(in, l, names, &g->shape, &v->eras, v->lane_count, e);
    for (unsigned i = 0; i < v->lane_count && code == ERR_OK; i++) {
        code = log_view_lane_at(v, names, sync_client_nodes(l), i, &in->lane[i], e);
        in->at[i] = g->folded[i].position;
        if (code == ERR_OK && !log_view_is_folded(v, g, i))
            code = error_set(e, ERR_CONFLICT, "the generation was not folded in lane %u", i);
        if (code == ERR_OK)
            resident_begin(in->resident, i, in->at[i].id, g->folded[i].layers);
    }
    return code;
}

enum err log_input_init_build(struct log_input *in, const struct builder *b, struct error *e)
{
    enum err code = init(in, b->fold.redis, b->fold.names, &b->shape, &b->eras, b->lane_count, e);
    memcpy(in->lane, b->stream, sizeof(in->lane));
    memcpy(in->at, b->written, sizeof(in->at));
    return code;
}

void log_input_fini(struct log_input *in)
{
    resident_free(in->resident);
    in->resident = NULL;
}
