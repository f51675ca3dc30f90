/* SPDX-License-Identifier: MIT */
/* HTTP on the wire: framing, limits, passwords, clients that stop or hurry. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "tests/lib/http.h"
#include "tests/lib/raw.h"

enum { CLIENTS_MAX = 20, BODY_MAX = 524288 };

#define JSON "Content-Type: application/json\r\n"
#define POST "POST /v1/filters/h/check HTTP/1.1\r\nHost: x\r\n" JSON
#define KEYS "{\"keys\":[\"a\"]}"

static struct fixture fixture;

static int setup(void **state)
{
    (void)state;
    if (fixture_start(&fixture,
                      &(struct fixture_options){.nodes = 1,
                                                .daemons = 1,
                                                .service = "http_body_max = 512KiB\nhttp_timeout = 2s\n"
                                                           "http_max_clients = 20\n"}) != 0)
        return -1;
    fixture_ask(&fixture, 0, "BF.RESERVE h 0.001 1000");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

static int open_http(void)
{
    int fd = raw_open(fixture.daemon[0].http_port);
    assert_true(fd >= 0);
    return fd;
}

/* Send @text on a new connection. The answer must have @status; if @closes, the daemon must close the
 * connection then. */
static void answers(const char *text, int status, bool closes)
{
    int fd = open_http();
    assert_true(raw_puts(fd, text));
    struct http_reply r = http_receive(fd, strncmp(text, "HEAD", 4) == 0);
    if (r.status != status)
        fail_msg("%.200s: %d, expected %d: %s", text, r.status, status, r.body == NULL ? "" : r.body);
    if (status >= 300)
        assert_string_equal(http_reply_header(&r, "Content-Type"), "application/problem+json");
    if (closes && !raw_expect_close(fd))
        fail_msg("%.200s: is not closed", text);
    http_reply_fini(&r);
    raw_close(fd);
}

/* The parser and the handlers use the same code for the same error, and each code has its place on the
 * page. */
static void test_problems__have_the_code_of_what_went_wrong(void **state)
{
    (void)state;
#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
    static const struct {
        const char *request, *code;
        int status;
    } rows[] = {
        {"GET / HTTP/2.0\r\n\r\n", "bad-request", 400},
        {"GET /v1/filters HTTP/1.1\r\n\r\n", "bad-request", 400},
        {GET("/v1/filters/%zz"), "bad-request", 400},
        {GET("/v1/filters?limit=1&limit=2"), "bad-request", 400},
        {POST "Content-Length: 1\r\n\r\n{", "parse", 400},
        {POST "Sec-Fetch-Site: cross-site\r\nContent-Length: 2\r\n\r\n{}", "other-site", 403},
        {GET("/nothing"), "no-such-path", 404},
        {GET("/v1/filters/never"), "not-found", 404},
        {GET("/v1/jobs/never.0123456789abcdef"), "not-found", 404},
        {GET("/v1/jobs/never"), "not-found", 404},
        {GET("/v1/filters/h/check"), "method-not-allowed", 405},
        {"POST /v1/filters/h/pause HTTP/1.1\r\nHost: x\r\n" JSON "\r\n", "conflict", 409},
        {POST "Content-Length: 99999999\r\n\r\n", "body-too-large", 413},
        {"POST /v1/filters/h/check HTTP/1.1\r\nHost: x\r\n\r\n", "wrong-content-type", 415},
        {POST "Content-Encoding: gzip\r\n\r\n", "wrong-content-type", 415},
        {POST "Expect: tea\r\n\r\n", "wrong-expectation", 417},
        {"GET /v1/filters HTTP/1.1\r\nHost: evil.example\r\nAccept-Language: en\r\n\r\n", "unknown-host",
         421},
        {POST "Content-Length: 2\r\n\r\n{}", "range", 422},
        {GET("/v1/filters/h/plan?capacity=0"), "range", 422},
        {"BREW /pot HTTP/1.1\r\nHost: x\r\n\r\n", "not-implemented", 501},
        {POST "Transfer-Encoding: gzip\r\n\r\n", "not-implemented", 501},
    };
#undef GET
    struct http_reply page = http_ask(fixture.daemon[0].http_port, "GET", "/errors", NULL);
    assert_int_equal(page.status, 200);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char type[96], place[96];
        int fd = open_http();
        assert_true(raw_puts(fd, rows[i].request));
        struct http_reply r = http_receive(fd, false);
        (void)snprintf(type, sizeof(type), "{\"type\":\"/errors#%s\",\"code\":\"%s\",", rows[i].code,
                       rows[i].code);
        (void)snprintf(place, sizeof(place), "<h2 id=\"%s\">", rows[i].code);
        if (r.status != rows[i].status || strncmp(r.body, type, strlen(type)) != 0)
            fail_msg("%.80s: expected %d %s, got %s", rows[i].request, rows[i].status, rows[i].code,
                     r.body == NULL ? "nothing" : r.body);
        assert_non_null(strstr(page.body, place));
        http_reply_fini(&r);
        raw_close(fd);
    }
    http_reply_fini(&page);
}

static void is_alive(void)
{
    answers("GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200, true);
}

/* --- framing --- */

static void test_http__keeps_a_connection_and_answers_in_order(void **state)
{
    (void)state;
    static const char *const asked[] = {
        "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",   POST "Content-Length: 14\r\n\r\n" KEYS,
        "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", "GET /v1/filters/h HTTP/1.1\r\nHost: x\r\n\r\n",
        POST "Content-Length: 1\r\n\r\n{",          POST "Content-Length: 14\r\n\r\n" KEYS};
    static const int statuses[] = {200, 200, 404, 200, 400, 200};
    enum { ASKED = sizeof(asked) / sizeof(asked[0]), ROUNDS = 20 };
    int fd = open_http();
    for (unsigned round = 0; round < ROUNDS; round++) /* all requests before any answer is read */
        for (size_t i = 0; i < ASKED; i++)
            assert_true(raw_puts(fd, asked[i]));
    for (unsigned round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < ASKED; i++) {
            struct http_reply r = http_receive(fd, false);
            assert_int_equal(r.status, statuses[i]);
            http_reply_fini(&r);
        }
    raw_close(fd);
}

static void test_http__reads_chunks(void **state)
{
    (void)state;
    int fd = open_http();
    assert_true(raw_puts(fd, POST "Transfer-Encoding: chunked\r\n"));
    static const char *const pieces[] = {"\r\n5", "\r\n{\"key\r", "\n9\r\ns\":", "[\"a\"]}\r\n0", "\r\n\r\n"};
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        assert_true(raw_puts(fd, pieces[i]));
        clock_sleep_us(20000);
    }
    struct http_reply r = http_receive(fd, false);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "{\"results\":[false]}");
    http_reply_fini(&r);
    raw_close(fd);
}

static void test_http__is_asked_whether_it_wants_a_body(void **state)
{
    (void)state;
    char line[256];
    int fd = open_http();
    assert_true(raw_puts(fd, POST "Expect: 100-continue\r\nContent-Length: 14\r\n\r\n"));
    assert_true(raw_read_until(fd, "\r\n\r\n", line, sizeof(line)));
    assert_non_null(strstr(line, " 100 "));
    assert_true(raw_puts(fd, KEYS));
    struct http_reply r = http_receive(fd, false);
    assert_int_equal(r.status, 200);
    http_reply_fini(&r);
    raw_close(fd);
    answers(POST "Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n", 413, true);
    answers(POST "Expect: tea\r\nContent-Length: 14\r\n\r\n" KEYS, 417, true);
}

static void test_http__refuses_what_could_be_read_in_two_ways(void **state)
{
    (void)state;
    answers(POST "Content-Length: 14\r\nContent-Length: 3\r\n\r\n" KEYS, 400, true);
    answers(POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, true);
    answers(POST "Transfer-Encoding: gzip\r\n\r\n", 501, true);
    answers(POST "Content-Length : 14\r\n\r\n" KEYS, 400, true);
    answers(POST "Content-Length: +14\r\n\r\n" KEYS, 400, true);
    answers(POST "Content-Length: -1\r\n\r\n", 400, true);
    answers(POST "Host: y\r\nContent-Length: 14\r\n\r\n" KEYS, 400, true);
    answers(POST JSON "Content-Length: 14\r\n\r\n" KEYS, 400, true);
    answers("HEAD /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 38\r\n\r\n"
            "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
            400, true);
    answers(POST "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, true);
    answers(POST "Transfer-Encoding: chunked\r\n\r\n0x5\r\n{\"key\r\n0\r\n\r\n", 400, true);
    answers(POST "Transfer-Encoding: chunked\r\n\r\n\r\n", 400, true);
    answers(POST "Transfer-Encoding: chunked\r\n\r\n2\r\n{}}\r\n0\r\n\r\n", 400, true);
    answers(POST "Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n", 400, true);
    answers("GET /livez HTTP/1.1\nHost: x\n\n", 400, true);
    answers("GET /livez HTTP/1.1\r\nHost: x\r\nX: a\nY: b\r\n\r\n", 400, true);
    answers("GET /livez HTTP/1.1\r\nHost: x\r\nX: a\r\n folded\r\n\r\n", 400, true);
    answers("TRACE /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 38\r\n\r\n"
            "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
            400, true);
    answers("TRACE /livez HTTP/1.1\r\nHost: x\r\n\r\n", 405, false);
    is_alive();
}

static void test_http__reads_a_request_as_the_standard_has_it(void **state)
{
    (void)state;
    answers("GET /livez HTTP/1.1\r\n\r\n", 400, true); /* without Host */
    answers("\r\nGET /livez HTTP/1.1\r\nHost: x\r\n\r\n", 200, false);
    answers("GET http://x/livez HTTP/1.1\r\nHost: y\r\n\r\n", 200, false);
    answers(POST "Transfer-Encoding: chunked\r\n\r\ne;a=\"b\"\r\n" KEYS "\r\n0;c\r\nA: b\r\n\r\n", 200,
            false);
    answers(POST "Content-Encoding: gzip\r\nContent-Length: 14\r\n\r\n" KEYS, 415, false);
    answers(POST "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n", 413, true);
    answers("GET /v1/filters/h/plan?capacity=1&capacity=2 HTTP/1.1\r\nHost: x\r\n\r\n", 400, false);
    answers("GET /v1/filters/h/plan?capacity=1&c%61pacity=2 HTTP/1.1\r\nHost: x\r\n\r\n", 400, false);
    answers("GET /v1/filters/h?a=%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, false);
    answers("GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /livez HTTP/1.0\r\n\r\n", 200, false);
}

static void test_http__goes_on_behind_a_body_that_nobody_wanted(void **state)
{
    (void)state;
    int fd = open_http();
    assert_true(raw_puts(fd, "POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n{\"keys"));
    struct http_reply r = http_receive(fd, false);
    assert_int_equal(r.status, 404);
    http_reply_fini(&r);
    assert_true(raw_puts(fd, "\":[\"a\"]}GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"));
    r = http_receive(fd, false);
    assert_int_equal(r.status, 200);
    http_reply_fini(&r);
    raw_close(fd);
}

static void test_http__answers_who_has_shut_down_its_sending(void **state)
{
    (void)state;
    int fd = open_http();
    assert_true(
        raw_puts(fd, POST "Content-Length: 14\r\n\r\n" KEYS "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    for (int i = 0; i < 2; i++) {
        struct http_reply r = http_receive(fd, false);
        assert_int_equal(r.status, 200);
        http_reply_fini(&r);
    }
    assert_true(raw_expect_close(fd));
    raw_close(fd);
}

static void test_http__answers_in_json_what_is_no_http(void **state)
{
    (void)state;
    answers("\r\n\r\n\r\n", 400, true);
    answers("*1\r\n$4\r\nPING\r\n", 400, true);
    answers("GET /livez\r\n\r\n", 400, true);
    answers("GET /livez HTTP/9.9\r\nHost: x\r\n\r\n", 400, true);
    answers("\x16\x03\x01\x02\r\n\r\n", 400, true);
    answers("GET /livez HTTP/1.1\r\nno colon\r\n\r\n", 400, true);
    answers("BREW / HTTP/1.1\r\nHost: x\r\n\r\n", 501, true);
    answers("CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", 501, true);
    answers("GET /livez HTTP/1.0\r\n\r\n", 200, true);
    is_alive();
}

/* --- limits --- */

static void test_http__bounds_heads_and_bodies(void **state)
{
    (void)state;
    struct buffer b = {0};
    buffer_puts(&b, "GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: ");
    for (unsigned i = 0; i < 20000; i++)
        buffer_puts(&b, "x");
    buffer_puts(&b, "\r\n\r\n");
    answers(buffer_text(&b), 400, true);
    buffer_clear(&b);
    buffer_puts(&b, "GET /livez HTTP/1.1\r\nHost: x\r\n");
    for (unsigned i = 0; i < 4000; i++)
        buffer_puts(&b, "a:\r\n");
    buffer_puts(&b, "\r\n");
    answers(buffer_text(&b), 400, true);
    buffer_clear(&b);
    buffer_printf(&b, POST "Content-Length: %d\r\n\r\n", BODY_MAX + 1);
    for (unsigned i = 0; i < BODY_MAX + 1; i++)
        buffer_puts(&b, " ");
    answers(buffer_text(&b), 413, true);
    answers(POST "Content-Length: 9999999999999\r\n\r\n", 413, true);
    answers(POST "Transfer-Encoding: chunked\r\n\r\nfffffff\r\n", 413, true);
    buffer_clear(&b);
    buffer_printf(&b, POST "Content-Length: %d\r\n\r\n", BODY_MAX);
    for (unsigned i = 0; i < BODY_MAX - 14; i++)
        buffer_puts(&b, " ");
    buffer_puts(&b, KEYS);
    answers(buffer_text(&b), 200, false);
    buffer_fini(&b);
}

static void test_http__its_refusal_arrives_although_the_body_was_not_read(void **state)
{
    (void)state;
    enum { SENT = 8 * 1024 * 1024 };
    char *body = calloc(1, SENT);
    assert_non_null(body);
    int fd = open_http();
    assert_true(raw_puts(fd, POST "Content-Length: 8388608\r\n\r\n"));
    assert_true(raw_send(fd, body, SENT));
    struct http_reply r = http_receive(fd, false);
    assert_int_equal(r.status, 413);
    http_reply_fini(&r);
    raw_close(fd);
    free(body);
}

static void test_http__closes_who_stops_in_the_middle(void **state)
{
    (void)state;
    static const char *const beginnings[] = {"", "GET /liv", "GET /livez HTTP/1.1\r\nHost",
                                             POST "Content-Length: 14\r\n\r\n{\"keys\""};
    enum { COUNT = sizeof(beginnings) / sizeof(beginnings[0]) };
    int fd[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        fd[i] = open_http();
        assert_true(raw_puts(fd[i], beginnings[i]));
    }
    is_alive();
    uint64_t began = clock_mono_us();
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(raw_expect_close(fd[i]));
        raw_close(fd[i]);
    }
    uint64_t took = clock_mono_us() - began;
    assert_in_range(took, 500 * 1000, 8 * 1000 * 1000);
}

static void test_http__closes_who_drips(void **state)
{
    (void)state;
    /* The second one has its answer, and the daemon only waits for the end of what it sends. */
    static const char *const begun[] = {POST "Content-Length: 1000\r\n\r\n", "GET /livez HTTP/1.0\r\n\r\n"};
    for (size_t i = 0; i < 2; i++) {
        int fd = open_http();
        bool open = raw_puts(fd, begun[i]);
        uint64_t began = clock_mono_us();
        while (open && clock_mono_us() - began <
                           8 * 1000 * 1000) { /* each pause is shorter than the time of a single read */
            clock_sleep_us(100 * 1000);
            open = raw_puts(fd, " ");
        }
        if (open)
            fail_msg("%s", begun[i]);
        raw_close(fd);
    }
    is_alive();
}

/* Connections that wait for such an end count, too: they are closed first. */
static void test_http__ended_connections_make_room(void **state)
{
    (void)state;
    enum { IDLE = CLIENTS_MAX - 5 };
    int idle[IDLE], ended[CLIENTS_MAX];
    size_t open = 0;
    for (size_t i = 0; i < IDLE; i++)
        idle[i] = open_http();
    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        ended[i] = open_http();
        assert_true(raw_puts(ended[i], "GET /livez HTTP/1.0\r\n\r\n"));
        struct http_reply r = http_receive(ended[i], false);
        assert_int_equal(r.status, 200);
        http_reply_fini(&r);
    }
    clock_sleep_us(100 * 1000);
    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        (void)raw_puts(ended[i], " "); /* is answered by a reset where the daemon has closed */
        clock_sleep_us(5000);
        open += raw_puts(ended[i], " ");
        raw_close(ended[i]);
    }
    assert_in_range(open, 1, CLIENTS_MAX - IDLE);
    for (size_t i = 0; i < IDLE; i++) {
        assert_true(raw_puts(idle[i], "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"));
        struct http_reply r = http_receive(idle[i], false);
        assert_int_equal(r.status, 200);
        http_reply_fini(&r);
        raw_close(idle[i]);
    }
}

static void test_http__the_longest_idle_connection_makes_room(void **state)
{
    (void)state;
    int fd[CLIENTS_MAX * 2];
    for (size_t i = 0; i < CLIENTS_MAX * 2; i++) {
        fd[i] = open_http();
        assert_true(http_send(fd[i], "GET", "/livez", "", NULL, 0));
        struct http_reply r = http_receive(fd[i], false);
        assert_int_equal(r.status, 200);
        http_reply_fini(&r);
    }
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        assert_true(raw_expect_close(fd[i]));
    assert_true(http_send(fd[CLIENTS_MAX * 2 - 1], "GET", "/livez", "", NULL, 0));
    struct http_reply r = http_receive(fd[CLIENTS_MAX * 2 - 1], false);
    assert_int_equal(r.status, 200);
    http_reply_fini(&r);
    for (size_t i = 0; i < CLIENTS_MAX * 2; i++)
        raw_close(fd[i]);
}

static void test_http__more_is_sent_than_it_can_bear(void **state)
{
    (void)state;
    enum { SENDERS = 12 };
    int fd[SENDERS];
    char *most = calloc(1, BODY_MAX);
    assert_non_null(most);
    memset(most, ' ', BODY_MAX);
    for (size_t i = 0; i < SENDERS;
         i++) { /* 12 bodies, each without its last byte; four and 1 MiB may be held */
        fd[i] = open_http();
        (void)(raw_puts(fd[i], POST "Content-Length: 524288\r\n\r\n") && raw_send(fd[i], most, BODY_MAX - 1));
    }
    is_alive();
    size_t open = 0;
    for (size_t i = 0; i < SENDERS; i++) {
        clock_sleep_us(20000);
        (void)raw_puts(fd[i], " ");
        struct http_reply r = http_receive(fd[i], false);
        open += r.status == 400; /* was read, and is no JSON */
        http_reply_fini(&r);
        raw_close(fd[i]);
    }
    assert_in_range(open, 1, 6);
    free(most);
    is_alive();
}

static void test_http__random_bytes_break_nothing(void **state)
{
    (void)state;
    uint32_t seed = 12345;
    for (unsigned i = 0; i < 200; i++) {
        char noise[512];
        int fd = open_http();
        for (size_t n = 0; n < sizeof(noise); n++) {
            seed = seed * 1664525u + 1013904223u;
            noise[n] = (char)(seed >> 24);
        }
        if (i % 2 == 1)
            (void)raw_puts(fd, POST "Transfer-Encoding: chunked\r\n\r\n1f\r\n");
        (void)raw_send(fd, noise, sizeof(noise));
        (void)raw_puts(fd, "\r\n\r\n");
        raw_close(fd);
    }
    is_alive();
}

/* --- passwords --- */

static int status_with(const char *header)
{
    int fd = open_http();
    assert_true(http_send(fd, "GET", "/v1/filters/h", header, NULL, 0));
    struct http_reply r = http_receive(fd, false);
    int status = r.status;
    if (status == 401) {
        assert_non_null(strstr(http_reply_header(&r, "WWW-Authenticate"), "Basic"));
        assert_non_null(strstr(r.body, header[0] == '\0' ? "log in: " : "this login is wrong: "));
    }
    http_reply_fini(&r);
    raw_close(fd);
    return status;
}

static void test_http__asks_for_the_password_but_for_probes(void **state)
{
    (void)state;
    assert_int_equal(status_with("Authorization: Basic eDp5\r\n"), 200); /* no login is needed yet */
    fixture_ask(&fixture, 0, "CONFIG SET password s3cret");
    assert_int_equal(status_with(""), 401);
    assert_int_equal(status_with("Authorization: Basic ZGVmYXVsdDpzM2NyZXQ=\r\n"), 200);
    assert_int_equal(status_with("authorization: basic ZGVmYXVsdDpzM2NyZXQ=\r\n"), 200);
    assert_int_equal(status_with("Authorization: Bearer s3cret\r\n"), 200);
    assert_int_equal(status_with("Authorization: Bearer s3cre\r\n"), 401);
    assert_int_equal(status_with("Authorization: Bearer s3crets3cret\r\n"), 401);
    assert_int_equal(status_with("Authorization: Bearer \r\n"), 401);
    assert_int_equal(status_with("Authorization: Basic eDpzM2NyZXQ=\r\n"), 401); /* another user */
    assert_int_equal(status_with("Authorization: Basic ZGVmYXVsdAB4OnMzY3JldA==\r\n"),
                     401);                                                       /* "default\0x" */
    assert_int_equal(status_with("Authorization: Basic ZGVmYXVsdDo=\r\n"), 401); /* an empty password */
    assert_int_equal(status_with("Authorization: Basic !\r\n"), 401);
    assert_int_equal(status_with("Authorization: Digest s3cret\r\n"), 401);
    answers(POST "Content-Length: 14\r\n\r\n" KEYS, 401, false);
    answers("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", 200, false);
    answers("GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n", 200, false);
    answers("GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n", 401, false);
    fixture_reconnect(&fixture, 0);
    fixture_ask(&fixture, 0, "AUTH s3cret");
    const char *const none[] = {"CONFIG", "SET", "password", ""};
    redisReply *reply = client_argv(&fixture.client[0], 4, none, (const size_t[]){6, 3, 8, 0});
    assert_non_null(reply);
    freeReplyObject(reply);
    assert_int_equal(status_with(""), 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_problems__have_the_code_of_what_went_wrong),
        cmocka_unit_test(test_http__keeps_a_connection_and_answers_in_order),
        cmocka_unit_test(test_http__reads_chunks),
        cmocka_unit_test(test_http__is_asked_whether_it_wants_a_body),
        cmocka_unit_test(test_http__refuses_what_could_be_read_in_two_ways),
        cmocka_unit_test(test_http__reads_a_request_as_the_standard_has_it),
        cmocka_unit_test(test_http__goes_on_behind_a_body_that_nobody_wanted),
        cmocka_unit_test(test_http__answers_who_has_shut_down_its_sending),
        cmocka_unit_test(test_http__answers_in_json_what_is_no_http),
        cmocka_unit_test(test_http__bounds_heads_and_bodies),
        cmocka_unit_test(test_http__its_refusal_arrives_although_the_body_was_not_read),
        cmocka_unit_test(test_http__closes_who_stops_in_the_middle),
        cmocka_unit_test(test_http__closes_who_drips),
        cmocka_unit_test(test_http__ended_connections_make_room),
        cmocka_unit_test(test_http__the_longest_idle_connection_makes_room),
        cmocka_unit_test(test_http__more_is_sent_than_it_can_bear),
        cmocka_unit_test(test_http__random_bytes_break_nothing),
        cmocka_unit_test(test_http__asks_for_the_password_but_for_probes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
