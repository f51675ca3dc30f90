/* SPDX-License-Identifier: MIT */
/* A standby of Postgres was promoted, and the server before it comes back as a primary. It lacks the rows
 * that only the promoted one has, and `dsn` leads to it. */
#include "tests/integration/routed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { LATER = 200, TRANSACTIONS = 300 };

static const char former[] = "dsn leads to a former primary (timeline 1)";
static PGconn *promoted;

static int finish(void **state)
{
    PQfinish(promoted);
    promoted = NULL;
    return routed_stop(state);
}

static uint64_t present(void)
{
    struct error e = {""};
    uint64_t count = 0;
    must(
        client_mexists(&routed.fixture.client[0], FILTER, fixture_code, ROUTED_ROWS, LATER, &count, NULL, &e),
        e);
    return count;
}

static redisReply *to_redis(const char *command)
{
    redisContext *c = redisConnect("127.0.0.1", routed.fixture.redis[0].port);
    assert_non_null(c);
    redisReply *r = redisCommand(c, command);
    assert_non_null(r);
    redisFree(c);
    return r;
}

/* True if coordinators have noted the promoted server's timeline. */
static bool is_noted(void)
{
    redisReply *r = to_redis("HVALS twinbloom:timelines");
    bool noted = r->type == REDIS_REPLY_ARRAY && r->elements == 1 && strcmp(r->element[0]->str, "2") == 0;
    freeReplyObject(r);
    return noted;
}

static void await_note(void)
{
    for (uint64_t until = clock_mono_us() + ROUTED_WAIT_MS * UINT64_C(1000);;) {
        if (is_noted())
            return;
        assert_true(clock_mono_us() < until);
        clock_sleep_us(100 * 1000);
    }
}

/* The standby becomes the primary, and gets rows whose keys are added. */
static void fail_over(void)
{
    struct error e = {""};
    must(temp_postgres_start_standby(&routed.other, &routed.fixture.postgres, &e), e);
    promoted = PQconnectdb(routed.other.dsn);
    fixture_sql(promoted, "SELECT pg_promote()");
    proxy_aim(routed.proxy, routed.route, routed.other.port);
    fixture_insert(promoted, ROUTED_ROWS, LATER);
    must(client_madd(&routed.fixture.client[0], FILTER, fixture_code, ROUTED_ROWS, LATER, &e), e);
}

/* Wait until @field of the status says what is wrong with `dsn`. */
static void await_refusal(const char *field)
{
    struct error e = {""};
    char text[256] = "";
    for (uint64_t until = clock_mono_us() + ROUTED_WAIT_MS * UINT64_C(1000); strstr(text, former) == NULL;) {
        if (client_status(&routed.fixture.client[0], FILTER, field, text, sizeof(text), &e) != ERR_OK)
            text[0] = '\0'; /* the job does not wait yet */
        assert_true(clock_mono_us() < until);
        clock_sleep_us(50 * 1000);
    }
}

/* True if a look at the table was made since @before was noted, which is when the last one was made. */
static bool is_looked_at_since(char before[64])
{
    char at[64];
    struct error e;
    if (client_status(&routed.fixture.client[0], FILTER, "source_rows_at", at, sizeof(at), &e) != ERR_OK ||
        at[0] == '\0' || strcmp(at, before) == 0)
        return false;
    (void)snprintf(before, 64, "%s", at);
    return true;
}

/* `dsn` may lead there by mistake: a clone was promoted to try something. Looks are ten seconds apart. */
static void test_a_timeline__is_noted_by_the_second_look_that_meets_it(void **state)
{
    enum { TOLD_US = 3 * 1000 * 1000 };
    (void)state;
    char before[64] = "";
    unsigned looks = 0;
    fail_over();
    (void)is_looked_at_since(before);
    for (uint64_t until = 0; until == 0 || clock_mono_us() < until; clock_sleep_us(50 * 1000)) {
        if (until == 0 && is_noted())
            until = clock_mono_us() + TOLD_US; /* the status has that look a moment later */
        looks += is_looked_at_since(before);
    }
    assert_true(looks >= 2);
}

/* Nor by a coordinator that never met the promoted one. */
static void test_rebuild__does_not_read_a_former_primary(void **state)
{
    (void)state;
    struct error e = {""};
    fail_over();
    await_note();
    assert_true(daemon_stop(&routed.fixture.daemon[0], 10000));
    proxy_aim(routed.proxy, routed.route, routed.fixture.postgres.port);
    must(daemon_launch(&routed.fixture.daemon[0], &e), e);
    fixture_reconnect(&routed.fixture, 0);
    fixture_ask(&routed.fixture, 0, "TB.REBUILD " FILTER);
    await_refusal("job_waiting_for");
    await_refusal("postgres");
    assert_non_null(strstr(fixture_cli(routed.fixture.daemon[0].port, "doctor")->text, former));
    assert_int_equal(present(), LATER);
    proxy_aim(routed.proxy, routed.route, routed.other.port);
    fixture_wait(&routed.fixture, 0, "job_state", "done");
    fixture_all_present(&routed.fixture, 0, 0, ROUTED_ROWS + LATER);
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
        fixture_insert(promoted, ROUTED_ROWS + LATER + i, 1);
    await_note();
    routed_rebuild();
    must(client_status(&routed.fixture.client[0], FILTER, "generation", before, sizeof(before), &e), e);
    proxy_aim(routed.proxy, routed.route, routed.fixture.postgres.port);
    await_refusal("postgres");
    clock_sleep_us(ROUTED_CALM_US);
    must(client_status(&routed.fixture.client[0], FILTER, "generation", after, sizeof(after), &e), e);
    assert_string_equal(before, after);
    assert_int_equal(present(), LATER);
    freeReplyObject(to_redis("DEL twinbloom:timelines")); /* an operator gives the rows up */
    fixture_wait(&routed.fixture, 0, "job_trigger", "older");
    fixture_wait(&routed.fixture, 0, "job_state", "done");
    fixture_all_present(&routed.fixture, 0, 0, ROUTED_ROWS);
    assert_in_range(present(), 0, 2); /* false positives */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_timeline__is_noted_by_the_second_look_that_meets_it,
                                        routed_start, finish),
        cmocka_unit_test_setup_teardown(test_rebuild__does_not_read_a_former_primary, routed_start, finish),
        cmocka_unit_test_setup_teardown(test_former_primary__is_not_taken_for_a_database_that_was_restored,
                                        routed_start, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
