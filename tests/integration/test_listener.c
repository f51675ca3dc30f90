/* SPDX-License-Identifier: MIT */
/* Coordinators learn of each other's changes by P:events, not at their interval of checks, which is a minute
 * here. */
#include "tests/integration/fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 30000, WORKERS = 2, STEADY_MS = 60000, HEARD_MS = 5000 };
#define INTERVAL "check_interval = 60s\nthreads = 2\n"

static struct fixture fixture;

/* A scan that can be stopped: see test_takeover.c. */
static const char gate[] =
    "CREATE FUNCTION public.gate(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN "
    "IF id = 15000 THEN PERFORM pg_advisory_lock_shared(7); "
    "PERFORM pg_advisory_unlock_shared(7); END IF; RETURN true; END $$";

static const struct fixture_options options = {.nodes = 1,
                                               .daemons = 2,
                                               .postgres = true,
                                               .rows = ROWS,
                                               .capacity = 60000,
                                               .rate = "0.01",
                                               .service = INTERVAL "log_level = debug\n",
                                               .expansion = "lease = 60s\nrows_per_second = 20000\n",
                                               .schema = gate,
                                               .where = "public.gate(id)"};

static unsigned lines_with(const struct process *p, const char *text)
{
    unsigned n = 0;
    char *log = process_log(p);
    for (const char *at = log; (at = strstr(at, text)) != NULL; at += strlen(text))
        n++;
    free(log);
    return n;
}

static void wait_lines(const struct process *p, const char *text, unsigned wanted)
{
    uint64_t until = clock_mono_us() + HEARD_MS * 1000ull;
    while (lines_with(p, text) < wanted) {
        if (clock_mono_us() > until)
            fail_msg("%u times \"%s\", expected %u", lines_with(p, text), text, wanted);
        clock_sleep_us(10000);
    }
}

/* Connections go to the workers in turn, so each worker gets one check. */
static void let_every_worker_know_the_filter(unsigned d)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        struct error e = {""};
        struct client c;
        int64_t present = 0;
        must(client_open(&c, fixture.daemon[d].port, STEADY_MS, &e), e);
        must(client_integer(&c, &present, &e, "BF.EXISTS " FILTER " c1"), e);
        client_close(&c);
        assert_int_equal(present, 1);
    }
}

static void rebuild(unsigned d)
{
    struct error e = {""};
    int64_t before = fixture_generation(&fixture, d);
    must(client_ok(&fixture.client[d], &e, "TB.REBUILD " FILTER), e);
    must(client_wait_status_least(&fixture.client[d], FILTER, "generation", before + 1, STEADY_MS, &e), e);
    must(client_wait_status(&fixture.client[d], FILTER, "job_state", "done", STEADY_MS, &e), e);
}

/* The workers share the filter. */
static void every_worker_heard_of_the_view(unsigned d)
{
    struct error e = {""};
    int64_t generation = fixture_generation(&fixture, d);
    must(client_wait_status_least(&fixture.client[d], FILTER, "serving_generation", generation, HEARD_MS, &e),
         e);
}

static void test_listener__lets_every_worker_load_a_view_that_another_coordinator_changed(void **state)
{
    (void)state;
    let_every_worker_know_the_filter(1);
    rebuild(0);
    every_worker_heard_of_the_view(1);
}

static void test_listener__subscribes_anew(void **state)
{
    (void)state;
    struct error e = {""};
    struct client redis;
    int64_t killed = 0;
    unsigned before = lines_with(&fixture.daemon[1].process, "event=subscribed");
    must(client_open(&redis, fixture.redis[0].port, STEADY_MS, &e), e);
    must(client_integer(&redis, &killed, &e, "CLIENT KILL TYPE pubsub"), e);
    client_close(&redis);
    assert_int_equal(killed, 2);
    wait_lines(&fixture.daemon[1].process, "event=subscribed", before + 1);
    rebuild(0);
    every_worker_heard_of_the_view(1);
}

/* A coordinator that stops releases its mutex: the other one goes on at once, not at its next interval or the
 * lease's end. */
static void test_listener__takes_a_job_over_when_its_mutex_is_released(void **state)
{
    (void)state;
    struct error e = {""};
    char owner[2][256];
    int64_t before = fixture_generation(&fixture, 1);
    fixture_sql(fixture.db, "SELECT pg_advisory_lock(7)");
    must(client_ok(&fixture.client[0], &e, "TB.REBUILD " FILTER), e);
    must(client_wait_status(&fixture.client[1], FILTER, "job_step", "scan", STEADY_MS, &e), e);
    must(client_status(&fixture.client[1], FILTER, "job_owner", owner[0], sizeof(owner[0]), &e), e);
    client_close(&fixture.client[0]);
    uint64_t began = clock_mono_us();
    assert_true(daemon_stop(&fixture.daemon[0], 20000));
    fixture_sql(fixture.db, "SELECT pg_advisory_unlock(7)");
    must(client_wait_status_least(&fixture.client[1], FILTER, "generation", before + 1, 20000, &e), e);
    must(client_wait_status(&fixture.client[1], FILTER, "job_state", "done", 20000, &e), e);
    assert_in_range((clock_mono_us() - began) / 1000, 0, 20000);
    must(client_status(&fixture.client[1], FILTER, "job_owner", owner[1], sizeof(owner[1]), &e), e);
    assert_string_not_equal(owner[0], owner[1]);
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
}

static void test_listener__does_not_hold_up_the_end(void **state)
{
    (void)state;
    struct error e = {""};
    client_close(&fixture.client[1]);
    uint64_t began = clock_mono_us();
    assert_true(daemon_stop(&fixture.daemon[1], 20000));
    assert_in_range((clock_mono_us() - began) / 1000, 0, 4000);
    must(daemon_launch(&fixture.daemon[1], &e), e);
    process_signal(&fixture.redis[0].process, SIGSTOP);
    began = clock_mono_us();
    bool ended = daemon_stop(&fixture.daemon[1], 20000);
    uint64_t took = clock_mono_us() - began;
    process_signal(&fixture.redis[0].process, SIGCONT);
    assert_true(ended);
    assert_in_range(took / 1000, 0, 15000);
}

/* --- with Redis alone --- */

static struct temp_redis redis;

static unsigned messages(struct client *c)
{
    static const char field[] = "cmdstat_publish:calls=";
    redisReply *r = client_command(c, "INFO commandstats");
    assert_non_null(r);
    const char *at = strstr(r->str, field);
    unsigned n = at == NULL ? 0 : (unsigned)strtoul(at + strlen(field), NULL, 10);
    freeReplyObject(r);
    return n;
}

/* Each coordinator fails to make the filter and releases the mutex, which wakes the other one. */
static void test_listener__does_not_make_coordinators_call_each_other_for_ever(void **state)
{
    (void)state;
    static const char *const small[] = {"--maxmemory", "20mb", NULL};
    struct error e = {""};
    struct client c;
    struct daemon d[2] = {0};
    must(temp_redis_start(&redis, small, &e), e);
    const struct daemon_options o = {
        .nodes = redis.url, .filters = "[filter large]\ncapacity = 1000000000\nerror_rate = 0.001\n"};
    for (unsigned i = 0; i < 2; i++)
        must(daemon_start(&d[i], &o, &e), e);
    must(client_open(&c, redis.port, STEADY_MS, &e), e);
    clock_sleep_us(1000 * 1000);
    unsigned before = messages(&c);
    clock_sleep_us(3000 * 1000);
    unsigned n = messages(&c) - before;
    bool tried = lines_with(&d[0].process, "event=filter_problem") > 0;
    client_close(&c);
    for (unsigned i = 0; i < 2; i++)
        assert_true(daemon_fini(&d[i]));
    temp_redis_fini(&redis);
    assert_true(tried);
    assert_in_range(n, 2, 10); /* each releases it once a second; without a limit there are some hundreds */
}

static void test_listener__is_done_without_where_redis_does_not_let_it_subscribe(void **state)
{
    (void)state;
    struct error e = {""};
    struct client c;
    struct daemon d = {0};
    char url[128];
    int64_t present = 0;
    must(temp_redis_start(&redis, NULL, &e), e);
    must(client_open(&c, redis.port, STEADY_MS, &e), e);
    must(client_ok(&c, &e, "ACL SETUSER deaf on >secret ~* &* +@all -subscribe"), e);
    client_close(&c);
    (void)snprintf(url, sizeof(url), "redis://deaf:secret@127.0.0.1:%u", redis.port);
    const struct daemon_options o = {.nodes = url};
    must(daemon_start(&d, &o, &e), e);
    must(client_open(&c, d.port, STEADY_MS, &e), e);
    must(client_integer(&c, &present, &e, "BF.ADD f key"), e);
    must(client_integer(&c, &present, &e, "BF.EXISTS f key"), e);
    client_close(&c);
    wait_lines(&d.process, "event=subscription_lost", 1);
    clock_sleep_us(500 * 1000);
    unsigned said = lines_with(&d.process, "event=subscription_lost");
    assert_true(daemon_fini(&d));
    temp_redis_fini(&redis);
    assert_int_equal(present, 1);
    assert_int_equal(said, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listener__lets_every_worker_load_a_view_that_another_coordinator_changed),
        cmocka_unit_test(test_listener__subscribes_anew),
        cmocka_unit_test(test_listener__takes_a_job_over_when_its_mutex_is_released),
        cmocka_unit_test(test_listener__does_not_hold_up_the_end),
    };
    const struct CMUnitTest alone[] = {
        cmocka_unit_test(test_listener__does_not_make_coordinators_call_each_other_for_ever),
        cmocka_unit_test(test_listener__is_done_without_where_redis_does_not_let_it_subscribe),
    };
    int failed = fixture_run_tests(&fixture, &options, tests);
    return failed + cmocka_run_group_tests(alone, NULL, NULL);
}
