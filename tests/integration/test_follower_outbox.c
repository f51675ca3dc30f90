/* SPDX-License-Identifier: MIT */
/* Rows that are only written to the table get into the filter by an outbox. */
#include "tests/integration/following.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "tests/lib/proxy.h"

#define OUTBOX "follow_by = outbox\noutbox = link_outbox\n"

static int setup(void **state)
{
    (void)state;
    return following_start(OUTBOX "follow = yes\n", "");
}

static void test_outbox__explicit_ids_and_changed_keys_follow(void **state)
{
    (void)state;
    following_running(0);
    fixture_sql(
        following.db,
        "INSERT INTO short_link (id, code, url) OVERRIDING SYSTEM VALUE VALUES (-5, 'c900000001', 'u')");
    fixture_sql(following.db, "UPDATE short_link SET code = 'c900000002' WHERE code = 'c7'");
    following_soon(0, 900000001, 2);
}

/* Rows that were added are removed from the outbox. A build relies on the follower and reads no row twice. */
static void test_outbox__a_build_relies_on_the_tail(void **state)
{
    (void)state;
    struct error e = {""};
    char by[32];
    following_running(0);
    fixture_ask(&following, 0, "TB.REBUILD " FILTER);
    uint64_t first = following_numbers(2000);
    for (unsigned i = 0; i < 20; i++)
        fixture_insert(following.db, first + i * 100, 100);
    fixture_wait(&following, 0, "phase", "SWITCHED");
    must(client_status(&following.client[0], FILTER, "job_caught_up_by", by, sizeof(by), &e), e);
    assert_string_equal(by, "follower");
    following_soon(0, first, 2000);
    fixture_ask(&following, 0, "TB.FINISH " FILTER);
    fixture_wait(&following, 0, "job_state", "done");
    fixture_all_present(&following, 0, first, 2000);
    char *left = following_value("SELECT count(*) FROM link_outbox");
    assert_string_equal(left, "0");
    free(left);
}

/* It has the build's question in the middle of many rows. */
static void test_outbox__a_build_waits_for_earlier_rows(void **state)
{
    enum { MANY = 60000 };
    (void)state;
    following_hold();
    PGconn *writer = PQconnectdb(following.postgres.dsn);
    uint64_t first = following_numbers(MANY);
    fixture_sql(writer, "BEGIN");
    fixture_insert(writer, first, MANY);
    fixture_sql(writer, "LOCK TABLE link_outbox IN ACCESS EXCLUSIVE MODE"); /* who reads it waits */
    following_ask();
    fixture_sql(writer, "COMMIT");
    PQfinish(writer);
    following_answered(first, MANY);
}

/* Triggers that were off for a while, as for a bulk load, and are on again when the build asks. */
static void test_outbox__triggers_that_were_off_are_not_relied_on(void **state)
{
    (void)state;
    struct error e = {""};
    char by[32];
    following_running(0);
    uint64_t first = following_numbers(50);
    fixture_ask(&following, 0, "TB.REBUILD " FILTER " HOLD");
    fixture_wait(&following, 0, "job_step", "hold");
    fixture_sql(following.db, "ALTER TABLE short_link DISABLE TRIGGER USER");
    fixture_insert(following.db, first, 50);
    fixture_sql(following.db, "UPDATE short_link SET code = 'c900000004' WHERE code = 'c8'");
    fixture_sql(following.db, "ALTER TABLE short_link ENABLE TRIGGER USER");
    fixture_ask(&following, 0, "TB.CUTOVER " FILTER);
    fixture_wait(&following, 0, "phase", "SWITCHED");
    must(client_status(&following.client[0], FILTER, "job_caught_up_by", by, sizeof(by), &e), e);
    assert_string_equal(by, "rows");
    following_soon(0, first, 50);
    following_soon(0, 900000004, 1);
    fixture_ask(&following, 0, "TB.FINISH " FILTER);
    fixture_wait(&following, 0, "job_state", "done");
    following_running(0);
}

static void install(void)
{
    static const char *const outbox[] = {
        "table=short_link", "id=id", "columns=code, deleted_at", "outbox=link_outbox", "reader=postgres",
        "notify=true",      NULL};
    following_psql("outbox", outbox);
}

/* Rows that no mark tells of: of a low id, and of a key that changed. */
static void write_rows_of_any_id(unsigned n)
{
    char sql[300];
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO short_link (id, code, url) OVERRIDING SYSTEM VALUE VALUES (-%u, 'c%u', 'u');"
                   "UPDATE short_link SET code = 'c%u' WHERE code = 'c%u'",
                   n, 900000000 + n, 900000001 + n, n);
    fixture_sql(following.db, sql);
}

static void await_problem(const char *part)
{
    struct error e = {""};
    char problem[300] = "";
    for (int i = 0; i < 400 && strstr(problem, part) == NULL; i++) {
        clock_sleep_us(50 * 1000);
        must(client_status(&following.client[0], FILTER, "follow_error", problem, sizeof(problem), &e), e);
    }
    if (strstr(problem, part) == NULL)
        fail_msg("%s", problem);
}

/* Its rows are lost, and its numbers begin again. */
static void test_outbox__that_is_made_again_is_noticed(void **state)
{
    static const char *const outbox[] = {"outbox=link_outbox", NULL};
    (void)state;
    following_running(0);
    uint64_t first = following_numbers(50);
    fixture_sql(following.db, "BEGIN; LOCK TABLE link_outbox IN ACCESS EXCLUSIVE MODE");
    fixture_insert(following.db, first, 50);
    write_rows_of_any_id(20);
    fixture_sql(following.db, "DROP TABLE link_outbox CASCADE; COMMIT");
    following_psql("outbox_drop", outbox); /* there is none */
    install();
    following_soon(0, first, 50);
    following_soon(0, 900000020, 2);
    following_running(0);
    following_expect_rows(0, 50);
}

/* Nobody was there to see it. */
static void test_outbox__that_is_made_again_while_nobody_follows_is_noticed(void **state)
{
    static const char *const outbox[] = {"outbox=link_outbox", NULL};
    (void)state;
    following_running(0);
    following_expect_rows(0, 50);
    uint64_t first = following_numbers(50);
    following_stop();
    fixture_insert(following.db, first, 50);
    write_rows_of_any_id(30);
    following_psql("outbox_drop", outbox);
    install();
    following_start_again();
    following_running(0);
    following_soon(0, first, 50);
    following_soon(0, 900000030, 2);
    following_expect_rows(0, 50);
}

/* Triggers were off, and are on again. */
static void test_outbox__whose_triggers_were_off_while_nobody_followed_is_noticed(void **state)
{
    (void)state;
    following_running(0);
    following_stop();
    fixture_sql(following.db, "ALTER TABLE short_link DISABLE TRIGGER USER");
    write_rows_of_any_id(40);
    fixture_sql(following.db, "ALTER TABLE short_link ENABLE TRIGGER USER");
    following_start_again();
    following_running(0);
    following_soon(0, 900000040, 2);
}

/* The triggers are there, and do nothing. The name of each function tells what it did. */
static void test_outbox__whose_functions_are_replaced_is_not_relied_on(void **state)
{
    struct error e = {""};
    char by[32];
    (void)state;
    following_hold();
    fixture_sql(following.db,
                "DO $$ DECLARE f regproc; BEGIN FOR f IN SELECT DISTINCT tgfoid::regproc FROM pg_trigger "
                "WHERE tgrelid = 'short_link'::regclass AND NOT tgisinternal LOOP EXECUTE format("
                "'CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql AS "
                "''BEGIN RETURN NULL; END''', f); END LOOP; END $$");
    uint64_t first = following_numbers(50);
    fixture_insert(following.db, first, 50);
    write_rows_of_any_id(50);
    fixture_ask(&following, 0, "TB.CUTOVER " FILTER);
    fixture_wait(&following, 0, "phase", "SWITCHED");
    must(client_status(&following.client[0], FILTER, "job_caught_up_by", by, sizeof(by), &e), e);
    assert_string_equal(by, "rows");
    fixture_ask(&following, 0, "TB.FINISH " FILTER);
    fixture_wait(&following, 0, "job_state", "done");
    fixture_all_present(&following, 0, first, 50);
    await_problem("table public.short_link does not write all its rows into it; run sql/outbox.sql");
    fixture_wait(&following, 0, "follow_state", "waiting");
    write_rows_of_any_id(60);
    install();
    following_running(0);
    following_soon(0, 900000060, 2);
}

/* Another table that takes the name has no triggers, so a build must not rely on the first table's outbox. */
static void test_outbox__of_another_table_is_not_relied_on(void **state)
{
    (void)state;
    struct error e = {""};
    char by[32];
    following_running(0);
    uint64_t first = following_numbers(2000);
    fixture_sql(following.db, "CREATE TABLE other (LIKE short_link INCLUDING ALL)");
    fixture_sql(following.db,
                "INSERT INTO other (code, url) SELECT code, url FROM short_link ORDER BY id DESC");
    fixture_sql(
        following.db,
        "BEGIN; ALTER TABLE short_link RENAME TO earlier; ALTER TABLE other RENAME TO short_link; COMMIT");
    must(client_when_free(&following.client[0], 30000, &e, "TB.REBUILD " FILTER),
         e); /* a job may be healing after the restart */
    fixture_wait(&following, 0, "job_step", "scan");
    fixture_insert(following.db, first, 2000);
    fixture_wait(&following, 0, "phase", "SWITCHED");
    must(client_status(&following.client[0], FILTER, "job_caught_up_by", by, sizeof(by), &e), e);
    assert_string_equal(by, "rows");
    await_problem("run sql/outbox.sql");
    fixture_ask(&following, 0, "TB.FINISH " FILTER);
    fixture_wait(&following, 0, "job_state", "done");
    fixture_all_present(&following, 0, first, 2000);
}

/* Have one coordinator read another line of its configuration. */
static void reload_with(unsigned d, const char *from, const char *to)
{
    struct error e = {""};
    char command[PATH_MAX + 100];
    (void)snprintf(command, sizeof(command), "sed -i 's/^%s$/%s/' '%s'", from, to,
                   following.daemon[d].config);
    assert_int_equal(system(command), 0);
    must(daemon_reload(&following.daemon[d], &e), e);
}

/* Where rows are not followed, they are while a job runs: in whichever coordinator. */
static void test_outbox__is_followed_while_a_build_relies_on_it(void **state)
{
    (void)state;
    struct error e = {""};
    char by[32];
    following_running(0);
    for (unsigned d = 0; d < 2; d++)
        reload_with(d, "follow = yes", "follow = no");
    fixture_wait(&following, 0, "follow_state", "none");
    uint64_t first = following_numbers(300);
    fixture_insert(following.db, first, 100);
    fixture_ask(&following, 0, "TB.REBUILD " FILTER);
    fixture_insert(following.db, first + 100, 100);
    fixture_wait(&following, 0, "phase", "SWITCHED");
    must(client_status(&following.client[0], FILTER, "job_caught_up_by", by, sizeof(by), &e), e);
    assert_string_equal(by, "follower");
    fixture_insert(following.db, first + 200, 100);
    following_soon(0, first, 300);
    fixture_ask(&following, 0, "TB.FINISH " FILTER);
    fixture_wait(&following, 0, "job_state", "done");
    fixture_wait(&following, 0, "follow_state", "none");
    for (unsigned d = 0; d < 2; d++)
        reload_with(d, "follow = no", "follow = yes");
    following_running(0);
}

static size_t upper_code(uint64_t number, char out[CLIENT_KEY_MAX])
{
    size_t length = fixture_code(number, out);
    out[0] = 'C';
    return length;
}

/* Wait until the marks say that all rows that there are were reported. */
static void await_marks(void)
{
    struct error e = {""};
    struct client redis = {0};
    char *largest = following_value("SELECT max(id) FROM short_link");
    uint64_t until = clock_mono_us() + FOLLOWING_SOON_MS * 1000ull;
    must(client_open(&redis, following.redis[0].port, 10000, &e), e);
    for (bool there = false; !there;) {
        redisReply *r =
            client_command(&redis, "HMGET twinbloom:{" FILTER "}:marks public.short_link position");
        assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY);
        there = r->element[0]->type == REDIS_REPLY_STRING && strcmp(r->element[0]->str, largest) == 0 &&
                r->element[1]->type == REDIS_REPLY_STRING;
        freeReplyObject(r);
        assert_true(clock_mono_us() < until);
        clock_sleep_us(50 * 1000);
    }
    client_close(&redis);
    free(largest);
}

/* One coordinator has another `key` already, and builds; the other one follows, and adds keys as it knows
 * them. */
static void test_outbox__that_is_read_for_another_key_is_not_relied_on(void **state)
{
    enum { FEW = 50 };
    (void)state;
    struct error e = {""};
    uint64_t present = 0, n_absent = 0;
    char by[32];
    following_running(0);
    unsigned d = 1 - following_owner(0);
    uint64_t first = following_numbers(FEW);
    reload_with(d, "key = code", "key = upper(code)");
    fixture_ask(&following, d, "TB.REBUILD " FILTER " HOLD");
    fixture_wait(&following, d, "job_step", "hold");
    fixture_insert(following.db, first, FEW);
    fixture_ask(&following, d, "TB.CUTOVER " FILTER);
    fixture_wait(&following, d, "phase", "SWITCHED");
    must(client_status(&following.client[d], FILTER, "job_caught_up_by", by, sizeof(by), &e), e);
    must(client_mexists(&following.client[d], FILTER, upper_code, first, FEW, &present, &n_absent, &e), e);
    if (present < FEW)
        fail_msg("caught up by %s: %llu of %d rows are absent", by, (unsigned long long)(FEW - present), FEW);
    assert_string_equal(by, "rows");
    fixture_ask(&following, d, "TB.FINISH " FILTER);
    fixture_wait(&following, d, "job_state", "done");
    /* The follower goes on as before, until its coordinator has that `key`, too. */
    first = following_numbers(FEW);
    fixture_insert(following.db, first, FEW);
    following_soon(d, first, FEW);
    await_marks();
    reload_with(1 - d, "key = code", "key = upper(code)");
    present = 0;
    for (uint64_t until = clock_mono_us() + FOLLOWING_SOON_MS * 1000ull; present < FEW;) {
        must(client_mexists(&following.client[d], FILTER, upper_code, first, FEW, &present, &n_absent, &e),
             e);
        if (clock_mono_us() > until)
            fail_msg("behind the reload %llu of %d rows are absent", (unsigned long long)(FEW - present),
                     FEW);
    }
    reload_with(1 - d, "key = upper(code)", "key = code");
    reload_with(d, "key = upper(code)", "key = code");
    fixture_ask(&following, d, "TB.REBUILD " FILTER);
    fixture_wait(&following, d, "phase", "SWITCHED");
    fixture_ask(&following, d, "TB.FINISH " FILTER);
    fixture_wait(&following, d, "job_state", "done");
    fixture_all_present(&following, d, first, FEW);
}

/* What the triggers write would be looked for in another column, and no row be found. */
static void test_outbox__of_other_ids_is_refused(void **state)
{
    char text[400] = "";
    struct error e = {""};
    (void)state;
    following_running(0);
    for (unsigned d = 0; d < 2; d++)
        reload_with(d, "id_column = id", "id_column = code");
    uint64_t first = following_numbers(50);
    fixture_insert(following.db, first, 50);
    write_rows_of_any_id(80);
    for (unsigned i = 0; i < 100 && text[0] == '\0'; i++) {
        clock_sleep_us(50 * 1000);
        if (client_status(&following.client[0], FILTER, "follow_error", text, sizeof(text), &e) != ERR_OK)
            text[0] = '\0'; /* for a moment nobody has the lease */
    }
    for (unsigned d = 0; d < 2; d++)
        reload_with(d, "id_column = code", "id_column = id");
    following_soon(0, first, 50);
    following_soon(0, 900000080, 2);
    if (strstr(text, "writes \"id\" into it, and the id is \"code\"") == NULL)
        fail_msg("\"%s\"", text);
    following_running(0);
}

/* Of two that read one outbox, each would miss what the other one deletes. */
static void test_outbox__that_another_installation_reads_is_refused(void **state)
{
    enum {
        TURNS = 20,
        REFUSALS = 3,       /* then it asks seldom: */
        REFUSED_MS = 60000, /* between two attempts of who is refused */
        SEEN_US = 15 * 1000 * 1000
    };
    static struct daemon other;
    struct proxy *proxy;
    unsigned route;
    uint16_t port;
    char dsn[96];
    static const char filter[] = "[filter " FILTER "]\ncapacity = 400000\ntable = short_link\n"
                                 "id_column = id\nkey = code\n" OUTBOX "follow = yes\n";
    const struct daemon_options o = {.nodes = following.redis[0].url,
                                     .dsn = dsn,
                                     .service = "check_interval = 100ms\n",
                                     .redis = "prefix = other\n",
                                     .filters = filter};
    struct error e = {""};
    struct client ours = following.client[0], theirs = {0};
    char problem[400] = "";
    (void)state;
    following_running(0);
    must(proxy_start(&proxy, &e), e);
    must(proxy_add(proxy, WIRE_POSTGRES, following.postgres.port, &route, &port, &e), e);
    (void)snprintf(dsn, sizeof(dsn), "postgresql://postgres@127.0.0.1:%u/postgres", (unsigned)port);
    proxy_count_as_job(proxy, "twinbloom follower");
    proxy_count_only(proxy, "l.classid = "); /* outbox_others.sql */
    proxy_count(proxy, "postgres", 0, PROXY_BEFORE);
    must(daemon_start(&other, &o, &e), e);
    must(client_open(&theirs, other.port, 10000, &e), e);
    must(client_wait_status(&theirs, FILTER, "job_state", "done", 60000, &e), e);
    for (int i = 0; i < 400 && problem[0] == '\0'; i++) {
        clock_sleep_us(50 * 1000);
        if (client_status(&theirs, FILTER, "follow_error", problem, sizeof(problem), &e) != ERR_OK)
            problem[0] = '\0'; /* nobody has the lease yet */
    }
    for (int i = 0; i < 400 && proxy_counted(proxy) < REFUSALS; i++)
        clock_sleep_us(50 * 1000);
    uint64_t began = clock_mono_us(), asked = proxy_counted(proxy);
    daemon_pause(&other);
    following_expect_rows(0, 50 * TURNS);
    write_rows_of_any_id(70);
    following_soon(0, 900000070, 2);
    daemon_resume(&other);
    for (unsigned i = 0; i < TURNS; i++)
        following_expect_rows(i % 2, 5);
    while (clock_mono_us() - began < SEEN_US)
        clock_sleep_us(50 * 1000);
    uint64_t most = asked + 1 + (clock_mono_us() - began) / 1000 / REFUSED_MS;
    if (strstr(problem, "for another installation") == NULL)
        fail_msg("not refused: \"%s\"", problem);
    assert_in_range(proxy_counted(proxy), REFUSALS, most);
    following_stop();
    must(client_wait_status(&theirs, FILTER, "follow_state", "running", 2 * REFUSED_MS, &e), e);
    following.client[0] = theirs;
    following_soon(0, 900000070, 2); /* it has missed them, and has no mark that tells of them */
    following.client[0] = ours;
    client_close(&theirs);
    assert_true(daemon_fini(&other));
    proxy_stop(proxy);
    following_start_again();
    following_running(0);
    following_expect_rows(0, 50);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(following_test_rows_follow),
        cmocka_unit_test(following_test_late_commits),
        cmocka_unit_test(following_test_copy),
        cmocka_unit_test(test_outbox__explicit_ids_and_changed_keys_follow),
        cmocka_unit_test(following_test_each_phase),
        cmocka_unit_test(test_outbox__a_build_relies_on_the_tail),
        cmocka_unit_test(test_outbox__a_build_waits_for_earlier_rows),
        cmocka_unit_test(test_outbox__is_followed_while_a_build_relies_on_it),
        cmocka_unit_test(test_outbox__triggers_that_were_off_are_not_relied_on),
        cmocka_unit_test(test_outbox__that_is_made_again_is_noticed),
        cmocka_unit_test(test_outbox__that_is_made_again_while_nobody_follows_is_noticed),
        cmocka_unit_test(test_outbox__whose_triggers_were_off_while_nobody_followed_is_noticed),
        cmocka_unit_test(test_outbox__whose_functions_are_replaced_is_not_relied_on),
        cmocka_unit_test(test_outbox__that_is_read_for_another_key_is_not_relied_on),
        cmocka_unit_test(test_outbox__of_other_ids_is_refused),
        cmocka_unit_test(test_outbox__that_another_installation_reads_is_refused),
        cmocka_unit_test(following_test_rows_keep_coming),
        cmocka_unit_test(following_test_owner_killed),
        cmocka_unit_test(following_test_redis_restarted),
        cmocka_unit_test(following_test_postgres_restarted),
        cmocka_unit_test(test_outbox__of_another_table_is_not_relied_on), /* the last one, as it leaves the
                                                                             other table in place */
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, setup, following_teardown);
}
