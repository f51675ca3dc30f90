/* SPDX-License-Identifier: MIT */
/* A filter of two lanes, each on a node of its own. One of the nodes is away, and the connections to the
 * other one are made again: keys of that one's lane are added all the same. */
#include "tests/integration/log_members.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/filter/hash.h"
#include "shard/view/view_load.h"
#include "tests/lib/temp_redis.h"

enum { HOME, AWAY, SERVERS, REPLY_MS = 2000, KEYS = 100, GUARD_US = 20 * 1000 * 1000 };

static struct temp_redis server[SERVERS];
static struct client home;
static struct nodes nodes;
static struct sync_client *l;
static struct names names;
static struct log_view *view;

static int set_up(void **state)
{
    struct error e = {""};
    char list[200];
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    for (unsigned i = 0; i < SERVERS; i++)
        must(temp_redis_start(&server[i], NULL, &e), e);
    must(client_open(&home, server[HOME].port, REPLY_MS, &e), e);
    (void)snprintf(list, sizeof(list), "%s, %s", server[HOME].url, server[AWAY].url);
    must(nodes_parse(&nodes, list, &e), e);
    l = sync_client_new(&nodes, REPLY_MS, NULL);
    view = calloc(1, sizeof(*view));
    must(names_init(&names, "tb", "f", 1, &e), e);
    must(log_member_make(l, &names, 100 * KEYS, 2, 1024, &e), e);
    must(log_view_load(l, &names, view, &e), e);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sync_client_free(l);
    free(view);
    client_close(&home);
    for (unsigned i = 0; i < SERVERS; i++)
        temp_redis_fini(&server[i]);
    return 0;
}

/* The first number from @from on whose key is in the lane of the metadata node. */
static uint64_t key_of_home(uint64_t from)
{
    char text[24];
    int n;
    do
        n = snprintf(text, sizeof(text), "%llu", (unsigned long long)from++);
    while (log_lane_of(hash_key(view->seed, text, (size_t)n), 2) != HOME);
    return from - 1;
}

static void await_loaded(struct log_member *m)
{
    struct log_status *s = calloc(1, sizeof(*s));
    uint64_t until = clock_mono_us() + GUARD_US;
    const struct resident_status *memory;
    do {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(10 * 1000);
        control_status(m->control, s);
        memory = s->generation[0].answers ? &s->generation[0].memory : &s->generation[1].memory;
    } while (memory->shards == 0 || memory->resident != memory->shards);
    free(s);
}

/* The last error of the control. */
static const char *failing(struct log_member *m)
{
    static char text[sizeof(m->last.text)];
    clock_sleep_us(10 * 1000);
    (void)pthread_mutex_lock(&m->lock);
    (void)snprintf(text, sizeof(text), "%s", m->failing == ERR_OK ? "" : m->last.text);
    (void)pthread_mutex_unlock(&m->lock);
    return text;
}

static void test_a_node_that_is_away__holds_up_no_lane_of_another(void **state)
{
    struct error e = {""};
    static struct log_member m;
    int64_t killed;
    uint8_t answer;
    uint64_t key = key_of_home(KEYS), until;
    const struct log_member_options o = {
        .nodes = &nodes, .names = &names, .memory = UINT64_MAX, .timeout_ms = REPLY_MS};
    (void)state;
    must(log_member_open(&m, &o, &e), e);
    assert_int_equal(log_member_added(&m, 0, KEYS), KEYS); /* keys of both lanes, which nobody folds */
    await_loaded(&m);
    temp_redis_kill(&server[AWAY]);
    must(log_member_add(&m, key, 1, &answer, &e), e);
    must(client_integer(&home, &killed, &e, "CLIENT KILL TYPE normal SKIPME yes"), e);
    assert_true(killed > 0);
    key = key_of_home(key + 1);
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
    await_loaded(m);
    log_member_abandon(gone);
    must(client_open(&away, server[AWAY].port, REPLY_MS, &e), e);
    must(client_save(&away, &e), e);
    client_close(&away);
    temp_redis_kill(&server[AWAY]);
    must(temp_redis_restart(&server[AWAY], true, &e), e);
    uint64_t until = clock_mono_us() + GUARD_US;
    while (strstr(failing(m), "have not answered") == NULL)
        assert_true(clock_mono_us() < until);
    return key_of_home(KEYS);
}

/* The other lane's node gets another id with nothing lost, so that its lane goes on at once. Redis 6 does not
 * say that it has received nothing, and the lane waits for the writer that is gone. */
static void test_a_roll_call_that_waits__holds_up_no_lane_of_another_node(void **state)
{
    struct error e = {""};
    static struct log_member m, gone;
    struct temp_redis replica;
    char port[8];
    uint8_t answer;
    (void)state;
    if (temp_redis_is_before_7())
        skip();
    uint64_t key = waits_for_a_roll_call(&m, &gone), until = clock_mono_us() + GUARD_US;
    (void)snprintf(port, sizeof(port), "%u", server[HOME].port);
    const char *const extra[] = {"--replicaof", "127.0.0.1", port, NULL};
    must(client_ok(&home, &e, "CONFIG SET repl-diskless-sync-delay 0"), e);
    must(temp_redis_start(&replica, extra, &e), e);
    for (unsigned i = 0; i < 3; i++) {
        while (log_member_add(&m, key, 1, &answer, &e) != ERR_OK)
            if (clock_mono_us() > until)
                fail_msg("%s", e.text);
        key = key_of_home(key + 1);
        clock_sleep_us(500 * 1000);
    }
    temp_redis_fini(&replica);
    log_member_abandon(&m);
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
        cmocka_unit_test_setup_teardown(
            test_a_node_that_goes_away_in_another_era__holds_up_no_lane_of_another, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_node_that_is_away__holds_up_no_lane_of_another, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
