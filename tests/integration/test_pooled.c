/* SPDX-License-Identifier: MIT */
/* Pooled connections: their number, and that they give the same answers as new ones. */
#include "migrate/source/pooled.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/integration/database.h"

enum { TIMEOUT_MS = 10000, ROWS = 5 };

static const char application[] = "kept by a test";

struct asker {
    const struct temp_postgres *p;
    PGconn *pg; /* the test's own connection */
    struct pooled *kept;
    struct source_config config;
    unsigned timeout_ms;
};

static void asker_init(struct asker *a, const struct temp_postgres *p, const char *table)
{
    *a = (struct asker){
        .p = p,
        .pg = database_connect(p, "postgres", "test"),
        .kept = pooled_new(application),
        .config = {.dsn = p->dsn, .table = table, .id_column = "id", .key = "code"},
        .timeout_ms = TIMEOUT_MS,
    };
    assert_non_null(a->kept);
}

static void asker_fini(struct asker *a)
{
    pooled_free(a->kept);
    PQfinish(a->pg);
}

static enum err ask(struct asker *a, uint64_t *rows, struct error *e)
{
    struct source *s;
    enum err code = pooled_open(a->kept, &s, &a->config, a->timeout_ms, e);
    if (code == ERR_OK)
        code = source_rows_estimate(s, rows, e);
    pooled_close(a->kept, s);
    return code;
}

static void answers(struct asker *a, uint64_t wanted)
{
    struct error e = {0};
    uint64_t rows = 0;
    must(ask(a, &rows, &e), &e);
    assert_int_equal(rows, wanted);
}

static void refuses(struct asker *a, const char *why)
{
    struct error e = {0};
    uint64_t rows;
    assert_int_equal(ask(a, &rows, &e), ERR_CONFIG);
    if (strstr(e.text, why) == NULL)
        fail_msg("%s", e.text);
}

/* Return the pid of the pooled session's server process. 0: no session is pooled. The server shows for a
 * moment sessions that were closed. */
static int session(struct asker *a, bool there)
{
    for (uint64_t until = clock_mono_us() + TIMEOUT_MS * 1000ull;; clock_sleep_us(10000)) {
        char *pid = database_value(a->pg,
                                   "SELECT CASE count(*) WHEN 0 THEN 0 WHEN 1 THEN min(pid) ELSE -1 END "
                                   "FROM pg_stat_activity WHERE application_name = '%s'",
                                   application);
        int n = (int)strtol(pid, NULL, 10);
        free(pid);
        if ((n > 0) == there && n >= 0)
            return n;
        if (clock_mono_us() >= until)
            fail_msg("sessions of %s: %d", application, n);
    }
}

static void test_kept__asks_again_over_the_same_session(void **state)
{
    struct asker a;
    asker_init(&a, *state, "one");
    database_short_links(a.pg, "one", ROWS);
    database_short_links(a.pg, "other", ROWS + 1);
    answers(&a, ROWS);
    int first = session(&a, true);
    answers(&a, ROWS);
    a.config.table = "other";
    answers(&a, ROWS + 1);
    assert_int_equal(session(&a, true), first);
    asker_fini(&a);
}

/* Names and search paths are resolved as they stand at each call. */
static void test_kept__resolves_names_anew(void **state)
{
    struct asker a;
    asker_init(&a, *state, "now");
    database_short_links(a.pg, "now", ROWS);
    answers(&a, ROWS);
    int first = session(&a, true);
    database_run(a.pg, "ALTER TABLE now RENAME TO before");
    database_short_links(a.pg, "now", ROWS + 2);
    answers(&a, ROWS + 2);
    /* A session does not see settings that its role gets later. If the pooled session refuses a request, a
     * new session is tried. */
    database_run(a.pg, "CREATE SCHEMA apart; CREATE TABLE apart.hidden (id bigint PRIMARY KEY, code text);"
                       "ALTER ROLE postgres SET search_path = public, apart");
    assert_int_equal(session(&a, true), first);
    a.config.table = "hidden";
    answers(&a, 0);
    int second = session(&a, true);
    assert_int_not_equal(second, first);
    answers(&a, 0); /* names are not resolved by the empty search_path that a source uses */
    assert_int_equal(session(&a, true), second);
    a.config.table = "nowhere";
    refuses(&a, "table nowhere does not exist");
    database_run(a.pg, "ALTER ROLE postgres RESET search_path");
    asker_fini(&a);
}

static void test_kept__replaces_a_session_that_was_cut(void **state)
{
    struct asker a;
    asker_init(&a, *state, "cut");
    database_short_links(a.pg, "cut", ROWS);
    answers(&a, ROWS);
    int first = session(&a, true);
    database_run(a.pg, "SELECT pg_terminate_backend(%d, 10000)", first);
    answers(&a, ROWS);
    assert_int_not_equal(session(&a, true), first);
    asker_fini(&a);
}

/* The server restarts. */
static void test_kept__says_that_the_server_is_away_and_finds_it_again(void **state)
{
    struct temp_postgres *p = *state;
    struct asker a;
    struct error e = {0};
    uint64_t rows;
    asker_init(&a, p, "back");
    database_short_links(a.pg, "back", ROWS);
    answers(&a, ROWS);
    PQfinish(a.pg);
    temp_postgres_stop(p);
    assert_int_equal(ask(&a, &rows, &e), ERR_UNREACHABLE);
    assert_int_equal(ask(&a, &rows, &e), ERR_UNREACHABLE);
    must(temp_postgres_restart(p, &e), &e);
    a.pg = database_connect(p, "postgres", "test");
    answers(&a, ROWS);
    (void)session(&a, true);
    asker_fini(&a);
}

static void test_kept__does_not_wait_long_for_a_session_that_is_silent(void **state)
{
    struct asker a;
    asker_init(&a, *state, "silent");
    database_short_links(a.pg, "silent", ROWS);
    answers(&a, ROWS);
    int first = session(&a, true);
    assert_int_equal(kill(first, SIGSTOP), 0);
    answers(&a, ROWS); /* sooner than the timeout of a request, which would be an error */
    assert_int_equal(kill(first, SIGCONT), 0);
    asker_fini(&a);
}

static void test_kept__follows_the_configuration(void **state)
{
    const struct temp_postgres *p = *state;
    struct asker a;
    char dsn[128];
    asker_init(&a, p, "followed");
    database_short_links(a.pg, "followed", ROWS);
    answers(&a, ROWS);
    int first = session(&a, true);
    (void)snprintf(dsn, sizeof(dsn), "host=127.0.0.1 port=%u user=postgres password=another dbname=postgres",
                   (unsigned)p->port);
    a.config.dsn = dsn;
    answers(&a, ROWS);
    int second = session(&a, true); /* the only session: the first one is closed */
    assert_int_not_equal(second, first);
    a.timeout_ms++;
    answers(&a, ROWS);
    int third = session(&a, true);
    assert_int_not_equal(third, second);
    pooled_tidy(a.kept, p->dsn, a.timeout_ms, clock_mono_us());
    (void)session(&a, false);
    asker_fini(&a);
}

static void test_kept__keeps_none_that_nobody_asks_for(void **state)
{
    struct asker a;
    asker_init(&a, *state, "unasked");
    database_short_links(a.pg, "unasked", ROWS);
    answers(&a, ROWS);
    int first = session(&a, true);
    uint64_t now = clock_mono_us();
    pooled_tidy(a.kept, a.config.dsn, a.timeout_ms, now + POOLED_IDLE_US / 2);
    assert_int_equal(session(&a, true), first);
    pooled_tidy(a.kept, a.config.dsn, a.timeout_ms, now + POOLED_IDLE_US);
    (void)session(&a, false);
    answers(&a, ROWS);
    asker_fini(&a);
}

/* A pooled session must not have a stopped statement or an open transaction. */
static void test_kept__keeps_none_in_the_middle_of_something(void **state)
{
    struct asker a;
    struct source *s;
    struct error e = {0};
    char last[SOURCE_ID_MAX];
    asker_init(&a, *state, "busy");
    database_short_links(a.pg, "busy", ROWS);
    must(pooled_open(a.kept, &s, &a.config, a.timeout_ms, &e), &e);
    int first = session(&a, true);
    database_run(a.pg, "SELECT pg_terminate_backend(%d, 10000)", first);
    assert_int_equal(source_last_id(s, 0, last, &e), ERR_UNREACHABLE);
    pooled_close(a.kept, s);
    (void)session(&a, false);
    pooled_close(a.kept, NULL);
    answers(&a, ROWS);
    asker_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept__asks_again_over_the_same_session),
        cmocka_unit_test(test_kept__resolves_names_anew),
        cmocka_unit_test(test_kept__replaces_a_session_that_was_cut),
        cmocka_unit_test(test_kept__follows_the_configuration),
        cmocka_unit_test(test_kept__keeps_none_that_nobody_asks_for),
        cmocka_unit_test(test_kept__keeps_none_in_the_middle_of_something),
        cmocka_unit_test(test_kept__says_that_the_server_is_away_and_finds_it_again),
        cmocka_unit_test(test_kept__does_not_wait_long_for_a_session_that_is_silent),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
