/* SPDX-License-Identifier: MIT */
/* A replica that lacks writes takes its master's place by CLUSTER FAILOVER TAKEOVER, and the former master
 * does not hear of it for a while: it still answers as a master of its slots, whoever asks it. */
#include "tests/integration/log_cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/view/shards.h"
#include "shard/view/view_load.h"

enum {
    MASTERS = 3,
    FORMER = 0,
    HEIR = FORMER + MASTERS,
    CAPACITY = 1000,
    SHARD_BYTES = 32768, /* the layer has one shard */
    KEYS = 300,
    BOTH_US = 3 * 1000 * 1000,
    WAIT_US = 20 * 1000 * 1000,
    LOOK_US = 20 * 1000
};

static struct lane lane;

/* Take a name whose shard is on the master that is left, and whose view and lane are not. */
static void name_filter(void)
{
    struct error e = {""};
    struct key_name home, shard;
    do {
        static unsigned n;
        char name[16];
        int length = snprintf(name, sizeof(name), "f%u", n++);
        must(names_init(&at.names, "tb", name, (size_t)length, &e), e);
        names_filter_key(&at.names, "view", &home);
        lane_key(&lane.key, &at.names, 0, 1);
        names_log_shard(&at.names, (struct shard_id){.generation = 1}, &shard);
    } while (log_cluster_owner(&home) == FORMER || log_cluster_owner(&lane.key) == FORMER ||
             log_cluster_owner(&shard) != FORMER);
    must(log_member_make(at.link, &at.names, CAPACITY, 1, SHARD_BYTES, &e), e);
}

static int set_up(void **state)
{
    (void)state;
    log_cluster_start(MASTERS, MASTERS, true);
    name_filter();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    log_cluster_stop();
    return 0;
}

static void load(void)
{
    struct error e = {""};
    must(log_view_load(at.link, &at.names, at.view, &e), e);
}

static uint64_t id_of(unsigned node)
{
    return lanes_era(&at.cluster.client[node]);
}

/* Wait until the shard has all that was added. */
static void is_folded(const struct log_member *m)
{
    struct error e = {""};
    char last[LOG_ID_TEXT_MAX] = "";
    for (uint64_t until = clock_mono_us() + WAIT_US;; clock_sleep_us(LOOK_US)) {
        struct log_id id;
        load();
        must(log_view_lane_at(at.view, &at.names, &at.nodes, 0, &lane, &e), e);
        redisReply *r = client_command(&at.cluster.client[log_cluster_owner(&lane.key)],
                                       "XREVRANGE %b + - COUNT 1", lane.key.text, lane.key.length);
        assert_int_equal(r->elements, 1);
        (void)snprintf(last, sizeof(last), "%s", r->element[0]->element[0]->str);
        freeReplyObject(r);
        assert_true(log_id_parse(&id, last, strlen(last)));
        if (log_id_compare(at.view->slot[1].folded[0].position.id, id) == 0)
            return;
        if (clock_mono_us() > until)
            fail_msg("not folded: %s", m->last.text);
    }
}

/* From version 7.2 on nodes tell each other whom they forget, so that none of them alone takes no notice. */
static bool forgets_alone(void)
{
    static const char field[] = "redis_version:";
    char *minor = NULL;
    redisReply *r = client_command(&at.cluster.client[FORMER], "INFO server");
    const char *version = strstr(r->str, field);
    assert_non_null(version);
    unsigned long major = strtoul(version + strlen(field), &minor, 10);
    bool alone = major < 7 || (major == 7 && strtoul(minor + 1, NULL, 10) < 2);
    freeReplyObject(r);
    return alone;
}

/* The former master forgets its replica: so it takes no notice of what that says, nor of what others say of
 * it. */
static void is_left(void)
{
    struct error e = {""};
    must(client_ok(&at.cluster.client[FORMER], &e, "CLUSTER FORGET %s", at.cluster.id[HEIR]), e);
    must(client_ok(&at.cluster.client[HEIR], &e, "CLUSTER FAILOVER TAKEOVER"), e);
    for (uint64_t until = clock_mono_us() + WAIT_US;
         temp_cluster_owner(&at.cluster, 1, 0) != HEIR || temp_cluster_owner(&at.cluster, 2, 0) != HEIR;
         clock_sleep_us(LOOK_US))
        assert_true(clock_mono_us() < until);
    assert_int_equal(temp_cluster_owner(&at.cluster, FORMER, 0), FORMER);
}

static void hears_of_it(void)
{
    struct error e = {""};
    must(client_ok(&at.cluster.client[FORMER], &e, "CLUSTER MEET 127.0.0.1 %u %s", at.cluster.node[HEIR].port,
                   at.cluster.bus[HEIR]),
         e);
    must(temp_cluster_agree(&at.cluster, WAIT_US / 1000, &e), e);
    assert_int_equal(temp_cluster_owner(&at.cluster, FORMER, 0), HEIR);
}

static bool accepts_heir(void)
{
    load();
    return trusted_contains(&at.view->eras, id_of(HEIR));
}

/* By the client's map of slots, or its list of masters. */
static bool is_at(unsigned where, unsigned node)
{
    char port[8];
    (void)snprintf(port, sizeof(port), ":%u", at.cluster.node[node].port);
    return strstr(sync_client_name(at.link, where), port) != NULL;
}

static bool names_former(void)
{
    struct error e = {""};
    unsigned masters;
    bool named = false;
    must(sync_client_masters(at.link, &masters, &e), e);
    for (unsigned i = 0; i < masters; i++)
        named |= is_at(sync_client_master(at.link, i), FORMER);
    return named;
}

/* Keys that were added long before, and folded, are lost by the replica; the writer has them in memory. */
static void test_what_a_writer_writes_to_the_former_master__does_not_count(void **state)
{
    struct error e = {""};
    static struct log_member m;
    (void)state;
    if (!forgets_alone())
        skip();
    log_members_open(&m, &at.nodes, &at.names, UINT64_MAX, true);
    assert_int_equal(log_member_added(&m, 0, 1), 1);
    is_folded(&m);
    must(temp_cluster_cut_off(&at.cluster, FORMER, WAIT_US / 1000, &e), e);
    assert_true(log_member_added(&m, 1, KEYS) > KEYS / 2);
    is_folded(&m);
    is_left();
    for (uint64_t until = clock_mono_us() + BOTH_US; !accepts_heir() && clock_mono_us() < until;)
        clock_sleep_us(LOOK_US);
    hears_of_it();
    for (uint64_t until = clock_mono_us() + WAIT_US; !accepts_heir(); clock_sleep_us(LOOK_US))
        if (clock_mono_us() > until)
            fail_msg("the view does not accept the heir: %s", m.last.text);
    assert_false(at.view->degraded);
    log_member_close(&m);
    log_members_open(&m, &at.other_nodes, &at.names, UINT64_MAX, true);
    assert_int_equal(log_member_count(&m, 0, KEYS + 1, KEY_ABSENT), 0);
    log_member_close(&m);
}

/* So all replies of a node are one server's, also where its address leads to several. */
static void test_a_pinned_client__makes_no_connection_again(void **state)
{
    struct error e = {""};
    unsigned home = sync_client_home(at.link, &at.names);
    (void)state;
    sync_client_pin(at.link);
    must(sync_client_command(at.link, home, NULL, &e, "PING"), e);
    for (unsigned i = 0; i < at.cluster.count; i++)
        freeReplyObject(client_command(&at.cluster.client[i], "CLIENT KILL TYPE normal SKIPME yes"));
    for (unsigned i = 0; i < 2; i++)
        gives(ERR_UNREACHABLE, sync_client_command(at.link, home, NULL, &e, "PING"), e);
    sync_client_unpin(at.link);
    must(sync_client_command(at.link, home, NULL, &e, "PING"), e);
}

/* A write in two parts: the map of slots changes in between, and does not name who got the first part. */
static void test_who_got_something__is_asked_for_its_id_though_the_map_names_it_no_more(void **state)
{
    struct error e = {""};
    struct trusted asked;
    struct key_name shard;
    (void)state;
    if (!forgets_alone())
        skip();
    names_log_shard(&at.names, (struct shard_id){.generation = 1}, &shard);
    unsigned where = nodes_key(&at.nodes, shard.text, shard.length);
    sync_client_pin(at.link);
    must(sync_client_command(at.link, where, NULL, &e, "EXISTS %s", shard.text), e);
    is_left();
    for (unsigned i = 0; i < at.cluster.count; i++)
        if (i != FORMER)
            must(client_ok(&at.cluster.client[i], &e, "CLUSTER FORGET %s", at.cluster.id[FORMER]), e);
    uint64_t until = clock_mono_us() + WAIT_US;
    while (names_former()) /* another node is asked each time */
        assert_true(clock_mono_us() < until);
    while (!is_at(where, HEIR)) {
        sync_client_doubt_map(at.link);
        assert_true(clock_mono_us() < until);
        clock_sleep_us(LOOK_US);
    }
    must(sync_client_command(at.link, where, NULL, &e, "EXISTS %s", shard.text), e);
    must(shards_eras_asked(at.link, &asked, &e), e);
    assert_true(trusted_contains(&asked, id_of(FORMER)));
    assert_true(trusted_contains(&asked, id_of(HEIR)));
    assert_int_equal(asked.count, 2);
    sync_client_unpin(at.link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_a_writer_writes_to_the_former_master__does_not_count,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_who_got_something__is_asked_for_its_id_though_the_map_names_it_no_more, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_pinned_client__makes_no_connection_again, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
