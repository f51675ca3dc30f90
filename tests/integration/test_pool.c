/* SPDX-License-Identifier: MIT */
/* Sources that share connections, while the dsn leads to one server and then to another. */
#include "migrate/source/pool.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/integration/database.h"

enum { TIMEOUT_MS = 10000, CONNECTIONS = 4, ROWS = 5, OTHER_ROWS = 7 };

struct servers {
    struct temp_postgres first, other;
    char dsn[sizeof(((struct temp_postgres *)NULL)->dsn)]; /* of all sources: leads to either */
    struct pool *pool;
};

static void fill(const struct temp_postgres *p, unsigned rows)
{
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "shared", rows);
    database_run(pg, "CHECKPOINT"); /* these outlive a crash */
    PQfinish(pg);
}

static int setup(void **state)
{
    struct error e = {0};
    struct servers *s = calloc(1, sizeof(*s));
    assert_non_null(s);
    must(temp_postgres_start(&s->first, NULL, &e), &e);
    must(temp_postgres_start(&s->other, NULL, &e), &e);
    fill(&s->first, ROWS);
    fill(&s->other, OTHER_ROWS);
    s->pool = pool_new(CONNECTIONS);
    assert_non_null(s->pool);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    struct servers *s = *state;
    pool_free(s->pool);
    temp_postgres_fini(&s->first);
    temp_postgres_fini(&s->other);
    free(s);
    return 0;
}

static void lead_to(struct servers *s, const struct temp_postgres *p)
{
    memcpy(s->dsn, p->dsn, sizeof(s->dsn));
}

static struct source *open_source(struct servers *s)
{
    struct error e = {0};
    struct source *out;
    const struct source_config config = {.dsn = s->dsn, .table = "shared", .id_column = "id", .key = "code"};
    must(pool_open(s->pool, &out, &config, TIMEOUT_MS, &e), &e);
    must(source_check(out, &e), &e);
    return out;
}

static uint64_t rows_of(struct source *s)
{
    struct error e = {0};
    uint64_t rows = 0;
    must(source_rows_estimate(s, &rows, &e), &e);
    return rows;
}

/* One source works on the first server, while the next one finds that connections lead to the other. */
static void test_a_connection_that_comes_back_from_the_server_before__is_used_by_nobody(void **state)
{
    struct servers *s = *state;
    struct error e = {0};
    lead_to(s, &s->first);
    struct source *before = open_source(s);
    lead_to(s, &s->other);
    struct source *after = open_source(s);
    assert_int_equal(rows_of(before), ROWS);
    assert_int_equal(rows_of(after), OTHER_ROWS);
    source_rest(after);
    source_rest(before); /* its connection would be the next to be taken */
    struct source *next = open_source(s);
    assert_int_equal(rows_of(next), OTHER_ROWS);
    must(source_take(after, &e), &e);
    assert_int_equal(rows_of(after), OTHER_ROWS);
    assert_int_equal(source_take(before, &e), ERR_UNREACHABLE);
    source_close(next);
    source_close(after);
    source_close(before);
}

/* A process of the server is killed: all sessions end, and the server recovers under its start time. */
static void crash(const struct temp_postgres *p)
{
    PGconn *pg = database_connect(p, "postgres", "test"), *other = database_connect(p, "postgres", "test");
    assert_int_equal(kill((pid_t)PQbackendPID(pg), SIGKILL), 0);
    uint64_t until = clock_mono_us() + TIMEOUT_MS * UINT64_C(1000);
    /* The server ends the others when it has seen that one die; until then it takes connections. */
    for (; PQstatus(other) == CONNECTION_OK; PQclear(PQexec(other, "SELECT 1")))
        assert_true(clock_mono_us() < until);
    PQfinish(other);
    for (PQreset(pg); PQstatus(pg) != CONNECTION_OK; PQreset(pg)) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(20 * 1000);
    }
    PQfinish(pg);
}

/* What was not on disk is lost: ids that a source has seen may be given again. */
static void test_sources_of_before_a_crash__are_refused_one_and_all(void **state)
{
    struct servers *s = *state;
    struct error e = {0};
    uint64_t rows;
    lead_to(s, &s->first);
    struct source *one = open_source(s);
    source_rest(one);
    struct source *other = open_source(s); /* over the same connection */
    source_rest(other);
    crash(&s->first);
    must(source_take(one, &e), &e);
    assert_int_equal(source_rows_estimate(one, &rows, &e), ERR_UNREACHABLE);
    source_close(one);
    assert_int_equal(source_take(other, &e), ERR_UNREACHABLE);
    source_close(other);
    struct source *next = open_source(s);
    assert_int_equal(rows_of(next), ROWS);
    source_close(next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sources_of_before_a_crash__are_refused_one_and_all, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_a_connection_that_comes_back_from_the_server_before__is_used_by_nobody, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
