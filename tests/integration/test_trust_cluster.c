/* SPDX-License-Identifier: MIT */
/* A master of a cluster dies, and a replica that lagged on purpose takes over. No coordinator reports a key
 * absent, not even one that was stopped meanwhile, nor when the slots move on. The coordinator that added the
 * lost keys writes them again. If it died, too, they are really missing, and the filter is degraded until an
 * operator accepts that. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { KEYS = 3000, LATE = 3000, NEVER = 1000000, WAIT_MS = 60000, ABSENT = 1000 };

#define LINES "shard_bytes = 4KiB\ntimeout = 500ms\n"

static struct fixture f;

static void wait_for(unsigned d, const char *field, const char *value)
{
    struct error e = {""};
    must(client_wait_status(&f.client[d], "seen", field, value, WAIT_MS, &e), e);
}

/* Wait until what was added is folded. The lag is that of the last look, at most a second ago. */
static void folded(void)
{
    clock_sleep_us(1500000);
    wait_for(0, "fold_lag_entries", "0");
}

static int start(unsigned masters, unsigned owners, unsigned replicas, const char *redis_lines)
{
    struct error e = {""};
    const struct fixture_options o = {.masters = masters,
                                      .owners = owners,
                                      .replicas = replicas,
                                      .daemons = 2,
                                      .redis_lines = redis_lines,
                                      .service = "check_interval = 200ms\ntimeout = 2s\n"};
    if (fixture_start(&f, &o) != 0)
        return -1;
    must(client_ok(&f.client[0], &e, "BF.RESERVE seen 0.0001 20000"), e);
    must(client_madd(&f.client[0], "seen", fixture_code, 0, KEYS, &e), e);
    folded();
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return start(3, 0, 3, LINES);
}

static int setup_spare(void **state)
{
    (void)state;
    return start(4, 3, 0, LINES);
}

static int setup_by_blocks(void **state)
{
    (void)state;
    return start(3, 0, 0, LINES "resident_memory = 0\n");
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&f);
}

static uint64_t present(unsigned d, uint64_t first, uint64_t count)
{
    struct error e = {""};
    uint64_t n = 0;
    must(client_mexists(&f.client[d], "seen", fixture_code, first, count, &n, NULL, &e), e);
    return n;
}

/* Check keys one by one while nodes are away. Returns how many are reported absent. */
static unsigned denied(unsigned d, uint64_t first, uint64_t count)
{
    unsigned n = 0;
    for (uint64_t i = first; i < first + count; i++) {
        char key[CLIENT_KEY_MAX];
        size_t length = fixture_code(i, key);
        redisReply *r = client_command(&f.client[d], "BF.EXISTS seen %b", key, length);
        assert_non_null(r);
        n += r->type == REDIS_REPLY_INTEGER && r->integer == 0;
        freeReplyObject(r);
    }
    return n;
}

/* Kill master @m, whose last writes are lost. Returns the node that took over. */
static unsigned fail_over(unsigned m)
{
    struct error e = {""};
    unsigned heir = 0;
    temp_redis_kill(&f.cluster.node[m]);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(denied(0, KEYS + i * 20, 20), 0);
        assert_int_equal(denied(0, i * 20, 20), 0);
    }
    must(temp_cluster_failed_over(&f.cluster, m, WAIT_MS, &heir, &e), e);
    return heir;
}

static void is_exact(uint64_t least, uint64_t most)
{
    for (unsigned d = 0; d < 2; d++) {
        uint64_t until = clock_mono_us() + WAIT_MS * 1000ull;
        wait_for(d, "degraded", "0");
        while (present(d, NEVER, ABSENT) > 10)
            assert_true(clock_mono_us() < until);
        assert_int_equal(present(d, 0, KEYS), KEYS);
        assert_in_range(present(d, KEYS, LATE), least, most);
    }
}

static void start_again(unsigned d)
{
    struct error e = {""};
    if (process_running(&f.daemon[d].process))
        daemon_kill(&f.daemon[d]);
    must(daemon_launch(&f.daemon[d], &e), e);
    fixture_reconnect(&f, d);
}

static void test_failover__of_a_lagging_replica_reports_nothing_absent(void **state)
{
    (void)state;
    struct error e = {""};
    must(temp_cluster_cut_off(&f.cluster, 0, WAIT_MS, &e), e);
    must(client_madd(&f.client[0], "seen", fixture_code, KEYS, LATE, &e), e);
    assert_int_equal(present(1, 0, KEYS + LATE), KEYS + LATE);
    daemon_pause(&f.daemon[1]);
    (void)fail_over(0);
    daemon_resume(&f.daemon[1]);
    for (unsigned d = 0; d < 2; d++)
        for (unsigned i = 0; i < 20; i++) {
            assert_int_equal(denied(1 - d, KEYS + i * 10, 10), 0);
            assert_int_equal(denied(d, i * 10, 10), 0);
        }
    is_exact(LATE, LATE);
    folded();
    start_again(0);
    start_again(1); /* with what the nodes have now */
    is_exact(LATE, LATE);
}

static void test_failover__that_who_has_added_does_not_survive_is_degraded_until_it_is_accepted(void **state)
{
    (void)state;
    struct error e = {""};
    must(temp_cluster_cut_off(&f.cluster, 0, WAIT_MS, &e), e);
    must(client_madd(&f.client[0], "seen", fixture_code, KEYS, LATE, &e), e);
    folded(); /* into shards that are lost */
    daemon_kill(&f.daemon[0]);
    daemon_kill(&f.daemon[1]);
    unsigned heir = 0;
    temp_redis_kill(&f.cluster.node[0]);
    must(temp_cluster_failed_over(&f.cluster, 0, WAIT_MS, &heir, &e), e);
    start_again(0);
    start_again(1);
    for (unsigned d = 0; d < 2; d++)
        for (unsigned i = 0; i < 20; i++)
            assert_int_equal(denied(d, KEYS + i * 10, 10), 0);
    for (unsigned d = 0; d < 2; d++) {
        wait_for(d, "degraded", "1");
        assert_int_equal(present(d, 0, KEYS + LATE), KEYS + LATE);
        assert_int_equal(present(d, NEVER, ABSENT), ABSENT);
    }
    must(client_ok(&f.client[0], &e, "TB.TRUST seen"), e);
    is_exact(1, LATE - LATE / 6);
}

/* The slots of the heir go to other masters, which are trusted, before a coordinator has seen it. */
static void test_failover__that_nobody_saw_is_degraded_also_when_the_heir_has_no_slots_left(void **state)
{
    (void)state;
    struct error e = {""};
    enum { VICTIM = 1 }; /* neither the view nor the lane is there */
    const unsigned first = TEMP_CLUSTER_SLOTS / 3, count = TEMP_CLUSTER_SLOTS / 3;
    unsigned heir = 0;
    assert_int_equal(temp_cluster_owner(&f.cluster, 0, first), VICTIM);
    assert_int_equal(temp_cluster_owner(&f.cluster, 0, first + count - 1), VICTIM);
    must(temp_cluster_cut_off(&f.cluster, VICTIM, WAIT_MS, &e), e);
    must(client_madd(&f.client[0], "seen", fixture_code, KEYS, LATE, &e), e);
    folded(); /* into shards that are lost */
    daemon_kill(&f.daemon[0]);
    daemon_kill(&f.daemon[1]);
    temp_redis_kill(&f.cluster.node[VICTIM]);
    must(temp_cluster_failed_over(&f.cluster, VICTIM, WAIT_MS, &heir, &e), e);
    must(temp_cluster_move(&f.cluster, first, count, heir, 2, 0, &e), e);
    start_again(0);
    start_again(1);
    for (unsigned d = 0; d < 2; d++)
        for (unsigned i = 0; i < 20; i++)
            assert_int_equal(denied(d, KEYS + i * 10, 10), 0);
    for (unsigned d = 0; d < 2; d++)
        wait_for(d, "degraded", "1");
}

static void adds_again(void)
{
    struct error e = {""};
    uint64_t until = clock_mono_us() + WAIT_MS * 1000ull;
    while (client_madd(&f.client[0], "seen", fixture_code, 0, 1, &e) != ERR_OK) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(100000);
        fixture_reconnect(&f, 0);
    }
}

/* The log's slot leaves, loses entries elsewhere, and comes back to the node where a coordinator that sleeps
 * has read it. */
static void test_slots__that_come_back_are_no_log_to_go_on_with(void **state)
{
    (void)state;
    struct error e = {""};
    enum { LANE = 1968 /* of {seen.0} */, AWAY = 1 };
    unsigned heir = 0;
    assert_int_equal(present(1, 0, KEYS), KEYS);
    wait_for(1, "resident_shards", "18");
    daemon_pause(&f.daemon[1]);
    must(temp_cluster_move(&f.cluster, LANE, 1, 0, AWAY, 0, &e), e);
    adds_again();
    must(temp_cluster_cut_off(&f.cluster, AWAY, WAIT_MS, &e), e);
    must(client_madd(&f.client[0], "seen", fixture_code, KEYS, LATE, &e), e);
    folded();
    temp_redis_kill(&f.cluster.node[AWAY]);
    must(temp_cluster_failed_over(&f.cluster, AWAY, WAIT_MS, &heir, &e), e);
    adds_again();
    must(temp_cluster_move(&f.cluster, LANE, 1, heir, 0, 0, &e), e);
    adds_again();
    wait_for(0, "degraded", "0");
    daemon_resume(&f.daemon[1]);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(denied(1, KEYS + i * 10, 10), 0);
    is_exact(LATE, LATE);
}

static void test_slots__that_leave_who_lags_lose_nothing(void **state)
{
    (void)state;
    struct error e = {""};
    must(temp_cluster_cut_off(&f.cluster, 0, WAIT_MS, &e), e);
    must(client_madd(&f.client[0], "seen", fixture_code, KEYS, LATE, &e), e);
    unsigned heir = fail_over(0);
    for (unsigned first = 0; first < 5000; first += 500) {
        must(temp_cluster_move(&f.cluster, first, 500, heir, 1, 0, &e), e);
        clock_sleep_us(100000);
        for (unsigned d = 0; d < 2; d++)
            assert_int_equal(denied(d, KEYS + first / 2, 200), 0);
    }
    is_exact(LATE, LATE);
    folded();
    start_again(0);
    start_again(1);
    is_exact(LATE, LATE);
}

/* A master is emptied and removed. Blocks are read: no memory could mend what is doubted. */
static void test_slots__of_a_master_that_is_removed_degrade_nothing(void **state)
{
    (void)state;
    struct error e = {""};
    const unsigned first = TEMP_CLUSTER_SLOTS / 3, count = TEMP_CLUSTER_SLOTS / 3;
    must(temp_cluster_move(&f.cluster, first, count, 1, 2, 0, &e), e);
    clock_sleep_us(3000000); /* both coordinators look, one of them each two seconds */
    temp_redis_kill(&f.cluster.node[1]);
    clock_sleep_us(3000000);
    is_exact(0, 10);
}

static void test_slots__that_move_to_a_new_master_degrade_nothing(void **state)
{
    (void)state;
    struct error e = {""};
    char degraded[64];
    /* No coordinator knew this node when the filter was made. */
    temp_redis_kill(&f.cluster.node[3]);
    must(temp_redis_restart(&f.cluster.node[3], true, &e), e);
    must(temp_cluster_agree(&f.cluster, WAIT_MS, &e), e);
    clock_sleep_us(2000000);
    for (unsigned first = 0; first < 5000; first += 250) {
        must(temp_cluster_move(&f.cluster, first, 250, 0, 3, 0, &e), e);
        for (unsigned d = 0; d < 2; d++) {
            must(client_status(&f.client[d], "seen", "degraded", degraded, sizeof(degraded), &e), e);
            assert_string_equal(degraded, "0");
            assert_int_equal(present(d, 0, KEYS), KEYS);
            assert_in_range(present(d, NEVER, ABSENT), 0, 10);
        }
    }
    assert_int_equal(temp_cluster_owner(&f.cluster, 0, 4000), 3);
}

#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_failover__of_a_lagging_replica_reports_nothing_absent, setup),
        TEST(test_failover__that_who_has_added_does_not_survive_is_degraded_until_it_is_accepted, setup),
        TEST(test_failover__that_nobody_saw_is_degraded_also_when_the_heir_has_no_slots_left, setup),
        TEST(test_slots__that_come_back_are_no_log_to_go_on_with, setup),
        TEST(test_slots__that_leave_who_lags_lose_nothing, setup),
        TEST(test_slots__of_a_master_that_is_removed_degrade_nothing, setup_by_blocks),
        TEST(test_slots__that_move_to_a_new_master_degrade_nothing, setup_spare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
