/* SPDX-License-Identifier: MIT */
/* The status of a filter's control, on a real Redis: each figure next to its cause. */
#include "tests/integration/log_redis.h"
#include "tests/integration/solo.h"

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "shard/generations/drop.h"

enum { REPLY_MS = 5000, SHARD_BYTES = 32768, LANES = 2, LONG_US = 60 * 1000 * 1000, ADDED = 40 };

static const bool never = false;
static struct solo solo, second;
static bool has_second;
static struct log_status s;

static struct control_options options(bool folds)
{
    return (struct control_options){
        .owner = "here", .folds = folds, .fold_interval_us = 10000, .look_interval_us = 20000};
}

static void open_with(uint64_t memory, const struct control_options *o)
{
    log_redis_make(100000, LANES, SHARD_BYTES);
    has_second = false;
    solo_open(&solo, &on.nodes, &on.names, memory, o);
}

static int tear_down(void **state)
{
    (void)state;
    if (has_second)
        solo_close(&second);
    solo_close(&solo);
    return 0;
}

static const struct log_status *status(void)
{
    control_status(solo.control, &s);
    return &s;
}

/* The generation that answers. */
static const struct log_generation_status *read_one(void)
{
    (void)status();
    for (unsigned i = 0; i < 2; i++)
        if (s.generation[i].answers)
            return &s.generation[i];
    fail_msg("no generation answers");
    return NULL;
}

static struct lag_count all_lag(void)
{
    struct lag_count sum = {0};
    (void)status();
    for (unsigned i = 0; i < s.lanes; i++) {
        sum.entries += s.lane[i].lag.entries;
        sum.bytes += s.lane[i].lag.bytes;
    }
    return sum;
}

static void add(unsigned first, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(solo_ask(&solo, true, first + i), KEY_ADDED);
}

static void run_until_lag(uint64_t entries)
{
    uint64_t until = clock_mono_us() + 10 * 1000000ull;
    while (all_lag().entries != entries && clock_mono_us() < until)
        solo_run(&solo, &never, 5);
    assert_int_equal(s.lane[0].lag.entries + s.lane[1].lag.entries, entries);
}

static void test_before_the_view_is_read__it_is_opening(void **state)
{
    const struct control_options o = options(false);
    struct solo_request r;
    (void)state;
    open_with(UINT64_MAX, &o);
    (void)status();
    assert_int_equal(s.state, FILTER_OPENING);
    assert_string_equal(log_filter_state_name(s.state), "opening");
    assert_string_equal(s.why, "the filter is not loaded yet");
    assert_int_equal(s.version, 0);
    assert_int_equal(s.lanes, 0);
    assert_int_equal(s.parked, 0);
    solo_begin(&solo, &r, false, 1);
    assert_int_equal(status()->parked, 1);
    solo_run(&solo, &r.told, 0);
    (void)status();
    assert_string_equal(log_filter_state_name(s.state), "open");
    assert_string_equal(s.why, "");
    assert_int_equal(s.parked, 0);
    assert_true(s.version > 0 && s.incarnation == on.names.incarnation);
    assert_int_equal(s.lanes, LANES);
    assert_int_equal(s.code, ERR_OK);
}

static void test_writers_and_lag__are_counted(void **state)
{
    const struct control_options o = options(false);
    (void)state;
    open_with(UINT64_MAX, &o);
    assert_int_equal(solo_ask(&solo, false, 1), KEY_ABSENT);
    assert_false(status()->registered);
    assert_int_equal(s.writers, 0);
    assert_int_equal(all_lag().entries, 0);
    add(0, ADDED);
    has_second = true;
    solo_open(&second, &on.nodes, &on.names, UINT64_MAX, &o);
    assert_int_equal(solo_ask(&second, true, 1000), KEY_ADDED);
    solo_run(&solo, &never, 50);
    assert_true(status()->registered);
    assert_int_equal(s.writers, 2);
    struct lag_count lag = all_lag();
    assert_in_range(lag.entries, ADDED,
                    ADDED + 1); /* the second one's entry, too, if its lane was read since */
    assert_int_equal(lag.bytes, lag.entries * (LOG_ENTRY_BYTES_MIN + LOG_HASH_BYTES));
    assert_int_equal(s.lane[0].kept_entries + s.lane[1].kept_entries, ADDED);
    for (unsigned i = 0; i < LANES; i++) {
        assert_true(s.lane[i].lane.number != 0 && s.lane[i].lane.era == lanes_era(&on.client));
        assert_int_equal(s.lane[i].reading, TAIL_COMPLETE);
        assert_true(log_id_compare(s.lane[i].folded, s.lane[i].applied) < 0);
        assert_true(s.lane[i].redis_bytes > 0); /* a writer with a lag measures the lane */
    }
}

static void test_a_fold__ends_the_lag(void **state)
{
    const struct control_options o = options(true);
    (void)state;
    open_with(UINT64_MAX, &o);
    add(0, ADDED);
    run_until_lag(0);
    assert_true(s.folder.is_here);
    assert_int_equal(strncmp(s.folder.holder, "here/", 5), 0);
    assert_true(s.folder.report.folds > 0);
    assert_in_range(s.folder.report.folded_ms, clock_wall_us() / 1000 - 10000, clock_wall_us() / 1000);
    assert_string_equal(s.folder.report.error, "");
    solo_run(&solo, &never, 50);
    (void)status();
    for (unsigned i = 0; i < LANES; i++) {
        assert_int_equal(log_id_compare(s.lane[i].folded, s.lane[i].applied), 0);
        assert_int_equal(s.lane[i].kept_entries, 0);
    }
    assert_int_equal(read_one()->memory.dirty_bytes, 0);
}

/* Whichever process folded, all see that it is folded. */
static void test_what_another_one_folds__ends_the_lag_too(void **state)
{
    struct control_options o = options(false);
    (void)state;
    open_with(UINT64_MAX, &o);
    add(0, ADDED);
    assert_int_equal(all_lag().entries, ADDED);
    o.folds = has_second = true;
    o.owner = "second";
    solo_open(&second, &on.nodes, &on.names, UINT64_MAX, &o);
    for (unsigned i = 0; i < 500 && all_lag().entries > 0; i++) {
        solo_run(&second, &never, 5);
        if (i == 0)
            assert_int_equal(solo_ask(&second, true, 1000), KEY_ADDED);
        solo_run(&solo, &never, 5);
    }
    assert_int_equal(all_lag().entries, 0);
    assert_false(s.folder.is_here);
    assert_int_equal(s.folder.report.folds, 0);
}

static void count_shard(void *arg, const struct resident_shard *one)
{
    struct resident_status *sum = arg;
    sum->shards++;
    sum->shard_bytes += one->bytes;
    sum->resident += one->state == BITMAP_RESIDENT;
    sum->dirty += one->dirty_bytes > 0;
    sum->dirty_bytes += one->dirty_bytes;
}

static void shards_add_up(const struct log_generation_status *g)
{
    struct resident_status sum = {0};
    assert_true(log_filter_shards(solo.filter, g->number, count_shard, &sum));
    assert_int_equal(sum.shards, g->memory.shards);
    assert_int_equal(sum.shard_bytes, g->memory.shard_bytes);
    assert_int_equal(sum.resident, g->memory.resident);
    assert_int_equal(sum.dirty, g->memory.dirty);
    assert_int_equal(sum.dirty_bytes, g->memory.dirty_bytes);
}

static void test_shards_in_memory__are_counted(void **state)
{
    const struct control_options o = options(false);
    struct resident_status none = {0};
    (void)state;
    open_with(UINT64_MAX, &o);
    assert_false(log_filter_shards(solo.filter, 1, count_shard, &none));
    assert_int_equal(none.shards, 0);
    solo_tend(&solo);
    const struct log_generation_status *g = read_one();
    assert_int_equal(g->number, 1);
    assert_int_equal(g->layers, 1);
    assert_true(g->memory.shards > 1);
    assert_int_equal(g->memory.resident, g->memory.shards);
    assert_int_equal(g->memory.resident_bytes, g->memory.shard_bytes);
    assert_int_equal(g->memory.dirty, 0);
    shards_add_up(g);
    assert_false(log_filter_shards(solo.filter, 2, count_shard, &none));
    assert_int_equal(solo_ask(&solo, true, 1), KEY_ADDED);
    g = read_one();
    assert_int_equal(g->memory.dirty, 1);
    assert_true(g->memory.dirty_bytes > 0 && g->memory.dirty_bytes % BITMAP_UNIT == 0);
    shards_add_up(g);
}

static void test_shards_without_room__are_not_in_memory(void **state)
{
    const struct control_options o = options(false);
    (void)state;
    open_with(SHARD_BYTES, &o);
    assert_int_equal(solo_ask(&solo, true, 1), KEY_ADDED);
    const struct log_generation_status *g = read_one();
    assert_in_range(g->memory.resident, 0, 1);
    assert_true(g->memory.shards > 1);
    assert_in_range(g->memory.overlay_keys, 0, 1);
    assert_int_equal(g->memory.overlay_keys + g->memory.dirty, 1); /* wherever the key is */
    shards_add_up(g);
}

static void test_a_filter_that_is_gone__is_closed(void **state)
{
    const struct control_options o = options(false);
    (void)state;
    open_with(UINT64_MAX, &o);
    assert_int_equal(solo_ask(&solo, false, 1), KEY_ABSENT);
    struct error e = {""};
    must(log_drop(on.link, &on.names, on.names.incarnation, 0, NULL, &e), e);
    solo_run(&solo, &never, 500);
    (void)status();
    assert_string_equal(log_filter_state_name(s.state), "closed");
    assert_string_equal(s.why, "the filter does not exist");
    assert_int_equal(s.code, ERR_NOT_FOUND);
    assert_string_equal(s.error, "the filter does not exist");
}

static void test_redis_is_away__the_control_says_so(void **state)
{
    const struct control_options o = options(true);
    struct error e = {""};
    (void)state;
    open_with(UINT64_MAX, &o);
    add(0, 1);
    temp_redis_stop(&on.redis);
    solo_run(&solo, &never, 100);
    (void)status();
    assert_true(s.code == ERR_UNREACHABLE || s.code == ERR_TIMEOUT);
    assert_non_null(strstr(s.error, on.redis.url + strlen("redis://")));
    assert_int_equal(s.state, FILTER_OPEN); /* the data in memory answer */
    assert_int_equal(solo_ask(&solo, false, 0), KEY_PRESENT);
    client_close(&on.client);
    must(temp_redis_restart(&on.redis, false, &e), e);
    must(client_open(&on.client, on.redis.port, REPLY_MS, &e), e);
}

/* Any thread may read the status while the control and a worker run. */
static _Atomic bool ends;

static void *ask_always(void *arg)
{
    struct log_status *mine = arg;
    uint64_t shards = 0;
    while (!atomic_load(&ends)) {
        struct resident_status sum = {0};
        control_status(solo.control, mine);
        if (log_filter_shards(solo.filter, 1, count_shard, &sum))
            shards += sum.shards;
    }
    return shards > 0 ? arg : NULL;
}

static void test_other_threads__may_ask_meanwhile(void **state)
{
    static struct log_status mine[2];
    const struct control_options o = options(true);
    pthread_t thread[2];
    void *result;
    (void)state;
    open_with(UINT64_MAX, &o);
    atomic_store(&ends, false);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, ask_always, &mine[i]), 0);
    add(0, 100);
    run_until_lag(0);
    atomic_store(&ends, true);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(thread[i], &result), 0);
        assert_non_null(result);
        assert_int_equal(mine[i].incarnation, on.names.incarnation);
    }
}

/* Two filters' controls share a thread; each filter follows its own view. */
static void test_controls_of_one_thread__have_their_own_views(void **state)
{
    (void)state;
    struct error e = {""};
    struct names other;
    struct log_status of_other;
    struct control_options o = options(true);
    o.look_interval_us = LONG_US;
    open_with(UINT64_MAX, &o);
    must(names_init(&other, "tb", "g", 1, &e), e);
    must(log_member_make(on.link, &other, 1000, 1, SHARD_BYTES, &e), e);
    assert_int_not_equal(other.incarnation, on.names.incarnation);
    o.thread = solo.thread;
    solo_open(&second, &on.nodes, &other, UINT64_MAX, &o);
    has_second = true;
    for (unsigned i = 0; i < 3; i++) {
        solo_tend(&solo);
        solo_tend(&second);
        assert_int_equal(solo_ask(&solo, true, i), KEY_ADDED);
        assert_int_equal(solo_ask(&second, true, i), KEY_ADDED);
        control_status(second.control, &of_other);
        assert_int_equal(status()->incarnation, on.names.incarnation);
        assert_int_equal(s.lanes, LANES);
        assert_int_equal(of_other.incarnation, other.incarnation);
        assert_int_equal(of_other.lanes, 1);
    }
}

#define STATUS_TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STATUS_TEST(test_before_the_view_is_read__it_is_opening),
        STATUS_TEST(test_writers_and_lag__are_counted),
        STATUS_TEST(test_a_fold__ends_the_lag),
        STATUS_TEST(test_what_another_one_folds__ends_the_lag_too),
        STATUS_TEST(test_shards_in_memory__are_counted),
        STATUS_TEST(test_shards_without_room__are_not_in_memory),
        STATUS_TEST(test_a_filter_that_is_gone__is_closed),
        STATUS_TEST(test_redis_is_away__the_control_says_so),
        STATUS_TEST(test_other_threads__may_ask_meanwhile),
        STATUS_TEST(test_controls_of_one_thread__have_their_own_views),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
