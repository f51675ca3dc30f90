/* SPDX-License-Identifier: MIT */
/* Slow requests are logged with an id and the time of each phase, never with a key. Logs are JSON if
 * configured. Which clients may scrape metrics. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/clock.h"
#include "tests/integration/scrape.h"
#include "tests/lib/http.h"
#include "tests/lib/raw.h"

static struct fixture fixture;
static char lines[512];

enum { LATE_US = 300 * 1000 };

#define FILTERS "[filter " FILTER "]\ncapacity = 1000\nerror_rate = 0.01\n"
#define SLOW "slow_after = 200ms\n"

static struct daemon_options options(const char *service, const char *filters)
{
    (void)snprintf(lines, sizeof(lines), "timeout = 20s\n%s", service);
    return (struct daemon_options){
        .nodes = fixture.node_list, .service = lines, .redis = "timeout = 20s\n", .filters = filters};
}

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1});
    const struct daemon_options o = options(SLOW, FILTERS);
    must(daemon_start(&fixture.daemon[0], &o, &e), e);
    fixture_reconnect(&fixture, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

static struct daemon *coordinator(void)
{
    return &fixture.daemon[0];
}

/* Reload with other lines of [service]. */
static void reconfigure(const char *service, const char *filters)
{
    struct error e = {""};
    const struct daemon_options o = options(service, filters);
    must(daemon_rewrite(coordinator(), &o, &e), e);
    must(daemon_reload(coordinator(), &e), e);
}

/* Return the first line of the log with @text, which the caller frees. Wait for it for a minute at most. */
static char *logged(const char *text)
{
    uint64_t until = clock_mono_us() + 60u * 1000 * 1000;
    for (;;) {
        char *log = process_log(&coordinator()->process);
        char *at = strstr(log, text);
        if (at != NULL && strchr(at, '\n') != NULL) {
            while (at > log && at[-1] != '\n')
                at--;
            char *line = strndup(at, strcspn(at, "\n"));
            free(log);
            assert_non_null(line);
            return line;
        }
        free(log);
        if (clock_mono_us() > until)
            fail_msg("\"%s\" is not in the log", text);
        clock_sleep_us(20 * 1000);
    }
}

static void says(const char *line, const char *text)
{
    if (strstr(line, text) == NULL)
        fail_msg("\"%s\" does not say %s", line, text);
}

/* Redis is stopped while @ask runs, so that its requests take at least LATE_US. */
static void *resume_later(void *pid)
{
    clock_sleep_us(LATE_US);
    (void)kill(*(pid_t *)pid, SIGCONT);
    return NULL;
}

static void while_redis_is_late(void (*ask)(void))
{
    pthread_t thread;
    pid_t pid = fixture.redis[0].process.pid;
    (void)kill(pid, SIGSTOP);
    assert_int_equal(pthread_create(&thread, NULL, resume_later, &pid), 0);
    ask();
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void add_secrets(void)
{
    freeReplyObject(client_command(&fixture.client[0], "BF.MADD " FILTER " secret-1 secret-2 secret-3"));
}

static void test_slow__a_command_is_told_with_its_parts_and_without_keys(void **state)
{
    (void)state;
    freeReplyObject(client_command(&fixture.client[0], "BF.ADD " FILTER " first"));
    while_redis_is_late(add_secrets);
    char *line = logged("command=\"BF.MADD\"");
    says(line, "level=warn event=slow_request id=\"");
    says(line, " client=127.0.0.1:");
    says(line, " duration_ms=");
    says(line, " outcome=ok");
    says(line, " filter=\"" FILTER "\"");
    says(line, " keys=3");
    says(line, " node=\"");
    says(line, " redis_ms=");
    const char *redis = strstr(line, " redis_ms=");
    assert_true(redis != NULL && strtod(redis + 10, NULL) >= LATE_US / 2000.0);
    char *log = process_log(&coordinator()->process);
    assert_null(strstr(log, "secret-"));
    free(log);
    free(line);
    assert_true(scraped(coordinator(), "twinbloom_slow_requests_total") >= 1);
}

static struct http_reply add_by_http(const char *headers)
{
    static const char body[] = "{\"keys\":[\"secret-4\"]}";
    int fd = raw_open(coordinator()->http_port);
    assert_true(fd >= 0);
    char all[256];
    (void)snprintf(all, sizeof(all), "Content-Type: application/json\r\n%s", headers);
    assert_true(http_send(fd, "POST", "/v1/filters/" FILTER "/add", all, body, sizeof(body) - 1));
    struct http_reply r = http_receive(fd, false);
    raw_close(fd);
    assert_int_equal(r.status, 200);
    return r;
}

static void add_with_an_id(void)
{
    struct http_reply r = add_by_http("X-Request-Id: ticket/42:a\r\n");
    assert_string_equal(http_reply_header(&r, "X-Request-Id"), "ticket/42:a");
    http_reply_fini(&r);
}

static void test_slow__an_http_request_is_told_with_the_id_of_its_answer(void **state)
{
    (void)state;
    struct http_reply r = add_by_http(""); /* so that the connection to Redis is open */
    http_reply_fini(&r);
    while_redis_is_late(add_with_an_id);
    char *line = logged("id=\"ticket/42:a\"");
    says(line, "event=slow_request");
    says(line, " command=\"POST /v1/filters/{filter}/add\"");
    says(line, " outcome=200");
    says(line, " filter=\"" FILTER "\" keys=1");
    assert_null(strstr(line, "secret"));
    free(line);
}

static void scrape_with_an_id(void)
{
    int fd = raw_open(coordinator()->http_port);
    assert_true(fd >= 0);
    assert_true(http_send(fd, "GET", "/metrics", "X-Request-Id: scrape-1\r\n", NULL, 0));
    struct http_reply r = http_receive(fd, false);
    assert_int_equal(r.status, 200);
    http_reply_fini(&r);
    raw_close(fd);
}

/* A scrape may wait for Redis by design, so a slow scrape is not logged. */
static void test_slow__a_scrape_is_none(void **state)
{
    (void)state;
    clock_sleep_us(1500 * 1000); /* younger figures are not requested again */
    while_redis_is_late(scrape_with_an_id);
    char *log = process_log(&coordinator()->process);
    assert_null(strstr(log, "scrape-1"));
    free(log);
}

static void test_http__ids_that_are_not_sane_are_not_repeated(void **state)
{
    (void)state;
    char too_long[100];
    (void)snprintf(too_long, sizeof(too_long), "X-Request-Id: %066d\r\n", 0);
    const char *const ids[] = {"",
                               "X-Request-Id: \r\n",
                               "X-Request-Id: a b\r\n",
                               "X-Request-Id: <script>\r\n",
                               "X-Request-Id: a\"b\r\n",
                               too_long};
    char last[32] = "";
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct http_reply r = add_by_http(ids[i]);
        const char *id = http_reply_header(&r, "X-Request-Id");
        assert_int_equal(strlen(id), 16);
        assert_int_equal(strspn(id, "0123456789abcdef"), 16);
        assert_string_not_equal(id, last);
        (void)snprintf(last, sizeof(last), "%s", id);
        http_reply_fini(&r);
    }
}

/* --- JSON --- */

static void test_log__is_json_as_soon_as_that_is_wanted(void **state)
{
    (void)state;
    static const char name[] = "n\"}\n{\xff\\ = \xc3\xa9";
    const char *argv[] = {"BF.ADD", name, "k"};
    const size_t lengths[] = {6, sizeof(name) - 1, 1};
    size_t parsed = 0;
    char *before = process_log(&coordinator()->process);
    size_t from = strlen(before);
    free(before);
    freeReplyObject(client_command(&fixture.client[0], "CONFIG SET service.log_format json"));
    freeReplyObject(client_argv(&fixture.client[0], 3, argv, lengths));
    free(logged("\"event\":\"filter_created\""));
    char *log = process_log(&coordinator()->process);
    for (char *at = log + from, *end; (end = strchr(at, '\n')) != NULL; at = end + 1, parsed++) {
        json_error_t why;
        json_t *line = json_loadb(at, (size_t)(end - at), JSON_REJECT_DUPLICATES, &why);
        if (line == NULL)
            fail_msg("%.*s: %s", (int)(end - at), at, why.text);
        assert_non_null(json_string_value(json_object_get(line, "ts")));
        assert_non_null(json_string_value(json_object_get(line, "level")));
        assert_non_null(json_string_value(json_object_get(line, "event")));
        json_decref(line);
    }
    assert_true(parsed > 0);
    free(log);
    freeReplyObject(client_command(&fixture.client[0], "CONFIG SET service.log_format logfmt"));
}

/* --- who may scrape --- */

static int status_of(const char *path, const char *headers)
{
    int fd = raw_open(coordinator()->http_port);
    assert_true(fd >= 0);
    assert_true(http_send(fd, "GET", path, headers, NULL, 0));
    struct http_reply r = http_receive(fd, false);
    raw_close(fd);
    int status = r.status;
    http_reply_fini(&r);
    return status;
}

static void test_metrics__need_a_login_unless_told_otherwise(void **state)
{
    (void)state;
    static const char users[] =
        FILTERS "[user all]\nroles = read\ntoken = "
                "sha256:77504e17874a1e0f9823768e6eaef30967e5983c0cafde2a9ca4a0bd6a6883b8\n"
                "[user some]\nroles = read\nfilters = s*\ntoken = "
                "sha256:f3947df4174e5e3ffec68ce2a0dc6884d249c72324a8bc90064b71ab95ffa97b\n";
    assert_int_equal(status_of("/metrics", ""), 200);
    reconfigure("password = secret\n", users);
    assert_int_equal(status_of("/metrics", ""), 401);
    assert_int_equal(status_of("/metrics", "Authorization: Bearer secret\r\n"), 200);
    assert_int_equal(status_of("/metrics", "Authorization: Bearer wrong\r\n"), 401);
    free(logged("event=login_refused client=127.0.0.1:"));
    assert_int_equal(status_of("/metrics", "Authorization: Bearer scrape-all\r\n"), 200);
    assert_int_equal(status_of("/metrics", "Authorization: Bearer scrape-some\r\n"), 403);
    reconfigure("password = secret\nhttp_metrics = loopback\n", users);
    assert_int_equal(status_of("/metrics", ""), 200);
    assert_int_equal(status_of("/v1/filters", ""), 401);
    reconfigure("password = secret\nhttp_metrics = open\n", users);
    assert_int_equal(status_of("/metrics", ""), 200);
    assert_int_equal(status_of("/v1/filters/" FILTER, ""), 401);
    reconfigure(SLOW, FILTERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow__a_command_is_told_with_its_parts_and_without_keys),
        cmocka_unit_test(test_slow__an_http_request_is_told_with_the_id_of_its_answer),
        cmocka_unit_test(test_slow__a_scrape_is_none),
        cmocka_unit_test(test_http__ids_that_are_not_sane_are_not_repeated),
        cmocka_unit_test(test_log__is_json_as_soon_as_that_is_wanted),
        cmocka_unit_test(test_metrics__need_a_login_unless_told_otherwise),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
