/* SPDX-License-Identifier: MIT */
/* Streams and shards that no view names, on real servers. A process that replaces a lane or adds a layer is
 * killed at each step, and its last command may be executed later. What it has left is found and removed. A
 * build's begin that comes late enters no generation again. */
#include "tests/integration/lives.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/generations/build.h"
#include "shard/generations/grace.h"
#include "shard/members/roll.h"

enum { KILLED_MS = 300, ARRIVES_US = 50 * 1000 };

static struct life w;
static long long keys; /* the number of keys of the new filter */

static int start(void **state)
{
    (void)state;
    return life_start(&w);
}

static int stop(void **state)
{
    (void)state;
    return life_stop(&w);
}

static void makes(void)
{
    struct error e = {""};
    must(life_make(&w, w.link, &e), e);
    life_is_whole(&w, 0);
    keys = life_keys(&w);
}

static void begin(void)
{
    life_begin(&w, "f", 1);
    makes();
}

static void drops(void)
{
    struct error e = {""};
    must(life_drop(&w, w.link, &e), e);
    assert_int_equal(life_keys(&w), 0);
}

/* Replace the lane as a process does that has read the view and misses the lane. */
static enum err replace(struct life *life, struct sync_client *l, struct error *e)
{
    const uint8_t writer[LOG_WRITER_BYTES] = {1};
    struct roll *r = calloc(1, sizeof(*r));
    struct log_view *v = calloc(1, sizeof(*v));
    enum err code = log_view_load(l, &life->names, v, e);
    roll_init(r, l, &life->names, writer);
    if (code == ERR_OK)
        code = roll_replace_lane(r, v, 1, e);
    roll_fini(r);
    free(r);
    free(v);
    return code;
}

static enum err grow(struct life *life, struct sync_client *l, struct error *e)
{
    struct log_view *v = calloc(1, sizeof(*v));
    enum err code = log_grow(l, &life->names, 1, 1, v, e);
    free(v);
    return code;
}

/* Run @job until it is held at its @n-th command and gives up. False: the job ended before. A replacer may
 * fail to clean up without an error of its own. */
static bool stops_at(life_job_fn *job, uint64_t n, enum proxy_moment moment)
{
    struct error e = {""};
    struct sync_client *l = sync_client_new(&w.nodes, KILLED_MS, "twinbloom-job");
    proxy_count(w.proxy, "", n, moment);
    enum err code = job(&w, l, &e);
    bool held = proxy_is_held(w.proxy);
    if (!held)
        must(code, e);
    sync_client_free(l);
    return held;
}

static bool is_killed_at(life_job_fn *job, uint64_t n, enum proxy_moment moment)
{
    bool held = stops_at(job, n, moment);
    proxy_release(w.proxy, false);
    return held;
}

/* The withheld command is executed now; its sender is dead. */
static void is_executed_late(void)
{
    proxy_release(w.proxy, true);
    clock_sleep_us(ARRIVES_US);
}

/* --- lanes --- */

/* Only the view, the lanes, the shards, and the filter's tokens remain. */
static void the_next_replacer_leaves_none(void)
{
    struct error e = {""};
    must(replace(&w, w.link, &e), e);
    assert_int_equal(life_keys(&w), keys + 1);
    must(log_view_load(w.link, &w.names, &w.view, &e), e);
    assert_true(w.view.strays);
}

static void kill_replacers(enum proxy_moment moment, bool is_replaced)
{
    uint64_t n = 1, more = 0;
    for (bool killed = true; killed; n++) {
        begin();
        killed = is_killed_at(replace, n, moment);
        more += life_keys(&w) > keys + 1;
        if (is_replaced)
            the_next_replacer_leaves_none();
        drops();
        life_end(&w);
    }
    assert_true(n > 5 && more > 0);
}

static void test_a_replacer_that_is_killed__is_cleared_away_by_the_next_one(void **state)
{
    (void)state;
    kill_replacers(PROXY_BEFORE, true);
    kill_replacers(PROXY_AFTER, true);
}

static void test_a_replacer_that_is_killed__leaves_nothing_when_the_filter_is_deleted(void **state)
{
    (void)state;
    kill_replacers(PROXY_BEFORE, false);
    kill_replacers(PROXY_AFTER, false);
}

/* The stream is made after the next replacer, which found nothing: the deletion removes it. */
static void test_a_stream_that_is_made_late__goes_with_the_filter(void **state)
{
    struct error e = {""};
    unsigned late = 0;
    (void)state;
    bool stopped = true;
    for (uint64_t n = 1; stopped; n++) {
        begin();
        stopped = stops_at(replace, n, PROXY_BEFORE);
        must(replace(&w, w.link, &e), e);
        is_executed_late();
        late += life_keys(&w) > keys + 1;
        drops();
        life_end(&w);
    }
    assert_true(late > 0);
}

/* --- layers --- */

static void test_a_grower_that_a_deletion_overtakes__takes_its_shards_away(void **state)
{
    static struct life_sleeper s;
    (void)state;
    for (unsigned moment = 0; moment < 2; moment++) {
        bool slept = true;
        for (uint64_t n = 1; slept; n++) {
            begin();
            slept = life_put_to_sleep(&s, &w, grow, n, moment == 0 ? PROXY_BEFORE : PROXY_AFTER);
            drops();
            enum err code = life_wake(&s);
            if (!slept)
                must(code, s.e);
            assert_int_equal(life_keys(&w), 0);
            life_end(&w);
        }
    }
}

/* The process is dead and cannot remove the shards: the next maker of the filter does. */
static void test_shards_that_are_made_behind_a_deletion__go_when_the_filter_is_made_anew(void **state)
{
    unsigned late = 0;
    (void)state;
    bool stopped = true;
    for (uint64_t n = 1; stopped; n++) {
        begin();
        stopped = stops_at(grow, n, PROXY_BEFORE);
        drops();
        is_executed_late();
        late += life_keys(&w) > 0;
        makes();
        life_end(&w);
    }
    assert_true(late > 0);
}

/* --- generations --- */

static enum err begin_build(struct life *life, struct sync_client *l, struct error *e)
{
    struct builder *b;
    enum err code = builder_new(&b, l, &life->names, e);
    if (code != ERR_OK)
        return code;
    code = builder_begin(b, &w.view.slot[1].shape, "", e);
    builder_free(b);
    return code;
}

/* Generation 2 was given up since: its number is used, and its shards may be read or deleted late. */
static void test_begin__that_comes_late_enters_no_generation_again(void **state)
{
    struct error e = {""};
    static struct life_sleeper s;
    (void)state;
    begin();
    proxy_count_only(w.proxy, ":expansion_flag");
    assert_true(life_put_to_sleep(&s, &w, begin_build, 1, PROXY_BEFORE));
    proxy_count_only(w.proxy, "");
    must(begin_build(&w, w.link, &e), e);
    must(grace_forget(w.link, &w.names, "", 2, &e), e);
    gives(ERR_CONFLICT, life_wake(&s), s.e);
    must(log_view_load(w.link, &w.names, &w.view, &e), e);
    assert_int_equal(w.view.last_generation, 2);
    assert_int_equal(w.view.slot[0].shape.number, 0);
    life_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_replacer_that_is_killed__is_cleared_away_by_the_next_one),
        cmocka_unit_test(test_a_replacer_that_is_killed__leaves_nothing_when_the_filter_is_deleted),
        cmocka_unit_test(test_a_stream_that_is_made_late__goes_with_the_filter),
        cmocka_unit_test(test_a_grower_that_a_deletion_overtakes__takes_its_shards_away),
        cmocka_unit_test(test_shards_that_are_made_behind_a_deletion__go_when_the_filter_is_made_anew),
        cmocka_unit_test(test_begin__that_comes_late_enters_no_generation_again),
    };
    return cmocka_run_group_tests_name("strays, two nodes", tests, start, stop);
}
