/* SPDX-License-Identifier: MIT */
/* A standby of Postgres becomes a primary during a rebuild, or before: where rows are read from, where `dsn`
 * leads, or where it leads to now, while a follower still has the other one. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/integration/psql.h"
#include "tests/lib/proxy.h"

enum { ROWS = 2000, LATER = 200, LOST = 300, MORE = 500, FEW = 20, WAIT_MS = 60000 };

static struct fixture fixture;
static struct temp_postgres standby;
static struct proxy *proxy;

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .postgres = true, .rows = ROWS});
    must(temp_postgres_start_standby(&standby, &fixture.postgres, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    int stopped = fixture_stop(&fixture);
    proxy_stop(proxy);
    proxy = NULL;
    temp_postgres_fini(&standby);
    return stopped;
}

/* Either server, the first one that can be written. */
static const char *either(void)
{
    static char dsn[200];
    (void)snprintf(dsn, sizeof(dsn),
                   "host=127.0.0.1,127.0.0.1 port=%u,%u user=postgres dbname=postgres "
                   "target_session_attrs=read-write",
                   (unsigned)fixture.postgres.port, (unsigned)standby.port);
    return dsn;
}

static void start_daemon_at(unsigned d, const char *dsn, const char *postgres, const char *follow)
{
    struct error e = {""};
    char filters[500];
    (void)snprintf(filters, sizeof(filters),
                   "[filter " FILTER "]\ncapacity = 20000\nerror_rate = 0.0001\ntable = short_link\n"
                   "id_column = id\nkey = code\ngrace = 0s\n%s",
                   follow);
    const struct daemon_options o = {.nodes = fixture.node_list,
                                     .dsn = dsn,
                                     .postgres = postgres,
                                     .expansion = "verify_sample = 1\n",
                                     .filters = filters};
    must(daemon_start(&fixture.daemon[d], &o, &e), e);
    fixture.daemons = d + 1;
    fixture_reconnect(&fixture, d);
    fixture_wait(&fixture, d, "built", "1");
    fixture_wait(&fixture, d, "job_state", "done");
}

static void start_daemon(const char *dsn, const char *postgres, const char *follow)
{
    start_daemon_at(0, dsn, postgres, follow);
}

static void promote(void)
{
    PGconn *db = PQconnectdb(standby.dsn);
    assert_int_equal(PQstatus(db), CONNECTION_OK);
    fixture_sql(db, "SELECT pg_promote()");
    PQfinish(db);
}

/* A route through the proxy to the primary, which may be led elsewhere. */
static unsigned to_primary(char *dsn, size_t size)
{
    struct error e = {""};
    unsigned route;
    uint16_t port;
    must(proxy_start(&proxy, &e), e);
    must(proxy_add(proxy, WIRE_POSTGRES, fixture.postgres.port, &route, &port, &e), e);
    (void)snprintf(dsn, size, "host=127.0.0.1 port=%u user=postgres dbname=postgres", (unsigned)port);
    return route;
}

/* Rows that only the primary gets are not missed by a rebuild that reads the former standby. */
static void test_read_dsn__is_not_read_once_it_is_a_primary(void **state)
{
    (void)state;
    struct error e = {""};
    char postgres[200];
    (void)snprintf(postgres, sizeof(postgres), "read_dsn = %s\ntimeout = 3s\n", standby.dsn);
    start_daemon(fixture.postgres.dsn, postgres, "follow = no\n");
    promote();
    fixture_insert(fixture.db, ROWS, LATER);
    must(client_madd(&fixture.client[0], FILTER, fixture_code, ROWS, LATER, &e), e);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    must(client_wait_status(&fixture.client[0], FILTER, "job_waiting_for",
                            "read_dsn: the server is no standby, and not the server of dsn", WAIT_MS, &e),
         e);
    fixture_all_present(&fixture, 0, 0, ROWS + LATER);
    fixture_ask(&fixture, 0, "TB.ABORT " FILTER);
    fixture_wait(&fixture, 0, "job_state", "aborted");
    fixture_all_present(&fixture, 0, 0, ROWS + LATER);
}

/* The former standby lacks rows. A rebuild waits, and finds them when `dsn` leads to one server again. */
static void test_dsn__that_leads_readers_to_another_primary_is_not_read(void **state)
{
    (void)state;
    struct error e = {""};
    char dsn[100];
    unsigned route = to_primary(dsn, sizeof(dsn));
    start_daemon(dsn, "timeout = 3s\n", "follow = no\nsweep = no\n");
    promote();
    fixture_insert(fixture.db, ROWS, FEW); /* so few that the sample hardly has one of them */
    proxy_divert(proxy, route, "twinbloom reader", standby.port);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    must(client_wait_status(
             &fixture.client[0], FILTER, "job_waiting_for",
             "dsn leads to several servers: the server is no standby, and not the server of dsn", WAIT_MS,
             &e),
         e);
    proxy_divert(proxy, route, NULL, 0);
    fixture_wait(&fixture, 0, "job_state", "done");
    fixture_all_present(&fixture, 0, 0, ROWS + FEW);
}

/* Whenever the job holds again, behind another settle, have it cut over. */
static void await_cutover(void)
{
    struct error e = {""};
    char text[64] = "";
    uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
    while (strcmp(text, "done") != 0 && clock_mono_us() < until) {
        must(client_status(&fixture.client[0], FILTER, "job_step", text, sizeof(text), &e), e);
        if (strcmp(text, "hold") == 0)
            (void)!client_ok(&fixture.client[0], &e, "TB.CUTOVER " FILTER);
        clock_sleep_us(200 * 1000);
        must(client_status(&fixture.client[0], FILTER, "job_state", text, sizeof(text), &e), e);
    }
    assert_string_equal(text, "done");
}

/* The new primary gives ids and transaction ids again that the job had seen on the former one. */
static void test_dsn__that_leads_to_a_promoted_standby_has_the_job_settle_again(void **state)
{
    (void)state;
    struct error e = {""};
    start_daemon(either(), "timeout = 3s\n", "follow = no\n");
    temp_postgres_stop(&standby);
    for (unsigned i = 0; i < LOST; i++) /* each in a transaction of its own */
        fixture_insert(fixture.db, 1000000 + i, 1);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER " HOLD");
    fixture_wait(&fixture, 0, "job_step", "hold");
    PQfinish(fixture.db);
    temp_postgres_stop(&fixture.postgres);
    must(temp_postgres_restart(&standby, &e), e);
    promote();
    fixture.db = PQconnectdb(standby.dsn);
    fixture_insert(fixture.db, ROWS, LATER);
    fixture_ask(&fixture, 0, "TB.CUTOVER " FILTER);
    await_cutover();
    fixture_all_present(&fixture, 0, 0, ROWS + LATER);
}

/* The job reads from another primary in mid-catch-up, and notes which ids that one has. Then `dsn` leads to
 * the first one again, which gives these ids to other rows. */
static void test_dsn__that_leads_to_another_primary_for_a_moment_has_the_job_settle_again(void **state)
{
    (void)state;
    struct error e = {""};
    char dsn[100], text[64] = "hold";
    unsigned route, redis;
    uint16_t port;
    must(proxy_start(&proxy, &e), e);
    must(proxy_add(proxy, WIRE_REDIS, fixture.redis[0].port, &redis, &port, &e), e);
    (void)snprintf(fixture.node_list, sizeof(fixture.node_list), "redis://127.0.0.1:%u", (unsigned)port);
    must(proxy_add(proxy, WIRE_POSTGRES, fixture.postgres.port, &route, &port, &e), e);
    (void)snprintf(dsn, sizeof(dsn), "host=127.0.0.1 port=%u user=postgres dbname=postgres", (unsigned)port);
    start_daemon(dsn, "timeout = 3s\n", "follow = no\nsweep = no\n");
    promote();
    PGconn *other = PQconnectdb(standby.dsn);
    fixture_insert(other, 1000000, MORE);
    PQfinish(other);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER " HOLD");
    fixture_wait(&fixture, 0, "job_step", "hold");
    fixture_insert(fixture.db, ROWS, LATER);
    proxy_aim(proxy, route, standby.port);
    proxy_count_only(proxy, "caught_up_by");
    proxy_count(proxy, "", 1, PROXY_BEFORE);
    fixture_ask(&fixture, 0, "TB.CUTOVER " FILTER);
    for (uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
         !proxy_is_held(proxy) && strcmp(text, "settle") != 0 && clock_mono_us() < until;)
        must(client_status(&fixture.client[0], FILTER, "job_step", text, sizeof(text), &e), e);
    proxy_aim(proxy, route, fixture.postgres.port);
    proxy_release(proxy, true);
    await_cutover();
    fixture_all_present(&fixture, 0, 0, ROWS + LATER);
}

static void install_outbox(void)
{
    static const char *const outbox[] = {
        "table=short_link", "id=id", "columns=code, deleted_at", "outbox=link_outbox", "reader=postgres",
        "notify=true",      NULL};
    int status = -1;
    char *output = psql_file(&fixture.postgres, "outbox", outbox, &status);
    if (status != 0)
        fail_msg("outbox: %s", output);
    free(output);
}

/* Wait until the standby has what the primary has. */
static void await_standby(void)
{
    PGconn *db = PQconnectdb(standby.dsn);
    uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
    for (bool there = false; !there;) {
        PGresult *r = PQexec(
            db, "SELECT 1 FROM pg_trigger WHERE tgrelid = to_regclass('short_link') AND tgtype & 16 > 0");
        there = PQntuples(r) > 0;
        PQclear(r);
        assert_true(clock_mono_us() < until);
        clock_sleep_us(50 * 1000);
    }
    PQfinish(db);
}

/* The former primary still runs, and the follower still reads from it. It says that all is added; a rebuild
 * on the server that @succeed has made a primary does not believe that. */
static void is_not_covered(void (*succeed)(void))
{
    install_outbox();
    await_standby();
    start_daemon(either(), "timeout = 3s\n", "follow_by = outbox\noutbox = link_outbox\n");
    fixture_wait(&fixture, 0, "follow_state", "running");
    succeed();
    fixture_sql(fixture.db,
                "ALTER DATABASE postgres SET default_transaction_read_only = on"); /* for new sessions */
    PQfinish(fixture.db);
    fixture.db = PQconnectdb(standby.dsn);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER " HOLD");
    fixture_wait(&fixture, 0, "job_step", "hold");
    fixture_insert(fixture.db, ROWS, LATER);
    fixture_ask(&fixture, 0, "TB.CUTOVER " FILTER);
    fixture_wait(&fixture, 0, "job_state", "done");
    fixture_all_present(&fixture, 0, 0, ROWS + LATER);
}

static void test_dsn__that_leads_to_another_primary_than_the_follower_has_is_not_covered_by_it(void **state)
{
    (void)state;
    is_not_covered(promote);
}

/* Let the standby start as a primary of the same timeline, as a copy of the primary's storage would. */
static void start_as_copy(void)
{
    struct error e = {""};
    char path[sizeof(standby.directory) + 32];
    temp_postgres_stop(&standby);
    (void)snprintf(path, sizeof(path), "%s/data/standby.signal", standby.directory);
    assert_int_equal(unlink(path), 0);
    must(temp_postgres_restart(&standby, &e), e);
}

static void test_dsn__that_leads_to_a_copy_of_the_followers_primary_is_not_covered_by_it(void **state)
{
    (void)state;
    is_not_covered(start_as_copy);
}

/* An operator has the configuration name a copy of the database, and the follower is that of a coordinator
 * which was not restarted yet. */
static void test_dsn__that_names_another_database_than_the_followers_is_not_covered_by_it(void **state)
{
    (void)state;
    char dsn[100];
    install_outbox();
    fixture_sql(fixture.db, "CREATE DATABASE copy TEMPLATE postgres");
    (void)snprintf(dsn, sizeof(dsn), "host=127.0.0.1 port=%u user=postgres dbname=copy",
                   (unsigned)fixture.postgres.port);
    PGconn *copy = PQconnectdb(dsn);
    start_daemon_at(0, fixture.postgres.dsn, "", "follow_by = outbox\noutbox = link_outbox\n");
    fixture_wait(&fixture, 0, "follow_state", "running");
    start_daemon_at(1, dsn, "", "follow_by = outbox\noutbox = link_outbox\n");
    fixture_ask(&fixture, 1, "TB.REBUILD " FILTER " HOLD");
    fixture_wait(&fixture, 1, "job_step", "hold");
    fixture_insert(copy, ROWS, LATER);
    PQfinish(copy);
    fixture_ask(&fixture, 1, "TB.CUTOVER " FILTER);
    fixture_wait(&fixture, 1, "job_state", "done");
    fixture_all_present(&fixture, 1, 0, ROWS + LATER);
}

/* End the session that reads the outbox, once it has read: between two reads it asks other questions. */
static void end_outbox_session(void)
{
    uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
    for (int ended = 0; ended == 0; clock_sleep_us(1000)) {
        PGresult *r = PQexec(fixture.db, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                                         "application_name = 'twinbloom follower' "
                                         "AND query LIKE '%FROM public.link_outbox%'");
        assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
        ended = PQntuples(r);
        PQclear(r);
        assert_true(clock_mono_us() < until);
    }
}

/* The connection that hears of rows is made again, and leads to another primary than the one that reads them.
 */
static void test_dsn__that_leads_the_follower_to_two_servers_loses_no_row(void **state)
{
    (void)state;
    struct error e = {""};
    char dsn[100];
    unsigned route = to_primary(dsn, sizeof(dsn));
    install_outbox();
    await_standby();
    start_daemon(dsn, "timeout = 3s\n",
                 "follow_by = outbox\noutbox = link_outbox\n"
                 "[filter other]\ncapacity = 20000\nerror_rate = 0.0001\n"
                 "table = short_link\nid_column = id\nkey = code\nfollow_by = ids\n");
    fixture_wait(&fixture, 0, "follow_state", "running");
    promote();
    PGconn *other = PQconnectdb(standby.dsn);
    fixture_insert(other, ROWS, LATER);
    PQfinish(other);
    proxy_divert(proxy, route, "twinbloom follower", standby.port);
    end_outbox_session();
    must(client_wait_status(&fixture.client[0], FILTER, "follow_error",
                            "dsn leads to two servers: a primary was replaced, but still runs", WAIT_MS, &e),
         e);
    proxy_aim(proxy, route, standby.port);
    for (uint64_t present = 0, until = clock_mono_us() + WAIT_MS * UINT64_C(1000); present < LATER;) {
        must(client_mexists(&fixture.client[0], FILTER, fixture_code, ROWS, LATER, &present, NULL, &e), e);
        assert_true(clock_mono_us() < until);
        clock_sleep_us(50 * 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_read_dsn__is_not_read_once_it_is_a_primary, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dsn__that_leads_readers_to_another_primary_is_not_read, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_dsn__that_leads_to_a_promoted_standby_has_the_job_settle_again,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_dsn__that_leads_to_another_primary_for_a_moment_has_the_job_settle_again, setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_dsn__that_leads_to_another_primary_than_the_follower_has_is_not_covered_by_it, setup,
            teardown),
        cmocka_unit_test_setup_teardown(
            test_dsn__that_leads_to_a_copy_of_the_followers_primary_is_not_covered_by_it, setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_dsn__that_names_another_database_than_the_followers_is_not_covered_by_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dsn__that_leads_the_follower_to_two_servers_loses_no_row, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
