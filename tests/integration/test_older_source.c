/* SPDX-License-Identifier: MIT */
/* The database goes back to before the last rebuild, as where a backup or a snapshot is restored. Rows are
 * back that were deleted then: no generation has them, and nobody adds or reports them. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/proxy.h"

enum { ROWS = 2000, DELETED = 100, TRANSACTIONS = 50, WAIT_MS = 60000, CALM_US = 15 * 1000 * 1000 };

static struct fixture fixture;
static struct temp_postgres backup;
static struct proxy *proxy;
static unsigned route;

/* The coordinator meets the server through the proxy. */
static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    uint16_t port;
    char dsn[100];
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .postgres = true, .rows = ROWS});
    must(proxy_start(&proxy, &e), e);
    must(proxy_add(proxy, WIRE_POSTGRES, fixture.postgres.port, &route, &port, &e), e);
    (void)snprintf(dsn, sizeof(dsn), "host=127.0.0.1 port=%u user=postgres dbname=postgres", (unsigned)port);
    const struct daemon_options o = {.nodes = fixture.node_list,
                                     .dsn = dsn,
                                     .service = "check_interval = 100ms\n",
                                     .filters = "[filter " FILTER "]\ncapacity = 20000\nerror_rate = 0.0001\n"
                                                "table = short_link\nid_column = id\nkey = code\n"
                                                "grace = 0s\nfollow = no\nexpand_at_dead = 0.5\n"};
    must(daemon_start(&fixture.daemon[0], &o, &e), e);
    fixture.daemons = 1;
    fixture_reconnect(&fixture, 0);
    fixture_wait(&fixture, 0, "job_state", "done");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    int stopped = fixture_stop(&fixture);
    proxy_stop(proxy);
    temp_postgres_fini(&backup);
    return stopped;
}

static uint64_t present(void)
{
    struct error e = {""};
    uint64_t count = 0;
    must(client_mexists(&fixture.client[0], FILTER, fixture_code, 0, DELETED, &count, NULL, &e), e);
    return count;
}

static void rebuild(void)
{
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, 0, "job_trigger", "operator");
    fixture_wait(&fixture, 0, "job_state", "done");
}

static void test_database__that_is_older_than_the_last_rebuild_is_read_again(void **state)
{
    (void)state;
    struct error e = {""};
    must(temp_postgres_start_clone(&backup, &fixture.postgres, &e), e);
    fixture_sql(fixture.db, "DELETE FROM short_link WHERE substr(code, 2)::bigint < 100");
    for (unsigned i = 0; i < TRANSACTIONS; i++)
        fixture_insert(fixture.db, ROWS + i, 1);
    rebuild();
    assert_in_range(present(), 0, 1); /* false positives */
    proxy_aim(proxy, route, backup.port);
    for (uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000); present() < DELETED;) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(50 * 1000);
    }
    fixture_wait(&fixture, 0, "job_state", "done");
    fixture_wait(&fixture, 0, "job_trigger", "older");
    fixture_all_present(&fixture, 0, 0, ROWS);
}

/* A restart, and transactions that nobody wrote anything in, are no reason. */
static void test_database__that_goes_on_is_not_read_again(void **state)
{
    (void)state;
    struct error e = {""};
    char before[32], after[32];
    rebuild();
    must(client_status(&fixture.client[0], FILTER, "generation", before, sizeof(before), &e), e);
    temp_postgres_stop(&fixture.postgres);
    must(temp_postgres_restart(&fixture.postgres, &e), e);
    clock_sleep_us(CALM_US);
    must(client_status(&fixture.client[0], FILTER, "generation", after, sizeof(after), &e), e);
    assert_string_equal(before, after);
}

/* `dsn` leads to another server by mistake, whose table has few rows. It has given fewer transaction ids, and
 * most keys seem to be dead. */
static void test_database__of_another_server_is_read_when_an_operator_wants_it(void **state)
{
    (void)state;
    struct error e = {""};
    char text[256] = "";
    must(temp_postgres_start(&backup, NULL, &e), e);
    PGconn *other = PQconnectdb(backup.dsn);
    fixture_sql(other, "CREATE TABLE short_link (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
                       "code text NOT NULL UNIQUE, url text NOT NULL)");
    PQfinish(other);
    for (unsigned i = 0; i < TRANSACTIONS; i++)
        fixture_insert(fixture.db, ROWS + i, 1);
    rebuild();
    int64_t before = fixture_generation(&fixture, 0);
    proxy_aim(proxy, route, backup.port);
    clock_sleep_us(2 * CALM_US);
    must(client_status(&fixture.client[0], FILTER, "postgres", text, sizeof(text), &e), e);
    assert_non_null(strstr(text, "dsn leads to another Postgres"));
    assert_int_equal(fixture_generation(&fixture, 0), before);
    fixture_all_present(&fixture, 0, 0, ROWS + TRANSACTIONS);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    for (uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
         fixture_generation(&fixture, 0) == before;) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(50 * 1000);
    }
    fixture_wait(&fixture, 0, "postgres", "ok");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_database__that_is_older_than_the_last_rebuild_is_read_again,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_database__that_goes_on_is_not_read_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_database__of_another_server_is_read_when_an_operator_wants_it,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
