/* SPDX-License-Identifier: MIT */
/* A build that another driver goes on with, though what the job's record says is of an earlier attempt, or of
 * another configuration. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 30000, STEADY_MS = 60000 };

/* The table has far more rows than are verified, as large tables do. */
#define REBUILD                                                                                              \
    "lease = 4s\npage_rows = 500\ncheckpoint_interval = 20ms\nverify_sample = 20\nrows_per_second = 20000\n"
#define ALL "public.gate(id)"
#define MOST "public.gate(id) AND id % 1000 <> 7"

/* One row can only be read while nobody holds an advisory lock. */
static const char gate[] =
    "CREATE FUNCTION public.gate(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN "
    "IF id = 15000 THEN PERFORM pg_advisory_lock_shared(7); "
    "PERFORM pg_advisory_unlock_shared(7); END IF; RETURN true; END $$";

static const struct fixture_options options = {.nodes = 1,
                                               .daemons = 2,
                                               .postgres = true,
                                               .rows = ROWS,
                                               .capacity = 60000,
                                               .rate = "0.0001",
                                               .expansion = REBUILD,
                                               .schema = gate,
                                               .where = ALL};

static struct fixture fixture;
static struct client redis;

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    if (fixture_start(&fixture, &options) != 0)
        return -1;
    must(client_open(&redis, fixture.redis[0].port, STEADY_MS, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    client_close(&redis);
    return fixture_stop(&fixture);
}

static redisReply *asked(const char *command)
{
    redisReply *r = client_command(&redis, command);
    assert_non_null(r);
    if (r->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", command, r->str);
    return r;
}

static uint64_t checkpoint_rows(void)
{
    redisReply *r = asked("HGET twinbloom:{" FILTER "}:job checkpoint_rows");
    uint64_t rows = r->type == REDIS_REPLY_STRING ? strtoull(r->str, NULL, 10) : 0;
    freeReplyObject(r);
    return rows;
}

/* Wait until a checkpoint of the scan covers @least to @most rows. */
static void await_checkpoint(uint64_t least, uint64_t most)
{
    uint64_t rows, until = clock_mono_us() + STEADY_MS * UINT64_C(1000);
    while ((rows = checkpoint_rows()) < least || rows > most) {
        if (clock_mono_us() > until)
            fail_msg("the checkpoint covers %llu rows", (unsigned long long)rows);
        clock_sleep_us(5000);
    }
}

/* Coordinator 0 reads all rows but those of one reader, which waits at the gate. */
static void begin_the_scan(void)
{
    fixture_sql(fixture.db, "SELECT pg_advisory_lock(7)");
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, 1, "job_step", "scan");
    await_checkpoint(ROWS / 3, ROWS);
}

static void kill_the_driver(void)
{
    client_close(&fixture.client[0]);
    daemon_kill(&fixture.daemon[0]);
}

static void is_finished_by_the_other(int64_t generation)
{
    struct error e = {""};
    fixture_sql(fixture.db, "SELECT pg_advisory_unlock(7)");
    must(client_wait_status_least(&fixture.client[1], FILTER, "generation", generation, STEADY_MS, &e), e);
    fixture_wait(&fixture, 1, "phase", "STEADY");
    fixture_wait(&fixture, 1, "job_state", "done");
    fixture_all_present(&fixture, 1, 0, ROWS);
}

/* The lane is lost, so the driver begins again, and makes the shards anew. */
static void begin_again(void)
{
    struct error e = {""};
    redisReply *lanes = asked("KEYS twinbloom:{" FILTER ".0}:*");
    assert_int_equal(lanes->elements, 1);
    freeReplyObject(client_command(&redis, "DEL %s", lanes->element[0]->str));
    freeReplyObject(lanes);
    uint64_t until = clock_mono_us() + STEADY_MS * UINT64_C(1000);
    while (client_madd(&fixture.client[1], FILTER, fixture_code, 0, 10, &e) != ERR_OK) /* it is noticed */
        if (clock_mono_us() > until)
            fail_msg("%s", e.text);
    await_checkpoint(1, ROWS / 4);
}

/* A command that the driver had sent over a connection that broke is executed late: the job's record has the
 * progress of the attempt before. */
static void test_takeover__scans_again_where_the_checkpoint_is_of_an_earlier_attempt(void **state)
{
    (void)state;
    static const char *const of_scan[] = {"range", "next_table", "checkpoint_rows", "scan_ended", "made"};
    int64_t before = fixture_generation(&fixture, 1);
    begin_the_scan();
    fixture_ask(&fixture, 0, "TB.THROTTLE " FILTER " 500");
    redisReply *was = asked("HGETALL twinbloom:{" FILTER "}:job");
    begin_again();
    kill_the_driver();
    for (size_t i = 0; i < was->elements; i += 2)
        for (size_t k = 0; k < sizeof(of_scan) / sizeof(of_scan[0]); k++)
            if (strncmp(was->element[i]->str, of_scan[k], strlen(of_scan[k])) == 0)
                freeReplyObject(client_command(&redis, "HSET twinbloom:{" FILTER "}:job %s %s",
                                               was->element[i]->str, was->element[i + 1]->str));
    freeReplyObject(was);
    assert_true(checkpoint_rows() > ROWS / 4);
    freeReplyObject(asked("HSET twinbloom:{" FILTER "}:job rows_per_second 0"));
    is_finished_by_the_other(before + 1);
}

/* The same with a step. */
static void test_takeover__scans_where_the_step_is_of_an_earlier_attempt(void **state)
{
    (void)state;
    int64_t before = fixture_generation(&fixture, 1);
    begin_the_scan();
    kill_the_driver();
    freeReplyObject(asked("HSET twinbloom:{" FILTER "}:job step catch_up"));
    is_finished_by_the_other(before + 1);
}

static void configure(unsigned d, const char *where)
{
    char filters[512];
    struct error e = {""};
    (void)snprintf(filters, sizeof(filters),
                   "[filter " FILTER "]\ncapacity = 60000\nerror_rate = 0.0001\ntable = short_link\n"
                   "id_column = id\nkey = code\nwhere = %s\ngrace = 500ms\nfollow = no\n",
                   where);
    const struct daemon_options o = {.nodes = fixture.node_list,
                                     .dsn = fixture.postgres.dsn,
                                     .redis = "",
                                     .expansion = REBUILD,
                                     .filters = filters};
    must(daemon_rewrite(&fixture.daemon[d], &o, &e), e);
    must(daemon_reload(&fixture.daemon[d], &e), e);
}

/* An operator has the configuration name more rows, and stops the coordinator that builds. */
static void test_takeover__scans_again_where_the_configuration_names_other_rows(void **state)
{
    (void)state;
    int64_t before = fixture_generation(&fixture, 1);
    for (unsigned d = 0; d < 2; d++)
        configure(d, MOST);
    begin_the_scan();
    configure(1, ALL);
    kill_the_driver();
    is_finished_by_the_other(before + 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_takeover__scans_again_where_the_checkpoint_is_of_an_earlier_attempt),
        TEST(test_takeover__scans_where_the_step_is_of_an_earlier_attempt),
        TEST(test_takeover__scans_again_where_the_configuration_names_other_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
