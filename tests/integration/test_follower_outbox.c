/* SPDX-License-Identifier: MIT */
/* Rows that are only written to the table get into the filter by an outbox. */
#include "tests/integration/following.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

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

static void made_again(uint64_t first, unsigned count)
{
    static const char *const outbox[] = {"outbox=link_outbox", NULL};
    fixture_insert(following.db, first, count); /* these are lost with it */
    following_psql("outbox_drop", outbox);
    install();
}

static void off_for_a_while(uint64_t first, unsigned count)
{
    fixture_sql(following.db, "ALTER TABLE short_link DISABLE TRIGGER USER");
    fixture_insert(following.db, first, count);
    fixture_sql(following.db, "ALTER TABLE short_link ENABLE ALWAYS TRIGGER link_outbox_insert, "
                              "ENABLE ALWAYS TRIGGER link_outbox_update");
}

static void while_nobody_follows(void (*change)(uint64_t first, unsigned count))
{
    struct error e = {""};
    following_running(0);
    clock_sleep_us(8 * 1000 * 1000); /* marks are noted */
    uint64_t first = following_numbers(50);
    for (unsigned i = 0; i < following.daemons; i++)
        assert_true(daemon_stop(&following.daemon[i], 20000));
    change(first, 50);
    for (unsigned i = 0; i < following.daemons; i++) {
        must(daemon_launch(&following.daemon[i], &e), e);
        fixture_reconnect(&following, i);
    }
    following_running(0);
    following_soon(0, first, 50);
}

static void test_outbox__that_was_made_again_while_nobody_followed_leaves_a_gap(void **state)
{
    (void)state;
    while_nobody_follows(made_again);
}

static void test_outbox__whose_triggers_were_off_while_nobody_followed_leaves_a_gap(void **state)
{
    (void)state;
    while_nobody_follows(off_for_a_while);
}

/* Another table that takes the name has no triggers, so a build must not rely on the first table's outbox. */
static void test_outbox__of_another_table_is_not_relied_on(void **state)
{
    (void)state;
    struct error e = {""};
    char by[32], problem[300] = "";
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
    for (int i = 0; i < 200 && strstr(problem, "run sql/outbox.sql") == NULL; i++) {
        clock_sleep_us(50 * 1000);
        must(client_status(&following.client[0], FILTER, "follow_error", problem, sizeof(problem), &e), e);
    }
    if (strstr(problem, "run sql/outbox.sql") == NULL)
        fail_msg("%s", problem);
    fixture_ask(&following, 0, "TB.FINISH " FILTER);
    fixture_wait(&following, 0, "job_state", "done");
    fixture_all_present(&following, 0, first, 2000);
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
        cmocka_unit_test(test_outbox__triggers_that_were_off_are_not_relied_on),
        cmocka_unit_test(test_outbox__that_was_made_again_while_nobody_followed_leaves_a_gap),
        cmocka_unit_test(test_outbox__whose_triggers_were_off_while_nobody_followed_leaves_a_gap),
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
