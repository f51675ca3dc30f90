/* SPDX-License-Identifier: MIT */
/* A process loads a filter of 1 GiB beside requests to another one: the speed, and the memory that the filter
 * takes. The memory that a lane takes in Redis beside steady adds. */
#include "log_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/clock.h"

enum {
    SMALL = 100000,  /* keys */
    REQUESTS = 5000, /* a second, beside the load */
    ALONE_US = 2000000,
    PIECE = 64 << 10, /* of a plain load */
    WINDOW = 8,
    ADDS_SECOND = 10000,
    LANE_SECONDS = 45,
    MIB = 1 << 20,
    WARM_SLICE = 16 * MIB,
    WARM_FIRST = 128 * MIB,
    WARM_RATE = 400 /* bytes a microsecond */
};

/* --- loading --- */

struct load {
    struct server server;
    struct made large, small;
    struct log_member member; /* of the small filter */
    struct keys absent;
};

static double megabytes(const struct load *l)
{
    return (double)geometry_bytes(&l->large.geometry) / 1e6;
}

/* Read all shards by GETRANGE over one connection, with WINDOW commands under way. Return MB a second. */
static double load_plain(struct load *l)
{
    redisContext *c = l->server.context;
    uint32_t bytes = geometry_shard_bytes(&l->large.geometry);
    unsigned under_way = 0;
    redisReply *r;
    uint64_t began = clock_mono_us();
    for (uint32_t s = 0; s < l->large.geometry.shards; s++) {
        struct key_name key;
        names_log_shard(&l->large.names, (struct shard_id){.generation = l->large.generation, .shard = s},
                        &key);
        for (uint32_t at = 0; at < bytes; at += PIECE) {
            if (under_way == WINDOW) {
                if (redisGetReply(c, (void **)&r) != REDIS_OK)
                    must(ERR_UNREACHABLE, &(struct error){"Redis is away"});
                freeReplyObject(r);
                under_way--;
            }
            (void)redisAppendCommand(c, "GETRANGE %b %u %u", key.text, key.length, at, at + PIECE - 1);
            under_way++;
        }
    }
    for (; under_way > 0; under_way--) {
        if (redisGetReply(c, (void **)&r) != REDIS_OK)
            must(ERR_UNREACHABLE, &(struct error){"Redis is away"});
        freeReplyObject(r);
    }
    return megabytes(l) / ((double)(clock_mono_us() - began) / 1e6);
}

static struct drive requests(struct load *l)
{
    return (struct drive){.member = &l->member,
                          .keys = &l->absent,
                          .count = UINT64_MAX,
                          .batch = 1,
                          .outstanding = 1000,
                          .per_second = REQUESTS};
}

static struct drive alone(struct load *l)
{
    struct drive d = requests(l);
    drive_start(&d, &l->server);
    clock_sleep_us(ALONE_US);
    drive_stop(&d);
    return d;
}

/* A virtual machine gets memory that it has not used for seconds more slowly than Redis can send data. So the
 * round takes it first, and releases it in step with the load. */
struct warm {
    uint8_t *at;
    uint64_t bytes, released, began_us;
};

static void warm_take(struct warm *w, uint64_t bytes)
{
    *w = (struct warm){.bytes = bytes};
    w->at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (w->at == MAP_FAILED)
        must(ERR_NOMEM, &(struct error){"out of memory"});
    (void)madvise(w->at, bytes, MADV_HUGEPAGE);
    for (uint64_t i = 0; i < bytes; i += 4096)
        w->at[i] = 1;
    w->began_us = clock_mono_us();
}

/* What a load takes until now that is somewhat faster than the one that is measured. */
static uint64_t warm_due(const struct warm *w)
{
    return (clock_mono_us() - w->began_us) * WARM_RATE + WARM_FIRST;
}

static void warm_release(struct warm *w, uint64_t due)
{
    for (; w->released < w->bytes && w->released < due; w->released += WARM_SLICE) {
        uint64_t left = w->bytes - w->released;
        (void)munmap(w->at + w->released, left < WARM_SLICE ? left : WARM_SLICE);
    }
}

struct loading {
    struct figure speed;
    struct samples alone, beside, ratio, stalled_alone, stalled, resident, over, redis, piece;
};

static void load_round(struct load *l, struct loading *f)
{
    struct drive before_it = alone(l), d = requests(l);
    struct log_member m;
    double plain = load_plain(l);
    uint64_t before = measure_memory(getpid(), "VmRSS"), bytes = geometry_bytes(&l->large.geometry);
    struct warm w;
    server_ok(&l->server, "CONFIG RESETSTAT");
    double redis = server_cpu(&l->server);
    warm_take(&w, bytes + bytes / 8);
    drive_start(&d, &l->server);
    uint64_t began = clock_mono_us();
    member_begin(&m, &l->server, &l->large, false);
    while (!member_has_loaded(&m)) {
        warm_release(&w, warm_due(&w));
        clock_sleep_us(1000);
    }
    double seconds = (double)(clock_mono_us() - began) / 1e6;
    drive_stop(&d);
    redis = server_cpu(&l->server) - redis;
    warm_release(&w, UINT64_MAX);
    uint64_t grown = measure_memory(getpid(), "VmRSS") - before;
    log_member_close(&m);
    figure_add(&f->speed, megabytes(l) / seconds, plain, 0);
    samples_add(&f->alone, before_it.p99);
    samples_add(&f->beside, d.p99);
    samples_add(&f->ratio, d.p99 / before_it.p99);
    samples_add(&f->stalled_alone, 100 * before_it.stalled);
    samples_add(&f->stalled, 100 * d.stalled);
    samples_add(&f->resident, (double)grown / (double)bytes);
    samples_add(&f->over, ((double)grown - 1.02 * (double)bytes) / MIB);
    samples_add(&f->redis, megabytes(l) / redis);
    samples_add(&f->piece, server_call_us(&l->server, "getrange"));
}

void bench_load(const struct bench *b)
{
    static struct load l;
    struct loading f = {0};
    char title[128];
    server_start(&l.server, NULL);
    filter_make(&l.server, "small", SMALL, &l.small);
    filter_make(&l.server, "large", b->quick ? 50000000 : 560000000, &l.large);
    filter_fill(&l.server, &l.large);
    keys_make(&l.absent, 0, SMALL);
    member_open(&l.member, &l.server, &l.small, true);
    (void)snprintf(title, sizeof(title), "Loading %.0f MiB in %u shards, beside %d checks a second",
                   (double)geometry_bytes(&l.large.geometry) / MIB, l.large.geometry.shards, REQUESTS);
    table_heading(title, "");
    for (int round = 0; round < ROUNDS; round++)
        load_round(&l, &f);
    figure_print(&f.speed, "loading", "MB/s", false, 300);
    table_target("p99 of the requests, of that alone", samples_median(&f.ratio), "times", true, 2);
    table_beside("p99 alone", samples_median(&f.alone), "us");
    table_beside("p99 beside the load", samples_median(&f.beside), "us");
    table_beside("left out: touched by a stall of the machine, alone", samples_median(&f.stalled_alone), "%");
    table_beside("left out beside the load", samples_median(&f.stalled), "%");
    table_beside("a second of Redis' processor, requests included", samples_median(&f.redis), "MB");
    table_beside("a GETRANGE of a piece", samples_median(&f.piece), "us");
    table_target("memory beyond 1.02 times the shards", samples_median(&f.over), "MiB", true, 1);
    table_beside("memory / shards", samples_median(&f.resident), "times");
    log_member_close(&l.member);
    keys_free(&l.absent);
    server_stop(&l.server);
}

/* --- a lane --- */

void bench_lane(const struct bench *b)
{
    static struct server s;
    struct made f;
    struct log_member m;
    struct keys keys;
    uint64_t seconds = b->quick ? 10 : LANE_SECONDS;
    double most = 0;
    server_start(&s, NULL);
    filter_make(&s, "f", 4000000, &f);
    member_open(&m, &s, &f, true);
    keys_make(&keys, 0, seconds * ADDS_SECOND);
    struct drive d = {.member = &m,
                      .keys = &keys,
                      .count = keys.count,
                      .batch = 1,
                      .outstanding = 1000,
                      .per_second = ADDS_SECOND,
                      .adds = true};
    table_heading("A lane in Redis", "");
    drive_start(&d, &s);
    while (!atomic_load(&d.done)) {
        double bytes =
            (double)server_integer(&s, "EVAL %s 0",
                                   "local n = 0 for _, k in ipairs(redis.call('KEYS', '*.log*')) do "
                                   "n = n + redis.call('MEMORY', 'USAGE', k, 'SAMPLES', 0) end return n");
        most = bytes > most ? bytes : most;
        clock_sleep_us(250000);
    }
    drive_wait(&d);
    table_target("at most, beside 10,000 adds a second, folded each second", most / MIB, "MiB", true, 16);
    table_beside("requests a second", (double)d.requests / d.seconds, "");
    table_beside("processor of Redis, all of it", 100 * d.redis / d.seconds, "%");
    log_member_close(&m);
    keys_free(&keys);
    server_stop(&s);
}
