/* SPDX-License-Identifier: MIT */
#include "shard/view/shards.h"

#include <string.h>
#include "base/info.h"
#include "shard/filter/block.h"
#include "shard/redis/wire/replication.h"
#include "shard/redis/script_call.h"

extern const char embedded_shard_make[], embedded_shard_unmake[];

enum {
    MAKE_BYTES = 4 << 20, /* bytes of shards that are made at a time: a node takes about 15 ms for them */
    MAKE_MAX = 256,       /* the most shards that are made at a time */
    BATCH = 256           /* of other commands */
};

enum err work_ask(const struct work *w, struct error *e)
{
    return w == NULL || w->fn == NULL ? ERR_OK : w->fn(w->arg, e);
}

/* A walk over the shards of one layer, batch by batch: sends a command for each, and takes its reply. */
struct walk {
    struct sync_client *redis;
    const struct names *names;
    const struct generation *g;
    unsigned layer;
    struct placement placement;
    struct writer_token writer;
    uint64_t later;   /* the latest token of a shard that was there */
    bool keeps, kept; /* keep shards of earlier tokens; some were kept */
    bool is_new;      /* the shards are those of a dump that is being loaded */
    bool misses;      /* a shard is not there */
    struct script_call *call;
    uint16_t tag;
};

typedef enum err shard_fn(struct walk *w, uint32_t shard, unsigned where, struct error *e);

static enum err walk(struct walk *w, uint32_t batch, shard_fn *send, shard_fn *take, const struct work *work,
                     struct error *e)
{
    uint32_t shards = w->g->layers[w->layer].geometry.shards;
    enum err code = ERR_OK;
    for (uint32_t first = 0, end; first < shards && code == ERR_OK; first = end) {
        end = shards - first < batch ? shards : first + batch;
        for (uint32_t s = first; s < end && code == ERR_OK; s++)
            code = send(w, s, placement_where(&w->placement, w->layer, s), e);
        for (uint32_t s = first; s < end && code == ERR_OK; s++)
            code = take(w, s, placement_where(&w->placement, w->layer, s), e);
        if (code == ERR_OK)
            code = work_ask(work, e);
    }
    if (code != ERR_OK)
        sync_client_forget(w->redis);
    return code;
}

static struct shard_id id_of(const struct walk *w, uint32_t shard)
{
    return (struct shard_id){.generation = w->g->number, .layer = w->layer, .shard = shard};
}

/* --- making --- */

static void header_of(const struct walk *w, uint32_t shard, uint8_t *out)
{
    struct header h = header_of_shard(w->g, w->names->incarnation, w->tag, w->layer, shard);
    h.writer = w->writer;
    header_encode(&h, out);
}

/* Begin a script whose key is the shard, and whose first argument is its header. */
static void begin(struct walk *w, uint32_t shard, const char *script)
{
    uint8_t header[BLOCK_BITS_MAX / 8];
    struct key_name key;
    names_log_shard(w->names, id_of(w, shard), &key);
    header_of(w, shard, header);
    script_begin(w->call, script);
    script_key(w->call, &key);
    script_bytes(w->call, header, header_bytes(&w->g->layers[w->layer].geometry));
}

static enum err send_make(struct walk *w, uint32_t shard, unsigned where, struct error *e)
{
    uint8_t block[BLOCK_BITS_MAX / 8];
    const struct geometry *g = &w->g->layers[w->layer].geometry;
    const struct geometry one = {.shards = 1, .blocks = 1, .block_bits = g->block_bits, .hashes = g->hashes};
    block_fill(&one, w->tag, block);
    begin(w, shard, embedded_shard_make);
    script_bytes(w->call, block, geometry_shard_bytes(&one));
    script_number(w->call, g->blocks);
    script_number(w->call, HEADER_WRITER_AT);
    script_number(w->call, HEADER_WRITER_BYTES);
    if (w->keeps)
        script_number(w->call, HEADER_SUM_AT);
    return script_send(w->call, w->redis, where, e);
}

static enum err take_made(struct walk *w, uint32_t shard, unsigned where, struct error *e)
{
    struct key_name key;
    long long answer = 0;
    names_log_shard(w->names, id_of(w, shard), &key);
    enum err code = script_reply(w->redis, where, &answer, e);
    if (code == ERR_REFUSED && e != NULL && strstr(e->text, "OOM command not allowed") != NULL)
        code = ERR_NOMEM;
    if (code == ERR_REFUSED && e != NULL && strstr(e->text, "WRONGTYPE") != NULL)
        code =
            error_set(e, ERR_WRONG_TYPE, "shard %s is no string: delete or rename the foreign key", key.text);
    w->kept |= code == ERR_OK && answer == -3;
    if (code != ERR_OK || answer == -1 || answer == -3)
        return code;
    if (answer < -1)
        return error_set(e, ERR_CONFLICT, "%s is no shard of this filter: delete or rename that key",
                         key.text);
    w->later = (uint64_t)answer;
    return error_set(e, ERR_FENCED, "shard %s has token %lld, this one or a later one", key.text, answer);
}

static enum err walk_begin(struct walk *w, struct sync_client *l, const struct names *names,
                           const struct generation *g, struct error *e)
{
    *w = (struct walk){.redis = l, .names = names, .g = g, .keeps = w->keeps, .is_new = w->is_new};
    w->tag = names_tag(names, g->number);
    return placement_resolve(&w->placement, names, g, sync_client_nodes(l), e);
}

static enum err send_unmake(struct walk *w, uint32_t shard, unsigned where, struct error *e)
{
    begin(w, shard, embedded_shard_unmake);
    return script_send(w->call, w->redis, where, e);
}

static enum err take_number(struct walk *w, uint32_t shard, unsigned where, struct error *e)
{
    long long number;
    (void)shard;
    return script_reply(w->redis, where, &number, e);
}

/* @w->keeps is set. */
static enum err walk_by_script(struct walk *w, struct sync_client *l, const struct names *names,
                               const struct generation *g, unsigned layer, struct writer_token writer,
                               shard_fn *send, shard_fn *take, const struct work *work, struct error *e)
{
    SCOPED(script_fini) struct script_call call = {0};
    enum err code = walk_begin(w, l, names, g, e);
    if (code != ERR_OK)
        return code;
    w->layer = layer;
    w->writer = writer;
    w->call = &call;
    uint32_t fit = MAKE_BYTES / header_shard_bytes(&g->layers[layer].geometry);
    return walk(w, fit < MAKE_MAX ? fit : MAKE_MAX, send, take, work, e);
}

enum err shards_make(struct sync_client *l, const struct names *names, const struct generation *g,
                     unsigned layer, struct writer_token writer, uint64_t *later, const struct work *work,
                     struct error *e)
{
    struct walk w = {.keeps = false};
    enum err code = walk_by_script(&w, l, names, g, layer, writer, send_make, take_made, work, e);
    *later = w.later;
    return code;
}

enum err shards_keep_or_make(struct sync_client *l, const struct names *names, const struct generation *g,
                             unsigned layer, struct writer_token writer, bool *kept, struct error *e)
{
    struct walk w = {.keeps = true};
    enum err code = walk_by_script(&w, l, names, g, layer, writer, send_make, take_made, NULL, e);
    *kept = w.kept;
    return code;
}

enum err shards_unmake(struct sync_client *l, const struct names *names, const struct generation *g,
                       unsigned layer, struct writer_token writer, struct error *e)
{
    struct walk w = {.keeps = false};
    return walk_by_script(&w, l, names, g, layer, writer, send_unmake, take_number, NULL, e);
}

/* --- removing --- */

static enum err send_remove(struct walk *w, uint32_t shard, unsigned where, struct error *e)
{
    struct key_name key;
    if (w->is_new)
        names_new_shard(w->names, id_of(w, shard), w->g->layers[w->layer].token, &key);
    else
        names_log_shard(w->names, id_of(w, shard), &key);
    return sync_client_send(w->redis, where, e, "UNLINK %s", key.text);
}

static enum err walk_all(struct walk *w, struct sync_client *l, const struct names *names,
                         const struct generation *g, shard_fn *send, shard_fn *take, const struct work *work,
                         struct error *e)
{
    enum err code = walk_begin(w, l, names, g, e);
    for (w->layer = 0; w->layer < g->layer_count && code == ERR_OK; w->layer++)
        code = walk(w, BATCH, send, take, work, e);
    return code;
}

enum err shards_remove(struct sync_client *l, const struct names *names, const struct generation *g,
                       const struct work *work, struct error *e)
{
    return walk_all(&(struct walk){.is_new = false}, l, names, g, send_remove, take_number, work, e);
}

enum err shards_remove_new(struct sync_client *l, const struct names *names, const struct generation *g,
                           struct error *e)
{
    return walk_all(&(struct walk){.is_new = true}, l, names, g, send_remove, take_number, NULL, e);
}

/* --- asking --- */

static enum err send_exists(struct walk *w, uint32_t shard, unsigned where, struct error *e)
{
    struct key_name key;
    names_log_shard(w->names, id_of(w, shard), &key);
    return sync_client_send(w->redis, where, e, "EXISTS %s", key.text);
}

static enum err take_exists(struct walk *w, uint32_t shard, unsigned where, struct error *e)
{
    long long number = 0;
    (void)shard;
    enum err code = script_reply(w->redis, where, &number, e);
    w->misses |= number == 0;
    return code;
}

bool shards_are_there(struct sync_client *l, const struct names *names, const struct generation *g)
{
    struct error ignored;
    struct walk w = {.misses = false};
    return walk_all(&w, l, names, g, send_exists, take_exists, NULL, &ignored) == ERR_OK && !w.misses;
}

/* --- replication ids --- */

static enum err add_era(struct sync_client *l, unsigned where, struct trusted *out, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = sync_client_command(l, where, &reply, e, "INFO replication");
    if (code != ERR_OK)
        return code;
    uint64_t era = reply->type == REDIS_REPLY_STRING ? info_master_id(reply->str, reply->len) : 0;
    if (era == 0)
        return error_set(e, ERR_UNREACHABLE, "Redis node %s is no master", sync_client_name(l, where));
    return trusted_add(out, era)
               ? ERR_OK
               : error_set(e, ERR_RANGE, "there are more than %d masters", REPLICATIONS_MAX);
}

enum err shards_eras(struct sync_client *l, const struct names *names, const struct generation *g,
                     struct trusted *out, struct error *e)
{
    struct placement placement;
    unsigned masters = 0;
    out->count = 0;
    enum err code = placement_resolve(&placement, names, g, sync_client_nodes(l), e);
    for (unsigned i = 0; code == ERR_OK && i < placement.count; i++)
        code = add_era(l, placement.node[i], out, e);
    if (code != ERR_OK || placement.count > 0)
        return code;
    code = sync_client_masters(l, &masters, e);
    for (unsigned i = 0; code == ERR_OK && i < masters; i++)
        if (sync_client_master_has_slots(l, i))
            code = add_era(l, sync_client_master(l, i), out, e);
    return code;
}

enum err shards_eras_asked(struct sync_client *l, struct trusted *out, struct error *e)
{
    enum err code = ERR_OK;
    out->count = 0;
    for (unsigned i = 0, asked = sync_client_asked(l); i < asked && code == ERR_OK; i++)
        code = add_era(l, sync_client_master(l, i), out, e);
    return code;
}

enum err shards_masters_are(struct sync_client *l, const struct trusted *eras, bool *are, struct error *e)
{
    SCOPED(replications_fini) struct replications now = {0};
    enum err code = sync_client_replications(l, NULL, &now, e);
    *are = code == ERR_OK;
    for (unsigned i = 0; i < now.count && code == ERR_OK; i++) {
        const struct replication *one = &now.one[i];
        if (one->has_slots && one->id == 0)
            return error_set(e, ERR_UNREACHABLE, "Redis node %s does not answer, or is no master", one->node);
        *are &= !one->has_slots || trusted_contains(eras, one->id);
    }
    for (unsigned i = 0; i < eras->count; i++)
        *are &= replications_of_id(&now, eras->id[i]) != NULL;
    return code;
}

bool shards_eras_equal(const struct trusted *a, const struct trusted *b)
{
    if (a->count != b->count)
        return false;
    for (unsigned i = 0; i < a->count; i++)
        if (!trusted_contains(b, a->id[i]))
            return false;
    return true;
}
