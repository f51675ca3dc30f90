/* SPDX-License-Identifier: MIT */
/* The happy path is: a record; the shards of each chunk, and a note that it has arrived; a check that all are
 * there; then the filter is made of them (make.h). Possible failure modes are: the loader dies at any point
 * (nothing is visible; the next loader finds what was written, or it expires); shards are gone by the end
 * (their chunks are asked for again); somebody makes the filter meanwhile (the record's shards expire);
 * another dump is loaded instead (likewise). */
#include "shard/generations/loading.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "shard/view/shards.h"

extern const char embedded_load_begin[], embedded_load_chunk[], embedded_load_end[];

enum { WRITE_BYTES = 2 << 20, AT_ONCE = 512, NOTES_AT_ONCE = 1000, GENERATION_LOADED = 1 };

/* --- the record --- */

void loading_shape(struct generation *out, const struct dump_header *h, const struct nodes *nodes,
                   uint64_t token)
{
    *out = (struct generation){.number = GENERATION_LOADED,
                               .seed = h->seed,
                               .built = true,
                               .capacity = h->capacity,
                               .error_rate = h->error_rate,
                               .layer_count = h->layer_count};
    for (unsigned i = 0; i < h->layer_count; i++)
        out->layers[i] = (struct layer){.geometry = h->layers[i].geometry,
                                        .capacity = h->layers[i].capacity,
                                        .error_rate = h->layers[i].error_rate,
                                        .token = token};
    nodes_pin(nodes, out);
}

static enum err damaged(struct error *e, const char *field)
{
    return error_set(e, ERR_PARSE, "the record of the load is damaged: %s", field);
}

static bool is_text(const redisReply *r)
{
    return r->type == REDIS_REPLY_STRING;
}

enum { FIELD_STATE, FIELD_DUMP, FIELD_INCARNATION, FIELD_ARRIVED, FIELD_HEADER, FIELD_GENERATION, FIELDS };

static enum err parse_record(struct loading *out, redisReply *const *r, struct error *e)
{
    uint64_t arrived;
    if (!is_text(r[FIELD_DUMP]) || !number_hex64(r[FIELD_DUMP]->str, r[FIELD_DUMP]->len, &out->dump))
        return damaged(e, "dump");
    if (!is_text(r[FIELD_INCARNATION]) ||
        !number_hex64(r[FIELD_INCARNATION]->str, r[FIELD_INCARNATION]->len, &out->incarnation))
        return damaged(e, "incarnation");
    out->done = strcmp(r[FIELD_STATE]->str, "done") == 0;
    if (out->done)
        return ERR_OK;
    if (!is_text(r[FIELD_ARRIVED]) || !number_u64(r[FIELD_ARRIVED]->str, r[FIELD_ARRIVED]->len, &arrived) ||
        arrived > UINT32_MAX)
        return damaged(e, "arrived");
    out->arrived = (uint32_t)arrived;
    if (!is_text(r[FIELD_HEADER]) ||
        dump_header_decode(&out->header, r[FIELD_HEADER]->str, r[FIELD_HEADER]->len, e) != ERR_OK)
        return damaged(e, "header");
    struct generation *g = &out->shape;
    if (!is_text(r[FIELD_GENERATION]) ||
        generation_parse(g, r[FIELD_GENERATION]->str, r[FIELD_GENERATION]->len, e) != ERR_OK ||
        g->number != GENERATION_LOADED || g->layer_count != out->header.layer_count)
        return damaged(e, "generation");
    return ERR_OK;
}

enum err loading_read(struct handle *f, struct loading *out, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = sync_client_filter_command(
        f->redis, &f->names, "load", "HMGET %b state dump incarnation arrived header generation", &reply, e);
    if (code != ERR_OK)
        return code;
    *out = (struct loading){0};
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != FIELDS)
        code = damaged(e, "it is not a hash");
    else if (!is_text(reply->element[FIELD_STATE]))
        code = error_set(e, ERR_NOT_FOUND, "the filter is not being loaded");
    else
        code = parse_record(out, reply->element, e);
    if (code == ERR_OK)
        f->names.incarnation = out->incarnation;
    return code;
}

enum err loading_begin(struct handle *f, const struct loading *l, struct error *e)
{
    struct script_call *c = &f->call;
    char generation[GENERATION_TEXT_MAX];
    size_t length = generation_text(&l->shape, generation);
    script_begin(c, embedded_load_begin);
    script_filter_key(&f->call, &f->names, "load");
    script_filter_key(&f->call, &f->names, "view");
    script_incarnation(c, l->header.id); /* the id has the same form */
    script_number(c, LOADING_TTL_MS);
    dump_header_encode(&l->header, script_argument(c));
    script_text(c, "incarnation");
    script_incarnation(c, l->incarnation);
    script_text(c, "generation");
    script_bytes(c, generation, length);
    long long answer = 0;
    enum err code = script_run(c, f->redis, handle_home(f), &answer, e);
    if (code == ERR_OK && answer == 0)
        code = error_set(e, ERR_EXISTS, "the filter exists already");
    return code;
}

static enum err read_reply(struct handle *f, unsigned where, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = sync_client_reply(f->redis, where, &reply, e);
    return code == ERR_OK && reply->type == REDIS_REPLY_ERROR ? sync_client_refusal(f->redis, where, reply, e)
                                                              : code;
}

enum err loading_discard(struct handle *f, const struct loading *l, struct error *e)
{
    struct names of = f->names;
    of.incarnation = l->incarnation;
    return shards_remove_new(f->redis, &of, &l->shape, e);
}

static enum err end(struct handle *f, struct loading *l, struct error *e)
{
    long long ended;
    enum err code = loading_read(f, l, e);
    if (code == ERR_PARSE) /* e.g. another version has written the record; the shards expire by themselves */
        return sync_client_filter_command(f->redis, &f->names, "load", "UNLINK %b", NULL, e);
    if (code != ERR_OK || l->done)
        return code == ERR_NOT_FOUND ? ERR_OK : code;
    script_begin(&f->call, embedded_load_end);
    script_filter_key(&f->call, &f->names, "load");
    script_incarnation(&f->call, l->incarnation);
    code = script_run(&f->call, f->redis, handle_home(f), &ended, e);
    return code == ERR_OK && ended == 1 ? loading_discard(f, l, e) : code;
}

enum err loading_end(struct handle *f, struct error *e)
{
    struct loading *l = malloc(sizeof(*l));
    if (l == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = end(f, l, e);
    free(l);
    return code;
}

static enum err note_some(struct handle *f, struct loading *l, const uint32_t *chunks, size_t count,
                          bool arrived, struct error *e)
{
    struct script_call *c = &f->call;
    script_begin(c, embedded_load_chunk);
    script_filter_key(&f->call, &f->names, "load");
    script_incarnation(c, l->incarnation);
    script_number(c, LOADING_TTL_MS);
    script_number(c, arrived);
    for (size_t i = 0; i < count; i++)
        script_number(c, chunks[i]);
    long long answer = 0;
    enum err code = script_run(c, f->redis, handle_home(f), &answer, e);
    if (code == ERR_OK && answer < 0)
        return error_set(e, ERR_FENCED, "another dump is being loaded, or the filter exists");
    l->arrived = (uint32_t)answer;
    return code;
}

enum err loading_note(struct handle *f, struct loading *l, const uint32_t *chunks, size_t count, bool arrived,
                      struct error *e)
{
    enum err code = ERR_OK;
    for (size_t done = 0; done < count && code == ERR_OK; done += NOTES_AT_ONCE)
        code = note_some(f, l, chunks + done, count - done < NOTES_AT_ONCE ? count - done : NOTES_AT_ONCE,
                         arrived, e);
    return code;
}

enum err loading_arrived(struct handle *f, const struct loading *l, uint8_t *there, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = sync_client_filter_command(f->redis, &f->names, "load", "HKEYS %b", &reply, e);
    if (code != ERR_OK)
        return code;
    for (size_t i = 0; i < reply->elements; i++) {
        const redisReply *key = reply->element[i];
        uint64_t number;
        if (key->len > 1 && key->str[0] == 'c' && number_u64(key->str + 1, key->len - 1, &number) &&
            number >= 1 && number <= l->header.chunks)
            there[number] = 1;
    }
    return ERR_OK;
}

/* --- the shards --- */

static void new_name(struct handle *f, const struct loading *l, unsigned layer, uint32_t shard,
                     struct key_name *out)
{
    const struct generation *g = &l->shape;
    const struct shard_id id = {.generation = g->number, .layer = layer, .shard = shard};
    names_new_shard(&f->names, id, g->layers[layer].token, out);
}

/* NX: a shard that is there already came with the same load, as shards of each load have names of their own.
 */
static enum err write_some(struct handle *f, const struct loading *l, const struct placement *placement,
                           const struct dump_run *run, const uint8_t *shards, struct error *e)
{
    uint32_t bytes = geometry_shard_bytes(&l->header.layers[run->layer].geometry);
    char ttl[24];
    int n = snprintf(ttl, sizeof(ttl), "%d", LOADING_TTL_MS);
    enum err code = ERR_OK;
    for (uint32_t i = 0; i < run->count && code == ERR_OK; i++) {
        struct key_name name;
        new_name(f, l, run->layer, run->first + i, &name);
        const char *argv[] = {"SET", name.text, (const char *)shards + (size_t)i * bytes, "NX", "PX", ttl};
        const size_t lengths[] = {3, name.length, bytes, 2, 2, (size_t)n};
        code = sync_client_append(f->redis, placement_where(placement, run->layer, run->first + i), 6, argv,
                                  lengths, e);
    }
    for (uint32_t i = 0; i < run->count && code == ERR_OK; i++)
        code = read_reply(f, placement_where(placement, run->layer, run->first + i), e);
    return code;
}

enum err loading_write(struct handle *f, const struct loading *l, const struct dump_run *run, uint8_t *shards,
                       struct error *e)
{
    const struct generation *g = &l->shape;
    const struct geometry *geometry = &l->header.layers[run->layer].geometry;
    uint32_t bytes = geometry_shard_bytes(geometry);
    uint32_t at_once = WRITE_BYTES / bytes < AT_ONCE ? WRITE_BYTES / bytes : AT_ONCE;
    struct placement placement;
    uint16_t tag = names_tag(&f->names, g->number);
    enum err code = placement_resolve(&placement, &f->names, g, sync_client_nodes(f->redis), e);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0; i < run->count; i++)
        if (!dump_tags_put(geometry, tag, shards + (size_t)i * bytes))
            return error_set(e, ERR_PARSE, "dump: shard %u is damaged", run->first + i);
    for (uint32_t done = 0; done < run->count && code == ERR_OK; done += at_once) {
        uint32_t left = run->count - done;
        const struct dump_run some = {
            .layer = run->layer, .first = run->first + done, .count = left < at_once ? left : at_once};
        code = write_some(f, l, &placement, &some, shards + (size_t)done * bytes, e);
    }
    if (code != ERR_OK)
        sync_client_forget(f->redis);
    return code;
}

/* PEXPIRE, and GETRANGE of the last block's tag. */
static enum err send_look(struct handle *f, const struct loading *l, unsigned layer, uint32_t shard,
                          unsigned where, struct error *e)
{
    const struct geometry *geometry = &l->header.layers[layer].geometry;
    struct key_name name;
    uint32_t at = geometry_shard_bytes(geometry) - geometry->block_bits / 8;
    new_name(f, l, layer, shard, &name);
    enum err code = sync_client_send(f->redis, where, e, "PEXPIRE %s %d", name.text, LOADING_TTL_MS);
    return code == ERR_OK ? sync_client_send(f->redis, where, e, "GETRANGE %s %" PRIu32 " %" PRIu32,
                                             name.text, at, at + 1)
                          : code;
}

static enum err take_look(struct handle *f, uint16_t tag, unsigned where, bool *there, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = read_reply(f, where, e);
    if (code == ERR_OK)
        code = sync_client_reply(f->redis, where, &reply, e);
    if (code != ERR_OK)
        return code;
    bool wrong_type = reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "WRONGTYPE", 9) == 0;
    if (reply->type == REDIS_REPLY_ERROR && !wrong_type)
        code = sync_client_refusal(f->redis, where, reply, e);
    const uint8_t *bytes = (const uint8_t *)reply->str;
    *there = reply->type == REDIS_REPLY_STRING && reply->len == 2 && (bytes[0] << 8 | bytes[1]) == tag;
    return code;
}

static enum err look_layer(struct handle *f, const struct loading *l, const struct placement *placement,
                           unsigned layer, uint8_t *there, struct error *e)
{
    uint32_t shards = l->header.layers[layer].geometry.shards;
    uint16_t tag = names_tag(&f->names, l->shape.number);
    enum err code = ERR_OK;
    for (uint32_t first = 0; first < shards && code == ERR_OK; first += AT_ONCE) {
        uint32_t end = shards - first < AT_ONCE ? shards : first + AT_ONCE;
        for (uint32_t i = first; i < end && code == ERR_OK; i++)
            code = send_look(f, l, layer, i, placement_where(placement, layer, i), e);
        for (uint32_t i = first; i < end && code == ERR_OK; i++) {
            bool here = false;
            code = take_look(f, tag, placement_where(placement, layer, i), &here, e);
            if (code == ERR_OK && !here)
                there[dump_chunk_of(&l->header, layer, i)] = 0;
        }
    }
    return code;
}

enum err loading_look(struct handle *f, const struct loading *l, uint8_t *there, struct error *e)
{
    struct placement placement;
    enum err code = placement_resolve(&placement, &f->names, &l->shape, sync_client_nodes(f->redis), e);
    for (unsigned i = 0; i < l->header.layer_count && code == ERR_OK; i++)
        code = look_layer(f, l, &placement, i, there, e);
    if (code != ERR_OK)
        sync_client_forget(f->redis);
    return code;
}
