/* SPDX-License-Identifier: MIT */
#include "failover_load.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/random.h"
#include "tests/lib/client.h"

enum {
    REPLY_MS = 30000,
    WRITER_PAUSE_US = 4000,
    CHECKER_PAUSE_US = 2000,
    FAILED_PAUSE_US = 5000,
    RECENT = 2000
};

static uint64_t code_from(unsigned writer)
{
    return UINT64_C(1000000000) * (writer + 1);
}

static size_t code_text(uint64_t number, char out[CLIENT_KEY_MAX])
{
    return (size_t)snprintf(out, CLIENT_KEY_MAX, "c%" PRIu64, number);
}

static void note_failure(struct caller *c, const char *why)
{
    if (atomic_fetch_add(&c->failed, 1) == 0)
        (void)snprintf(c->why, sizeof(c->why), "%s", why);
}

/* Send one command of BATCH codes. True: all were answered. *@absent: how many of the answers are 0. */
static bool ask(struct caller *c, struct client *client, const char *command, const uint64_t *numbers,
                uint64_t *absent)
{
    char text[BATCH][CLIENT_KEY_MAX];
    const char *argv[2 + BATCH] = {command, c->load->filter};
    size_t lengths[2 + BATCH] = {strlen(command), strlen(c->load->filter)};
    for (unsigned i = 0; i < BATCH; i++) {
        lengths[2 + i] = code_text(numbers[i], text[i]);
        argv[2 + i] = text[i];
    }
    uint64_t began = clock_mono_us();
    redisReply *r = client_argv(client, 2 + BATCH, argv, lengths);
    uint64_t ended = clock_mono_us();
    const char *why = r == NULL ? "no reply" : r->type != REDIS_REPLY_ARRAY ? r->str : NULL;
    *absent = 0;
    for (size_t i = 0; why == NULL && i < r->elements; i++) {
        *absent += r->element[i]->type == REDIS_REPLY_INTEGER && r->element[i]->integer == 0;
        if (r->element[i]->type != REDIS_REPLY_INTEGER)
            why = r->element[i]->str;
    }
    bool ok = why == NULL;
    if (!ok)
        note_failure(c, why);
    if (!ok || ended - began > SLOW_REPLY_US)
        atomic_store(&c->last_bad_us, ended);
    freeReplyObject(r);
    return ok;
}

static bool run(PGconn *db, const char *sql)
{
    PGresult *r = PQexec(db, sql);
    bool ok = PQresultStatus(r) == PGRES_COMMAND_OK;
    PQclear(r);
    return ok;
}

static bool insert(PGconn *db, uint64_t first)
{
    char sql[200];
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO short_link (code) SELECT 'c' || n FROM generate_series(%" PRIu64
                   "::bigint, %" PRIu64 "::bigint) n",
                   first, first + BATCH - 1);
    return run(db, sql);
}

/* The first writer adds before it commits, the other one after. A batch that is not acknowledged is written
 * again. */
static bool write_batch(struct caller *w, PGconn *db, struct client *client)
{
    uint64_t numbers[BATCH], ignored, first = code_from(w->number) + atomic_load(&w->keys);
    bool before = w->number == 0;
    for (unsigned i = 0; i < BATCH; i++)
        numbers[i] = first + i;
    if ((before && !run(db, "BEGIN")) || !insert(db, first))
        return false;
    bool added = ask(w, client, "BF.MADD", numbers, &ignored);
    return (!before || run(db, "COMMIT")) && added;
}

static void *run_writer(void *arg)
{
    struct caller *w = arg;
    struct client client = {0};
    struct error e = {""};
    PGconn *db = PQconnectdb(w->load->dsn);
    enum err code = client_open(&client, w->load->port[w->number % 2], REPLY_MS, &e);
    if (code != ERR_OK || PQstatus(db) != CONNECTION_OK)
        note_failure(w, code != ERR_OK ? e.text : PQerrorMessage(db));
    while (!atomic_load(&w->load->stop)) {
        bool ok = write_batch(w, db, &client);
        if (ok)
            atomic_fetch_add(&w->keys, BATCH);
        clock_sleep_us(ok ? WRITER_PAUSE_US : FAILED_PAUSE_US);
    }
    client_close(&client);
    PQfinish(db);
    return NULL;
}

/* Return a code's number. Every second code was acknowledged a moment ago. */
static uint64_t pick(struct failover_load *l)
{
    uint64_t r = random_u64();
    unsigned writer = (unsigned)(r % WRITERS);
    uint64_t n = atomic_load(&l->writer[writer].keys);
    if ((r & 64) != 0 || n == 0)
        return (r >> 8) % l->rows;
    uint64_t recent = n < RECENT ? n : RECENT;
    return code_from(writer) + n - 1 - (r >> 8) % recent;
}

static void *run_checker(void *arg)
{
    struct caller *k = arg;
    struct client client = {0};
    struct error e = {""};
    if (client_open(&client, k->load->port[k->number % 2], REPLY_MS, &e) != ERR_OK)
        note_failure(k, e.text);
    while (!atomic_load(&k->load->stop)) {
        uint64_t numbers[BATCH], absent;
        for (unsigned i = 0; i < BATCH; i++)
            numbers[i] = pick(k->load);
        bool ok = ask(k, &client, "BF.MEXISTS", numbers, &absent);
        atomic_fetch_add(&k->absent, absent);
        atomic_fetch_add(&k->keys, ok ? BATCH : 0);
        clock_sleep_us(ok ? CHECKER_PAUSE_US : FAILED_PAUSE_US);
    }
    client_close(&client);
    return NULL;
}

static enum err start(struct failover_load *l, struct caller *c, unsigned number, void *(*fn)(void *),
                      struct error *e)
{
    c->load = l;
    c->number = number;
    c->started = pthread_create(&c->thread, NULL, fn, c) == 0;
    return c->started ? ERR_OK : error_set(e, ERR_NOMEM, "a thread cannot be started");
}

enum err failover_load_start(struct failover_load *l, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned i = 0; i < WRITERS && code == ERR_OK; i++)
        code = start(l, &l->writer[i], i, run_writer, e);
    for (unsigned i = 0; i < CHECKERS && code == ERR_OK; i++)
        code = start(l, &l->checker[i], i, run_checker, e);
    return code;
}

static void join(struct caller *c)
{
    if (c->started)
        (void)pthread_join(c->thread, NULL);
    c->started = false;
}

void failover_load_stop(struct failover_load *l)
{
    atomic_store(&l->stop, true);
    for (unsigned i = 0; i < WRITERS; i++)
        join(&l->writer[i]);
    for (unsigned i = 0; i < CHECKERS; i++)
        join(&l->checker[i]);
}

static void sum_up(struct caller *c, struct failover_sum *s)
{
    uint64_t bad = atomic_load(&c->last_bad_us);
    s->failed += atomic_load(&c->failed);
    s->absent += atomic_load(&c->absent);
    s->last_bad_us = bad > s->last_bad_us ? bad : s->last_bad_us;
}

struct failover_sum failover_load_sum(struct failover_load *l)
{
    struct failover_sum s = {0};
    for (unsigned i = 0; i < WRITERS; i++) {
        sum_up(&l->writer[i], &s);
        s.acknowledged += atomic_load(&l->writer[i].keys);
    }
    for (unsigned i = 0; i < CHECKERS; i++) {
        sum_up(&l->checker[i], &s);
        s.checked += atomic_load(&l->checker[i].keys);
    }
    return s;
}

const char *failover_load_why(const struct failover_load *l)
{
    for (unsigned i = 0; i < CHECKERS; i++)
        if (l->checker[i].why[0] != '\0')
            return l->checker[i].why;
    return l->writer[0].why[0] != '\0' ? l->writer[0].why : l->writer[1].why;
}

enum err failover_load_verify(struct failover_load *l, unsigned d, uint64_t step, uint64_t *absent,
                              uint64_t *asked, struct error *e)
{
    struct client client = {0};
    uint64_t present = 0, parts = l->rows / step / 1000;
    enum err code = client_open(&client, l->port[d], REPLY_MS, e);
    *absent = *asked = 0;
    for (unsigned i = 0; i < WRITERS && code == ERR_OK; i++) {
        uint64_t count = atomic_load(&l->writer[i].keys);
        code = client_mexists(&client, l->filter, code_text, code_from(i), count, &present, NULL, e);
        *absent += count - present;
        *asked += count;
    }
    for (uint64_t i = 0; i < parts && code == ERR_OK; i++) {
        code = client_mexists(&client, l->filter, code_text, i * step * 1000, 1000, &present, NULL, e);
        *absent += 1000 - present;
        *asked += 1000;
    }
    client_close(&client);
    return code;
}
