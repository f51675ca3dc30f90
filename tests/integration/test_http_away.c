/* SPDX-License-Identifier: MIT */
/* HTTP while Redis is away, and while the daemon ends; addresses that cannot be bound. */
#include "tests/integration/fixture.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "tests/lib/http.h"
#include "tests/lib/raw.h"

#define JSON "Content-Type: application/json\r\n"
#define KEYS "{\"keys\":[\"a\"]}"

static struct fixture fixture;

static int setup(void **state)
{
    (void)state;
    if (fixture_start(&fixture,
                      &(struct fixture_options){
                          .nodes = 1, .daemons = 1, .service = "timeout = 1500ms\nhttp_timeout = 3s\n"}) != 0)
        return -1;
    fixture_ask(&fixture, 0, "BF.RESERVE h 0.001 1000");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

static struct http_reply ask(const char *method, const char *path, const char *json)
{
    return http_ask(fixture.daemon[0].http_port, method, path, json);
}

/* Repeat the request until the status is @status. Returns the last answer. */
static struct http_reply wait_for(const char *path, int status)
{
    struct http_reply r = ask("GET", path, NULL);
    for (unsigned i = 0; i < 200 && r.status != status; i++) {
        clock_sleep_us(100 * 1000);
        http_reply_fini(&r);
        r = ask("GET", path, NULL);
    }
    assert_int_equal(r.status, status);
    return r;
}

static void is_not_ready(const char *why)
{
    uint64_t began = clock_mono_us();
    struct http_reply r = ask("GET", "/readyz", NULL);
    assert_int_equal(r.status, 503);
    assert_string_not_equal(http_reply_header(&r, "Retry-After"), "");
    if (strstr(r.body, why) == NULL)
        fail_msg("%s does not say \"%s\"", r.body, why);
    assert_true(clock_mono_us() - began < 3 * 1000 * 1000);
    http_reply_fini(&r);
    r = ask("GET", "/livez", NULL);
    assert_int_equal(r.status, 200);
    http_reply_fini(&r);
}

static void is_refused(int status, int or_status)
{
    static const char *const paths[] = {"/v1/filters/h/check", "/v1/filters/h/add"};
    for (size_t i = 0; i < 2; i++) {
        struct http_reply r = ask("POST", paths[i], KEYS);
        if (r.status != status && r.status != or_status)
            fail_msg("%s: %d: %s", paths[i], r.status, r.body == NULL ? "" : r.body);
        assert_int_equal(strstr(r.body, "nothing was acknowledged") != NULL, i == 1);
        if (r.status == 503)
            assert_string_not_equal(http_reply_header(&r, "Retry-After"), "");
        http_reply_fini(&r);
    }
}

static void is_back(void)
{
    struct http_reply r = wait_for("/readyz", 200);
    http_reply_fini(&r);
    r = ask("POST", "/v1/filters/h/check", KEYS);
    assert_int_equal(r.status, 200);
    http_reply_fini(&r);
}

/* A server that hangs accepts connections. */
static void is_told_what_redis_lacks(void)
{
    static const char why[] = "still waiting for an answer to the login";
    struct http_reply r = ask("GET", "/readyz", NULL);
    for (uint64_t until = clock_mono_us() + 10 * 1000 * 1000; strstr(r.body, why) == NULL;) {
        if (clock_mono_us() > until)
            fail_msg("%s does not say \"%s\"", r.body, why);
        clock_sleep_us(20000);
        http_reply_fini(&r);
        r = ask("GET", "/readyz", NULL);
    }
    http_reply_fini(&r);
    r = ask("POST", "/v1/filters/h/check", KEYS);
    if (strstr(r.body, why) == NULL)
        fail_msg("%s does not say \"%s\"", r.body, why);
    http_reply_fini(&r);
    r = ask("GET", "/v1/filters/h", NULL);
    assert_non_null(strstr(r.body, "\"state\":\"unreachable\""));
    assert_null(strstr(r.body, "\"built\"")); /* nobody knows */
    http_reply_fini(&r);
}

static void test_http__a_redis_that_is_stopped_is_said_in_time(void **state)
{
    (void)state;
    is_back();
    process_signal(&fixture.redis[0].process, SIGSTOP);
    is_not_ready("metadata node");
    is_refused(503, 504);
    is_told_what_redis_lacks();
    process_signal(&fixture.redis[0].process, SIGCONT);
    is_back();
}

/* Read until @text has come @times. False: it did not within a minute. */
static bool hears(int fd, const char *text, unsigned times)
{
    static char all[1 << 20];
    size_t length = 0;
    uint64_t until = clock_mono_us() + 60 * 1000 * 1000;
    while (clock_mono_us() < until && length + 1 < sizeof(all)) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n = poll(&p, 1, 1000) > 0 ? recv(fd, all + length, sizeof(all) - 1 - length, 0) : -1;
        if (n == 0)
            return false;
        length += n > 0 ? (size_t)n : 0;
        all[length] = '\0';
        unsigned count = 0;
        for (const char *at = all; (at = strstr(at, text)) != NULL; at++)
            count++;
        if (count >= times)
            return true;
    }
    return false;
}

/* The page takes silence for a lost connection. */
static void test_http__a_stream_is_not_silent_while_redis_is_waited_for(void **state)
{
    (void)state;
    struct error e = {""};
    struct daemon d;
    must(daemon_start(&d, &(struct daemon_options){.nodes = fixture.node_list, .redis = "timeout = 20s\n"},
                      &e),
         e);
    int fd = raw_open(d.http_port);
    assert_true(raw_puts(fd, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert_true(hears(fd, "\"filters\":true", 1));
    process_signal(&fixture.redis[0].process, SIGSTOP);
    bool ticked = hears(fd, "event: tick", 5);
    process_signal(&fixture.redis[0].process, SIGCONT);
    raw_close(fd);
    assert_true(ticked);
    assert_true(daemon_fini(&d));
}

static void test_http__readiness_is_told_in_time_where_redis_is_waited_for_longer(void **state)
{
    (void)state;
    struct error e = {""};
    struct daemon d;
    must(daemon_start(&d, &(struct daemon_options){.nodes = fixture.node_list, .redis = "timeout = 20s\n"},
                      &e),
         e);
    process_signal(&fixture.redis[0].process, SIGSTOP);
    uint64_t began = clock_mono_us();
    struct http_reply r = http_ask(d.http_port, "GET", "/readyz", NULL);
    uint64_t took = clock_mono_us() - began;
    process_signal(&fixture.redis[0].process, SIGCONT);
    assert_int_equal(r.status, 503);
    assert_non_null(strstr(r.body, "no answer in time"));
    assert_true(took < 5 * 1000 * 1000);
    http_reply_fini(&r);
    assert_true(daemon_fini(&d));
    is_back();
}

static void test_http__a_redis_that_refuses_is_not_ready(void **state)
{
    (void)state;
    struct error e = {""};
    struct client redis;
    must(client_open(&redis, fixture.redis[0].port, 5000, &e), e);
    must(client_ok(&redis, &e, "ACL SETUSER default -ping"), e);
    is_not_ready("no permissions");
    must(client_ok(&redis, &e, "ACL SETUSER default +ping"), e);
    is_back();
    client_close(&redis);
}

/* Nobody may take that for an installation without filters, or wait for a filter that cannot be loaded. */
static void test_http__a_redis_that_refuses_its_keys_is_named(void **state)
{
    (void)state;
    struct error e = {""};
    struct client redis;
    must(client_open(&redis, fixture.redis[0].port, 5000, &e), e);
    must(client_ok(&redis, &e, "ACL SETUSER default resetkeys ~other:*"), e);
    struct http_reply list = ask("GET", "/v1/filters", NULL);
    struct http_reply check = ask("POST", "/v1/filters/fresh/check", KEYS);
    redisReply *status = client_command(&fixture.client[0], "TB.STATUS");
    must(client_ok(&redis, &e, "ACL SETUSER default allkeys"), e);
    if (list.status != 503 || strstr(list.body, "NOPERM") == NULL)
        fail_msg("%d: %s", list.status, list.body);
    if (status == NULL || status->type != REDIS_REPLY_ERROR || strstr(status->str, "NOPERM") == NULL)
        fail_msg("%s", status != NULL && status->str != NULL ? status->str : "no error");
    if (check.status != 504 || strstr(check.body, "NOPERM") == NULL)
        fail_msg("%d: %s", check.status, check.body);
    http_reply_fini(&list);
    http_reply_fini(&check);
    freeReplyObject(status);
    client_close(&redis);
    is_back();
}

static void test_http__others_are_answered_while_redis_is_slow(void **state)
{
    (void)state;
    int slow = raw_open(fixture.daemon[0].http_port), quick = raw_open(fixture.daemon[0].http_port);
    process_signal(&fixture.redis[0].process, SIGSTOP);
    assert_true(http_send(slow, "POST", "/v1/filters/h/check", JSON, KEYS, strlen(KEYS)));
    for (unsigned i = 0; i < 50; i++) {
        uint64_t began = clock_mono_us();
        assert_true(http_send(quick, "GET", "/livez", "", NULL, 0));
        struct http_reply r = http_receive(quick, false);
        assert_int_equal(r.status, 200);
        assert_true(clock_mono_us() - began < 500 * 1000);
        http_reply_fini(&r);
    }
    struct http_reply r = http_receive(slow, false);
    assert_in_range(r.status, 503, 504);
    http_reply_fini(&r);
    process_signal(&fixture.redis[0].process, SIGCONT);
    is_back();
    raw_close(slow);
    raw_close(quick);
}

/* A cached answer is given until it expires, and not longer. */
static void test_http__shards_of_a_redis_that_is_gone_are_not_made_up(void **state)
{
    (void)state;
    struct error e = {""};
    struct client redis;
    is_back();
    struct http_reply r = ask("GET", "/v1/filters/h/shards", NULL);
    assert_int_equal(r.status, 200);
    http_reply_fini(&r);
    must(client_open(&redis, fixture.redis[0].port, 5000, &e), e);
    must(client_save(&redis, &e), e);
    client_close(&redis);
    temp_redis_kill(&fixture.redis[0]);
    r = wait_for("/v1/filters/h/shards", 503);
    assert_string_not_equal(http_reply_header(&r, "Retry-After"), "");
    assert_null(strstr(r.body, "generations"));
    assert_non_null(strstr(r.body, "Redis"));
    http_reply_fini(&r);
    must(temp_redis_restart(&fixture.redis[0], true, &e), e);
    is_back();
    r = wait_for("/v1/filters/h/shards", 200);
    http_reply_fini(&r);
}

static void test_http__a_redis_that_is_gone_is_said_and_comes_back(void **state)
{
    (void)state;
    struct error e = {""};
    temp_redis_kill(&fixture.redis[0]);
    is_not_ready("metadata node");
    is_refused(503, 504);
    struct http_reply r = ask("POST", "/v1/filters", "{\"name\":\"new\",\"capacity\":10}");
    assert_int_equal(r.status, 503);
    http_reply_fini(&r);
    must(temp_redis_restart(&fixture.redis[0], false, &e), e);
    r = wait_for("/readyz", 200);
    http_reply_fini(&r);
    r = ask("POST", "/v1/filters", "{\"name\":\"new\",\"capacity\":10}");
    assert_int_equal(r.status, 201);
    http_reply_fini(&r);
}

static void test_http__what_is_in_flight_is_answered_when_the_daemon_ends(void **state)
{
    (void)state;
    struct error e = {""};
    int idle = raw_open(fixture.daemon[0].http_port), busy = raw_open(fixture.daemon[0].http_port);
    process_signal(&fixture.redis[0].process, SIGSTOP);
    char line[256];
    assert_true(raw_puts(busy,
                         "POST /v1/filters/new/check HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n" JSON
                         "Content-Length: 14\r\n\r\n"));
    assert_true(raw_read_until(busy, "\r\n\r\n", line,
                               sizeof(line))); /* the daemon has received the head of the request */
    assert_true(raw_puts(busy, KEYS));
    uint64_t began = clock_mono_us();
    process_signal(&fixture.daemon[0].process, SIGTERM);
    assert_true(raw_expect_close(idle));
    assert_true(clock_mono_us() - began < 2 * 1000 * 1000); /* idle connections are not waited for */
    struct http_reply r = http_receive(busy, false);
    assert_in_range(r.status, 503, 504);
    assert_string_equal(http_reply_header(&r, "Connection"), "close");
    http_reply_fini(&r);
    assert_true(raw_expect_close(busy));
    raw_close(idle);
    raw_close(busy);
    process_signal(&fixture.redis[0].process, SIGCONT);
    must(process_wait(&fixture.daemon[0].process, 20000, &e), e);
    assert_int_equal(process_exit_status(&fixture.daemon[0].process), 0);
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
}

/* The daemon ends, and says that @key = 127.0.0.1:@port is in use. */
static void expect_taken(struct daemon *d, const struct daemon_options *o, const char *key, uint16_t port)
{
    struct error e = {""};
    char *log = NULL, expected[96];
    int status = 0;
    must(daemon_rewrite(d, o, &e), e);
    /* of two -c the last one counts, so the daemon runs as usual */
    must(daemon_run(d, "-c/dev/null", &log, &status, &e), e);
    assert_int_equal(status, 1);
    (void)snprintf(expected, sizeof(expected),
                   "%s = 127.0.0.1:%u: Address already in use; choose another address", key, port);
    if (strstr(log, expected) == NULL)
        fail_msg("%s", log);
    free(log);
}

static void test_http__a_taken_address_is_said_and_none_is_fine(void **state)
{
    (void)state;
    struct error e = {""};
    struct daemon d;
    const struct daemon_options options = {.nodes = fixture.node_list};
    must(daemon_prepare(&d, &options, &e), e);
    uint16_t free_http = d.http_port, free_port = d.port;
    d.http_port = fixture.daemon[0].http_port;
    expect_taken(&d, &options, "http", d.http_port);
    d.http_port = free_http;
    d.port = fixture.daemon[0].port;
    expect_taken(&d, &options, "listen", d.port);
    d.port = free_port;
    FILE *f = fopen(d.config, "we");
    assert_non_null(f);
    (void)fprintf(f, "[service]\nlisten = 127.0.0.1:%u\nhttp =\n[redis]\nnodes = %s\n", d.port,
                  fixture.node_list);
    assert_int_equal(fclose(f), 0);
    must(daemon_launch(&d, &e), e);
    int fd = raw_open(free_http);
    assert_true(fd < 0);
    assert_true(daemon_fini(&d));
}

/* A failed test may have left Redis stopped. */
static int let_redis_go_on(void **state)
{
    (void)state;
    process_signal(&fixture.redis[0].process, SIGCONT);
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, let_redis_go_on)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_http__a_redis_that_is_stopped_is_said_in_time),
        TEST(test_http__a_stream_is_not_silent_while_redis_is_waited_for),
        TEST(test_http__readiness_is_told_in_time_where_redis_is_waited_for_longer),
        TEST(test_http__a_redis_that_refuses_is_not_ready),
        TEST(test_http__a_redis_that_refuses_its_keys_is_named),
        TEST(test_http__others_are_answered_while_redis_is_slow),
        TEST(test_http__shards_of_a_redis_that_is_gone_are_not_made_up),
        TEST(test_http__a_redis_that_is_gone_is_said_and_comes_back),
        TEST(test_http__what_is_in_flight_is_answered_when_the_daemon_ends),
        TEST(test_http__a_taken_address_is_said_and_none_is_fine),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
