/* SPDX-License-Identifier: MIT */
/* A table that becomes another one, or is in no log for a while, under a follower by logical replication. */
#include "tests/integration/following.h"

#include <stdio.h>

#define LOGICAL "follow_by = logical\npublication = links\n"

static int setup(void **state)
{
    (void)state;
    return following_start(LOGICAL "follow = yes\n", "slot_wal_max = 64MiB\n");
}

static void load(uint64_t first, uint64_t count)
{
    char sql[200];
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO loaded (code) SELECT 'c' || i FROM generate_series(%llu, %llu) AS i",
                   (unsigned long long)first, (unsigned long long)(first + count - 1));
    fixture_sql(following.db, sql);
}

#define LOADED                                                                                               \
    "follow = yes\n[filter loaded]\ncapacity = 10000\ntable = loaded\nkey = code\nfollow_by = logical\n"     \
    "publication = everything\nfollow = yes\n"

/* A table of ten rows, and its filter. */
static void begin_loaded(uint64_t first)
{
    struct client *c = &following.client[0], redis = {0};
    struct error e = {""};
    fixture_sql(following.db, "CREATE TABLE loaded (id bigserial PRIMARY KEY, code text)");
    load(first, 10);
    fixture_sql(following.db, "CREATE PUBLICATION everything FOR ALL TABLES");
    following_rewrite(LOGICAL LOADED);
    must(client_wait_status(c, "loaded", "follow_state", "running", FOLLOWING_SOON_MS, &e), e);
    must(client_wait_status(c, "loaded", "job_state", "done", FOLLOWING_ROLL_CALL_MS, &e), e);
    must(client_open(&redis, following.redis[0].port, 10000, &e), e);
    following_mark(&redis, "loaded", "public.loaded");
    client_close(&redis);
}

static void end_loaded(void)
{
    following_rewrite(LOGICAL "follow = yes\n");
    following_slots("twinbloom_loaded", "0");
    fixture_sql(following.db, "DROP PUBLICATION everything");
    fixture_sql(following.db, "DROP TABLE loaded");
}

/* What is written into an UNLOGGED table is in no log. A publication of all tables does not refuse it. */
static void test_table__rows_while_it_was_unlogged_are_found(void **state)
{
    struct client *c = &following.client[0];
    struct error e = {""};
    char by[32];
    uint64_t first = following_numbers(200);
    (void)state;
    begin_loaded(first);
    fixture_sql(following.db, "ALTER TABLE loaded SET UNLOGGED"); /* between jobs */
    load(first + 10, 50);
    fixture_sql(following.db, "ALTER TABLE loaded SET LOGGED");
    following_soon_in(0, "loaded", first, 60);
    must(client_wait_status(c, "loaded", "follow_state", "running", FOLLOWING_SOON_MS, &e), e);
    fixture_ask(&following, 0, "TB.REBUILD loaded HOLD");
    must(client_wait_status(c, "loaded", "job_step", "hold", FOLLOWING_ROLL_CALL_MS, &e), e);
    fixture_sql(following.db, "ALTER TABLE loaded SET UNLOGGED");
    load(first + 60, 40);
    fixture_sql(following.db, "ALTER TABLE loaded SET LOGGED");
    fixture_ask(&following, 0, "TB.CUTOVER loaded");
    must(client_wait_status(c, "loaded", "phase", "SWITCHED", FOLLOWING_ROLL_CALL_MS, &e), e);
    must(client_status(c, "loaded", "job_caught_up_by", by, sizeof(by), &e), e);
    following_soon_in(0, "loaded", first, 100);
    assert_string_equal(by, "rows");
    fixture_ask(&following, 0, "TB.FINISH loaded");
    must(client_wait_status(c, "loaded", "job_state", "done", FOLLOWING_ROLL_CALL_MS, &e), e);
    must(client_wait_status(c, "loaded", "follow_state", "running", FOLLOWING_SOON_MS, &e), e);
    following_stop(); /* while nobody follows */
    fixture_sql(following.db, "ALTER TABLE loaded SET UNLOGGED");
    load(first + 100, 50);
    fixture_sql(following.db, "ALTER TABLE loaded SET LOGGED");
    following_start_again();
    following_soon_in(0, "loaded", first, 150);
    must(client_wait_status(c, "loaded", "follow_state", "running", FOLLOWING_SOON_MS, &e), e);
    fixture_sql(following.db, "ALTER TABLE loaded SET UNLOGGED");
    load(first + 150, 50);
    must(client_wait_status(c, "loaded", "follow_error",
                            "table public.loaded, or a partition of it, is UNLOGGED: its rows are not in the "
                            "log that is sent; ALTER TABLE ... SET LOGGED",
                            FOLLOWING_SOON_MS, &e),
         e);
    fixture_sql(following.db, "ALTER TABLE loaded SET LOGGED");
    following_soon_in(0, "loaded", first, 200);
    end_loaded();
}

/* The name stands for a table that is not published. The former one is there, and unchanged, in another
 * schema. */
static void test_table__in_a_schema_that_takes_the_place_of_another_one_is_noticed(void **state)
{
    struct client *c = &following.client[0], redis = {0};
    struct error e = {""};
    char sql[200];
    uint64_t first = following_numbers(20);
    (void)state;
    fixture_sql(following.db,
                "CREATE SCHEMA app; CREATE TABLE app.kept (id bigserial PRIMARY KEY, code text); "
                "CREATE SCHEMA next; CREATE TABLE next.kept (LIKE app.kept INCLUDING ALL); "
                "CREATE PUBLICATION kept FOR TABLE app.kept");
    following_rewrite(LOGICAL "follow = yes\n[filter kept]\ncapacity = 10000\ntable = app.kept\nkey = code\n"
                              "follow_by = logical\npublication = kept\nfollow = yes\n");
    must(client_wait_status(c, "kept", "follow_state", "running", FOLLOWING_SOON_MS, &e), e);
    must(client_wait_status(c, "kept", "job_state", "done", FOLLOWING_ROLL_CALL_MS, &e), e);
    fixture_sql(following.db, "INSERT INTO app.kept (code) VALUES ('first')");
    must(client_open(&redis, following.redis[0].port, 10000, &e), e);
    following_mark(&redis, "kept", "app.kept");
    client_close(&redis);
    fixture_sql(following.db,
                "BEGIN; ALTER SCHEMA app RENAME TO former; ALTER SCHEMA next RENAME TO app; COMMIT");
    must(client_wait_status(
             c, "kept", "follow_error",
             "publication kept does not have table app.kept; ALTER PUBLICATION kept ADD TABLE app.kept",
             FOLLOWING_SOON_MS, &e),
         e);
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO app.kept (code) SELECT 'c' || i FROM generate_series(%llu, %llu) AS i",
                   (unsigned long long)first, (unsigned long long)first + 19);
    fixture_sql(following.db, sql);
    fixture_sql(following.db, "ALTER PUBLICATION kept ADD TABLE app.kept");
    following_soon_in(0, "kept", first, 20);
    following_rewrite(LOGICAL "follow = yes\n");
    following_slots("twinbloom_kept", "0");
    fixture_sql(following.db, "DROP PUBLICATION kept");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table__rows_while_it_was_unlogged_are_found),
        cmocka_unit_test(test_table__in_a_schema_that_takes_the_place_of_another_one_is_noticed),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, setup, following_teardown);
}
