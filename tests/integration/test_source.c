/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "migrate/source.h"
#include "tests/integration/database.h"

/* A configuration that source_check() must refuse, and a part of the text that says what to do. */
struct refusal {
    const char *table;
    const char *id;
    const char *key;
    const char *where;
    const char *remedy;
};

static void expect_refusal(const char *dsn, const struct refusal *r)
{
    struct source_config config = {
        .dsn = dsn, .table = r->table, .id_column = r->id, .key = r->key, .where = r->where};
    struct source *s = NULL;
    struct error e = {0};
    must(source_open(&s, &config, 10000, &e), &e);
    enum err err = source_check(s, &e);
    if (err != ERR_CONFIG || strstr(e.text, r->remedy) == NULL)
        fail_msg("table %s, id %s, key %s, where %s: %s: %s; expected: %s", r->table, r->id, r->key, r->where,
                 error_name(err), e.text, r->remedy);
    source_close(s);
}

static void test_source_check__refuses_what_cannot_work_and_names_the_remedy(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(
        pg,
        "CREATE TABLE good (id bigint PRIMARY KEY, code text, kind jsonb, n int);"
        "CREATE TABLE plain (id bigint NOT NULL, code text, other text, nullable bigint UNIQUE);"
        "CREATE UNIQUE INDEX partial ON plain (id) WHERE code IS NOT NULL;"
        "CREATE UNIQUE INDEX pair ON plain (id, code);"
        "CREATE UNIQUE INDEX expression ON plain ((id + 1));"
        "CREATE INDEX not_unique ON plain (id);"
        "CREATE TABLE collated (id text NOT NULL COLLATE \"C\", code text);"
        "CREATE UNIQUE INDEX ON collated (id COLLATE \"en-x-icu\");"
        "CREATE TABLE patterns (id text NOT NULL, code text);"
        "CREATE UNIQUE INDEX ON patterns (id text_pattern_ops);"
        "CREATE TABLE twice (id bigint NOT NULL, code text); INSERT INTO twice VALUES (1), (1);"
        "CREATE TABLE intervals (id interval PRIMARY KEY, code text);"
        "CREATE VIEW seen AS SELECT * FROM good;"
        "CREATE TABLE parent (id bigint PRIMARY KEY, code text); CREATE TABLE child () INHERITS (parent)");
    PQclear(PQexec(
        pg, "CREATE UNIQUE INDEX CONCURRENTLY broken ON twice (id)")); /* fails and leaves it invalid */
    static const struct refusal refusals[] = {
        {"missing", "id", "code", "", "table missing does not exist"},
        {"no.such.thing.at.all", "id", "code", "", "no.such.thing.at.all"},
        {"\"unbalanced", "id", "code", "", "name"},
        {"good", "idd", "code", "", "column \"idd\" does not exist; set `id_column`"},
        {"good", "id", "codes", "", "column \"codes\" does not exist; set `key`"},
        {"good", "id", "kind", "", "type jsonb; use a column of type text"},
        {"good", "n", "code", "", "ALTER TABLE public.good ALTER COLUMN n SET NOT NULL"},
        {"plain", "nullable", "code", "", "ALTER COLUMN nullable SET NOT NULL"},
        {"plain", "id", "code", "",
         "\"id\" has no unique index of its own; CREATE UNIQUE INDEX CONCURRENTLY ON public.plain (id)"},
        {"collated", "id", "code", "", "CREATE UNIQUE INDEX CONCURRENTLY ON public.collated (id)"},
        {"patterns", "id", "code", "", "CREATE UNIQUE INDEX CONCURRENTLY ON public.patterns (id)"},
        {"twice", "id", "code", "", "REINDEX INDEX CONCURRENTLY public.broken"},
        {"intervals", "id", "code", "", "type interval; use a column of an integer type"},
        {"seen", "id", "code", "", "public.seen is no table"},
        {"parent", "id", "code", "", "children by inheritance"},
        {"good", "id", "code", "nothing > 1", "\"nothing\" does not exist"},
        {"good", "id", "code", "id", "`where` is no condition"},
        {"good", "id", "code", "true) --", "`where` is no condition"},
        {"good", "id", "code", "true; DROP TABLE good", "`where` is no condition"},
        {"good", "id", "code", "id = $1", "`where` is no condition"},
        {"good", "id", "code", "1 / 0 = 1", "`where` is no condition"},
    };
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        expect_refusal(p->dsn, &refusals[i]);
    PQfinish(pg);
}

static void test_source_check__refuses_a_role_that_may_not_read_all_rows(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg,
                 "CREATE ROLE reader LOGIN; CREATE SCHEMA closed;"
                 "CREATE TABLE closed.t (id bigint PRIMARY KEY, code text);"
                 "CREATE TABLE ungranted (id bigint PRIMARY KEY, code text);"
                 "CREATE TABLE columns (id bigint PRIMARY KEY, code text, secret int);"
                 "GRANT SELECT (id, code) ON columns TO reader;"
                 "CREATE TABLE secured (id bigint PRIMARY KEY, code text); GRANT SELECT ON secured TO reader;"
                 "ALTER TABLE secured ENABLE ROW LEVEL SECURITY;");
    char dsn[128];
    (void)snprintf(dsn, sizeof(dsn), "postgresql://reader@127.0.0.1:%u/postgres", (unsigned)p->port);
    static const struct refusal refusals[] = {
        {"closed.t", "id", "code", "", "permission denied for schema closed"},
        {"ungranted", "id", "code", "", "GRANT SELECT ON public.ungranted TO reader"},
        {"columns", "id", "code", "secret = 1", "permission denied"},
        {"secured", "id", "code", "", "ALTER ROLE reader BYPASSRLS"},
    };
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        expect_refusal(dsn, &refusals[i]);
    struct source_config config = {.dsn = dsn, .table = "columns", .id_column = "id", .key = "code"};
    struct source *s = NULL;
    struct error e = {0};
    must(source_open(&s, &config, 10000, &e), &e);
    must(source_check(s, &e), &e);
    source_close(s);
    PQfinish(pg);
}

static void test_source_check__accepts_what_works(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE included (id bigint NOT NULL, code text);"
                     "CREATE UNIQUE INDEX ON included (id) INCLUDE (code);"
                     "CREATE TABLE parted (id bigint PRIMARY KEY, code text) PARTITION BY RANGE (id);"
                     "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100);"
                     "CREATE TABLE \"Mixed Case\" (\"Id\" int PRIMARY KEY, \"The Code\" text)");
    static const struct refusal rows[] = {{"included", "id", "code", "code ~ ':x' OR code = 'a::b'", ""},
                                          {"parted", "id", "code", "", ""},
                                          {"\"Mixed Case\"", "Id", "The Code", NULL, ""}};
    for (size_t i = 0; i < 3; i++) {
        struct source_config config = {.dsn = p->dsn,
                                       .table = rows[i].table,
                                       .id_column = rows[i].id,
                                       .key = rows[i].key,
                                       .where = rows[i].where};
        struct source *s = NULL;
        struct error e = {0};
        char last[64];
        must(source_open(&s, &config, 10000, &e), &e);
        must(source_check(s, &e), &e);
        assert_true(source_id_is_integer(s));
        must(source_max_id(s, last, sizeof(last), &e), &e);
        assert_string_equal(last, "");
        source_close(s);
    }
    PQfinish(pg);
}

static uint64_t estimate(const struct temp_postgres *p, const char *table, const char *where)
{
    struct source *s = database_source(p, table, where);
    uint64_t rows = UINT64_MAX;
    struct error e = {0};
    must(source_rows_estimate(s, &rows, &e), &e);
    source_close(s);
    return rows;
}

static void test_source_rows_estimate__is_exact_when_small_and_near_when_large(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "small", 1000);
    database_short_links(pg, "large", 100000);
    database_run(pg, "UPDATE large SET deleted_at = now() WHERE id %% 4 = 0; ANALYZE large; CREATE TABLE "
                     "empty (LIKE small)");
    assert_int_equal(estimate(p, "empty", ""), 0);
    assert_int_equal(estimate(p, "small", ""), 1000);
    assert_int_equal(estimate(p, "small", "id <= 30"), 10);
    uint64_t all = estimate(p, "large", "");
    assert_true(all > 80000 && all < 125000);
    uint64_t live = estimate(p, "large", "deleted_at IS NULL");
    assert_true(live > 60000 && live < 90000);
    PQfinish(pg);
}

static void test_source_rows_estimate__counts_where_nothing_was_analysed(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg,
                 "CREATE TABLE fresh (id bigint PRIMARY KEY, code text) WITH (autovacuum_enabled = off);"
                 "INSERT INTO fresh SELECT n, 'c' || n FROM generate_series(1, 50000) AS n;"
                 "CREATE TABLE parts (id bigint PRIMARY KEY, code text) PARTITION BY RANGE (id);"
                 "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (20001) WITH "
                 "(autovacuum_enabled = off);"
                 "CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (20001) TO (99999) WITH "
                 "(autovacuum_enabled = off);"
                 "INSERT INTO parts SELECT n, 'c' || n FROM generate_series(1, 40000) AS n; ANALYZE parts_1");
    char *tuples = database_value(pg, "SELECT reltuples FROM pg_class WHERE relname = 'fresh'");
    assert_string_equal(tuples, "-1");
    free(tuples);
    assert_int_equal(estimate(p, "fresh", ""), 50000);
    assert_int_equal(estimate(p, "fresh", "code LIKE '%7'"), 5000);
    assert_int_equal(estimate(p, "parts", "id % 2 = 0"), 20000);
    PQfinish(pg);
}

static void test_source_open__shows_no_part_of_the_password(void **state)
{
    const struct temp_postgres *p = *state;
    static const char *const dsns[] = {
        "postgresql://app:hunter2@127.0.0.1:1/app",
        "postgresql://app:x@hunter2@127.0.0.1:1/app",
        "postgresql://app:x/hunter2@127.0.0.1:1/app",
        "postgresql://app:x?hunter2@127.0.0.1:1/app",
        "postgresql://app:x%hunter2@127.0.0.1:1/app",
        "host=127.0.0.1 port=1 password=x hunter2",
        "host=127.0.0.1 port=1 password='hunter2",
        "host=127.0.0.1 port=1 password=hunter2 dbname=hunter2",
        "hunter2",
    };
    (void)p;
    for (size_t i = 0; i < sizeof(dsns) / sizeof(dsns[0]); i++) {
        struct source_config config = {.dsn = dsns[i], .table = "t", .id_column = "id", .key = "code"};
        struct source *s = NULL;
        struct error e = {0};
        enum err err = source_open(&s, &config, 2000, &e);
        if ((err != ERR_UNREACHABLE && err != ERR_CONFIG) || strstr(e.text, "unter2") != NULL ||
            e.text[0] == '\0')
            fail_msg("%s: %s: %s", dsns[i], error_name(err), e.text);
    }
    char dsn[128];
    (void)snprintf(dsn, sizeof(dsn), "postgresql://postgres:hunter2@127.0.0.1:%u/hunter2", (unsigned)p->port);
    struct source_config config = {.dsn = dsn, .table = "t", .id_column = "id", .key = "code"};
    struct source *s = NULL;
    struct error e = {0};
    assert_int_equal(source_open(&s, &config, 2000, &e), ERR_UNREACHABLE);
    assert_non_null(strstr(e.text, "database \"***\" does not exist"));
}

static void test_source_open__gives_up_on_a_server_that_does_not_answer(void **state)
{
    (void)state;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(a);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, size), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
    char dsn[128];
    (void)snprintf(dsn, sizeof(dsn), "postgresql://app@127.0.0.1:%u/app", (unsigned)ntohs(a.sin_port));
    struct source_config config = {.dsn = dsn, .table = "t", .id_column = "id", .key = "code"};
    struct source *s = NULL;
    struct error e = {0};
    uint64_t began = clock_mono_us();
    assert_int_equal(source_open(&s, &config, 300, &e), ERR_TIMEOUT);
    uint64_t took = clock_mono_us() - began;
    assert_true(took >= 300000 && took < 3000000);
    (void)close(fd);
}

static void test_source_max_id__times_out_behind_a_lock(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(
        pg, "CREATE TABLE locked (id bigint PRIMARY KEY, code text); INSERT INTO locked VALUES (7, 'c')");
    struct source_config config = {.dsn = p->dsn, .table = "locked", .id_column = "id", .key = "code"};
    struct source *s = NULL;
    struct error e = {0};
    char last[64];
    must(source_open(&s, &config, 400, &e), &e);
    database_run(pg, "BEGIN; LOCK TABLE locked");
    assert_int_equal(source_max_id(s, last, sizeof(last), &e), ERR_TIMEOUT);
    database_run(pg, "COMMIT");
    must(source_max_id(s, last, sizeof(last), &e), &e);
    assert_string_equal(last, "7");
    source_close(s);
    PQfinish(pg);
}

static void test_source_open__sets_up_a_session_that_is_named_and_cannot_write(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE session (id bigint PRIMARY KEY, code text);"
                     "CREATE FUNCTION public.scribble() RETURNS bool LANGUAGE plpgsql AS "
                     "$$ BEGIN INSERT INTO public.session VALUES (1, 'c'); RETURN true; END $$");
    struct source *s = database_source(p, "session", "public.scribble()");
    char *there =
        database_value(pg, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'twinbloom'");
    assert_string_equal(there, "1");
    free(there);
    source_close(s);
    struct source *limits = database_source(
        p, "session",
        "current_setting('transaction_read_only') = 'on' AND current_setting('search_path') = '' "
        "AND current_setting('lock_timeout') = '10s' AND current_setting('statement_timeout') <> '0' "
        "AND current_setting('idle_in_transaction_session_timeout') = '10s' "
        "AND current_setting('client_encoding') = 'UTF8'");
    database_run(pg, "INSERT INTO session VALUES (1, 'c')");
    uint64_t rows = 0;
    struct error e = {0};
    must(source_rows_estimate(limits, &rows, &e), &e);
    assert_int_equal(rows, 1); /* all of it holds */
    source_close(limits);
    PQfinish(pg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_source_check__refuses_what_cannot_work_and_names_the_remedy),
        cmocka_unit_test(test_source_check__refuses_a_role_that_may_not_read_all_rows),
        cmocka_unit_test(test_source_check__accepts_what_works),
        cmocka_unit_test(test_source_rows_estimate__is_exact_when_small_and_near_when_large),
        cmocka_unit_test(test_source_rows_estimate__counts_where_nothing_was_analysed),
        cmocka_unit_test(test_source_open__shows_no_part_of_the_password),
        cmocka_unit_test(test_source_open__gives_up_on_a_server_that_does_not_answer),
        cmocka_unit_test(test_source_max_id__times_out_behind_a_lock),
        cmocka_unit_test(test_source_open__sets_up_a_session_that_is_named_and_cannot_write),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
