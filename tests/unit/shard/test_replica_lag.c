/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/info.h"
#include "shard/replication.h"

#define ID "8b1c2d3e4f5061728394a5b6c7d8e9f001020304"
#define MASTER(id, offset, replicas)                                                                         \
    "# Replication\r\nrole:master\r\n" replicas "master_replid:" id "\r\nmaster_replid2:0000\r\n"            \
    "master_repl_offset:" offset "\r\nsecond_repl_offset:-1\r\n"
#define REPLICA(id, offset, link, sync)                                                                      \
    "# Replication\r\nrole:slave\r\nmaster_host:127.0.0.1\r\nmaster_link_status:" link                       \
    "\r\nmaster_last_io_seconds_ago:1\r\nmaster_sync_in_progress:" sync                                      \
    "\r\nslave_read_repl_offset:99999\r\nslave_repl_offset:" offset "\r\nmaster_replid:" id                  \
    "\r\nmaster_repl_offset:77\r\n"

static struct replication parse(const char *text)
{
    struct error e = {""};
    struct replication r;
    if (replication_parse(&r, text, strlen(text), &e) != ERR_OK)
        fail_msg("%s", e.text);
    return r;
}

static void test_parse__takes_a_master_and_its_replicas_that_are_in_step(void **state)
{
    (void)state;
    struct replication r = parse(MASTER(ID, "1234",
                                        "connected_slaves:5\r\n"
                                        "slave0:ip=10.0.0.1,port=6380,state=online,offset=1200,lag=0\r\n"
                                        "slave1:ip=10.0.0.2,port=6380,state=wait_bgsave,offset=0,lag=0\r\n"
                                        "slave2:ip=::1,port=6381,state=online,offset=1,lag=1,type=replica\r\n"
                                        "slave3:ip=10.0.0.3,port=0,state=online,offset=1,lag=1\r\n"
                                        "slave4:ip=a b,port=1,state=online,offset=1,lag=1\r\n"
                                        "slave5:ip=,port=1,state=online,offset=1,lag=1\r\n"
                                        "slave6:port=1,state=online\r\n"
                                        "slave7:ip=replica.example,port=65535,state=online\r\n"
                                        "slave9:ip=10.0.0.9,port=1,state=online\r\n"));
    assert_true(r.master);
    assert_int_equal(r.id, 0x8b1c2d3e4f506172);
    assert_int_equal(r.offset, 1234);
    assert_int_equal(r.count, 3);
    assert_string_equal(r.replica[0].host, "10.0.0.1");
    assert_int_equal(r.replica[0].port, 6380);
    assert_string_equal(r.replica[1].host, "::1");
    assert_string_equal(r.replica[2].host, "replica.example");
    assert_int_equal(r.replica[2].port, 65535);
}

static void test_parse__takes_no_more_replicas_than_there_is_room_for(void **state)
{
    (void)state;
    char text[8192];
    int n = snprintf(text, sizeof(text), "%s", MASTER(ID, "1", ""));
    for (int i = 0; i < 40; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, "slave%d:ip=h%d,port=1,state=online\r\n", i, i);
    struct replication r = parse(text);
    assert_int_equal(r.count, REPLICAS_MAX);
    assert_string_equal(r.replica[REPLICAS_MAX - 1].host, "h15");
}

static void test_parse__takes_a_replica_as_far_as_it_has_executed(void **state)
{
    (void)state;
    struct replication r = parse(REPLICA(ID, "1200", "up", "0"));
    assert_false(r.master);
    assert_true(r.linked);
    assert_int_equal(r.id, 0x8b1c2d3e4f506172);
    assert_int_equal(r.offset, 1200); /* neither what it has read nor what it calls master_repl_offset */
    assert_false(parse(REPLICA(ID, "1200", "down", "0")).linked);
    assert_false(parse(REPLICA(ID, "1200", "up", "1")).linked);
    assert_int_equal(parse(REPLICA(ID, "-1", "up", "0")).offset, 0);
}

static void test_parse__refuses_what_does_not_say(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "# Replication\r\n",
                                      "role:master\r\n",
                                      "role:master\r\nmaster_replid:" ID "\r\n",
                                      "role:master\r\nmaster_repl_offset:5\r\n",
                                      "role:sentinel\r\nmaster_replid:" ID "\r\nslave_repl_offset:5\r\n",
                                      "role:slave\r\nmaster_replid:" ID "\r\nmaster_repl_offset:5\r\n",
                                      "role:master\r\nmaster_replid:xyz\r\nmaster_repl_offset:5\r\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct replication r;
        struct error e = {""};
        assert_int_equal(replication_parse(&r, bad[i], strlen(bad[i]), &e), ERR_PARSE);
    }
}

static void master_says(struct replication_log *l, const char *id, uint64_t offset, uint64_t at)
{
    struct replication r = {.master = true, .offset = offset};
    r.id = strtoull(id, NULL, 16);
    replication_log_add(l, &r, at);
}

static uint64_t fresh(const struct replication_log *l, uint64_t id, uint64_t offset)
{
    const struct replication r = {.id = id, .offset = offset, .linked = true};
    return replication_log_fresh(l, &r);
}

static void test_log__a_replica_is_as_fresh_as_the_last_offset_that_it_has_reached(void **state)
{
    (void)state;
    static struct replication_log l;
    memset(&l, 0, sizeof(l));
    assert_int_equal(fresh(&l, 0xa, 100), 0);
    assert_int_equal(fresh(&l, 0, 100), 0); /* nobody's lineage */
    master_says(&l, "a", 100, 1000);
    master_says(&l, "a", 100, 2000);
    master_says(&l, "a", 150, 3000);
    assert_int_equal(fresh(&l, 0xa, 99), 0);
    assert_int_equal(fresh(&l, 0xa, 100), 2000);
    assert_int_equal(fresh(&l, 0xa, 149), 2000);
    assert_int_equal(fresh(&l, 0xa, 150), 3000);
    assert_int_equal(fresh(&l, 0xa, 500), 3000); /* the master has gone on since */
    assert_int_equal(fresh(&l, 0xb, 500), 0);    /* another's replica */
}

static void test_log__one_without_its_master_is_never_fresh(void **state)
{
    (void)state;
    static struct replication_log l;
    memset(&l, 0, sizeof(l));
    master_says(&l, "a", 100, 1000);
    struct replication r = {.id = 0xa, .offset = 200, .linked = false};
    assert_int_equal(replication_log_fresh(&l, &r), 0);
    r.linked = true;
    assert_int_equal(replication_log_fresh(&l, &r), 1000);
    r.master = true; /* it was promoted */
    assert_int_equal(replication_log_fresh(&l, &r), 0);
}

static void test_log__begins_anew_with_another_lineage(void **state)
{
    (void)state;
    static struct replication_log l;
    memset(&l, 0, sizeof(l));
    master_says(&l, "a", 100, 1000);
    master_says(&l, "b", 900, 2000);
    assert_int_equal(fresh(&l, 0xa, 5000), 0);
    assert_int_equal(fresh(&l, 0xb, 899), 0);
    assert_int_equal(fresh(&l, 0xb, 900), 2000);
    const struct replication demoted = {.id = 0xb, .offset = 950, .linked = true};
    replication_log_add(&l, &demoted, 3000);
    assert_int_equal(fresh(&l, 0xb, 950), 0);
}

static void test_log__forgets_the_oldest(void **state)
{
    (void)state;
    static struct replication_log l;
    memset(&l, 0, sizeof(l));
    for (uint64_t i = 1; i <= 2 * REPLICATION_LOG + 10; i++)
        master_says(&l, "a", 10 * i, i);
    assert_int_equal(fresh(&l, 0xa, 10 * (REPLICATION_LOG + 10)), 0);
    assert_int_equal(fresh(&l, 0xa, 10 * (REPLICATION_LOG + 11)), REPLICATION_LOG + 11);
    assert_int_equal(fresh(&l, 0xa, UINT64_MAX), 2 * REPLICATION_LOG + 10);
}

static void test_info__takes_whole_names(void **state)
{
    (void)state;
    static const char text[] = "slave10:x\r\nslave1:y\r\nrole:master\r\nempty:\r\nlast:z";
    size_t n = 0;
    const char *value = info_value(text, strlen(text), "slave1", &n);
    assert_non_null(value);
    assert_int_equal(n, 1);
    assert_int_equal(*value, 'y');
    assert_true(info_is(text, strlen(text), "role", "master"));
    assert_false(info_is(text, strlen(text), "role", "maste"));
    assert_false(info_is(text, strlen(text), "ole", "master"));
    assert_true(info_is(text, strlen(text), "empty", ""));
    assert_true(info_is(text, strlen(text), "last", "z"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse__takes_a_master_and_its_replicas_that_are_in_step),
        cmocka_unit_test(test_parse__takes_no_more_replicas_than_there_is_room_for),
        cmocka_unit_test(test_parse__takes_a_replica_as_far_as_it_has_executed),
        cmocka_unit_test(test_parse__refuses_what_does_not_say),
        cmocka_unit_test(test_log__a_replica_is_as_fresh_as_the_last_offset_that_it_has_reached),
        cmocka_unit_test(test_log__one_without_its_master_is_never_fresh),
        cmocka_unit_test(test_log__begins_anew_with_another_lineage),
        cmocka_unit_test(test_log__forgets_the_oldest),
        cmocka_unit_test(test_info__takes_whole_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
