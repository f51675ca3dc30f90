/* SPDX-License-Identifier: MIT */
/* Rows that are only written to the table get into the filter by the follower, by their ids. */
#include "tests/integration/following.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

#define TAIL "twinbloom:{" FILTER "}:tail"
#define MARKS "twinbloom:{" FILTER "}:marks"
#define HELD "twinbloom:{fixed}:expansion_flag" /* the mutex of that filter's jobs */

enum { FIXED = 100 /* keys of a filter that does not grow */ };

static int setup(void **state)
{
    (void)state;
    return following_start("follow = yes\n", "");
}

/* The follower does not see an id below earlier ones; the next build finds it. */
static void test_keyset__an_explicit_low_id_is_found_by_the_next_build(void **state)
{
    (void)state;
    following_running(0);
    fixture_sql(
        following.db,
        "INSERT INTO short_link (id, code, url) OVERRIDING SYSTEM VALUE VALUES (-5, 'c900000001', 'u')");
    following_expect_rows(0, 10);
    fixture_ask(&following, 0, "TB.REBUILD " FILTER);
    fixture_wait(&following, 0, "phase", "SWITCHED");
    following_soon(0, 900000001, 1); /* another coordinator may still answer from an older state first */
    fixture_all_present(&following, 0, 900000001, 1);
    fixture_ask(&following, 0, "TB.FINISH " FILTER);
    fixture_wait(&following, 0, "job_state", "done");
}

/* The number in a field of a hash in Redis; -1: there is none. */
static long long number_of(struct client *redis, const char *key, const char *field)
{
    char command[200];
    (void)snprintf(command, sizeof(command), "HGET %s %s", key, field);
    redisReply *reply = client_command(redis, command);
    assert_non_null(reply);
    long long number = reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10) : -1;
    freeReplyObject(reply);
    return number;
}

static void open_redis(struct client *redis)
{
    struct error e = {""};
    must(client_open(redis, following.redis[0].port, 10000, &e), e);
}

extern const char embedded_follower_ask[];

/* Request a sign of the follower, as a job does. Returns the request's number. */
static long long ask(struct client *redis)
{
    redisReply *reply = client_command(redis, "EVAL %s 1 " TAIL, embedded_follower_ask);
    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    long long number = reply->integer;
    freeReplyObject(reply);
    return number;
}

static void await_done(struct client *redis, long long number)
{
    for (int i = 0; i < 1000 && number_of(redis, TAIL, "done") < number; i++)
        clock_sleep_us(20 * 1000);
    assert_true(number_of(redis, TAIL, "done") >= number);
}

/* The metadata node went back to before a request, which the same follower has answered. */
static void test_keyset__what_was_done_answers_no_later_request(void **state)
{
    (void)state;
    struct client redis = {0};
    following_running(0);
    open_redis(&redis);
    long long asked = ask(&redis);
    await_done(&redis, ask(&redis));
    freeReplyObject(client_command(&redis, "HSET " TAIL " asked %lld", asked - 1));
    long long done = number_of(&redis, TAIL, "done");
    asked = ask(&redis);
    assert_true(asked > done);
    await_done(&redis, asked);
    client_close(&redis);
}

/* Ids begin again, far below those that were seen. */
static void test_keyset__ids_that_went_back_are_followed(void **state)
{
    (void)state;
    struct client redis = {0};
    following_running(0);
    open_redis(&redis);
    following_expect_rows(0, 10);
    fixture_sql(following.db, "TRUNCATE short_link RESTART IDENTITY");
    for (int i = 0; i < 500 && number_of(&redis, MARKS, "public.short_link") > 0; i++)
        clock_sleep_us(20 * 1000);
    following_expect_rows(0, 50);
    following_expect_rows(1, 50);
    client_close(&redis);
}

/* The row with the largest id is deleted. The ids that come then are below its id. */
static void test_keyset__a_large_id_that_is_deleted_hides_none(void **state)
{
    (void)state;
    following_running(0);
    fixture_sql(following.db, "INSERT INTO short_link (id, code, url) OVERRIDING SYSTEM VALUE VALUES "
                              "(4000000000, 'c900000002', 'u')");
    following_soon(0, 900000002, 1);
    fixture_sql(following.db, "DELETE FROM short_link WHERE id = 4000000000");
    clock_sleep_us(3000 * 1000); /* rounds pass */
    following_expect_rows(0, 50);
}

static void rewrite(const char *lines, bool load)
{
    following_configure("lease = 2s\nfollow_interval = 100ms\n", lines, load);
}

/* Nobody has followed since ids went back. */
static void test_keyset__a_build_lowers_a_mark_above_its_own(void **state)
{
    (void)state;
    struct client redis = {0};
    open_redis(&redis);
    rewrite("follow = no\n", true);
    fixture_wait(&following, 0, "follow_state", "none");
    freeReplyObject(client_command(&redis, "HSET " MARKS " public.short_link 4000000000"));
    fixture_ask(&following, 0, "TB.REBUILD " FILTER);
    fixture_wait(&following, 0, "phase", "SWITCHED");
    fixture_ask(&following, 0, "TB.FINISH " FILTER);
    fixture_wait(&following, 0, "job_state", "done");
    uint64_t first = following_numbers(50);
    fixture_insert(following.db, first, 50);
    fixture_sql(following.db, "INSERT INTO short_link (id, code, url) OVERRIDING SYSTEM VALUE VALUES "
                              "(4000000001, 'c900000003', 'u')");
    rewrite("follow = yes\n", true);
    following_running(0);
    following_soon(0, first, 50);
    client_close(&redis);
}

/* Rows that came behind the follower by ids, and before the triggers of its successor, are above the marks.
 */
static void test_keyset__what_comes_before_an_outbox_is_read_by_ids(void **state)
{
    static const char *const outbox[] = {
        "table=short_link", "id=id", "columns=code, deleted_at", "outbox=link_outbox", "reader=postgres",
        "notify=true",      NULL};
    static const char *const of_before[] = {"outbox=link_outbox", NULL};
    struct client redis = {0};
    (void)state;
    following_running(0);
    open_redis(&redis);
    fixture_sql(following.db, "DELETE FROM short_link WHERE id > 4000000000"); /* of an earlier test */
    for (int i = 0; i < 500 && number_of(&redis, MARKS, "public.short_link") > 4000000000; i++)
        clock_sleep_us(20 * 1000);
    client_close(&redis);
    following_expect_rows(0, 10);
    following_stop();
    following_psql("outbox_drop", of_before);
    uint64_t first = following_numbers(50);
    fixture_insert(following.db, first, 50);
    following_psql("outbox", outbox);
    rewrite("follow = yes\nfollow_by = outbox\noutbox = link_outbox\n", false);
    following_start_again();
    fixture_wait(&following, 0, "follow_mode", "outbox");
    following_running(0);
    following_soon(0, first, 50);
}

/* It was made before it had a table. Until it is rebuilt its follower says what is wrong, and takes no row
 * that was refused for added. */
static void test_keyset__a_filter_that_does_not_grow_gets_its_rows_by_a_rebuild(void **state)
{
    struct client *c = &following.client[0], redis = {0};
    struct error e = {""};
    uint64_t first = following_numbers(3 * FIXED);
    (void)state;
    must(client_open(&redis, following.redis[0].port, 10000, &e), e);
    must(client_ok(c, &e, "BF.RESERVE fixed 0.001 %d NONSCALING", FIXED), e);
    must(client_ok(&redis, &e, "SET " HELD " another:1 PX 600000"), e);
    rewrite("follow = yes\n[filter fixed]\ntable = short_link\nkey = code\nfollow = yes\ngrace = 1s\n", true);
    must(client_wait_status(c, "fixed", "follow_state", "running", FOLLOWING_SOON_MS, &e), e);
    fixture_insert(following.db, first, 3 * FIXED);
    must(client_wait_status(c, "fixed", "follow_error",
                            "the filter is full and does not grow: its rows wait for a rebuild",
                            FOLLOWING_SOON_MS, &e),
         e);
    freeReplyObject(client_command(&redis, "DEL " HELD));
    client_close(&redis);
    following_soon_in(0, "fixed", first, 3 * FIXED);
    following_expect_rows(0, 10);
}

/* Tables that a pattern means come while they are followed: a table for each month, for example. */
static void test_keyset__a_table_that_comes_later_is_followed(void **state)
{
    struct client *c = &following.client[0];
    struct error e = {""};
    uint64_t first = following_numbers(300);
    char sql[200];
    (void)state;
    fixture_sql(following.db, "CREATE TABLE month_1 (id bigserial PRIMARY KEY, code text)");
    rewrite("follow = yes\n[filter months]\ncapacity = 10000\ntable = month_*\nkey = code\ngrace = 1s\n",
            true);
    must(client_wait_status(c, "months", "follow_state", "running", FOLLOWING_SOON_MS, &e), e);
    must(client_wait_status(c, "months", "job_state", "done", FOLLOWING_SOON_MS, &e), e);
    (void)snprintf(sql, sizeof(sql),
                   "CREATE TABLE month_2 AS SELECT i AS id, 'c' || i AS code "
                   "FROM generate_series(%llu, %llu) AS i",
                   (unsigned long long)first, (unsigned long long)first + 199);
    fixture_sql(following.db, "BEGIN");
    fixture_sql(following.db, sql);
    fixture_sql(following.db, "ALTER TABLE month_2 ADD PRIMARY KEY (id), ALTER id TYPE bigint");
    fixture_sql(following.db, "COMMIT");
    following_soon_in(0, "months", first, 200);
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO month_2 SELECT i, 'c' || i FROM generate_series(%llu, %llu) AS i",
                   (unsigned long long)first + 200, (unsigned long long)first + 299);
    fixture_sql(following.db, sql);
    following_soon_in(0, "months", first, 300);
}

/* @columns: expressions of the code's number i. */
static void insert_into(const char *table, const char *columns, uint64_t first, uint64_t count)
{
    char sql[300];
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO %s SELECT %s FROM generate_series(%llu::bigint, %llu::bigint) AS i", table,
                   columns, (unsigned long long)first, (unsigned long long)(first + count - 1));
    fixture_sql(following.db, sql);
}

static void await_waiter(const char *table)
{
    char sql[200];
    (void)snprintf(sql, sizeof(sql),
                   "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = '%s'::regclass",
                   table);
    for (int i = 0;; i++, clock_sleep_us(20 * 1000)) {
        char *waits = following_value(sql);
        bool is = strcmp(waits, "t") == 0;
        free(waits);
        if (is)
            return;
        assert_true(i < 500);
    }
}

/* Who opens the table has looked at its types, and then waits for its lock. */
static void test_keyset__a_key_whose_type_changes_while_a_follower_begins(void **state)
{
    struct client *c = &following.client[0];
    struct error e = {""};
    uint64_t first = following_numbers(20);
    PGconn *db = PQconnectdb(following.postgres.dsn);
    (void)state;
    fixture_sql(db, "CREATE TABLE retyped (id bigserial PRIMARY KEY, code text)");
    fixture_sql(db, "BEGIN");
    fixture_sql(db, "ALTER TABLE retyped ALTER code TYPE bytea USING convert_to(code, 'UTF8')");
    rewrite("follow = yes\n[filter retyped]\ncapacity = 10000\ntable = retyped\nkey = code\ngrace = 1s\n",
            true);
    await_waiter("retyped");
    clock_sleep_us(1000 * 1000); /* the job's connection may have come first */
    fixture_sql(db, "COMMIT");
    PQfinish(db);
    must(client_wait_status(c, "retyped", "job_state", "done", FOLLOWING_SOON_MS, &e), e);
    must(client_wait_status(c, "retyped", "follow_state", "running", FOLLOWING_SOON_MS, &e), e);
    insert_into("retyped (code)", "convert_to('c' || i, 'UTF8')", first, 20);
    following_soon_in(0, "retyped", first, 20);
}

/* A bytea's text is not its bytes. */
static void test_keyset__a_key_of_another_type_is_read_as_it_is_now(void **state)
{
    struct client *c = &following.client[0];
    struct error e = {""};
    uint64_t first = following_numbers(40);
    (void)state;
    fixture_sql(following.db, "CREATE TABLE typed (id bigserial PRIMARY KEY, code text)");
    rewrite("follow = yes\n[filter typed]\ncapacity = 10000\ntable = typed\nkey = code\ngrace = 1s\n", true);
    must(client_wait_status(c, "typed", "follow_state", "running", FOLLOWING_SOON_MS, &e), e);
    must(client_wait_status(c, "typed", "job_state", "done", FOLLOWING_SOON_MS, &e), e);
    fixture_sql(following.db, "ALTER TABLE typed ALTER code TYPE bytea USING convert_to(code, 'UTF8')");
    insert_into("typed (code)", "convert_to('c' || i, 'UTF8')", first, 20);
    following_soon_in(0, "typed", first, 20);
    fixture_sql(following.db, "ALTER TABLE typed ALTER code TYPE text USING convert_from(code, 'UTF8')");
    insert_into("typed (code)", "'c' || i", first + 20, 20);
    following_soon_in(0, "typed", first, 40);
}

/* The ids of one column are far above those of the other. */
static void test_keyset__another_id_column_has_no_row_missed(void **state)
{
    enum { FEW = 50, FAR = 1000 * 1000 };
    const char *columns = "i, i + 1000000, 'c' || i";
    struct client *c = &following.client[0], redis = {0};
    struct error e = {""};
    uint64_t first = following_numbers(2 * FEW);
    (void)state;
    open_redis(&redis);
    fixture_sql(following.db,
                "CREATE TABLE two_ids (id bigint PRIMARY KEY, n bigint NOT NULL UNIQUE, code text)");
    rewrite("follow = yes\n[filter two]\ncapacity = 10000\ntable = two_ids\nid_column = n\nkey = code\n"
            "grace = 1s\n",
            true);
    must(client_wait_status(c, "two", "follow_state", "running", FOLLOWING_SOON_MS, &e), e);
    must(client_wait_status(c, "two", "job_state", "done", FOLLOWING_SOON_MS, &e), e);
    insert_into("two_ids", columns, first, FEW);
    following_soon_in(0, "two", first, FEW);
    for (int i = 0; i < 1000 && number_of(&redis, "twinbloom:{two}:marks", "public.two_ids") < FAR; i++)
        clock_sleep_us(20 * 1000);
    assert_true(number_of(&redis, "twinbloom:{two}:marks", "public.two_ids") > FAR);
    client_close(&redis);
    following_stop();
    insert_into("two_ids", columns, first + FEW, FEW);
    rewrite("follow = yes\n[filter two]\ncapacity = 10000\ntable = two_ids\nid_column = id\nkey = code\n"
            "grace = 1s\n",
            false);
    following_start_again();
    must(client_wait_status(&following.client[0], "two", "follow_state", "running", FOLLOWING_SOON_MS, &e),
         e);
    following_soon_in(0, "two", first, 2 * FEW);
}

/* A schema that comes first in the search_path gets a table of that name. A build reads that one. */
static void test_keyset__a_table_that_comes_first_is_followed_behind_its_build(void **state)
{
    struct client *c = &following.client[0];
    struct error e = {""};
    uint64_t first = following_numbers(40);
    (void)state;
    fixture_sql(following.db, "CREATE TABLE shadowed (id bigserial PRIMARY KEY, code text)");
    insert_into("shadowed (code)", "'x' || i", first, 20);
    rewrite("follow = yes\n[filter shadowed]\ncapacity = 10000\ntable = shadowed\nkey = code\ngrace = 1s\n",
            true);
    must(client_wait_status(c, "shadowed", "follow_state", "running", FOLLOWING_SOON_MS, &e), e);
    must(client_wait_status(c, "shadowed", "job_state", "done", FOLLOWING_SOON_MS, &e), e);
    fixture_sql(following.db, "CREATE SCHEMA postgres; " /* the role's name */
                              "CREATE TABLE postgres.shadowed (id bigserial PRIMARY KEY, code text)");
    insert_into("postgres.shadowed (code)", "'c' || i", first, 20);
    fixture_ask(&following, 0, "TB.REBUILD shadowed");
    following_soon_in(0, "shadowed", first, 20);
    must(client_wait_status(c, "shadowed", "job_state", "done", FOLLOWING_SOON_MS, &e), e);
    insert_into("postgres.shadowed (code)", "'c' || i", first + 20, 20);
    following_soon_in(0, "shadowed", first, 40);
    fixture_sql(following.db, "DROP SCHEMA postgres CASCADE");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(following_test_rows_follow),
        cmocka_unit_test(following_test_late_commits),
        cmocka_unit_test(following_test_copy),
        cmocka_unit_test(following_test_each_phase),
        cmocka_unit_test(test_keyset__an_explicit_low_id_is_found_by_the_next_build),
        cmocka_unit_test(following_test_rows_keep_coming),
        cmocka_unit_test(following_test_owner_killed),
        cmocka_unit_test(following_test_redis_restarted),
        cmocka_unit_test(following_test_postgres_restarted),
        cmocka_unit_test(test_keyset__what_was_done_answers_no_later_request),
        cmocka_unit_test(
            test_keyset__a_filter_that_does_not_grow_gets_its_rows_by_a_rebuild), /* before ids go back */
        cmocka_unit_test(test_keyset__a_large_id_that_is_deleted_hides_none),
        cmocka_unit_test(test_keyset__a_table_that_comes_later_is_followed),
        cmocka_unit_test(test_keyset__a_key_of_another_type_is_read_as_it_is_now),
        cmocka_unit_test(test_keyset__a_key_whose_type_changes_while_a_follower_begins),
        cmocka_unit_test(test_keyset__another_id_column_has_no_row_missed),
        cmocka_unit_test(test_keyset__a_table_that_comes_first_is_followed_behind_its_build),
        cmocka_unit_test(test_keyset__ids_that_went_back_are_followed),
        cmocka_unit_test(test_keyset__a_build_lowers_a_mark_above_its_own),
        cmocka_unit_test(test_keyset__what_comes_before_an_outbox_is_read_by_ids),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, setup, following_teardown);
}
