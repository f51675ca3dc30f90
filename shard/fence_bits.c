/* SPDX-License-Identifier: MIT */
/* How many keys there are, by the bits that are set. */
#include "shard/fence_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "shard/script.h"

enum { RANGE_BYTES = 64 * 1024, RANGES_IN_FLIGHT = 4 };

/* A run of blocks of one shard. */
struct range {
    uint32_t shard;
    uint32_t first; /* block */
    uint32_t blocks;
};

struct count {
    struct fence *f;
    const struct view *v;
    const struct generation *g;
    unsigned layer;
    struct placement placement;
    uint16_t tag;
    uint64_t blocks; /* that were looked at, */
    double keys;     /* and how many keys they hold */
};

static uint32_t range_blocks(const struct geometry *g)
{
    uint32_t most = RANGE_BYTES / (g->block_bits / 8);
    return g->blocks < most ? g->blocks : most;
}

static uint64_t ranges_of(const struct geometry *g)
{
    uint32_t size = range_blocks(g);
    return (uint64_t)g->shards * ((g->blocks + size - 1) / size);
}

static struct range range_at(const struct geometry *g, uint64_t index)
{
    uint32_t size = range_blocks(g), a_shard = (g->blocks + size - 1) / size;
    struct range r = {.shard = (uint32_t)(index / a_shard), .first = (uint32_t)(index % a_shard) * size};
    r.blocks = g->blocks - r.first < size ? g->blocks - r.first : size;
    return r;
}

/* BITCOUNT of the range, and the tag of its last block: a shard that was cut lacks it. */
static enum err send_range(struct count *c, const struct range *r, struct error *e)
{
    struct key_name name;
    const struct geometry *g = &c->g->layers[c->layer].geometry;
    uint64_t block_bytes = g->block_bits / 8, from = r->first * block_bytes;
    uint64_t last = from + (r->blocks - 1) * block_bytes;
    const uint64_t numbers[] = {from, from + r->blocks * block_bytes - 1, last, last + 1};
    char text[4][24];
    for (unsigned i = 0; i < 4; i++)
        (void)snprintf(text[i], sizeof(text[i]), "%" PRIu64, numbers[i]);
    names_shard(&c->f->names,
                (struct shard_id){.generation = c->g->number, .layer = c->layer, .shard = r->shard},
                c->v->epoch, &name);
    unsigned where = placement_where(&c->placement, c->layer, r->shard);
    const char *const count[] = {"BITCOUNT", name.text, text[0], text[1]};
    const char *const tag[] = {"GETRANGE", name.text, text[2], text[3]};
    const size_t count_lengths[] = {8, name.length, strlen(text[0]), strlen(text[1])};
    const size_t tag_lengths[] = {8, name.length, strlen(text[2]), strlen(text[3])};
    enum err code = link_append(c->f->link, where, 4, count, count_lengths, e);
    return code == ERR_OK ? link_append(c->f->link, where, 4, tag, tag_lengths, e) : code;
}

static enum err gone(const struct range *r, struct error *e)
{
    return error_set(e, ERR_LOST, "shard %u is not where the view says: it is lost, or the view has changed",
                     r->shard);
}

/* @bits are set in the range. Each range by itself: a node that was away has shards that are less full. */
static void take_range(struct count *c, const struct range *r, uint64_t bits)
{
    struct geometry part = c->g->layers[c->layer].geometry;
    part.shards = 1;
    part.blocks = r->blocks;
    c->blocks += r->blocks;
    c->keys +=
        geometry_keys(&part, 1 - (double)bits / (r->blocks * (double)(part.block_bits - BLOCK_TAG_BITS)));
}

static enum err judge(struct count *c, const struct range *r, unsigned where, const redisReply *count,
                      const redisReply *tag, struct error *e)
{
    static const char wrong_type[] = "WRONGTYPE";
    if (count->type == REDIS_REPLY_ERROR)
        return strncmp(count->str, wrong_type, sizeof(wrong_type) - 1) == 0
                   ? gone(r, e)
                   : link_refusal(c->f->link, where, count, e);
    if (tag->type == REDIS_REPLY_ERROR)
        return link_refusal(c->f->link, where, tag, e);
    const uint8_t *bytes = (const uint8_t *)tag->str;
    if (count->type != REDIS_REPLY_INTEGER || tag->type != REDIS_REPLY_STRING || tag->len != 2 ||
        (bytes[0] << 8 | bytes[1]) != c->tag)
        return gone(r, e);
    uint64_t tags = (uint64_t)r->blocks * (unsigned)__builtin_popcount(c->tag);
    if (count->integer < 0 || (uint64_t)count->integer < tags)
        return gone(r, e);
    take_range(c, r, (uint64_t)count->integer - tags);
    return ERR_OK;
}

static enum err read_range(struct count *c, const struct range *r, struct error *e)
{
    redisReply *count = NULL, *tag = NULL;
    unsigned where = placement_where(&c->placement, c->layer, r->shard);
    enum err code = link_reply(c->f->link, where, &count, e);
    if (code == ERR_OK)
        code = link_reply(c->f->link, where, &tag, e);
    if (code == ERR_OK)
        code = judge(c, r, where, count, tag, e);
    freeReplyObject(count);
    freeReplyObject(tag);
    return code;
}

/* @wanted of the layer's ranges, spread evenly. */
static enum err count_layer(struct count *c, uint64_t wanted, uint64_t deadline, struct error *e)
{
    const struct geometry *g = &c->g->layers[c->layer].geometry;
    uint64_t all = ranges_of(g);
    struct range ranges[RANGES_IN_FLIGHT];
    c->blocks = 0;
    c->keys = 0;
    for (uint64_t next = 0; next < wanted;) {
        unsigned n = 0;
        enum err code = ERR_OK;
        if (clock_mono_us() >= deadline)
            return error_set(e, ERR_TIMEOUT, "counting took too long");
        for (; n < RANGES_IN_FLIGHT && next < wanted && code == ERR_OK; n++, next++) {
            ranges[n] = range_at(g, (uint64_t)((double)next * ((double)all / (double)wanted)));
            code = send_range(c, &ranges[n], e);
        }
        for (unsigned i = 0; i < n && code == ERR_OK; i++)
            code = read_range(c, &ranges[i], e);
        if (code != ERR_OK) {
            link_forget(c->f->link);
            return code;
        }
    }
    return ERR_OK;
}

enum err fence_count_keys(struct fence *f, const struct view *v, const struct generation *g,
                          unsigned ranges_max, unsigned timeout_ms, double *keys, struct error *e)
{
    struct count c = {.f = f, .v = v, .g = g, .tag = fence_tag(f, g)};
    uint64_t deadline = clock_mono_us() + (uint64_t)timeout_ms * 1000, all = 0;
    enum err code = placement_resolve(&c.placement, &f->names, g, link_nodes(f->link), e);
    for (unsigned i = 0; i < g->layer_count; i++)
        all += ranges_of(&g->layers[i].geometry);
    for (c.layer = 0; c.layer < g->layer_count && code == ERR_OK; c.layer++) {
        const struct geometry *geometry = &g->layers[c.layer].geometry;
        uint64_t wanted = ranges_of(geometry);
        if (all > ranges_max)
            wanted = (uint64_t)((double)wanted * ranges_max / (double)all) + 1;
        code = count_layer(&c, wanted, deadline, e);
        if (code == ERR_OK)
            keys[c.layer] = c.keys * (double)geometry->shards * geometry->blocks / (double)c.blocks;
    }
    return code;
}

enum err fence_raise_count(struct fence *f, const struct view *v, unsigned layer, uint64_t least,
                           bool *raised, struct error *e)
{
    char field[48];
    long long answer = 0;
    (void)snprintf(field, sizeof(field), "%" PRIu64 ".%u", view_current(v)->number, layer);
    script_begin(&f->call, embedded_recount);
    fence_put_key(f, "view");
    fence_put_key(f, "count");
    script_incarnation(&f->call, v->incarnation);
    script_number(&f->call, v->epoch);
    script_text(&f->call, field);
    script_number(&f->call, least);
    enum err code = script_run(&f->call, f->link, fence_home(f), &answer, e);
    *raised = code == ERR_OK && answer == 1;
    return code == ERR_OK && answer < 0 ? error_set(e, ERR_FENCED, "the view moved on") : code;
}
