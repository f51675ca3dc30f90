/* SPDX-License-Identifier: MIT */
#include "tests/integration/filters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/cluster.h"

enum { KEYS_MAX = 4000 };

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
    must(names_init(&f->fence.names, PREFIX, name, strlen(name), &e), e);
    f->fence.names.incarnation = INCARNATION;
    f->fence.tombstone_ms = TOMBSTONE_MS;
    f->fence.link = link_new(&s->nodes, LINK_MS, NULL);
    assert_non_null(f->fence.link);
    names_filter_key(&f->fence.names, "expansion_flag", &flag);
    assert_string_equal(servers_text(s, NODE_HOME, "SET %b " MUTEX, flag.text, flag.length), "OK");
}

void filter_fini(struct filter *f)
{
    link_free(f->fence.link);
    fence_fini(&f->fence);
}

struct generation filter_generation(const struct filter *f, uint64_t number, uint32_t shards,
                                    uint64_t born_epoch)
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
                       .token = TOKEN,
                       .born_epoch = born_epoch};
    nodes_pin(&f->servers->nodes, &g);
    return g;
}

void filter_make(struct filter *f, uint32_t shards)
{
    struct error e = {""};
    uint64_t lost = 99;
    f->view = (struct view){.incarnation = f->fence.names.incarnation,
                            .epoch = 1,
                            .phase = PHASE_STEADY,
                            .last_generation = 2,
                            .sourced = true};
    f->view.slot[0] = filter_generation(f, 2, shards, 1);
    must(fence_create(&f->fence, &f->view.slot[0], 0, &e), e);
    must(fence_publish(&f->fence, &f->view, MUTEX, &e), e);
    must(fence_complete(&f->fence, &f->view, &lost, &e), e);
    assert_int_equal(lost, 0);
}

const struct view *filter_stored(struct filter *f)
{
    static struct view v;
    struct error e = {""};
    must(fence_load(&f->fence, &v, &e), e);
    return &v;
}

void filter_change(struct filter *f, struct view *to, bool fenced)
{
    struct error e = {""};
    uint64_t lost = 0;
    to->epoch = f->view.epoch + 1;
    must(fence_change(&f->fence, &f->view, to, MUTEX, NULL, &e), e);
    f->view = *to;
    if (fenced)
        must(fence_complete(&f->fence, &f->view, &lost, &e), e);
    assert_int_equal(lost, 0);
}

void filter_open(struct filter *f, uint32_t shards, bool fenced)
{
    struct error e = {""};
    struct view to = f->view;
    unsigned slot = 1 - f->view.current;
    to.phase = PHASE_BUILDING;
    to.last_generation++;
    to.slot[slot] = filter_generation(f, to.last_generation, shards, f->view.epoch + 1);
    to.slot[slot].built = false;
    must(fence_create(&f->fence, &to.slot[slot], 0, &e), e);
    filter_change(f, &to, fenced);
}

void filter_cutover(struct filter *f, bool fenced)
{
    struct view to = f->view;
    to.phase = PHASE_SWITCHED;
    to.current = 1 - to.current;
    to.slot[to.current].built = true;
    filter_change(f, &to, fenced);
}

void filter_finish(struct filter *f, bool fenced)
{
    struct view to = f->view;
    to.phase = PHASE_STEADY;
    to.retiring = to.slot[1 - to.current];
    to.retiring_epoch = f->view.epoch;
    to.slot[1 - to.current] = (struct generation){0};
    filter_change(f, &to, fenced);
}

const struct key_name *filter_shard(const struct filter *f, uint64_t generation, uint32_t shard,
                                    uint64_t epoch)
{
    static struct key_name names[4];
    static unsigned next;
    struct key_name *name = &names[next++ % 4];
    names_shard(&f->fence.names, (struct shard_id){.generation = generation, .shard = shard}, epoch, name);
    return name;
}

const struct key_name *filter_new_shard(const struct filter *f, uint64_t generation, uint32_t shard)
{
    static struct key_name names[4];
    static unsigned next;
    struct key_name *name = &names[next++ % 4];
    names_new_shard(&f->fence.names, (struct shard_id){.generation = generation, .shard = shard}, TOKEN,
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
    must(placement_resolve(&p, &f->fence.names, g, &f->servers->nodes, &e), e);
    return placement_where(&p, 0, shard);
}

static bool is_shard(const struct filter *f, const struct generation *g, const redisReply *string)
{
    const struct geometry *geometry = &g->layers[0].geometry;
    uint16_t tag =
        hash_tag(f->fence.names.incarnation, f->fence.names.filter, f->fence.names.filter_length, g->number);
    uint32_t block_bytes = geometry->block_bits / 8;
    if ((size_t)string->len != geometry_shard_bytes(geometry))
        return false;
    for (uint32_t i = 0; i < geometry->blocks; i++) {
        const uint8_t *block = (const uint8_t *)string->str + (size_t)i * block_bytes;
        if ((block[0] << 8 | block[1]) != tag)
            return false;
    }
    return true;
}

const char *filter_kind(const struct filter *f, const struct generation *g, uint32_t shard,
                        const struct key_name *name)
{
    struct servers *s = f->servers;
    unsigned node = filter_node(f, shard);
    const char *type = servers_text(s, node, "TYPE %b", name->text, name->length);
    if (strcmp(type, "list") == 0)
        return servers_integer(s, node, "PTTL %b", name->text, name->length) > 0 ? "tombstone"
                                                                                 : "list for ever";
    if (strcmp(type, "string") != 0)
        return type;
    redisReply *reply = servers_command(s, node, "GET %b", name->text, name->length);
    bool tagged = is_shard(f, g, reply);
    freeReplyObject(reply);
    return tagged ? "shard" : "zombie";
}

void filter_all_are(const struct filter *f, const struct generation *g, uint64_t epoch, const char *kind)
{
    for (uint32_t i = 0; i < g->layers[0].geometry.shards; i++) {
        const struct key_name *name = filter_shard(f, g->number, i, epoch);
        const char *is = filter_kind(f, g, i, name);
        if (strcmp(is, kind) != 0)
            fail_msg("%.*s is %s, expected %s", (int)name->length, name->text, is, kind);
    }
}

/* --- keys --- */

typedef enum err keys_fn(struct fence *f, const struct view *v, const struct generation *g, size_t count,
                         const char *const *keys, const size_t *lengths, uint8_t *found, struct error *e);

static size_t with_keys(struct filter *f, const struct generation *g, keys_fn *fn, unsigned first,
                        unsigned count)
{
    static char text[KEYS_MAX][16];
    static const char *keys[KEYS_MAX];
    static size_t lengths[KEYS_MAX];
    static uint8_t found[KEYS_MAX];
    struct error e = {""};
    size_t sum = 0;
    assert_true(count <= KEYS_MAX);
    for (unsigned i = 0; i < count; i++) {
        lengths[i] = (size_t)snprintf(text[i], sizeof(text[i]), "k%u", first + i);
        keys[i] = text[i];
        found[i] = 2;
    }
    must(fn(&f->fence, &f->view, g, count, keys, lengths, found, &e), e);
    for (unsigned i = 0; i < count; i++) {
        assert_true(found[i] <= 1);
        sum += found[i];
    }
    return sum;
}

size_t filter_add(struct filter *f, const struct generation *g, unsigned first, unsigned count)
{
    return with_keys(f, g, fence_add, first, count);
}

size_t filter_check(struct filter *f, const struct generation *g, unsigned first, unsigned count)
{
    return with_keys(f, g, fence_check, first, count);
}
