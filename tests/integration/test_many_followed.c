/* SPDX-License-Identifier: MIT */
/* Many filters of one database are followed over a few connections, which they use in turn. */
#include "tests/integration/fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { FOLLOWED_MOST = 100, CONNECTIONS = 4, ROWS = 200, CAPACITY = 1000, DEADLINE_MS = 60000, MORE = 5 };

static struct fixture fixture;
static unsigned followed = 20;

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    if (getenv("TWINBLOOM_LONG") != NULL)
        followed = FOLLOWED_MOST;
    static char filters[FOLLOWED_MOST * 128];
    size_t used = 0;
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .postgres = true, .rows = ROWS});
    for (unsigned i = 0; i < followed; i++)
        used += (size_t)snprintf(
            filters + used, sizeof(filters) - used,
            "[filter links-%u]\ncapacity = %d\ntable = short_link\nkey = code\ngrace = 0s\n", i, CAPACITY);
    const struct daemon_options o = {
        .nodes = fixture.node_list, .dsn = fixture.postgres.dsn, .filters = filters};
    must(daemon_start(&fixture.daemon[0], &o, &e), e);
    fixture.daemons = 1;
    fixture_reconnect(&fixture, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

static void name_filter(char name[16], unsigned i)
{
    (void)snprintf(name, 16, "links-%u", i);
}

static void all_follow(void)
{
    struct error e = {""};
    for (unsigned i = 0; i < followed; i++) {
        char name[16];
        name_filter(name, i);
        must(client_wait_status(&fixture.client[0], name, "built", "1", DEADLINE_MS, &e), e);
        must(client_wait_status(&fixture.client[0], name, "follow_state", "running", DEADLINE_MS, &e), e);
    }
}

static unsigned connections(void)
{
    PGresult *r = PQexec(
        fixture.db, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'twinbloom follower'");
    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
    unsigned count = (unsigned)strtoul(PQgetvalue(r, 0, 0), NULL, 10);
    PQclear(r);
    return count;
}

/* Whether filter @i reports all of @count codes from @first on as present. */
static bool has(unsigned i, uint64_t first, uint64_t count)
{
    char name[16];
    struct error e = {""};
    uint64_t present = 0;
    name_filter(name, i);
    must(client_mexists(&fixture.client[0], name, fixture_code, first, count, &present, NULL, &e), e);
    return present == count;
}

/* Every filter gets the rows that plain SQL writes; the number of connections stays limited. */
static void rows_follow(uint64_t first)
{
    uint64_t until = clock_mono_us() + DEADLINE_MS * UINT64_C(1000);
    fixture_insert(fixture.db, first, MORE);
    for (unsigned i = 0; i < followed; i++)
        while (!has(i, first, MORE)) {
            assert_in_range(connections(), 0, CONNECTIONS);
            if (clock_mono_us() > until)
                fail_msg("filter links-%u has not got its rows", i);
            clock_sleep_us(20 * 1000);
        }
    assert_in_range(connections(), 1, CONNECTIONS);
}

static void test_many__rows_follow_over_a_few_connections(void **state)
{
    (void)state;
    all_follow();
    rows_follow(500000);
}

/* The followers that share the connections recover from the loss. */
static void test_many__rows_follow_after_the_connections_were_cut(void **state)
{
    (void)state;
    fixture_sql(fixture.db, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                            "WHERE application_name = 'twinbloom follower'");
    rows_follow(600000);
}

static void test_many__rows_follow_after_postgres_was_restarted(void **state)
{
    (void)state;
    struct error e = {""};
    temp_postgres_stop(&fixture.postgres);
    must(temp_postgres_restart(&fixture.postgres, &e), e);
    PQreset(fixture.db);
    assert_int_equal(PQstatus(fixture.db), CONNECTION_OK);
    rows_follow(700000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many__rows_follow_over_a_few_connections),
        cmocka_unit_test(test_many__rows_follow_after_the_connections_were_cut),
        cmocka_unit_test(test_many__rows_follow_after_postgres_was_restarted),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
