/* SPDX-License-Identifier: MIT */
/* Maps of shards, samples, and nodes by HTTP. */
#include "tests/integration/fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/http.h"

enum { WAIT_MS = 60000 };

static struct fixture fixture;

static const struct fixture_options options = {.nodes = 1,
                                               .daemons = 1,
                                               .redis_lines = "shard_bytes = 4KiB\ntimeout = 300ms\n",
                                               .command = "BF.RESERVE h 0.001 20000"};

static void ask_any(const char *command)
{
    redisReply *r = client_command(&fixture.client[0], command);
    assert_non_null(r);
    assert_int_not_equal(r->type, REDIS_REPLY_ERROR);
    freeReplyObject(r);
}

/* A sample is taken every 10 s. */
static void test_samples__have_what_was_asked_of_the_filter(void **state)
{
    (void)state;
    bool has = false;
    fixture_ask(&fixture, 0, "BF.RESERVE asked 0.0001 1000");
    ask_any("BF.MADD asked a b");
    ask_any("BF.MEXISTS asked a absent absent2");
    for (uint64_t end = clock_mono_us() + 15000000; !has && clock_mono_us() < end; clock_sleep_us(100000)) {
        ask_any("TB.STATUS asked");
        struct http_reply r =
            http_ask(fixture.daemon[0].http_port, "GET", "/v1/filters/asked/samples?count=1", NULL);
        assert_int_equal(r.status, 200);
        const char *list = strstr(r.body, "\"samples\":[[");
        assert_non_null(list);
        assert_null(strstr(list, "],["));
        has = strstr(list, ",3,1,2]]}") != NULL;
        http_reply_fini(&r);
    }
    assert_true(has);
    assert_int_equal(
        http_status(fixture.daemon[0].http_port, "GET", "/v1/filters/asked/samples?count=0", "", NULL), 422);
}

static void test_shards__tells_how_full_each_is(void **state)
{
    (void)state;
    uint16_t port = fixture.daemon[0].http_port;
    struct http_reply r = http_ask(port, "GET", "/v1/filters/h/shards", NULL);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.body, "\"shards_per_cell\":1,\"fill_permille\":["));
    assert_non_null(strstr(r.body, "\"lost\":[]"));
    http_reply_fini(&r);
    assert_int_equal(http_status(fixture.daemon[0].http_port, "GET", "/v1/filters/none/shards", "", NULL),
                     404);
    assert_int_equal(http_status(fixture.daemon[0].http_port, "GET", "/v1/filters/none/samples", "", NULL),
                     404);
}

/* The first sample comes within 10 s. */
static void test_samples__come_of_each_filter(void **state)
{
    (void)state;
    bool there = false;
    for (uint64_t end = clock_mono_us() + 15000000; !there && clock_mono_us() < end; clock_sleep_us(50000)) {
        struct http_reply r = http_ask(fixture.daemon[0].http_port, "GET", "/v1/filters/h/samples", NULL);
        assert_int_equal(r.status, 200);
        there = strstr(r.body, "\"interval_seconds\":10,\"samples\":[[") != NULL;
        http_reply_fini(&r);
    }
    assert_true(there);
}

static void test_nodes__tells_of_each_what_it_says_and_how_it_fares(void **state)
{
    (void)state;
    char name[64];
    struct http_reply r = http_ask(fixture.daemon[0].http_port, "GET", "/v1/nodes", NULL);
    (void)snprintf(name, sizeof(name), "{\"nodes\":[{\"node\":\"127.0.0.1:%u\",\"state\":\"up\",",
                   fixture.redis[0].port);
    assert_int_equal(r.status, 200);
    if (strstr(r.body, name) == NULL || strstr(r.body, "\"maxmemory_bytes\":0,") == NULL)
        fail_msg("%s is not in %s", name, r.body);
    const char *used = strstr(r.body, "\"used_bytes\":");
    assert_true(used != NULL && strtoul(used + strlen("\"used_bytes\":"), NULL, 10) > 100000);
    http_reply_fini(&r);
}

static void test_shards__names_those_that_are_lost(void **state)
{
    (void)state;
    char command[512];
    uint64_t until = clock_mono_us() + (uint64_t)WAIT_MS * 1000;
    (void)snprintf(command, sizeof(command),
                   "redis-cli -p %u --scan --pattern '*{h.1.0.1}:*' | xargs -n1 redis-cli -p %u DEL",
                   fixture.redis[0].port, fixture.redis[0].port);
    const char *const argv[] = {"sh", "-c", command, NULL};
    char *output = NULL;
    int status = -1;
    struct error e = {""};
    must(process_run(argv, WAIT_MS, &output, &status, &e), e);
    free(output);
    for (bool told = false; !told;
         clock_sleep_us(200 * 1000)) { /* checks find the loss, the controller looks */
        assert_true(clock_mono_us() < until);
        for (unsigned i = 0; i < 50; i++) {
            (void)snprintf(command, sizeof(command), "BF.EXISTS h key%u", i);
            freeReplyObject(client_command(&fixture.client[0], command));
        }
        struct http_reply r = http_ask(fixture.daemon[0].http_port, "GET", "/v1/filters/h/shards", NULL);
        assert_int_equal(r.status, 200);
        told = strstr(r.body, "\"lost\":[[1,1]]") != NULL;
        http_reply_fini(&r);
    }
}

/* A user with the role read must not be able to occupy the admin thread. */
static void test_shards__are_not_read_again_at_once_where_that_took_long(void **state)
{
    (void)state;
    static const char path[] = "/v1/filters/fresh-shards/shards";
    uint64_t until = clock_mono_us() + (uint64_t)WAIT_MS * 1000;
    fixture_ask(&fixture, 0, "BF.RESERVE fresh-shards 0.01 100");
    for (bool refused = false; !refused;) {
        assert_true(clock_mono_us() < until);
        process_signal(&fixture.redis[0].process, SIGSTOP); /* the read takes the timeout of a command */
        (void)http_status(fixture.daemon[0].http_port, "GET", path, "Connection: close\r\n", NULL);
        process_signal(&fixture.redis[0].process, SIGCONT);
        struct http_reply r = http_ask(fixture.daemon[0].http_port, "GET", path, NULL);
        refused = r.status == 503 && strstr(r.body, "were read just now") != NULL;
        if (refused)
            assert_string_equal(http_reply_header(&r, "Retry-After"), "1");
        http_reply_fini(&r);
    }
    while (http_status(fixture.daemon[0].http_port, "GET", path, "Connection: close\r\n", NULL) != 200) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(100 * 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples__have_what_was_asked_of_the_filter),
        cmocka_unit_test(test_shards__tells_how_full_each_is),
        cmocka_unit_test(test_samples__come_of_each_filter),
        cmocka_unit_test(test_nodes__tells_of_each_what_it_says_and_how_it_fares),
        cmocka_unit_test(test_shards__names_those_that_are_lost),
        cmocka_unit_test(test_shards__are_not_read_again_at_once_where_that_took_long),
    };
    struct fixture_options o = options;
    o.redis_lines = "resident_memory = 0\n"; /* without memory, or the lost shard would come back from it */
    return fixture_run_tests(&fixture, &o, tests);
}
