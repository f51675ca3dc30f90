/* SPDX-License-Identifier: MIT */
/* For a while the address of a node leads to another server, that of another node or one of its own, and then
 * to its server again, which has its data and its replication id of before. */
#include "tests/integration/log_members.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/generations/build.h"
#include "shard/members/eras.h"
#include "shard/view/view_load.h"
#include "tests/lib/proxy.h"
#include "tests/lib/temp_redis.h"

enum {
    SERVERS = 3,
    HOME = 0,
    ONE = 1,
    TWO = 2,
    REPLY_MS = 5000,
    KEYS = 1000,
    WAIT_US = 4 * 1000 * 1000,
    BREAKS_US = 50 * 1000
};

static struct temp_redis server[SERVERS];
static struct client home;
static struct proxy *proxy;
static unsigned route[SERVERS];
static struct nodes nodes;
static struct sync_client *l;
static struct names names;
static struct log_view *view;
static uint8_t answers[KEYS];

/* All nodes but the first one are behind the proxy. */
static int set_up_with(unsigned lanes, uint32_t shard_bytes)
{
    struct error e = {""};
    char list[256];
    int n = 0;
    (void)signal(SIGPIPE, SIG_IGN);
    must(proxy_start(&proxy, &e), e);
    for (unsigned i = 0; i < SERVERS; i++) {
        uint16_t port;
        must(temp_redis_start(&server[i], NULL, &e), e);
        port = server[i].port;
        if (i != HOME)
            must(proxy_add(proxy, WIRE_REDIS, server[i].port, &route[i], &port, &e), e);
        n += snprintf(list + n, sizeof(list) - (size_t)n, "%sredis://127.0.0.1:%u", i == 0 ? "" : ",", port);
    }
    must(client_open(&home, server[HOME].port, REPLY_MS, &e), e);
    must(nodes_parse(&nodes, list, &e), e);
    l = sync_client_new(&nodes, REPLY_MS, NULL);
    view = calloc(1, sizeof(*view));
    assert_non_null(view);
    must(names_init(&names, "tb", "f", 1, &e), e);
    must(log_member_make(l, &names, 4 * KEYS, lanes, shard_bytes, &e), e);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return set_up_with(1, 1024);
}

/* The second lane lies on the second node. */
static int set_up_two_lanes(void **state)
{
    (void)state;
    return set_up_with(2, 1024);
}

/* And the first node has all keys in its one shard. */
static int set_up_two_lanes_of_one_shard(void **state)
{
    (void)state;
    return set_up_with(2, 64 * KEYS);
}

static int tear_down(void **state)
{
    (void)state;
    sync_client_free(l);
    free(view);
    client_close(&home);
    for (unsigned i = 0; i < SERVERS; i++)
        temp_redis_fini(&server[i]);
    proxy_stop(proxy);
    return 0;
}

static void aim(unsigned node, unsigned at)
{
    proxy_aim(proxy, route[node], server[at].port);
}

/* Wait until the shards have all entries that there are now, or for some seconds. */
static bool await_folded(void)
{
    struct error e = {""};
    struct key_name lane;
    struct log_id end;
    uint64_t until = clock_mono_us() + WAIT_US;
    bool folded = false;
    lane_key(&lane, &names, 0, 1);
    redisReply *r = client_command(&home, "XREVRANGE %b + - COUNT 1", lane.text, lane.length);
    assert_true(log_id_parse(&end, r->element[0]->element[0]->str, r->element[0]->element[0]->len));
    freeReplyObject(r);
    while (!folded && clock_mono_us() < until) {
        clock_sleep_us(20 * 1000);
        must(log_view_load(l, &names, view, &e), e);
        folded = log_id_compare(view->slot[view->current].folded[0].position.id, end) >= 0;
    }
    return folded;
}

static void adds(struct log_member *m, uint64_t first)
{
    struct error e = {""};
    uint64_t until = clock_mono_us() + 10 * WAIT_US;
    while (log_member_add(m, first, KEYS, answers, &e) != ERR_OK)
        if (clock_mono_us() > until)
            fail_msg("%s", e.text);
}

static void open_one(struct log_member *m)
{
    struct error e = {""};
    const struct log_member_options o = {.nodes = &nodes,
                                         .names = &names,
                                         .memory = UINT64_MAX,
                                         .timeout_ms = REPLY_MS,
                                         .retain_us = 60 * 1000 * 1000,
                                         .writer_grace_us = 500 * 1000,
                                         .folds = true};
    must(log_member_open(m, &o, &e), e);
}

/* Who opens later misses nothing that was added while the nodes of @was led to those of @is. */
static void loses_nothing(unsigned count, const unsigned *was, const unsigned *is)
{
    struct log_member first, later;
    open_one(&first);
    adds(&first, 0);
    assert_true(await_folded());
    for (unsigned i = 0; i < count; i++)
        aim(was[i], is[i]);
    adds(&first, KEYS);
    print_message("folded meanwhile: %d\n", await_folded());
    for (unsigned i = 0; i < count; i++)
        aim(was[i], was[i]);
    log_member_abandon(&first);
    open_one(&later);
    unsigned absent = log_member_count(&later, 0, KEYS, KEY_ABSENT);
    absent += log_member_count(&later, KEYS, KEYS, KEY_ABSENT);
    log_member_close(&later);
    assert_int_equal(absent, 0);
}

static void test_an_address__that_leads_to_another_node_has_no_key_lost(void **state)
{
    (void)state;
    loses_nothing(1, (const unsigned[]){ONE}, (const unsigned[]){TWO});
}

static void test_addresses__that_are_exchanged_have_no_key_lost(void **state)
{
    (void)state;
    loses_nothing(2, (const unsigned[]){ONE, TWO}, (const unsigned[]){TWO, ONE});
}

/* What a writer folds there, while the view waits for another one, is not in the server of before. */
static void test_an_address__that_leads_to_a_new_server_while_a_writer_sleeps_has_no_key_lost(void **state)
{
    struct temp_redis spare;
    struct error e = {""};
    struct log_member first, second, later;
    unsigned absent = 0;
    (void)state;
    must(temp_redis_start(&spare, NULL, &e), e);
    open_one(&first);
    open_one(&second);
    log_set_folding(second.control, false);
    adds(&first, 0);
    adds(&second, KEYS);
    assert_true(await_folded());
    log_member_pause(&second);
    proxy_aim(proxy, route[ONE], spare.port);
    adds(&first, 2 * KEYS);
    assert_true(await_folded());
    aim(ONE, ONE);
    log_member_go_on(&second);
    open_one(&later);
    for (unsigned i = 0; i < 3; i++)
        absent += log_member_count(&later, i * KEYS, KEYS, KEY_ABSENT);
    log_member_close(&later);
    log_member_abandon(&first);
    log_member_abandon(&second);
    temp_redis_fini(&spare);
    assert_int_equal(absent, 0);
}

static enum err look(struct eras *watch, struct error *e)
{
    enum eras_action action;
    must(log_view_load(l, &names, view, e), *e);
    enum err code = eras_look(watch, l, &names, view, &action, e);
    if (code == ERR_OK)
        assert_int_equal(action, ERAS_KEEP);
    else
        assert_int_equal(code, ERR_UNREACHABLE);
    return code;
}

/* A look during which connections break finds nothing out. */
static bool leads_elsewhere(struct eras *watch)
{
    struct error e = {""};
    uint64_t until = clock_mono_us() + WAIT_US;
    enum err code = look(watch, &e);
    while (code != ERR_OK && strstr(e.text, "leads elsewhere") == NULL && clock_mono_us() < until)
        code = look(watch, &e);
    if (code != ERR_OK && strstr(e.text, "leads elsewhere") == NULL)
        fail_msg("%s", e.text);
    return code != ERR_OK;
}

/* The server is that of the earlier node then, and the later one is not among the nodes. */
static void test_an_address__that_leads_to_an_earlier_node_is_met(void **state)
{
    struct eras watch = {.now = NULL};
    (void)state;
    assert_false(leads_elsewhere(&watch));
    aim(TWO, ONE);
    assert_true(leads_elsewhere(&watch));
    aim(TWO, TWO);
    assert_false(leads_elsewhere(&watch));
    eras_fini(&watch);
}

/* A process that starts meanwhile does not take that server for the one of the earlier node. */
static void test_a_first_look__at_an_address_that_leads_to_another_node_is_not_remembered(void **state)
{
    struct eras watch = {.now = NULL};
    (void)state;
    aim(ONE, TWO);
    assert_false(leads_elsewhere(&watch));
    aim(ONE, ONE);
    assert_false(leads_elsewhere(&watch));
    eras_fini(&watch);
}

static void exchange(bool is)
{
    aim(ONE, is ? TWO : ONE);
    aim(TWO, is ? ONE : TWO);
}

/* All shards and lanes are where they are looked for then, so what was seen before tells nothing. */
static void test_a_first_look__at_addresses_that_are_exchanged_is_believed_no_more(void **state)
{
    struct eras watch = {.now = NULL};
    (void)state;
    exchange(true);
    assert_false(leads_elsewhere(&watch));
    exchange(false);
    assert_false(leads_elsewhere(&watch));
    exchange(true);
    assert_true(leads_elsewhere(&watch));
    eras_fini(&watch);
}

static void *lead_one_back(void *held)
{
    *(bool *)held = proxy_await_held(proxy, WAIT_US / 1000);
    aim(ONE, ONE);
    clock_sleep_us(BREAKS_US);
    proxy_release(proxy, true);
    return NULL;
}

/* One of them leads back when its server has told its id, and before the other node is asked. The second lane
 * is there then, which the server that told its id does not have. */
static void test_a_look__asks_who_has_told_its_id_what_is_there(void **state)
{
    struct eras watch = {.now = NULL};
    struct error e = {""};
    pthread_t thread;
    bool held = false;
    (void)state;
    assert_false(leads_elsewhere(&watch));
    exchange(true);
    assert_true(leads_elsewhere(&watch));
    proxy_count_as_job(proxy, "*");
    proxy_count_only(proxy, "ALL"); /* a node that has another id than before is asked for all */
    proxy_count(proxy, "", 2, PROXY_BEFORE);
    assert_int_equal(pthread_create(&thread, NULL, lead_one_back, &held), 0);
    enum err code = look(&watch, &e);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(held);
    assert_int_equal(code, ERR_UNREACHABLE);
    assert_non_null(strstr(e.text, "leads elsewhere"));
    aim(TWO, TWO);
    assert_false(leads_elsewhere(&watch));
    eras_fini(&watch);
}

/* Wait until a process has missed a shard. */
static void await_lost(void)
{
    struct error e = {""};
    uint64_t until = clock_mono_us() + WAIT_US;
    do {
        clock_sleep_us(20 * 1000);
        must(log_view_load(l, &names, view, &e), e);
    } while (view->slot[view->current].lost.generation == 0 && clock_mono_us() < until);
    assert_int_not_equal(view->slot[view->current].lost.generation, 0);
}

/* It begins to add and to fold once they lead back. */
static void test_a_process__that_starts_while_addresses_are_exchanged_goes_on(void **state)
{
    struct log_member first, meanwhile;
    unsigned absent = 0;
    (void)state;
    open_one(&first);
    adds(&first, 0);
    assert_true(await_folded());
    log_member_close(&first);
    exchange(true);
    open_one(&meanwhile);
    await_lost();
    exchange(false);
    adds(&meanwhile, KEYS);
    assert_true(await_folded());
    log_members_await_loaded(&meanwhile);
    for (unsigned i = 0; i < 2; i++)
        absent += log_member_count(&meanwhile, i * KEYS, KEYS, KEY_ABSENT);
    log_member_close(&meanwhile);
    assert_int_equal(absent, 0);
}

static void break_both(void)
{
    proxy_set(proxy, route[ONE], &(struct proxy_fault){.resets = 1});
    proxy_set(proxy, route[TWO], &(struct proxy_fault){.resets = 1});
}

/* Which servers they were is not forgotten where a look finds nodes away for a moment, and a second answer
 * does not tell which ones they are. */
static void test_an_address__that_leads_elsewhere_behind_broken_connections_is_met(void **state)
{
    struct error e = {""};
    struct eras watch = {0};
    (void)state;
    assert_false(leads_elsewhere(&watch));
    break_both();
    assert_int_equal(look(&watch, &e), ERR_UNREACHABLE);
    aim(ONE, TWO);
    assert_true(leads_elsewhere(&watch));
    exchange(true);
    assert_true(leads_elsewhere(&watch));
    break_both();
    assert_int_equal(look(&watch, &e), ERR_UNREACHABLE);
    exchange(false);
    assert_false(leads_elsewhere(&watch));
    eras_fini(&watch);
}

/* What it made there would be met if the address led there once more: the shards that are made again, where
 * the address leads right, go on without it. */
static void test_a_build__does_not_begin_where_two_addresses_lead_to_one_node(void **state)
{
    struct error e = {""};
    struct builder *builder;
    (void)state;
    must(log_view_load(l, &names, view, &e), e);
    struct generation shape = view->slot[view->current].shape;
    must(builder_new(&builder, l, &names, &e), e);
    must(builder_begin(builder, &shape, "", &e), e);
    aim(ONE, TWO);
    gives(ERR_LOST, builder_start(builder, &e), e);
    assert_non_null(strstr(e.text, "two nodes of the shards lead to one server"));
    aim(ONE, ONE);
    must(builder_start(builder, &e), e);
    builder_free(builder);
}

/* It would stay open there. */
static void test_a_lane__whose_address_leads_to_another_node_is_not_replaced(void **state)
{
    struct log_member m;
    struct error e = {""};
    uint64_t until = clock_mono_us() + WAIT_US;
    (void)state;
    open_one(&m);
    adds(&m, 0);
    aim(ONE, TWO);
    enum err code = ERR_TIMEOUT;
    while (code != ERR_OK && clock_mono_us() < until)
        code = log_member_add(&m, KEYS, KEYS, answers, &e);
    assert_int_not_equal(code, ERR_OK);
    must(log_view_load(l, &names, view, &e), e);
    assert_int_equal(view->lane[1].number, 1);
    aim(ONE, ONE);
    adds(&m, KEYS);
    must(log_view_load(l, &names, view, &e), e);
    assert_int_equal(view->lane[1].number, 1);
    assert_int_equal(log_member_count(&m, 0, KEYS, KEY_ABSENT) + log_member_count(&m, KEYS, KEYS, KEY_ABSENT),
                     0);
    log_member_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_an_address__that_leads_elsewhere_behind_broken_connections_is_met, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_first_look__at_an_address_that_leads_to_another_node_is_not_remembered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_first_look__at_addresses_that_are_exchanged_is_believed_no_more, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_look__asks_who_has_told_its_id_what_is_there,
                                        set_up_two_lanes_of_one_shard, tear_down),
        cmocka_unit_test_setup_teardown(test_a_process__that_starts_while_addresses_are_exchanged_goes_on,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_address__that_leads_to_an_earlier_node_is_met, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_an_address__that_leads_to_another_node_has_no_key_lost, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_addresses__that_are_exchanged_have_no_key_lost, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            test_an_address__that_leads_to_a_new_server_while_a_writer_sleeps_has_no_key_lost, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(test_a_build__does_not_begin_where_two_addresses_lead_to_one_node,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_lane__whose_address_leads_to_another_node_is_not_replaced,
                                        set_up_two_lanes, tear_down),
        cmocka_unit_test_setup_teardown(test_a_lane__whose_address_leads_to_another_node_is_not_replaced,
                                        set_up_two_lanes_of_one_shard, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
