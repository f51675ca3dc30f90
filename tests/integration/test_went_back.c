/* SPDX-License-Identifier: MIT */
/* The metadata node is killed and comes back with data of an earlier phase of the filter. Until all is
 * healed, and afterwards, no acknowledged key is reported absent: not by the coordinator that ran all the
 * time, nor by one that was stopped, nor by those that were restarted, once they have seen the shards'
 * state. */
#include "tests/integration/fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 3000, ADDED = 200, HEAL_MS = 90000 /* includes 20 s for a dead writer */ };

/* What happens to the coordinators. */
enum fate { FIRST_LIVES, FIRST_IS_NEW, ALL_ARE_NEW };

static struct fixture fixture;
static uint64_t codes; /* the number of rows, all of them acknowledged */

static int setup_with(unsigned nodes, unsigned masters)
{
    codes = ROWS;
    return fixture_start(&fixture, &(struct fixture_options){.nodes = nodes,
                                                             .masters = masters,
                                                             .replicas = masters > 0,
                                                             .daemons = 2,
                                                             .postgres = true,
                                                             .rows = ROWS,
                                                             .capacity = 60000,
                                                             .rate = "0.001",
                                                             .grace = "60s",
                                                             .service = "check_interval = 200ms\n",
                                                             .redis_lines = "shard_bytes = 16KiB\n",
                                                             .expansion = "lease = 2s\n"});
}

static int setup(void **state)
{
    (void)state;
    return setup_with(2, 0);
}

/* The filter's metadata node is the first of the masters, which has a replica. */
static int setup_cluster(void **state)
{
    (void)state;
    return setup_with(0, 3);
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

/* --- the home node --- */

/* The replica has all present data, and gets none of the later writes. */
static void part_replica(void)
{
    struct error e = {""};
    must(temp_cluster_cut_off(&fixture.cluster, 0, HEAL_MS, &e), e);
}

static void fail_over(void)
{
    struct error e = {""};
    unsigned heir = 0;
    temp_redis_kill(&fixture.cluster.node[0]);
    must(temp_cluster_failed_over(&fixture.cluster, 0, HEAL_MS, &heir, &e), e);
    assert_int_equal(heir, 3);
}

static void save_home(void)
{
    struct error e = {""};
    if (fixture.cluster.count > 0) {
        part_replica();
        return;
    }
    struct client c = {0};
    must(client_open(&c, fixture.redis[0].port, 10000, &e), e);
    must(client_save(&c, &e), e);
    client_close(&c);
    fixture_copy_dump(&fixture, "data/dump.rdb", "earlier.rdb");
}

static void restore_home(void)
{
    struct error e = {""};
    if (fixture.cluster.count > 0) {
        fail_over();
        return;
    }
    temp_redis_kill(&fixture.redis[0]);
    fixture_copy_dump(&fixture, "earlier.rdb", "data/dump.rdb");
    must(temp_redis_restart(&fixture.redis[0], true, &e), e);
}

/* --- a filter's life --- */

static void add_some(unsigned d)
{
    struct error e = {""};
    fixture_sql(fixture.db, "BEGIN");
    fixture_insert(fixture.db, codes, ADDED);
    uint64_t until = clock_mono_us() + (uint64_t)HEAL_MS * 1000;
    while (client_madd(&fixture.client[d], FILTER, fixture_code, codes, ADDED, &e) != ERR_OK)
        if (clock_mono_us() > until) /* without known shards, no add is acknowledged */
            fail_msg("%s", e.text);
    fixture_sql(fixture.db, "COMMIT");
    codes += ADDED;
}

/* B: a rebuild that holds before its cutover, W: cutover, R: rollback, F: finish, A: abort. */
static void live(const char *path)
{
    struct error e = {""};
    for (; *path != '\0'; path++) {
        switch (*path) {
        case 'B':
            must(client_when_free(&fixture.client[0], HEAL_MS, &e, "TB.REBUILD " FILTER " HOLD"), e);
            fixture_wait(&fixture, 0, "job_step", "hold");
            break;
        case 'W':
            fixture_ask(&fixture, 0, "TB.CUTOVER " FILTER);
            fixture_wait(&fixture, 0, "job_step", "grace");
            break;
        case 'R':
            fixture_ask(&fixture, 0, "TB.ROLLBACK " FILTER);
            fixture_wait(&fixture, 0, "job_step", "hold");
            break;
        case 'F':
            fixture_ask(&fixture, 0, "TB.FINISH " FILTER);
            fixture_wait(&fixture, 0, "job_state", "done");
            break;
        default:
            fixture_ask(&fixture, 0, "TB.ABORT " FILTER);
            fixture_wait(&fixture, 0, "job_state", "aborted");
            break;
        }
        add_some(0);
    }
}

/* --- what must hold --- */

/* Check the last @count codes, or absent ones, and count the answers. None of the codes may be absent. */
static void ask(unsigned d, client_key_fn *key, uint64_t first, uint64_t count, uint64_t *yes, uint64_t *no)
{
    struct client *c = &fixture.client[d];
    *yes = *no = 0;
    if (c->redis == NULL || c->redis->err != 0)
        fixture_reconnect(&fixture, d);
    for (uint64_t i = 0; i < count; i++) {
        char code[CLIENT_KEY_MAX];
        (void)key(first + i, code);
        assert_int_equal(redisAppendCommand(c->redis, "BF.EXISTS " FILTER " %s", code), REDIS_OK);
    }
    for (uint64_t i = 0; i < count; i++) {
        redisReply *r = NULL;
        assert_int_equal(redisGetReply(c->redis, (void **)&r), REDIS_OK);
        *yes += r->type == REDIS_REPLY_INTEGER && r->integer == 1;
        *no += r->type == REDIS_REPLY_INTEGER && r->integer == 0;
        freeReplyObject(r);
    }
}

static void says_no_to_none(const char *what, unsigned d)
{
    uint64_t yes, no, count = 6 * ADDED < codes ? 6 * ADDED : codes;
    ask(d, fixture_code, codes - count, count, &yes, &no);
    if (no > 0)
        fail_msg("%s: coordinator %u says no to %" PRIu64 " of %" PRIu64 " keys", what, d, no, count);
}

static bool is_healed(unsigned d)
{
    char degraded[64] = "", built[64] = "";
    struct error e = {""};
    uint64_t yes, no;
    if (client_status(&fixture.client[d], FILTER, "degraded", degraded, sizeof(degraded), &e) != ERR_OK ||
        client_status(&fixture.client[d], FILTER, "built", built, sizeof(built), &e) != ERR_OK ||
        strcmp(degraded, "0") != 0 || strcmp(built, "1") != 0)
        return false;
    ask(d, fixture_absent_code, 0, 500, &yes, &no);
    return no > 450;
}

static void not_healed(const char *what, unsigned d)
{
    struct error e = {""};
    if (client_wait_status(&fixture.client[d], FILTER, "degraded", "healed", 1, &e) == ERR_OK)
        return;
    static const char *const fields[] = {"phase",           "degraded",    "problem",
                                         "log_state",       "log_error",   "job_state",
                                         "resident_shards", "job_waiting", "shards"};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        char text[256] = "?";
        (void)!client_status(&fixture.client[d], FILTER, fields[i], text, sizeof(text), NULL);
        print_error("%s: %s\n", fields[i], text);
    }
    process_show_log(&fixture.daemon[d].process, "twinbloomd");
    fail_msg("%s: not healed after %d ms: %s", what, HEAL_MS, e.text);
}

static void heals(const char *what, unsigned from, unsigned to)
{
    uint64_t until = clock_mono_us() + (uint64_t)HEAL_MS * 1000;
    for (bool healed = false; !healed;) {
        healed = true;
        for (unsigned d = from; d < to; d++) {
            says_no_to_none(what, d);
            healed &= is_healed(d);
        }
        if (!healed && clock_mono_us() > until)
            not_healed(what, from);
    }
    for (unsigned d = from; d < to; d++)
        fixture_all_present(&fixture, d, 0, codes);
}

static void start_again(unsigned d)
{
    struct error e = {""};
    client_close(&fixture.client[d]);
    must(daemon_launch(&fixture.daemon[d], &e), e);
    fixture_reconnect(&fixture, d);
}

/* Wait until jobs from before the metadata node went back, and jobs that heal, have ended. */
static void end_jobs(void)
{
    struct error e = {""};
    char step[32] = "", phase[32] = "";
    uint64_t until = clock_mono_us() + (uint64_t)HEAL_MS * 1000;
    while (strcmp(phase, "STEADY") != 0) {
        if (clock_mono_us() > until)
            not_healed("its job does not end", 0);
        clock_sleep_us(20000);
        must(client_status(&fixture.client[0], FILTER, "phase", phase, sizeof(phase), &e), e);
        must(client_status(&fixture.client[0], FILTER, "job_step", step, sizeof(step), &e), e);
        if (strcmp(phase, "STEADY") != 0 && strcmp(step, "grace") == 0)
            (void)!client_ok(&fixture.client[0], &e, "TB.FINISH " FILTER);
        if (strcmp(phase, "STEADY") != 0 && strcmp(step, "hold") == 0)
            (void)!client_ok(&fixture.client[0], &e, "TB.ABORT " FILTER);
    }
}

/* Run the steps @saved, save the metadata node, run the steps @lost; then the node goes back. */
static void goes_back(const char *saved, const char *lost, enum fate fate)
{
    char what[64];
    uint64_t began = clock_mono_us();
    (void)snprintf(what, sizeof(what), "'%s' then '%s', fate %d", saved, lost, fate);
    live(saved);
    add_some(0);
    save_home();
    live(lost);
    add_some(0);
    says_no_to_none(what, 1); /* the coordinator knows the last view now */
    unsigned survivor = fate == FIRST_IS_NEW ? 1 : 0;
    if (fate != FIRST_LIVES)
        daemon_kill(&fixture.daemon[0]);
    if (fate == FIRST_LIVES)
        daemon_pause(&fixture.daemon[1]);
    if (fate == ALL_ARE_NEW)
        daemon_kill(&fixture.daemon[1]);
    restore_home();
    if (fate == ALL_ARE_NEW) {
        start_again(0);
        add_some(0); /* before the coordinator has seen anything */
        start_again(1);
    } else if (fate == FIRST_IS_NEW) {
        says_no_to_none(what, survivor);
        start_again(0);
        add_some(0);
    }
    heals(what, survivor, survivor + 1);
    if (fate == FIRST_LIVES)
        daemon_resume(&fixture.daemon[1]);
    says_no_to_none(what, 1 - survivor);
    add_some(1 - survivor);
    heals(what, 0, 2);
    end_jobs();
    heals(what, 0, 2);
    print_message("%s: %.1f s\n", what, (double)(clock_mono_us() - began) / 1e6);
}

static const struct row {
    const char *saved, *lost;
} rows[] = {
    {"", "BW"},  {"", "B"},  {"", "BWF"}, {"", "BA"},  {"B", "W"},
    {"B", "WF"}, {"B", "A"}, {"BW", "F"}, {"BW", "R"}, {"BW", "RA"},
};

/* A writer that sleeps or is dead is waited for, for 20 s each time, so each row has only one of the
 * fates. */
static void rows_of(enum fate fate)
{
    for (size_t i = fate; i < sizeof(rows) / sizeof(rows[0]); i += ALL_ARE_NEW + 1)
        goes_back(rows[i].saved, rows[i].lost, fate);
}

static void test_went_back__is_healed_by_a_coordinator_that_lives_and_found_by_one_that_slept(void **state)
{
    (void)state;
    rows_of(FIRST_LIVES);
}

static void test_went_back__is_healed_when_the_driver_is_killed_with_it(void **state)
{
    (void)state;
    rows_of(FIRST_IS_NEW);
}

static void test_went_back__is_healed_when_nobody_remembers(void **state)
{
    (void)state;
    rows_of(ALL_ARE_NEW);
}

static void test_went_back__by_a_failover_in_a_build(void **state)
{
    (void)state;
    goes_back("", "B", FIRST_LIVES);
}

static void test_went_back__by_a_failover_behind_a_whole_expansion(void **state)
{
    (void)state;
    goes_back("B", "WF", FIRST_LIVES);
}

static void test_went_back__by_a_failover_that_the_driver_does_not_survive(void **state)
{
    (void)state;
    goes_back("BW", "F", FIRST_IS_NEW);
}

static void test_went_back__by_a_failover_that_nobody_remembers(void **state)
{
    (void)state;
    goes_back("", "BW", ALL_ARE_NEW);
}

#define CLUSTER(name) cmocka_unit_test_setup_teardown(name, setup_cluster, teardown)
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_went_back__is_healed_by_a_coordinator_that_lives_and_found_by_one_that_slept),
        TEST(test_went_back__is_healed_when_the_driver_is_killed_with_it),
        TEST(test_went_back__is_healed_when_nobody_remembers),
        CLUSTER(test_went_back__by_a_failover_in_a_build),
        CLUSTER(test_went_back__by_a_failover_behind_a_whole_expansion),
        CLUSTER(test_went_back__by_a_failover_that_the_driver_does_not_survive),
        CLUSTER(test_went_back__by_a_failover_that_nobody_remembers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
