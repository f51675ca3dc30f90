/* SPDX-License-Identifier: MIT */
/* A filter of two lanes, each on a node of its own. One of the nodes is away, and the connections to the
 * other one are made again: keys of that one's lane are added all the same. */
#include "tests/integration/log_members.h"
#include "tests/integration/two_nodes.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "shard/view/view_load.h"
#include "tests/lib/temp_redis.h"

enum {
    HOME,
    AWAY,
    SERVERS,
    REPLY_MS = 2000,
    SHORT_MS = 500,
    KEYS = 100,
    LOOKS = 30,
    IDLE_US = 2500 * 1000, /* two looks, which read nothing any more */
    GUARD_US = 20 * 1000 * 1000
};

static struct temp_redis server[SERVERS];
static struct client home;
static struct nodes nodes;
static struct sync_client *l;
static struct names names;
static struct log_view *view;

static const struct two_nodes two = {&server[HOME], &server[AWAY], &home, &nodes, &names, &l, &view};

static int make(uint64_t capacity)
{
    struct error e = {""};
    two_nodes_start(&two, NULL);
    must(names_init(&names, "tb", "f", 1, &e), e);
    must(log_member_make(l, &names, capacity, 2, 1024, &e), e);
    must(log_view_load(l, &names, view, &e), e);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return make(100 * KEYS);
}

/* The only shard lies on the metadata node, which is the only node for shards. */
static int set_up_small(void **state)
{
    char other[32], *at;
    (void)state;
    (void)make(KEYS);
    redisReply *r = client_command(&home, "HGET tb:{f}:view generation1");
    (void)snprintf(other, sizeof(other), ",127.0.0.1:%u", server[AWAY].port);
    assert_non_null(at = strstr(r->str, other));
    memmove(at, at + strlen(other), strlen(at + strlen(other)) + 1);
    freeReplyObject(client_command(&home, "HSET tb:{f}:view generation1 %s", r->str));
    freeReplyObject(r);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    two_nodes_stop(&two);
    return 0;
}

static void test_a_node_that_is_away__holds_up_no_lane_of_another(void **state)
{
    struct error e = {""};
    static struct log_member m;
    int64_t killed;
    uint8_t answer;
    uint64_t key = log_members_key_of(view, HOME, KEYS), until;
    const struct log_member_options o = {
        .nodes = &nodes, .names = &names, .memory = UINT64_MAX, .timeout_ms = REPLY_MS};
    (void)state;
    must(log_member_open(&m, &o, &e), e);
    assert_int_equal(log_member_added(&m, 0, KEYS), KEYS); /* keys of both lanes, which nobody folds */
    log_members_await_loaded(&m);
    temp_redis_kill(&server[AWAY]);
    must(log_member_add(&m, key, 1, &answer, &e), e);
    must(client_integer(&home, &killed, &e, "CLIENT KILL TYPE normal SKIPME yes"), e);
    assert_true(killed > 0);
    key = log_members_key_of(view, HOME, key + 1);
    until = clock_mono_us() + GUARD_US;
    while (log_member_add(&m, key, 1, &answer, &e) != ERR_OK)
        if (clock_mono_us() > until)
            fail_msg("%s", e.text);
    must(temp_redis_restart(&server[AWAY], true, &e), e);
    log_member_abandon(&m);
}

/* One lane's node is started again, and its roll call waits for the writer @gone, which is gone. Returns a
 * key of the other lane that was not added. */
static uint64_t waits_for_a_roll_call(struct log_member *m, struct log_member *gone)
{
    struct error e = {""};
    struct client away;
    const struct log_member_options o = {.nodes = &nodes,
                                         .names = &names,
                                         .memory = UINT64_MAX,
                                         .timeout_ms = REPLY_MS,
                                         .writer_grace_us = 3600 * 1000000ull};
    must(log_member_open(m, &o, &e), e);
    must(log_member_open(gone, &o, &e), e);
    assert_int_equal(log_member_added(m, 0, KEYS), KEYS);
    assert_int_equal(log_member_added(gone, 0, KEYS), 0);
    log_members_await_loaded(m);
    log_member_abandon(gone);
    must(client_open(&away, server[AWAY].port, REPLY_MS, &e), e);
    must(client_save(&away, &e), e);
    client_close(&away);
    temp_redis_kill(&server[AWAY]);
    must(temp_redis_restart(&server[AWAY], true, &e), e);
    uint64_t until = clock_mono_us() + GUARD_US;
    while (strstr(log_members_failing(m), "have not answered") == NULL)
        assert_true(clock_mono_us() < until);
    return log_members_key_of(view, HOME, KEYS);
}

/* The metadata node gets another id with nothing lost, so that its lane goes on at once. Redis 6 does not say
 * that it has received nothing, so that lane waits, too. */
static void adds_in_another_era(struct log_member *m)
{
    struct error e = {""};
    struct temp_redis replica;
    char port[8];
    uint8_t answer;
    uint64_t key = KEYS, until = clock_mono_us() + GUARD_US;
    if (temp_redis_is_before_7())
        return;
    (void)snprintf(port, sizeof(port), "%u", server[HOME].port);
    const char *const extra[] = {"--replicaof", "127.0.0.1", port, NULL};
    must(client_ok(&home, &e, "CONFIG SET repl-diskless-sync-delay 0"), e);
    must(temp_redis_start(&replica, extra, &e), e);
    for (unsigned i = 0; i < 3; i++) {
        key = log_members_key_of(view, HOME, key + 1);
        while (log_member_add(m, key, 1, &answer, &e) != ERR_OK)
            if (clock_mono_us() > until)
                fail_msg("%s", e.text);
        clock_sleep_us(500 * 1000);
    }
    temp_redis_fini(&replica);
}

static void test_a_roll_call_that_waits__holds_up_no_lane_of_another_node(void **state)
{
    static struct log_member m, gone;
    (void)state;
    (void)waits_for_a_roll_call(&m, &gone);
    adds_in_another_era(&m);
    log_member_abandon(&m);
}

/* Nor does memory have to be loaded again. */
static void test_a_lane_that_cannot_be_replaced__holds_up_no_lane_of_another_node(void **state)
{
    struct error e = {""};
    static struct log_member m;
    struct client away;
    struct key_name lane;
    uint8_t answer;
    uint64_t key = KEYS, until = clock_mono_us() + GUARD_US;
    const struct log_member_options o = {
        .nodes = &nodes, .names = &names, .memory = UINT64_MAX, .timeout_ms = SHORT_MS};
    (void)state;
    must(log_member_open(&m, &o, &e), e);
    assert_int_equal(log_member_added(&m, 0, KEYS), KEYS);
    log_members_await_loaded(&m);
    lane_key(&lane, &names, AWAY, view->lane[AWAY].number);
    must(client_open(&away, server[AWAY].port, REPLY_MS, &e), e);
    freeReplyObject(client_command(&away, "DEL %b", lane.text, lane.length));
    must(client_ok(&away, &e, "CONFIG SET min-replicas-to-write 1"), e);
    while (strstr(log_members_failing(&m), "NOREPLICAS") == NULL) {
        assert_true(clock_mono_us() < until);
        assert_int_not_equal(log_member_check(&m, log_members_key_of(view, AWAY, KEYS), 1, &answer, &e),
                             ERR_OK);
    }
    for (unsigned i = 0; i < LOOKS; i++) {
        key = log_members_key_of(view, HOME, key + 1);
        assert_int_equal(log_member_count(&m, key, 1, KEY_ABSENT), 1);
        assert_string_not_equal(log_members_failing(&m), "");
        assert_true(log_members_is_loaded(&m));
    }
    adds_in_another_era(&m);
    must(client_ok(&away, &e, "CONFIG SET min-replicas-to-write 0"), e);
    client_close(&away);
    assert_int_equal(log_member_count(&m, 0, KEYS, KEY_ABSENT), 0);
    log_member_abandon(&m);
}

/* Its node gets another id. A writer of whom nothing is asked answers the roll call all the same, so that
 * others go on. */
static void test_a_lane_whose_node_has_no_shards__waits_for_no_idle_writer(void **state)
{
    struct error e = {""};
    static struct log_member idle, checker;
    struct client away;
    uint8_t answer;
    const struct log_member_options o = {
        .nodes = &nodes, .names = &names, .memory = UINT64_MAX, .timeout_ms = REPLY_MS};
    uint64_t key = log_members_key_of(view, AWAY, 2 * KEYS), until = clock_mono_us() + GUARD_US;
    (void)state;
    assert_int_equal(view->slot[view->current].shape.layers[0].geometry.shards, 1);
    must(log_member_open(&idle, &o, &e), e);
    must(log_member_open(&checker, &o, &e), e);
    assert_int_equal(log_member_added(&idle, 0, KEYS / 2), KEYS / 2);
    log_members_await_loaded(&idle);
    log_members_await_loaded(&checker);
    must(client_open(&away, server[AWAY].port, REPLY_MS, &e), e);
    clock_sleep_us(IDLE_US);
    /* Twice, so that the id does not tell of the one that they know. */
    must(client_ok(&away, &e, "DEBUG CHANGE-REPL-ID"), e);
    must(client_save(&away, &e), e);
    client_close(&away);
    temp_redis_kill(&server[AWAY]);
    must(temp_redis_restart(&server[AWAY], true, &e), e);
    while (log_member_check(&checker, key, 1, &answer, &e) != ERR_OK)
        if (clock_mono_us() > until)
            fail_msg("%s", e.text);
    assert_int_equal(answer, KEY_ABSENT);
    assert_int_equal(log_member_count(&checker, 0, KEYS / 2, KEY_PRESENT), KEYS / 2);
    log_member_abandon(&checker);
    log_member_abandon(&idle);
}

/* As above, and the node whose lane waits goes away, where the connections to the other one are made again.
 */
static void test_a_node_that_goes_away_in_another_era__holds_up_no_lane_of_another(void **state)
{
    struct error e = {""};
    static struct log_member m, gone;
    int64_t killed;
    uint8_t answer;
    (void)state;
    uint64_t key = waits_for_a_roll_call(&m, &gone);
    temp_redis_kill(&server[AWAY]);
    must(client_integer(&home, &killed, &e, "CLIENT KILL TYPE normal SKIPME yes"), e);
    assert_true(killed > 0);
    uint64_t until = clock_mono_us() + GUARD_US;
    while (log_member_add(&m, key, 1, &answer, &e) != ERR_OK)
        if (clock_mono_us() > until)
            fail_msg("%s", e.text);
    must(temp_redis_restart(&server[AWAY], true, &e), e);
    log_member_abandon(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_roll_call_that_waits__holds_up_no_lane_of_another_node, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_lane_that_cannot_be_replaced__holds_up_no_lane_of_another_node,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_node_that_goes_away_in_another_era__holds_up_no_lane_of_another, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_node_that_is_away__holds_up_no_lane_of_another, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_lane_whose_node_has_no_shards__waits_for_no_idle_writer,
                                        set_up_small, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
