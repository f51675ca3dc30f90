/* SPDX-License-Identifier: MIT */
#include "tests/integration/pinning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/filter/block.h"

enum { SYNC_CLIENT_MS = 5000 };

const struct geometry pinning_geometry[2] = {{.shards = 6, .blocks = 1500, .block_bits = 1024, .hashes = 9},
                                             {.shards = 2, .blocks = 700, .block_bits = 512, .hashes = 7}};
static const struct writer_token writer = {.number = 7, .random = 8};

struct key_hash pinning_hash(uint64_t key)
{
    return hash_key(5, &key, sizeof(key));
}

struct key_place pinning_place(unsigned layer, uint64_t key)
{
    struct key_place p;
    hash_place(&pinning_geometry[layer], hash_mix(pinning_hash(key), PINNING_MIX), &p);
    return p;
}

/* --- in Redis --- */

struct key_name pinning_name(const struct pinning *p, unsigned layer, uint32_t shard)
{
    struct key_name name;
    names_log_shard(&p->names,
                    (struct shard_id){.generation = PINNING_GENERATION, .layer = layer, .shard = shard},
                    &name);
    return name;
}

struct header pinning_header(const struct pinning *p, unsigned layer, uint32_t shard)
{
    const struct geometry *g = &pinning_geometry[layer];
    return (struct header){.tag = PINNING_TAG,
                           .incarnation = p->names.incarnation,
                           .generation = PINNING_GENERATION,
                           .writer = writer,
                           .layer = layer,
                           .shard = shard,
                           .blocks = g->blocks,
                           .block_bits = (uint16_t)g->block_bits,
                           .hashes = (uint16_t)g->hashes};
}

void pinning_command(struct pinning *p, unsigned layer, uint32_t shard, const char *what, const void *bytes,
                     size_t length)
{
    struct error e = {""};
    redisReply *reply = NULL;
    struct key_name name = pinning_name(p, layer, shard);
    must(sync_client_command(p->link, placement_where(&p->placement, layer, shard), &reply, &e, what,
                             name.text, name.length, bytes, length),
         e);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
}

void pinning_write(struct pinning *p, unsigned layer, uint32_t shard, const struct header *h, size_t cut)
{
    const struct geometry *g = &pinning_geometry[layer];
    size_t length = header_shard_bytes(g), bytes = geometry_shard_bytes(g);
    uint8_t *out = malloc(length);
    assert_non_null(out);
    header_encode(h, out);
    memcpy(out + header_bytes(g), p->shards[layer] + shard * bytes, bytes);
    pinning_command(p, layer, shard, "SET %b %b", out, length - cut);
    free(out);
}

static void write_layer(struct pinning *p, unsigned layer)
{
    const struct geometry *g = &pinning_geometry[layer];
    size_t bytes = geometry_shard_bytes(g);
    p->shards[layer] = calloc(g->shards, bytes);
    assert_non_null(p->shards[layer]);
    for (uint32_t s = 0; s < g->shards; s++)
        block_fill(g, PINNING_TAG, p->shards[layer] + s * bytes);
    for (uint64_t key = 0; key < PINNING_KEYS && layer == 0; key++) {
        struct key_place at = pinning_place(0, key);
        (void)block_set(g, &at, p->shards[0] + at.shard * bytes);
    }
    for (uint32_t s = 0; s < g->shards; s++) {
        struct header h = pinning_header(p, layer, s);
        pinning_write(p, layer, s, &h, 0);
    }
}

void pinning_open(struct pinning *p, const struct nodes *direct, const struct nodes *nodes)
{
    static struct generation generation;
    static const struct layer layers[2] = {{.token = PINNING_MADE}, {.token = PINNING_MADE}};
    struct error e = {""};
    memset(p, 0, sizeof(*p));
    must(names_init(&p->names, "test", "f", 1, &e), e);
    p->names.incarnation = 0xabcdef;
    generation = (struct generation){.number = PINNING_GENERATION};
    nodes_pin(nodes, &generation);
    must(placement_resolve(&p->placement, &p->names, &generation, nodes, &e), e);
    p->link = sync_client_new(direct, SYNC_CLIENT_MS, NULL);
    assert_non_null(p->link);
    budget_init(&p->budget, 0); /* resident_memory = 0 */
    must(resident_new(&p->r, PINNING_MIX, 1, &p->budget, &e), e);
    for (unsigned layer = 0; layer < 2; layer++) {
        write_layer(p, layer);
        must(resident_add_layer(p->r, &pinning_geometry[layer], PINNING_TAG, &e), e);
    }
    p->base = event_base_new();
    p->store = async_client_new(p->base, nodes, PINNING_STORE_MS, NULL);
    assert_non_null(p->store);
    p->source = (struct block_source){.resident = p->r,
                                      .view = resident_view(p->r),
                                      .names = &p->names,
                                      .placement = &p->placement,
                                      .generation = PINNING_GENERATION,
                                      .writer = writer,
                                      .layers = layers,
                                      .eras = &p->eras};
}

void pinning_close(struct pinning *p)
{
    async_client_free(p->store);
    event_base_free(p->base);
    sync_client_free(p->link);
    assert_int_equal(p->budget.pinned, 0);
    resident_free(p->r);
    free(p->shards[0]);
    free(p->shards[1]);
}

/* --- requests --- */

static void on_done(void *arg, const struct block_result *result)
{
    struct pinning_request *q = arg;
    q->told++;
    q->took_us = clock_mono_us() - q->began;
    if (q->end_when_told)
        pinning_end(q);
    q->result = *result;
    (void)snprintf(q->text, sizeof(q->text), "%s", result->text);
}

void pinning_begin(struct pinning_request *q, struct pinning *p, uint64_t first, unsigned count)
{
    struct error e = {""};
    *q = (struct pinning_request){.p = p, .count = count, .began = clock_mono_us()};
    for (unsigned i = 0; i < count; i++)
        q->hashes[i] = pinning_hash(first + i);
    must(block_read_start(&q->read, &p->source, p->base, p->store, q->hashes, count, on_done, q, &e), e);
    assert_int_equal(q->told, 0);
}

void pinning_turn(struct pinning *p)
{
    (void)event_base_loop(p->base, EVLOOP_NONBLOCK);
    clock_sleep_us(200);
}

void pinning_wait(struct pinning_request *q)
{
    uint64_t until = clock_mono_us() + PINNING_GUARD_MS * 1000ull;
    while (q->told == 0) {
        if (clock_mono_us() > until)
            fail_msg("nobody was told");
        pinning_turn(q->p);
    }
    assert_int_equal(q->told, 1);
}

void pinning_waits(struct pinning_request *q, unsigned ms)
{
    for (uint64_t until = clock_mono_us() + ms * 1000ull; clock_mono_us() < until;)
        pinning_turn(q->p);
    assert_int_equal(q->told, 0);
}

void pinning_ends(struct pinning_request *q, enum err code, const char *text)
{
    pinning_wait(q);
    if (q->result.code != code || strstr(q->text, text) == NULL)
        fail_msg("%s: \"%s\", expected %s: \"%s\"", error_name(q->result.code), q->text, error_name(code),
                 text);
}

void pinning_look(const struct pinning_request *q, uint8_t *answers)
{
    resident_look(q->p->r, q->hashes, q->count, answers);
}

void pinning_end(struct pinning_request *q)
{
    block_read_end(q->read);
    q->read = NULL;
}
