/* SPDX-License-Identifier: MIT */
/* A master of a cluster is killed in each phase of an expansion, under traffic: the metadata node, or a node
 * with only shards. No acknowledged key is reported absent, and the expansion ends. By default half of the
 * tests run; with the argument `all` all of them; with a pattern those that match. */
#include "tests/integration/healing.h"
#include "tests/integration/traffic.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum {
    ROWS = 20000,
    CAPACITY = 400000,
    WRITES_MAX = 2000, /* by one writer in one phase */
    WAIT_MS = 60000,
    TRAFFIC_FIRST_US = 200 * 1000,
    REACHED_US = 200 * 1000 /* until the job waits for the stopped node or the transaction */
};

static struct fixture f;
static struct traffic t;
static uint64_t codes; /* of each writer, in all earlier phases */
static bool all_of_them, configured;

#define SERVICE "check_interval = 200ms\ntimeout = 2s\n"
#define REDIS "shard_bytes = 16KiB\n"
#define EXPANSION                                                                                            \
    "lease = 2s\ncheckpoint_interval = 20ms\nreaders = "                                                     \
    "1\npage_rows = 500\n"

static int setup(void **state)
{
    (void)state;
    const struct fixture_options o = {.masters = 3,
                                      .replicas = 3,
                                      .daemons = 2,
                                      .postgres = true,
                                      .rows = ROWS,
                                      .schema = healing_gate,
                                      .redis_lines = REDIS,
                                      .expansion = EXPANSION,
                                      .service = SERVICE};
    return fixture_start(&f, &o);
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&f);
}

/* --- what all have in common --- */

enum { FLUSHED_MS = 25000 /* less than the usual pause after a failed job */ };

/* Fail the test if @err is an error, after ending the threads. */
static void check(enum err err, const struct error *e)
{
    if (err == ERR_OK)
        return;
    traffic_end(&t);
    fail_msg("%s", e->text);
}

static void tell(const char *command)
{
    struct error e = {""};
    check(client_when_free(&f.client[0], WAIT_MS, &e, command), &e);
}

static void await_step(const char *step)
{
    struct error e = {""};
    check(client_wait_status(&f.client[0], FILTER, "job_step", step, WAIT_MS, &e), &e);
}

static unsigned victim(bool home)
{
    struct error e = {""};
    int64_t slot = 0;
    check(client_integer(&f.cluster.client[0], &slot, &e, "CLUSTER KEYSLOT twinbloom:{" FILTER "}:view"), &e);
    unsigned pair = temp_cluster_owner(&f.cluster, 0, (unsigned)slot) % 3;
    return temp_cluster_master(&f.cluster, home ? pair : (pair + 1) % 3);
}

static void begin(void)
{
    traffic_begin_from(&t, &f, ROWS, WRITES_MAX, codes);
    codes += WRITES_MAX;
    clock_sleep_us(TRAFFIC_FIRST_US);
}

static void strike(unsigned node)
{
    struct error e = {""};
    unsigned heir = 0;
    temp_redis_kill(&f.cluster.node[node]);
    check(temp_cluster_failed_over(&f.cluster, node, WAIT_MS, &heir, &e), &e);
}

static bool says(const char *field, const char *wanted)
{
    char text[128];
    return client_status(&f.client[0], FILTER, field, text, sizeof(text), NULL) == ERR_OK &&
           strcmp(text, wanted) == 0;
}

static bool is_over(int64_t before)
{
    int64_t generation = 0;
    return client_status_number(&f.client[0], FILTER, "generation", &generation, NULL) == ERR_OK &&
           generation > before && says("phase", "STEADY") && says("built", "1") && says("degraded", "0") &&
           says("mutex_owner", "");
}

static void say_why(void)
{
    static const char *const fields[] = {"phase",    "generation", "degraded",  "problem",     "mutex_owner",
                                         "job_step", "job_state",  "job_error", "job_waiting", "job_trigger"};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        char text[256] = "?";
        (void)!client_status(&f.client[0], FILTER, fields[i], text, sizeof(text), NULL);
        print_error("%s: %s\n", fields[i], text);
    }
    for (unsigned d = 0; d < 2; d++)
        process_show_log(&f.daemon[d].process, "a coordinator");
}

/* The mutex and an unwritten record may be lost with their node. A driver that has changed no view leaves
 * nothing to finish then, so order a rebuild again. */
static void ask_again(bool home)
{
    struct error e = {""};
    if (home && says("phase", "STEADY") && says("mutex_owner", "") && says("degraded", "0"))
        (void)!client_ok(&f.client[1], &e, "TB.REBUILD " FILTER);
}

/* Let the job go on at each of its waits, until a later generation than @before is the only one. */
static void end(int64_t before)
{
    struct error e = {""};
    uint64_t until = clock_mono_us() + WAIT_MS * 1000ull;
    while (!is_over(before)) {
        if (says("job_step", "hold"))
            (void)!client_ok(&f.client[0], &e, "TB.CUTOVER " FILTER);
        else if (says("job_step", "grace"))
            (void)!client_ok(&f.client[0], &e, "TB.FINISH " FILTER);
        if (clock_mono_us() > until) {
            say_why();
            check(error_set(&e, ERR_TIMEOUT, "the expansion does not end"), &e);
        }
        clock_sleep_us(50000);
    }
    check(client_wait_status(&f.client[1], FILTER, "degraded", "0", WAIT_MS, &e), &e);
    traffic_end(&t);
    traffic_judge(&t, true);
    must(temp_cluster_mend(&f.cluster, WAIT_MS, &e), e);
    for (unsigned d = 0; d < 2; d++)
        fixture_all_present(&f, d, 0, ROWS);
}

/* Open a transaction that the job's next wait for transactions must wait for. */
static PGconn *open_transaction(void)
{
    PGconn *other = PQconnectdb(f.postgres.dsn);
    fixture_sql(other, "BEGIN");
    fixture_sql(other, "SELECT 1");
    return other;
}

static void close_transaction(PGconn *other)
{
    fixture_sql(other, "COMMIT");
    PQfinish(other);
}

/* --- the phases: each leaves the expansion in it, and ends in strike() --- */

static void in_create(bool home)
{
    unsigned node = victim(home);
    if (!home) /* only then: without the metadata node the command itself would fail */
        process_signal(&f.cluster.node[node].process, SIGSTOP);
    tell("TB.REBUILD " FILTER);
    clock_sleep_us(home ? 0 : REACHED_US);
    strike(node);
    clock_sleep_us(3000 * 1000);
    ask_again(home);
}

static void in_settle(bool home)
{
    PGconn *other = open_transaction();
    tell("TB.REBUILD " FILTER);
    await_step("settle");
    strike(victim(home));
    clock_sleep_us(REACHED_US);
    close_transaction(other);
}

static void in_scan(bool home)
{
    healing_shut(&f, HEALING_MIDDLE);
    tell("TB.REBUILD " FILTER);
    await_step("scan");
    clock_sleep_us(REACHED_US);
    strike(victim(home));
    healing_open(&f, HEALING_MIDDLE);
}

static void in_catch_up(bool home)
{
    healing_shut(&f, HEALING_MIDDLE);
    tell("TB.REBUILD " FILTER);
    await_step("scan");
    PGconn *other = open_transaction();
    healing_open(&f, HEALING_MIDDLE);
    await_step("catch_up");
    clock_sleep_us(REACHED_US);
    strike(victim(home));
    close_transaction(other);
}

static void in_hold(bool home)
{
    tell("TB.REBUILD " FILTER " HOLD");
    await_step("hold");
    strike(victim(home));
}

/* The view changes while the renames wait for the stopped node; or the node with the view dies just after the
 * change. */
static void in_change(const char *command, bool home)
{
    unsigned node = victim(home);
    if (!home)
        process_signal(&f.cluster.node[node].process, SIGSTOP);
    tell(command);
    clock_sleep_us(home ? 5000 : REACHED_US);
    strike(node);
}

static void in_cutover(bool home)
{
    tell("TB.REBUILD " FILTER " HOLD");
    await_step("hold");
    in_change("TB.CUTOVER " FILTER, home);
}

static void in_follow(bool home)
{
    tell("TB.REBUILD " FILTER " HOLD");
    await_step("hold");
    PGconn *other = open_transaction();
    tell("TB.CUTOVER " FILTER); /* the job catches up once more before and after the cutover */
    clock_sleep_us(REACHED_US);
    strike(victim(home));
    close_transaction(other);
}

static void in_grace(bool home)
{
    tell("TB.REBUILD " FILTER);
    await_step("grace");
    strike(victim(home));
}

static void in_finish(bool home)
{
    tell("TB.REBUILD " FILTER);
    await_step("grace");
    in_change("TB.FINISH " FILTER, home);
}

/* --- tests --- */

static void configure(void)
{
    char filter[400];
    struct error e = {""};
    (void)snprintf(filter, sizeof(filter),
                   "[filter " FILTER
                   "]\ncapacity = %d\nerror_rate = 0.01\ntable = short_link\nid_column = id\n"
                   "key = code\nwhere = public.gate(id)\ngrace = 1h\nexpand_at = 1\nfollow = no\n",
                   CAPACITY);
    const struct daemon_options o = {.cluster = f.node_list,
                                     .nodes = f.node_list,
                                     .dsn = f.postgres.dsn,
                                     .service = SERVICE,
                                     .redis = REDIS,
                                     .expansion = EXPANSION,
                                     .filters = filter};
    for (unsigned d = 0; d < 2; d++) {
        must(daemon_rewrite(&f.daemon[d], &o, &e), e);
        must(daemon_reload(&f.daemon[d], &e), e);
    }
    configured = true;
}

/* Build the filter that the other tests need. */
static void build(void)
{
    if (!configured)
        configure();
    fixture_wait(&f, 0, "built", "1");
    fixture_wait(&f, 0, "mutex_owner", "");
}

static void test_kill__in_the_first_build(void **state)
{
    (void)state;
    struct error e = {""};
    healing_shut(&f, HEALING_MIDDLE);
    configure();
    must(client_wait_status(&f.client[0], FILTER, "job_step", "scan", WAIT_MS, &e), e);
    begin();
    strike(victim(false));
    healing_open(&f, HEALING_MIDDLE);
    end(1); /* 1: the placeholder's number */
}

static void run_phase(void (*phase)(bool home), bool home)
{
    build();
    int64_t before = fixture_generation(&f, 0);
    begin();
    phase(home);
    end(before);
}

/* By default kill one kind of node, in turns; with `all` both. */
static void both(void (*phase)(bool home), bool home)
{
    run_phase(phase, home);
    if (all_of_them)
        run_phase(phase, !home);
}

/* --- a master that loses all that it has --- */

static bool is_whole(unsigned d)
{
    char degraded[16] = "", built[8] = "";
    return client_status(&f.client[d], FILTER, "degraded", degraded, sizeof(degraded), NULL) == ERR_OK &&
           client_status(&f.client[d], FILTER, "built", built, sizeof(built), NULL) == ERR_OK &&
           strcmp(degraded, "0") == 0 && strcmp(built, "1") == 0;
}

/* Whether Redis has all shards of the generation that is read. Without a view nobody says which one that is.
 */
static bool has_all_shards(void)
{
    char command[128];
    int64_t generation = 0, shards = 0, found = 0;
    if (client_status_number(&f.client[0], FILTER, "generation", &generation, NULL) != ERR_OK ||
        client_status_number(&f.client[0], FILTER, "shards", &shards, NULL) != ERR_OK)
        return false;
    (void)snprintf(command, sizeof(command), "KEYS twinbloom:{" FILTER ".%" PRId64 ".*", generation);
    for (unsigned pair = 0; pair < 3; pair++) {
        redisReply *r = client_command(&f.cluster.client[temp_cluster_master(&f.cluster, pair)], command);
        found += r != NULL && r->type == REDIS_REPLY_ARRAY ? (int64_t)r->elements : 0;
        freeReplyObject(r);
    }
    return found == shards;
}

/* Shards that a coordinator has in memory are there again before anybody misses them. */
static void await_noticed(uint64_t until)
{
    struct error e = {""};
    while ((is_whole(0) || is_whole(1)) && !has_all_shards()) {
        if (clock_mono_us() > until) {
            say_why();
            check(error_set(&e, ERR_TIMEOUT, "nobody notices"), &e);
        }
        clock_sleep_us(5000);
    }
}

static void await_healed(uint64_t until)
{
    struct error e = {""};
    while (!is_whole(0) || !is_whole(1) || !has_all_shards()) {
        if (says("job_step", "grace"))
            (void)!client_ok(&f.client[0], &e, "TB.FINISH " FILTER);
        if (clock_mono_us() > until) {
            say_why();
            check(error_set(&e, ERR_TIMEOUT, "it is not healed"), &e);
        }
        clock_sleep_us(20000);
    }
}

/* After a new view, losses are found when a key is requested, as here. */
static void is_exact(unsigned d, uint64_t until)
{
    uint64_t present;
    while ((present = fixture_false_positives(&f, d, 10000)) > 300) {
        if (clock_mono_us() > until)
            fail_msg("coordinator %u: %" PRIu64 " of 10000 absent keys are reported present", d, present);
        clock_sleep_us(100000);
    }
}

static void flush_and_heal(bool home, bool in_a_build)
{
    struct error e = {""};
    build();
    begin();
    if (in_a_build) {
        healing_shut(&f, HEALING_MIDDLE);
        tell("TB.REBUILD " FILTER);
        await_step("scan");
    }
    assert_true(has_all_shards());
    uint64_t until = clock_mono_us() + FLUSHED_MS * 1000ull;
    check(client_ok(&f.cluster.client[victim(home)], &e, "FLUSHALL"), &e);
    await_noticed(until);
    if (in_a_build)
        healing_open(&f, HEALING_MIDDLE);
    await_healed(until);
    traffic_end(&t);
    traffic_judge(&t, true);
    for (until += WAIT_MS * 1000ull; !says("mutex_owner", "") && clock_mono_us() < until;) {
        if (says("job_step", "grace"))
            fixture_ask(&f, 0, "TB.FINISH " FILTER);
        clock_sleep_us(20000);
    }
    for (unsigned d = 0; d < 2; d++)
        is_exact(d, until);
}

static void test_flushall__of_a_master_is_healed(void **state)
{
    (void)state;
    flush_and_heal(false, false);
    if (all_of_them)
        flush_and_heal(true, false);
}

static void test_flushall__of_a_master_in_a_build_is_healed_without_a_rest(void **state)
{
    (void)state;
    flush_and_heal(false, true);
    if (all_of_them)
        flush_and_heal(true, true);
}

#define PHASE(name, home)                                                                                    \
    static void test_kill__##name(void **state)                                                              \
    {                                                                                                        \
        (void)state;                                                                                         \
        both(name, home);                                                                                    \
    }
PHASE(in_create, false)
PHASE(in_settle, true)
PHASE(in_scan, true)
PHASE(in_catch_up, true)
PHASE(in_hold, true)
PHASE(in_cutover, false)
PHASE(in_follow, false)
PHASE(in_grace, true)
PHASE(in_finish, false)

int main(int argc, char **argv)
{
    all_of_them = argc > 1 && strcmp(argv[1], "all") == 0;
    if (argc > 1 && !all_of_them)
        cmocka_set_test_filter(argv[1]);
    /* test_heal_phases has the other phases, with replicas that lag. */
    const struct CMUnitTest some[] = {
        cmocka_unit_test(test_kill__in_the_first_build),
        cmocka_unit_test(test_kill__in_create),
        cmocka_unit_test(test_kill__in_catch_up),
        cmocka_unit_test(test_kill__in_cutover),
        cmocka_unit_test(test_kill__in_follow),
        cmocka_unit_test(test_kill__in_finish),
        cmocka_unit_test(test_flushall__of_a_master_is_healed),
        cmocka_unit_test(test_flushall__of_a_master_in_a_build_is_healed_without_a_rest),
    };
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_kill__in_the_first_build),
        cmocka_unit_test(test_kill__in_create),
        cmocka_unit_test(test_kill__in_settle),
        cmocka_unit_test(test_kill__in_scan),
        cmocka_unit_test(test_kill__in_catch_up),
        cmocka_unit_test(test_kill__in_hold),
        cmocka_unit_test(test_kill__in_cutover),
        cmocka_unit_test(test_kill__in_follow),
        cmocka_unit_test(test_kill__in_grace),
        cmocka_unit_test(test_kill__in_finish),
        cmocka_unit_test(test_flushall__of_a_master_is_healed),
        cmocka_unit_test(test_flushall__of_a_master_in_a_build_is_healed_without_a_rest),
    };
    return argc > 1 ? cmocka_run_group_tests(all, setup, teardown)
                    : cmocka_run_group_tests(some, setup, teardown);
}
