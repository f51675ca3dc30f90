/* SPDX-License-Identifier: MIT */
/* An outbox that is unusable, that is removed while it is read, or that many sessions use at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/integration/outboxes.h"
#include "tests/lib/proxy.h"

enum { TIMEOUT_MS = 10000, WRITERS = 4, WRITES = 300, READERS = 2, READ_ROWS = 30000 };

static void expect_refusal(const char *dsn, const char *outbox, const char *table, const char *remedy)
{
    struct outbox_options options = {.dsn = dsn, .outbox = outbox, .table = table, .timeout_ms = TIMEOUT_MS};
    struct outbox *o = NULL;
    struct error e = {0};
    enum err err = outbox_open(&o, &options, &e);
    if (err != ERR_CONFIG || strstr(e.text, remedy) == NULL)
        fail_msg("outbox %s: %s: %s; expected: %s", outbox, error_name(err), e.text, remedy);
}

static void test_outbox_open__refuses_what_cannot_work_and_names_the_remedy(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg,
                 "CREATE TABLE fed (id int PRIMARY KEY, code text); CREATE TABLE unfed (LIKE fed); CREATE "
                 "TABLE half (LIKE fed INCLUDING ALL); CREATE TABLE off (LIKE fed INCLUDING ALL)");
    static const char *const tables[] = {"fed", "half", "off"};
    for (size_t i = 0; i < 3; i++)
        outboxes_install(p, &(struct outboxes_setup){.table = tables[i], .outbox = "box"});
    database_run(pg, "DROP TRIGGER box_update ON half; ALTER TABLE off DISABLE TRIGGER box_insert;"
                     "CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.box (LIKE box)");
    expect_refusal(p->dsn, "missing", NULL, "run sql/outbox.sql, or qualify the name");
    expect_refusal(p->dsn, "\"unbalanced", NULL, "outbox \"unbalanced");
    expect_refusal(p->dsn, "fed", NULL,
                   "public.fed is not an outbox: it lacks the columns seq, relid and id");
    expect_refusal(p->dsn, "box", "missing", "table missing does not exist");
    expect_refusal(p->dsn, "box", "unfed", "table public.unfed does not write all its rows into it; run sql");
    expect_refusal(p->dsn, "box", "half", "table public.half does not write");
    expect_refusal(p->dsn, "box", "off", "table public.off does not write");
    expect_refusal(p->dsn, "elsewhere.box", "fed", "table public.fed does not write");
    expect_refusal("nonsense", "box", NULL, "dsn is not a connection string");
    outbox_close(outboxes_open(p, "box", "fed"));
    outbox_close(NULL);
    database_run(pg, "ALTER TABLE box SET UNLOGGED");
    expect_refusal(p->dsn, "box", "fed",
                   "a crash of the server would empty it; ALTER TABLE public.box SET LOGGED");
    PQfinish(pg);
}

static int64_t state_of(struct outbox *o, const char *table)
{
    struct error e = {0};
    int64_t state = 0;
    must(outbox_table_state(o, table, "id", &state, &e), &e);
    return state;
}

/* What a new partition gets from its parent is no gap. What is changed in a partition is one. */
static void test_outbox_table_state__knows_partitions(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    struct error e = {0};
    int64_t ignored;
    database_run(pg, "CREATE TABLE cut (id int PRIMARY KEY, code text) PARTITION BY RANGE (id);"
                     "CREATE TABLE cut_1 PARTITION OF cut FOR VALUES FROM (0) TO (10)");
    outboxes_install(p, &(struct outboxes_setup){.table = "cut", .outbox = "of_cut"});
    struct outbox *o = outboxes_open(p, "of_cut", "cut");
    int64_t before = state_of(o, "public.cut");
    database_run(pg, "CREATE TABLE cut_2 PARTITION OF cut FOR VALUES FROM (10) TO (20);"
                     "CREATE TABLE cut_3 (LIKE cut INCLUDING ALL); ALTER TABLE cut ATTACH PARTITION cut_3 "
                     "FOR VALUES FROM (20) TO (30)");
    assert_int_equal(state_of(o, "public.cut"), before);
    database_run(pg, "ALTER TABLE cut_2 DISABLE TRIGGER of_cut_insert");
    assert_int_equal(outbox_table_state(o, "public.cut", "id", &ignored, &e), ERR_CONFIG);
    database_run(pg, "ALTER TABLE cut_2 ENABLE TRIGGER of_cut_insert");
    assert_true(state_of(o, "public.cut") != before);
    outbox_close(o);
    PQfinish(pg);
}

/* One made by outbox.sql with settings, and one without. */
static void test_outbox_table_state__knows_the_columns_of_the_id(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    int64_t ignored;
    struct error e = {0};
    database_run(pg, "CREATE TABLE odd (\"Odd \"\"id)\" text, tenant int, at date NOT NULL, code text, "
                     "PRIMARY KEY (\"Odd \"\"id)\", tenant))");
    outboxes_install(
        *state, &(struct outboxes_setup){.table = "odd", .outbox = "of_odd", .id = "Odd \"id), tenant, at"});
    struct outbox *o = outboxes_open(*state, "of_odd", "odd");
    must(outbox_table_state(o, "public.odd", "Odd \"id),tenant,at", &ignored, &e), &e);
    assert_int_equal(outbox_table_state(o, "public.odd", "tenant,Odd \"id),at", &ignored, &e), ERR_CONFIG);
    assert_int_equal(outbox_table_state(o, "public.odd", "tenant", &ignored, &e), ERR_CONFIG);
    outbox_close(o);
    PQfinish(pg);
}

static void test_outbox_open__refuses_a_function_that_was_replaced(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE plain (id int PRIMARY KEY, code text);"
                     "CREATE TABLE dated (id timestamptz PRIMARY KEY, code text)");
    static const char *const tables[] = {"plain", "dated"};
    for (size_t i = 0; i < 2; i++) {
        outboxes_install(p, &(struct outboxes_setup){.table = tables[i], .outbox = "of_both"});
        outbox_close(outboxes_open(p, "of_both", tables[i]));
    }
    database_run(pg, "DO $$ DECLARE f regproc; BEGIN FOR f IN SELECT oid::regproc FROM pg_proc WHERE proname "
                     "LIKE 'of\\_both\\_%%' LOOP EXECUTE format('CREATE OR REPLACE FUNCTION %%s() RETURNS "
                     "trigger LANGUAGE plpgsql AS ''BEGIN RETURN NULL; END''', f); END LOOP; END $$");
    for (size_t i = 0; i < 2; i++) {
        expect_refusal(p->dsn, "of_both", tables[i], "does not write all its rows into it; run sql");
        outboxes_install(p, &(struct outboxes_setup){.table = tables[i], .outbox = "of_both"});
        outbox_close(outboxes_open(p, "of_both", tables[i]));
    }
    PQfinish(pg);
}

static void test_outbox_open__refuses_a_standby(void **state)
{
    struct temp_postgres standby;
    struct error e = {0};
    PGconn *pg = database_connect(*state, "postgres", "test");
    database_run(pg, "CREATE TABLE followed (id int PRIMARY KEY, code text)");
    outboxes_install(*state, &(struct outboxes_setup){.table = "followed", .outbox = "of_followed"});
    must(temp_postgres_start_standby(&standby, *state, &e), &e);
    expect_refusal(standby.dsn, "of_followed", "followed", "connect to the primary");
    temp_postgres_fini(&standby);
    PQfinish(pg);
}

static void test_outbox_open__needs_select_and_delete_and_no_more(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    char dsn[128];
    (void)snprintf(dsn, sizeof(dsn), "postgresql://reader@127.0.0.1:%u/postgres", (unsigned)p->port);
    database_run(pg, "CREATE ROLE reader LOGIN; CREATE TABLE kept (id int PRIMARY KEY, code text); CREATE "
                     "SCHEMA closed; REVOKE ALL ON SCHEMA public FROM PUBLIC");
    outboxes_install(
        p, &(struct outboxes_setup){.table = "kept", .outbox = "closed.waiting", .reader = "reader"});
    outboxes_install(p, &(struct outboxes_setup){.table = "kept", .outbox = "of_kept", .reader = "reader"});
    expect_refusal(dsn, "closed.waiting", NULL, "permission denied for schema closed");
    database_run(pg, "GRANT USAGE ON SCHEMA public TO reader; REVOKE DELETE ON of_kept FROM reader");
    expect_refusal(dsn, "of_kept", NULL, "GRANT SELECT, DELETE ON public.of_kept TO reader");
    database_run(pg, "GRANT DELETE ON of_kept TO reader; ALTER TABLE of_kept ENABLE ROW LEVEL SECURITY");
    expect_refusal(dsn, "of_kept", NULL, "ALTER TABLE public.of_kept DISABLE ROW LEVEL SECURITY");
    database_run(pg, "ALTER TABLE of_kept DISABLE ROW LEVEL SECURITY");
    struct outbox_options options = {
        .dsn = dsn, .outbox = "of_kept", .table = "kept", .timeout_ms = TIMEOUT_MS};
    struct outbox *o = NULL;
    double lag;
    struct feed_batch batch;
    struct error e = {0};
    must(outbox_open(&o, &options, &e), &e); /* the reader has no right on the table "kept" at all */
    database_run(pg, "INSERT INTO kept VALUES (1), (2)");
    uint64_t mark = outboxes_next(o, "1|2");
    must(outbox_confirm(o, mark, &e), &e);
    must(outbox_lag(o, &lag, &e), &e);
    assert_true(lag == 0);
    database_run(pg, "REVOKE SELECT ON of_kept FROM reader; INSERT INTO kept VALUES (3)");
    assert_int_equal(outbox_next(o, &batch, 0, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "run sql/outbox.sql"));
    outboxes_install(p, &(struct outboxes_setup){.table = "kept", .outbox = "of_kept", .reader = "reader"});
    mark = outboxes_next(o, "3");
    database_run(pg, "REVOKE DELETE ON of_kept FROM reader");
    assert_int_equal(outbox_confirm(o, mark, &e), ERR_CONFIG);
    database_run(pg, "GRANT DELETE ON of_kept TO reader");
    must(outbox_confirm(o, mark, &e), &e);
    outbox_close(o);
    database_run(pg, "GRANT ALL ON SCHEMA public TO PUBLIC");
    PQfinish(pg);
}

static void test_outbox__that_is_dropped_under_its_reader_is_an_error(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    struct outboxes_setup setup = {.table = "doomed", .outbox = "of_doomed"};
    database_run(pg, "CREATE TABLE doomed (id int PRIMARY KEY, code text)");
    outboxes_install(p, &setup);
    struct outbox *o = outboxes_open(p, "of_doomed", "doomed");
    struct feed_batch batch;
    double lag;
    struct error e = {0};
    database_run(pg, "INSERT INTO doomed VALUES (1)");
    uint64_t mark = outboxes_next(o, "1");
    outboxes_drop(p, "of_doomed");
    assert_int_equal(outbox_next(o, &batch, 0, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "\"public.of_doomed\" does not exist; run sql/outbox.sql"));
    assert_int_equal(outbox_confirm(o, mark, &e), ERR_CONFIG);
    assert_int_equal(outbox_lag(o, &lag, &e), ERR_CONFIG);
    /* An outbox that was made again uses the same numbers for other rows. */
    outboxes_install(p, &setup);
    database_run(pg, "INSERT INTO doomed VALUES (2), (3)");
    must(outbox_confirm(o, mark, &e), &e);
    assert_int_equal(outbox_next(o, &batch, 0, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "created again, so rows may have been missed"));
    assert_int_equal(batch.count, 0);
    outbox_close(o);
    o = outboxes_open(p, "of_doomed", "doomed");
    mark = outboxes_next(o, "2|3");
    must(outbox_confirm(o, mark, &e), &e);
    outbox_close(o);
    PQfinish(pg);
}

/* Its numbers start again, too, and the table is the same one. Rows that a rewrite keeps may come twice. */
static void test_outbox__that_is_truncated_or_rewritten_under_its_reader_gives_every_row(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    struct outboxes_setup setup = {.table = "cleared", .outbox = "of_cleared"};
    struct error e = {0};
    database_run(pg, "CREATE TABLE cleared (id int PRIMARY KEY, code text)");
    outboxes_install(p, &setup);
    struct outbox *o = outboxes_open(p, "of_cleared", "cleared");
    database_run(pg, "INSERT INTO cleared VALUES (1), (2)");
    uint64_t mark = outboxes_next(o, "1|2");
    database_run(pg, "TRUNCATE of_cleared RESTART IDENTITY");
    database_run(pg, "INSERT INTO cleared VALUES (3), (4), (5)");
    must(outbox_confirm(o, mark, &e), &e);
    outboxes_next(o, "3|4|5");
    database_run(pg, "TRUNCATE of_cleared RESTART IDENTITY");
    database_run(pg, "INSERT INTO cleared VALUES (6)");
    mark = outboxes_next(o, "6");
    database_run(pg, "VACUUM FULL of_cleared");
    must(outbox_confirm(o, mark, &e), &e);
    mark = outboxes_next(o, "6");
    must(outbox_confirm(o, mark, &e), &e);
    outboxes_expect(pg, "of_cleared", "");
    outbox_close(o);
    PQfinish(pg);
}

/* A writer thread. Its transactions write some rows; some roll back, some have savepoints. */
struct writer {
    pthread_t thread;
    const char *dsn;
    atomic_uint *running;
    unsigned number;
    bool failed;
};

static bool execute(PGconn *pg, const char *text)
{
    PGresult *r = PQexec(pg, text);
    bool fine = PQresultStatus(r) == PGRES_COMMAND_OK;
    PQclear(r);
    return fine;
}

static void *write_rows(void *arg)
{
    struct writer *w = arg;
    PGconn *pg = PQconnectdb(w->dsn);
    unsigned seed = w->number;
    for (unsigned n = 0; n < WRITES && !w->failed; n++) {
        char text[512];
        unsigned id = (w->number * WRITES + n) * 10;
        int dice = rand_r(&seed) % 4;
        (void)snprintf(
            text, sizeof(text),
            "BEGIN; INSERT INTO busy VALUES (%u), (%u); SAVEPOINT s; INSERT INTO busy VALUES (%u); "
            "%s; UPDATE busy SET id = id + 5 WHERE id = %u; %s",
            id, id + 1, id + 2, dice % 2 == 0 ? "ROLLBACK TO s" : "RELEASE s", id + 1,
            dice == 3 ? "ROLLBACK" : "COMMIT");
        w->failed = !execute(pg, text);
    }
    PQfinish(pg);
    atomic_fetch_sub(w->running, 1);
    return NULL;
}

/* Note the rows in a table of the test, as a reader would add their keys. */
static void note_batch(PGconn *pg, const struct feed_batch *batch)
{
    database_run(pg, "BEGIN");
    for (size_t i = 0; i < batch->count; i++)
        database_run(pg, "INSERT INTO seen VALUES (%.*s)", (int)batch->rows[i].length, batch->rows[i].id);
    database_run(pg, "COMMIT");
}

static void test_outbox__gives_every_row_of_many_writers(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE busy (id int PRIMARY KEY); CREATE TABLE seen (id int)");
    outboxes_install(p, &(struct outboxes_setup){.table = "busy", .columns = "", .outbox = "of_busy"});
    struct outbox *o = outboxes_open(p, "of_busy", "busy");
    struct writer writers[WRITERS];
    atomic_uint running = WRITERS;
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.dsn = p->dsn, .number = i + 1, .running = &running};
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_rows, &writers[i]), 0);
    }
    struct feed_batch batch;
    struct error e = {0};
    for (bool ended = false; !ended || batch.count > 0;) { /* read once more after the last writer */
        ended = atomic_load(&running) == 0;
        must(outbox_next(o, &batch, 100, &e), &e);
        note_batch(pg, &batch);
        must(outbox_confirm(o, batch.mark, &e), &e);
    }
    for (unsigned i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_join(writers[i].thread, NULL), 0);
        assert_false(writers[i].failed);
    }
    char *missed =
        database_value(pg, "SELECT count(*) || ' of ' || (SELECT count(*) > 500 FROM busy) FROM busy "
                           "WHERE id NOT IN (SELECT id FROM seen)");
    assert_string_equal(missed, "0 of true");
    free(missed);
    outbox_close(o);
    PQfinish(pg);
}

/* A reader thread, which reads to the end of the outbox. */
struct reader {
    pthread_t thread;
    const char *dsn;
    _Atomic unsigned char *seen; /* indexed by id */
    struct error e;
};

static enum err read_batch(struct reader *r, struct outbox *o, size_t *count)
{
    struct feed_batch batch;
    enum err err = outbox_next(o, &batch, 0, &r->e);
    for (size_t i = 0; i < batch.count; i++)
        atomic_store(&r->seen[strtoul(batch.rows[i].id, NULL, 10)], 1);
    *count = batch.count;
    return err == ERR_OK ? outbox_confirm(o, batch.mark, &r->e) : err;
}

static void *read_rows(void *arg)
{
    struct reader *r = arg;
    struct outbox_options options = {.dsn = r->dsn, .outbox = "of_shared", .timeout_ms = TIMEOUT_MS};
    struct outbox *o = NULL;
    enum err err = outbox_open(&o, &options, &r->e);
    for (size_t count = 1; err == ERR_OK && count > 0;)
        err = read_batch(r, o, &count);
    outbox_close(o);
    return err == ERR_OK ? NULL : r;
}

static void test_outbox__has_room_for_two_readers(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE shared (id int PRIMARY KEY, code text)");
    outboxes_install(p, &(struct outboxes_setup){.table = "shared", .outbox = "of_shared"});
    database_run(pg, "INSERT INTO shared SELECT n FROM generate_series(0, %d) AS n", READ_ROWS - 1);
    _Atomic unsigned char *seen = calloc(READ_ROWS, sizeof(*seen));
    assert_non_null(seen);
    struct reader readers[READERS];
    for (size_t i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.dsn = p->dsn, .seen = seen};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_rows, &readers[i]), 0);
    }
    for (size_t i = 0; i < READERS; i++) {
        void *failed;
        assert_int_equal(pthread_join(readers[i].thread, &failed), 0);
        if (failed != NULL)
            fail_msg("reader %zu: %s", i, readers[i].e.text);
    }
    for (size_t i = 0; i < READ_ROWS; i++)
        assert_int_equal(atomic_load(&seen[i]), 1);
    free((void *)seen);
    outboxes_expect(pg, "of_shared", "");
    PQfinish(pg);
}

static unsigned long behind_colon(const char *field)
{
    return strtoul(field + strcspn(field, ":") + 1, NULL, 16);
}

/* The seconds until the server probes the session of the connection from @port to @server; -1: it does not,
 * or waits for an acknowledgement. */
static double seconds_to_probe(unsigned server, unsigned long port)
{
    enum { NUMBER, FROM, TO, STATE, QUEUES, TIMER, FIELDS, KEEPALIVE = 2, TICKS_A_SECOND = 100 };
    char line[256], *field[FIELDS], *rest;
    double seconds = -1;
    FILE *f = fopen("/proc/net/tcp", "re");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof(line), f)); /* the names of the fields */
    while (fgets(line, sizeof(line), f) != NULL) {
        for (unsigned i = 0; i < FIELDS; i++)
            assert_non_null(field[i] = strtok_r(i == 0 ? line : NULL, " ", &rest));
        if (behind_colon(field[FROM]) == server && behind_colon(field[TO]) == port &&
            strtoul(field[TIMER], NULL, 16) == KEEPALIVE)
            seconds = (double)behind_colon(field[TIMER]) / TICKS_A_SECOND;
    }
    (void)fclose(f);
    return seconds;
}

/* Its lock would keep the next reader out for hours. */
static void test_outbox__of_a_machine_that_is_gone_is_free_within_a_minute(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE watched (id int PRIMARY KEY, code text)");
    outboxes_install(p, &(struct outboxes_setup){.table = "watched", .outbox = "of_watched"});
    const struct outbox_options options = {
        .dsn = p->dsn, .application = "watched", .outbox = "of_watched", .timeout_ms = TIMEOUT_MS};
    struct outbox *o = NULL;
    struct error e = {0};
    must(outbox_open(&o, &options, &e), &e);
    char *port =
        database_value(pg, "SELECT client_port FROM pg_stat_activity WHERE application_name = 'watched'");
    double seconds = -1;
    for (int i = 0; i < 100 && seconds < 0; i++) {
        clock_sleep_us(20000);
        seconds = seconds_to_probe(p->port, strtoul(port, NULL, 10));
    }
    free(port);
    outbox_close(o);
    PQfinish(pg);
    assert_true(seconds > 0 && seconds <= 30);
}

struct claimer {
    struct outbox *outbox;
    bool others;
    enum err code;
    struct error e;
};

static void *claim(void *arg)
{
    struct claimer *c = arg;
    c->code = outbox_claim(c->outbox, 1, &c->others, &c->e);
    return NULL;
}

/* Each looks before the other one has said anything. */
static void test_outbox_claim__refuses_one_of_two_at_one_moment(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE claimed (id int PRIMARY KEY, code text)");
    outboxes_install(p, &(struct outboxes_setup){.table = "claimed", .outbox = "of_claimed"});
    struct proxy *proxy;
    unsigned route;
    uint16_t port;
    char dsn[96];
    struct claimer c = {0};
    struct error e = {0};
    pthread_t thread;
    bool others = true;
    must(proxy_start(&proxy, &e), &e);
    must(proxy_add(proxy, WIRE_POSTGRES, p->port, &route, &port, &e), &e);
    (void)snprintf(dsn, sizeof(dsn), "postgresql://postgres@127.0.0.1:%u/postgres", (unsigned)port);
    proxy_count_as_job(proxy, "claimer");
    proxy_count_only(proxy, "pg_advisory_lock_shared");
    proxy_count(proxy, "postgres", 1, PROXY_BEFORE);
    const struct outbox_options options = {
        .dsn = dsn, .application = "claimer", .outbox = "of_claimed", .timeout_ms = TIMEOUT_MS};
    must(outbox_open(&c.outbox, &options, &e), &e);
    struct outbox *o = outboxes_open(p, "of_claimed", NULL);
    assert_int_equal(pthread_create(&thread, NULL, claim, &c), 0);
    assert_true(proxy_await_held(proxy, TIMEOUT_MS)); /* it has looked */
    must(outbox_claim(o, 2, &others, &e), &e);
    assert_false(others);
    proxy_release(proxy, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(c.code, ERR_CONFIG);
    assert_true(c.others);
    outbox_close(c.outbox);
    outbox_close(o);
    proxy_stop(proxy);
    PQfinish(pg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outbox_open__refuses_what_cannot_work_and_names_the_remedy),
        cmocka_unit_test(test_outbox_open__refuses_a_function_that_was_replaced),
        cmocka_unit_test(test_outbox_table_state__knows_partitions),
        cmocka_unit_test(test_outbox_table_state__knows_the_columns_of_the_id),
        cmocka_unit_test(test_outbox_open__refuses_a_standby),
        cmocka_unit_test(test_outbox_open__needs_select_and_delete_and_no_more),
        cmocka_unit_test(test_outbox__that_is_dropped_under_its_reader_is_an_error),
        cmocka_unit_test(test_outbox__that_is_truncated_or_rewritten_under_its_reader_gives_every_row),
        cmocka_unit_test(test_outbox__gives_every_row_of_many_writers),
        cmocka_unit_test(test_outbox__has_room_for_two_readers),
        cmocka_unit_test(test_outbox_claim__refuses_one_of_two_at_one_moment),
        cmocka_unit_test(test_outbox__of_a_machine_that_is_gone_is_free_within_a_minute),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
