/* SPDX-License-Identifier: MIT */
#include "service/filters/log_load.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "shard/filter/hash.h"
#include "shard/fold/fold.h"

enum { LANES = 1, BATCH_BYTES = 4 << 20, BATCH_SHARDS = 512 };

/* Copies shards of one layer from where they are stored to where they will be read. */
struct copy {
    struct handle *handle; /* its names have the incarnation of the stored shards */
    const struct loading *load;
    struct names stored;
    struct fold fold; /* writes the new filter */
    uint16_t tag_stored;
    unsigned layer;
    uint8_t *bytes; /* buffer for one batch */
};

static const struct geometry *geometry_of(const struct copy *c)
{
    return &c->fold.shape->layers[c->layer].geometry;
}

static enum err send_get(struct copy *c, uint32_t shard, struct error *e)
{
    struct key_name name;
    const struct generation *g = &c->load->shape;
    const struct shard_id id = {.generation = g->number, .layer = c->layer, .shard = shard};
    names_new_shard(&c->stored, id, g->layers[c->layer].token, &name);
    const char *const argv[] = {"GET", name.text};
    const size_t lengths[] = {3, name.length};
    return sync_client_append(c->fold.redis, fold_where(&c->fold, c->layer, shard), 2, argv, lengths, e);
}

/* Read a shard; its tags are replaced by those of the new filter. */
static enum err take_get(struct copy *c, uint32_t shard, uint8_t *out, struct error *e)
{
    const struct geometry *g = geometry_of(c);
    unsigned where = fold_where(&c->fold, c->layer, shard);
    uint32_t bytes = geometry_shard_bytes(g);
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = sync_client_reply(c->fold.redis, where, &reply, e);
    if (code != ERR_OK)
        return code;
    bool whole = reply->type == REDIS_REPLY_STRING && reply->len == bytes;
    if (reply->type == REDIS_REPLY_ERROR)
        code = sync_client_refusal(c->fold.redis, where, reply, e);
    else if (whole)
        memcpy(out, reply->str, bytes);
    if (code == ERR_OK &&
        (!whole || !dump_tags_strip(g, c->tag_stored, out) || !dump_tags_put(g, c->fold.tag, out)))
        code = error_set(e, ERR_LOST,
                         "shard %" PRIu32 " of layer %u was lost while it was loaded: send any chunk again",
                         shard, c->layer);
    return code;
}

static enum err send_shard(struct copy *c, uint32_t shard, const uint8_t *from, struct error *e)
{
    const struct geometry *g = geometry_of(c);
    uint32_t bytes = geometry_shard_bytes(g);
    enum err code = ERR_OK;
    for (uint32_t at = 0; at < bytes && code == ERR_OK; at += FOLD_WRITE_BYTES) {
        fold_begin(&c->fold, c->layer, shard);
        fold_piece(&c->fold, header_bytes(g) + at, from + at,
                   bytes - at < FOLD_WRITE_BYTES ? bytes - at : FOLD_WRITE_BYTES);
        code = fold_send(&c->fold, c->layer, shard, e);
    }
    return code;
}

static enum err copy_batch(struct copy *c, uint32_t first, uint32_t end, struct error *e)
{
    size_t bytes = geometry_shard_bytes(geometry_of(c));
    enum err code = ERR_OK;
    for (uint32_t s = first; s < end && code == ERR_OK; s++)
        code = send_get(c, s, e);
    for (uint32_t s = first; s < end && code == ERR_OK; s++)
        code = take_get(c, s, c->bytes + (s - first) * bytes, e);
    for (uint32_t s = first; s < end && code == ERR_OK; s++)
        code = send_shard(c, s, c->bytes + (s - first) * bytes, e);
    for (uint32_t s = first; s < end && code == ERR_OK; s++)
        for (size_t at = 0; at < bytes && code == ERR_OK; at += FOLD_WRITE_BYTES)
            code = fold_reply(&c->fold, c->layer, s, e);
    return code;
}

static enum err copy_layer(struct copy *c, const struct work *w, struct error *e)
{
    const struct geometry *g = geometry_of(c);
    uint32_t fit = BATCH_BYTES / geometry_shard_bytes(g), batch = fit < BATCH_SHARDS ? fit : BATCH_SHARDS;
    enum err code = ERR_OK;
    for (uint32_t first = 0, end; first < g->shards && code == ERR_OK; first = end) {
        end = g->shards - first < batch ? g->shards : first + batch;
        code = copy_batch(c, first, end, e);
        if (code == ERR_OK)
            code = work_ask(w, e);
    }
    return code;
}

/* A make_fill_fn. */
static enum err fill(void *arg, const struct names *names, const struct generation *g, const struct work *w,
                     struct error *e)
{
    struct copy *c = arg;
    fold_init(&c->fold, c->handle->redis, names, g->number);
    enum err code = fold_place(&c->fold, g, e);
    for (c->layer = 0; c->layer < g->layer_count && code == ERR_OK; c->layer++)
        code = copy_layer(c, w, e);
    fold_fini(&c->fold);
    if (code != ERR_OK)
        sync_client_forget(c->handle->redis);
    return code;
}

static enum err publish(struct copy *c, struct filter_naming *as, struct generation *shape,
                        const struct placement *on, uint32_t shard_bytes, struct log_view *out,
                        const struct work *w, struct error *e)
{
    const struct loading *l = c->load;
    struct make_content content = {.seed = l->header.seed,
                                   .shape = shape,
                                   .fill = fill,
                                   .arg = c,
                                   .loading = l->incarnation,
                                   .dump = l->dump,
                                   .done_ms = LOADED_TTL_MS};
    const struct make_options o = {.expansion = l->header.expansion,
                                   .lanes = LANES,
                                   .placement = on,
                                   .shard_bytes = shard_bytes,
                                   .content = &content};
    *shape = l->shape;
    shape->seed = l->header.mix;
    for (unsigned i = 0; i < shape->layer_count; i++)
        shape->layers[i].token = 0;
    for (unsigned i = 0; i < l->header.layer_count; i++)
        content.keys += l->header.layers[i].items;
    c->stored = c->handle->names;
    c->stored.incarnation = l->incarnation;
    c->tag_stored = hash_tag(l->incarnation, c->stored.filter, c->stored.filter_length, l->shape.number);
    return filter_make_log(as, &o, out, w, e);
}

enum err log_load_publish(struct filter_naming *as, const struct loading *l, const struct placement *on,
                          uint32_t shard_bytes, struct log_view *out, const struct work *w, struct error *e)
{
    struct copy *c = calloc(1, sizeof(*c));
    struct generation shape;
    uint8_t *bytes = malloc(BATCH_BYTES);
    enum err code = ERR_NOMEM;
    if (c != NULL && bytes != NULL) {
        *c = (struct copy){.handle = as->handle, .load = l, .bytes = bytes};
        code = publish(c, as, &shape, on, shard_bytes, out, w, e);
    } else {
        (void)error_set(e, ERR_NOMEM, "out of memory");
    }
    free(bytes);
    free(c);
    return code;
}
