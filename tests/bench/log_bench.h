/* SPDX-License-Identifier: MIT */
#ifndef TESTS_BENCH_LOG_BENCH_H
#define TESTS_BENCH_LOG_BENCH_H
/* The parts of bench_log: servers, filters that are logs, requests driven through shard/request in the loop
 * of a process (tests/lib/log_member.h), and the same work on a plain Redis or on one with RedisBloom. */
#include <signal.h>
#include <stdatomic.h>
#include "measure.h"
#include "shard/redis/sync_client.h"
#include "tests/lib/log_member.h"
#include "tests/lib/temp_redis.h"

enum {
    REPLY_MS = 20000,
    KEY_BYTES = 16,
    ROUNDS = 5,
    CONNECTIONS = 50, /* of clients, each with PIPELINE requests under way */
    PIPELINE = 16,
    BATCH = 100, /* keys of a request, where it is one of many keys */
    LATENCIES_MAX = 1 << 20
};
#define ERROR_RATE 1e-3

/* If @code is an error, exit with status 2. */
void must(enum err code, const struct error *e);
void *allocate(size_t bytes);
double thread_cpu(pthread_t thread); /* seconds */

/* --- log_server.c: a server, and what lies on it --- */

struct server {
    struct temp_redis redis;
    struct nodes nodes;
    struct sync_client *link;
    redisContext *context;
};

/* @module: a file that the server loads; NULL: none. */
void server_start(struct server *s, const char *module);
void server_stop(struct server *s);
double server_cpu(struct server *s); /* seconds, of all its threads */
/* INFO commandstats: microseconds of a call since the last CONFIG RESETSTAT; 0: there was no call. */
double server_call_us(struct server *s, const char *command);
void server_ok(struct server *s, const char *command);
long long server_integer(struct server *s, const char *format, ...);

/* Make the empty filter @name for @capacity keys at ERROR_RATE. The filter does not grow. */
struct made {
    struct names names;
    struct geometry geometry;
    uint16_t tag;
    uint64_t generation;
};
void filter_make(struct server *s, const char *name, uint64_t capacity, struct made *out);
/* Set half of the filter's bits, as in a full filter. No process may have opened the filter. */
void filter_fill(struct server *s, const struct made *f);
/* Open a process, and wait until it has the whole filter in memory. @folds: the process folds each second. */
void member_open(struct log_member *m, struct server *s, const struct made *f, bool folds);
/* Open a process, and do not wait until it has the filter in memory. */
void member_begin(struct log_member *m, struct server *s, const struct made *f, bool folds);
bool member_has_loaded(struct log_member *m);
/* Wait until the shards have all that the lanes have. */
void member_wait_folded(struct log_member *m, struct server *s, const struct made *f);

/* --- log_drive.c: requests --- */

/* "k<15 digits>", with the numbers from @first on. */
struct keys {
    uint64_t count;
    char (*text)[KEY_BYTES];
    struct request_key *key;
};
void keys_make(struct keys *k, uint64_t first, uint64_t count);
/* @count keys, by turns from [0, @below) and from [@below, 2 * @below), at random. */
void keys_make_mixed(struct keys *k, uint64_t below, uint64_t count);
void keys_free(struct keys *k);

struct slot;
struct drive {
    struct log_member *member;
    const struct keys *keys; /* @count of them from @first on; the first key follows the last one */
    uint64_t first, count;
    unsigned batch, outstanding; /* keys of a request; the most requests under way */
    unsigned per_second;         /* requests; 0: as many as are answered */
    bool adds;

    /* The results of drive_wait(): */
    double seconds, own, redis;        /* by the clock; processor time of the loop's thread, of the server */
    uint64_t requests, positive, late; /* keys present, or new; requests that found no free slot in time */
    double p50, p99;                   /* us of a request that no stall of the machine touched */
    double stalled;                    /* the share that one did; 0 where @per_second is */

    /* Private: */
    struct server *server;
    struct slot *slot, *free;
    struct event *timer;
    int timer_fd;
    atomic_bool stops, done;
    uint64_t next, under_way, began_us;
    unsigned latencies;
    struct taken {
        uint64_t began; /* monotonic us */
        uint32_t us;
    } * latency;
    struct stalls *stalls;
};
void drive_start(struct drive *d, struct server *s);
/* Wait until all keys were checked or added. */
void drive_wait(struct drive *d);
/* Begin no more requests, and wait for those under way. */
void drive_stop(struct drive *d);
void drive_run(struct drive *d, struct server *s);

/* --- log_raw.c: the same on a server itself --- */

struct raw {
    const char *const *words; /* of a command, before its keys; ended by NULL */
    const char *behind;       /* a word behind each key; NULL: none */
    unsigned per_command, depth, connections;
    double seconds, redis; /* by the clock; processor time of the server */
    double p50, p99;       /* us of a write and all of its replies */
};
/* Send @count of @keys from @first on. */
void raw_run(struct raw *r, struct server *s, const struct keys *keys, uint64_t first, uint64_t count);

/* --- the measurements --- */

struct bench {
    const char *module; /* RedisBloom; NULL: no comparison */
    bool quick;
};
void bench_lookup(const struct bench *b);  /* log_lookup.c */
void bench_traffic(const struct bench *b); /* log_traffic.c: checks, adds, one add alone */
void bench_tails(const struct bench *b);   /* log_tails.c */
void bench_load(const struct bench *b);    /* log_load.c: loading, memory */
void bench_lane(const struct bench *b);    /* log_load.c: memory of a lane in Redis */

/* A figure with its target, and the figures of a plain Redis and of RedisBloom in the same round; 0: not
 * measured. */
struct figure {
    struct samples own, raw, module;
};
void figure_add(struct figure *f, double own, double raw, double module);
void figure_print(const struct figure *f, const char *what, const char *unit, bool at_most, double limit);
#endif
