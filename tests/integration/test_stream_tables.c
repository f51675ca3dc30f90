/* SPDX-License-Identifier: MIT */
/* Rows of partitions, of several tables, and of other tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/integration/streams.h"

/* Partitions. */

static void begin_partitioned(struct streams_world *w, void **state, const char *table, bool via_root)
{
    *w = (struct streams_world){.p = *state};
    w->pg = database_connect(w->p, "postgres", "test");
    database_run(w->pg,
                 "CREATE TABLE %s (note text, id int PRIMARY KEY) PARTITION BY RANGE (id);"
                 "CREATE TABLE %s_1 PARTITION OF %s FOR VALUES FROM (0) TO (100);"
                 "CREATE TABLE %s_2 (id int PRIMARY KEY, note text)",
                 table, table, table, table);
    database_run(w->pg, "ALTER TABLE %s ATTACH PARTITION %s_2 FOR VALUES FROM (100) TO (200)", table, table);
    streams_publish(w->pg, table);
    database_run(w->pg, "ALTER PUBLICATION %s SET (publish_via_partition_root = %s)", table,
                 via_root ? "true" : "false");
    streams_options(&w->t, w->p, table);
    w->s = streams_begin(&w->t.options);
}

/* All rows belong to the table that was requested. */
static void expect_partitioned(struct streams_world *w, const char *ids)
{
    struct error e = {0};
    struct buffer text = {0};
    char *oid = database_value(w->pg, "SELECT '%s'::regclass::oid", w->t.table.table);
    uint64_t lsn = streams_server_lsn(w->p);
    while (stream_position(w->s)->complete < lsn) {
        struct feed_batch batch;
        must(stream_next(w->s, &batch, 100, &e), &e);
        for (size_t i = 0; i < batch.count; i++) {
            assert_int_equal(batch.rows[i].relid, strtoul(oid, NULL, 10));
            assert_int_equal(stream_table_of(w->s, batch.rows[i].relid), 0);
            buffer_append(&text, batch.rows[i].id, batch.rows[i].length);
            buffer_append(&text, " ", 1);
        }
        must(stream_confirm(w->s, batch.mark, &e), &e);
    }
    assert_string_equal(buffer_text(&text), ids);
    buffer_fini(&text);
    free(oid);
}

static void follow_partitions(void **state, const char *table, bool via_root)
{
    struct streams_world w;
    begin_partitioned(&w, state, table, via_root);
    database_run(w.pg, "INSERT INTO %s (id) VALUES (1), (101), (2)", table);
    expect_partitioned(&w, "1 101 2 ");
    database_run(w.pg, "UPDATE %s SET id = 102 WHERE id = 2", table); /* row 2 changes its partition */
    expect_partitioned(&w, "102 ");
    /* later partitions: a new one, and a table that the stream did not follow before */
    database_run(w.pg,
                 "CREATE TABLE %s_3 PARTITION OF %s FOR VALUES FROM (200) TO (300);"
                 "CREATE TABLE %s_4 (LIKE %s)",
                 table, table, table, table);
    database_run(w.pg, "ALTER PUBLICATION %s ADD TABLE %s_4; INSERT INTO %s_4 (id) VALUES (301)", table,
                 table, table);
    expect_partitioned(&w, "");
    database_run(w.pg, "ALTER TABLE %s ATTACH PARTITION %s_4 FOR VALUES FROM (300) TO (400)", table, table);
    database_run(w.pg, "INSERT INTO %s (id) VALUES (201), (302)", table);
    expect_partitioned(&w, "201 302 ");
    streams_world_end(&w);
}

static void test_stream_next__hands_out_rows_of_partitions_as_the_tables(void **state)
{
    follow_partitions(state, "via_root", true);
    follow_partitions(state, "via_leaves", false);
}

/* Tables. */

static void test_stream_next__hands_out_rows_of_its_tables_only(void **state)
{
    struct streams_world w;
    streams_world_begin(&w, state, "ours", "id int PRIMARY KEY");
    streams_world_end(&w);
    w.p = *state;
    w.pg = database_connect(w.p, "postgres", "test");
    database_run(w.pg, "CREATE SCHEMA \"Odd Name\"; CREATE TABLE \"Odd Name\".second (key uuid PRIMARY KEY);"
                       "CREATE TABLE foreign_one (id int PRIMARY KEY);"
                       "CREATE PUBLICATION everything FOR ALL TABLES");
    const char *const id[] = {"id"};
    const char *const key[] = {"key"};
    const struct stream_table tables[] = {{"ours", id, 1}, {"\"Odd Name\".second", key, 1}};
    w.t.options.publication = "everything";
    w.t.options.tables = tables;
    w.t.options.table_count = 2;
    w.s = streams_begin(&w.t.options);
    database_run(w.pg,
                 "BEGIN; INSERT INTO foreign_one VALUES (5); INSERT INTO ours VALUES (1);"
                 "INSERT INTO \"Odd Name\".second VALUES ('00000000-0000-0000-0000-000000000007'); COMMIT");
    database_run(w.pg, "CREATE TABLE foreign_two (id int PRIMARY KEY); INSERT INTO foreign_two VALUES (6)");
    database_run(w.pg, "INSERT INTO ours VALUES (2)");
    struct feed_batch batch = {0};
    struct error e = {0};
    size_t of_table[2] = {0};
    while (of_table[0] + of_table[1] < 3) {
        must(stream_next(w.s, &batch, STREAMS_PATIENCE_MS, &e), &e);
        assert_true(batch.count > 0);
        for (size_t i = 0; i < batch.count; i++) {
            size_t table = stream_table_of(w.s, batch.rows[i].relid);
            assert_in_range(table, 0, 1);
            of_table[table]++;
        }
    }
    assert_int_equal(of_table[0], 2);
    must(stream_confirm(w.s, batch.mark, &e), &e);
    streams_expect(w.s, w.p, "");
    database_run(w.pg, "DROP PUBLICATION everything");
    streams_world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_next__hands_out_rows_of_partitions_as_the_tables),
        cmocka_unit_test(test_stream_next__hands_out_rows_of_its_tables_only),
    };
    return cmocka_run_group_tests(tests, streams_setup, database_teardown);
}
