/* SPDX-License-Identifier: MIT */
/* Nodes of a list come back with older saved data. The processes that added the missing keys write them
 * again. */
#include "tests/integration/healing.h"

#include "base/clock.h"

enum { ROWS = 20000, ADDED = 400, EACH = 50, NODES = 2 };

static struct fixture f;

static int setup(void **state)
{
    (void)state;
    const struct fixture_options o = {.nodes = NODES,
                                      .daemons = 2,
                                      .postgres = true,
                                      .rows = ROWS,
                                      .capacity = 60000,
                                      .rate = "0.001",
                                      .redis_lines = "shard_bytes = 4KiB\n",
                                      .expansion = "lease = 2s\n",
                                      .service = "check_interval = 200ms\ntimeout = 5s\n"};
    return fixture_start(&f, &o);
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&f);
}

/* Save nodes [@first, NODES), add keys by both coordinators, kill the nodes, and start them with the saved
 * data. */
static void go_back(unsigned first)
{
    struct error e = {""};
    for (unsigned i = first; i < NODES; i++) {
        struct client c = {0};
        must(client_open(&c, f.redis[i].port, 10000, &e), e);
        must(client_save(&c, &e), e);
        client_close(&c);
    }
    healing_insert_and_add(&f, 0, ROWS, ADDED / 2, EACH);
    healing_insert_and_add(&f, 1, ROWS + ADDED / 2, ADDED / 2, EACH);
    for (unsigned d = 0; d < 2; d++)
        healing_is_resident(&f, d);
    clock_sleep_us(1500 * 1000); /* until the keys are folded, so that the lanes may not have them any more */
    for (unsigned i = first; i < NODES; i++)
        temp_redis_kill(&f.redis[i]);
    for (unsigned i = first; i < NODES; i++)
        must(temp_redis_restart(&f.redis[i], true, &e), e);
}

static void heals_from_memory(unsigned first)
{
    int64_t generation = fixture_generation(&f, 0);
    go_back(first);
    healing_is_whole(&f, ROWS + ADDED);
    assert_int_equal(fixture_generation(&f, 0), generation);
    for (unsigned i = first; i < NODES; i++)
        healing_accepts(f.redis[0].port, f.redis[i].port);
    clock_sleep_us(1500 * 1000);
    for (unsigned d = 0; d < 2; d++) {
        healing_start_again(&f, d);
        healing_is_whole(&f, ROWS + ADDED);
    }
}

static void test_heal__of_a_node_that_was_restarted_from_an_older_file(void **state)
{
    (void)state;
    heals_from_memory(1);
}

static void test_heal__of_all_nodes_that_were_restarted_from_older_files(void **state)
{
    (void)state;
    heals_from_memory(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_heal__of_a_node_that_was_restarted_from_an_older_file, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_heal__of_all_nodes_that_were_restarted_from_older_files, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
