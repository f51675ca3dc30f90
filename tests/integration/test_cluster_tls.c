/* SPDX-License-Identifier: MIT */
/* A cluster with TLS only, towards coordinators, on its bus and to its replicas: checks, adds, a rebuild, a
 * failover. */
#include "tests/integration/traffic.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 20000, ADDED = 500, CAPACITY = 100000, WRITES_MAX = 3000, WAIT_MS = 60000 };

static struct fixture f;

static int setup(void **state)
{
    (void)state;
    const struct fixture_options o = {.masters = 3,
                                      .replicas = 3,
                                      .tls = true,
                                      .daemons = 2,
                                      .postgres = true,
                                      .rows = ROWS,
                                      .capacity = CAPACITY,
                                      .rate = "0.001",
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

/* Count a node's clients with and without TLS, except this fixture's own. */
static void count_clients(unsigned node, unsigned *with, unsigned *without)
{
    char tls[32];
    (void)snprintf(tls, sizeof(tls), "127.0.0.1:%s", f.cluster.tls_port[node]);
    redisReply *r = client_command(&f.cluster.client[node], "CLIENT LIST TYPE normal");
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    *with = *without = 0;
    for (const char *line = r->str; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        char text[400];
        (void)snprintf(text, sizeof(text), "%.*s", (int)strcspn(line, "\n"), line);
        if (strstr(text, "name=twinbloom") == NULL)
            continue;
        char local[48];
        (void)snprintf(local, sizeof(local), "laddr=%s ", tls);
        *(strstr(text, local) != NULL ? with : without) += 1;
    }
    freeReplyObject(r);
}

static void test_tls_cluster__is_checked_added_to_and_rebuilt(void **state)
{
    (void)state;
    struct error e = {""};
    unsigned with, without;
    fixture_insert(f.db, ROWS, ADDED);
    must(client_madd(&f.client[0], FILTER, fixture_code, ROWS, ADDED, &e), e);
    int64_t generation = fixture_generation(&f, 0);
    fixture_ask(&f, 1, "TB.REBUILD " FILTER);
    must(client_wait_status_least(&f.client[0], FILTER, "generation", generation + 1, WAIT_MS, &e), e);
    fixture_wait(&f, 0, "phase", "STEADY");
    for (unsigned d = 0; d < 2; d++) {
        fixture_all_present(&f, d, 0, ROWS + ADDED);
        assert_in_range(fixture_false_positives(&f, d, 10000), 0, 60);
    }
    for (unsigned i = 0; i < 3; i++) {
        count_clients(i, &with, &without);
        assert_true(with > 0);
        assert_int_equal(without, 0);
    }
}

static void test_tls_cluster__fails_over_under_traffic(void **state)
{
    (void)state;
    static struct traffic t;
    struct error e = {""};
    unsigned heir = 0;
    traffic_begin(&t, &f, ROWS + ADDED, WRITES_MAX);
    clock_sleep_us(500000);
    temp_redis_kill(&f.cluster.node[0]);
    enum err err = temp_cluster_failed_over(&f.cluster, 0, WAIT_MS, &heir, &e);
    clock_sleep_us(1000000);
    if (err == ERR_OK)
        err = client_wait_status(&f.client[0], FILTER, "degraded", "0", WAIT_MS, &e);
    if (err == ERR_OK)
        err = client_wait_status(&f.client[1], FILTER, "degraded", "0", WAIT_MS, &e);
    traffic_end(&t);
    must(err, e);
    traffic_judge(&t, true);
    must(temp_cluster_mend(&f.cluster, WAIT_MS, &e), e);
    fixture_ask(&f, 0, "TB.REBUILD " FILTER);
    fixture_wait(&f, 0, "phase", "BUILDING");
    fixture_wait(&f, 0, "phase", "STEADY");
    fixture_all_present(&f, 1, 0, ROWS + ADDED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tls_cluster__is_checked_added_to_and_rebuilt),
        cmocka_unit_test(test_tls_cluster__fails_over_under_traffic),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
