/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include "shard/redis/nodes/health.h"

enum { CAME_AND_WENT = 2000 };

static struct nodes nodes;

static int setup(void **state)
{
    (void)state;
    nodes = (struct nodes){.count = 1, .health = node_health_new()};
    return nodes.health != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    node_health_free(nodes.health);
    return 0;
}

static struct node named(unsigned i)
{
    struct node n = {.port = 1};
    (void)snprintf(n.name, sizeof(n.name), "10.0.%u.%u:6379", i / 256, i % 256);
    return n;
}

static struct node_health_figures read_of(unsigned i)
{
    struct node_health_figures f;
    nodes.node[0] = named(i);
    assert_true(node_health_read(&nodes, 0, &f));
    return f;
}

/* Each node has its own address, fails once and disconnects. */
static void come_and_go(unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++) {
        struct node n = named(i);
        node_health_opened(&nodes, &n);
        node_health_failed(&nodes, &n, "gone");
        node_health_closed(&nodes, &n);
    }
}

static void test_health__forgets_nodes_that_are_long_gone(void **state)
{
    (void)state;
    unsigned known = 0;
    come_and_go(0, CAME_AND_WENT);
    for (unsigned i = 0; i < CAME_AND_WENT; i++)
        known += read_of(i).failures != 0;
    assert_int_equal(known, NODE_HEALTH_ROWS);
    assert_int_equal(read_of(CAME_AND_WENT - 1).failures, 1); /* the latest nodes are kept */
    assert_int_equal(read_of(CAME_AND_WENT - NODE_HEALTH_ROWS).failures, 1);
}

static void test_health__keeps_a_node_that_somebody_uses_or_misses(void **state)
{
    (void)state;
    struct node used = named(CAME_AND_WENT), missed = named(CAME_AND_WENT + 1);
    node_health_opened(&nodes, &used);
    node_health_down(&nodes, &missed, true);
    come_and_go(0, CAME_AND_WENT);
    assert_int_equal(read_of(CAME_AND_WENT).connections, 1);
    assert_int_equal(read_of(CAME_AND_WENT + 1).loops_down, 1);
    node_health_closed(&nodes, &used);
    node_health_down(&nodes, &missed, false);
    come_and_go(0, CAME_AND_WENT);
    assert_int_equal(read_of(CAME_AND_WENT).failures, 0);
}

static void test_health__keeps_all_nodes_that_are_in_use(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * NODE_HEALTH_ROWS; i++) {
        struct node n = named(i);
        node_health_opened(&nodes, &n);
    }
    for (unsigned i = 0; i < 2 * NODE_HEALTH_ROWS; i++)
        assert_int_equal(read_of(i).connections, 1);
}

/* Threads that connect for themselves have no event loop that could miss the node. */
static void test_health__calls_a_node_down_that_was_never_reached(void **state)
{
    (void)state;
    struct node n = named(0);
    struct node_health_figures f = read_of(0);
    assert_string_equal(node_health_state(&f), "unused");
    node_health_failed(&nodes, &n, "Connection refused");
    f = read_of(0);
    assert_string_equal(node_health_state(&f), "down");
    node_health_opened(&nodes, &n);
    f = read_of(0);
    assert_string_equal(node_health_state(&f), "up");
    node_health_closed(&nodes, &n);
    f = read_of(0);
    assert_string_equal(node_health_state(&f), "unused");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_health__forgets_nodes_that_are_long_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_health__keeps_a_node_that_somebody_uses_or_misses, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_health__keeps_all_nodes_that_are_in_use, setup, teardown),
        cmocka_unit_test_setup_teardown(test_health__calls_a_node_down_that_was_never_reached, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
