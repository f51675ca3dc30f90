/* SPDX-License-Identifier: MIT */
/* The life of filters in a Redis Cluster, seen by clients of a coordinator. */
#include "shard/cluster.h"
#include "tests/integration/fixture.h"
#include "tests/integration/roll.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 20000, CAPACITY = 40000, ABSENT = 20000, WAIT_MS = 60000 };

static struct fixture f;

/* Small shards, so that there are many of them. */
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
    unsigned shards, tombstones;
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
    found->tombstones += strcmp(r->str, "list") == 0;
    freeReplyObject(r);
}

/* Shards of a filter on one node whose names hold @part (NULL: all). */
static struct found look(unsigned node, const char *filter, const char *part)
{
    char pattern[80];
    struct error e = {""};
    struct found found = {.node = &f.cluster.client[node], .part = part};
    (void)snprintf(pattern, sizeof(pattern), "twinbloom:{%s.*}:*", filter);
    must(client_scan(&f.cluster.client[node], pattern, count_name, &found, &e), e);
    return found;
}

/* A command whose key lies on whichever node: it is followed there. */
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

/* --- tests --- */

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
        struct found found = look(i, FILTER, NULL);
        assert_in_range(found.shards, 1, shards - 2);
        sum += found.shards;
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
    assert_int_equal(value_of(r, "memory_nodes")->elements, 3);
    return r;
}

/* The node of the plan that is the @i-th of the cluster. */
static const redisReply *planned_node(const redisReply *answer, unsigned i)
{
    char name[64];
    const redisReply *nodes = value_of(answer, "memory_nodes");
    (void)snprintf(name, sizeof(name), "127.0.0.1:%u", f.cluster.node[i].port);
    for (size_t n = 0; n < nodes->elements; n++)
        if (strcmp(value_of(nodes->element[n], "node")->str, name) == 0)
            return nodes->element[n];
    fail_msg("%s is not in the plan", name);
    return NULL;
}

/* What is there, by the slot of each shard; what comes, by the masters' shares. */
static void test_cluster__plans_for_each_master(void **state)
{
    (void)state;
    redisReply *answer = plan();
    long long shards = value_of(answer, "shards")->integer, now = value_of(answer, "memory_now")->integer;
    long long each = now / shards, before = 0;
    assert_string_equal(value_of(answer, "fits")->str, "yes");
    for (unsigned i = 0; i < 3; i++) {
        const redisReply *node = planned_node(answer, i);
        long long may_come = value_of(node, "shards")->integer;
        assert_int_equal(value_of(node, "before")->integer, look(i, FILTER, NULL).shards * each);
        assert_in_range(may_come, shards / 3 + 1, shards);
        assert_int_equal(value_of(node, "after")->integer, may_come * each);
        assert_int_equal(value_of(node, "during")->integer,
                         value_of(node, "before")->integer + (may_come + 2) * each);
        before += value_of(node, "before")->integer;
    }
    assert_int_equal(before, now);
    freeReplyObject(answer);
}

static void test_cluster__refuses_what_one_master_has_no_room_for(void **state)
{
    (void)state;
    redisReply *answer = plan();
    long long used = value_of(planned_node(answer, 1), "used")->integer;
    long long needed = value_of(planned_node(answer, 1), "after")->integer;
    freeReplyObject(answer);
    freeReplyObject(client_command(&f.cluster.client[1], "CONFIG SET maxmemory %lld", used + needed / 2));
    answer = plan();
    freeReplyObject(client_command(&f.cluster.client[1], "CONFIG SET maxmemory 0"));
    char name[64];
    (void)snprintf(name, sizeof(name), "Redis 127.0.0.1:%u has too little memory", f.cluster.node[1].port);
    assert_string_equal(value_of(answer, "fits")->str, "no");
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
    assert_string_equal(value_of(r, "fits")->str, "no");
    assert_non_null(strstr(value_of(r, "refused")->str, "nodes cannot be chosen in a Redis Cluster"));
    freeReplyObject(r);
    must(client_status(&f.client[0], FILTER, "nodes", text, sizeof(text), &e), e);
    assert_string_equal(text, "cluster");
    assert_int_equal(fixture_generation(&f, 0), before);
}

/* --- coordinators --- */

static void test_cluster__lists_its_coordinators(void **state)
{
    (void)state;
    char epoch[24];
    struct error e = {""};
    for (unsigned d = 0; d < 2; d++)
        fixture_all_present(&f, d, 0, 100);
    must(client_status(&f.client[0], FILTER, "epoch", epoch, sizeof(epoch), &e), e);
    for (unsigned by = 0; by < 2; by++) {
        assert_int_equal(roll_count(&f, by), 2);
        for (unsigned d = 0; d < 2; d++) {
            roll_wait(&f, by, d, FILTER, "epoch", epoch, WAIT_MS);
            assert_string_equal(roll_field(&f, by, d, FILTER, "current"), "yes");
            assert_string_equal(roll_field(&f, by, d, NULL, "state"), "serving");
            assert_string_equal(roll_field(&f, by, d, NULL, "nodes"), "cluster");
            assert_string_equal(roll_field(&f, by, d, NULL, "redis"), "ok");
        }
    }
}

/* A master that does not hold the roster hangs. */
static void test_cluster__says_which_master_does_not_answer(void **state)
{
    (void)state;
    char name[64];
    struct error e = {""};
    redisReply *r = client_command(&f.cluster.client[0], "CLUSTER KEYSLOT twinbloom:coordinators");
    assert_true(r != NULL && r->type == REDIS_REPLY_INTEGER);
    unsigned away = (temp_cluster_owner(&f.cluster, 0, (unsigned)r->integer) + 1) % 3, spent = 0;
    freeReplyObject(r);
    (void)snprintf(name, sizeof(name), "127.0.0.1:%u", f.cluster.node[away].port);
    assert_int_equal(kill(f.cluster.node[away].process.pid, SIGSTOP), 0);
    bool said = false;
    for (; !said && spent < WAIT_MS; spent += 100) {
        said = strstr(roll_field(&f, 0, 1, NULL, "redis"), name) != NULL;
        clock_sleep_us(100 * 1000);
    }
    assert_int_equal(kill(f.cluster.node[away].process.pid, SIGCONT), 0);
    assert_true(said);
    must(temp_cluster_agree(&f.cluster, WAIT_MS, &e), e);
    roll_wait(&f, 0, 1, NULL, "redis", "ok", WAIT_MS);
    for (unsigned d = 0; d < 2; d++)
        fixture_wait(&f, d, "state", "serving");
}

/* --- the life of filters --- */

static void test_cluster__keeps_a_reserved_filter_that_grows(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t n;
    must(client_ok(&f.client[0], &e, "BF.RESERVE grown 0.01 1000"), e);
    must(client_madd(&f.client[0], "grown", fixture_code, 0, 5000, &e), e);
    assert_in_range(status("grown", "layers"), 2, 5);
    all_present("grown", 0, 0, 5000);
    all_present("grown", 1, 0, 5000);
    must(client_integer(&f.client[0], &n, &e, "BF.ADD grown c1"), e);
    assert_int_equal(n, 0);
    must(client_integer(&f.client[0], &n, &e, "BF.EXISTS grown nothing-of-the-kind"), e);
    assert_int_equal(n, 0);
    must(client_integer(&f.client[1], &n, &e, "BF.CARD grown"), e);
    assert_in_range(n, 4900, 5000);
    must(client_integer(&f.client[0], &n, &e, "DBSIZE"), e);
    assert_int_equal(n, 2);
    must(client_integer(&f.client[1], &n, &e, "EXISTS grown " FILTER " other"), e);
    assert_int_equal(n, 2);
    must(client_integer(&f.client[0], &n, &e, "DEL grown"), e);
    assert_int_equal(n, 1);
    must(client_integer(&f.client[1], &n, &e, "BF.EXISTS grown c1"), e);
    assert_int_equal(n, 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(look(i, "grown", NULL).shards, 0);
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
    for (unsigned i = 0; i < 3; i++) { /* the old generation's shards are gone */
        char part[32];
        (void)snprintf(part, sizeof(part), "{" FILTER ".%" PRId64 ".", before);
        assert_int_equal(look(i, FILTER, part).shards, 0);
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

/* The view is gone, the shards are not: the new filter does not meet them. */
static void test_cluster__sweeps_the_shards_of_a_lost_view_from_all_masters(void **state)
{
    (void)state;
    redisReply *r = somewhere("HGET twinbloom:{" FILTER "}:view incarnation");
    char incarnation[40];
    struct error e = {""};
    assert_int_equal(r->type, REDIS_REPLY_STRING);
    (void)snprintf(incarnation, sizeof(incarnation), "}:%s.", r->str);
    freeReplyObject(r);
    unsigned before = 0, after = 0, tombstones = 0;
    for (unsigned i = 0; i < 3; i++)
        before += look(i, FILTER, incarnation).shards;
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
    for (unsigned i = 0; i < 3; i++) {
        struct found found = look(i, FILTER, incarnation);
        after += found.shards;
        tombstones += found.tombstones;
    }
    assert_int_equal(after, 0);
    assert_true(tombstones >= before);
    must(client_wait_status(&f.client[0], FILTER, "built", "1", WAIT_MS, &e), e);
    fixture_wait(&f, 0, "phase", "STEADY");
    fixture_all_present(&f, 0, 0, ROWS);
    fixture_all_present(&f, 1, 0, ROWS);
}

static void test_cluster__is_shown_with_its_masters(void **state)
{
    (void)state;
    struct error e = {""};
    char text[600];
    must(client_status(&f.client[0], FILTER, "nodes", text, sizeof(text), &e), e);
    assert_string_equal(text, "cluster");
    must(client_status(&f.client[0], FILTER, "masters", text, sizeof(text), &e), e);
    redisReply *info = client_command(&f.client[0], "INFO");
    assert_non_null(info);
    assert_non_null(info->str);
    assert_non_null(strstr(info->str, "nodes_mode:cluster\r\n"));
    assert_non_null(strstr(info->str, "nodes:3\r\n"));
    for (unsigned i = 0; i < 3; i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "name=127.0.0.1:%u,state=up,connections=", f.cluster.node[i].port);
        const char *line = strstr(info->str, name);
        if (line == NULL)
            print_error("%s is not in %s\n", name, info->str);
        assert_true(line != NULL && strtoul(line + strlen(name), NULL, 10) > 0 && strstr(line, ",slots=546"));
        (void)snprintf(name, sizeof(name), "127.0.0.1:%u up, 546", f.cluster.node[i].port);
        assert_non_null(strstr(text, name));
    }
    freeReplyObject(info);
}

/* Nobody is told that slots have moved; the map is asked for a few times, by all threads together. */
static void test_cluster__is_followed_after_slots_moved_while_nobody_looked(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t began = clock_mono_us();
    temp_cluster_reset_counts(&f.cluster);
    must(temp_cluster_move(&f.cluster, 0, TEMP_CLUSTER_SLOTS / 6, 0, 1, 0, &e), e);
    must(temp_cluster_move(&f.cluster, TEMP_CLUSTER_SLOTS / 3 + 10, TEMP_CLUSTER_SLOTS / 6, 1, 2, 0, &e), e);
    must(temp_cluster_agree(&f.cluster, WAIT_MS, &e), e);
    for (unsigned d = 0; d < 2; d++)
        fixture_all_present(&f, d, 0, ROWS);
    must(client_madd(&f.client[0], FILTER, fixture_code, 5000000, 2000, &e), e);
    all_present(FILTER, 1, 5000000, 2000);
    uint64_t asked = temp_cluster_maps_asked(&f.cluster), lately = UINT64_MAX;
    for (int seconds = 0; seconds < 30 && lately > 1; seconds++) {
        temp_cluster_reset_counts(&f.cluster);
        clock_sleep_us(1000000);
        lately = temp_cluster_maps_asked(&f.cluster);
        asked += lately;
    }
    print_message("CLUSTER SLOTS was asked %" PRIu64 " times\n", asked);
    /* Two daemons look while slots move, each as often as the least pause between two refreshes allows. */
    assert_in_range(asked, 1, 2 * (clock_mono_us() - began) / 1000 / CLUSTER_PAUSE_MIN_MS + 4);
    /* No check asks for it: if they did, each of these turns would. Marks, the keeper, and whoever meets a
     * connection that broke on a busy machine do now and then. */
    uint64_t least = UINT64_MAX;
    for (int turn = 0; turn < 30 && least > 0; turn++) {
        temp_cluster_reset_counts(&f.cluster);
        fixture_all_present(&f, 0, 0, 10000);
        lately = temp_cluster_maps_asked(&f.cluster);
        least = lately < least ? lately : least;
    }
    assert_int_equal(least, 0);
}

/* Seeds that are dead, and one that lives. */
static void test_cluster__is_found_where_the_first_seeds_are_dead(void **state)
{
    (void)state;
    struct error e = {""};
    struct daemon d = {0};
    struct client c = {0};
    char seeds[200];
    (void)snprintf(seeds, sizeof(seeds), "redis://127.0.0.1:%u, redis://127.0.0.1:%u, %s",
                   process_free_port(), process_free_port(), f.cluster.node[2].url);
    const struct daemon_options o = {.cluster = seeds, .redis = "shard_bytes = 4KiB\n"};
    must(daemon_start(&d, &o, &e), e);
    must(client_open(&c, d.port, 10000, &e), e);
    uint64_t present = 0;
    must(client_mexists(&c, FILTER, fixture_code, 0, 1000, &present, NULL, &e), e);
    assert_int_equal(present, 1000);
    int64_t n;
    must(client_integer(&c, &n, &e, "BF.ADD seeded k"), e);
    assert_int_equal(n, 1);
    client_close(&c);
    assert_true(daemon_fini(&d));
}

/* Those that docs/howto/connect-to-redis.md names, and no others. */
static void test_cluster__needs_few_rights(void **state)
{
    (void)state;
    struct error e = {""};
    struct daemon d = {0};
    struct client c = {0};
    char seeds[200];
    for (unsigned i = 0; i < 3; i++)
        must(client_ok(
                 &f.cluster.client[i], &e,
                 "ACL SETUSER few on >pw resetchannels &few:events ~few:* -@all +ping +client|setname +info "
                 "+eval +subscribe +publish +scan +smembers +sscan +sadd +srem +get +set +getrange +bitfield "
                 "+bitcount +bitop +incr +hget +hset +hsetnx +hmget +hgetall +hkeys +hdel +hexists +hincrby "
                 "+lpush +rpush +ltrim +lrange +exists +type +del +unlink +rename +pexpire +persist +pttl "
                 "+cluster|slots +cluster|shards +asking"),
             e);
    (void)snprintf(seeds, sizeof(seeds), "redis://few:pw@127.0.0.1:%u, redis://127.0.0.1:%u",
                   f.cluster.node[2].port, f.cluster.node[1].port);
    const struct daemon_options o = {.cluster = seeds, .redis = "prefix = few\nshard_bytes = 4KiB\n"};
    must(daemon_start(&d, &o, &e), e);
    must(client_open(&c, d.port, 10000, &e), e);
    must(client_ok(&c, &e, "BF.RESERVE k 0.01 3000"), e);
    must(client_madd(&c, "k", fixture_code, 0, 2000, &e), e);
    /* A slot with a shard, half of the way. */
    redisReply *r = client_command(&f.cluster.client[0], "CLUSTER KEYSLOT {k.1.0.0}");
    unsigned slot = (unsigned)r->integer, from = temp_cluster_owner(&f.cluster, 0, slot), to = (from + 1) % 3;
    unsigned moved = 1;
    freeReplyObject(r);
    must(temp_cluster_open(&f.cluster, slot, from, to, &e), e);
    must(temp_cluster_migrate(&f.cluster, slot, from, to, 64, &moved, &e), e);
    assert_true(moved > 0);
    uint64_t present = 0;
    must(client_mexists(&c, "k", fixture_code, 0, 2000, &present, NULL, &e), e);
    assert_int_equal(present, 2000);
    must(temp_cluster_close(&f.cluster, slot, from, to, &e), e);
    int64_t n;
    must(client_integer(&c, &n, &e, "DEL k"), e);
    assert_int_equal(n, 1);
    client_close(&c);
    char *log = process_log(&d.process);
    if (strstr(log, "NOPERM") != NULL)
        fail_msg("%s", strstr(log, "NOPERM"));
    free(log);
    assert_true(daemon_fini(&d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cluster__holds_the_shards_of_a_built_filter_on_all_masters),
        cmocka_unit_test(test_cluster__plans_for_each_master),
        cmocka_unit_test(test_cluster__refuses_what_one_master_has_no_room_for),
        cmocka_unit_test(test_cluster__lets_nobody_choose_its_nodes),
        cmocka_unit_test(test_cluster__lists_its_coordinators),
        cmocka_unit_test(test_cluster__says_which_master_does_not_answer),
        cmocka_unit_test(test_cluster__keeps_a_reserved_filter_that_grows),
        cmocka_unit_test(test_cluster__deletes_a_filter_when_it_is_due),
        cmocka_unit_test(test_cluster__dumps_and_loads),
        cmocka_unit_test(test_cluster__rebuilds_cuts_over_and_rolls_back),
        cmocka_unit_test(test_cluster__sweeps_the_shards_of_a_lost_view_from_all_masters),
        cmocka_unit_test(test_cluster__is_shown_with_its_masters),
        cmocka_unit_test(test_cluster__is_followed_after_slots_moved_while_nobody_looked),
        cmocka_unit_test(test_cluster__is_found_where_the_first_seeds_are_dead),
        cmocka_unit_test(test_cluster__needs_few_rights),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
