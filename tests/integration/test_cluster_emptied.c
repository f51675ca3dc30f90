/* SPDX-License-Identifier: MIT */
/* A master of a Redis Cluster loses what a build has written to it, and gives away its only slot before
 * anybody looks: all masters with slots are those of the view. */
#include "tests/integration/log_cluster.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "migrate/build/build.h"
#include "shard/filter/hash.h"
#include "shard/redis/nodes/cluster.h"
#include "shard/view/view_load.h"

enum {
    MASTERS = 3,
    OWNERS = 2,
    EMPTIED = 2, /* the master that has one slot for a while */
    REPLY_MS = 5000,
    CAPACITY = 100,
    SHARD_BYTES = 8192, /* a generation has one shard */
    KEYS = 50,
    WAIT_US = 20 * 1000 * 1000
};

static unsigned slot, owner;
static struct builder *b;
static struct build *build;

static int start(void **state)
{
    (void)state;
    log_cluster_start(MASTERS, OWNERS, false);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    build_free(build);
    builder_free(b);
    log_cluster_stop();
    return 0;
}

/* The slot of the shard that will be built moves to the third master before the filter is made. */
static void makes_filter(void)
{
    struct error e = {""};
    struct key_name shard;
    must(names_init(&at.names, "tb", "f", 1, &e), e);
    names_log_shard(&at.names, (struct shard_id){.generation = 2}, &shard);
    slot = slots_of_key(shard.text, shard.length);
    owner = log_cluster_owner(&shard);
    must(temp_cluster_move(&at.cluster, slot, 1, owner, EMPTIED, 0, &e), e);
    must(log_member_make(at.link, &at.names, CAPACITY, 1, SHARD_BYTES, &e), e);
}

static void builds(void)
{
    struct error e = {""};
    const struct build_options options = {.memory = UINT64_MAX, .writers = 1};
    must(log_view_load(at.link, &at.names, at.view, &e), e);
    must(builder_new(&b, at.link, &at.names, &e), e);
    must(builder_begin(b, &at.view->slot[at.view->current].shape, "", &e), e);
    assert_int_equal(b->shape.number, 2);
    must(builder_start(b, &e), e);
    must(build_new(&build, b, &options, &e), e);
}

static void puts_keys(void)
{
    struct error e = {""};
    char text[24];
    for (unsigned i = 0; i < KEYS; i++)
        build_put(build, 0, hash_key(b->seed, text, (size_t)snprintf(text, sizeof(text), "%u", i)));
    must(build_page_end(build, 0, &e), e);
    must(build_checkpoint(build, "", 0, &e), e);
}

/* The master starts with its file, from before the keys, and gives its slot back. */
static void is_emptied(void)
{
    struct error e = {""};
    bool serves = false;
    temp_redis_kill(&at.cluster.node[EMPTIED]);
    must(temp_redis_restart(&at.cluster.node[EMPTIED], true, &e), e);
    client_close(&at.cluster.client[EMPTIED]);
    must(client_open(&at.cluster.client[EMPTIED], at.cluster.node[EMPTIED].port, REPLY_MS, &e), e);
    for (uint64_t until = clock_mono_us() + WAIT_US; !serves; clock_sleep_us(20 * 1000)) {
        redisReply *r = client_command(&at.cluster.client[EMPTIED], "CLUSTER INFO");
        serves = strstr(r->str, "cluster_state:ok") != NULL;
        freeReplyObject(r);
        assert_true(clock_mono_us() < until);
    }
    must(temp_cluster_move(&at.cluster, slot, 1, EMPTIED, owner, 0, &e), e);
    must(temp_cluster_agree(&at.cluster, WAIT_US / 1000, &e), e);
}

static void test_a_build__begins_anew_where_a_master_of_the_view_is_gone(void **state)
{
    struct error e = {""};
    (void)state;
    makes_filter();
    builds();
    must(client_ok(&at.cluster.client[EMPTIED], &e, "SAVE"), e);
    puts_keys();
    is_emptied();
    assert_int_equal(build_cutover(build, false, &e), ERR_LOST);
    assert_true(b->anew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_build__begins_anew_where_a_master_of_the_view_is_gone),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
