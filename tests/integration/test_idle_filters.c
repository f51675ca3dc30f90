/* SPDX-License-Identifier: MIT */
/* Many filters that nobody asks for: what they cost Redis, and that they are looked at all the same. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { NODES = 2, FILTERS = 60, LOOKS = 6 * FILTERS, DEADLINE_MS = 60000, STEP_US = 50000 };

static struct fixture fixture;
static struct client node[NODES];

static int setup(void **state)
{
    struct error e = {""};
    (void)state;
    int result = fixture_start(&fixture, &(struct fixture_options){.nodes = NODES, .daemons = 1});
    for (unsigned i = 0; i < NODES; i++)
        must(client_open(&node[i], fixture.redis[i].port, DEADLINE_MS, &e), e);
    for (unsigned i = 0; i < FILTERS; i++) {
        int64_t n = 0;
        must(client_ok(&fixture.client[0], &e, "BF.RESERVE idle-%u 0.01 1000", i), e);
        must(client_integer(&fixture.client[0], &n, &e, "BF.ADD idle-%u key", i), e);
        assert_int_equal(n, 1);
    }
    return result;
}

static int teardown(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        client_close(&node[i]);
    return fixture_stop(&fixture);
}

/* How often node @i has executed @command, in lower case. */
static uint64_t calls(unsigned i, const char *command)
{
    char field[64];
    redisReply *r = client_command(&node[i], "INFO commandstats");
    int length = snprintf(field, sizeof(field), "cmdstat_%s:calls=", command);
    const char *at = strstr(r->str, field);
    uint64_t n = at == NULL ? 0 : strtoull(at + length, NULL, 10);
    freeReplyObject(r);
    return n;
}

/* Wait until the view of each filter has been read a few times on average. */
static void await_looks(void)
{
    uint64_t until = clock_mono_us() + DEADLINE_MS * 1000ull, from = calls(0, "hgetall");
    while (calls(0, "hgetall") - from < LOOKS && clock_mono_us() < until)
        clock_sleep_us(STEP_US);
    assert_true(calls(0, "hgetall") - from >= LOOKS);
}

/* A look at a filter reads its view, and asks all masters what they name, and who they are. Looks that are
 * due at nearly one time ask each master once who it is. */
static void test_looks_at_many_filters__share_what_they_ask_of_a_node(void **state)
{
    (void)state;
    await_looks(); /* all filters are loaded, and folded */
    uint64_t views = calls(0, "hgetall"), info[NODES];
    for (unsigned i = 0; i < NODES; i++)
        info[i] = calls(i, "info");
    await_looks();
    views = calls(0, "hgetall") - views;
    for (unsigned i = 0; i < NODES; i++)
        assert_true(calls(i, "info") - info[i] < views);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_looks_at_many_filters__share_what_they_ask_of_a_node),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
