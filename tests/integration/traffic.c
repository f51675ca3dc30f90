/* SPDX-License-Identifier: MIT */
#include "tests/integration/traffic.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"

enum { REPLY_MS = 20000, PAUSE_US = 2000 };

uint64_t traffic_code(unsigned writer)
{
    return UINT64_C(1000000000) * (writer + 1);
}

static bool insert(PGconn *db, uint64_t first, struct error *e)
{
    char sql[256];
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO short_link (code, url) SELECT 'c' || n, 'u' "
                   "FROM generate_series(%" PRIu64 "::bigint, %" PRIu64 "::bigint) n ON CONFLICT DO NOTHING",
                   first, first + TRAFFIC_BATCH - 1);
    PGresult *r = PQexec(db, sql);
    bool ok = PQresultStatus(r) == PGRES_COMMAND_OK;
    if (!ok)
        (void)error_set(e, ERR_IO, "%s: %s", sql, PQerrorMessage(db));
    PQclear(r);
    return ok;
}

static void note(uint64_t *failures, struct error *first, const struct error *e)
{
    if ((*failures)++ == 0)
        *first = *e;
}

static void note_time(uint64_t *longest, uint64_t began)
{
    uint64_t took = clock_mono_us() - began;
    *longest = took > *longest ? took : *longest;
}

static void *run_writer(void *arg)
{
    struct traffic_writer *w = arg;
    struct traffic *t = w->traffic;
    const struct fixture *f = t->fixture;
    struct client c = {0};
    struct error e = {""};
    PGconn *db = PQconnectdb(f->postgres.dsn);
    if (client_open(&c, f->daemon[w->number % f->daemons].port, REPLY_MS, &e) != ERR_OK)
        note(&w->failures, &w->error, &e);
    while (c.redis != NULL && !atomic_load(&t->stop)) {
        uint64_t n = atomic_load(&w->acknowledged), first = traffic_code(w->number) + t->from + n;
        clock_sleep_us(PAUSE_US);
        if (atomic_load(&t->quiet))
            continue;
        if (n >= t->most) /* write existing codes again */
            first -= TRAFFIC_BATCH * (1 + random_u64() % (n / TRAFFIC_BATCH));
        bool inserted = insert(db, first, &e);
        uint64_t began = clock_mono_us();
        if (inserted && client_madd(&c, FILTER, fixture_code, first, TRAFFIC_BATCH, &e) == ERR_OK)
            atomic_store(&w->acknowledged, n < t->most ? n + TRAFFIC_BATCH : n);
        else
            note(&w->failures, &w->error, &e);
        note_time(&w->longest_us, began);
    }
    client_close(&c);
    PQfinish(db);
    return NULL;
}

/* Pick a random code that was acknowledged before this call. The latest ones are picked more often. */
static uint64_t pick(struct traffic *t)
{
    uint64_t r = random_u64();
    unsigned writer = (unsigned)(r % (TRAFFIC_WRITERS + 1));
    uint64_t n = writer == TRAFFIC_WRITERS ? 0 : atomic_load(&t->writers[writer].acknowledged);
    if (n == 0)
        return (r >> 8) % t->rows;
    return traffic_code(writer) + t->from + ((r & 128) != 0 ? n - 1 : (r >> 8) % n);
}

static void *run_checker(void *arg)
{
    struct traffic_checker *k = arg;
    struct traffic *t = k->traffic;
    const struct fixture *f = t->fixture;
    struct client c = {0};
    struct error e = {""};
    if (client_open(&c, f->daemon[(k->number + 1) % f->daemons].port, REPLY_MS, &e) != ERR_OK)
        note(&k->failures, &k->error, &e);
    while (c.redis != NULL && !atomic_load(&t->stop)) {
        char code[CLIENT_KEY_MAX];
        int64_t present = 0;
        uint64_t number = pick(t), began = clock_mono_us();
        (void)fixture_code(number, code);
        enum err err = client_integer(&c, &present, &e, "BF.EXISTS " FILTER " %s", code);
        note_time(&k->longest_us, began);
        if (err != ERR_OK) {
            note(&k->failures, &k->error, &e);
            continue;
        }
        atomic_fetch_add(&k->checks, 1);
        if (present != 1) {
            k->missed++;
            k->missed_code = number;
        }
    }
    client_close(&c);
    return NULL;
}

void traffic_begin(struct traffic *t, struct fixture *f, uint64_t rows, uint64_t most)
{
    traffic_begin_from(t, f, rows, most, 0);
}

void traffic_begin_from(struct traffic *t, struct fixture *f, uint64_t rows, uint64_t most, uint64_t from)
{
    *t = (struct traffic){.fixture = f, .rows = rows, .most = most, .from = from};
    for (unsigned i = 0; i < TRAFFIC_WRITERS; i++) {
        t->writers[i].traffic = t;
        t->writers[i].number = i;
        assert_int_equal(pthread_create(&t->writers[i].thread, NULL, run_writer, &t->writers[i]), 0);
    }
    for (unsigned i = 0; i < TRAFFIC_CHECKERS; i++) {
        t->checkers[i].traffic = t;
        t->checkers[i].number = i;
        assert_int_equal(pthread_create(&t->checkers[i].thread, NULL, run_checker, &t->checkers[i]), 0);
    }
}

void traffic_end(struct traffic *t)
{
    atomic_store(&t->stop, true);
    for (unsigned i = 0; i < TRAFFIC_WRITERS; i++)
        (void)pthread_join(t->writers[i].thread, NULL);
    for (unsigned i = 0; i < TRAFFIC_CHECKERS; i++)
        (void)pthread_join(t->checkers[i].thread, NULL);
}

void traffic_judge(struct traffic *t, bool errors)
{
    for (unsigned i = 0; i < TRAFFIC_WRITERS; i++) {
        const struct traffic_writer *w = &t->writers[i];
        print_message("writer %u: %" PRIu64 " codes, %" PRIu64 " failures, longest %" PRIu64 " ms\n", i,
                      atomic_load(&w->acknowledged), w->failures, w->longest_us / 1000);
        if (w->failures > 0 && !errors)
            fail_msg("writer %u: %s", i, w->error.text);
        assert_true(atomic_load(&w->acknowledged) > 0);
    }
    for (unsigned i = 0; i < TRAFFIC_CHECKERS; i++) {
        const struct traffic_checker *k = &t->checkers[i];
        uint64_t checks = atomic_load(&t->checkers[i].checks);
        print_message("checker %u: %" PRIu64 " checks, %" PRIu64 " failures, longest %" PRIu64 " ms\n", i,
                      checks, k->failures, k->longest_us / 1000);
        if (k->failures > 0 && !errors)
            fail_msg("checker %u: %s", i, k->error.text);
        if (k->missed > 0)
            fail_msg("checker %u: %" PRIu64 " of %" PRIu64
                     " acknowledged codes were reported absent, one is c%" PRIu64,
                     i, k->missed, checks, k->missed_code);
        assert_true(checks > 0);
    }
    for (unsigned d = 0; d < t->fixture->daemons; d++) {
        fixture_all_present(t->fixture, d, 0, t->rows);
        for (unsigned i = 0; i < TRAFFIC_WRITERS; i++)
            fixture_all_present(t->fixture, d, traffic_code(i) + t->from,
                                atomic_load(&t->writers[i].acknowledged));
    }
}
