/* SPDX-License-Identifier: MIT */
/* What source_check() refuses, and what it accepts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "migrate/source/source.h"
#include "tests/integration/database.h"
#include "tests/integration/rows.h"

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
        "CREATE TABLE nullsfirst (id bigint NOT NULL, code text); INSERT INTO nullsfirst VALUES (1, 'c');"
        "CREATE UNIQUE INDEX ON nullsfirst (id NULLS FIRST);"
        "CREATE TABLE text_ids (id text PRIMARY KEY, code text);"
        "CREATE VIEW seen AS SELECT * FROM good;"
        "CREATE TABLE parent (id bigint PRIMARY KEY, code text); CREATE TABLE child () INHERITS (parent)");
    PQclear(PQexec(
        pg, "CREATE UNIQUE INDEX CONCURRENTLY broken ON twice (id)")); /* fails and leaves an invalid index */
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
        {"seen", "id", "code", "", "public.seen is not a table"},
        {"parent", "id", "code", "", "children by inheritance"},
        {"good", "id", "code", "nothing > 1", "\"nothing\" does not exist"},
        {"good", "id", "code", "id", "`where` is not a condition"},
        {"good", "id", "code", "true) --", "`where` is not a condition"},
        {"good", "id", "code", "true; DROP TABLE good", "`where` is not a condition"},
        {"good", "id", "code", "id = $1", "`where` is not a condition"},
        {"good", "id", "code", "1 / 0 = 1", "`where` is not a condition"},
        {"good", "id", "code", "true) OR (true", "`where` is not a condition"},
        {"good", "id", "code", "true, true", "`where` is not a condition"},
        {"", "id", "code", "", "`table` names no table"},
        {" , ,", "id", "code", "", "`table` names no table"},
        {"good", " ,", "code", "", "`id_column` names no column"},
        {"good", "a,b,c,d,e,f,g,h,i", "code", "", "`id_column` has more than 8 columns"},
        {"good", "id, idd", "code", "", "column \"idd\" does not exist; set `id_column`"},
        {"good, missing", "id", "code", "", "table missing does not exist"},
        {"nullsfirst", "id", "code", "", "table public.nullsfirst: a page by id would be sorted"},
        {"good, plain", "id", "code", "", "ON public.plain (id)"},
        {"good, text_ids", "id", "code", "",
         "id column id is of type bigint in table public.good, of type text in public.text_ids"},
    };
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        expect_refusal(p->dsn, &refusals[i]);
    PQfinish(pg);
}

static void test_source_check__refuses_keys_that_are_no_expression_of_one_row(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE keyed (id bigint PRIMARY KEY, code text, kind jsonb);"
                     "CREATE DOMAIN short AS text; CREATE FUNCTION ours(text) RETURNS text LANGUAGE sql AS "
                     "$$ SELECT $1 $$");
    static const struct refusal refusals[] = {
        {"keyed", "id", "upper(code", "",
         "`key` is neither a column nor an expression that postgres can use"},
        {"keyed", "id", "nothing || code", "", "\"nothing\" does not exist"},
        {"keyed", "id", "code ||", "", "`key` is neither a column nor an expression"},
        {"keyed", "id", "code; SELECT 1", "", "`key` is neither a column nor an expression"},
        {"keyed", "id", "code = $1", "", "`key` is neither a column nor an expression"},
        {"keyed", "id", "ours(code)", "", "names of other schemas must be qualified"},
        {"keyed", "id", "unnest(string_to_array(code, ','))", "", "set-returning functions are not allowed"},
        {"keyed", "id", "max(code)", "", "aggregate functions are not allowed"},
        {"keyed", "id", "first_value(code) OVER ()", "", "window functions are not allowed"},
        {"keyed", "id", "code), (code", "", "`key` is neither a column nor an expression"},
        {"keyed", "id", "kind -> 'a'", "", "type jsonb"},
        {"keyed", "id", "id > 3", "",
         "key column (an expression) is of type boolean; use a column of type text"},
        {"keyed", "id", "code::public.short", "", "type public.short"},
        {"keyed", "id", "code, id", "", "type record"},
        {"keyed", "id", "", "", "column \"\" does not exist; set `key`"},
        {"keyed", "id", "Code", "", "column \"Code\" does not exist; set `key`"},
    };
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        expect_refusal(p->dsn, &refusals[i]);
    PQfinish(pg);
}

/* Check the source, and expect these keys of the table "good_keys". */
static void expect_keys(const struct temp_postgres *p, const char *key, const char *keys)
{
    struct source_config config = {.dsn = p->dsn, .table = "good_keys", .id_column = "id", .key = key};
    struct source *s = NULL;
    struct buffer got = {0};
    struct error e = {0};
    must(source_open(&s, &config, 10000, &e), &e);
    must(source_check(s, &e), &e);
    (void)rows_between(s, 0, "", "", 2, rows_join, &got);
    if (strcmp(buffer_text(&got), keys) != 0)
        fail_msg("%s: %s; expected %s", key, buffer_text(&got), keys);
    buffer_fini(&got);
    source_close(s);
}

static void test_source_check__accepts_expressions_as_keys(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE SCHEMA lib; CREATE FUNCTION lib.short(text) RETURNS text LANGUAGE sql AS "
                     "$$ SELECT left($1, 1) $$;"
                     "CREATE TABLE good_keys (id int PRIMARY KEY, code text, \"a+b\" text, data jsonb);"
                     "INSERT INTO good_keys VALUES (1, 'Ab', 'odd', '{\"k\": \"v\"}'), (2, 'c', NULL, '{}')");
    expect_keys(p, "lower(code) -- as clients ask", "ab|c|");
    expect_keys(p, "code /* of /* all */ */ || ':' || id", "Ab:1|c:2|");
    expect_keys(p, "t.code", "Ab|c|");
    expect_keys(p, "a+b", "odd||"); /* a column of this name takes precedence */
    expect_keys(p, "id + 1", "2|3|");
    expect_keys(p, "code::bytea", "Ab|c|");
    expect_keys(p, "code::char(9)", "Ab|c|");
    expect_keys(p, "data ->> 'k'", "v||");
    expect_keys(p, "lib.short(code)", "A|c|");
    expect_keys(p, "(SELECT max(code) FROM public.good_keys AS other WHERE other.id <= t.id)", "Ab|c|");
    expect_keys(p, "'constant'", "constant|constant|");
    PQfinish(pg);
}

static enum err read_secrets(const struct temp_postgres *p, const char *key, const char *where,
                             struct error *e)
{
    struct source_config config = {
        .dsn = p->dsn, .table = "secrets", .id_column = "id", .key = key, .where = where};
    struct source *s = NULL;
    must(source_open(&s, &config, 10000, e), e);
    enum err err = source_check(s, e);
    struct scan_range range = {.table = 0};
    const struct scan_options o = {.limit = 10, .timeout_ms = 10000, .row = rows_ignore};
    size_t rows;
    bool ended;
    if (err == ERR_OK)
        err = scan_page(s, &range, &o, &rows, &ended, e);
    source_close(s);
    return err;
}

/* Everybody who may read the filter's status sees the error. */
static void test_source__repeats_neither_rows_nor_sql_in_errors(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE secrets (id int PRIMARY KEY, code text);"
                     "INSERT INTO secrets VALUES (1, 'ann@example.org');"
                     "CREATE FUNCTION tell(text) RETURNS text LANGUAGE plpgsql AS "
                     "$$ BEGIN RAISE EXCEPTION 'it is %%', $1; END $$");
    static const struct {
        const char *key, *where, *state;
    } rows[] = {{"code::int", "", "22P02"},
                {"code", "code::uuid IS NOT NULL", "22P02"},
                {"public.tell(code)", "", "P0001"},
                {"code", "code = = 'ann'", "42601"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct error e = {0};
        enum err err = read_secrets(p, rows[i].key, rows[i].where, &e);
        if (err == ERR_OK || strstr(e.text, "ann") != NULL || strstr(e.text, "example") != NULL ||
            strstr(e.text, rows[i].state) == NULL)
            fail_msg("%s, %s: %s", rows[i].key, rows[i].where, e.text);
    }
    PQfinish(pg);
}

/* Every way of reading finds the row c3. */
static void expect_readable(struct source *s)
{
    struct rows rows = {0};
    struct source_part *parts = NULL;
    size_t count = 0;
    char horizon[SOURCE_HORIZON_MAX], id[64];
    enum source_finding finding = SOURCE_ROW_GONE;
    struct error e = {0};
    (void)rows_between(s, 0, "", "", 10, rows_note, &rows);
    rows_expect(&rows, 3, 3);
    must(source_parts(s, &parts, &count, &e), &e);
    assert_int_equal(count, 1);
    struct scan_range range = {.blocks = true, .after = "0", .upto = "1"};
    (void)rows_read(s, &range, parts, 10, rows_note, &rows);
    assert_int_equal(rows.times[3], 2);
    free(parts);
    must(source_horizon(s, horizon, &e), &e);
    must(scan_sample(s, horizon, 10, rows_note, &rows, &e), &e);
    assert_int_equal(rows.times[3], 3);
    must(source_find_key(s, "c3", 2, horizon, &finding, id, &e), &e);
    assert_int_equal(finding, SOURCE_ROW_OLD);
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
                 "CREATE TABLE rows_only (id bigint PRIMARY KEY, code text, secret int);"
                 "INSERT INTO rows_only VALUES (3, 'c3', 0);"
                 "GRANT SELECT (id, code, ctid, xmin) ON rows_only TO reader;"
                 "CREATE TABLE secured (id bigint PRIMARY KEY, code text); GRANT SELECT ON secured TO reader;"
                 "ALTER TABLE secured ENABLE ROW LEVEL SECURITY;");
    char dsn[128];
    (void)snprintf(dsn, sizeof(dsn), "postgresql://reader@127.0.0.1:%u/postgres", (unsigned)p->port);
    static const struct refusal refusals[] = {
        {"closed.t", "id", "code", "", "permission denied for schema closed"},
        {"ungranted", "id", "code", "", "GRANT SELECT ON public.ungranted TO reader"},
        {"columns", "id", "code", "", "GRANT SELECT (ctid, xmin) ON public.columns TO reader"},
        {"rows_only", "id", "code", "secret = 1", "permission denied"},
        {"rows_only", "id", "code || secret", "", "permission denied"},
        {"secured", "id", "code", "", "ALTER ROLE reader BYPASSRLS"},
    };
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        expect_refusal(dsn, &refusals[i]);
    struct source_config config = {.dsn = dsn, .table = "rows_only", .id_column = "id", .key = "code"};
    struct source *s = NULL;
    struct error e = {0};
    must(source_open(&s, &config, 10000, &e), &e);
    must(source_check(s, &e), &e);
    expect_readable(s);
    source_close(s);
    PQfinish(pg);
}

/* Nodes of a plan are told from names in it. */
static void test_source_check__accepts_a_table_and_an_index_that_are_named_as_a_sort(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    struct error e = {0};
    database_run(pg, "CREATE TABLE \"Sort\" (id bigint NOT NULL, code text);"
                     "CREATE UNIQUE INDEX \"Incremental Sort\" ON \"Sort\" (id);"
                     "INSERT INTO \"Sort\" SELECT n, 'c' || n FROM generate_series(1, 1000) n");
    struct source *s = database_source(p, "\"Sort\"", "");
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
                     "CREATE TABLE down (id bigint NOT NULL, code text);"
                     "CREATE UNIQUE INDEX ON down (id DESC);"
                     "CREATE TABLE \"Mixed Case\" (\"Id\" int PRIMARY KEY, \"The Code\" text)");
    static const struct refusal rows[] = {{"included", "id", "code", "code ~ ':x' OR code = 'a::b'", ""},
                                          {"parted", "id", "code", "", ""},
                                          {"\"Mixed Case\"", "Id", "The Code", NULL, ""},
                                          {"\"Mixed Case\"", "\"Id\"", "\"The Code\"", NULL, ""},
                                          {"down", "id", "code", NULL, ""}};
    for (size_t i = 0; i < 5; i++) {
        struct source_config config = {.dsn = p->dsn,
                                       .table = rows[i].table,
                                       .id_column = rows[i].id,
                                       .key = rows[i].key,
                                       .where = rows[i].where};
        struct source *s = NULL;
        struct error e = {0};
        char last[SOURCE_ID_MAX];
        must(source_open(&s, &config, 10000, &e), &e);
        must(source_check(s, &e), &e);
        assert_true(source_id_is_integer(s));
        must(source_last_id(s, 0, last, &e), &e);
        assert_string_equal(last, "");
        source_close(s);
    }
    PQfinish(pg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_source_check__refuses_what_cannot_work_and_names_the_remedy),
        cmocka_unit_test(test_source_check__refuses_keys_that_are_no_expression_of_one_row),
        cmocka_unit_test(test_source__repeats_neither_rows_nor_sql_in_errors),
        cmocka_unit_test(test_source_check__accepts_expressions_as_keys),
        cmocka_unit_test(test_source_check__refuses_a_role_that_may_not_read_all_rows),
        cmocka_unit_test(test_source_check__accepts_a_table_and_an_index_that_are_named_as_a_sort),
        cmocka_unit_test(test_source_check__accepts_what_works),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
