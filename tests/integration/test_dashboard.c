/* SPDX-License-Identifier: MIT */
/* usage: test_dashboard PROGRAM ARGUMENT... Runs tests/clients/dashboard.js against two coordinators of one
 * filter with a source: the first without a login, the second with users. Their addresses are in TWINBLOOM_*
 * in its environment. The script writes TAP. Exit status 77: it could not run here (no chromium, no
 * playwright-core). */
#include "tests/integration/script.h"

#include <stdio.h>

enum { ROWS = 30000, DEADLINE_MS = 500000 };

/* The passwords are the users' names; the stranger has the reader's. */
#define CHIEF_HASH "$y$j75$Ut2YzVcSvEB42z36Gz9X.1$6HMjJGfH6NrjGa6XqYopA5RoNdAGExQob2S1ZQwanW5"
#define READER_HASH "$y$j75$u4DBRzkt/c9yLvd8lcV3m/$zwnOmrN9qr4LuShmqpE9dXFXwYkncYKW2j1NgyY5sl0"
#define USERS                                                                                                \
    "[user chief]\npassword = " CHIEF_HASH "\nroles = admin\n[user reader]\npassword = " READER_HASH         \
    "\nroles = read\nfilters = short*\n"                                                                     \
    "[user stranger]\npassword = " READER_HASH "\nroles = read\nfilters = nothing-*\n"
#define FILTER_LINES                                                                                         \
    "[filter " FILTER                                                                                        \
    "]\ncapacity = 40000\nerror_rate = 0.001\ntable = short_link\nid_column = id\nkey = code\n"              \
    "where = deleted_at IS NULL\ngrace = 600s\nfollow = no\n"

static const char *const *program;
static struct fixture fixture;
static struct daemon guarded;

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    if (fixture_start(&fixture, &(struct fixture_options){.nodes = 2,
                                                          .daemons = 1,
                                                          .postgres = true,
                                                          .rows = ROWS,
                                                          .capacity = 40000,
                                                          .rate = "0.001",
                                                          .grace = "600s",
                                                          .redis_lines = "shard_bytes = 4KiB\n",
                                                          .service = "timeout = 10s\n"}) != 0)
        return -1;
    const struct daemon_options options = {.nodes = fixture.node_list,
                                           .dsn = fixture.postgres.dsn,
                                           .redis = "shard_bytes = 4KiB\n",
                                           .filters = FILTER_LINES USERS};
    must(daemon_start(&guarded, &options, &e), e);
    static const char *const evil[] = {"BF.RESERVE", "<img src=x onerror=alert(1)>", "0.01", "1000"};
    static const size_t lengths[] = {10, 28, 4, 4};
    freeReplyObject(client_argv(&fixture.client[0], 4, evil, lengths));
    fixture_ask(&fixture, 0, "BF.RESERVE sessions 0.01 5000");
    fixture_ask(&fixture, 0, "BF.RESERVE visitors 0.001 200000");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bool clean = daemon_fini(&guarded);
    return fixture_stop(&fixture) == 0 && clean ? 0 : -1;
}

static void test_dashboard__passes_its_checks_in_a_browser(void **state)
{
    (void)state;
    script_set_port("TWINBLOOM_PORT", fixture.daemon[0].port);
    script_set_port("TWINBLOOM_HTTP_PORT", fixture.daemon[0].http_port);
    script_set_port("TWINBLOOM_GUARDED_HTTP_PORT", guarded.http_port);
    script_run(program, fixture.daemon[0].directory, DEADLINE_MS, NULL, NULL);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        (void)fputs("usage: test_dashboard PROGRAM ARGUMENT...\n", stderr);
        return 2;
    }
    program = (const char *const *)argv + 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dashboard__passes_its_checks_in_a_browser)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
