/* SPDX-License-Identifier: MIT */
#include "tests/integration/filters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/redis/nodes/cluster.h"

static int start_cluster(struct servers *s)
{
    struct error e = {""};
    static struct nodes seeds;
    enum err err = temp_cluster_start(&s->cluster, CLUSTER_MASTERS, 0, 0, &e);
    if (err == ERR_OK)
        err = cluster_parse_seeds(&seeds, s->cluster.seeds, &e);
    if (err == ERR_OK && (s->nodes.cluster = cluster_new(&seeds)) != NULL)
        return 0;
    print_error("%s\n", e.text);
    return -1;
}

int servers_start(struct servers *s, unsigned count)
{
    struct error e = {""};
    char list[SERVERS_MAX * 66] = "";
    *s = (struct servers){.count = count};
    if (getenv("TWINBLOOM_TEST_CLUSTER") != NULL) {
        s->count = 0;
        return start_cluster(s);
    }
    for (unsigned i = 0; i < count; i++) {
        if (temp_redis_start(&s->redis[i], NULL, &e) != ERR_OK ||
            client_open(&s->client[i], s->redis[i].port, 5000, &e) != ERR_OK) {
            print_error("%s\n", e.text);
            return -1;
        }
        size_t n = strlen(list);
        (void)snprintf(list + n, sizeof(list) - n, "%s%s", i == 0 ? "" : ",", s->redis[i].url);
    }
    return nodes_parse(&s->nodes, list, &e) == ERR_OK ? 0 : -1;
}

int servers_stop(struct servers *s)
{
    for (unsigned i = 0; i < s->count; i++) {
        client_close(&s->client[i]);
        temp_redis_fini(&s->redis[i]);
    }
    temp_cluster_fini(&s->cluster);
    cluster_free(s->nodes.cluster);
    s->nodes.cluster = NULL;
    return 0;
}

struct client *servers_each(struct servers *s, unsigned i)
{
    if (s->cluster.masters > 0)
        return i < s->cluster.masters ? &s->cluster.client[i] : NULL;
    return i < s->count ? &s->client[i] : NULL;
}

void servers_flush(struct servers *s)
{
    struct error e = {""};
    struct client *c;
    for (unsigned i = 0; (c = servers_each(s, i)) != NULL; i++)
        must(client_ok(c, &e, "FLUSHALL"), e);
}

static redisReply *run(struct servers *s, unsigned node, const char *format, va_list ap)
{
    struct client *c = s->cluster.masters > 0 ? s->cluster.client : &s->client[node];
    redisReply *reply = NULL;
    bool moved = true;
    for (unsigned i = 0; moved && i < (s->cluster.masters > 0 ? s->cluster.masters : 1); i++) {
        va_list again;
        va_copy(again, ap);
        freeReplyObject(reply);
        reply = redisvCommand(c[i].redis, format, again);
        va_end(again);
        if (reply == NULL)
            fail_msg("%s: %s", format, c[i].redis->errstr);
        moved = reply != NULL && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "MOVED ", 6) == 0;
    }
    return reply;
}

redisReply *servers_command(struct servers *s, unsigned node, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    redisReply *reply = run(s, node, format, ap);
    va_end(ap);
    return reply;
}

long long servers_integer(struct servers *s, unsigned node, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    redisReply *reply = run(s, node, format, ap);
    va_end(ap);
    if (reply->type != REDIS_REPLY_INTEGER)
        fail_msg("%s: %s", format, reply->str != NULL ? reply->str : "not an integer");
    long long n = reply->integer;
    freeReplyObject(reply);
    return n;
}

const char *servers_text(struct servers *s, unsigned node, const char *format, ...)
{
    static char texts[4][512];
    static unsigned next;
    char *text = texts[next++ % 4];
    va_list ap;
    va_start(ap, format);
    redisReply *reply = run(s, node, format, ap);
    va_end(ap);
    if (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_STATUS &&
        reply->type != REDIS_REPLY_NIL)
        fail_msg("%s: %s", format, reply->str != NULL ? reply->str : "not a string");
    (void)snprintf(text, sizeof(texts[0]), "%s", reply->str != NULL ? reply->str : "");
    freeReplyObject(reply);
    return text;
}

/* --- filters --- */

void filter_init(struct filter *f, struct servers *s, const char *name)
{
    struct error e = {""};
    struct key_name flag;
    memset(f, 0, sizeof(*f));
    f->servers = s;
    must(names_init(&f->handle.names, PREFIX, name, strlen(name), &e), e);
    f->handle.names.incarnation = INCARNATION;
    f->handle.redis = sync_client_new(&s->nodes, SYNC_CLIENT_MS, NULL);
    assert_non_null(f->handle.redis);
    names_filter_key(&f->handle.names, "expansion_flag", &flag);
    assert_string_equal(servers_text(s, NODE_HOME, "SET %b " MUTEX, flag.text, flag.length), "OK");
}

void filter_fini(struct filter *f)
{
    sync_client_free(f->handle.redis);
    handle_fini(&f->handle);
}

struct generation filter_generation(const struct filter *f, uint64_t number, uint32_t shards)
{
    struct generation g = {.number = number,
                           .seed = 0x5eed + number,
                           .built = true,
                           .capacity = 1000ull * shards,
                           .error_rate = 0.001,
                           .layer_count = 1};
    g.layers[0] =
        (struct layer){.geometry = {.shards = shards, .blocks = 16, .block_bits = 1024, .hashes = 10},
                       .capacity = 1000ull * shards,
                       .error_rate = 0.001,
                       .token = TOKEN};
    nodes_pin(&f->servers->nodes, &g);
    return g;
}

const struct view *filter_stored(struct filter *f)
{
    static struct view v;
    struct error e = {""};
    must(handle_load(&f->handle, &v, &e), e);
    return &v;
}

const struct key_name *filter_new_shard(const struct filter *f, uint64_t generation, uint32_t shard)
{
    static struct key_name names[4];
    static unsigned next;
    struct key_name *name = &names[next++ % 4];
    names_new_shard(&f->handle.names, (struct shard_id){.generation = generation, .shard = shard}, TOKEN,
                    name);
    return name;
}

unsigned filter_node(const struct filter *f, uint32_t shard)
{
    return f->servers->count == 0 ? 0 : shard % f->servers->count;
}

unsigned filter_where(const struct filter *f, const struct generation *g, uint32_t shard)
{
    struct error e = {""};
    struct placement p;
    must(placement_resolve(&p, &f->handle.names, g, &f->servers->nodes, &e), e);
    return placement_where(&p, 0, shard);
}
