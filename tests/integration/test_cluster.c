/* SPDX-License-Identifier: MIT */
/* The life of filters in a Redis Cluster, as a coordinator's clients see it. */
#include "tests/integration/fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 20000, CAPACITY = 40000, ABSENT = 20000, WAIT_MS = 60000 };

static struct fixture f;

/* Shards are small, so that there are many. */
static int setup(void **state)
{
    (void)state;
    const struct fixture_options o = {.masters = 3,
                                      .daemons = 2,
                                      .postgres = true,
                                      .rows = ROWS,
                                      .capacity = CAPACITY,
                                      .rate = "0.01",
                                      .redis_lines = "shard_bytes = 4KiB\n",
                                      .expansion = "lease = 2s\n",
                                      .service = "check_interval = 200ms\n"};
    return fixture_start(&f, &o);
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&f);
}

/* --- looking at the nodes --- */

struct found {
    unsigned shards;
    struct client *node;
    const char *part;
};

static void count_name(const char *name, void *arg)
{
    struct found *found = arg;
    if (found->part != NULL && strstr(name, found->part) == NULL)
        return;
    redisReply *r = client_command(found->node, "TYPE %s", name);
    found->shards += strcmp(r->str, "string") == 0;
    freeReplyObject(r);
}

/* Count a filter's shards on one node whose names contain @part (NULL: all). */
static unsigned look(unsigned node, const char *filter, const char *part)
{
    char pattern[80];
    struct error e = {""};
    struct found found = {.node = &f.cluster.client[node], .part = part};
    (void)snprintf(pattern, sizeof(pattern), "twinbloom:{%s.*}:*", filter);
    must(client_scan(&f.cluster.client[node], pattern, count_name, &found, &e), e);
    return found.shards;
}

/* Send a command to the node that has its key. */
static redisReply *somewhere(const char *command)
{
    redisReply *r = NULL;
    for (unsigned i = 0; i < f.cluster.count; i++) {
        freeReplyObject(r);
        r = client_command(&f.cluster.client[i], command);
        assert_non_null(r);
        if (r->type != REDIS_REPLY_ERROR || strncmp(r->str, "MOVED", 5) != 0)
            return r;
    }
    return r;
}

static int64_t status(const char *filter, const char *field)
{
    struct error e = {""};
    int64_t n = 0;
    must(client_status_number(&f.client[0], filter, field, &n, &e), e);
    return n;
}

static void all_present(const char *filter, unsigned d, uint64_t first, uint64_t count)
{
    struct error e = {""};
    uint64_t present = 0;
    must(client_mexists(&f.client[d], filter, fixture_code, first, count, &present, NULL, &e), e);
    assert_int_equal(present, count);
}

static void test_cluster__holds_the_shards_of_a_built_filter_on_all_masters(void **state)
{
    (void)state;
    fixture_all_present(&f, 0, 0, ROWS);
    fixture_all_present(&f, 1, 0, ROWS);
    assert_in_range(fixture_false_positives(&f, 0, ABSENT), 0, ABSENT / 50);
    int64_t shards = status(FILTER, "shards");
    assert_in_range(shards, 12, 1000);
    unsigned sum = 0;
    for (unsigned i = 0; i < 3; i++) {
        unsigned found = look(i, FILTER, NULL);
        assert_in_range(found, 1, shards - 2);
        sum += found;
    }
    assert_int_equal(sum, shards);
}

/* --- plans --- */

static const redisReply *value_of(const redisReply *list, const char *name)
{
    for (size_t i = 0; i + 1 < list->elements; i += 2)
        if (strcmp(list->element[i]->str, name) == 0)
            return list->element[i + 1];
    fail_msg("there is no %s", name);
    return NULL;
}

static redisReply *plan(void)
{
    redisReply *r = client_command(&f.client[0], "TB.PLAN " FILTER " CAPACITY %d", CAPACITY);
    assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY);
    assert_int_equal(value_of(r, "per_node")->elements, 3);
    return r;
}

/* The entry of the cluster's @i-th node in the plan. */
static const redisReply *planned_node(const redisReply *answer, unsigned i)
{
    char name[64];
    const redisReply *nodes = value_of(answer, "per_node");
    (void)snprintf(name, sizeof(name), "127.0.0.1:%u", f.cluster.node[i].port);
    for (size_t n = 0; n < nodes->elements; n++)
        if (strcmp(value_of(nodes->element[n], "node")->str, name) == 0)
            return nodes->element[n];
    fail_msg("%s is not in the plan", name);
    return NULL;
}

/* Existing shards are counted by their slots, new ones by the masters' shares. */
static void test_cluster__plans_for_each_master(void **state)
{
    (void)state;
    redisReply *answer = plan();
    long long shards = value_of(answer, "shards")->integer,
              now = value_of(answer, "memory_now_bytes")->integer;
    long long each = now / shards, before = 0;
    assert_int_equal(value_of(answer, "fits")->integer, 1);
    for (unsigned i = 0; i < 3; i++) {
        const redisReply *node = planned_node(answer, i);
        long long may_come = value_of(node, "shards")->integer;
        assert_int_equal(value_of(node, "before_bytes")->integer, look(i, FILTER, NULL) * each);
        assert_in_range(may_come, shards / 3 + 1, shards);
        assert_int_equal(value_of(node, "after_bytes")->integer, may_come * each);
        assert_int_equal(value_of(node, "during_bytes")->integer,
                         value_of(node, "before_bytes")->integer + may_come * each);
        before += value_of(node, "before_bytes")->integer;
    }
    assert_int_equal(before, now);
    freeReplyObject(answer);
}

static void test_cluster__refuses_what_one_master_has_no_room_for(void **state)
{
    (void)state;
    redisReply *answer = plan();
    long long used = value_of(planned_node(answer, 1), "used_bytes")->integer;
    long long needed = value_of(planned_node(answer, 1), "after_bytes")->integer;
    freeReplyObject(answer);
    freeReplyObject(client_command(&f.cluster.client[1], "CONFIG SET maxmemory %lld", used + needed / 8));
    answer = plan();
    freeReplyObject(client_command(&f.cluster.client[1], "CONFIG SET maxmemory 0"));
    char name[64];
    (void)snprintf(name, sizeof(name), "Redis 127.0.0.1:%u has too little memory", f.cluster.node[1].port);
    assert_int_equal(value_of(answer, "fits")->integer, 0);
    assert_non_null(strstr(value_of(answer, "refused")->str, name));
    freeReplyObject(answer);
}

static void test_cluster__lets_nobody_choose_its_nodes(void **state)
{
    (void)state;
    char text[600];
    struct error e = {""};
    int64_t before = fixture_generation(&f, 0);
    redisReply *r =
        client_command(&f.client[0], "TB.REBUILD " FILTER " NODES 127.0.0.1:%u", f.cluster.node[0].port);
    assert_true(r != NULL && r->type == REDIS_REPLY_ERROR);
    assert_non_null(strstr(r->str, "nodes cannot be chosen in a Redis Cluster"));
    freeReplyObject(r);
    r = client_command(&f.client[0], "TB.PLAN " FILTER " NODES 127.0.0.1:%u", f.cluster.node[0].port);
    assert_int_equal(value_of(r, "fits")->integer, 0);
    assert_non_null(strstr(value_of(r, "refused")->str, "nodes cannot be chosen in a Redis Cluster"));
    freeReplyObject(r);
    must(client_status(&f.client[0], FILTER, "nodes", text, sizeof(text), &e), e);
    assert_string_equal(text, "cluster");
    assert_int_equal(fixture_generation(&f, 0), before);
}

/* --- the life of filters --- */

static void test_cluster__keeps_a_reserved_filter_that_grows(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t n;
    must(client_ok(&f.client[0], &e, "BF.RESERVE grown 0.00001 1000"), e);
    must(client_madd(&f.client[0], "grown", fixture_code, 0, 5000, &e), e);
    assert_in_range(status("grown", "layers"), 2, 5);
    all_present("grown", 0, 0, 5000);
    all_present("grown", 1, 0, 5000);
    must(client_integer(&f.client[0], &n, &e, "BF.ADD grown c1"), e);
    assert_int_equal(n, 0);
    must(client_integer(&f.client[0], &n, &e, "BF.EXISTS grown nothing-of-the-kind"), e);
    assert_int_equal(n, 0);
    must(client_integer(&f.client[1], &n, &e, "BF.CARD grown"), e);
    /* c1 was added again, and counts in the newest layer, too. */
    assert_in_range(n, 4900, 5001);
    int64_t other;
    must(client_integer(&f.client[0], &other, &e, "BF.CARD grown"), e);
    assert_int_equal(n, other);
    must(client_integer(&f.client[0], &n, &e, "DBSIZE"), e);
    assert_int_equal(n, 2);
    must(client_integer(&f.client[1], &n, &e, "EXISTS grown " FILTER " other"), e);
    assert_int_equal(n, 2);
    must(client_integer(&f.client[0], &n, &e, "DEL grown"), e);
    assert_int_equal(n, 1);
    must(client_integer(&f.client[1], &n, &e, "BF.EXISTS grown c1"), e);
    for (int i = 0; i < 200 && n == 1; i++) { /* from memory, until the coordinator learns of the deletion */
        clock_sleep_us(50000);
        must(client_integer(&f.client[1], &n, &e, "BF.EXISTS grown c1"), e);
    }
    assert_int_equal(n, 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(look(i, "grown", NULL), 0);
}

static void test_cluster__deletes_a_filter_when_it_is_due(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t n = 1;
    must(client_integer(&f.client[0], &n, &e, "BF.ADD brief k"), e);
    must(client_integer(&f.client[0], &n, &e, "PEXPIRE brief 300"), e);
    assert_int_equal(n, 1);
    for (int i = 0; i < 200 && n == 1; i++) {
        clock_sleep_us(50000);
        must(client_integer(&f.client[1], &n, &e, "EXISTS brief"), e);
    }
    assert_int_equal(n, 0);
}

static void test_cluster__dumps_and_loads(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t position = 0;
    must(client_ok(&f.client[0], &e, "BF.RESERVE from 0.01 20000"), e);
    must(client_madd(&f.client[0], "from", fixture_code, 0, 15000, &e), e);
    for (;;) {
        redisReply *r = client_command(&f.client[0], "BF.SCANDUMP from %lld", (long long)position);
        assert_non_null(r);
        if (r->type != REDIS_REPLY_ARRAY || r->elements != 2)
            fail_msg("BF.SCANDUMP: %s", r->str);
        position = r->element[0]->integer;
        if (position == 0) {
            freeReplyObject(r);
            break;
        }
        must(client_ok(&f.client[1], &e, "BF.LOADCHUNK to %lld %b", (long long)position, r->element[1]->str,
                       (size_t)r->element[1]->len),
             e);
        freeReplyObject(r);
    }
    all_present("to", 0, 0, 15000);
    assert_int_equal(status("to", "shards"), status("from", "shards"));
}

static void test_cluster__rebuilds_cuts_over_and_rolls_back(void **state)
{
    (void)state;
    int64_t before = fixture_generation(&f, 0);
    struct error e = {""};
    fixture_insert(f.db, ROWS, 1000);
    fixture_ask(&f, 0, "TB.REBUILD " FILTER);
    must(client_wait_status_least(&f.client[0], FILTER, "generation", before + 1, WAIT_MS, &e), e);
    fixture_wait(&f, 1, "job_state", "done");
    fixture_wait(&f, 0, "phase", "STEADY");
    fixture_all_present(&f, 0, 0, ROWS + 1000);
    for (unsigned i = 0; i < 3; i++) { /* the old generation's shards are deleted */
        char part[32];
        (void)snprintf(part, sizeof(part), "{" FILTER ".%" PRId64 ".", before);
        assert_int_equal(look(i, FILTER, part), 0);
    }
    fixture_ask(&f, 0, "TB.REBUILD " FILTER " HOLD");
    fixture_wait(&f, 0, "job_step", "hold");
    int64_t held = fixture_generation(&f, 0);
    fixture_ask(&f, 0, "TB.CUTOVER " FILTER);
    fixture_wait(&f, 0, "phase", "SWITCHED");
    fixture_ask(&f, 0, "TB.ROLLBACK " FILTER);
    fixture_wait(&f, 0, "phase", "BUILDING");
    assert_int_equal(fixture_generation(&f, 0), held);
    fixture_all_present(&f, 1, 0, ROWS + 1000);
    fixture_ask(&f, 0, "TB.ABORT " FILTER);
    fixture_wait(&f, 0, "phase", "STEADY");
    fixture_all_present(&f, 0, 0, ROWS + 1000);
    must(client_ok(&f.client[0], &e, "TB.VERIFY " FILTER), e);
    fixture_wait(&f, 0, "job_state", "done");
    fixture_wait(&f, 0, "state", "serving");
}

/* The view is lost and the shards are not: the new filter does not use them. */
static void test_cluster__sweeps_the_shards_of_a_lost_view_from_all_masters(void **state)
{
    (void)state;
    redisReply *r = somewhere("HGET twinbloom:{" FILTER "}:view incarnation");
    char incarnation[40];
    struct error e = {""};
    assert_int_equal(r->type, REDIS_REPLY_STRING);
    (void)snprintf(incarnation, sizeof(incarnation), "}:%s", r->str);
    freeReplyObject(r);
    unsigned before = 0, after = 0;
    for (unsigned i = 0; i < 3; i++)
        before += look(i, FILTER, incarnation);
    assert_true(before > 0);
    freeReplyObject(somewhere("DEL twinbloom:{" FILTER "}:view"));
    char now[40] = "";
    for (int i = 0; i < 600 && (now[0] == '\0' || strstr(incarnation, now) != NULL); i++) {
        clock_sleep_us(50000);
        r = somewhere("HGET twinbloom:{" FILTER "}:view incarnation");
        if (r->type == REDIS_REPLY_STRING)
            (void)snprintf(now, sizeof(now), "%s", r->str);
        freeReplyObject(r);
    }
    assert_true(now[0] != '\0' && strstr(incarnation, now) == NULL);
    for (unsigned i = 0; i < 3; i++)
        after += look(i, FILTER, incarnation);
    assert_int_equal(after, 0);
    must(client_wait_status(&f.client[0], FILTER, "built", "1", WAIT_MS, &e), e);
    fixture_wait(&f, 0, "phase", "STEADY");
    fixture_all_present(&f, 0, 0, ROWS);
    fixture_all_present(&f, 1, 0, ROWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cluster__holds_the_shards_of_a_built_filter_on_all_masters),
        cmocka_unit_test(test_cluster__plans_for_each_master),
        cmocka_unit_test(test_cluster__refuses_what_one_master_has_no_room_for),
        cmocka_unit_test(test_cluster__lets_nobody_choose_its_nodes),
        cmocka_unit_test(test_cluster__keeps_a_reserved_filter_that_grows),
        cmocka_unit_test(test_cluster__deletes_a_filter_when_it_is_due),
        cmocka_unit_test(test_cluster__dumps_and_loads),
        cmocka_unit_test(test_cluster__rebuilds_cuts_over_and_rolls_back),
        cmocka_unit_test(test_cluster__sweeps_the_shards_of_a_lost_view_from_all_masters),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
