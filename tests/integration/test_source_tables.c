/* SPDX-License-Identifier: MIT */
/* The tables that a configuration means, and ids of several columns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "migrate/source/scan.h"
#include "tests/integration/database.h"
#include "tests/integration/rows.h"

static struct source *open_tables(const struct temp_postgres *p, const char *table, const char *id_column)
{
    struct source_config config = {.dsn = p->dsn, .table = table, .id_column = id_column, .key = "code"};
    struct source *s = NULL;
    struct error e = {0};
    must(source_open(&s, &config, 10000, &e), &e);
    return s;
}

/* @wanted: names as the server quotes them, each followed by a bar. */
static void expect_tables(const struct temp_postgres *p, const char *table, const char *wanted)
{
    struct source *s = open_tables(p, table, "id");
    struct buffer names = {0};
    struct error e = {0};
    must(source_check(s, &e), &e);
    for (unsigned i = 0; i < source_tables(s); i++)
        buffer_printf(&names, "%s|", source_table(s, i));
    if (strcmp(buffer_text(&names), wanted) != 0)
        fail_msg("%s: %s; expected %s", table, buffer_text(&names), wanted);
    buffer_fini(&names);
    source_close(s);
}

static void expect_refused(const struct temp_postgres *p, const char *table, const char *id_column,
                           const char *text)
{
    struct source *s = open_tables(p, table, id_column);
    struct error e = {0};
    enum err err = source_check(s, &e);
    if (err != ERR_CONFIG || strstr(e.text, text) == NULL)
        fail_msg("%s by %s: %s: %s; expected: %s", table, id_column, error_name(err), e.text, text);
    source_close(s);
}

static void make_shards(PGconn *pg)
{
    static const char *const names[] = {
        "shard_1",       "shard_2",      "shard_10",           "shardx1",          "\"Shard_3\"",
        "other.shard_9", "\"comma, *\"", "\"Oth.er\".shard_1", "\"say \"\"a\"\"\""};
    database_run(pg, "CREATE SCHEMA other; CREATE SCHEMA \"Oth.er\"");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        database_run(pg, "CREATE TABLE %s (id bigint PRIMARY KEY, code text)", names[i]);
    database_run(pg, "CREATE TABLE shard_p (id bigint PRIMARY KEY, code text) PARTITION BY RANGE (id);"
                     "CREATE TABLE shard_p_1 PARTITION OF shard_p FOR VALUES FROM (0) TO (100);"
                     "CREATE VIEW shard_v AS SELECT * FROM shard_1;"
                     "CREATE TEMPORARY TABLE shard_t (id bigint PRIMARY KEY, code text)");
}

static void test_source_open__takes_lists_of_names(void **state)
{
    const struct temp_postgres *p = *state;
    expect_tables(p, "shard_1", "public.shard_1|");
    expect_tables(p, " shard_2 ,\n\tSHARD_1,", "public.shard_2|public.shard_1|");
    expect_tables(p, "shard_1,public.shard_1,shard_1", "public.shard_1|");
    expect_tables(p, "\"comma, *\",other.shard_9", "public.\"comma, *\"|other.shard_9|");
    expect_tables(p, "\"Oth.er\".shard_1, \"say \"\"a\"\"\"", "\"Oth.er\".shard_1|public.\"say \"\"a\"\"\"|");
    expect_tables(p, "shard_p", "public.shard_p|");
}

static void test_source_open__takes_patterns(void **state)
{
    const struct temp_postgres *p = *state;
    expect_tables(p, "shard_*", "public.shard_1|public.shard_10|public.shard_2|public.shard_p|");
    expect_tables(p, "SHARD_?", "public.shard_1|public.shard_2|public.shard_p|");
    expect_tables(p, "shard_2, shard_1*", "public.shard_2|public.shard_1|public.shard_10|");
    expect_tables(p, "\"Shard_\"*", "public.\"Shard_3\"|");
    expect_tables(p, "*hard_3", "public.\"Shard_3\"|");
    expect_tables(p, "other.*", "other.shard_9|");
    expect_tables(p, "oth*.shard_?", "other.shard_9|");
    expect_tables(p, "\"Oth.er\".*", "\"Oth.er\".shard_1|");
    expect_tables(p, "\"say \"\"\"*", "public.\"say \"\"a\"\"\"|");
    expect_refused(p, "shard_9*", "id", "no table is like shard_9*; correct `table`");
    expect_refused(p, "shard_1, \"SHARD\"_*", "id", "no table is like \"SHARD\"_*");
    expect_refused(p, "shard_v*", "id", "no table is like shard_v*");
    expect_refused(p, "shard_t*", "id", "no table is like shard_t*");
    expect_refused(p, "other.shard_9.*", "id", "more than a schema and a name");
    expect_refused(p, "shard_1, missing", "id", "table missing does not exist");
}

static void expect_id(const struct temp_postgres *p, const char *table, const char *wanted)
{
    struct source *s = open_tables(p, table, "");
    struct error e = {0};
    must(source_check(s, &e), &e);
    assert_string_equal(source_id_text(s), wanted);
    source_close(s);
}

static void test_source_open__finds_the_primary_key(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(
        pg,
        "CREATE SCHEMA keys;"
        "CREATE TABLE keys.pair (\"Or,der\" text COLLATE \"C\", code text, no int, x int, PRIMARY KEY (no, "
        "\"Or,der\") INCLUDE (x));"
        "CREATE TABLE keys.unique_1 (a int NOT NULL, code text NOT NULL, b int UNIQUE, c int NOT NULL);"
        "CREATE UNIQUE INDEX ON keys.unique_1 (a, c); CREATE UNIQUE INDEX ON keys.unique_1 (c);"
        "CREATE UNIQUE INDEX ON keys.unique_1 (a) WHERE c > 0;"
        "CREATE UNIQUE INDEX ON keys.unique_1 ((a + c));"
        "CREATE TABLE keys.none (id int, code text);"
        "CREATE VIEW keys.shown AS SELECT * FROM keys.none");
    expect_id(p, "shard_1", "id");
    expect_id(p, "shard_*, other.*", "id");
    expect_id(p, "keys.pair", "no, \"Or,der\"");
    expect_refused(p, "shard_1, keys.pair", "",
                   "the primary key of table keys.pair is (no, \"Or,der\"), that of");
    expect_refused(p, "keys.unique_1", "", "has no primary key; add `id_column` = c; or a, c");
    expect_refused(p, "keys.none", "", "has no primary key, and no unique index");
    expect_refused(p, "keys.shown", "", "is not a table");
    PQfinish(pg);
}

static void test_source_tables_hash__is_that_of_the_list(void **state)
{
    const struct temp_postgres *p = *state;
    static const char *const lists[] = {"shard_1, shard_2", "shard_1,public.shard_2", "shard_2, shard_1",
                                        "shard_1", "shard_1, shard_10"};
    uint64_t hashes[5];
    for (size_t i = 0; i < 5; i++) {
        struct source *s = open_tables(p, lists[i], "id");
        hashes[i] = source_tables_hash(s);
        source_close(s);
    }
    assert_true(hashes[0] == hashes[1]);
    for (size_t i = 1; i < 5; i++)
        for (size_t k = 1; k < i; k++)
            assert_true(hashes[i] != hashes[k]);
}

static void test_source_check__wants_an_index_of_the_ids_columns_in_their_order(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    static const struct {
        const char *index;
        bool good;
    } rows[] = {
        {"SELECT 1", false},
        {"CREATE UNIQUE INDEX ON pairs (a, b)", true},
        {"CREATE UNIQUE INDEX ON pairs (a DESC, b DESC)", true},
        {"CREATE UNIQUE INDEX ON pairs (a, b) INCLUDE (c)", true},
        {"CREATE UNIQUE INDEX ON pairs (a) ; CREATE UNIQUE INDEX ON pairs (b)", false},
        {"CREATE UNIQUE INDEX ON pairs (b, a)", false},
        {"CREATE UNIQUE INDEX ON pairs (a, b, c)", false},
        {"CREATE UNIQUE INDEX ON pairs (a, b DESC)", false},
        {"CREATE UNIQUE INDEX ON pairs (a, b NULLS FIRST)", false},
        {"CREATE UNIQUE INDEX ON pairs (a, b) WHERE c > 0", false},
        {"CREATE UNIQUE INDEX ON pairs (a, lower(b))", false},
        {"CREATE UNIQUE INDEX ON pairs (a, b COLLATE \"en-x-icu\")", false},
        {"CREATE UNIQUE INDEX ON pairs (a, b text_pattern_ops)", false},
        {"CREATE INDEX ON pairs (a, b)", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        database_run(
            pg, "DROP TABLE IF EXISTS pairs; CREATE TABLE pairs (a int NOT NULL, b text COLLATE \"C\" NOT "
                "NULL, c int NOT NULL, n int, code text); INSERT INTO pairs VALUES (1, 'x', 2)");
        database_run(pg, "%s", rows[i].index);
        if (!rows[i].good) {
            expect_refused(
                p, "pairs", "a,b",
                "table public.pairs: columns \"a,b\" have no unique index of their own; CREATE UNIQUE "
                "INDEX CONCURRENTLY ON public.pairs (a, b)");
            continue;
        }
        struct source *s = open_tables(p, "pairs", "a,b");
        struct error e = {0};
        must(source_check(s, &e), &e);
        assert_false(source_id_is_integer(s));
        source_close(s);
    }
    database_run(pg, "CREATE UNIQUE INDEX ON pairs (a, n)");
    expect_refused(p, "pairs", "a, n", "column n may be NULL");
    expect_refused(p, "pairs", "a, missing", "column \"missing\" does not exist");
    PQfinish(pg);
}

static void test_source_check__wants_ids_of_one_type(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE int_id (a int, b int, code text, PRIMARY KEY (a, b));"
                     "CREATE TABLE big_id (a int, b bigint, code bytea, PRIMARY KEY (a, b));"
                     "CREATE TABLE int_too (a int, b int, code bytea, PRIMARY KEY (a, b))");
    expect_refused(p, "int_id, big_id", "a,b",
                   "id column b is of type integer in table public.int_id, of type bigint in public.big_id");
    struct source *s = open_tables(p, "int_id, int_too", "a,b"); /* the types of keys may differ */
    struct error e = {0};
    must(source_check(s, &e), &e);
    source_close(s);
    PQfinish(pg);
}

static void expect_warning(const struct temp_postgres *p, const char *table, const char *text)
{
    struct source *s = open_tables(p, table, "id");
    struct error e = {0};
    char warning[256] = "?";
    must(source_warning(s, warning, sizeof(warning), &e), &e);
    if (text[0] == '\0' ? warning[0] != '\0' : strstr(warning, text) == NULL)
        fail_msg("%s: \"%s\"; expected \"%s\"", table, warning, text);
    source_close(s);
}

static void test_source_warning__tells_of_a_sequence_with_a_cache(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(
        pg, "CREATE TABLE cache_none (id bigserial PRIMARY KEY, code text);"
            "CREATE TABLE cache_serial (id bigserial PRIMARY KEY, code text);"
            "ALTER SEQUENCE cache_serial_id_seq CACHE 50;"
            "CREATE TABLE cache_identity (id bigint GENERATED ALWAYS AS IDENTITY (CACHE 20) PRIMARY KEY, "
            "code text);"
            "CREATE TABLE cache_beside (id bigint PRIMARY KEY, n serial, code text);"
            "ALTER SEQUENCE cache_beside_n_seq CACHE 9");
    expect_warning(p, "cache_none", "");
    expect_warning(p, "cache_beside", "");
    expect_warning(p, "cache_serial", "table public.cache_serial: the sequence of id has CACHE 50");
    expect_warning(p, "cache_none, cache_identity",
                   "table public.cache_identity: the sequence of id has CACHE 20");
    PQfinish(pg);
}

static int setup(void **state)
{
    if (database_setup(state) != 0)
        return -1;
    PGconn *pg = database_connect(*state, "postgres", "test");
    make_shards(pg);
    PQfinish(pg);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_source_open__takes_lists_of_names),
        cmocka_unit_test(test_source_open__takes_patterns),
        cmocka_unit_test(test_source_open__finds_the_primary_key),
        cmocka_unit_test(test_source_tables_hash__is_that_of_the_list),
        cmocka_unit_test(test_source_check__wants_an_index_of_the_ids_columns_in_their_order),
        cmocka_unit_test(test_source_check__wants_ids_of_one_type),
        cmocka_unit_test(test_source_warning__tells_of_a_sequence_with_a_cache),
    };
    return cmocka_run_group_tests(tests, setup, database_teardown);
}
