/* SPDX-License-Identifier: MIT */
/* Rows that are written to the table alone follow into the filter by their ids. */
#include "tests/integration/tailing.h"

#include <string.h>

#include "base/clock.h"

static int setup(void **state)
{
    (void)state;
    return tailing_start("follow = yes\n", "");
}

/* An id below those that were seen is no new one: the next build finds it. */
static void test_keyset__an_explicit_low_id_is_found_by_the_next_build(void **state)
{
    (void)state;
    tailing_running(0);
    fixture_sql(
        tailing.db,
        "INSERT INTO short_link (id, code, url) OVERRIDING SYSTEM VALUE VALUES (-5, 'c900000001', 'u')");
    tailing_expect_rows(0, 10);
    fixture_ask(&tailing, 0, "TB.REBUILD " FILTER);
    fixture_wait(&tailing, 0, "phase", "SWITCHED");
    if (fixture_is_log()) /* another coordinator may answer first from what it has built */
        tailing_soon(0, 900000001, 1);
    fixture_all_present(&tailing, 0, 900000001, 1);
    fixture_ask(&tailing, 0, "TB.FINISH " FILTER);
    fixture_wait(&tailing, 0, "job_state", "done");
}

/* Keys whose bits are set, while Redis does not take their count. */
static void test_keyset__counts_rows_once_redis_takes_their_count(void **state)
{
    (void)state;
    enum { ROWS = 10 };
    struct client redis = {0};
    struct error e = {""};
    int64_t before, after = 0;
    if (fixture_is_log())
        return; /* a log counts what it is read to have */
    tailing_running(0);
    must(client_open(&redis, tailing.redis[0].port, TAILING_SOON_MS, &e), e);
    must(client_integer(&tailing.client[0], &before, &e, "BF.CARD " FILTER), e);
    must(client_ok(&redis, &e, "ACL SETUSER default -hincrby"), e);
    uint64_t first = tailing_numbers(ROWS);
    fixture_insert(tailing.db, first, ROWS);
    tailing_soon(0, first, ROWS);
    fixture_wait(&tailing, 0, "follow_state", "waiting");
    must(client_ok(&redis, &e, "ACL SETUSER default +hincrby"), e);
    client_close(&redis);
    for (int i = 0; i < 400 && after != before + ROWS; i++) {
        must(client_integer(&tailing.client[0], &after, &e, "BF.CARD " FILTER), e);
        clock_sleep_us(50 * 1000);
    }
    assert_int_equal(after, before + ROWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tailing_test_rows_follow),
        cmocka_unit_test(tailing_test_late_commits),
        cmocka_unit_test(tailing_test_copy),
        cmocka_unit_test(tailing_test_each_phase),
        cmocka_unit_test(test_keyset__an_explicit_low_id_is_found_by_the_next_build),
        cmocka_unit_test(test_keyset__counts_rows_once_redis_takes_their_count),
        cmocka_unit_test(tailing_test_rows_keep_coming),
        cmocka_unit_test(tailing_test_owner_killed),
        cmocka_unit_test(tailing_test_redis_restarted),
        cmocka_unit_test(tailing_test_postgres_restarted),
    };
    return cmocka_run_group_tests(tests, setup, tailing_teardown);
}
