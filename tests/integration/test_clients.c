/* SPDX-License-Identifier: MIT */
/* Popular clients, unchanged: redis-cli, redis-benchmark, hiredis. Others are in tests/clients. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fixture fixture;
static char port[8];

static int setup(void **state)
{
    (void)state;
    int result = fixture_start(&fixture, &(struct fixture_options){.nodes = 2, .daemons = 1});
    (void)snprintf(port, sizeof(port), "%u", fixture.daemon[0].port);
    return result;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

/* The output of a command, which must exit with status 0. The caller frees it. */
static char *output_of(const char *const argv[], unsigned deadline_ms)
{
    struct error e = {""};
    char *output = NULL;
    int status = -1;
    must(process_run(argv, deadline_ms, &output, &status, &e), e);
    if (status != 0)
        fail_msg("%s ended with status %d: %.800s", argv[0], status, output);
    return output;
}

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})

static void cli_prints(const char *wanted, const char *const argv[])
{
    char *output = output_of(argv, 20000);
    bool same = strcmp(output, wanted) == 0;
    if (!same)
        (void)fprintf(stderr, "wanted: %sgot: %s", wanted, output);
    free(output);
    assert_true(same);
}

static void test_redis_cli__adds_and_checks(void **state)
{
    (void)state;
    cli_prints("PONG\n", ARGV("redis-cli", "-p", port, "PING"));
    cli_prints("OK\n", ARGV("redis-cli", "-p", port, "BF.RESERVE", "cli", "0.001", "1000"));
    cli_prints("(integer) 1\n", ARGV("redis-cli", "--no-raw", "-p", port, "BF.ADD", "cli", "a"));
    cli_prints("(integer) 0\n", ARGV("redis-cli", "--no-raw", "-p", port, "BF.EXISTS", "cli", "b"));
    cli_prints("(true)\n", ARGV("redis-cli", "--no-raw", "-3", "-p", port, "BF.EXISTS", "cli", "a"));
    cli_prints("1) (integer) 1\n2) (integer) 0\n",
               ARGV("redis-cli", "--no-raw", "-p", port, "BF.MEXISTS", "cli", "a", "b"));
    cli_prints("1) (integer) 1000\n",
               ARGV("redis-cli", "--no-raw", "-p", port, "BF.INFO", "cli", "CAPACITY"));
    cli_prints("(error) ERR not found\n", ARGV("redis-cli", "--no-raw", "-p", port, "BF.INFO", "nothere"));
}

static void test_redis_cli__pipes_a_file_of_commands(void **state)
{
    (void)state;
    static const char script[] = "seq 1 3000 | sed 's/.*/BF.ADD piped k&/' | redis-cli -p \"$0\" --pipe";
    char *output = output_of(ARGV("sh", "-c", script, port), 30000);
    bool good = strstr(output, "errors: 0, replies: 3000") != NULL;
    if (!good)
        (void)fprintf(stderr, "%s", output);
    free(output);
    assert_true(good);
    struct error e = {""};
    int64_t n = 0;
    for (int i = 1; i <= 3000; i += 100) {
        must(client_integer(&fixture.client[0], &n, &e, "BF.EXISTS piped k%d", i), e);
        assert_int_equal(n, 1);
    }
}

static void benchmark_runs(const char *const argv[])
{
    char *output = output_of(argv, 60000);
    bool good = strstr(output, "requests per second") != NULL && strstr(output, "rror") == NULL;
    if (!good)
        (void)fprintf(stderr, "%s\n", output);
    free(output);
    assert_true(good);
}

static void test_redis_benchmark__runs_pipelined(void **state)
{
    (void)state;
    benchmark_runs(ARGV("redis-benchmark", "-p", port, "-n", "20000", "-P", "16", "-c", "20", "-q", "PING"));
    benchmark_runs(
        ARGV("redis-benchmark", "-p", port, "-n", "20000", "-P", "16", "-c", "20", "-q", "-t", "ping"));
    benchmark_runs(ARGV("redis-benchmark", "-p", port, "-n", "20000", "-P", "16", "-c", "20", "-q", "-r",
                        "100000", "BF.ADD", "bench", "key:__rand_int__"));
    benchmark_runs(ARGV("redis-benchmark", "-p", port, "-n", "20000", "-P", "16", "-c", "20", "-q", "-r",
                        "100000", "BF.EXISTS", "bench", "key:__rand_int__"));
}

/* The full number of requests needs TWINBLOOM_LONG. */
static void test_redis_benchmark__runs_the_whole_of_its_own_random_keys(void **state)
{
    (void)state;
    const char *n = getenv("TWINBLOOM_LONG") != NULL ? "200000" : "60000";
    benchmark_runs(ARGV("redis-benchmark", "-p", port, "-n", n, "-P", "16", "-c", "50", "-q", "BF.EXISTS",
                        "short-link", "__rand_int__"));
    benchmark_runs(ARGV("redis-benchmark", "-p", port, "-n", n, "-P", "16", "-c", "50", "-q", "-r", "100000",
                        "BF.EXISTS", "short-link", "__rand_int__"));
}

static void test_redis_cli__has_hints_from_command_docs(void **state)
{
    (void)state;
    char *output = output_of(ARGV("redis-cli", "-p", port, "help", "BF.INSERT"), 20000);
    bool good = strstr(output, "filter [CAPACITY capacity] [ERROR error] [EXPANSION expansion] [NOCREATE] "
                               "[NONSCALING] ITEMS key [key ...]") != NULL;
    if (!good)
        (void)fprintf(stderr, "%s\n", output);
    free(output);
    assert_true(good);
    output = output_of(ARGV("redis-cli", "-p", port, "help", "BF.INFO"), 20000);
    good = strstr(output, "filter [CAPACITY|SIZE|FILTERS|ITEMS|EXPANSION]") != NULL;
    free(output);
    assert_true(good);
}

/* --- hiredis --- */

static redisContext *connected(void)
{
    redisContext *c = redisConnectWithTimeout("127.0.0.1", fixture.daemon[0].port, (struct timeval){20, 0});
    assert_true(c != NULL && c->err == 0);
    assert_int_equal(redisSetTimeout(c, (struct timeval){20, 0}), REDIS_OK);
    return c;
}

/* Debian's hiredis only knows RESP2. */
static void test_hiredis__reads_every_type_of_reply_in_a_pipeline(void **state)
{
    (void)state;
    static const struct {
        const char *command;
        int type;
    } rows[] = {{"BF.RESERVE hi 0.01 100 NONSCALING", REDIS_REPLY_STATUS},
                {"BF.ADD hi a", REDIS_REPLY_INTEGER},
                {"BF.MEXISTS hi a b", REDIS_REPLY_ARRAY},
                {"BF.INFO hi", REDIS_REPLY_ARRAY},
                {"CLIENT GETNAME", REDIS_REPLY_NIL},
                {"INFO", REDIS_REPLY_STRING},
                {"BF.INFO none", REDIS_REPLY_ERROR},
                {"MULTI", REDIS_REPLY_STATUS},
                {"BF.ADD hi b", REDIS_REPLY_STATUS},
                {"EXEC", REDIS_REPLY_ARRAY},
                {"PING", REDIS_REPLY_STATUS}};
    enum { ROWS = sizeof(rows) / sizeof(rows[0]) };
    redisContext *c = connected();
    for (size_t i = 0; i < ROWS; i++)
        assert_int_equal(redisAppendCommand(c, rows[i].command), REDIS_OK);
    for (size_t i = 0; i < ROWS; i++) {
        redisReply *r = NULL;
        if (redisGetReply(c, (void **)&r) != REDIS_OK || r->type != rows[i].type)
            fail_msg("%s: type %d", rows[i].command, r != NULL ? r->type : -1);
        freeReplyObject(r);
    }
    redisFree(c);
}

static void test_hiredis__connects_again_after_a_restart(void **state)
{
    (void)state;
    struct error e = {""};
    redisContext *c = connected();
    freeReplyObject(redisCommand(c, "BF.ADD again a"));
    assert_true(daemon_stop(&fixture.daemon[0], 20000));
    must(daemon_launch(&fixture.daemon[0], &e), e);
    assert_null(redisCommand(c, "PING"));
    assert_int_equal(redisReconnect(c), REDIS_OK);
    redisReply *r = redisCommand(c, "BF.EXISTS again a");
    assert_true(r != NULL && r->type == REDIS_REPLY_INTEGER && r->integer == 1);
    freeReplyObject(r);
    redisFree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_redis_cli__adds_and_checks),
        cmocka_unit_test(test_redis_cli__pipes_a_file_of_commands),
        cmocka_unit_test(test_redis_benchmark__runs_pipelined),
        cmocka_unit_test(test_redis_benchmark__runs_the_whole_of_its_own_random_keys),
        cmocka_unit_test(test_redis_cli__has_hints_from_command_docs),
        cmocka_unit_test(test_hiredis__reads_every_type_of_reply_in_a_pipeline),
        cmocka_unit_test(test_hiredis__connects_again_after_a_restart),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
