/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "shard/nodes.h"

static struct nodes nodes;

static void test_nodes_parse__reads_every_part(void **state)
{
    (void)state;
    struct error e;
    static const char text[] = " redis://127.0.0.1 ,redis://app:p%40ss%2c%3A%25@db-1.example:7001/3,\n"
                               "redis://:secret@[::1]:6400/ , redis://[fe80::1]";
    if (nodes_parse(&nodes, text, &e) != ERR_OK)
        fail_msg("%s", e.text);
    assert_int_equal(nodes.count, 4);
    const struct node *n = nodes.node;
    assert_string_equal(n[0].name, "127.0.0.1:6379");
    assert_string_equal(n[0].host, "127.0.0.1");
    assert_true(n[0].port == 6379 && n[0].database == 0 && n[0].user[0] == '\0' && n[0].password[0] == '\0');
    assert_string_equal(n[1].name, "db-1.example:7001");
    assert_string_equal(n[1].user, "app");
    assert_string_equal(n[1].password, "p@ss,:%");
    assert_true(n[1].port == 7001 && n[1].database == 3);
    assert_string_equal(n[2].name, "[::1]:6400");
    assert_string_equal(n[2].host, "::1");
    assert_string_equal(n[2].user, "");
    assert_string_equal(n[2].password, "secret");
    assert_string_equal(n[3].name, "[fe80::1]:6379");
}

static void test_nodes_parse__refuses_what_it_does_not_understand(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        ",",
        "redis://a,",
        "redis://a,,redis://b",
        "127.0.0.1:6379",
        "rediss://a",
        "redis://",
        "redis://:6379",
        "redis://a:",
        "redis://a:0",
        "redis://a:65536",
        "redis://a:1x",
        "redis://a/x",
        "redis://a/-1",
        "redis://a/1/2",
        "redis://a/1?x=1",
        "redis://a/99999999999",
        "redis://[::1",
        "redis://[]:1",
        "redis://[::1]x",
        "redis://[::1]6379",
        "redis://::1",
        "redis://user@a",
        "redis://u:@a",
        "redis://u:%zz@a",
        "redis://u:%4@a",
        "redis://u:%@a",
        "redis://u:%00@a",
        "redis://u:a%00b@a",
        "redis://a b",
        "redis://a;b",
        "redis://a redis://b",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct error e = {0};
        if (nodes_parse(&nodes, bad[i], &e) != ERR_PARSE)
            fail_msg("accepted: %s", bad[i]);
        assert_true(strlen(e.text) > 0);
    }
}

static void test_nodes_parse__never_shows_a_password(void **state)
{
    (void)state;
    static const char *const bad[] = {"redis://u:hunter2@a:0", "redis://hunter2@a", "redis://u:hunter2%@a",
                                      "redis://u:hunter2@a,redis://u:hunter2@a", "redis://u:hunter2@"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct error e;
        assert_int_equal(nodes_parse(&nodes, bad[i], &e), ERR_PARSE);
        assert_null(strstr(e.text, "hunter2"));
    }
}

static void test_nodes_parse__refuses_doubles_and_too_many_and_too_long(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(nodes_parse(&nodes, "redis://a/1, redis://A:6379/2", &e), ERR_PARSE);
    assert_non_null(strstr(e.text, "twice"));

    char many[4096];
    size_t used = 0;
    for (unsigned i = 0; i <= GENERATION_NODES_MAX; i++) {
        if (i == GENERATION_NODES_MAX)
            assert_int_equal(nodes_parse(&nodes, many, &e), ERR_OK);
        used += (size_t)snprintf(many + used, sizeof(many) - used, "%sredis://host:%u", i == 0 ? "" : ",",
                                 1000 + i);
    }
    assert_int_equal(nodes_parse(&nodes, many, &e), ERR_PARSE);

    char host[400];
    for (unsigned length = 1; length < 300; length++) {
        (void)snprintf(host, sizeof(host), "redis://%0*d:65535", (int)length, 0);
        enum err err = nodes_parse(&nodes, host, &e);
        assert_true(err == ERR_PARSE || strlen(nodes.node[0].name) == length + 6);
        assert_int_equal(err, length < 88 ? ERR_OK : ERR_PARSE);
        (void)snprintf(host, sizeof(host), "redis://u:%0*d@a", (int)length, 0);
        assert_int_equal(nodes_parse(&nodes, host, &e), length < 128 ? ERR_OK : ERR_PARSE);
        (void)snprintf(host, sizeof(host), "redis://%0*d:p@a", (int)length, 0);
        assert_int_equal(nodes_parse(&nodes, host, &e), length < 64 ? ERR_OK : ERR_PARSE);
    }
}

static void test_placement__follows_the_pinned_order_whatever_is_configured_now(void **state)
{
    (void)state;
    static struct generation g;
    assert_int_equal(nodes_parse(&nodes, "redis://a, redis://b, redis://c", NULL), ERR_OK);
    nodes_pin(&nodes, &g);
    assert_int_equal(g.node_count, 3);
    assert_string_equal(g.nodes[2], "c:6379");

    /* Another order and one node more: shard 1 is still on b. */
    assert_int_equal(nodes_parse(&nodes, "redis://d, redis://c, redis://b, redis://a", NULL), ERR_OK);
    struct placement p;
    struct error e;
    assert_int_equal(placement_resolve(&p, &g, &nodes, &e), ERR_OK);
    static const unsigned expected[] = {3, 2, 1, 3, 2, 1};
    for (uint32_t shard = 0; shard < 6; shard++)
        assert_int_equal(placement_node(&p, shard), expected[shard]);

    assert_int_equal(nodes_parse(&nodes, "redis://a, redis://b", NULL), ERR_OK);
    assert_int_equal(placement_resolve(&p, &g, &nodes, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "c:6379"));
    g.node_count = 0;
    assert_int_equal(placement_resolve(&p, &g, &nodes, &e), ERR_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_parse__reads_every_part),
        cmocka_unit_test(test_nodes_parse__refuses_what_it_does_not_understand),
        cmocka_unit_test(test_nodes_parse__never_shows_a_password),
        cmocka_unit_test(test_nodes_parse__refuses_doubles_and_too_many_and_too_long),
        cmocka_unit_test(test_placement__follows_the_pinned_order_whatever_is_configured_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
