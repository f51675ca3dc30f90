/* SPDX-License-Identifier: MIT */
/* HTTP/JSON: the answer of each route, and its errors. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <jansson.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "tests/lib/http.h"
#include "tests/lib/raw.h"

enum { ROWS = 3000, BATCH = 100000 };

static struct fixture fixture;

static const struct fixture_options options = {.nodes = 2,
                                               .daemons = 1,
                                               .postgres = true,
                                               .rows = ROWS,
                                               .capacity = 10000,
                                               .rate = "0.001",
                                               .grace = "60s",
                                               .service = "timeout = 10s\n",
                                               .expansion = "lease = 2s\n"};

/* The body of an answer that must have the status @status; an error must be a problem document. The caller
 * frees it. */
static json_t *ask(const char *method, const char *path, const char *json, int status)
{
    struct http_reply r = http_ask(fixture.daemon[0].http_port, method, path, json);
    json_error_t why;
    if (r.status != status)
        fail_msg("%s %s %s: %d, expected %d: %s", method, path, json == NULL ? "" : json, r.status, status,
                 r.body == NULL ? "" : r.body);
    assert_string_equal(http_reply_header(&r, "X-Content-Type-Options"), "nosniff");
    assert_string_equal(http_reply_header(&r, "Cache-Control"), "no-store");
    assert_string_equal(http_reply_header(&r, "Content-Type"),
                        status < 300 ? "application/json" : "application/problem+json");
    json_t *root = json_loadb(r.body, r.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (root == NULL)
        fail_msg("%s: %s", r.body, why.text);
    if (status >= 300) {
        assert_int_equal(json_integer_value(json_object_get(root, "status")), status);
        assert_true(json_string_length(json_object_get(root, "title")) > 0);
        char type[128];
        (void)snprintf(type, sizeof(type), "/errors#%s", json_string_value(json_object_get(root, "code")));
        assert_string_equal(json_string_value(json_object_get(root, "type")), type);
        assert_true(json_string_length(json_object_get(root, "detail")) > 0);
        assert_true(json_string_length(json_object_get(root, "instance")) > 0);
    }
    http_reply_fini(&r);
    return root;
}

static void gives(const char *method, const char *path, const char *json, int status)
{
    json_decref(ask(method, path, json, status));
}

static void says(const char *method, const char *path, const char *json, int status, const char *detail)
{
    json_t *root = ask(method, path, json, status);
    const char *text = json_string_value(json_object_get(root, "detail"));
    if (strstr(text, detail) == NULL)
        fail_msg("%s %s: \"%s\" does not say \"%s\"", method, path, text, detail);
    json_decref(root);
}

/* The results of a request as letters: t, f, e(rror). */
static void results(const char *path, const char *json, const char *expected)
{
    char got[64] = "";
    json_t *root = ask("POST", path, json, 200);
    const json_t *list = json_object_get(root, "results");
    size_t count = json_array_size(list);
    for (size_t i = 0; i < count && i < sizeof(got) - 1; i++) {
        const json_t *one = json_array_get(list, i);
        got[i] = "fte"[json_is_true(one) ? 1 : json_is_false(one) ? 0 : 2];
    }
    assert_string_equal(got, expected);
    json_decref(root);
}

static void test_http__adds_and_checks_keys_that_clients_of_redis_see(void **state)
{
    (void)state;
    struct error e = {""};
    gives("POST", "/v1/filters", "{\"name\":\"h\",\"capacity\":1000,\"error_rate\":0.0001}", 201);
    results("/v1/filters/h/add", "{\"keys\":[\"a\",\"b\",\"a\"]}", "ttf");
    results("/v1/filters/h/check", "{\"keys\":[\"a\",\"b\",\"c\",\"\"]}", "ttff");
    results("/v1/filters/h/add", "{\"keys_base64\":[\"/wA=\"]}", "t");
    results("/v1/filters/h/add", "{\"keys\":[\"x\\u0000y\",\"\"]}", "tt");
    results("/v1/filters/h/check", "{\"keys\":[]}", "");
    int64_t there = 0;
    const size_t lengths[] = {9, 1, 2};
    redisReply *r = client_argv(&fixture.client[0], 3, (const char *[]){"BF.EXISTS", "h", "\xff\0"}, lengths);
    assert_non_null(r);
    there = r->integer;
    freeReplyObject(r);
    assert_int_equal(there, 1);
    must(client_integer(&fixture.client[0], &there, &e, "BF.ADD h seen"), e);
    results("/v1/filters/h/check", "{\"keys\":[\"seen\"]}", "t");
}

static void test_http__makes_filters_once_and_says_where(void **state)
{
    (void)state;
    struct http_reply r = http_ask(fixture.daemon[0].http_port, "PUT", "/v1/filters",
                                   "{\"name_base64\":\"/y8g\",\"nonscaling\":true,\"capacity\":2}");
    assert_int_equal(r.status, 201);
    assert_string_equal(http_reply_header(&r, "Location"), "/v1/filters/%FF%2F%20");
    assert_string_equal(r.body, "{\"filter\":{\"base64\":\"/y8g\"}}");
    http_reply_fini(&r);
    json_t *root = ask("GET", "/v1/filters/%ff%2f%20", NULL, 200);
    assert_string_equal(json_string_value(json_object_get(json_object_get(root, "filter"), "base64")),
                        "/y8g");
    json_decref(root);
    says("PUT", "/v1/filters", "{\"name_base64\":\"/y8g\"}", 409, "exists");
    results("/v1/filters/%ff%2f%20/add", "{\"keys\":[\"a\"]}", "t");
    results("/v1/filters/%ff%2f%20/add", "{\"keys\":[\"b\"]}", "t");
    results("/v1/filters/%ff%2f%20/add", "{\"keys\":[\"a\",\"c\"]}", "fe");
    json_t *full = ask("POST", "/v1/filters/%ff%2f%20/add", "{\"keys\":[\"c\"]}", 200);
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(json_object_get(full, "results"), 0), "code")),
        "full");
    json_decref(full);
    gives("POST", "/v1/filters", "{\"name\":\"too-large\",\"capacity\":9000000000000000000}", 422);
}

static void test_http__a_filter_without_room_grows(void **state)
{
    (void)state;
    gives("POST", "/v1/filters", "{\"name\":\"small\",\"capacity\":100,\"error_rate\":0.001}", 201);
    struct buffer body = {0};
    buffer_puts(&body, "{\"keys\":[\"0\"");
    for (unsigned i = 1; i < 3000; i++)
        buffer_printf(&body, ",\"%u\"", i);
    buffer_puts(&body, "]}");
    gives("POST", "/v1/filters/small/add", buffer_text(&body), 200);
    json_t *root = ask("POST", "/v1/filters/small/check", buffer_text(&body), 200);
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(root, "results"), i, one) assert_true(json_is_true(one));
    assert_int_equal(i, 3000);
    json_decref(root);
    buffer_fini(&body);
    root = ask("GET", "/v1/filters/small", NULL, 200);
    assert_true(json_integer_value(json_object_get(root, "layers")) > 1);
    json_decref(root);
}

/* --- status --- */

static void test_http__status_has_the_fields_of_tb_status(void **state)
{
    (void)state;
    json_t *root = ask("GET", "/v1/filters/" FILTER, NULL, 200);
    redisReply *r = client_command(&fixture.client[0], "TB.STATUS " FILTER);
    assert_non_null(r);
    assert_int_equal(r->elements / 2, json_object_size(root));
    for (size_t i = 0; i + 1 < r->elements; i += 2) {
        const json_t *value = json_object_get(root, r->element[i]->str);
        if (value == NULL)
            fail_msg("HTTP does not know %s", r->element[i]->str);
        if (r->element[i + 1]->type == REDIS_REPLY_INTEGER && json_is_boolean(value))
            assert_int_equal(r->element[i + 1]->integer, json_is_true(value)); /* RESP2 has no booleans */
        else if (r->element[i + 1]->type == REDIS_REPLY_INTEGER)
            assert_true(json_is_integer(value));
    }
    freeReplyObject(r);
    assert_string_equal(json_string_value(json_object_get(root, "filter")), FILTER);
    static const char *const flags[] = {"built", "ready", "has_source", "job_verify_ok"};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        assert_true(json_is_true(json_object_get(root, flags[i])));
    assert_true(json_is_false(json_object_get(root, "degraded")));
    assert_true(json_is_real(json_object_get(root, "healthy_at")) ||
                json_is_integer(json_object_get(root, "healthy_at")));
    double ended = json_number_value(json_object_get(root, "job_finished_at"));
    assert_true(ended > (double)clock_wall_us() / 1e6 - 600 && ended < (double)clock_wall_us() / 1e6 + 1);
    assert_int_equal(json_integer_value(json_object_get(root, "keys")), ROWS);
    assert_true(json_number_value(json_object_get(root, "error_rate")) > 0.00099);
    json_decref(root);
}

static void test_http__lists_all_filters(void **state)
{
    (void)state;
    gives("POST", "/v1/filters", "{\"name\":\"listed\",\"capacity\":10}", 201);
    json_t *root = ask("GET", "/v1/filters", NULL, 200);
    size_t i;
    bool configured = false, made = false;
    json_t *one;
    json_array_foreach(json_object_get(root, "filters"), i, one)
    {
        const char *name = json_string_value(json_object_get(one, "filter"));
        configured |= name != NULL && strcmp(name, FILTER) == 0;
        made |= name != NULL && strcmp(name, "listed") == 0;
    }
    assert_true(configured && made);
    json_decref(root);
}

/* Follow `next` from page to page, with @limit filters each. Collects their names, each followed by a
 * blank. */
static void page_through(unsigned limit, struct buffer *names)
{
    enum { PAGES_MAX = 100 };
    char path[600];
    unsigned pages = 0;
    (void)snprintf(path, sizeof(path), "/v1/filters?limit=%u", limit);
    for (bool more = true; more; pages++) {
        assert_true(pages < PAGES_MAX);
        json_t *root = ask("GET", path, NULL, 200), *one;
        const char *next = json_string_value(json_object_get(root, "next"));
        size_t i;
        json_array_foreach(json_object_get(root, "filters"), i, one)
        {
            const char *name = json_string_value(json_object_get(one, "filter"));
            buffer_printf(names, "%s ", name != NULL ? name : "?");
        }
        assert_true(next != NULL ? i == limit : json_is_null(json_object_get(root, "next")));
        more = next != NULL;
        if (more)
            (void)snprintf(path, sizeof(path), "/v1/filters?limit=%u&cursor=%s", limit, next);
        json_decref(root);
    }
}

static void test_http__lists_filters_a_page_at_a_time(void **state)
{
    (void)state;
    static const char *const names[] = {"page 1", "page%2", "page/3", "zz-last", "page&limit=9"};
    struct buffer all = {0}, pages = {0};
    struct error e = {""};
    char body[128];
    int64_t deleted = 0;
    /* Its cursor is empty, too. */
    must(client_ok(&fixture.client[0], &e, "BF.RESERVE %s 0.01 10", ""), e);
    must(client_status(&fixture.client[0], "", "phase", body, sizeof(body), &e), e);
    assert_string_equal(body, "STEADY");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(body, sizeof(body), "{\"name\":\"%s\",\"capacity\":10}", names[i]);
        gives("POST", "/v1/filters", body, 201);
    }
    page_through(1000, &all);
    assert_non_null(strstr(buffer_text(&all), "page 1 page%2 page&limit=9 page/3 " FILTER " "));
    for (unsigned limit = 1; limit < 5; limit++) {
        buffer_clear(&pages);
        page_through(limit, &pages);
        assert_string_equal(buffer_text(&pages), buffer_text(&all));
    }
    must(client_integer(&fixture.client[0], &deleted, &e, "DEL %s", ""), e);
    assert_int_equal(deleted, 1);
    says("GET", "/v1/filters?limit=0", NULL, 422, "'limit'");
    says("GET", "/v1/filters?limit=1001", NULL, 422, "1000");
    says("GET", "/v1/filters?cursor=a%2fb", NULL, 422, "'cursor'");
    buffer_fini(&all);
    buffer_fini(&pages);
}

static void test_http__deletes_a_filter_that_is_not_configured(void **state)
{
    (void)state;
    gives("POST", "/v1/filters", "{\"name\":\"a/b\",\"capacity\":100}", 201);
    results("/v1/filters/a%2fb/add", "{\"keys\":[\"x\"]}", "t");
    struct http_reply r = http_ask(fixture.daemon[0].http_port, "DELETE", "/v1/filters/a%2fb", NULL);
    assert_int_equal(r.status, 204);
    assert_string_equal(http_reply_header(&r, "Content-Length"), "");
    assert_string_equal(http_reply_header(&r, "Content-Type"), "");
    http_reply_fini(&r);
    int64_t there = 1;
    struct error e = {""};
    must(client_integer(&fixture.client[0], &there, &e, "EXISTS a/b"), e);
    assert_int_equal(there, 0);
    gives("POST", "/v1/filters/a%2fb/check", "{\"keys\":[\"x\"]}", 404);
    gives("DELETE", "/v1/filters/a%2fb", NULL, 404);
    says("DELETE", "/v1/filters/" FILTER, NULL, 409, "remove [filter");
    gives("GET", "/v1/filters/" FILTER, NULL, 200);
}

static void test_http__head_is_get_without_the_body(void **state)
{
    (void)state;
    static const char *const paths[] = {"/livez", "/readyz", "/v1/openapi.json", "/v1/filters/nothing"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        int fd = raw_open(fixture.daemon[0].http_port);
        assert_true(http_send(fd, "HEAD", paths[i], "", NULL, 0));
        struct http_reply head = http_receive(fd, true);
        assert_true(strtoul(http_reply_header(&head, "Content-Length"), NULL, 10) > 0);
        assert_true(
            http_send(fd, "GET", paths[i], "", NULL, 0)); /* if the answer had a body it would be read here */
        struct http_reply get = http_receive(fd, false);
        assert_int_equal(head.status, get.status);
        assert_int_equal(get.status, i < 3 ? 200 : 404);
        char length[32];
        (void)snprintf(length, sizeof(length), "%s", http_reply_header(&head, "Content-Length"));
        assert_string_equal(length, http_reply_header(&get, "Content-Length"));
        http_reply_fini(&head);
        http_reply_fini(&get);
        raw_close(fd);
    }
}

static void test_http__publishes_its_interface(void **state)
{
    (void)state;
    json_t *root = ask("GET", "/v1/openapi.json", NULL, 200);
    assert_non_null(json_object_get(json_object_get(root, "paths"), "/v1/filters/{filter}/check"));
    json_decref(root);
}

/* --- what an operator asks --- */

static void test_http__drives_an_expansion(void **state)
{
    (void)state;
    says("POST", "/v1/filters/" FILTER "/cutover", "", 409, "no job");
    json_t *plan = ask("GET", "/v1/filters/" FILTER "/plan?capacity=50000", NULL, 200);
    assert_int_equal(json_integer_value(json_object_get(plan, "capacity")), 50000);
    json_decref(plan);
    plan = ask("POST", "/v1/filters/" FILTER "/rebuild", "{\"dry_run\":true}", 200);
    assert_true(json_array_size(json_object_get(plan, "steps")) > 3);
    json_decref(plan);
    struct http_reply r = http_ask(fixture.daemon[0].http_port, "POST", "/v1/filters/" FILTER "/rebuild",
                                   "{\"hold\":true,\"capacity\":20000}");
    assert_int_equal(r.status, 202);
    assert_non_null(strstr(r.body, "\"job_id\":\"" FILTER "."));
    http_reply_fini(&r);
    fixture_wait(&fixture, 0, "job_step", "hold");
    gives("POST", "/v1/filters/" FILTER "/rebuild", "{}", 409);
    says("POST", "/v1/filters/" FILTER "/rollback", "{}", 409, "");
    gives("POST", "/v1/filters/" FILTER "/pause", "{}", 202);
    gives("POST", "/v1/filters/" FILTER "/resume", "{}", 202);
    gives("POST", "/v1/filters/" FILTER "/throttle", "{\"rows_per_second_limit\":5000}", 202);
    gives("POST", "/v1/filters/" FILTER "/cutover", "{}", 202);
    fixture_wait(&fixture, 0, "job_step", "grace");
    gives("POST", "/v1/filters/" FILTER "/rollback", "{}", 202);
    fixture_wait(&fixture, 0, "job_step", "hold");
    gives("POST", "/v1/filters/" FILTER "/abort", "{}", 202);
    fixture_wait(&fixture, 0, "job_state", "aborted");
    fixture_wait(&fixture, 0, "mutex_owner", "");
    gives("POST", "/v1/filters/" FILTER "/verify", "{\"verify_full\":true}", 202);
    fixture_wait(&fixture, 0, "verification", "passed");
    json_t *history = ask("GET", "/v1/filters/" FILTER "/history?count=2", NULL, 200);
    assert_in_range(json_array_size(json_object_get(history, "history")), 1, 2);
    json_decref(history);
}

/* --- what is refused --- */

static void test_http__says_what_there_is_not(void **state)
{
    (void)state;
    gives("GET", "/nothing", NULL, 404);
    gives("GET", "/v1/filters/", NULL, 404);
    gives("GET", "/v1/filters/never", NULL, 404);
    gives("GET", "/v1/filters/never/history", NULL, 404);
    gives("GET", "/v1/filters/never/plan", NULL, 404);
    gives("POST", "/v1/filters/never/rebuild", "{}", 404);
    gives("POST", "/v1/filters/never/abort", "{}", 404);
    says("POST", "/v1/filters/never/check", "{\"keys\":[\"a\"]}", 404, "the filter does not exist");
    says("POST", "/v1/filters/never/add", "{\"keys\":[\"a\"]}", 404, "the filter does not exist");
}

static void test_http__says_which_methods_a_path_takes(void **state)
{
    (void)state;
    struct http_reply r = http_ask(fixture.daemon[0].http_port, "PATCH", "/v1/filters", NULL);
    assert_int_equal(r.status, 405);
    assert_string_equal(http_reply_header(&r, "Allow"), "GET, HEAD, POST, PUT");
    http_reply_fini(&r);
    gives("GET", "/v1/filters/x/add", NULL, 405);
    gives("POST", "/livez", "{}", 405);
    gives("OPTIONS", "/v1/filters", NULL, 405);
}

static void test_http__refuses_bodies_and_queries_that_are_not_wanted(void **state)
{
    (void)state;
    gives("POST", "/v1/filters", "{\"name\":\"h1\",\"capacity\":0}", 422);
    gives("POST", "/v1/filters", "{\"capacity\":1}", 422);
    says("POST", "/v1/filters", "{\"name\":", 400, "line 1, column");
    says("POST", "/v1/filters/h/check", "{\"keys\":[1]}", 422, "item 0");
    gives("POST", "/v1/filters/" FILTER "/throttle", "{}", 422);
    gives("GET", "/v1/filters/" FILTER "/history?count=-1", NULL, 422);
    gives("GET", "/v1/filters/" FILTER "/plan?error_rate=2", NULL, 422);
    gives("GET", "/v1/filters/%zz", NULL, 400);
    char path[1000] = "/v1/filters/";
    memset(path + strlen(path), 'n', sizeof(path) - 1 - strlen(path));
    says("GET", path, NULL, 422, "longer than");
}

static void test_http__takes_nothing_that_a_form_can_send(void **state)
{
    (void)state;
    static const char *const types[] = {"", "Content-Type: text/plain\r\n",
                                        "Content-Type: application/x-www-form-urlencoded\r\n",
                                        "Content-Type: application/jsonp\r\n"};
    int fd = raw_open(fixture.daemon[0].http_port);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        assert_true(http_send(fd, "POST", "/v1/filters/" FILTER "/abort", types[i], "{}", 2));
        struct http_reply r = http_receive(fd, false);
        assert_int_equal(r.status, 415);
        assert_string_equal(http_reply_header(&r, "Access-Control-Allow-Origin"), "");
        http_reply_fini(&r);
    }
    assert_true(http_send(fd, "POST", "/v1/filters/h/check",
                          "Content-Type: Application/JSON; charset=utf-8\r\n", "{\"keys\":[]}", 11));
    struct http_reply r = http_receive(fd, false);
    assert_int_equal(r.status, 200);
    http_reply_fini(&r);
    raw_close(fd);
}

/* --- large batches --- */

static void test_http__others_are_answered_while_a_large_batch_is_worked_on(void **state)
{
    (void)state;
    struct buffer body = {0};
    gives("POST", "/v1/filters", "{\"name\":\"large\",\"capacity\":200000}", 201);
    buffer_puts(&body, "{\"keys\":[\"k0\"");
    for (unsigned i = 1; i < BATCH; i++)
        buffer_printf(&body, ",\"k%u\"", i);
    buffer_puts(&body, "]}");
    int fd = raw_open(fixture.daemon[0].http_port), other = raw_open(fixture.daemon[0].http_port);
    assert_true(http_send(fd, "POST", "/v1/filters/large/add", "Content-Type: application/json\r\n",
                          body.data, body.length));
    size_t answered = 0;
    char byte;
    while (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0) {
        assert_true(http_send(other, "POST", "/v1/filters/large/check", "Content-Type: application/json\r\n",
                              "{\"keys\":[\"x\"]}", 14));
        struct http_reply r = http_receive(other, false);
        assert_int_equal(r.status, 200);
        http_reply_fini(&r);
        answered++;
    }
    assert_true(answered >= 3);
    struct http_reply r = http_receive(fd, false);
    assert_int_equal(r.status, 200);
    json_t *root = json_loads(r.body, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(root, "results")), BATCH);
    json_decref(root);
    http_reply_fini(&r);
    assert_true(http_send(fd, "POST", "/v1/filters/large/check", "Content-Type: application/json\r\n",
                          body.data, body.length));
    r = http_receive(fd, false);
    assert_int_equal(r.status, 200);
    assert_null(strstr(r.body, "false")); /* the results are complete, and in the order of the keys */
    http_reply_fini(&r);
    raw_close(fd);
    raw_close(other);
    buffer_fini(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_http__adds_and_checks_keys_that_clients_of_redis_see),
        cmocka_unit_test(test_http__makes_filters_once_and_says_where),
        cmocka_unit_test(test_http__a_filter_without_room_grows),
        cmocka_unit_test(test_http__status_has_the_fields_of_tb_status),
        cmocka_unit_test(test_http__lists_all_filters),
        cmocka_unit_test(test_http__lists_filters_a_page_at_a_time),
        cmocka_unit_test(test_http__deletes_a_filter_that_is_not_configured),
        cmocka_unit_test(test_http__head_is_get_without_the_body),
        cmocka_unit_test(test_http__publishes_its_interface),
        cmocka_unit_test(test_http__drives_an_expansion),
        cmocka_unit_test(test_http__says_what_there_is_not),
        cmocka_unit_test(test_http__says_which_methods_a_path_takes),
        cmocka_unit_test(test_http__refuses_bodies_and_queries_that_are_not_wanted),
        cmocka_unit_test(test_http__takes_nothing_that_a_form_can_send),
        cmocka_unit_test(test_http__others_are_answered_while_a_large_batch_is_worked_on),
    };
    return fixture_run_tests(&fixture, &options, tests);
}
