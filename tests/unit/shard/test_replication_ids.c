/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "shard/redis/wire/replication.h"

#define ZEROS "0000000000000000000000000000000000000000"
#define ID_A "aaaaaaaaaaaaaaa1bbbbbbbbbbbbbbbbbbbbbbbb"
#define ID_B "00000000000000b2cccccccccccccccccccccccc"

static void add(struct replications *s, uint64_t id)
{
    struct error e;
    const struct replication one = {.id = id};
    assert_int_equal(replications_add(s, &one, &e), ERR_OK);
}

static void test_parse_info__reads_role_and_ids(void **state)
{
    (void)state;
    struct replication l = {0};
    struct error e;
    static const char master[] = "# Replication\r\nrole:master\r\nconnected_slaves:1\r\nmaster_replid:" ID_A
                                 "\r\nmaster_replid2:" ZEROS "\r\nmaster_repl_offset:0\r\n";
    static const char all[] =
        "# Server\r\nrun_id:" ID_B "\r\n# Replication\r\nrole:master\r\nmaster_replid:" ID_A
        "\r\nmaster_replid2:" ID_B "\r\n# Keyspace\r\ndb0:keys=1,expires=0\r\n";
    static const char replica[] = "role:slave\r\nmaster_replid:" ID_A "\r\n";
    assert_int_equal(replication_parse_info(&l, master, strlen(master), &e), ERR_OK);
    assert_true(l.id == 0xaaaaaaaaaaaaaaa1 && !l.promoted && l.run == 0);
    assert_int_equal(replication_parse_info(&l, all, strlen(all), &e), ERR_OK);
    assert_true(l.promoted && l.run == 0xb2);
    assert_int_equal(replication_parse_info(&l, all, (size_t)(strstr(all, "db0") - all), &e), ERR_OK);
    assert_int_equal(replication_parse_info(&l, replica, strlen(replica), &e), ERR_OK);
    assert_true(l.id == 0);
}

static void test_parse_info__refuses_what_does_not_tell(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "role:master\r\n",
                                      "master_replid:" ID_A "\r\n",
                                      "role:master\r\nmaster_replid:xyz\r\n",
                                      "role:master\r\nmaster_replid:" ZEROS,
                                      "role:master\r\nxmaster_replid:" ID_A,
                                      "role:master\r\nmaster_replid"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct replication l = {0};
        if (replication_parse_info(&l, bad[i], strlen(bad[i]), NULL) != ERR_PARSE)
            fail_msg("'%s' is taken", bad[i]);
    }
}

static void parse(struct replication *out, const char *run, const char *more)
{
    char text[512];
    (void)snprintf(text, sizeof(text), "run_id:%s\r\n%srole:master\r\nmaster_replid:" ID_A "\r\n", run, more);
    assert_int_equal(replication_parse_info(out, text, strlen(text), NULL), ERR_OK);
}

static void test_goes_on__where_the_same_process_received_nothing(void **state)
{
    (void)state;
    static const char *const broken[] = {
        "", /* Redis 6.2 */
        "total_net_repl_input_bytes:8\r\n",
        "total_net_repl_input_bytes:x\r\n",
        "total_net_repl_input_bytes:7\r\ncmdstat_config|resetstat:calls=1\r\n",
        ("total_net_repl_input_bytes:7\r\nmaster_replid2:" ID_B "\r\n"),
    };
    struct replication was = {0}, now = {0};
    parse(&was, ID_B, "total_net_repl_input_bytes:7\r\n");
    assert_int_equal(was.received, 7);
    parse(&now, ID_B, "total_net_repl_input_bytes:7\r\ncmdstat_config|get:calls=1\r\n");
    assert_true(replication_goes_on(&was, &now));
    parse(&now, ID_A, "total_net_repl_input_bytes:7\r\n");
    assert_false(replication_goes_on(&was, &now));
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        parse(&now, ID_B, broken[i]);
        if (replication_goes_on(&was, &now))
            fail_msg("'%s' goes on", broken[i]);
    }
    parse(&was, ID_B, "");
    parse(&now, ID_B, "");
    assert_true(was.received == REPLICATION_UNCOUNTED && !replication_goes_on(&was, &now));
    was = now = (struct replication){0};
    assert_false(replication_goes_on(&was, &now));
}

static void test_set__is_a_set(void **state)
{
    (void)state;
    struct replications a = {0};
    add(&a, 1);
    add(&a, 2);
    add(&a, 1);
    assert_int_equal(a.count, 2);
    add(&a, 0); /* two nodes that do not answer count as two */
    add(&a, 0);
    assert_int_equal(a.count, 4);
    replications_fini(&a);
}

static void test_set__has_a_bound(void **state)
{
    (void)state;
    struct replications a = {0};
    struct error e;
    for (uint64_t i = 1; i <= REPLICATIONS_MAX; i++)
        add(&a, i);
    const struct replication one = {.id = REPLICATIONS_MAX + 1};
    assert_int_equal(replications_add(&a, &one, &e), ERR_RANGE);
    replications_fini(&a);
}

static void test_trusted__has_a_bound(void **state)
{
    (void)state;
    static char text[(REPLICATIONS_MAX + 1) * (REPLICATION_ID_DIGITS + 1) + 1];
    static struct trusted t;
    size_t length = 0;
    for (int i = 1; i <= REPLICATIONS_MAX; i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, i == 1 ? "%016x" : " %016x", i);
    assert_true(trusted_parse(&t, text, length));
    assert_true(t.count == REPLICATIONS_MAX && trusted_contains(&t, REPLICATIONS_MAX) &&
                !trusted_contains(&t, REPLICATIONS_MAX + 1));
    assert_true(trusted_add(&t, REPLICATIONS_MAX) && !trusted_add(&t, REPLICATIONS_MAX + 1));
    length += (size_t)snprintf(text + length, sizeof(text) - length, " 0000000000000fff");
    assert_false(trusted_parse(&t, text, length));
}

static void test_trusted__reads_ids(void **state)
{
    (void)state;
    static const char text[] = "00000000000000ab ffffffffffffffff";
    static struct trusted t;
    assert_true(trusted_parse(&t, text, strlen(text)));
    assert_true(t.count == 2 && trusted_contains(&t, 0xab) && trusted_contains(&t, UINT64_MAX));
}

/* Processes that find the same masters in different orders must get the same list. */
static void test_trusted__has_one_order(void **state)
{
    (void)state;
    static const uint64_t found[][4] = {{3, 1, 2, 1}, {1, 2, 3, 3}, {2, 2, 3, 1}, {3, 2, 1, 2}};
    for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++) {
        static struct trusted t;
        t.count = 0;
        for (size_t k = 0; k < 4; k++)
            assert_true(trusted_add(&t, found[i][k]));
        assert_true(t.count == 3 && t.id[0] == 1 && t.id[1] == 2 && t.id[2] == 3);
    }
}

static void test_trusted__is_strict(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      " ",
                                      "--",
                                      "ab",
                                      "00000000000000ab ",
                                      " 00000000000000ab",
                                      "00000000000000ab,00000000000000ac",
                                      "00000000000000ab  00000000000000ac",
                                      "00000000000000abc",
                                      "000000000000000g",
                                      "0000000000000000"};
    static struct trusted t;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (trusted_parse(&t, bad[i], strlen(bad[i])))
            fail_msg("'%s' is taken", bad[i]);
}

static void test_trusted__trusts_none_where_no_view_has_said(void **state)
{
    (void)state;
    static struct trusted t;
    assert_false(trusted_contains(&t, 7));
    assert_true(trusted_parse(&t, "-", 1));
    assert_false(trusted_contains(&t, 7));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_info__reads_role_and_ids),
        cmocka_unit_test(test_parse_info__refuses_what_does_not_tell),
        cmocka_unit_test(test_goes_on__where_the_same_process_received_nothing),
        cmocka_unit_test(test_set__is_a_set),
        cmocka_unit_test(test_set__has_a_bound),
        cmocka_unit_test(test_trusted__has_a_bound),
        cmocka_unit_test(test_trusted__reads_ids),
        cmocka_unit_test(test_trusted__has_one_order),
        cmocka_unit_test(test_trusted__is_strict),
        cmocka_unit_test(test_trusted__trusts_none_where_no_view_has_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
