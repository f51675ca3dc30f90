/* SPDX-License-Identifier: MIT */
/* An expansion under live traffic, seen by its callers: no acknowledged key is missed at any moment. */
#include "tests/integration/fixture.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"

/* All keys together stay below 0.8 of the capacity, so that only ordered expansions start. */
enum { CAPACITY = 90000, LARGER = 95000, WRITES_MAX = 5000 };
enum { ROWS = 50000, WRITERS = 4, CHECKERS = 2, DAEMONS = 2, ABSENT = 20000, STEADY_MS = 90000 };
#define RATE 0.01
/* The configured rate, and four standard deviations of a sample of this size. */
static const uint64_t false_positives_max = (uint64_t)(ABSENT * RATE) + 56;

static struct fixture fixture;

struct traffic;

struct writer {
    struct traffic *traffic;
    unsigned number;
    _Atomic uint64_t acknowledged; /* codes from first_code() on that are committed */
    struct error error;
    bool failed;
    pthread_t thread;
};

struct checker {
    struct traffic *traffic;
    unsigned number;
    uint64_t checks;
    uint64_t missed;
    uint64_t missed_code;
    struct error error;
    bool failed;
    pthread_t thread;
};

struct traffic {
    atomic_bool stop;
    struct writer writers[WRITERS];
    struct checker checkers[CHECKERS];
};

static uint64_t first_code(unsigned writer)
{
    return 1000000000ull * (writer + 1);
}

static bool sql_in_thread(PGconn *db, const char *sql, struct error *e)
{
    PGresult *r = PQexec(db, sql);
    bool ok = PQresultStatus(r) == PGRES_COMMAND_OK;
    if (!ok)
        (void)error_set(e, ERR_IO, "%s: %s", sql, PQerrorMessage(db));
    PQclear(r);
    return ok;
}

/* Write as callers should: BEGIN, the row, then BF.ADD, then COMMIT. */
static bool write_one(PGconn *db, struct client *c, uint64_t number, struct error *e)
{
    char code[CLIENT_KEY_MAX];
    char sql[200];
    int64_t added;
    (void)fixture_code(number, code);
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO short_link (code, url) VALUES ('%s', 'https://example.org/')", code);
    return sql_in_thread(db, "BEGIN", e) && sql_in_thread(db, sql, e) &&
           client_integer(c, &added, e, "BF.ADD " FILTER " %s", code) == ERR_OK &&
           sql_in_thread(db, "COMMIT", e);
}

static void *run_writer(void *arg)
{
    struct writer *w = arg;
    struct client c = {0};
    PGconn *db = PQconnectdb(fixture.postgres.dsn);
    w->failed = client_open(&c, fixture.daemon[w->number % DAEMONS].port, 20000, &w->error) != ERR_OK;
    while (!w->failed && !atomic_load(&w->traffic->stop)) {
        uint64_t n = atomic_load(&w->acknowledged);
        clock_sleep_us(1000);
        if (n == WRITES_MAX)
            continue;
        w->failed = !write_one(db, &c, first_code(w->number) + n, &w->error);
        if (!w->failed)
            atomic_store(&w->acknowledged, n + 1);
    }
    client_close(&c);
    PQfinish(db);
    return NULL;
}

/* Pick a random code that was acknowledged before this call. The latest ones are picked more often. */
static uint64_t pick(struct traffic *t)
{
    uint64_t r = random_u64();
    unsigned writer = (unsigned)(r % (WRITERS + 1));
    uint64_t n = writer == WRITERS ? ROWS : atomic_load(&t->writers[writer].acknowledged);
    if (writer == WRITERS || n == 0)
        return (r >> 8) % ROWS;
    return first_code(writer) + ((r & 128) != 0 ? n - 1 : (r >> 8) % n);
}

static void *run_checker(void *arg)
{
    struct checker *k = arg;
    struct client c[DAEMONS] = {0};
    for (unsigned i = 0; i < DAEMONS; i++)
        k->failed |= client_open(&c[i], fixture.daemon[i].port, 20000, &k->error) != ERR_OK;
    while (!k->failed && !atomic_load(&k->traffic->stop)) {
        char code[CLIENT_KEY_MAX];
        int64_t present = 0;
        uint64_t number = pick(k->traffic);
        (void)fixture_code(number, code);
        k->failed = client_integer(&c[k->checks % DAEMONS], &present, &k->error, "BF.EXISTS " FILTER " %s",
                                   code) != ERR_OK;
        k->checks++;
        if (!k->failed && present != 1) {
            k->missed++;
            k->missed_code = number;
        }
    }
    for (unsigned i = 0; i < DAEMONS; i++)
        client_close(&c[i]);
    return NULL;
}

static void begin_traffic(struct traffic *t)
{
    *t = (struct traffic){0};
    for (unsigned i = 0; i < WRITERS; i++) {
        t->writers[i].traffic = t;
        t->writers[i].number = i;
        assert_int_equal(pthread_create(&t->writers[i].thread, NULL, run_writer, &t->writers[i]), 0);
    }
    for (unsigned i = 0; i < CHECKERS; i++) {
        t->checkers[i].traffic = t;
        t->checkers[i].number = i;
        assert_int_equal(pthread_create(&t->checkers[i].thread, NULL, run_checker, &t->checkers[i]), 0);
    }
}

/* Join the threads before anything is asserted. */
static void end_traffic(struct traffic *t)
{
    atomic_store(&t->stop, true);
    for (unsigned i = 0; i < WRITERS; i++)
        (void)pthread_join(t->writers[i].thread, NULL);
    for (unsigned i = 0; i < CHECKERS; i++)
        (void)pthread_join(t->checkers[i].thread, NULL);
}

static void judge_traffic(struct traffic *t)
{
    for (unsigned i = 0; i < WRITERS; i++) {
        if (t->writers[i].failed)
            fail_msg("writer %u: %s", i, t->writers[i].error.text);
        assert_true(atomic_load(&t->writers[i].acknowledged) > 0);
    }
    for (unsigned i = 0; i < CHECKERS; i++) {
        const struct checker *k = &t->checkers[i];
        if (k->failed)
            fail_msg("checker %u: %s", i, k->error.text);
        if (k->missed > 0)
            fail_msg("checker %u: %" PRIu64 " of %" PRIu64
                     " acknowledged keys were reported absent, one is c%" PRIu64,
                     i, k->missed, k->checks, k->missed_code);
        assert_true(k->checks > 0);
    }
}

static void everything_written_is_present(struct traffic *t)
{
    for (unsigned d = 0; d < DAEMONS; d++) {
        fixture_all_present(&fixture, d, 0, ROWS);
        for (unsigned i = 0; i < WRITERS; i++)
            fixture_all_present(&fixture, d, first_code(i), atomic_load(&t->writers[i].acknowledged));
    }
}

/* A new key that looks present is not counted, so the count may be a little low. Without memory only one of
 * the coordinators knows the count. */
static void are_counted_once(struct traffic *t)
{
    struct error e = {""};
    int64_t keys = ROWS, most = 0;
    for (unsigned i = 0; i < WRITERS; i++)
        keys += (int64_t)atomic_load(&t->writers[i].acknowledged);
    for (unsigned d = 0; d < DAEMONS; d++) {
        int64_t card = 0;
        must(client_integer(&fixture.client[d], &card, &e, "BF.CARD " FILTER), e);
        most = card > most ? card : most;
    }
    assert_in_range(most, (double)keys * (1 - RATE), keys);
}

static void error_rate_is_within_bound(void)
{
    for (unsigned d = 0; d < DAEMONS; d++) {
        uint64_t wrong = fixture_false_positives(&fixture, d, ABSENT);
        if (wrong > false_positives_max)
            fail_msg("coordinator %u: %" PRIu64 " of %d absent keys are reported present", d, wrong, ABSENT);
    }
}

static void wait_for_generation(int64_t generation)
{
    struct error e = {""};
    for (unsigned d = 0; d < DAEMONS; d++) {
        must(client_wait_status_least(&fixture.client[d], FILTER, "generation", generation, STEADY_MS, &e),
             e);
        must(client_wait_status(&fixture.client[d], FILTER, "phase", "STEADY", STEADY_MS, &e), e);
        must(client_wait_status(&fixture.client[d], FILTER, "job_state", "done", STEADY_MS, &e), e);
    }
}

static void count_name(const char *name, void *count)
{
    (void)name;
    ++*(unsigned *)count;
}

/* Shards of generation @generation on all nodes. */
static unsigned shards_of(int64_t generation)
{
    unsigned total = 0;
    for (unsigned i = 0; i < fixture.nodes; i++) {
        struct error e = {""};
        struct client c;
        char pattern[128];
        (void)snprintf(pattern, sizeof(pattern), "twinbloom:{" FILTER ".%" PRId64 ".*", generation);
        must(client_open(&c, fixture.redis[i].port, 10000, &e), e);
        enum err err = client_scan(&c, pattern, count_name, &total, &e);
        client_close(&c);
        must(err, e);
    }
    return total;
}

static void test_rebuild__loses_no_acknowledged_key_under_live_traffic(void **state)
{
    (void)state;
    static struct traffic t;
    struct error e = {""};
    int64_t before = fixture_generation(&fixture, 0);
    assert_true(shards_of(before) > 0);
    begin_traffic(&t);
    clock_sleep_us(300000);
    enum err err = client_ok(&fixture.client[0], &e, "TB.REBUILD " FILTER " CAPACITY %d ERROR 0.005", LARGER);
    if (err == ERR_OK)
        err = client_wait_status_least(&fixture.client[0], FILTER, "generation", before + 1, STEADY_MS, &e);
    if (err == ERR_OK)
        err = client_wait_status(&fixture.client[0], FILTER, "phase", "STEADY", STEADY_MS, &e);
    clock_sleep_us(300000);
    end_traffic(&t);
    must(err, e);
    wait_for_generation(before + 1);
    judge_traffic(&t);
    everything_written_is_present(&t);
    are_counted_once(&t);
    error_rate_is_within_bound();
    int64_t capacity = 0;
    must(client_status_number(&fixture.client[1], FILTER, "capacity", &capacity, &e), e);
    assert_int_equal(capacity, LARGER);
    must(client_wait_status(&fixture.client[1], FILTER, "error_rate", "0.005", STEADY_MS, &e), e);
    assert_int_equal(shards_of(before), 0);
    assert_true(shards_of(fixture_generation(&fixture, 0)) > 0);
}

static void test_rebuild__is_won_by_exactly_one_of_two_coordinators(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t before = fixture_generation(&fixture, 0);
    redisReply *replies[DAEMONS] = {0};
    for (unsigned d = 0; d < DAEMONS; d++) {
        int done = 0;
        redisContext *redis = fixture.client[d].redis;
        assert_int_equal(redisAppendCommand(redis, "TB.REBUILD " FILTER), REDIS_OK);
        while (done == 0)
            assert_int_equal(redisBufferWrite(redis, &done), REDIS_OK);
    }
    unsigned won = 0;
    unsigned refused = 0;
    for (unsigned d = 0; d < DAEMONS; d++) {
        assert_int_equal(redisGetReply(fixture.client[d].redis, (void **)&replies[d]), REDIS_OK);
        won += replies[d]->type == REDIS_REPLY_STATUS && strcmp(replies[d]->str, "OK") == 0;
        refused += replies[d]->type == REDIS_REPLY_ERROR;
        (void)snprintf(e.text, sizeof(e.text), "%s", replies[d]->str != NULL ? replies[d]->str : "");
        freeReplyObject(replies[d]);
    }
    if (won != 1 || refused != 1)
        fail_msg("%u won and %u were refused; the last reply: %s", won, refused, e.text);
    wait_for_generation(before + 1);
    assert_int_equal(fixture_generation(&fixture, 1), before + 1);
    fixture_all_present(&fixture, 0, 0, ROWS);
}

static void test_abort__leaves_the_old_generation_in_use(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t before = fixture_generation(&fixture, 0);
    must(client_ok(&fixture.client[0], &e, "TB.REBUILD " FILTER), e);
    must(client_wait_status(&fixture.client[1], FILTER, "phase", "BUILDING", STEADY_MS, &e), e);
    must(client_ok(&fixture.client[1], &e, "TB.ABORT " FILTER), e);
    must(client_wait_status(&fixture.client[1], FILTER, "job_state", "aborted", STEADY_MS, &e), e);
    must(client_wait_status(&fixture.client[1], FILTER, "phase", "STEADY", STEADY_MS, &e), e);
    assert_int_equal(fixture_generation(&fixture, 0), before);
    fixture_all_present(&fixture, 0, 0, ROWS);
    fixture_all_present(&fixture, 1, 0, ROWS);
    assert_int_equal(shards_of(before + 1), 0);
}

/* A key is acknowledged before the build begins, but its row is not committed then: the row has an id, and
 * the scan would miss it. */
static void test_settle__holds_the_scan_until_an_open_transaction_has_ended(void **state)
{
    (void)state;
    struct error e = {""};
    char text[512];
    const uint64_t number = UINT64_C(5000000);
    int64_t before = fixture_generation(&fixture, 0);
    fixture_sql(fixture.db, "BEGIN");
    fixture_insert(fixture.db, number, 1);
    must(client_madd(&fixture.client[1], FILTER, fixture_code, number, 1, &e), e);
    must(client_ok(&fixture.client[0], &e, "TB.REBUILD " FILTER), e);
    must(client_wait_status(&fixture.client[1], FILTER, "job_step", "settle", STEADY_MS, &e), e);
    clock_sleep_us(1200000); /* twice the time in which a driver reports what it waits for */
    must(client_status(&fixture.client[1], FILTER, "job_step", text, sizeof(text), &e), e);
    assert_string_equal(text, "settle");
    must(client_status(&fixture.client[1], FILTER, "job_waiting_for", text, sizeof(text), &e), e);
    char pid[32];
    (void)snprintf(pid, sizeof(pid), "pid %d", PQbackendPID(fixture.db));
    assert_non_null(strstr(text, pid));
    fixture_sql(fixture.db, "COMMIT");
    wait_for_generation(before + 1);
    for (unsigned d = 0; d < DAEMONS; d++)
        fixture_all_present(&fixture, d, number, 1);
}

/* Imitate a driver that was killed before the view changed, or after everything was done. */
static void expect_ended(const char *step, const char *end)
{
    struct error e = {""};
    struct client redis = {0};
    must(client_open(&redis, fixture.redis[0].port, STEADY_MS, &e), e);
    redisReply *r = client_command(&redis, "HSET twinbloom:{" FILTER "}:job state running step %s", step);
    assert_non_null(r);
    assert_int_not_equal(r->type, REDIS_REPLY_ERROR);
    freeReplyObject(r);
    client_close(&redis);
    must(client_wait_status(&fixture.client[0], FILTER, "job_state", end, STEADY_MS, &e), e);
}

static void test_record__of_a_driver_that_died_is_ended_by_another(void **state)
{
    (void)state;
    int64_t before = fixture_generation(&fixture, 0);
    expect_ended("plan", "failed");
    expect_ended("finish", "done");
    assert_int_equal(fixture_generation(&fixture, 0), before);
}

static int setup(void **state)
{
    (void)state;
    /* Small pages make the scan long enough to be seen. */
    return fixture_start(&fixture,
                         &(struct fixture_options){.nodes = 2,
                                                   .daemons = DAEMONS,
                                                   .postgres = true,
                                                   .rows = ROWS,
                                                   .capacity = CAPACITY,
                                                   .rate = "0.01",
                                                   .expansion = "lease = 2s\nrows_per_second = 20000\n"});
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rebuild__loses_no_acknowledged_key_under_live_traffic),
        cmocka_unit_test(test_rebuild__is_won_by_exactly_one_of_two_coordinators),
        cmocka_unit_test(test_abort__leaves_the_old_generation_in_use),
        cmocka_unit_test(test_settle__holds_the_scan_until_an_open_transaction_has_ended),
        cmocka_unit_test(test_record__of_a_driver_that_died_is_ended_by_another),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
