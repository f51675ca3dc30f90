/* SPDX-License-Identifier: MIT */
#include "tests/integration/loads.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include "shard/filter/block.h"
#include "shard/redis/nodes/cluster.h"
#include "shard/redis/sync_client.h"
#include "shard/redis/wire/replication.h"

const struct geometry loads_g = {.shards = 6, .blocks = 1700, .block_bits = 1024, .hashes = 9};
static const struct writer_token loads_writer = {.number = 7, .random = 8};

struct loads loads;

struct key_hash loads_hash(uint64_t key)
{
    return hash_key(5, &key, sizeof(key));
}

static int begin(void)
{
    struct error e = {""};
    static struct generation generation;
    if (names_init(&loads.names, "test", "f", 1, &e) != ERR_OK)
        return -1;
    loads.names.incarnation = 0xabcdef;
    generation = (struct generation){.number = GENERATION};
    nodes_pin(&loads.nodes, &generation);
    enum err code = placement_resolve(&loads.placement, &loads.names, &generation, &loads.nodes, &e);
    loads.link = sync_client_new(&loads.nodes, SYNC_CLIENT_MS, "test");
    return code == ERR_OK && loads.link != NULL ? 0 : -1;
}

static void end(void)
{
    sync_client_free(loads.link);
}

int loads_start(void **state)
{
    struct error e = {""};
    char list[256];
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < NODES; i++)
        if (temp_redis_start(&loads.redis[i], NULL, &e) != ERR_OK) {
            print_error("%s\n", e.text);
            return -1;
        }
    (void)snprintf(list, sizeof(list), "%s, %s", loads.redis[0].url, loads.redis[1].url);
    return nodes_parse(&loads.nodes, list, &e) == ERR_OK ? begin() : -1;
}

int loads_stop(void **state)
{
    (void)state;
    end();
    for (int i = 0; i < NODES; i++)
        temp_redis_fini(&loads.redis[i]);
    return 0;
}

int loads_start_cluster(void **state)
{
    struct error e = {""};
    (void)state;
    memset(&loads, 0, sizeof(loads));
    if (temp_cluster_start(&loads.cluster, 3, 3, 0, &e) != ERR_OK ||
        cluster_parse_seeds(&loads.seeds, loads.cluster.seeds, &e) != ERR_OK) {
        print_error("%s\n", e.text);
        return -1;
    }
    loads.nodes.cluster = cluster_new(&loads.seeds);
    return loads.nodes.cluster == NULL ? -1 : begin();
}

int loads_stop_cluster(void **state)
{
    (void)state;
    end();
    cluster_free(loads.nodes.cluster);
    temp_cluster_fini(&loads.cluster);
    return 0;
}

void loads_command(unsigned where, const char *what, const struct key_name *name, const void *bytes,
                   size_t length)
{
    struct error e = {""};
    redisReply *reply = NULL;
    if (sync_client_command(loads.link, where, &reply, &e, what, name->text, name->length, bytes, length) !=
        ERR_OK)
        fail_msg("%s", e.text);
    freeReplyObject(reply);
}

struct key_name loads_name(uint32_t shard)
{
    struct key_name name;
    names_log_shard(&loads.names, (struct shard_id){.generation = GENERATION, .shard = shard}, &name);
    return name;
}

struct header loads_header(uint32_t shard)
{
    return (struct header){.tag = TAG,
                           .incarnation = loads.names.incarnation,
                           .generation = GENERATION,
                           .writer = loads_writer,
                           .shard = shard,
                           .blocks = loads_g.blocks,
                           .block_bits = (uint16_t)loads_g.block_bits,
                           .hashes = (uint16_t)loads_g.hashes};
}

void loads_write_shard(uint32_t shard, const struct header *h, size_t cut)
{
    size_t length = header_shard_bytes(&loads_g);
    uint8_t *bytes = malloc(length);
    struct key_name name = loads_name(shard);
    assert_non_null(bytes);
    header_encode(h, bytes);
    memcpy(bytes + header_bytes(&loads_g), loads.shards + (size_t)shard * geometry_shard_bytes(&loads_g),
           geometry_shard_bytes(&loads_g));
    loads_command(placement_where(&loads.placement, 0, shard), "SET %b %b", &name, bytes, length - cut);
    free(bytes);
}

/* --- eras --- */

/* Accept the replication ids that the masters have now. */
static void accept_eras(void)
{
    struct error e = {""};
    struct replications found = {0};
    if (sync_client_replications(loads.link, NULL, &found, &e) != ERR_OK)
        fail_msg("%s", e.text);
    loads.eras = (struct trusted){0};
    for (unsigned i = 0; i < found.count; i++) {
        assert_true(found.one[i].id != 0);
        loads.eras.id[loads.eras.count++] = found.one[i].id;
    }
    replications_fini(&found);
}

void loads_first_node_does(const char *what)
{
    struct error e = {""};
    struct client c;
    if (client_open(&c, loads.redis[0].port, SYNC_CLIENT_MS, &e) != ERR_OK)
        fail_msg("%s", e.text);
    redisReply *reply = client_command(&c, what); /* NOLINT(clang-diagnostic-format-security) */
    assert_true(reply != NULL && reply->type != REDIS_REPLY_ERROR);
    freeReplyObject(reply);
    client_close(&c);
}

static void on_failed(void *arg, uint32_t shard, enum err code, const char *why)
{
    (void)arg;
    if (loads.changes && loads.failures == 0)
        loads_first_node_does("DEBUG CHANGE-REPL-ID");
    loads.failures++;
    loads.failed_shard = shard;
    loads.fenced += code == ERR_FENCED;
    loads.code = code;
    (void)snprintf(loads.why, sizeof(loads.why), "%s", why);
}

void loads_prepare(void)
{
    loads.failures = 0;
    loads.fenced = 0;
    loads.changes = false;
    loads.code = ERR_OK;
    loads.why[0] = '\0';
    loads.applied = 0;
    accept_eras();
    budget_init(&loads.budget, 1 << 30);
    assert_int_equal(resident_new(&loads.r, MIX, 1, &loads.budget, NULL), ERR_OK);
    assert_int_equal(resident_add_layer(loads.r, &loads_g, TAG, NULL), ERR_OK);
    loads.shards = calloc(loads_g.shards, geometry_shard_bytes(&loads_g));
    assert_non_null(loads.shards);
    for (uint32_t s = 0; s < loads_g.shards; s++)
        block_fill(&loads_g, TAG, loads.shards + (size_t)s * geometry_shard_bytes(&loads_g));
    for (uint64_t key = 0; key < KEYS; key++) {
        struct key_place p;
        hash_place(&loads_g, hash_mix(loads_hash(key), MIX), &p);
        (void)block_set(&loads_g, &p, loads.shards + (size_t)p.shard * geometry_shard_bytes(&loads_g));
    }
    for (uint32_t s = 0; s < loads_g.shards; s++) {
        struct header h = loads_header(s);
        loads_write_shard(s, &h, 0);
    }
}

void loads_finish(void)
{
    resident_free(loads.r);
    assert_int_equal(loads.budget.used, 0);
    free(loads.shards);
}

uint32_t loads_all(void)
{
    loads.load = (struct load){.resident = loads.r,
                               .names = &loads.names,
                               .placement = &loads.placement,
                               .generation = GENERATION,
                               .writer = loads_writer,
                               .eras = &loads.eras,
                               .count = loads_g.shards,
                               .failed = on_failed};
    assert_int_equal(load_begin(&loads.load, NULL), ERR_OK);
    load_and_wait(&loads.load, loads.link);
    return load_end(&loads.load);
}

uint8_t loads_look(uint64_t key)
{
    struct key_hash h = loads_hash(key);
    uint8_t answer;
    resident_look(loads.r, &h, 1, &answer);
    return answer;
}

uint32_t loads_shard_of(uint64_t key)
{
    struct key_place p;
    hash_place(&loads_g, hash_mix(loads_hash(key), MIX), &p);
    return p.shard;
}

/* --- what happens while pieces are asked for --- */

static unsigned asked, at_piece;
static void (*does)(uint64_t *connection);

void loads_at_piece(unsigned piece, void (*what)(uint64_t *connection))
{
    asked = 0;
    at_piece = piece;
    does = what;
}

enum err __real_sync_client_append_together(struct sync_client *l, unsigned where,
                                            struct slot_redirect *redirect, unsigned count,
                                            const char *commands, const size_t *ends, uint64_t *connection,
                                            struct error *e);
enum err __wrap_sync_client_append_together(struct sync_client *l, unsigned where,
                                            struct slot_redirect *redirect, unsigned count,
                                            const char *commands, const size_t *ends, uint64_t *connection,
                                            struct error *e);

enum err __wrap_sync_client_append_together(struct sync_client *l, unsigned where,
                                            struct slot_redirect *redirect, unsigned count,
                                            const char *commands, const size_t *ends, uint64_t *connection,
                                            struct error *e)
{
    enum err code =
        __real_sync_client_append_together(l, where, redirect, count, commands, ends, connection, e);
    if (++asked == at_piece)
        does(connection);
    return code;
}
