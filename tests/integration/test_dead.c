/* SPDX-License-Identifier: MIT */
/* Keys whose rows were deleted: status counts them, and a threshold starts a rebuild without them. Each
 * filter has a table of its own. The controller looks at a source every 10 s, so these tests wait for
 * that. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

enum {
    ROWS = 20000, /* more rows than are counted exactly: the planner estimates them */
    DELETED = 8000,
    CAPACITY = 38000, /* between UPDATE and ANALYZE the planner takes dead row versions for live ones: up to
                         29,500 */
    MORE = 11000,     /* keys that fill the filter */
    WAIT_MS = 60000,
    LOOK_MS = 10000, /* time between two looks at a source */
    FIRST = 2,       /* the first generation that is built; the one before is a placeholder */
    LOOKS = 3        /* at most so many looks pass before a rebuild starts */
};

static struct fixture fixture;
static uint64_t deleted_ms; /* when rows were deleted */

/* "length(code) > 0" is true for all rows, but the planner estimates a third. */
static const struct table {
    const char *name, *where, *lines;
    bool shut; /* the filter has a window, which is shut */
} tables[] = {
    {"dead", "deleted_at IS NULL", "expand_at_dead = 0.3\n", false},
    {"calm", "deleted_at IS NULL", "", false},
    {"shut", "deleted_at IS NULL", "expand_at_dead = 0.3\n", true},
    {"wrong", "length(code) > 0", "expand_at_dead = 0.3\n", false},
};

enum { TABLES = sizeof(tables) / sizeof(tables[0]) };

/* --- Postgres --- */

static void run(PGconn *db, const char *format, const char *table)
{
    char sql[512];
    (void)snprintf(sql, sizeof(sql), format, table);
    fixture_sql(db, sql);
}

static uint64_t ask(const char *format, const char *table)
{
    char sql[512];
    (void)snprintf(sql, sizeof(sql), format, table);
    PGresult *r = PQexec(fixture.db, sql);
    if (PQresultStatus(r) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(fixture.db));
    uint64_t n = strtoull(PQgetvalue(r, 0, 0), NULL, 10);
    PQclear(r);
    return n;
}

/* Postgres counts a session's changes at its end at the latest, and ANALYZE takes off only counted ones. So
 * wait for the count before ANALYZE. */
static void change_and_analyse(const char *format, const char *table, uint64_t changed)
{
    PGconn *writer = PQconnectdb(fixture.postgres.dsn);
    run(writer, format, table);
    PQfinish(writer);
    uint64_t until = clock_mono_us() + WAIT_MS * 1000ull;
    while (ask("SELECT pg_stat_get_mod_since_analyze('%s'::regclass)", table) < changed) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(20000);
    }
    run(fixture.db, "ANALYZE %s", table);
}

static void make_table(const char *name)
{
    run(fixture.db,
        "CREATE TABLE %s (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, code text NOT NULL, deleted_at "
        "timestamptz) WITH (autovacuum_enabled = off)",
        name);
    char insert[256];
    (void)snprintf(insert, sizeof(insert),
                   "INSERT INTO %%s (code) SELECT 'c' || n FROM generate_series(0, %d) n", ROWS - 1);
    change_and_analyse(insert, name, ROWS);
}

/* --- the daemon --- */

/* A window of an hour that opens in two hours. */
static void shut_window(char out[32])
{
    time_t from = time(NULL) + 7200, to = from + 3600;
    struct tm tm;
    assert_non_null(gmtime_r(&from, &tm));
    assert_true(strftime(out, 8, "%H:%M-", &tm) > 0);
    assert_non_null(gmtime_r(&to, &tm));
    assert_true(strftime(out + strlen(out), 8, "%H:%M", &tm) > 0);
}

static void start_daemon(void)
{
    struct error e = {""};
    char filters[2048], window[32];
    size_t n = 0;
    shut_window(window);
    for (size_t i = 0; i < TABLES; i++) {
        const struct table *t = &tables[i];
        n += (size_t)snprintf(filters + n, sizeof(filters) - n,
                              "[filter %s]\ncapacity = %d\nerror_rate = 0.001\ntable = %s\nkey = code\n"
                              "where = %s\ngrace = 100ms\nfollow = no\n%s%s%s\n",
                              t->name, CAPACITY, t->name, t->where, t->lines, t->shut ? "window = " : "",
                              t->shut ? window : "");
        assert_true(n < sizeof(filters));
    }
    const struct daemon_options o = {.nodes = fixture.node_list,
                                     .dsn = fixture.postgres.dsn,
                                     .service = "check_interval = 100ms\n",
                                     .filters = filters};
    must(daemon_start(&fixture.daemon[0], &o, &e), e);
    fixture_reconnect(&fixture, 0);
}

static int64_t number(const char *filter, const char *field)
{
    struct error e = {""};
    int64_t n = 0;
    must(client_status_number(&fixture.client[0], filter, field, &n, &e), e);
    return n;
}

static double decimal(const char *filter, const char *field)
{
    struct error e = {""};
    char text[64] = "";
    must(client_status(&fixture.client[0], filter, field, text, sizeof(text), &e), e);
    return strtod(text, NULL);
}

static void expect(const char *filter, const char *field, const char *wanted)
{
    struct error e = {""};
    char text[256] = "";
    must(client_status(&fixture.client[0], filter, field, text, sizeof(text), &e), e);
    if (strcmp(text, wanted) != 0)
        fail_msg("%s: %s is \"%s\"", filter, field, text);
}

/* The value must be near @wanted, as ANALYZE may be off by a row. */
static void expect_near(const char *filter, const char *field, int64_t wanted)
{
    int64_t n = number(filter, field);
    if (n < wanted - 20 || n > wanted + 20)
        fail_msg("%s: %s is %lld, not %lld", filter, field, (long long)n, (long long)wanted);
}

static void expect_reason(const char *filter, const char *field)
{
    struct error e = {""};
    char text[256] = "";
    must(client_status(&fixture.client[0], filter, field, text, sizeof(text), &e), e);
    if (strstr(text, " keys are dead: 40% (expand_at_dead: 30%)") == NULL)
        fail_msg("%s: %s is \"%s\"", filter, field, text);
}

static void wait_for(const char *filter, const char *field, const char *wanted)
{
    struct error e = {""};
    must(client_wait_status(&fixture.client[0], filter, field, wanted, WAIT_MS, &e), e);
}

static void wait_for_generation(const char *filter, int64_t generation)
{
    struct error e = {""};
    must(client_wait_status_least(&fixture.client[0], filter, "generation", generation, WAIT_MS, &e), e);
    wait_for(filter, "job_state", "done");
    assert_int_equal(number(filter, "generation"), generation);
}

/* Wait for as many looks at the source as would start a rebuild. */
static void let_it_look(const char *filter, uint64_t since_ms)
{
    struct error e = {""};
    must(client_wait_status_least(&fixture.client[0], filter, "source_rows_at",
                                  (int64_t)since_ms + LOOKS * LOOK_MS + 1, WAIT_MS, &e),
         e);
}

static uint64_t now_ms(void)
{
    return clock_wall_us() / 1000;
}

static uint64_t present(const char *filter, uint64_t first, uint64_t count)
{
    struct error e = {""};
    uint64_t n = 0;
    must(client_mexists(&fixture.client[0], filter, fixture_code, first, count, &n, NULL, &e), e);
    return n;
}

static int setup(void **state)
{
    (void)state;
    assert_int_equal(setenv("TZ", "UTC0", 1), 0); /* also for the daemon */
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .postgres = true});
    for (size_t i = 0; i < TABLES; i++)
        make_table(tables[i].name);
    start_daemon();
    for (size_t i = 0; i < TABLES; i++) {
        wait_for(tables[i].name, "built", "1");
        wait_for(tables[i].name, "job_state", "done");
    }
    wait_for("calm", "source_rows_by", "statistics");
    expect_near("calm", "source_rows", ROWS);
    expect_near("calm", "dead_keys", 0);
    assert_int_equal(present("dead", 0, ROWS), ROWS);
    for (size_t i = 0; i < TABLES; i++)
        if (strcmp(tables[i].name, "wrong") != 0)
            change_and_analyse("UPDATE %s SET deleted_at = now() WHERE id <= 8000", tables[i].name, DELETED);
    deleted_ms = now_ms();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

/* --- tests --- */

/* The deleted rows 1 to 8000 have the codes c0 to c7999. */
static void test_dead__starts_a_rebuild_that_leaves_deleted_keys_out(void **state)
{
    (void)state;
    expect("dead", "expand_at_dead_ratio", "0.3");
    wait_for_generation("dead", FIRST + 1);
    expect("dead", "job_trigger", "dead");
    expect_reason("dead", "job_reason");
    assert_int_equal(present("dead", DELETED, ROWS - DELETED), ROWS - DELETED);
    assert_true(present("dead", 0, DELETED) < 40); /* expected: 0.001 of them, 8 */
    assert_int_equal(number("dead", "capacity"), CAPACITY);
    redisReply *r = client_command(&fixture.client[0], "TB.HISTORY dead COUNT 1");
    assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements == 1);
    bool found = false;
    for (size_t i = 0; i + 1 < r->element[0]->elements; i += 2)
        found |= strcmp(r->element[0]->element[i]->str, "trigger") == 0 &&
                 strcmp(r->element[0]->element[i + 1]->str, "dead") == 0;
    assert_true(found);
    freeReplyObject(r);
}

static void test_dead__starts_another_one_only_when_as_many_are_dead_again(void **state)
{
    (void)state;
    let_it_look("dead", now_ms());
    assert_int_equal(number("dead", "generation"), FIRST + 1);
    expect_near("dead", "dead_keys", 0);
    change_and_analyse("DELETE FROM %s WHERE id BETWEEN 8001 AND 14000", "dead", 6000);
    wait_for_generation("dead", FIRST + 2);
    expect("dead", "job_trigger", "dead");
    assert_int_equal(present("dead", 14000, ROWS - 14000), ROWS - 14000);
    assert_true(present("dead", DELETED, 6000) < 35);
}

static void test_dead__is_only_shown_unless_configured(void **state)
{
    (void)state;
    let_it_look("calm", deleted_ms);
    expect("calm", "expand_at_dead_ratio", "0");
    expect_near("calm", "dead_keys", DELETED);
    assert_true(decimal("calm", "dead_ratio") > 0.398 && decimal("calm", "dead_ratio") < 0.402);
    expect_near("calm", "source_rows", ROWS - DELETED);
    assert_in_range(number("calm", "source_rows_at"), now_ms() - 2 * LOOK_MS, now_ms());
    assert_int_equal(number("calm", "generation"), FIRST);
    assert_int_equal(present("calm", 0, ROWS), ROWS);
}

static void test_dead__waits_for_the_window(void **state)
{
    (void)state;
    struct error e = {""};
    char text[256];
    uint64_t until = clock_mono_us() + WAIT_MS * 1000ull;
    while (client_status(&fixture.client[0], "shut", "waiting_reason", text, sizeof(text), &e) != ERR_OK) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(20000);
    }
    expect_reason("shut", "waiting_reason");
    clock_sleep_us(500 * 1000); /* five rounds of the controller */
    assert_int_equal(number("shut", "generation"), FIRST);
    expect("shut", "job_trigger", "unbuilt");
}

/* The filter would outgrow its capacity before the window opens, so the rebuild does not wait. It removes the
 * keys that fill the filter. */
static void test_dead__does_not_make_the_filter_larger(void **state)
{
    (void)state;
    struct error e = {""};
    must(client_madd(&fixture.client[0], "shut", fixture_code, ROWS, MORE, &e), e);
    wait_for_generation("shut", FIRST + 1);
    expect("shut", "job_trigger", "dead");
    assert_int_equal(number("shut", "capacity"), CAPACITY);
    assert_int_equal(present("shut", DELETED, ROWS - DELETED), ROWS - DELETED);
    assert_true(present("shut", 0, DELETED) < 40);
}

/* A job that fails or is aborted does not reset the counts. */
static void fail_and_abort_a_rebuild(const char *filter)
{
    struct error e = {""};
    must(client_ok(&fixture.client[0], &e, "TB.REBUILD %s CAPACITY 10", filter), e);
    wait_for(filter, "job_state", "failed");
    must(client_ok(&fixture.client[0], &e, "TB.REBUILD %s HOLD", filter), e);
    wait_for(filter, "job_step", "hold");
    must(client_ok(&fixture.client[0], &e, "TB.ABORT %s", filter), e);
    wait_for(filter, "job_state", "aborted");
}

static void test_dead__is_not_what_an_estimate_was_short_of_from_the_beginning(void **state)
{
    (void)state;
    int64_t built = number("wrong", "job_dead_keys_at_build");
    assert_in_range(built, 13000, 13700);
    let_it_look("wrong", deleted_ms);
    assert_true(decimal("wrong", "dead_ratio") > 0.6);
    assert_int_equal(number("wrong", "generation"), FIRST);
    fail_and_abort_a_rebuild("wrong");
    assert_int_equal(number("wrong", "generation"), FIRST);
    assert_int_equal(number("wrong", "job_dead_generation"), FIRST);
    assert_int_equal(number("wrong", "job_dead_keys_at_build"), built);
}

static void test_dead__costs_one_rebuild_where_that_is_not_known(void **state)
{
    (void)state;
    struct client redis = {0};
    struct error e = {""};
    int64_t before = number("wrong", "generation"), deleted = 0;
    must(client_open(&redis, fixture.redis[0].port, WAIT_MS, &e), e);
    /* An older version's record lacks the first two fields. An abort holds thresholds for ten minutes, so the
     * state is deleted, too. */
    must(client_integer(&redis, &deleted, &e,
                        "HDEL twinbloom:{wrong}:job dead_generation dead_at_build state"),
         e);
    client_close(&redis);
    assert_int_equal(deleted, 3);
    must(client_wait_status_least(&fixture.client[0], "wrong", "generation", before + 1, WAIT_MS, &e), e);
    wait_for("wrong", "job_state", "done");
    expect("wrong", "job_trigger", "dead");
    before = number("wrong", "generation");
    let_it_look("wrong", now_ms());
    assert_int_equal(number("wrong", "generation"), before);
    assert_true(decimal("wrong", "dead_ratio") > 0.6);
}

static void test_dead__is_not_known_while_postgres_is_away(void **state)
{
    (void)state;
    PQfinish(fixture.db);
    fixture.db = NULL;
    temp_postgres_stop(&fixture.postgres);
    wait_for("calm", "source_rows_by", "unknown");
    expect("calm", "source_rows", "");
    expect("calm", "source_rows_at", "");
    expect("calm", "dead_keys", "");
    expect("calm", "dead_ratio", "");
    redisReply *r = client_command(&fixture.client[0], "TB.STATUS calm");
    bool null = false;
    for (size_t i = 0; r != NULL && i + 1 < r->elements; i += 2)
        null |= strcmp(r->element[i]->str, "dead_keys") == 0 && r->element[i + 1]->type == REDIS_REPLY_NIL;
    freeReplyObject(r);
    assert_true(null);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dead__starts_a_rebuild_that_leaves_deleted_keys_out),
        cmocka_unit_test(test_dead__starts_another_one_only_when_as_many_are_dead_again),
        cmocka_unit_test(test_dead__is_only_shown_unless_configured),
        cmocka_unit_test(test_dead__waits_for_the_window),
        cmocka_unit_test(test_dead__does_not_make_the_filter_larger),
        cmocka_unit_test(test_dead__is_not_what_an_estimate_was_short_of_from_the_beginning),
        cmocka_unit_test(test_dead__costs_one_rebuild_where_that_is_not_known),
        cmocka_unit_test(test_dead__is_not_known_while_postgres_is_away),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
