/* SPDX-License-Identifier: MIT */
/* A coordinator that has added keys, and that nobody asks any more, while the slot of the lane moves. */
#include "tests/integration/log_cluster.h"

#include <stdlib.h>

#include "base/clock.h"
#include "shard/view/view_load.h"

enum {
    MASTERS = 3,
    CAPACITY = 1000,
    SHARD_BYTES = 32768,
    KEYS = 100,
    WAIT_US = 30 * 1000 * 1000,
    LOOK_US = 100 * 1000
};

static struct log_id first; /* that is folded: the lane is empty */

static int start(void **state)
{
    struct error e = {""};
    (void)state;
    log_cluster_start(MASTERS, MASTERS, false);
    must(names_init(&at.names, "tb", "f", 1, &e), e);
    must(log_member_make(at.link, &at.names, CAPACITY, 1, SHARD_BYTES, &e), e);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    log_cluster_stop();
    return 0;
}

/* Wait until the writer has folded, and has given back the lease: while it has that it reads the lane. */
static void is_folded(const struct log_member *m)
{
    struct error e = {""};
    struct key_name lease;
    redisReply *r;
    int64_t held = 1;
    names_filter_key(&at.names, "folder", &lease);
    for (uint64_t until = clock_mono_us() + WAIT_US;; clock_sleep_us(LOOK_US)) {
        must(log_view_load(at.link, &at.names, at.view, &e), e);
        must(sync_client_command(at.link, sync_client_home(at.link, &at.names), &r, &e, "EXISTS %s",
                                 lease.text),
             e);
        held = r->integer;
        freeReplyObject(r);
        if (at.view->slot[1].folded[0].position.id.ms > first.ms && held == 0)
            return;
        if (clock_mono_us() > until)
            fail_msg("not folded: %s", m->last.text);
    }
}

static void moves_lane(void)
{
    struct error e = {""};
    struct lane lane;
    must(log_view_lane_at(at.view, &at.names, &at.nodes, 0, &lane, &e), e);
    unsigned slot = slots_of_key(lane.key.text, lane.key.length),
             from = temp_cluster_owner(&at.cluster, 0, slot);
    must(temp_cluster_move(&at.cluster, slot, 1, from, (from + 1) % MASTERS, 0, &e), e);
}

/* The writer is registered still. It answers the roll call that another one needs, which only checks. */
static void test_a_writer_that_nobody_asks__answers_the_roll_call_of_a_lane_that_moved(void **state)
{
    static struct log_member writer, reader;
    struct error e = {""};
    uint8_t answer[KEYS];
    enum err code;
    (void)state;
    log_members_open(&writer, &at.nodes, &at.names, UINT64_MAX, true);
    log_members_open(&reader, &at.other_nodes, &at.names, UINT64_MAX, false);
    must(log_view_load(at.link, &at.names, at.view, &e), e);
    first = at.view->slot[1].folded[0].position.id;
    assert_true(log_member_added(&writer, 0, KEYS) > 0);
    assert_int_equal(log_member_count(&reader, 0, KEYS, KEY_PRESENT), KEYS);
    is_folded(&writer);
    assert_int_equal(at.view->writer_count, 1);
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
