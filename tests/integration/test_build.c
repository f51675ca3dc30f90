/* SPDX-License-Identifier: MIT */
/* Builds by one thread: what a flush writes, and what it keeps for the next one. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/integration/builds.h"

enum { KEYS = 3000, GOES_ON_MS = 30000 };

/* All tests run twice: in memory, and with hashes spilled for each shard. */

/* The node does not answer the flush, or not the greeting of a connection. */
static void flush_in_vain(void)
{
    struct error e = {""};
    enum err code = build_flush(builds_build, &e);
    assert_true(code == ERR_TIMEOUT || code == ERR_UNREACHABLE);
}

/* --- what a flush brings --- */

static void test_build_flush__brings_all_keys_of_ended_pages(void **state)
{
    builds_make(builds_options(state));
    assert_int_equal(build_partitions(builds_build), *state == NULL ? 1 : builds_shards());
    long long keys = log_count_keys("*");
    builds_put(0, 0, KEYS);
    builds_flush();
    builds_all_there(0, KEYS);
    assert_in_range(log_missing_in(&builds.builder->shape, 100000, 101000), 950, 1000);
    for (unsigned i = 0; i < 5; i++) {
        builds_put(0, 10000 + 100 * i, 100);
        builds_flush();
    }
    builds_all_there(10000, 500);
    assert_int_equal(log_count_keys("*"), keys);
}

static void test_build_flush__of_nothing_does_nothing(void **state)
{
    builds_make(builds_options(state));
    builds_flush();
    builds_put(0, 0, KEYS);
    builds_flush();
    for (uint32_t i = 0; i < builds_shards(); i++)
        builds_lose(i);
    builds_flush(); /* there would be ERR_LOST otherwise */
    assert_int_equal(build_spilled_bytes(builds_build), 0);
}

static void test_build_take_count__counts_new_keys(void **state)
{
    builds_make(builds_options(state));
    builds_put(0, 0, 200);
    builds_put(0, 0, 200);                               /* the same keys again: none is new */
    assert_int_equal(build_take_count(builds_build), 0); /* nothing is written to Redis yet */
    builds_flush();
    assert_int_equal(build_take_count(builds_build), 200);
    assert_int_equal(build_take_count(builds_build), 0);
    builds_put(0, 1000, 1);
    builds_put(0, 0, 200); /* once more: duplicates count where keys are spilled */
    builds_flush();
    assert_int_equal(build_take_count(builds_build), *state == NULL ? 1 : 201);
}

/* --- what it does not forget --- */

static int setup_short(void **state)
{
    builds_ms = BUILDS_SHORT_MS;
    return builds_setup(state);
}

static void stop_node(void)
{
    process_signal(&log_servers.redis[1].process, SIGSTOP);
    clock_sleep_us(50 * 1000); /* until the server has stopped */
}

/* A busy node may need longer than this builder waits: flush again, as a job does. */
static void flush_when_it_goes_on(void)
{
    struct error e = {""};
    enum err code;
    uint64_t until = clock_mono_us() + GOES_ON_MS * 1000ull;
    process_signal(&log_servers.redis[1].process, SIGCONT);
    do
        code = build_flush(builds_build, &e);
    while ((code == ERR_TIMEOUT || code == ERR_UNREACHABLE) && clock_mono_us() < until);
    must(code, e);
}

static void test_build_flush__forgets_nothing_where_redis_does_not_answer(void **state)
{
    builds_make(builds_options(state));
    for (unsigned i = 0; i < 3; i++) {
        builds_put(0, i * 1000, 1000);
        stop_node();
        flush_in_vain();
        builds_put(0, i * 1000 + 500, 500); /* half of these keys are repeated */
        flush_in_vain();
        flush_when_it_goes_on();
        builds_all_there(0, (i + 1) * 1000);
    }
    assert_in_range(build_take_count(builds_build), 2900,
                    4500); /* each key counts once, or as often as it was spilled */
}

static uint32_t shard_of(uint64_t number)
{
    struct key_place place;
    hash_block(&builds.builder->shape.layers[0].geometry, builds_hash(number), &place);
    return place.shard;
}

/* Three shards of one node, and then one of a node that cannot be connected to, are under way where a flush
 * fails. */
static void test_build_flush__takes_nothing_of_a_failed_one_for_written(void **state)
{
    uint64_t keys[500];
    unsigned count = 0;
    builds_make(builds_options(state));
    assert_true(builds_shards() >= 6);
    for (uint64_t n = 0; n < sizeof(keys) / sizeof(keys[0]); n++) {
        uint32_t shard = shard_of(n);
        if (shard % 2 != 0 && shard < 5)
            continue;
        builds_put(0, n, 1);
        keys[count++] = n;
    }
    stop_node();
    flush_in_vain();
    flush_in_vain(); /* without a connection */
    flush_when_it_goes_on();
    for (unsigned i = 0; i < count; i++)
        builds_all_there(keys[i], 1);
}

static void test_build_flush__forgets_nothing_where_a_shard_is_lost(void **state)
{
    builds_make(builds_options(state));
    for (uint32_t lost = 0; lost < builds_shards(); lost += 2) {
        builds_put(0, lost * 1000, 1000);
        builds_lose(lost);
        builds_flush_gives(ERR_LOST);
        builds_put(0, lost * 1000 + 1000, 10);
        builds_flush_gives(ERR_LOST);
        builds_find(lost);
        builds_flush();
        builds_all_there(lost * 1000, 1010);
    }
}

static void test_build_flush__forgets_nothing_where_a_block_has_another_tag(void **state)
{
    builds_make(builds_options(state));
    builds_put(0, 0, KEYS);
    builds_spoil(1);
    builds_flush_gives(ERR_LOST);
    builds_mend(1);
    builds_flush();
    builds_all_there(0, KEYS);
}

static void test_build_flush__forgets_nothing_where_redis_refuses(void **state)
{
    builds_make(builds_options(state));
    builds_put(0, 0, KEYS);
    assert_string_equal(servers_text(&log_servers, 1, "ACL SETUSER default -getrange"), "OK");
    builds_flush_gives(ERR_REFUSED);
    assert_string_equal(servers_text(&log_servers, 1, "ACL SETUSER default +getrange"), "OK");
    builds_flush();
    builds_all_there(0, KEYS);
}

static void *let_go_on(void *arg)
{
    (void)arg;
    clock_sleep_us(150 * 1000);
    process_signal(&log_servers.redis[1].process, SIGCONT);
    return NULL;
}

/* The callback is called at the beginning. It takes so long then that it is called once more in the middle,
 * where it cancels. */
struct interruption {
    unsigned calls;
    pthread_t thread;
};

static enum err interrupt(void *arg, struct error *e)
{
    struct interruption *i = arg;
    redisReply *reply;
    switch (++i->calls) {
    case 1:
        stop_node();
        assert_int_equal(pthread_create(&i->thread, NULL, let_go_on, NULL), 0);
        return ERR_OK;
    case 2: /* the callback may use the link */
        must(sync_client_command(builds.link, 1, &reply, e, "ECHO free"), *e);
        assert_string_equal(reply->str, "free");
        freeReplyObject(reply);
        return error_set(e, ERR_CANCELLED, "stop");
    default:
        return ERR_OK;
    }
}

static void test_build_flush__forgets_nothing_where_it_is_stopped(void **state)
{
    struct build_options o = builds_options(state);
    struct interruption i = {0};
    o.poll = (struct work){interrupt, &i};
    builds_make(o);
    builds_put(0, 0, KEYS);
    builds_flush_gives(ERR_CANCELLED);
    assert_int_equal(pthread_join(i.thread, NULL), 0);
    assert_int_equal(i.calls, 2);
    assert_true(log_missing_in(&builds.builder->shape, 0, KEYS) > 0);
    builds_put(0, KEYS, 100);
    builds_flush();
    builds_all_there(0, KEYS + 100);
}

/* --- making one --- */

static void test_build_new__says_what_it_needs(void **state)
{
    struct error e = {""};
    struct build *none = NULL;
    struct build_options o = builds_options(state);
    struct geometry *g = &builds.builder->shape.layers[0].geometry;
    const struct geometry had = *g;
    const uint64_t each = geometry_shard_bytes(g);
    char needed[64];
    o.memory = each;
    o.spill_dir = "";
    gives(ERR_CONFIG, build_new(&none, builds.builder, &o, &e), e);
    assert_non_null(strstr(e.text, "spill_dir"));
    o.spill_dir = NULL;
    gives(ERR_CONFIG, build_new(&none, builds.builder, &o, &e), e);
    o.spill_dir = "/nowhere";
    gives(ERR_CONFIG, build_new(&none, builds.builder, &o, &e), e);
    assert_non_null(strstr(e.text, "/nowhere"));
    o.spill_dir = log_directory;
    g->shards = 5000; /* 1000 files with five shards each */
    gives(ERR_CONFIG, build_new(&none, builds.builder, &o, &e), e);
    (void)snprintf(needed, sizeof(needed), "%" PRIu64 " are needed", 5 * each);
    assert_non_null(strstr(e.text, needed));
    *g = had;
    o = builds_options(state);
    o.writers = 0;
    gives(ERR_RANGE, build_new(&none, builds.builder, &o, &e), e);
    o.writers = BUILD_WRITERS_MAX + 1;
    gives(ERR_RANGE, build_new(&none, builds.builder, &o, &e), e);
    assert_null(none);
    o.writers = BUILD_WRITERS_MAX;
    o.memory = 1; /* memory for at least one shard is used */
    builds_make(o);
    assert_int_equal(build_partitions(builds_build), builds_shards());
    for (unsigned i = 0; i < BUILD_WRITERS_MAX; i++)
        builds_put(i, 40 * i, 40);
    builds_flush();
    builds_all_there(0, 40 * BUILD_WRITERS_MAX);
    assert_in_range(build_take_count(builds_build), 40 * BUILD_WRITERS_MAX * 9 / 10, 40 * BUILD_WRITERS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_build_flush__brings_all_keys_of_ended_pages),
        BOTH(test_build_flush__of_nothing_does_nothing),
        BOTH(test_build_take_count__counts_new_keys),
        cmocka_unit_test_setup_teardown(test_build_flush__forgets_nothing_where_redis_does_not_answer,
                                        setup_short, builds_teardown),
        {"test_build_flush__forgets_nothing_where_redis_does_not_answer (spilled)",
         test_build_flush__forgets_nothing_where_redis_does_not_answer, setup_short, builds_teardown,
         builds_spilled},
        cmocka_unit_test_setup_teardown(test_build_flush__takes_nothing_of_a_failed_one_for_written,
                                        setup_short, builds_teardown),
        BOTH(test_build_flush__forgets_nothing_where_a_shard_is_lost),
        BOTH(test_build_flush__forgets_nothing_where_a_block_has_another_tag),
        BOTH(test_build_flush__forgets_nothing_where_redis_refuses),
        BOTH(test_build_flush__forgets_nothing_where_it_is_stopped),
        MEMORY(test_build_new__says_what_it_needs),
    };
    return cmocka_run_group_tests(tests, log_start, log_stop);
}
