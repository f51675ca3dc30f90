/* SPDX-License-Identifier: MIT */
#include "tests/fault/pair.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

enum { RUN_MS = 30000, REORDER_MS = 3000 };

/* --- keys --- */

void pair_create(struct pair *p, unsigned coordinator, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        p->flips = !p->flips;
        (void)creator_create(&p->creators[coordinator], p->ledger,
                             p->flips ? LEDGER_ADD_THEN_COMMIT : LEDGER_COMMIT_THEN_ADD, 0);
    }
}

void pair_forget_old_rows(struct pair *p)
{
    uint64_t end = ledger_end(p->ledger);
    if (end <= PAIR_ROWS)
        return;
    ledger_forget_below(p->ledger, end - PAIR_ROWS);
    (void)world_sql(&p->world, "DELETE FROM " WORLD_TABLE " WHERE substr(code, 2)::bigint < %" PRIu64,
                    end - PAIR_ROWS);
}

enum err pair_check(struct pair *p, unsigned coordinator, struct error *e)
{
    struct client c;
    enum err err = client_open(&c, p->world.daemon[coordinator].port, WORLD_REPLY_MS, e);
    if (err != ERR_OK)
        return err;
    if (!ledger_check_all(p->ledger, &c, coordinator))
        err = error_set(e, ERR_IO, "coordinator %u does not answer checks", coordinator);
    client_close(&c);
    if (err == ERR_OK && ledger_absent(p->ledger) > 0)
        err = error_set(e, ERR_LOST, "%" PRIu64 " acknowledged keys were reported absent",
                        ledger_absent(p->ledger));
    if (err == ERR_OK && !world_discerns(&p->world, coordinator))
        err = error_set(e, ERR_CONFLICT, "coordinator %u reports keys that were never added", coordinator);
    return err;
}

/* --- expansions --- */

static uint64_t last_generation(struct pair *p)
{
    struct client c;
    struct error e = {""};
    uint64_t n = 0;
    if (client_open(&c, p->world.redis[0].port, WORLD_REPLY_MS, &e) != ERR_OK)
        return 0;
    redisReply *r = client_command(&c, "HGET " WORLD_VIEW " last_generation");
    if (r != NULL && r->type == REDIS_REPLY_STRING)
        n = strtoull(r->str, NULL, 10);
    freeReplyObject(r);
    client_close(&c);
    return n;
}

enum err pair_expand(struct pair *p, uint64_t n, enum proxy_moment moment, bool *held, struct error *e)
{
    char text[WORLD_STATUS_MAX];
    uint64_t before = last_generation(p), began = clock_mono_us(), ordered = 0;
    proxy_count(p->world.proxy, world_user(A), n, moment);
    for (;;) {
        uint64_t now = clock_mono_us();
        *held = proxy_is_held(p->world.proxy);
        if (*held || (last_generation(p) > before && world_is_at_rest(&p->world, text)))
            return ERR_OK;
        if (now - began > RUN_MS * 1000ull)
            return error_set(e, ERR_TIMEOUT, "the expansion neither ended nor came to its request: %.300s",
                             text);
        if (ordered == 0 || now - ordered > REORDER_MS * 1000ull) {
            world_order_rebuild(&p->world, A);
            ordered = now;
        }
        clock_sleep_us(2000);
    }
}

/* --- begin and end --- */

enum err pair_start(struct pair *p, const struct world_options *w, unsigned rest_ms, const char *as_job,
                    const struct fault_options *o, struct error *e)
{
    p->state = o->seed;
    p->began = clock_mono_us();
    p->ledger = ledger_new(UINT64_C(1) << 20);
    enum err err = world_start(&p->world, w, e);
    if (err != ERR_OK)
        return err;
    if (as_job != NULL)
        proxy_count_as_job(p->world.proxy, as_job);
    for (unsigned i = 0; i < 2; i++)
        creator_init(&p->creators[i], &p->world, i);
    err = world_heal(&p->world, rest_ms, NULL, e);
    pair_create(p, A, PAIR_ROWS / 2);
    pair_create(p, B, PAIR_ROWS / 2);
    return err == ERR_OK ? world_rebuild(&p->world, B, rest_ms, e) : err;
}

int pair_end(struct pair *p, enum err err, const struct error *e)
{
    if (err != ERR_OK) {
        (void)fprintf(stderr, "FAILED: %s\n", e->text);
        for (unsigned i = 0; i < 2; i++)
            process_show_log(&p->world.daemon[i].process, "coordinator");
    }
    (void)printf("%" PRIu64 " keys acknowledged, %" PRIu64 " checks, %" PRIu64 " absent, %.0f s\n",
                 ledger_acknowledged(p->ledger), ledger_checked(p->ledger), ledger_absent(p->ledger),
                 (double)(clock_mono_us() - p->began) / 1e6);
    for (unsigned i = 0; i < 2; i++)
        creator_fini(&p->creators[i]);
    bool clean = world_stop(&p->world);
    ledger_free(p->ledger);
    return err == ERR_OK && clean ? 0 : 1;
}
