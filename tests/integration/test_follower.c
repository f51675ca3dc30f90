/* SPDX-License-Identifier: MIT */
/* Rows that are only written to the table get into the filter by the follower, by their ids. */
#include "tests/integration/following.h"

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

int main(void)
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
    };
    return cmocka_run_group_tests(tests, setup, following_teardown);
}
