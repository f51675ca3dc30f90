/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "shard/redis/nodes/cluster.h"
#include "shard/redis/nodes/nodes.h"

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
        "http://a",
        "redis+unix:///a",
        "rediss://",
        "rediss://a/x",
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

static void test_nodes_parse__reads_tls_and_sockets(void **state)
{
    (void)state;
    struct error e;
    static const char text[] =
        "rediss://app:s@Redis.example:6390/2, rediss://[::1], unix:///run/redis/a.sock ,"
        "UNIX://u%3a:p%2fw%40@/run/b%2c%3b.sock?db=7";
    assert_int_equal(nodes_parse(&nodes, text, &e), ERR_PARSE);
    assert_non_null(strstr(e.text, "node 4"));
    assert_non_null(strstr(e.text, "commas"));
    static const char good[] =
        "rediss://app:s@Redis.example:6390/2, rediss://[::1], unix:///run/redis/a.sock ,"
        "UNIX://u%3a:p%2fw%40@/run/b%20.sock?db=7";
    assert_int_equal(nodes_parse(&nodes, good, &e), ERR_PARSE); /* a path with a blank */
    static const char best[] =
        "rediss://app:s@Redis.example:6390/2, rediss://[::1], unix:///run/redis/a.sock ,"
        "UNIX://u%3a:p%2fw%40@/run/b%25%3f.sock?db=7, unix://:q@/c, unix://r@/d?password=t&db=1,"
        "unix:///e?db=2&password=%3fu, unix:///f?db=0";
    if (nodes_parse(&nodes, best, &e) != ERR_OK)
        fail_msg("%s", e.text);
    assert_int_equal(nodes.count, 8);
    assert_true(nodes_use_tls(&nodes));
    const struct node *n = nodes.node;
    assert_string_equal(n[0].name, "Redis.example:6390");
    assert_true(n[0].tls && n[0].port == 6390 && n[0].database == 2 && n[0].path[0] == '\0');
    assert_string_equal(n[0].user, "app");
    assert_string_equal(n[1].name, "[::1]:6379");
    assert_true(n[1].tls);
    assert_string_equal(n[2].name, "/run/redis/a.sock");
    assert_string_equal(n[2].path, n[2].name);
    assert_true(!n[2].tls && n[2].database == 0 && n[2].user[0] == '\0' && n[2].password[0] == '\0');
    assert_string_equal(n[3].path, "/run/b%?.sock");
    assert_string_equal(n[3].user, "u:");
    assert_string_equal(n[3].password, "p/w@");
    assert_int_equal(n[3].database, 7);
    assert_string_equal(n[4].password, "q");
    assert_string_equal(n[4].user, "");
    assert_string_equal(n[5].user, "r");
    assert_string_equal(n[5].password, "t");
    assert_int_equal(n[5].database, 1);
    assert_string_equal(n[6].password, "?u");
    assert_int_equal(n[6].database, 2);
    assert_int_equal(nodes_parse(&nodes, "redis://a, unix:///b", &e), ERR_OK);
    assert_false(nodes_use_tls(&nodes));
}

static void test_nodes_parse__refuses_sockets_that_cannot_be(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "unix://",
        "unix://a",
        "unix://a/b",
        "unix://u:p@",
        "unix://u:p@a",
        "unix://u@/a",
        "unix://@/a",
        "unix://:@/a",
        "unix://u:@/a",
        "unix://%zz@/a?password=x",
        "unix:///a?",
        "unix:///a?db",
        "unix:///a?db=",
        "unix:///a?db=x",
        "unix:///a?db=-1",
        "unix:///a?db=99999999999",
        "unix:///a?db=1&",
        "unix:///a?db=1&x=2",
        "unix:///a?password=",
        "unix:///a%00b",
        "unix:///a%0ab",
        "unix:///a%zz",
        "unix:///a;b",
        "unix:///a b",
        "unix:///\xc3\xa4",
        "unix:///a, unix:///a",
        "unix:///a?db=1, unix:///%61?db=2",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct error e = {0};
        if (nodes_parse(&nodes, bad[i], &e) != ERR_PARSE)
            fail_msg("accepted: %s", bad[i]);
        assert_true(strlen(e.text) > 0);
    }
    char path[200];
    for (unsigned length = 1; length < 150; length++) {
        (void)snprintf(path, sizeof(path), "unix:///%0*d", (int)length, 0);
        assert_int_equal(nodes_parse(&nodes, path, NULL), length + 1 < NODE_NAME_MAX ? ERR_OK : ERR_PARSE);
    }
}

/* Paths are case-sensitive, names of hosts are not. */
static void test_placement__knows_sockets_by_their_paths(void **state)
{
    (void)state;
    static struct generation g, back;
    struct placement p;
    struct error e;
    struct names names;
    assert_int_equal(names_init(&names, "p", "f", 1, &e), ERR_OK);
    assert_int_equal(nodes_parse(&nodes, "unix:///run/a, unix:///run/A, redis://H", &e), ERR_OK);
    nodes_pin(&nodes, &g);
    g.number = 1;
    g.built = true;
    g.capacity = 1;
    g.error_rate = 0.5;
    g.layer_count = 1;
    g.layers[0] = (struct layer){.capacity = 1, .error_rate = 0.5};
    assert_int_equal(geometry_plan(&g.layers[0].geometry, 1, 0.5, SHARD_BYTES_DEFAULT, &e), ERR_OK);
    char text[GENERATION_TEXT_MAX];
    size_t length = generation_text(&g, text);
    if (generation_parse(&back, text, length, &e) != ERR_OK)
        fail_msg("%s: %s", text, e.text);
    assert_string_equal(back.nodes[1], "/run/A");
    assert_int_equal(nodes_parse(&nodes, "rediss://h, unix:///run/A, unix:///run/a", &e), ERR_OK);
    assert_int_equal(placement_resolve(&p, &names, &back, &nodes, &e), ERR_OK);
    assert_int_equal(placement_where(&p, 0, 0), 2);
    assert_int_equal(placement_where(&p, 0, 1), 1);
    assert_int_equal(placement_where(&p, 0, 2), 0);
    assert_int_equal(nodes_parse(&nodes, "rediss://h, unix:///run/b, unix:///run/a", &e), ERR_OK);
    assert_int_equal(placement_resolve(&p, &names, &back, &nodes, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "/run/A"));
}

static void test_nodes_parse__never_shows_a_password(void **state)
{
    (void)state;
    static const char *const bad[] = {"redis://u:hunter2@a:0",
                                      "redis://hunter2@a",
                                      "redis://u:hunter2%@a",
                                      "redis://u:hunter2@a,redis://u:hunter2@a",
                                      "redis://u:hunter2@",
                                      "unix://u:hunter2@a",
                                      "unix:///a?password=hunter2&x=1",
                                      "unix:///a?db=hunter2"};
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
    struct names names;
    struct error e;
    assert_int_equal(names_init(&names, "p", "f", 1, &e), ERR_OK);
    assert_int_equal(placement_resolve(&p, &names, &g, &nodes, &e), ERR_OK);
    static const unsigned expected[] = {3, 2, 1, 3, 2, 1};
    for (uint32_t shard = 0; shard < 6; shard++)
        assert_int_equal(placement_where(&p, 0, shard), expected[shard]);

    assert_int_equal(nodes_parse(&nodes, "redis://a, redis://b", NULL), ERR_OK);
    assert_int_equal(placement_resolve(&p, &names, &g, &nodes, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "c:6379"));
    g.node_count = 0;
    assert_int_equal(placement_resolve(&p, &names, &g, &nodes, &e), ERR_CONFIG);
}

static void expect_choice(const char *list, unsigned count, const unsigned *expected)
{
    struct placement p;
    struct error e = {""};
    if (placement_choose(&p, &nodes, list, &e) != ERR_OK)
        fail_msg("%s: %s", list, e.text);
    assert_int_equal(p.count, count);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(p.node[i], expected[i]);
}

static void test_placement_choose__takes_names_in_the_order_of_the_list(void **state)
{
    (void)state;
    assert_int_equal(nodes_parse(&nodes, "redis://a, redis://b:7000, redis://u:p@[::1]:7001/3", NULL),
                     ERR_OK);
    static const unsigned all[] = {0, 1, 2}, turned[] = {2, 0};
    expect_choice("", 3, all);
    expect_choice("  ", 3, all);
    expect_choice("[::1]:7001 ,A", 2, turned);
    expect_choice("[::1]:7001,a:6379", 2, turned);
}

static void test_placement_choose__refuses_what_is_not_configured_or_there_twice(void **state)
{
    (void)state;
    assert_int_equal(nodes_parse(&nodes, "redis://a, redis://b:7000", NULL), ERR_OK);
    static const struct {
        const char *list, *says;
    } rows[] = {{"a,c", "'c'"}, {"b", "'b'"},        {"a,a:6379", "twice"}, {"a,", "''"},
                {",", "''"},    {"redis://a", "//"}, {"a b", "'a b'"}};
    struct placement p;
    struct error e = {""};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(placement_choose(&p, &nodes, rows[i].list, &e), ERR_CONFIG);
        if (strstr(e.text, rows[i].says) == NULL)
            fail_msg("%s: %s", rows[i].list, e.text);
    }
    char long_name[2 * NODE_NAME_MAX];
    memset(long_name, 'x', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    assert_int_equal(placement_choose(&p, &nodes, long_name, &e), ERR_CONFIG);
}

static void test_placement_choose__takes_sockets_by_their_paths(void **state)
{
    (void)state;
    struct placement p;
    static const unsigned turned[] = {1, 0};
    assert_int_equal(nodes_parse(&nodes, "unix:///run/a.sock, redis://b", NULL), ERR_OK);
    expect_choice("b, /run/a.sock", 2, turned);
    assert_int_equal(placement_choose(&p, &nodes, "/run/A.sock", NULL), ERR_CONFIG);
}

/* A cluster is chosen as a whole, or not at all. */
static void test_placement_choose__leaves_a_cluster_to_its_slots(void **state)
{
    (void)state;
    static struct nodes cluster;
    static struct generation g;
    struct placement p;
    struct error e = {""};
    assert_int_equal(nodes_parse(&nodes, "redis://a, redis://b", NULL), ERR_OK);
    cluster = (struct nodes){.cluster = cluster_new(&nodes)};
    assert_non_null(cluster.cluster);
    assert_int_equal(placement_choose(&p, &cluster, " ", NULL), ERR_OK);
    assert_int_equal(p.count, 0);
    assert_int_equal(placement_nodes(&p, &cluster), 1); /* the masters are not known yet */
    placement_pin(&p, &cluster, &g);
    assert_int_equal(g.node_count, 1);
    assert_string_equal(g.nodes[0], "cluster");
    assert_string_equal(placement_name(&p, &cluster, 0), "cluster");
    assert_null(placement_name(&p, &cluster, 1));
    assert_int_equal(placement_choose(&p, &cluster, "a:6379", &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "cannot be chosen in a Redis Cluster"));
    cluster_free(cluster.cluster);
}

static void test_placement_pin__spreads_shards_evenly_over_the_chosen(void **state)
{
    (void)state;
    static struct generation g;
    struct placement chosen, p;
    assert_int_equal(nodes_parse(&nodes, "redis://a, redis://b, redis://c", NULL), ERR_OK);
    assert_int_equal(placement_choose(&chosen, &nodes, "c,b", NULL), ERR_OK);
    placement_pin(&chosen, &nodes, &g);
    assert_int_equal(g.node_count, 2);
    assert_string_equal(g.nodes[0], "c:6379");
    assert_string_equal(g.nodes[1], "b:6379");
    struct names names;
    assert_int_equal(names_init(&names, "p", "f", 1, NULL), ERR_OK);
    assert_int_equal(placement_resolve(&p, &names, &g, &nodes, NULL), ERR_OK);
    assert_int_equal(placement_nodes(&p, &nodes), 2);
    unsigned on[3] = {0};
    for (uint32_t shard = 0; shard < 7; shard++)
        on[placement_where(&p, 0, shard)]++;
    assert_int_equal(on[0], 0);
    assert_int_equal(on[1], 3);
    assert_int_equal(on[2], 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_parse__reads_every_part),
        cmocka_unit_test(test_nodes_parse__refuses_what_it_does_not_understand),
        cmocka_unit_test(test_nodes_parse__reads_tls_and_sockets),
        cmocka_unit_test(test_nodes_parse__refuses_sockets_that_cannot_be),
        cmocka_unit_test(test_placement__knows_sockets_by_their_paths),
        cmocka_unit_test(test_nodes_parse__never_shows_a_password),
        cmocka_unit_test(test_nodes_parse__refuses_doubles_and_too_many_and_too_long),
        cmocka_unit_test(test_placement_choose__takes_names_in_the_order_of_the_list),
        cmocka_unit_test(test_placement_choose__refuses_what_is_not_configured_or_there_twice),
        cmocka_unit_test(test_placement_choose__takes_sockets_by_their_paths),
        cmocka_unit_test(test_placement_choose__leaves_a_cluster_to_its_slots),
        cmocka_unit_test(test_placement_pin__spreads_shards_evenly_over_the_chosen),
        cmocka_unit_test(test_placement__follows_the_pinned_order_whatever_is_configured_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
