/* SPDX-License-Identifier: MIT */
/* What a look-up costs the process: requests of 100 keys, half of which are present, by key_check(): hash,
 * look, tail read, look again. */
#include "log_bench.h"

#include <stdio.h>

enum { KNOWN_MAX = 2000000, LOOKUPS = 2000000, LOOKUPS_ALONE = 500000 };

static void fill_module(struct server *m, const struct keys *known, uint64_t capacity)
{
    struct raw add = {.words = (const char *const[]){"BF.MADD", "f", NULL},
                      .per_command = BATCH,
                      .depth = PIPELINE,
                      .connections = 1};
    (void)server_integer(m, "DEL f");
    (void)server_integer(m, "BF.RESERVE f %s %llu NONSCALING", "0.001", (unsigned long long)capacity);
    raw_run(&add, m, known, 0, known->count);
}

/* Return the module's processor time for a key, in us. */
static double look_in_module(struct server *m, const struct keys *asked, uint64_t count)
{
    struct raw look = {.words = (const char *const[]){"BF.MEXISTS", "f", NULL},
                       .per_command = BATCH,
                       .depth = 1,
                       .connections = CONNECTIONS};
    raw_run(&look, m, asked, 0, count);
    return look.redis * 1e6 / (double)count;
}

static double look(struct log_member *m, struct server *s, const struct keys *asked, uint64_t count,
                   unsigned outstanding)
{
    struct drive d = {.member = m, .keys = asked, .count = count, .batch = BATCH, .outstanding = outstanding};
    drive_run(&d, s);
    if (d.positive < count / 2)
        must(ERR_LOST, &(struct error){"a key that was added is absent"});
    return d.own * 1e9 / (double)count;
}

static void measure(struct server *s, struct server *module, uint64_t capacity, double limit)
{
    struct keys known, asked;
    struct made f;
    struct log_member m;
    struct figure together = {0}, alone = {0};
    struct samples in_module = {0};
    char what[128];
    uint64_t count = capacity < KNOWN_MAX ? capacity : KNOWN_MAX;
    keys_make(&known, 0, count);
    keys_make_mixed(&asked, count, LOOKUPS);
    server_ok(s, "FLUSHALL");
    filter_make(s, "f", capacity, &f);
    if (count < capacity)
        filter_fill(s, &f);
    if (module != NULL)
        fill_module(module, &known, capacity);
    member_open(&m, s, &f, true);
    struct drive add = {
        .member = &m, .keys = &known, .count = count, .batch = BATCH, .outstanding = 50, .adds = true};
    drive_run(&add, s);
    member_wait_folded(&m, s, &f);
    for (int round = 0; round < ROUNDS; round++) {
        figure_add(&together, look(&m, s, &asked, LOOKUPS, CONNECTIONS), 0, 0);
        figure_add(&alone, look(&m, s, &asked, LOOKUPS_ALONE, 1), 0, 0);
        if (module != NULL)
            samples_add(&in_module, look_in_module(module, &asked, LOOKUPS_ALONE));
    }
    (void)snprintf(what, sizeof(what), "a look-up of %.0f M keys, 50 requests of 100 keys under way",
                   (double)capacity / 1e6);
    figure_print(&together, what, "ns/key", true, limit);
    table_beside("the same, one request of 100 keys at a time", samples_median(&alone.own), "ns/key");
    if (module != NULL)
        table_beside("RedisBloom: processor of Redis, BF.MEXISTS of 100", 1000 * samples_median(&in_module),
                     "ns/key");
    log_member_close(&m);
    keys_free(&known);
    keys_free(&asked);
}

void bench_lookup(const struct bench *b)
{
    struct server s, module;
    server_start(&s, NULL);
    if (b->module != NULL)
        server_start(&module, b->module);
    table_heading("Look-ups in memory: processor of the worker, hash and tail read included", "");
    measure(&s, b->module == NULL ? NULL : &module, b->quick ? 10000000 : 100000000, 100);
    measure(&s, b->module == NULL ? NULL : &module, 1000000, 60);
    if (b->module != NULL)
        server_stop(&module);
    server_stop(&s);
}
