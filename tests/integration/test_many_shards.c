/* SPDX-License-Identifier: MIT */
/* 50,000 small shards: the memory that they cost a coordinator, and that none is lost. test_many_shards
 * [SHARDS [one | two | cluster]]: on one node, on two, or on a cluster of three masters with a replica each;
 * without arguments on one and on two. */
#include "tests/integration/fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum {
    REPLY_MS = 60000,
    STEADY_MS = 180000, /* for a rebuild of so many shards with sanitizers */
    COUNTS_MS = 60000,
    ROWS = 20000,
    ADDED = 40000,
    SHARDS = 50000,       /* the default */
    SHARD_KEYS = 470,     /* the capacity of a shard of 1 KiB at the rate below */
    BUILD_SHARDS = 10000, /* per MiB of memory for bitmaps: they do not fit, so hashes are spilled */
    MEMORY_MIB = 48,      /* without bitmaps */
    CALM_MS =
        30000, /* how long a silent master counts as alive while none is killed: the machine may be loaded */
    FAILOVER_MS = 2000
};

static struct fixture fixture;
static unsigned node_count, master_count; /* of the fixture, which has nodes or masters */
static uint64_t shard_count = SHARDS;     /* the planned number of the filter */
static struct client to_node;             /* to the first node */
static uint64_t idle_bytes[2];
static char sanitizer[600];

/* Counts the daemon's memory, without what a sanitizer holds back. */
static const char *const wrapper[] = {"env", sanitizer, NULL};

static uint64_t memory(unsigned d, const char *field)
{
    char path[64], line[256];
    unsigned long long kib = 0;
    size_t n = strlen(field);
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)fixture.daemon[d].process.pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, field, n) == 0 && line[n] == ':')
            kib = strtoull(line + n + 1, NULL, 10);
    (void)fclose(file);
    assert_true(kib > 0);
    return kib << 10;
}

static unsigned build_mib(void)
{
    return (unsigned)((shard_count + BUILD_SHARDS - 1) / BUILD_SHARDS);
}

static void configure(bool filter, struct daemon_options *o)
{
    static char expansion[128], section[512];
    (void)snprintf(expansion, sizeof(expansion), "lease = 3s\nbuild_memory = %uMiB\n", build_mib());
    (void)snprintf(section, sizeof(section),
                   "[filter " FILTER "]\ncapacity = %" PRIu64
                   "\nerror_rate = 0.001\ntable = short_link\nid_column = id\n"
                   "key = code\nexpand_at = 0.9\ngrace = 1s\nfollow = no\n",
                   shard_count * SHARD_KEYS);
    *o = (struct daemon_options){.nodes = fixture.node_list,
                                 .cluster = master_count > 0 ? fixture.node_list : NULL,
                                 .dsn = fixture.postgres.dsn,
                                 .service = "timeout = 20s\n",
                                 .redis = "shard_bytes = 1KiB\ntimeout = 20s\n",
                                 .expansion = expansion,
                                 .filters = filter ? section : ""};
}

static void start_daemon(unsigned d)
{
    struct error e = {""};
    struct daemon_options o;
    configure(false, &o);
    must(daemon_prepare(&fixture.daemon[d], &o, &e), e);
    fixture.daemon[d].wrapper = wrapper;
    must(daemon_launch(&fixture.daemon[d], &e), e);
    fixture.daemons++;
    must(client_open(&fixture.client[d], fixture.daemon[d].port, REPLY_MS, &e), e);
    clock_sleep_us(1500000); /* until the controller has had its first look */
    idle_bytes[d] = memory(d, "VmRSS");
    configure(true, &o);
    must(daemon_rewrite(&fixture.daemon[d], &o, &e), e);
    must(daemon_reload(&fixture.daemon[d], &e), e);
}

static void wait_for(unsigned d, const char *field, const char *value)
{
    struct error e = {""};
    must(client_wait_status(&fixture.client[d], FILTER, field, value, STEADY_MS, &e), e);
}

/* Set how long a master of the cluster may be silent before the others call it dead, on @first and all after.
 */
static void set_patience(unsigned first, unsigned ms)
{
    struct error e = {""};
    for (unsigned i = first; i < fixture.cluster.count; i++)
        must(client_ok(&fixture.cluster.client[i], &e, "CONFIG SET cluster-node-timeout %u", ms), e);
}

static int setup(void **state)
{
    (void)state;
    const char *given = getenv("ASAN_OPTIONS");
    (void)snprintf(
        sanitizer, sizeof(sanitizer),
        "ASAN_OPTIONS=%s%squarantine_size_mb=1:thread_local_quarantine_size_kb=16:malloc_context_size=2:"
        "detect_stack_use_after_return=0:allocator_release_to_os_interval_ms=100",
        given != NULL ? given : "", given != NULL ? ":" : "");
    if (fixture_start(&fixture, &(struct fixture_options){.nodes = node_count,
                                                          .masters = master_count,
                                                          .replicas = master_count,
                                                          .postgres = true,
                                                          .rows = ROWS}) != 0)
        return -1;
    set_patience(0, CALM_MS);
    struct error e = {""};
    if (node_count > 0)
        must(client_open(&to_node, fixture.redis[0].port, REPLY_MS, &e), e);
    for (unsigned d = 0; d < 2; d++)
        start_daemon(d);
    for (unsigned d = 0; d < 2; d++) {
        wait_for(d, "built", "1");
        wait_for(d, "phase", "STEADY");
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    client_close(&to_node);
    return fixture_stop(&fixture);
}

static int64_t number(unsigned d, const char *field)
{
    struct error e = {""};
    int64_t n = 0;
    must(client_status_number(&fixture.client[d], FILTER, field, &n, &e), e);
    return n;
}

static void all_present(unsigned d)
{
    fixture_all_present(&fixture, d, 0, ROWS + ADDED);
}

/* After a cutover two generations, with shards of 1 KiB, are in memory. */
static unsigned resident_mib(void)
{
    return (unsigned)(2 * shard_count >> 10);
}

/* The greatest memory since the start must be bounded. */
static void assert_small(unsigned d)
{
    double mib = ((double)memory(d, "VmHWM") - (double)idle_bytes[d]) / (1 << 20);
    print_message("coordinator %u: at most %.1f MiB above idle (%.1f MiB)\n", d, mib,
                  (double)idle_bytes[d] / (1 << 20));
    assert_true(mib < MEMORY_MIB + build_mib() + resident_mib());
}

static const redisReply *value_of(const redisReply *list, const char *name)
{
    for (size_t i = 0; i + 1 < list->elements; i += 2)
        if (strcmp(list->element[i]->str, name) == 0)
            return list->element[i + 1];
    fail_msg("there is no %s", name);
    return NULL;
}

/* --- counts --- */

static void test_adds__are_counted_alike_by_both(void **state)
{
    (void)state;
    struct error e = {""};
    assert_true((uint64_t)number(0, "shards") > shard_count * 99 / 100);
    fixture_insert(fixture.db, ROWS, ADDED); /* the rebuild finds these rows */
    must(client_madd(&fixture.client[0], FILTER, fixture_code, ROWS, ADDED / 2, &e), e);
    must(client_madd(&fixture.client[1], FILTER, fixture_code, ROWS + ADDED / 2, ADDED / 2, &e), e);
    for (unsigned d = 0; d < 2; d++) {
        int64_t count = 0;
        must(client_integer(&fixture.client[d], &count, &e, "BF.CARD " FILTER), e);
        assert_in_range(count, (ROWS + ADDED) * 99 / 100, ROWS + ADDED);
        all_present(d);
    }
}

/* --- plans --- */

/* Print how long the command takes, for people; bench/shards has the target. */
static redisReply *timed(const char *command)
{
    uint64_t began = clock_mono_us();
    redisReply *r = client_command(&fixture.client[0], command);
    print_message("%s: %.1f ms\n", command, (double)(clock_mono_us() - began) / 1000);
    return r;
}

static void test_plan__counts_the_shards_of_each_node(void **state)
{
    (void)state;
    char command[64];
    freeReplyObject(timed("TB.STATUS " FILTER));
    (void)snprintf(command, sizeof(command), "TB.PLAN " FILTER " CAPACITY %" PRIu64,
                   shard_count * SHARD_KEYS);
    freeReplyObject(timed(command)); /* connects to Postgres */
    redisReply *plan = timed(command);
    assert_true(plan != NULL && plan->type == REDIS_REPLY_ARRAY);
    const redisReply *nodes = value_of(plan, "per_node");
    long long shards = 0, before = 0, all = value_of(plan, "shards")->integer;
    assert_int_equal(nodes->elements, fixture.nodes + fixture.cluster.masters);
    for (size_t i = 0; i < nodes->elements; i++) {
        shards += value_of(nodes->element[i], "shards")->integer;
        before += value_of(nodes->element[i], "before_bytes")->integer;
    }
    if (fixture.nodes > 0)
        assert_int_equal(shards, all);
    else /* chance, three deviations of which are allowed for on each master */
        assert_in_range(shards, all, all * 12 / 10);
    assert_int_equal(before, value_of(plan, "memory_now_bytes")->integer);
    assert_int_equal(value_of(plan, "fits")->integer, 1);
    freeReplyObject(plan);
}

/* --- rebuilds --- */

static void test_rebuild__stays_within_its_memory(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t before = number(0, "generation");
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    must(client_wait_status_least(&fixture.client[0], FILTER, "generation", before + 1, STEADY_MS, &e), e);
    wait_for(0, "job_state", "done");
    for (unsigned d = 0; d < 2; d++) {
        all_present(d);
        assert_small(d);
    }
}

/* Killed while it makes tens of thousands of shards: the other one goes on. */
static void test_rebuild__outlives_a_coordinator_that_dies_while_it_makes_shards(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t before = number(1, "generation");
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    wait_for(1, "phase", "BUILDING");
    daemon_kill(&fixture.daemon[0]);
    all_present(1);
    must(client_wait_status_least(&fixture.client[1], FILTER, "generation", before + 1, STEADY_MS, &e), e);
    wait_for(1, "job_state", "done");
    wait_for(1, "phase", "STEADY");
    all_present(1);
    assert_small(1);
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
    all_present(0);
}

/* A node comes back empty: its shards come back from memory. */
static void test_loss__of_all_shards_of_a_node_is_mended(void **state)
{
    (void)state;
    struct error e = {""};
    unsigned last = fixture.nodes - 1;
    int64_t generation = number(0, "generation");
    char shards[32];
    for (unsigned d = 0; d < 2; d++) {
        must(client_status(&fixture.client[d], FILTER, "shards", shards, sizeof(shards), &e), e);
        wait_for(d, "resident_shards", shards);
    }
    temp_redis_kill(&fixture.redis[last]);
    must(temp_redis_restart(&fixture.redis[last], false, &e), e);
    must(client_madd(&fixture.client[0], FILTER, fixture_code, 0, ROWS, &e), e); /* the loss is met */
    wait_for(0, "degraded", "0");
    assert_int_equal(number(0, "generation"), generation);
    for (unsigned d = 0; d < 2; d++) {
        all_present(d);
        assert_small(d);
    }
}

/* --- a master of a cluster --- */

static void test_failover__of_a_master_with_many_shards_loses_none(void **state)
{
    (void)state;
    struct error e = {""};
    unsigned heir = 0;
    must(temp_cluster_in_step(&fixture.cluster, 0, REPLY_MS, &e), e);
    set_patience(0, FAILOVER_MS);
    uint64_t killed = clock_mono_us();
    temp_redis_kill(&fixture.cluster.node[0]);
    must(temp_cluster_failed_over(&fixture.cluster, 0, STEADY_MS, &heir, &e), e);
    print_message("failed over in %" PRIu64 " ms\n", (clock_mono_us() - killed) / 1000);
    set_patience(1, CALM_MS);
    for (unsigned d = 0; d < 2; d++) {
        wait_for(d, "state", "serving");
        wait_for(d, "degraded", "0");
        all_present(d);
        assert_small(d);
    }
}

/* --- all of them --- */

static int run_one(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adds__are_counted_alike_by_both),
        cmocka_unit_test(test_plan__counts_the_shards_of_each_node),
        cmocka_unit_test(test_rebuild__stays_within_its_memory),
    };
    node_count = 1;
    return cmocka_run_group_tests_name("many shards on one node", tests, setup, teardown);
}

static int run_two(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adds__are_counted_alike_by_both),
        cmocka_unit_test(test_plan__counts_the_shards_of_each_node),
        cmocka_unit_test(test_rebuild__outlives_a_coordinator_that_dies_while_it_makes_shards),
        cmocka_unit_test(test_loss__of_all_shards_of_a_node_is_mended),
    };
    node_count = 2;
    return cmocka_run_group_tests_name("many shards on two nodes", tests, setup, teardown);
}

static int run_cluster(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adds__are_counted_alike_by_both),
        cmocka_unit_test(test_plan__counts_the_shards_of_each_node),
        cmocka_unit_test(test_failover__of_a_master_with_many_shards_loses_none), /* while all writers live */
        cmocka_unit_test(test_rebuild__outlives_a_coordinator_that_dies_while_it_makes_shards),
    };
    node_count = 0;
    master_count = 3;
    int failed = cmocka_run_group_tests_name("many shards on a cluster", tests, setup, teardown);
    master_count = 0;
    return failed;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } groups[] = {{"one", run_one}, {"two", run_two}, {"cluster", run_cluster}};
    const char *only = argc > 2 ? argv[2] : NULL;
    int failed = 0, ran = 0;
    if (argc > 1)
        shard_count = strtoull(argv[1], NULL, 10);
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
        if (only == NULL ? i < 2 : strcmp(only, groups[i].name) == 0) {
            failed += groups[i].run();
            ran++;
        }
    return ran == 0 || shard_count == 0 ? 2 : failed;
}
