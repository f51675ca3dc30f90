/* SPDX-License-Identifier: MIT */
/* A standby of Postgres was promoted, and the server before it comes back as a primary. It lacks the rows
 * that only the promoted one has, and `dsn` leads to it. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/proxy.h"

enum { ROWS = 2000, LATER = 200, TRANSACTIONS = 300, WAIT_MS = 60000, CALM_US = 15 * 1000 * 1000 };

static const char former[] = "dsn leads to a former primary (timeline 1)";
static struct fixture fixture;
static struct temp_postgres standby;
static struct proxy *proxy;
static PGconn *promoted;
static unsigned route;

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    uint16_t port;
    char dsn[100];
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .postgres = true, .rows = ROWS});
    must(temp_postgres_start_standby(&standby, &fixture.postgres, &e), e);
    must(proxy_start(&proxy, &e), e);
    must(proxy_add(proxy, WIRE_POSTGRES, fixture.postgres.port, &route, &port, &e), e);
    (void)snprintf(dsn, sizeof(dsn), "host=127.0.0.1 port=%u user=postgres dbname=postgres", (unsigned)port);
    const struct daemon_options o = {.nodes = fixture.node_list,
                                     .dsn = dsn,
                                     .service = "check_interval = 100ms\n",
                                     .filters = "[filter " FILTER "]\ncapacity = 20000\nerror_rate = 0.0001\n"
                                                "table = short_link\nid_column = id\nkey = code\n"
                                                "grace = 0s\nfollow = no\n"};
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
    PQfinish(promoted);
    promoted = NULL;
    proxy_stop(proxy);
    temp_postgres_fini(&standby);
    return stopped;
}

static uint64_t present(void)
{
    struct error e = {""};
    uint64_t count = 0;
    must(client_mexists(&fixture.client[0], FILTER, fixture_code, ROWS, LATER, &count, NULL, &e), e);
    return count;
}

static void rebuild(void)
{
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, 0, "job_trigger", "operator");
    fixture_wait(&fixture, 0, "job_state", "done");
}

static redisReply *to_redis(const char *command)
{
    redisContext *c = redisConnect("127.0.0.1", fixture.redis[0].port);
    assert_non_null(c);
    redisReply *r = redisCommand(c, command);
    assert_non_null(r);
    redisFree(c);
    return r;
}

/* Wait until coordinators have noted the promoted server's timeline. */
static void await_note(void)
{
    for (uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);;) {
        redisReply *r = to_redis("HVALS twinbloom:timelines");
        bool noted = r->type == REDIS_REPLY_ARRAY && r->elements == 1 && strcmp(r->element[0]->str, "2") == 0;
        freeReplyObject(r);
        if (noted)
            return;
        assert_true(clock_mono_us() < until);
        clock_sleep_us(100 * 1000);
    }
}

/* The standby becomes the primary, and gets rows whose keys are added. */
static void fail_over(void)
{
    struct error e = {""};
    promoted = PQconnectdb(standby.dsn);
    fixture_sql(promoted, "SELECT pg_promote()");
    proxy_aim(proxy, route, standby.port);
    fixture_insert(promoted, ROWS, LATER);
    must(client_madd(&fixture.client[0], FILTER, fixture_code, ROWS, LATER, &e), e);
}

/* Wait until @field of the status says what is wrong with `dsn`. */
static void await_refusal(const char *field)
{
    struct error e = {""};
    char text[256] = "";
    for (uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000); strstr(text, former) == NULL;) {
        if (client_status(&fixture.client[0], FILTER, field, text, sizeof(text), &e) != ERR_OK)
            text[0] = '\0'; /* the job does not wait yet */
        assert_true(clock_mono_us() < until);
        clock_sleep_us(50 * 1000);
    }
}

/* Nor by a coordinator that never met the promoted one. */
static void test_rebuild__does_not_read_a_former_primary(void **state)
{
    (void)state;
    struct error e = {""};
    fail_over();
    await_note();
    assert_true(daemon_stop(&fixture.daemon[0], 10000));
    proxy_aim(proxy, route, fixture.postgres.port);
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    await_refusal("job_waiting_for");
    await_refusal("postgres");
    assert_non_null(strstr(fixture_cli(fixture.daemon[0].port, "doctor")->text, former));
    assert_int_equal(present(), LATER);
    proxy_aim(proxy, route, standby.port);
    fixture_wait(&fixture, 0, "job_state", "done");
    fixture_all_present(&fixture, 0, 0, ROWS + LATER);
}

/* It has given fewer transaction ids than the last rebuild has read, as a restored backup has. An operator
 * may have it read all the same. */
static void test_former_primary__is_not_taken_for_a_database_that_was_restored(void **state)
{
    (void)state;
    char before[32], after[32];
    struct error e = {""};
    fail_over();
    for (unsigned i = 0; i < TRANSACTIONS; i++)
        fixture_insert(promoted, ROWS + LATER + i, 1);
    await_note();
    rebuild();
    must(client_status(&fixture.client[0], FILTER, "generation", before, sizeof(before), &e), e);
    proxy_aim(proxy, route, fixture.postgres.port);
    await_refusal("postgres");
    clock_sleep_us(CALM_US);
    must(client_status(&fixture.client[0], FILTER, "generation", after, sizeof(after), &e), e);
    assert_string_equal(before, after);
    assert_int_equal(present(), LATER);
    freeReplyObject(to_redis("DEL twinbloom:timelines")); /* an operator gives the rows up */
    fixture_wait(&fixture, 0, "job_trigger", "older");
    fixture_wait(&fixture, 0, "job_state", "done");
    fixture_all_present(&fixture, 0, 0, ROWS);
    assert_in_range(present(), 0, 2); /* false positives */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rebuild__does_not_read_a_former_primary, setup, teardown),
        cmocka_unit_test_setup_teardown(test_former_primary__is_not_taken_for_a_database_that_was_restored,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
