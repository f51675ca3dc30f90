/* SPDX-License-Identifier: MIT */
/* Changing and retiring views; shards lie on two nodes. */
#include "tests/integration/filters.h"

#include <stdio.h>

enum { SHARDS = 11 };

static struct servers servers;
static struct filter f;
static const struct fence_job reset_job = {.reset = true};

static int start(void **state)
{
    (void)state;
    return servers_start(&servers, 2);
}

static int stop(void **state)
{
    (void)state;
    return servers_stop(&servers);
}

static int setup(void **state)
{
    (void)state;
    servers_flush(&servers);
    filter_init(&f, &servers, "f");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    filter_fini(&f);
    return 0;
}

static long long job(const char *command)
{
    char format[64];
    struct key_name name;
    names_filter_key(&f.fence.names, "job", &name);
    (void)snprintf(format, sizeof(format), "%s %%b", command);
    return servers_integer(&servers, NODE_HOME, format, name.text, name.length);
}

/* --- view changes --- */

static void test_fence_change__carries_every_key_through_an_expansion(void **state)
{
    (void)state;
    enum { KEYS = 500 };
    filter_make(&f, SHARDS);
    (void)filter_add(&f, view_current(&f.view), 0, KEYS);
    filter_open(&f, 2 * SHARDS, true);
    assert_int_equal(f.view.slot[1].number, 3);
    (void)filter_add(&f, &f.view.slot[1], 0, KEYS);
    assert_int_equal(filter_check(&f, &f.view.slot[0], 0, KEYS), KEYS);
    filter_cutover(&f, true);
    assert_int_equal(view_current(&f.view)->number, 3);
    assert_int_equal(filter_check(&f, view_current(&f.view), 0, KEYS), KEYS);
    filter_finish(&f, true);
    assert_int_equal(filter_check(&f, view_current(&f.view), 0, KEYS), KEYS);
    filter_all_are(&f, view_current(&f.view), 4, "shard");
    for (uint64_t epoch = 2; epoch < 4; epoch++)
        filter_all_are(&f, view_current(&f.view), epoch, "tombstone");
}

static void test_fence_change__refuses_another_mutex(void **state)
{
    (void)state;
    struct error e = {""};
    filter_make(&f, SHARDS);
    struct view to = f.view;
    to.epoch = 2;
    to.phase = PHASE_BUILDING;
    static const char *const wrong[] = {"owner:8", "other:7", "owner:", ""};
    for (size_t i = 0; i < 4; i++)
        gives(ERR_MUTEX_LOST, fence_change(&f.fence, &f.view, &to, wrong[i], NULL, &e), e);
    assert_int_equal(servers_integer(&servers, 0, "DEL " PREFIX ":{f}:expansion_flag"), 1);
    gives(ERR_MUTEX_LOST, fence_change(&f.fence, &f.view, &to, MUTEX, NULL, &e), e);
    assert_int_equal(filter_stored(&f)->epoch, 1);
}

static void test_fence_change__refuses_an_epoch_that_moved_on(void **state)
{
    (void)state;
    struct error e = {""};
    filter_make(&f, SHARDS);
    static struct view old, to;
    old = to = f.view;
    to.epoch = 2;
    to.phase = PHASE_BUILDING;
    filter_open(&f, 3, true);
    gives(ERR_FENCED, fence_change(&f.fence, &old, &to, MUTEX, &reset_job, &e), e);
    /* The same epoch of another incarnation is another view. */
    old = f.view;
    old.incarnation++;
    to = old;
    to.epoch++;
    gives(ERR_FENCED, fence_change(&f.fence, &old, &to, MUTEX, &reset_job, &e), e);
    assert_int_equal(filter_stored(&f)->epoch, 2);
    assert_int_equal(filter_stored(&f)->phase, PHASE_BUILDING);
}

static void test_fence_change__refuses_an_epoch_that_is_not_fenced(void **state)
{
    (void)state;
    struct error e = {""};
    static struct view to;
    uint64_t lost;
    filter_make(&f, SHARDS);
    filter_open(&f, 3, false);
    to = f.view;
    to.epoch++;
    to.phase = PHASE_SWITCHED;
    to.current = 1;
    gives(ERR_CONFLICT, fence_change(&f.fence, &f.view, &to, MUTEX, NULL, &e), e);
    assert_int_equal(filter_stored(&f)->epoch, 2);
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    to.fenced_epoch = f.view.fenced_epoch;
    must(fence_change(&f.fence, &f.view, &to, MUTEX, NULL, &e), e);
    assert_int_equal(filter_stored(&f)->epoch, 3);
    assert_int_equal(filter_stored(&f)->fenced_epoch, 2);
}

static void test_fence_change__refuses_a_phase_that_may_not_follow(void **state)
{
    (void)state;
    struct error e = {""};
    static struct view to;
    filter_make(&f, SHARDS);
    to = f.view;
    to.epoch++;
    to.phase = PHASE_SWITCHED;
    gives(ERR_CONFLICT, fence_change(&f.fence, &f.view, &to, MUTEX, NULL, &e), e);
    assert_int_equal(filter_stored(&f)->epoch, 1);
}

static void test_fence_change__resets_the_job_only_where_it_is_told_to(void **state)
{
    (void)state;
    struct error e = {""};
    static struct view to;
    static const char *const pairs[] = {"step", "settle", "generation", "3"};
    uint64_t lost;
    filter_make(&f, SHARDS);
    filter_open(&f, 3, true);
    assert_int_equal(servers_integer(&servers, 0, "HSET " PREFIX ":{f}:job step verify last_id 77"), 2);
    to = f.view;
    for (int reset = 0; reset < 2; reset++) {
        to.epoch = f.view.epoch + 1;
        must(fence_change(&f.fence, &f.view, &to, MUTEX,
                          &(struct fence_job){.reset = reset, .pairs = pairs, .count = 4}, &e),
             e);
        f.view = to;
        must(fence_complete(&f.fence, &f.view, &lost, &e), e);
        assert_int_equal(job("HLEN"), reset ? 2 : 3);
        assert_string_equal(servers_text(&servers, 0, "HGET " PREFIX ":{f}:job step"), "settle");
    }
    to.epoch = f.view.epoch + 1; /* refused: the job stays as well */
    gives(ERR_MUTEX_LOST,
          fence_change(&f.fence, &f.view, &to, "owner:8",
                       &(struct fence_job){.reset = true, .pairs = pairs, .count = 2}, &e),
          e);
    assert_int_equal(job("HLEN"), 2);
}

/* What an operator asked while the build was being prepared outlives the reset. */
static void test_fence_change__keeps_what_was_asked_for_when_it_resets_the_job(void **state)
{
    (void)state;
    struct error e = {""};
    static struct view to;
    filter_make(&f, SHARDS);
    filter_open(&f, 3, true);
    assert_int_equal(
        servers_integer(&servers, 0, "HSET " PREFIX ":{f}:job step plan abort 1 hold 0 rows_per_second 50"),
        4);
    to = f.view;
    to.epoch++;
    must(fence_change(&f.fence, &f.view, &to, MUTEX, &reset_job, &e), e);
    assert_int_equal(job("HLEN"), 3);
    assert_string_equal(servers_text(&servers, 0, "HGET " PREFIX ":{f}:job abort"), "1");
    assert_string_equal(servers_text(&servers, 0, "HGET " PREFIX ":{f}:job rows_per_second"), "50");
}

static void test_fence_change__changes_nothing_where_its_guard_is_set(void **state)
{
    (void)state;
    struct error e = {""};
    static struct view to;
    static const char *const pairs[] = {"step", "follow"};
    const struct fence_job guarded = {.guard = "abort", .pairs = pairs, .count = 2};
    filter_make(&f, SHARDS);
    filter_open(&f, 3, true);
    assert_int_equal(servers_integer(&servers, 0, "HSET " PREFIX ":{f}:job step verify abort 1"), 2);
    to = f.view;
    to.epoch++;
    to.phase = PHASE_SWITCHED;
    to.current = 1 - f.view.current;
    gives(ERR_CANCELLED, fence_change(&f.fence, &f.view, &to, MUTEX, &guarded, &e), e);
    assert_int_equal(filter_stored(&f)->epoch, 2);
    assert_string_equal(servers_text(&servers, 0, "HGET " PREFIX ":{f}:job step"), "verify");
    assert_int_equal(servers_integer(&servers, 0, "HSET " PREFIX ":{f}:job abort 0"), 0);
    must(fence_change(&f.fence, &f.view, &to, MUTEX, &guarded, &e), e);
    assert_int_equal(filter_stored(&f)->epoch, 3);
    assert_string_equal(servers_text(&servers, 0, "HGET " PREFIX ":{f}:job step"), "follow");
}

/* --- retiring --- */

static void expanded(void)
{
    filter_make(&f, SHARDS);
    filter_open(&f, 3, true);
    filter_cutover(&f, true);
    filter_finish(&f, true);
}

static void test_fence_retire__turns_what_left_into_tombstones(void **state)
{
    (void)state;
    struct error e = {""};
    expanded();
    static struct generation left;
    left = f.view.retiring;
    assert_int_equal(left.number, 2);
    filter_all_are(&f, &left, 3, "shard"); /* under the last epoch that named it */
    assert_int_equal(
        servers_integer(&servers, 0, "HSET " PREFIX ":{f}:count 2.0 5 2.0.4 5 3.0 6 22.0 7 12.0 8"), 5);
    gives(ERR_MUTEX_LOST, fence_retire(&f.fence, &f.view, "owner:8", &e), e);
    assert_int_equal(filter_stored(&f)->retiring_epoch, 3);
    must(fence_retire(&f.fence, &f.view, MUTEX, &e), e);
    filter_all_are(&f, &left, 3, "tombstone");
    filter_all_are(&f, &left, 4, "none");
    filter_all_are(&f, view_current(&f.view), 4, "shard");
    assert_int_equal(f.view.retiring_epoch, 0);
    assert_int_equal(filter_stored(&f)->retiring_epoch, 0);
    assert_int_equal(filter_stored(&f)->retiring.number, 0);
    assert_int_equal(servers_integer(&servers, 0, "HLEN " PREFIX ":{f}:count"), 3);
    assert_string_equal(servers_text(&servers, 0, "HGET " PREFIX ":{f}:count 3.0"), "6");
    assert_string_equal(servers_text(&servers, 0, "HGET " PREFIX ":{f}:count 22.0"), "7");
    must(fence_retire(&f.fence, &f.view, MUTEX, &e), e);
}

static void test_fence_retire__clears_no_record_but_its_own(void **state)
{
    (void)state;
    struct error e = {""};
    static struct view old;
    expanded();
    old = f.view;
    must(fence_retire(&f.fence, &f.view, MUTEX, &e), e);
    filter_open(&f, 5, true);
    filter_cutover(&f, true);
    filter_finish(&f, true);
    assert_int_equal(servers_integer(&servers, 0, "HSET " PREFIX ":{f}:count 2.0 5 3.0 6"), 2);
    must(fence_retire(&f.fence, &old, MUTEX, &e), e); /* a driver that was late */
    assert_int_equal(filter_stored(&f)->retiring_epoch, f.view.retiring_epoch);
    assert_int_equal(filter_stored(&f)->retiring.number, 3);
    assert_string_equal(servers_text(&servers, 0, "HGET " PREFIX ":{f}:count 3.0"), "6");
}

static void test_fence_retire__leaves_a_view_that_the_next_expansion_can_change(void **state)
{
    (void)state;
    struct error e = {""};
    expanded();
    must(fence_retire(&f.fence, &f.view, MUTEX, &e), e);
    filter_open(&f, 5, true); /* by the same driver, without loading the view again */
    assert_int_equal(filter_stored(&f)->phase, PHASE_BUILDING);
    assert_int_equal(filter_stored(&f)->retiring.number, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_fence_change__carries_every_key_through_an_expansion),
        TEST(test_fence_change__refuses_another_mutex),
        TEST(test_fence_change__refuses_an_epoch_that_moved_on),
        TEST(test_fence_change__refuses_an_epoch_that_is_not_fenced),
        TEST(test_fence_change__refuses_a_phase_that_may_not_follow),
        TEST(test_fence_change__keeps_what_was_asked_for_when_it_resets_the_job),
        TEST(test_fence_change__changes_nothing_where_its_guard_is_set),
        TEST(test_fence_change__resets_the_job_only_where_it_is_told_to),
        TEST(test_fence_retire__turns_what_left_into_tombstones),
        TEST(test_fence_retire__clears_no_record_but_its_own),
        TEST(test_fence_retire__leaves_a_view_that_the_next_expansion_can_change),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
