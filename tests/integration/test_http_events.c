/* SPDX-License-Identifier: MIT */
/* The stream of events. */
#include "tests/integration/fixture.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "tests/lib/http.h"
#include "tests/lib/raw.h"

enum { WAIT_MS = 60000, CLIENTS_MAX = 12, STREAMS_MAX = CLIENTS_MAX / 2, HEARD_MAX = 1 << 20, MANY = 150 };

#define STREAM "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define READER_HASH "$y$j75$u4DBRzkt/c9yLvd8lcV3m/$zwnOmrN9qr4LuShmqpE9dXFXwYkncYKW2j1NgyY5sl0"
#define AS_READER "Authorization: Basic cmVhZGVyOnJlYWRlcg==\r\n"

static struct fixture fixture;

static const struct fixture_options options = {.nodes = 1,
                                               .daemons = 1,
                                               .redis_lines = "shard_bytes = 4KiB\ntimeout = 300ms\n",
                                               .service = "http_timeout = 2s\n"
                                                          "http_max_clients = 12\n",
                                               .command = "BF.RESERVE h 0.001 20000"};

/* --- a listener --- */

struct listener {
    int fd;
    size_t length;
    char text[HEARD_MAX];
};

static struct listener heard;

static void open_stream(struct listener *l, const char *request)
{
    l->fd = raw_open(fixture.daemon[0].http_port);
    assert_true(l->fd >= 0);
    l->length = 0;
    l->text[0] = '\0';
    assert_true(raw_puts(l->fd, request));
}

static void close_stream(struct listener *l)
{
    raw_close(l->fd);
    l->fd = -1;
}

/* Read from the stream. False: the stream has ended, or nothing came in time. */
static bool hear(struct listener *l, int timeout_ms)
{
    struct pollfd p = {.fd = l->fd, .events = POLLIN};
    if (l->length + 1 >= sizeof(l->text)) { /* keep only the end of the text */
        memmove(l->text, l->text + HEARD_MAX / 2, l->length - HEARD_MAX / 2);
        l->length -= HEARD_MAX / 2;
    }
    if (poll(&p, 1, timeout_ms) <= 0)
        return false;
    ssize_t n = recv(l->fd, l->text + l->length, sizeof(l->text) - 1 - l->length, 0);
    if (n <= 0)
        return false;
    l->length += (size_t)n;
    l->text[l->length] = '\0';
    return true;
}

/* Wait until @text comes after @from bytes. Returns where @text ends. */
static size_t hears(struct listener *l, size_t from, const char *text)
{
    uint64_t until = clock_mono_us() + (uint64_t)WAIT_MS * 1000;
    while (clock_mono_us() < until) {
        const char *at = strstr(l->text + from, text);
        if (at != NULL)
            return (size_t)(at - l->text) + strlen(text);
        if (!hear(l, WAIT_MS))
            break;
    }
    fail_msg("\"%s\" does not come; what came ends in: %s", text,
             l->length > 600 ? l->text + l->length - 600 : l->text);
    return 0;
}

static void ends(struct listener *l)
{
    uint64_t until = clock_mono_us() + (uint64_t)WAIT_MS * 1000;
    while (clock_mono_us() < until && hear(l, WAIT_MS)) {
    }
    assert_true(clock_mono_us() < until);
}

/* --- the stream --- */

static void test_events__tells_all_at_first_and_then_what_changed(void **state)
{
    (void)state;
    open_stream(&heard, STREAM);
    size_t at = hears(&heard, 0, "text/event-stream");
    (void)hears(&heard, 0, "Cache-Control: no-store");
    at = hears(&heard, at, "\"filter\":\"h\"");
    at = hears(&heard, at, "event: nodes");
    at = hears(&heard, at, "event: coordinators");
    at = hears(&heard, at, "\"redis\":\"ok\",\"filters\":true");
    fixture_ask(&fixture, 0, "BF.RESERVE fresh 0.01 100");
    at = hears(&heard, at, "\"filter\":\"fresh\"");
    struct error e = {""};
    int64_t one = 0;
    must(client_integer(&fixture.client[0], &one, &e, "BF.ADD fresh k"), e);
    at = hears(&heard, at, "\"keys\":1,");
    must(client_integer(&fixture.client[0], &one, &e, "DEL fresh"), e);
    at = hears(&heard, at, "event: gone\ndata: {\"filter\":\"fresh\"}");
    (void)hears(&heard, at, "event: tick");
    close_stream(&heard);
}

/* A page drops the filters that were not listed when it learns that all were listed. */
static void test_events__say_that_all_filters_were_told_once_they_were(void **state)
{
    (void)state;
    open_stream(&heard, STREAM);
    (void)hears(&heard, 0, "\"filters\":true");
    close_stream(&heard);
    clock_sleep_us(1500 * 1000); /* by then the daemon has noticed that there is no listener */
    open_stream(&heard, STREAM);
    (void)hears(&heard, 0, "\"filters\":true");
    const char *filter = strstr(heard.text, "event: filter");
    assert_non_null(filter);
    assert_true(filter < strstr(heard.text, "\"filters\":true"));
    close_stream(&heard);
}

static void test_events__does_not_end_with_the_time_of_a_request(void **state)
{
    (void)state;
    open_stream(&heard, STREAM);
    uint64_t until = clock_mono_us() + 5 * 1000 * 1000; /* longer than http_timeout, which is 2 s */
    while (clock_mono_us() < until)
        assert_true(hear(&heard, WAIT_MS));
    close_stream(&heard);
}

static void test_events__outlives_redis(void **state)
{
    (void)state;
    struct error e = {""};
    open_stream(&heard, STREAM);
    size_t at = hears(&heard, 0, "\"redis\":\"ok\",\"filters\":true");
    temp_redis_stop(&fixture.redis[0]);
    for (;;) { /* until a tick reports that Redis is away */
        at = hears(&heard, at, "\"redis\":\"");
        while (heard.length < at + 3)
            assert_true(hear(&heard, WAIT_MS));
        if (strncmp(heard.text + at, "ok\"", 3) != 0)
            break;
    }
    (void)hears(&heard, 0, "\"state\":\"down\"");
    must(temp_redis_restart(&fixture.redis[0], true, &e), e);
    (void)hears(&heard, at, "\"redis\":\"ok\",\"filters\":true");
    close_stream(&heard);
    fixture_ask(&fixture, 0, options.command); /* Redis came back empty */
}

static void test_events__are_no_more_than_half_of_the_connections(void **state)
{
    (void)state;
    static struct listener some[STREAMS_MAX];
    for (unsigned i = 0; i < STREAMS_MAX; i++) {
        open_stream(&some[i], STREAM);
        (void)hears(&some[i], 0, "event: tick");
    }
    assert_int_equal(
        http_status(fixture.daemon[0].http_port, "GET", "/v1/events", "Connection: close\r\n", NULL), 503);
    assert_int_equal(http_status(fixture.daemon[0].http_port, "GET", "/livez", "Connection: close\r\n", NULL),
                     200);
    for (unsigned i = 0; i < STREAMS_MAX; i++)
        close_stream(&some[i]);
    uint64_t until = clock_mono_us() + (uint64_t)WAIT_MS * 1000;
    for (bool again = false; !again;) { /* until the daemon has noticed that the listeners left */
        assert_true(clock_mono_us() < until);
        open_stream(&heard, STREAM);
        assert_true(hear(&heard, WAIT_MS));
        again = strncmp(heard.text, "HTTP/1.1 200", 12) == 0;
        close_stream(&heard);
        clock_sleep_us(100 * 1000);
    }
}

static void wait_for_log(const char *text)
{
    uint64_t until = clock_mono_us() + (uint64_t)WAIT_MS * 1000;
    for (bool there = false; !there; clock_sleep_us(100 * 1000)) {
        char *log = process_log(&fixture.daemon[0].process);
        there = log != NULL && strstr(log, text) != NULL;
        free(log);
        if (!there && clock_mono_us() > until)
            fail_msg("the log does not say %s", text);
    }
}

static void make_many(void)
{
    char command[128];
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(command, sizeof(command), "BF.RESERVE many-%u-%080u 0.01 100", i, i);
        fixture_ask(&fixture, 0, command);
    }
}

static void test_events__cuts_off_who_does_not_read(void **state)
{
    (void)state;
    static const int small = 2048;
    make_many(); /* more than socket buffers hold */
    open_stream(&heard, "");
    assert_int_equal(setsockopt(heard.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    assert_true(raw_puts(heard.fd, STREAM));
    wait_for_log("http_stream_closed");
    ends(&heard);
    assert_null(strstr(heard.text, "event: end"));
    close_stream(&heard);
    assert_int_equal(http_status(fixture.daemon[0].http_port, "GET", "/livez", "Connection: close\r\n", NULL),
                     200);
}

static void test_events__does_not_keep_what_is_sent_to_it(void **state)
{
    (void)state;
    static char much[1 << 20];
    open_stream(&heard, STREAM);
    size_t at = hears(&heard, 0, "event: tick");
    memset(much, 'x', sizeof(much));
    (void)send(heard.fd, much, sizeof(much), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)hears(&heard, at, "event: tick");
    close_stream(&heard);
}

static void test_events__have_an_id_and_are_counted(void **state)
{
    (void)state;
    open_stream(&heard, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: page-1\r\n\r\n");
    (void)hears(&heard, 0, "X-Request-Id: page-1\r\n");
    close_stream(&heard);
    struct http_reply r = http_ask(fixture.daemon[0].http_port, "GET", "/metrics", NULL);
    if (strstr(r.body, "http_requests_total{method=\"GET\",route=\"/v1/events\",code=\"200\"}") == NULL)
        fail_msg("streams are not counted in %s", r.body);
    http_reply_fini(&r);
}

static void test_events__of_a_head_is_a_head(void **state)
{
    (void)state;
    int fd = raw_open(fixture.daemon[0].http_port);
    assert_true(http_send(fd, "HEAD", "/v1/events", "", NULL, 0));
    struct http_reply r = http_receive(fd, true);
    assert_int_equal(r.status, 200);
    assert_string_equal(http_reply_header(&r, "Content-Type"), "text/event-stream");
    http_reply_fini(&r);
    raw_close(fd);
}

/* --- traffic --- */

static void ask_any(const char *command)
{
    redisReply *r = client_command(&fixture.client[0], command);
    assert_non_null(r);
    assert_int_not_equal(r->type, REDIS_REPLY_ERROR);
    freeReplyObject(r);
}

/* The figures of traffic events, in this order; the last one is the sum of duration_us. */
enum { REQUESTS, FAILED, CHECKS, MAYBE, ADDS, DURATIONS, FIGURES };

/* Wait for the next traffic event after @from bytes. Returns where it ends. */
static size_t hears_traffic(struct listener *l, size_t from, uint64_t figure[FIGURES])
{
    static const char *const names[] = {
        "\"requests\":", "\"failed\":", "\"checks\":", "\"maybe\":", "\"adds\":", "\"duration_us\":["};
    size_t at = hears(l, from, "event: traffic\ndata: {"), end = hears(l, at, "]}");
    const char *p = l->text + at;
    assert_int_equal(strncmp(p, "\"read_at\":", 10), 0);
    for (unsigned i = 0; i < FIGURES; i++) {
        char *behind = NULL;
        p = strstr(p, names[i]);
        assert_non_null(p);
        p += strlen(names[i]);
        figure[i] = 0;
        do {
            figure[i] += strtoull(p, &behind, 10);
            p = behind + 1;
        } while (i == DURATIONS && *behind == ',');
    }
    return end;
}

static void test_events__tell_of_requests_and_answers(void **state)
{
    (void)state;
    uint64_t before[FIGURES], after[FIGURES];
    fixture_ask(&fixture, 0, "BF.RESERVE counted 0.0001 1000");
    open_stream(&heard, STREAM);
    size_t at = hears_traffic(&heard, 0, before);
    ask_any("BF.MADD counted a b");
    ask_any("BF.MEXISTS counted a b absent");
    assert_int_equal(http_status(fixture.daemon[0].http_port, "POST", "/v1/filters/counted/check",
                                 "Content-Type: application/json\r\n", "{\"keys\":[\"a\"]}"),
                     200);
    do
        at = hears_traffic(&heard, at, after);
    while (after[CHECKS] < before[CHECKS] + 4);
    close_stream(&heard);
    assert_int_equal(after[REQUESTS] - before[REQUESTS], 3);
    assert_int_equal(after[FAILED] - before[FAILED], 0);
    assert_int_equal(after[CHECKS] - before[CHECKS], 4);
    assert_int_equal(after[MAYBE] - before[MAYBE], 3);
    assert_int_equal(after[ADDS] - before[ADDS], 2);
    assert_int_equal(after[REQUESTS], after[DURATIONS]);
}

/* --- the end --- */

static void test_events__end_with_the_daemon(void **state)
{
    (void)state;
    open_stream(&heard, STREAM);
    (void)hears(&heard, 0, "event: tick");
    assert_true(daemon_stop(&fixture.daemon[0], WAIT_MS));
    (void)hears(&heard, 0, "event: end\ndata: {\"reason\":\"the coordinator is shutting down\"}");
    ends(&heard);
    close_stream(&heard);
}

/* The stream of a user who may see one filter, and later none. */
static void test_events__are_what_the_user_may_see(void **state)
{
    (void)state;
    struct error e = {""};
    static const char reader[] = "[user reader]\npassword = " READER_HASH "\nroles = read\nfilters = h\n";
    static const char service[] = "http_metrics = loopback\n";
    struct daemon_options with = {.nodes = fixture.node_list, .service = service, .filters = reader},
                          without = {.nodes = fixture.node_list,
                                     .service = service,
                                     .filters = "[user other]\npassword = " READER_HASH "\nroles = read\n"};
    (void)daemon_fini(&fixture.daemon[0]);
    must(daemon_start(&fixture.daemon[0], &with, &e), e);
    open_stream(&heard, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n" AS_READER "\r\n");
    size_t at = hears(&heard, 0, "\"filters\":true");
    (void)hears(&heard, at, "event: tick");
    (void)hears(&heard, 0, "\"filter\":\"h\"");
    assert_null(strstr(heard.text, "many-"));
    assert_null(strstr(heard.text, "event: nodes"));
    assert_int_equal(http_status(fixture.daemon[0].http_port, "GET", "/v1/nodes", AS_READER, NULL), 403);
    must(daemon_rewrite(&fixture.daemon[0], &without, &e), e);
    must(daemon_reload(&fixture.daemon[0], &e), e);
    (void)hears(&heard, at, "event: end");
    ends(&heard);
    close_stream(&heard);
    assert_int_equal(http_status(fixture.daemon[0].http_port, "GET", "/v1/events", "", NULL), 401);
    assert_int_equal(http_status(fixture.daemon[0].http_port, "GET", "/", "", NULL), 401);
    assert_int_equal(http_status(fixture.daemon[0].http_port, "GET", "/dashboard/app.js", "", NULL), 200);
    assert_int_equal(http_status(fixture.daemon[0].http_port, "GET", "/metrics", "", NULL),
                     200); /* local requests need no login: */
    assert_int_equal(http_status_misdirected(fixture.daemon[0].http_port, "/metrics"),
                     421); /* but a foreign host name is refused */
    assert_int_equal(http_status_misdirected(fixture.daemon[0].http_port, "/v1/filters"), 401);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events__tells_all_at_first_and_then_what_changed),
        cmocka_unit_test(test_events__say_that_all_filters_were_told_once_they_were),
        cmocka_unit_test(test_events__does_not_end_with_the_time_of_a_request),
        cmocka_unit_test(test_events__are_no_more_than_half_of_the_connections),
        cmocka_unit_test(test_events__does_not_keep_what_is_sent_to_it),
        cmocka_unit_test(test_events__have_an_id_and_are_counted),
        cmocka_unit_test(test_events__of_a_head_is_a_head),
        cmocka_unit_test(test_events__tell_of_requests_and_answers),
        cmocka_unit_test(test_events__cuts_off_who_does_not_read),
        cmocka_unit_test(test_events__outlives_redis),
        cmocka_unit_test(test_events__end_with_the_daemon),
        cmocka_unit_test(test_events__are_what_the_user_may_see),
    };
    return fixture_run_tests(&fixture, &options, tests);
}
