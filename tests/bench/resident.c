/* SPDX-License-Identifier: MIT */
/* What shards in memory cost: processor time of look-ups and of applied entries, with the hash of the key;
 * memory; how fast shards come from Redis. Also what the parts of a look-up cost. Exit status 1 if a target
 * is missed. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/info.h"
#include "bench.h"
#include "shard/filter/block.h"
#include "shard/resident/load.h"
#include "tests/lib/temp_redis.h"

enum { BATCH = 100, KEY_BYTES = 16, PROBES = 4000000, ROUNDS = 5, TAG = 0xbee5, LOAD_MS = 10000 };
static const uint64_t seed = 0xfeedfacecafebeef, mix = 0x0123456789abcdef;
static const double rate = 1e-3;

static void must(enum err code, const struct error *e)
{
    if (code == ERR_OK)
        return;
    (void)fprintf(stderr, "%s: %s\n", error_name(code), e->text);
    exit(2);
}

static double processor_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *allocate(size_t bytes)
{
    void *at = malloc(bytes);
    if (at == NULL)
        must(ERR_NOMEM, &(struct error){"out of memory"});
    return at;
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *state >> 20;
}

static void write_key(char *out, uint64_t key)
{
    char text[KEY_BYTES + 1];
    (void)snprintf(text, sizeof(text), "k%015" PRIu64, key);
    memcpy(out, text, KEY_BYTES);
}

/* --- one filter in memory --- */

struct filter {
    uint64_t applied; /* keys */
    struct geometry g;
    struct budget budget;
    struct resident *r;
};

/* Fill a shard with the random bits of a full filter, half of which are set, and set its tags. */
static void fill_at_random(const struct geometry *g, uint64_t *random, uint8_t *bytes)
{
    size_t block_bytes = g->block_bits / 8;
    for (size_t i = 0; i < geometry_shard_bytes(g); i++)
        bytes[i] = (uint8_t)next_random(random);
    for (size_t at = 0; at < geometry_shard_bytes(g); at += block_bytes) {
        bytes[at] = TAG >> 8;
        bytes[at + 1] = TAG & 0xff;
    }
}

/* Make a filter for @keys keys. A large one begins with random bits, because adding so many keys would take
 * minutes. */
static void filter_make(struct filter *f, uint64_t keys)
{
    struct error e = {""};
    f->applied = keys < PROBES / 2 ? keys : PROBES / 2;
    budget_init(&f->budget, UINT64_MAX);
    must(geometry_plan(&f->g, keys, rate, SHARD_BYTES_DEFAULT, &e), &e);
    must(resident_new(&f->r, mix, 1, &f->budget, &e), &e);
    must(resident_add_layer(f->r, &f->g, TAG, &e), &e);
    must(resident_load_begin(f->r, 0, 0, f->g.shards, &e), &e);
    uint8_t *bytes = allocate(geometry_shard_bytes(&f->g));
    uint64_t random = keys;
    block_fill(&f->g, TAG, bytes);
    for (uint32_t s = 0; s < f->g.shards; s++) {
        if (f->applied < keys)
            fill_at_random(&f->g, &random, bytes);
        must(resident_load_piece(f->r, 0, s, 0, bytes, geometry_shard_bytes(&f->g), &e), &e);
        must(resident_load_end(f->r, 0, s, &e), &e);
    }
    free(bytes);
}

/* Apply the filter's keys. Return ns of processor time for a key, without its hash, which comes in the
 * entry. */
static double filter_fill(struct filter *f)
{
    uint8_t added[LOG_KEYS_MAX];
    struct error e = {""};
    double spent = 0;
    char key[KEY_BYTES];
    enum { ENTRIES = 64 };
    static struct key_hash many[ENTRIES][LOG_KEYS_MAX];
    for (uint64_t at = 0; at < f->applied;) {
        unsigned n = 0;
        for (; n < ENTRIES && at < f->applied; n++)
            for (unsigned i = 0; i < LOG_KEYS_MAX; i++, at++) {
                write_key(key, at);
                many[n][i] = hash_key(seed, key, sizeof(key));
            }
        double begun = processor_ns();
        for (unsigned i = 0; i < n; i++)
            must(resident_apply(f->r, 0, (struct log_id){at, i}, many[i], LOG_KEYS_MAX, added, &e), &e);
        spent += processor_ns() - begun;
    }
    return spent / (double)f->applied;
}

enum part { HASH, PLACE, LOOK, PARTS };

/* Look up PROBES keys in batches; half of the keys are in the filter. Return ns of processor time for a
 * key. */
static double look(const struct filter *f, const char *keys, enum part part)
{
    struct key_hash hashes[BATCH];
    uint8_t answers[BATCH];
    struct key_place place;
    uint64_t sum = 0;
    double begun = processor_ns();
    for (size_t at = 0; at < PROBES; at += BATCH) {
        for (unsigned i = 0; i < BATCH; i++)
            hashes[i] = hash_key(seed, keys + (at + i) * KEY_BYTES, KEY_BYTES);
        if (part == LOOK)
            resident_look(f->r, hashes, BATCH, answers);
        for (unsigned i = 0; part == PLACE && i < BATCH; i++) {
            hash_place(&f->g, hash_mix(hashes[i], mix), &place);
            sum += place.block + place.bits[0];
        }
        sum += hashes[0].low + answers[part == LOOK ? 1 : 0] * (part == LOOK);
    }
    double spent = processor_ns() - begun;
    if (sum == 1)
        (void)printf("\n"); /* the compiler may not leave the work out */
    return spent / PROBES;
}

static void measure(uint64_t count, double limit)
{
    static const char *const names[PARTS] = {"hash", "hash, mix and place", "look-up, hash included"};
    struct filter f;
    struct samples samples[PARTS] = {0};
    char title[160], what[96];
    uint64_t before = measure_memory(getpid(), "VmRSS"), random = count;
    filter_make(&f, count);
    double apply = filter_fill(&f);
    uint64_t memory = measure_memory(getpid(), "VmRSS") - before;
    char *keys = allocate((size_t)PROBES * KEY_BYTES);
    for (size_t i = 0; i < PROBES; i++)
        write_key(keys + i * KEY_BYTES, next_random(&random) % (2 * f.applied));
    for (int round = 0; round < ROUNDS; round++)
        for (enum part p = 0; p < PARTS; p++)
            samples_add(&samples[p], look(&f, keys, p));
    (void)snprintf(title, sizeof(title),
                   "%" PRIu64 " keys at %g: %u shards, %u blocks of %u bits, %u hashes, %.1f MiB", count,
                   rate, f.g.shards, f.g.blocks, f.g.block_bits, f.g.hashes,
                   (double)geometry_bytes(&f.g) / (1 << 20));
    table_heading(title, "");
    for (enum part p = 0; p < LOOK; p++)
        (void)printf("          %-66s %9.2f ns\n", names[p], samples_median(&samples[p]));
    (void)printf("          %-66s %9.2f ns\n", "apply, in entries of 128 keys, hash not included", apply);
    (void)snprintf(what, sizeof(what), "%s, in batches of %d", names[LOOK], BATCH);
    table_target(what, samples_median(&samples[LOOK]), "ns/key", true, limit);
    double beside = (double)memory - 1.02 * (double)geometry_bytes(&f.g);
    table_target("memory beyond 1.02 times the bytes of the shards", beside / (1 << 20), "MiB", true, 1);
    free(keys);
    resident_free(f.r);
}

/* --- loading --- */

struct server {
    struct temp_redis redis;
    struct nodes nodes;
    struct names names;
    struct placement placement;
    struct trusted eras;
    struct sync_client *link;
};

static void on_failed(void *arg, uint32_t shard, enum err code, const char *why)
{
    (void)arg;
    (void)fprintf(stderr, "shard %u: %s: %s\n", shard, error_name(code), why);
    exit(2);
}

static void server_start(struct server *s)
{
    struct error e = {""};
    struct generation *generation = allocate(sizeof(*generation));
    memset(generation, 0, sizeof(*generation));
    must(temp_redis_start(&s->redis, NULL, &e), &e);
    must(nodes_parse(&s->nodes, s->redis.url, &e), &e);
    must(names_init(&s->names, "bench", "f", 1, &e), &e);
    nodes_pin(&s->nodes, generation);
    must(placement_resolve(&s->placement, &s->names, generation, &s->nodes, &e), &e);
    free(generation);
    s->link = sync_client_new(&s->nodes, LOAD_MS, "bench");
}

static void server_fill(struct server *s, const struct geometry *g)
{
    struct error e = {""};
    size_t length = header_shard_bytes(g);
    uint8_t *bytes = allocate(length);
    uint64_t random = 1;
    fill_at_random(g, &random, bytes + header_bytes(g));
    for (uint32_t shard = 0; shard < g->shards; shard++) {
        const struct header h = {.tag = TAG,
                                 .generation = 1,
                                 .shard = shard,
                                 .blocks = g->blocks,
                                 .block_bits = (uint16_t)g->block_bits,
                                 .hashes = (uint16_t)g->hashes};
        struct key_name name;
        redisReply *reply = NULL;
        header_encode(&h, bytes);
        names_log_shard(&s->names, (struct shard_id){.generation = 1, .shard = shard}, &name);
        must(sync_client_command(s->link, 0, &reply, &e, "SET %b %b", name.text, name.length, bytes, length),
             &e);
        freeReplyObject(reply);
    }
    free(bytes);
}

/* Trust the replication id of the server's node, which the loads check. */
static void server_trust(struct server *s)
{
    struct error e = {""};
    redisReply *reply = NULL;
    must(sync_client_command(s->link, 0, &reply, &e, "INFO replication"), &e);
    s->eras = (struct trusted){.count = 1};
    s->eras.id[0] = info_id(reply->str, reply->len, "master_replid");
    freeReplyObject(reply);
}

struct loaded {
    double speed;      /* MB/s by the clock */
    double own, redis; /* MB a second of processor time, of this thread and of the server */
};

static double redis_cpu(struct server *s)
{
    struct error e = {""};
    double seconds = 0;
    redisContext *redis = redisConnect("127.0.0.1", s->redis.port);
    if (redis == NULL || redis->err != 0)
        must(ERR_UNREACHABLE, &(struct error){"Redis is away"});
    must(measure_redis_cpu(redis, &seconds, &e), &e);
    redisFree(redis);
    return seconds;
}

static struct loaded load(struct server *s, const struct geometry *g)
{
    struct error e = {""};
    struct budget budget;
    struct resident *r = NULL;
    budget_init(&budget, UINT64_MAX);
    must(resident_new(&r, mix, 1, &budget, &e), &e);
    must(resident_add_layer(r, g, TAG, &e), &e);
    struct load l = {.resident = r,
                     .names = &s->names,
                     .placement = &s->placement,
                     .generation = 1,
                     .count = g->shards,
                     .eras = &s->eras,
                     .failed = on_failed};
    double redis = redis_cpu(s);
    uint64_t begun = clock_mono_us();
    double processor = processor_ns();
    must(load_begin(&l, &e), &e);
    load_and_wait(&l, s->link);
    if (load_end(&l) != g->shards)
        must(ERR_LOST, &(struct error){"not all shards were loaded"});
    double megabytes = (double)geometry_bytes(g) / 1e6;
    struct loaded loaded = {.speed = megabytes / ((double)(clock_mono_us() - begun) / 1e6),
                            .own = megabytes / ((processor_ns() - processor) / 1e9),
                            .redis = megabytes / (redis_cpu(s) - redis)};
    resident_free(r);
    return loaded;
}

static void measure_load(uint64_t bytes)
{
    static struct server s;
    struct geometry g;
    struct error e = {""};
    struct samples speed = {0}, own = {0}, redis = {0};
    char title[96];
    must(geometry_plan(&g, (uint64_t)((double)bytes * 8 / 15.3), rate, SHARD_BYTES_DEFAULT, &e), &e);
    server_start(&s);
    server_fill(&s, &g);
    server_trust(&s);
    for (int round = 0; round < ROUNDS; round++) {
        struct loaded one = load(&s, &g);
        samples_add(&speed, one.speed);
        samples_add(&own, one.own);
        samples_add(&redis, one.redis);
    }
    (void)snprintf(title, sizeof(title), "Loading %.0f MiB in %u shards from one Redis",
                   (double)geometry_bytes(&g) / (1 << 20), g.shards);
    table_heading(title, "");
    table_target("by a job", samples_median(&speed), "MB/s", false, 300);
    (void)printf("          a second of processor loads %9.2f MB here, %.2f MB in Redis\n",
                 samples_median(&own), samples_median(&redis));
    sync_client_free(s.link);
    temp_redis_fini(&s.redis);
}

int main(int argc, char **argv)
{
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)signal(SIGPIPE, SIG_IGN);
    measure(1000000, 60);
    measure(quick ? 10000000 : 100000000, 100);
    measure_load(quick ? 64 << 20 : 1 << 30);
    return table_missed() > 0;
}
