/* SPDX-License-Identifier: MIT */
/* Coordinators and the masters of a Redis Cluster: how coordinators find, follow and show them. */
#include "shard/redis/nodes/cluster.h"
#include "tests/integration/fixture.h"
#include "tests/integration/roll.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 20000, CAPACITY = 40000, WAIT_MS = 60000 };

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
            assert_string_equal(roll_field(&f, by, d, FILTER, "current"), "1");
            assert_string_equal(roll_field(&f, by, d, NULL, "state"), "serving");
            assert_string_equal(roll_field(&f, by, d, NULL, "nodes"), "cluster");
            assert_string_equal(roll_field(&f, by, d, NULL, "redis"), "ok");
        }
    }
}

/* A master without the list of members hangs. */
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

/* No coordinator is told that slots moved; all threads together request the map a few times. */
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
    fixture_all_present(&f, 1, 5000000, 2000);
    uint64_t asked = temp_cluster_maps_asked(&f.cluster), lately = UINT64_MAX;
    for (int seconds = 0; seconds < 30 && lately > 1; seconds++) {
        temp_cluster_reset_counts(&f.cluster);
        clock_sleep_us(1000000);
        lately = temp_cluster_maps_asked(&f.cluster);
        asked += lately;
    }
    print_message("CLUSTER SLOTS was asked %" PRIu64 " times\n", asked);
    /* Two daemons request it while slots move, each at most as often as the least pause between two refreshes
     * allows. */
    assert_in_range(asked, 1, 2 * (clock_mono_us() - began) / 1000 / CLUSTER_PAUSE_MIN_MS + 4);
    /* Checks do not request the map: if they did, each of these turns would see it. Marks, the controller,
     * and connections that broke on a busy machine do now and then. */
    uint64_t least = UINT64_MAX;
    for (int turn = 0; turn < 30 && least > 0; turn++) {
        temp_cluster_reset_counts(&f.cluster);
        fixture_all_present(&f, 0, 0, 10000);
        lately = temp_cluster_maps_asked(&f.cluster);
        least = lately < least ? lately : least;
    }
    assert_int_equal(least, 0);
}

/* Two dead seeds, and a live one. */
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

/* Counts the doctor's findings about rights by master. *@where: the node of the last problem. */
static unsigned denied_at(struct client *c, unsigned *masters, char where[64])
{
    char probe[32], state[16];
    unsigned problems = 0;
    redisReply *r = client_command(c, "TB.DOCTOR");
    assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY);
    *masters = 0;
    for (size_t i = 0; i < r->elements; i++) {
        const redisReply *one = r->element[i]; /* probe, subject, state, found, remedy: names and values */
        assert_true(one->type == REDIS_REPLY_ARRAY && one->elements >= 6);
        (void)snprintf(probe, sizeof(probe), "%s", one->element[1]->str);
        (void)snprintf(state, sizeof(state), "%s", one->element[5]->str);
        if (strcmp(probe, "commands") != 0)
            continue;
        ++*masters;
        problems += strcmp(state, "problem") == 0;
        if (strcmp(state, "problem") == 0)
            (void)snprintf(where, 64, "%s", one->element[3]->str);
    }
    freeReplyObject(r);
    return problems;
}

/* The doctor tries each master, with a key of that master's slots. */
static void doctor_knows_the_rights(struct client *c)
{
    struct error e = {""};
    char where[64] = "", wanted[64];
    unsigned masters;
    assert_int_equal(denied_at(c, &masters, where), 0);
    assert_int_equal(masters, 3);
    must(client_ok(&f.cluster.client[1], &e, "ACL SETUSER few -strlen"), e);
    assert_int_equal(denied_at(c, &masters, where), 1);
    (void)snprintf(wanted, sizeof(wanted), "127.0.0.1:%u", f.cluster.node[1].port);
    assert_string_equal(where, wanted);
    must(client_ok(&f.cluster.client[1], &e, "ACL SETUSER few +strlen"), e);
}

/* The rights that docs/howto/connect-to-redis.md names are enough. */
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
                 "+incr +hget +hset +hsetnx +hmget +hgetall +hkeys +hdel +hexists +hincrby "
                 "+setrange +strlen +xadd +xlen +xrange +xrevrange +xtrim +memory|usage "
                 "+lpush +ltrim +lrange +exists +type +del +unlink +rename +pexpire +persist +pttl "
                 "+time +cluster|slots +cluster|shards +asking"),
             e);
    (void)snprintf(seeds, sizeof(seeds), "redis://few:pw@127.0.0.1:%u, redis://127.0.0.1:%u",
                   f.cluster.node[2].port, f.cluster.node[1].port);
    const struct daemon_options o = {.cluster = seeds, .redis = "prefix = few\nshard_bytes = 4KiB\n"};
    must(daemon_start(&d, &o, &e), e);
    must(client_open(&c, d.port, 10000, &e), e);
    must(client_ok(&c, &e, "BF.RESERVE k 0.01 3000"), e);
    must(client_madd(&c, "k", fixture_code, 0, 2000, &e), e);
    /* The slot of a shard has moved half way. */
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
    doctor_knows_the_rights(&c);
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
        cmocka_unit_test(test_cluster__lists_its_coordinators),
        cmocka_unit_test(test_cluster__says_which_master_does_not_answer),
        cmocka_unit_test(test_cluster__is_shown_with_its_masters),
        cmocka_unit_test(test_cluster__is_followed_after_slots_moved_while_nobody_looked),
        cmocka_unit_test(test_cluster__is_found_where_the_first_seeds_are_dead),
        cmocka_unit_test(test_cluster__needs_few_rights),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
