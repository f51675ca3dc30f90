/* SPDX-License-Identifier: MIT */
/* An outbox as the DBA sees it: installed, installed again, refused, removed, dumped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/integration/outboxes.h"

enum { DUMP_MS = 60000 };

static void assert_query(PGconn *pg, const char *query, const char *value)
{
    char *found = database_value(pg, "%s", query);
    if (strcmp(found, value) != 0)
        fail_msg("%s: %s, not %s", query, found, value);
    free(found);
}

/* Run SQL that must fail with this SQLSTATE. */
static void assert_fails(PGconn *pg, const char *statement, const char *sqlstate)
{
    PGresult *r = PQexec(pg, statement);
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    if (state == NULL || strcmp(state, sqlstate) != 0)
        fail_msg("%s: %s, not %s", statement, state == NULL ? "no error" : state, sqlstate);
    PQclear(r);
}

static void test_outbox_sql__can_be_run_again(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    const char *made = "SELECT (SELECT count(*) FROM pg_trigger WHERE tgname ~ '^again_') || ' ' || (SELECT "
                       "count(*) FROM pg_proc WHERE proname ~ '^again_')";
    database_run(pg, "CREATE TABLE one (id int PRIMARY KEY, code text); CREATE TABLE two (LIKE one INCLUDING "
                     "ALL); CREATE TABLE three (id text PRIMARY KEY, code text)");
    struct outboxes_setup setup = {.table = "one", .outbox = "again"};
    outboxes_install(*state, &setup);
    assert_query(pg, made, "2 2");
    database_run(pg, "INSERT INTO one VALUES (1, 'a')");
    outboxes_install(*state, &setup);
    assert_query(pg, made, "2 2");
    setup.table = "two"; /* has the same columns, so it shares the functions */
    outboxes_install(*state, &setup);
    assert_query(pg, made, "4 2");
    setup.table = "three";
    outboxes_install(*state, &setup);
    assert_query(pg, made, "6 4");
    setup.columns = ""; /* now a change of the code writes no entry */
    outboxes_install(*state, &setup);
    assert_query(pg, made, "6 4");
    database_run(pg, "INSERT INTO one VALUES (2, 'b'); INSERT INTO two VALUES (3, 'c'); INSERT INTO three "
                     "VALUES ('d', ''); UPDATE three SET code = 'x'");
    outboxes_expect(pg, "again", "1|2|3|d");
    PQfinish(pg);
}

static void test_outbox_sql__mends_what_a_new_partition_misses(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE part (id int PRIMARY KEY, code text)");
    struct outboxes_setup setup = {.table = "part", .outbox = "of_part"};
    outboxes_install(p, &setup);
    outbox_close(outboxes_open(p, "of_part", "part"));
    database_run(pg,
                 "CREATE TABLE whole (LIKE part INCLUDING ALL) PARTITION BY RANGE (id); ALTER TABLE whole "
                 "ATTACH PARTITION part FOR VALUES FROM (0) TO (9); INSERT INTO whole VALUES (1)");
    outboxes_expect(pg, "of_part", ""); /* the partition's statement trigger did not fire */
    struct outbox_options options = {
        .dsn = p->dsn, .outbox = "of_part", .table = "part", .timeout_ms = 10000};
    struct outbox *o = NULL;
    struct error e = {0};
    assert_int_equal(outbox_open(&o, &options, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "table public.part does not write all its rows"));
    outboxes_install(p, &setup);
    outbox_close(outboxes_open(p, "of_part", "part"));
    database_run(pg, "INSERT INTO whole VALUES (2); INSERT INTO part VALUES (3)");
    outboxes_expect(pg, "of_part", "2|3");
    setup.table = "whole"; /* replaces the partition's triggers */
    outboxes_install(p, &setup);
    outbox_close(outboxes_open(p, "of_part", "whole"));
    outbox_close(outboxes_open(p, "of_part", "part"));
    database_run(pg, "INSERT INTO whole VALUES (4); INSERT INTO part VALUES (5)");
    outboxes_expect(pg, "of_part", "4|5");
    PQfinish(pg);
}

static void test_outbox_sql__refuses_what_cannot_work_and_changes_nothing(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    database_run(pg, "CREATE TABLE base (id int PRIMARY KEY, code text, nullable int); CREATE VIEW seen AS "
                     "SELECT * FROM base; CREATE ROLE nosy; CREATE TABLE guarded (LIKE base INCLUDING ALL); "
                     "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; "
                     "END $$; CREATE TRIGGER box_update AFTER UPDATE ON guarded FOR EACH ROW EXECUTE "
                     "FUNCTION nothing()");
    static const struct {
        struct outboxes_setup setup;
        const char *text;
    } rows[] = {
        {{.table = "missing", .outbox = "box"}, "relation \"missing\" does not exist"},
        {{.table = "seen", .outbox = "box"}, "seen is neither a table nor a partitioned table"},
        {{.table = "base", .id = "idd", .outbox = "box"}, "table public.base has no column \"idd\""},
        {{.table = "base", .id = "", .outbox = "box"}, "table public.base has no column \"\""},
        {{.table = "base", .columns = "code,ctid", .outbox = "box"},
         "table public.base has no column \"ctid\""},
        {{.table = "base", .id = "id, nullable", .outbox = "box"},
         "id column \"nullable\" of table public.base may"},
        {{.table = "base", .outbox = "guarded"}, "guarded is a table of another kind"},
        {{.table = "base", .outbox = "a_name_of_41_bytes_is_too_long_for_triggers"}, "more than 40 bytes"},
        {{.table = "guarded", .outbox = "box"}, "table public.guarded has another trigger \"box_update\""},
        {{.table = "base", .outbox = "box", .reader = "nobody_here"}, "role \"nobody_here\" does not exist"},
        {{.table = "base", .outbox = "box", .notify = "perhaps"}, "invalid input syntax for type boolean"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct outboxes_setup setup = rows[i].setup;
        setup.reader = setup.reader == NULL ? "nosy" : setup.reader;
        outboxes_refuse(*state, &setup, rows[i].text);
    }
    assert_query(pg,
                 "SELECT count(*) FROM pg_trigger WHERE tgrelid IN ('base'::regclass, "
                 "'guarded'::regclass)",
                 "1");
    assert_query(pg, "SELECT count(*) FROM information_schema.role_table_grants WHERE grantee = 'nosy'", "0");
    assert_query(pg, "SELECT count(*) FROM pg_proc WHERE proname ~ '^box_[0-9a-f]{12}$'", "0");
    PQfinish(pg);
}

static void test_outbox_sql__gives_up_when_a_writer_stays(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    PGconn *writer = database_connect(*state, "postgres", "writer");
    database_run(pg, "CREATE TABLE busy (id int PRIMARY KEY, code text)");
    database_run(writer, "BEGIN; INSERT INTO busy VALUES (1)");
    struct temp_postgres hasty = *(const struct temp_postgres *)*state;
    (void)snprintf(hasty.dsn, sizeof(hasty.dsn),
                   "host=127.0.0.1 port=%u user=postgres options='-c lock_timeout=300'",
                   (unsigned)hasty.port);
    outboxes_refuse(&hasty, &(struct outboxes_setup){.table = "busy", .outbox = "of_busy"}, "lock timeout");
    database_run(writer, "COMMIT; INSERT INTO busy VALUES (2)");
    outboxes_install(*state, &(struct outboxes_setup){.table = "busy", .outbox = "of_busy"});
    database_run(writer, "INSERT INTO busy VALUES (3)");
    outboxes_expect(pg, "of_busy", "3");
    PQfinish(writer);
    PQfinish(pg);
}

static void test_outbox_sql__grants_no_more_than_is_needed(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    database_run(pg,
                 "CREATE ROLE reading; CREATE ROLE stranger; CREATE SCHEMA AUTHORIZATION stranger; CREATE "
                 "TABLE granted (id int PRIMARY KEY, code text)");
    outboxes_install(
        *state, &(struct outboxes_setup){.table = "granted", .outbox = "of_granted", .reader = "reading"});
    assert_query(pg,
                 "SELECT string_agg(privilege_type || ' ' || table_name, ', ' ORDER BY privilege_type) FROM "
                 "information_schema.role_table_grants WHERE grantee = 'reading'",
                 "DELETE of_granted, SELECT of_granted");
    database_run(pg, "SET ROLE reading");
    assert_fails(pg, "INSERT INTO of_granted (relid, id) VALUES (1, 'x')", "42501");
    assert_fails(pg, "UPDATE of_granted SET id = 'x'", "42501");
    database_run(pg, "RESET ROLE");
    /* A stranger cannot use the function in a trigger on his own table. */
    database_run(pg,
                 "DO $$ BEGIN EXECUTE format('CREATE FUNCTION attempt() RETURNS void LANGUAGE sql AS %%L', "
                 "format('CREATE TRIGGER t AFTER INSERT ON stranger.own FOR EACH ROW EXECUTE FUNCTION "
                 "%%s()', (SELECT min(proname) FROM pg_proc WHERE proname ~ '^of_granted_'))); END $$;"
                 "SET ROLE stranger; CREATE TABLE stranger.own (id int)");
    assert_fails(pg, "SELECT attempt()", "42501");
    PQfinish(pg);
}

static void test_outbox_drop_sql__takes_all_of_it_away(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    database_run(pg,
                 "CREATE TABLE plain (id int PRIMARY KEY, code text); CREATE TABLE parted (id int PRIMARY "
                 "KEY, code text) PARTITION BY LIST (id); CREATE TABLE leaf PARTITION OF parted DEFAULT; "
                 "CREATE FUNCTION away_from_me() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN END $$");
    outboxes_install(*state, &(struct outboxes_setup){.table = "plain", .outbox = "away"});
    outboxes_install(*state, &(struct outboxes_setup){.table = "plain", .outbox = "stays"});
    outboxes_install(*state, &(struct outboxes_setup){.table = "parted", .id = "id,id", .outbox = "away"});
    outboxes_drop(*state, "away");
    outboxes_drop(*state, "away"); /* the second time has nothing to do */
    assert_query(pg,
                 "SELECT string_agg(tgname, ',' ORDER BY tgname) FROM pg_trigger WHERE tgrelid IN "
                 "('plain'::regclass, 'parted'::regclass, 'leaf'::regclass)",
                 "stays_insert,stays_update");
    assert_query(pg, "SELECT string_agg(proname, ',') FROM pg_proc WHERE proname ~ '^away'", "away_from_me");
    assert_query(pg, "SELECT to_regclass('away') IS NULL", "t");
    database_run(pg,
                 "INSERT INTO plain VALUES (1); INSERT INTO parted VALUES (1); UPDATE leaf SET code = 'x'");
    outboxes_expect(pg, "stays", "1");
    PQfinish(pg);
}

static void test_outbox__that_triggers_write_into_is_not_dropped_by_mistake(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    database_run(pg, "CREATE TABLE alone (id int PRIMARY KEY, code text); CREATE TABLE alone_parted (id int "
                     "PRIMARY KEY, code text) PARTITION BY LIST (id); CREATE TABLE alone_leaf PARTITION OF "
                     "alone_parted DEFAULT");
    outboxes_install(*state, &(struct outboxes_setup){.table = "alone", .outbox = "of_alone"});
    outboxes_install(*state, &(struct outboxes_setup){.table = "alone_parted", .outbox = "of_alone"});
    assert_fails(pg, "DROP TABLE of_alone", "2BP01");
    database_run(pg,
                 "DROP TABLE of_alone CASCADE; INSERT INTO alone VALUES (1); UPDATE alone SET code = 'x'; "
                 "INSERT INTO alone_parted VALUES (1); UPDATE alone_leaf SET code = 'x'");
    assert_query(pg, "SELECT count(*) FROM pg_trigger WHERE tgname ~ '^of_alone'", "0");
    outboxes_install(*state, &(struct outboxes_setup){.table = "alone", .outbox = "of_alone"});
    outboxes_drop(*state, "of_alone");
    assert_query(pg, "SELECT count(*) FROM pg_proc WHERE proname ~ '^of_alone_'", "0");
    PQfinish(pg);
}

static void run_program(const struct temp_postgres *p, const char *program, const char *const *words)
{
    char path[PATH_MAX + 16];
    (void)snprintf(path, sizeof(path), "%s/%s", p->binaries, program);
    const char *argv[16] = {path};
    for (size_t i = 0; words[i] != NULL; i++)
        argv[i + 1] = words[i];
    char *output = NULL;
    int status = -1;
    struct error e = {0};
    must(process_run(argv, DUMP_MS, &output, &status, &e), &e);
    if (status != 0)
        fail_msg("%s: %s", program, output);
    free(output);
}

static void test_outbox__comes_back_from_a_dump(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE DATABASE dumped");
    database_run(pg, "CREATE DATABASE restored");
    PGconn *dumped = database_connect(p, "dumped", "test");
    database_run(dumped,
                 "CREATE TABLE d (id int PRIMARY KEY, code text); CREATE TABLE dp (id int PRIMARY KEY, "
                 "code text) PARTITION BY LIST (id); CREATE TABLE dl PARTITION OF dp DEFAULT");
    struct temp_postgres there = *p;
    (void)snprintf(there.dsn, sizeof(there.dsn), "postgresql://postgres@127.0.0.1:%u/dumped",
                   (unsigned)p->port);
    outboxes_install(&there, &(struct outboxes_setup){.table = "d", .outbox = "box"});
    outboxes_install(&there, &(struct outboxes_setup){.table = "dp", .outbox = "box"});
    database_run(dumped, "INSERT INTO d VALUES (1, 'a'); INSERT INTO dp VALUES (2, 'b'); DELETE FROM box");
    char file[PATH_MAX + 16];
    (void)snprintf(file, sizeof(file), "%s/dump.sql", p->directory);
    run_program(p, "pg_dump", (const char *const[]){"-d", there.dsn, "-f", file, NULL});
    (void)snprintf(there.dsn, sizeof(there.dsn), "postgresql://postgres@127.0.0.1:%u/restored",
                   (unsigned)p->port);
    run_program(p, "psql",
                (const char *const[]){"-Xq", "-v", "ON_ERROR_STOP=1", "-d", there.dsn, "-f", file, NULL});
    PGconn *restored = database_connect(p, "restored", "test");
    outbox_close(outboxes_open(&there, "box", "d"));
    outbox_close(outboxes_open(&there, "box", "dp"));
    database_run(restored, "INSERT INTO d VALUES (3); UPDATE d SET code = 'x' WHERE id = 1; INSERT INTO dl "
                           "VALUES (4); UPDATE dp SET code = 'y' WHERE id = 2");
    outboxes_expect(restored, "box", "3|1|4|2");
    assert_fails(restored, "DROP TABLE box", "2BP01");
    PQfinish(restored);
    PQfinish(dumped);
    PQfinish(pg);
}

/* Create functions, a type and an operator that match better than those of pg_catalog, or precede them in the
 * path. Each records that it ran. */
static void lay_traps(PGconn *pg)
{
    static const char *const functions[][2] = {
        {"quote_ident(name) RETURNS pg_catalog.text", "pg_catalog.quote_ident($1::pg_catalog.text)"},
        {"clock_timestamp() RETURNS pg_catalog.timestamptz", "pg_catalog.clock_timestamp()"},
        {"current_setting(pg_catalog.text) RETURNS pg_catalog.text", "pg_catalog.current_setting($1)"},
        {"to_regclass(pg_catalog.text) RETURNS pg_catalog.regclass", "pg_catalog.to_regclass($1)"},
        {"md5(pg_catalog.text) RETURNS pg_catalog.text", "pg_catalog.md5($1)"},
        {"set_config(pg_catalog.text, pg_catalog.text, boolean) RETURNS pg_catalog.text",
         "pg_catalog.set_config($1, $2, $3)"},
    };
    database_run(
        pg, "CREATE SCHEMA traps; CREATE TABLE traps.fell (what pg_catalog.text); CREATE FUNCTION "
            "traps.spy(pg_catalog.text) RETURNS boolean LANGUAGE sql AS 'INSERT INTO traps.fell VALUES ($1); "
            "SELECT true'; CREATE DOMAIN traps.text AS pg_catalog.text CHECK (traps.spy(VALUE))");
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        database_run(
            pg,
            "CREATE FUNCTION traps.%s LANGUAGE plpgsql AS $$BEGIN PERFORM traps.spy('%zu'); RETURN %s; END$$",
            functions[i][0], i, functions[i][1]);
}

static void test_outbox_sql__runs_nothing_that_the_search_path_leads_to(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    database_run(pg, "CREATE TABLE careful (id int PRIMARY KEY, code text)");
    lay_traps(pg);
    database_run(pg, "ALTER DATABASE postgres SET search_path = traps, pg_catalog, public");
    const struct outboxes_setup setup = {.table = "public.careful", .outbox = "public.careful_box"};
    outboxes_install(*state, &setup);
    outboxes_install(*state, &setup);
    database_run(pg, "INSERT INTO careful VALUES (1, 'a')");
    outboxes_expect(pg, "careful_box", "1");
    outboxes_drop(*state, "public.careful_box");
    database_run(pg, "ALTER DATABASE postgres RESET search_path");
    assert_query(pg, "SELECT coalesce(string_agg(DISTINCT what, ' '), '') FROM traps.fell", "");
    PQfinish(pg);
}

/* In a transaction of the DBA's own the path is the same afterwards. */
static void test_outbox_sql__names_are_looked_up_by_the_search_path(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    database_run(pg, "CREATE SCHEMA mine; CREATE TABLE mine.pathed (id int PRIMARY KEY, code text)");
    database_run(pg, "ALTER DATABASE postgres SET search_path = mine");
    outboxes_install(*state, &(struct outboxes_setup){.table = "pathed", .outbox = "pathed_box"});
    database_run(pg, "INSERT INTO mine.pathed VALUES (1, 'a')");
    outboxes_expect(pg, "mine.pathed_box", "1");
    outboxes_drop(*state, "pathed_box");
    database_run(pg, "ALTER DATABASE postgres RESET search_path");
    PQfinish(pg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outbox_sql__can_be_run_again),
        cmocka_unit_test(test_outbox_sql__mends_what_a_new_partition_misses),
        cmocka_unit_test(test_outbox_sql__refuses_what_cannot_work_and_changes_nothing),
        cmocka_unit_test(test_outbox_sql__gives_up_when_a_writer_stays),
        cmocka_unit_test(test_outbox_sql__grants_no_more_than_is_needed),
        cmocka_unit_test(test_outbox_drop_sql__takes_all_of_it_away),
        cmocka_unit_test(test_outbox__that_triggers_write_into_is_not_dropped_by_mistake),
        cmocka_unit_test(test_outbox_sql__runs_nothing_that_the_search_path_leads_to),
        cmocka_unit_test(test_outbox_sql__names_are_looked_up_by_the_search_path),
        cmocka_unit_test(test_outbox__comes_back_from_a_dump),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
