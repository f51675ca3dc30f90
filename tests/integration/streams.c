/* SPDX-License-Identifier: MIT */
#include "tests/integration/streams.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/clock.h"
#include "sql/sql.h"

int streams_setup(void **state)
{
    return database_start(state, "wal_level = logical\nmax_replication_slots = 6\nmax_wal_senders = 10\n");
}

void streams_options(struct streams_table *t, const struct temp_postgres *p, const char *table)
{
    *t = (struct streams_table){.columns = {"id"}};
    t->table = (struct stream_table){.table = table, .id_columns = t->columns, .id_count = 1};
    t->options = (struct stream_options){.dsn = p->dsn,
                                         .slot = table,
                                         .publication = table,
                                         .timeout_ms = 10000,
                                         .tables = &t->table,
                                         .table_count = 1};
}

struct stream *streams_open(const struct stream_options *options)
{
    struct stream *s = NULL;
    struct error e = {0};
    must(stream_open(&s, options, &e), &e);
    return s;
}

void streams_refuse(const struct stream_options *options, const char *text)
{
    struct stream *s = NULL;
    struct error e = {0};
    assert_int_equal(stream_open(&s, options, &e), ERR_CONFIG);
    assert_string_equal(e.text, text);
    assert_null(s);
}

struct stream *streams_begin(const struct stream_options *options)
{
    struct stream *s = streams_open(options);
    struct error e = {0};
    bool created;
    char lsn[LSN_TEXT];
    must(stream_create_slot(s, &created, lsn, &e), &e);
    must(stream_start(s, &e), &e);
    return s;
}

struct stream *streams_resume(const struct stream_options *options)
{
    struct stream *s = streams_open(options);
    struct error e = {0};
    uint64_t until = clock_mono_us() + STREAMS_PATIENCE_MS * UINT64_C(1000);
    enum err err = stream_start(s, &e);
    for (; err == ERR_BUSY && clock_mono_us() < until; err = stream_start(s, &e))
        clock_sleep_us(20000);
    must(err, &e);
    return s;
}

void streams_publish(PGconn *pg, const char *table)
{
    struct buffer text = {0};
    struct error e = {0};
    must(sql_render("publication", SQL_BINDINGS({"publication", table}, {"table", table}), NULL, &text, &e),
         &e);
    database_run(pg, "%s", buffer_text(&text));
    buffer_fini(&text);
}

PGconn *streams_table(const struct temp_postgres *p, const char *table)
{
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE %s (id int PRIMARY KEY, code text)", table);
    streams_publish(pg, table);
    return pg;
}

/* A source for tests in which the table does not matter. */
static struct source *any_source(const struct temp_postgres *p)
{
    return database_source(p, "pg_catalog.pg_class", NULL);
}

uint64_t streams_server_lsn(const struct temp_postgres *p)
{
    struct source *source = any_source(p);
    struct error e = {0};
    uint64_t lsn = 0;
    must(stream_server_lsn(source, &lsn, &e), &e);
    source_close(source);
    return lsn;
}

struct stream_slot streams_slot(const struct temp_postgres *p, const char *slot)
{
    struct source *source = any_source(p);
    struct error e = {0};
    struct stream_slot state = {0};
    must(stream_slot_state(source_connection(source), slot, &state, &e), &e);
    source_close(source);
    return state;
}

void streams_drop(const struct temp_postgres *p, const char *slot, enum err wanted)
{
    struct source *source = any_source(p);
    struct error e = {0};
    assert_int_equal(stream_slot_drop(source_connection(source), slot, &e), wanted);
    source_close(source);
}

void streams_take(struct stream *s, const struct temp_postgres *p, struct seen *seen)
{
    uint64_t lsn = streams_server_lsn(p);
    uint64_t until = clock_mono_us() + STREAMS_PATIENCE_MS * UINT64_C(1000);
    struct error e = {0};
    while (stream_position(s)->complete < lsn) {
        if (clock_mono_us() > until)
            fail_msg("the stream does not come to where the log ends");
        struct feed_batch batch;
        must(stream_next(s, &batch, 100, &e), &e);
        assert_true(batch.count <= STREAM_BATCH_ROWS);
        assert_true(batch.mark >= seen->mark);
        seen->mark = batch.mark;
        seen->rows += batch.count;
        seen->batches += batch.count > 0;
        for (size_t i = 0; i < batch.count; i++) {
            buffer_append(&seen->ids, batch.rows[i].id, batch.rows[i].length);
            buffer_append(&seen->ids, "\n", 1);
        }
    }
}

void streams_expect(struct stream *s, const struct temp_postgres *p, const char *ids)
{
    struct seen seen = {0};
    struct error e = {0};
    streams_take(s, p, &seen);
    assert_string_equal(buffer_text(&seen.ids), ids);
    must(stream_confirm(s, seen.mark, &e), &e);
    buffer_fini(&seen.ids);
}

void streams_world_begin(struct streams_world *w, void **state, const char *table, const char *columns)
{
    *w = (struct streams_world){.p = *state};
    w->pg = database_connect(w->p, "postgres", "test");
    database_run(w->pg, "CREATE TABLE %s (%s)", table, columns);
    streams_publish(w->pg, table);
    streams_options(&w->t, w->p, table);
    w->s = streams_begin(&w->t.options);
}

void streams_world_end(struct streams_world *w)
{
    stream_close(w->s);
    streams_drop(w->p, w->t.options.slot, ERR_OK);
    PQfinish(w->pg);
}
