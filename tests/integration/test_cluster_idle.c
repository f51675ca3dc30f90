/* SPDX-License-Identifier: MIT */
/* A coordinator that has added keys, and that nobody asks any more, while the slot of the lane moves. */
#include "tests/integration/log_members.h"

#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "shard/redis/nodes/cluster.h"
#include "shard/view/view_load.h"
#include "tests/lib/temp_cluster.h"

enum {
    MASTERS = 3,
    REPLY_MS = 5000,
    CAPACITY = 1000,
    SHARD_BYTES = 32768,
    KEYS = 100,
    WAIT_US = 30 * 1000 * 1000,
    LOOK_US = 100 * 1000
};

static struct temp_cluster cluster;
static struct nodes seeds, nodes, other_nodes;
static struct sync_client *l;
static struct names names;
static struct log_view *view;
static struct log_id first; /* that is folded: the lane is empty */

static int start(void **state)
{
    struct error e = {""};
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    must(temp_cluster_start(&cluster, MASTERS, 0, 0, &e), e);
    must(cluster_parse_seeds(&seeds, cluster.seeds, &e), e);
    nodes = (struct nodes){.cluster = cluster_new(&seeds)};
    other_nodes = (struct nodes){.cluster = cluster_new(&seeds)}; /* of another process */
    l = sync_client_new(&nodes, REPLY_MS, NULL);
    view = calloc(1, sizeof(*view));
    assert_true(l != NULL && view != NULL);
    must(names_init(&names, "tb", "f", 1, &e), e);
    must(log_member_make(l, &names, CAPACITY, 1, SHARD_BYTES, &e), e);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    sync_client_free(l);
    free(view);
    cluster_free(nodes.cluster);
    cluster_free(other_nodes.cluster);
    temp_cluster_fini(&cluster);
    return 0;
}

/* Wait until the writer has folded, and has given back the lease: while it has that it reads the lane. */
static void is_folded(const struct log_member *m)
{
    struct error e = {""};
    struct key_name lease;
    redisReply *r;
    int64_t held = 1;
    names_filter_key(&names, "folder", &lease);
    for (uint64_t until = clock_mono_us() + WAIT_US;; clock_sleep_us(LOOK_US)) {
        must(log_view_load(l, &names, view, &e), e);
        must(sync_client_command(l, sync_client_home(l, &names), &r, &e, "EXISTS %s", lease.text), e);
        held = r->integer;
        freeReplyObject(r);
        if (view->slot[1].folded[0].position.id.ms > first.ms && held == 0)
            return;
        if (clock_mono_us() > until)
            fail_msg("not folded: %s", m->last.text);
    }
}

static void moves_lane(void)
{
    struct error e = {""};
    struct lane lane;
    must(log_view_lane_at(view, &names, &nodes, 0, &lane, &e), e);
    unsigned slot = slots_of_key(lane.key.text, lane.key.length),
             from = temp_cluster_owner(&cluster, 0, slot);
    must(temp_cluster_move(&cluster, slot, 1, from, (from + 1) % MASTERS, 0, &e), e);
}

/* The writer is registered still. It answers the roll call that another one needs, which only checks. */
static void test_a_writer_that_nobody_asks__answers_the_roll_call_of_a_lane_that_moved(void **state)
{
    static struct log_member writer, reader;
    struct error e = {""};
    uint8_t answer[KEYS];
    enum err code;
    (void)state;
    log_members_open(&writer, &nodes, &names, UINT64_MAX, true);
    log_members_open(&reader, &other_nodes, &names, UINT64_MAX, false);
    must(log_view_load(l, &names, view, &e), e);
    first = view->slot[1].folded[0].position.id;
    assert_true(log_member_added(&writer, 0, KEYS) > 0);
    assert_int_equal(log_member_count(&reader, 0, KEYS, KEY_PRESENT), KEYS);
    is_folded(&writer);
    assert_int_equal(view->writer_count, 1);
    moves_lane();
    uint64_t until = clock_mono_us() + WAIT_US;
    while ((code = log_member_check(&reader, KEYS, KEYS, answer, &e)) != ERR_OK && clock_mono_us() < until)
        continue;
    log_member_close(&reader);
    log_member_close(&writer);
    must(code, e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_writer_that_nobody_asks__answers_the_roll_call_of_a_lane_that_moved),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
