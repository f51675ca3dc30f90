/* SPDX-License-Identifier: MIT */
/* What clients that have not logged in cost in memory, however much they send. */
#include "tests/integration/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/raw.h"

enum { STRANGERS = 32, STRANGER_BYTES = 64 * 1024, SLACK = 2 * 1024 * 1024 };

static struct fixture fixture;

static int setup(void **state)
{
    (void)state;
    memory_count_what_is_held();
    return fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .daemons = 1}) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

static void costs_little(const char *first, const char *again, size_t again_length)
{
    int fds[STRANGERS];
    size_t before = memory_now(&fixture);
    memory_reset_peak(&fixture);
    for (size_t i = 0; i < STRANGERS; i++) {
        fds[i] = raw_open(fixture.daemon[0].port);
        assert_true(fds[i] >= 0);
    }
    memory_pour(fds, STRANGERS, first, again, again_length);
    size_t peak = memory_peak(&fixture), grown = peak > before ? peak - before : 0;
    if (grown > (size_t)STRANGERS * STRANGER_BYTES + SLACK)
        fail_msg("%.20s: %d connections cost %zu KiB, %zu KiB each", first[0] != '\0' ? first : again,
                 STRANGERS, grown / 1024, grown / STRANGERS / 1024);
    for (size_t i = 0; i < STRANGERS; i++)
        raw_close(fds[i]);
}

static void test_stranger__costs_little_whatever_it_sends(void **state)
{
    (void)state;
    static char bytes[1 << 16], bulk[16384 + 64];
    fixture_ask(&fixture, 0, "CONFIG SET password s3cret");
    costs_little("PING\r\n", "PING\r\n", 6); /* the first one in a process: what it needs once */
    size_t length = 0;
    while (length + 6 <= sizeof(bytes)) {
        memcpy(bytes + length, "PING\r\n", 6);
        length += 6;
    }
    costs_little("", bytes, length);
    costs_little("AUTH wrong\r\n", bytes, length);
    memset(bytes, 'x', sizeof(bytes));
    costs_little("", bytes, sizeof(bytes)); /* a line without an end */
    costs_little("*", "1", 1);              /* a header without one */
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = i % 2 == 0 ? 'x' : ' ';
    bytes[8000] = '\n';
    costs_little("", bytes, sizeof(bytes)); /* a line of many words */
    int n = snprintf(bulk, sizeof(bulk), "$16384\r\n");
    memset(bulk + n, 'x', 16384);
    memcpy(bulk + n + 16384, "\r\n", 3);
    costs_little("*10\r\n", bulk, (size_t)n + 16384 + 2);
    fixture_reconnect(&fixture, 0);
    fixture_ask(&fixture, 0, "AUTH s3cret");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stranger__costs_little_whatever_it_sends),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
