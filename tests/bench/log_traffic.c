/* SPDX-License-Identifier: MIT */
/* What checks and adds cost Redis, folding included, and how long one add takes. For comparison: a set of a
 * plain Redis, and RedisBloom. */
#include "log_bench.h"

#include <stdio.h>
#include "base/clock.h"

enum { CAPACITY = 4000000, CHECKS = 800000, ADDS = 600000, ADDS_ALONE = 4000 };

struct traffic {
    struct server own, plain, module;
    bool has_module;
    struct made filter;
    struct log_member member;
    struct keys keys;
    uint64_t added, added_elsewhere; /* of the keys */
};

static void start(struct traffic *t, const struct bench *b)
{
    t->has_module = b->module != NULL;
    server_start(&t->own, NULL);
    server_start(&t->plain, NULL);
    keys_make(&t->keys, 0, CAPACITY);
    filter_make(&t->own, "f", CAPACITY, &t->filter);
    member_open(&t->member, &t->own, &t->filter, true);
    if (!t->has_module)
        return;
    server_start(&t->module, b->module);
    (void)server_integer(&t->module, "BF.RESERVE f %s %d NONSCALING", "0.001", CAPACITY);
}

static void stop(struct traffic *t)
{
    log_member_close(&t->member);
    keys_free(&t->keys);
    server_stop(&t->own);
    server_stop(&t->plain);
    if (t->has_module)
        server_stop(&t->module);
}

/* Return the server's processor time for a key, in us. */
static double raw(struct traffic *t, bool module, const char *const *words, unsigned per_command,
                  unsigned depth, uint64_t first, uint64_t count)
{
    struct raw r = {.words = words, .per_command = per_command, .depth = depth, .connections = CONNECTIONS};
    if (module && !t->has_module)
        return 0;
    raw_run(&r, module ? &t->module : &t->plain, &t->keys, first, count);
    return r.redis * 1e6 / (double)count;
}

/* --- adds --- */

/* Add keys, and wait until the shards have all of them. Return the server's processor time for a key, in
 * us. */
static double add(struct traffic *t, unsigned outstanding, uint64_t count)
{
    struct drive d = {.member = &t->member,
                      .keys = &t->keys,
                      .first = t->added,
                      .count = count,
                      .batch = BATCH,
                      .outstanding = outstanding,
                      .adds = true};
    double before = server_cpu(&t->own);
    drive_run(&d, &t->own);
    member_wait_folded(&t->member, &t->own, &t->filter);
    t->added += count;
    if (d.positive < count - count / 100)
        must(ERR_LOST, &(struct error){"new keys are not new"});
    return (server_cpu(&t->own) - before) * 1e6 / (double)count;
}

static void adds(struct traffic *t)
{
    struct figure f = {0}, alone = {0};
    uint64_t few = ADDS / 10;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t first = t->added;
        double own = add(t, CONNECTIONS, ADDS);
        double plain = raw(t, false, (const char *const[]){"SADD", "f", NULL}, BATCH, 1, first, ADDS);
        double module = raw(t, true, (const char *const[]){"BF.MADD", "f", NULL}, BATCH, 1, first, ADDS);
        figure_add(&f, own, plain, module);
        figure_add(&alone, add(t, 1, few), 0, 0);
    }
    figure_print(&f, "an add, 50 requests of 100 keys under way, folded", "us/key", true, 0.5);
    table_beside("the same, one request of 100 keys at a time", samples_median(&alone.own), "us/key");
}

/* --- checks --- */

/* Half of the checked keys are present: keys that were added, and as many that were not, by turns. */
static void checks(struct traffic *t)
{
    struct figure f = {0};
    struct keys asked;
    double own[ROUNDS];
    keys_make_mixed(&asked, t->added, CHECKS);
    for (int round = 0; round < ROUNDS; round++) {
        struct drive d = {.member = &t->member,
                          .keys = &asked,
                          .count = CHECKS,
                          .batch = 1,
                          .outstanding = CONNECTIONS * PIPELINE};
        drive_run(&d, &t->own);
        own[round] = d.redis * 1e6 / CHECKS;
        struct keys kept = t->keys;
        t->keys = asked;
        double plain = raw(t, false, (const char *const[]){"SISMEMBER", "f", NULL}, 1, PIPELINE, 0, CHECKS);
        double module = raw(t, true, (const char *const[]){"BF.EXISTS", "f", NULL}, 1, PIPELINE, 0, CHECKS);
        t->keys = kept;
        figure_add(&f, own[round], plain, module);
    }
    figure_print(&f, "a check, 16 in a pipeline over 50 connections", "us/key", true, 0.1);
    keys_free(&asked);
}

/* --- one add alone --- */

static double raw_alone(struct traffic *t, bool module, const char *word, uint64_t first)
{
    struct raw r = {
        .words = (const char *const[]){word, "f", NULL}, .per_command = 1, .depth = 1, .connections = 1};
    if (module && !t->has_module)
        return 0;
    raw_run(&r, module ? &t->module : &t->plain, &t->keys, first, ADDS_ALONE);
    return r.p50;
}

static void one_add(struct traffic *t)
{
    struct figure f = {0};
    struct samples ratio = {0}, plain = {0};
    for (int round = 0; round < ROUNDS; round++) {
        struct drive d = {.member = &t->member,
                          .keys = &t->keys,
                          .first = t->added,
                          .count = ADDS_ALONE,
                          .batch = 1,
                          .outstanding = 1,
                          .adds = true};
        drive_run(&d, &t->own);
        double sadd = raw_alone(t, false, "SADD", t->added);
        figure_add(&f, d.p50, sadd, raw_alone(t, true, "BF.ADD", t->added));
        samples_add(&plain, sadd);
        samples_add(&ratio, d.p50 / sadd);
        t->added += ADDS_ALONE;
    }
    table_target("one add alone, of a plain SADD", samples_median(&ratio), "times", false, 0);
    table_beside("a plain SADD", samples_median(&plain), "us");
    figure_print(&f, "one add alone", "us", false, 0);
}

void bench_traffic(const struct bench *b)
{
    static struct traffic t;
    start(&t, b);
    table_heading("Processor of Redis; a filter of 4 M keys at 0.001, one lane", "");
    adds(&t);
    checks(&t);
    table_heading("Latency, one request at a time (median)", "");
    one_add(&t);
    stop(&t);
}
