/* SPDX-License-Identifier: MIT */
/* The database goes back to before the last rebuild, as where a backup or a snapshot is restored. Rows are
 * back that were deleted then: no generation has them, and nobody adds or reports them. */
#include "tests/integration/routed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { DELETED = 100, TRANSACTIONS = 50 };

static uint64_t present(void)
{
    struct error e = {""};
    uint64_t count = 0;
    must(client_mexists(&routed.fixture.client[0], FILTER, fixture_code, 0, DELETED, &count, NULL, &e), e);
    return count;
}

static void test_database__that_is_older_than_the_last_rebuild_is_read_again(void **state)
{
    (void)state;
    struct error e = {""};
    must(temp_postgres_start_clone(&routed.other, &routed.fixture.postgres, &e), e);
    fixture_sql(routed.fixture.db, "DELETE FROM short_link WHERE substr(code, 2)::bigint < 100");
    for (unsigned i = 0; i < TRANSACTIONS; i++)
        fixture_insert(routed.fixture.db, ROUTED_ROWS + i, 1);
    routed_rebuild();
    assert_in_range(present(), 0, 1); /* false positives */
    proxy_aim(routed.proxy, routed.route, routed.other.port);
    for (uint64_t until = clock_mono_us() + ROUTED_WAIT_MS * UINT64_C(1000); present() < DELETED;) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(50 * 1000);
    }
    fixture_wait(&routed.fixture, 0, "job_state", "done");
    fixture_wait(&routed.fixture, 0, "job_trigger", "older");
    fixture_all_present(&routed.fixture, 0, 0, ROUTED_ROWS);
}

/* A restart, and transactions that nobody wrote anything in, are no reason. */
static void test_database__that_goes_on_is_not_read_again(void **state)
{
    (void)state;
    struct error e = {""};
    char before[32], after[32];
    routed_rebuild();
    must(client_status(&routed.fixture.client[0], FILTER, "generation", before, sizeof(before), &e), e);
    temp_postgres_stop(&routed.fixture.postgres);
    must(temp_postgres_restart(&routed.fixture.postgres, &e), e);
    clock_sleep_us(ROUTED_CALM_US);
    must(client_status(&routed.fixture.client[0], FILTER, "generation", after, sizeof(after), &e), e);
    assert_string_equal(before, after);
}

/* `dsn` leads to another server by mistake, whose table has few rows. It has given fewer transaction ids, and
 * most keys seem to be dead. */
static void test_database__of_another_server_is_read_when_an_operator_wants_it(void **state)
{
    (void)state;
    struct error e = {""};
    char text[256] = "";
    must(temp_postgres_start(&routed.other, NULL, &e), e);
    PGconn *other = PQconnectdb(routed.other.dsn);
    fixture_sql(other, "CREATE TABLE short_link (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
                       "code text NOT NULL UNIQUE, url text NOT NULL)");
    PQfinish(other);
    for (unsigned i = 0; i < TRANSACTIONS; i++)
        fixture_insert(routed.fixture.db, ROUTED_ROWS + i, 1);
    routed_rebuild();
    int64_t before = fixture_generation(&routed.fixture, 0);
    fixture_ask(&routed.fixture, 0,
                "TB.REBUILD " FILTER " CAPACITY 1000000000000"); /* too large: nothing is read */
    fixture_wait(&routed.fixture, 0, "job_state", "failed");
    proxy_aim(routed.proxy, routed.route, routed.other.port);
    clock_sleep_us(2 * ROUTED_CALM_US);
    must(client_status(&routed.fixture.client[0], FILTER, "postgres", text, sizeof(text), &e), e);
    assert_non_null(strstr(text, "dsn leads to another Postgres"));
    assert_int_equal(fixture_generation(&routed.fixture, 0), before);
    fixture_all_present(&routed.fixture, 0, 0, ROUTED_ROWS + TRANSACTIONS);
    routed_rebuild();
    fixture_wait(&routed.fixture, 0, "postgres", "ok");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_database__that_is_older_than_the_last_rebuild_is_read_again,
                                        routed_start, routed_stop),
        cmocka_unit_test_setup_teardown(test_database__that_goes_on_is_not_read_again, routed_start,
                                        routed_stop),
        cmocka_unit_test_setup_teardown(test_database__of_another_server_is_read_when_an_operator_wants_it,
                                        routed_start, routed_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
