/* SPDX-License-Identifier: MIT */
/* A rebuild while the view does not accept the replication id of a node with shards yet, because a stopped
 * writer has to answer first. */
#include "tests/integration/fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 3000, MORE = 100, WAIT_US = 3 * 1000 * 1000 };

static struct fixture f;

static int setup(void **state)
{
    (void)state;
    const struct fixture_options o = {.nodes = 2,
                                      .daemons = 2,
                                      .postgres = true,
                                      .rows = ROWS,
                                      .capacity = 10000,
                                      .rate = "0.001",
                                      .grace = "1s",
                                      .redis_lines = "shard_bytes = 4KiB\n", /* shards on both nodes */
                                      .service = "check_interval = 200ms\n"};
    return fixture_start(&f, &o);
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&f);
}

static unsigned count_of(const char *text)
{
    unsigned count = 0;
    char *log = process_log(&f.daemon[0].process);
    for (const char *at = strstr(log, text); at != NULL; at = strstr(at + 1, text))
        count++;
    free(log);
    return count;
}

/* The job waits: another job, or a second scan, would meet the same. */
static void test_rebuild__beside_a_node_whose_id_is_not_accepted_waits(void **state)
{
    struct error e = {""};
    struct client node;
    (void)state;
    must(client_madd(&f.client[1], FILTER, fixture_code, ROWS, MORE, &e), e); /* coordinator 1 is a writer */
    fixture_insert(f.db, ROWS, MORE);
    fixture_ask(&f, 0, "TB.REBUILD " FILTER " HOLD FULL");
    fixture_wait(&f, 0, "job_step", "hold");
    int64_t before = fixture_generation(&f, 0);
    unsigned jobs = count_of(" event=job_started"), scans = count_of(" event=scan_done");
    process_signal(&f.daemon[1].process, SIGSTOP);
    must(client_open(&node, f.redis[1].port, 5000, &e), e);
    must(client_ok(&node, &e, "REPLICAOF 127.0.0.1 1"), e); /* no server there: the node keeps its data */
    must(client_ok(&node, &e, "REPLICAOF NO ONE"), e);
    client_close(&node);
    fixture_ask(&f, 0, "TB.CUTOVER " FILTER);
    clock_sleep_us(WAIT_US);
    jobs = count_of(" event=job_started") - jobs;
    scans = count_of(" event=scan_done") - scans;
    process_signal(&f.daemon[1].process, SIGCONT);
    print_message("%u jobs, %u scans\n", jobs, scans);
    assert_in_range(jobs, 0, 1);
    assert_in_range(scans, 0, 1);
    fixture_wait(&f, 0, "phase", "STEADY");
    assert_int_not_equal(fixture_generation(&f, 0), before);
    fixture_all_present(&f, 0, 0, ROWS + MORE);
    fixture_all_present(&f, 1, 0, ROWS + MORE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rebuild__beside_a_node_whose_id_is_not_accepted_waits, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
