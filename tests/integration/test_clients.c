/* SPDX-License-Identifier: MIT */
/* Clients that people use, unchanged: redis-cli, redis-benchmark, redis-py. */
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

/* Run it; it must end with status 0. The caller frees the output. */
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

/* Where the module is not installed this fails: nothing is skipped. */
static const char python[] = "import sys, redis\n"
                             "r = redis.Redis(port=int(sys.argv[1]), socket_timeout=20)\n"
                             "assert r.ping()\n"
                             "bf = r.bf()\n"
                             "assert bf.create('py', 0.001, 5000)\n"
                             "try:\n"
                             "    bf.create('py', 0.001, 5000)\n"
                             "    raise SystemExit('a second BF.RESERVE went through')\n"
                             "except redis.ResponseError as e:\n"
                             "    assert str(e) == 'item exists', str(e)\n"
                             "assert bf.add('py', 'a') == 1\n"
                             "assert bf.add('py', 'a') == 0\n"
                             "assert bf.exists('py', 'a') == 1\n"
                             "assert bf.exists('py', 'b') == 0\n"
                             "assert bf.madd('py', 'a', b'\\x00\\xff', '') == [0, 1, 1]\n"
                             "assert bf.mexists('py', 'a', b'\\x00\\xff', '', 'none') == [1, 1, 1, 0]\n"
                             "assert bf.insert('py2', ['x', 'y'], capacity=700) == [1, 1]\n"
                             "info = bf.info('py')\n"
                             "assert (info.capacity, info.filterNum, info.insertedNum, info.expansionRate) "
                             "== (5000, 1, 3, 2), vars(info)\n"
                             "assert bf.info('py2').capacity == 700\n"
                             "p = r.pipeline()\n"
                             "for i in range(1000):\n"
                             "    p.execute_command('BF.ADD', 'py', 'k%d' % i)\n"
                             "assert len(p.execute()) == 1000\n"
                             "assert all(bf.mexists('py', *['k%d' % i for i in range(1000)]))\n"
                             "print('redis-py', redis.__version__)\n";

static void test_redis_py__works_unchanged(void **state)
{
    (void)state;
    char *output = output_of(ARGV("/usr/bin/python3", "-c", python, port), 60000);
    bool good = strncmp(output, "redis-py ", 9) == 0;
    if (!good)
        (void)fprintf(stderr, "%s", output);
    free(output);
    assert_true(good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_redis_cli__adds_and_checks),
        cmocka_unit_test(test_redis_cli__pipes_a_file_of_commands),
        cmocka_unit_test(test_redis_benchmark__runs_pipelined),
        cmocka_unit_test(test_redis_py__works_unchanged),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
