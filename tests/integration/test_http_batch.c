/* SPDX-License-Identifier: MIT */
/* HTTP checks and adds of many keys while a node of Redis does not answer, and results that come too late. */
#include "tests/integration/fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "tests/lib/http.h"
#include "tests/lib/raw.h"

#define JSON "Content-Type: application/json\r\n"

enum { KEYS = 2000, FEW = 50, MANY = 60000 };

static struct fixture fixture;

static int setup(void **state)
{
    (void)state;
    /* without memory: a filter in memory answers without the nodes (test_log_away) */
    if (fixture_start(&fixture, &(struct fixture_options){.nodes = 2,
                                                          .daemons = 1,
                                                          .service = "timeout = 1s\nhttp_timeout = 4s\n",
                                                          .redis_lines = "resident_memory = 0\n"}) != 0)
        return -1;
    fixture_ask(&fixture, 0, "BF.RESERVE wide 0.001 200000"); /* the filter has shards on both nodes */
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

/* A body {"keys": [...]} with k0, k1, ... */
static struct buffer body_of(unsigned count)
{
    struct buffer b = {0};
    buffer_puts(&b, "{\"keys\":[");
    for (unsigned i = 0; i < count; i++)
        buffer_printf(&b, "%s\"k%u\"", i == 0 ? "" : ",", i);
    buffer_puts(&b, "]}");
    return b;
}

static struct http_reply post(const char *path, unsigned count)
{
    struct buffer b = body_of(count);
    struct http_reply r = http_ask(fixture.daemon[0].http_port, "POST", path, buffer_text(&b));
    buffer_fini(&b);
    return r;
}

static void stop_node(unsigned i)
{
    process_signal(&fixture.redis[i].process, SIGSTOP);
}

static void continue_node(unsigned i)
{
    process_signal(&fixture.redis[i].process, SIGCONT);
}

/* The results of @r, which is freed. */
static json_t *results_of(struct http_reply *r)
{
    if (r->status != 200)
        fail_msg("%d: %s", r->status, r->body == NULL ? "" : r->body);
    json_t *root = json_loadb(r->body, r->length, JSON_REJECT_DUPLICATES, NULL);
    json_t *list = json_incref(json_object_get(root, "results"));
    json_decref(root);
    http_reply_fini(r);
    assert_true(json_is_array(list));
    return list;
}

static void is_all(const char *path, unsigned count, bool value)
{
    struct http_reply r = post(path, count);
    json_t *list = results_of(&r), *one;
    size_t i;
    assert_int_equal(json_array_size(list), count);
    json_array_foreach(list, i, one) if (!json_is_boolean(one) || json_is_true(one) != value)
        fail_msg("%s: k%zu is not %s", path, i, value ? "true" : "false");
    json_decref(list);
}

/* Wait until all nodes answer again. */
static void is_back(void)
{
    struct http_reply r = post("/v1/filters/wide/check", KEYS);
    for (unsigned i = 0; i < 100 && (r.status != 200 || strstr(r.body, "\"code\"") != NULL); i++) {
        http_reply_fini(&r);
        clock_sleep_us(50 * 1000);
        r = post("/v1/filters/wide/check", KEYS);
    }
    json_decref(results_of(&r));
    is_all("/v1/filters/wide/check", KEYS, true);
}

/* Keys on the silent node must be errors, the other keys present. */
static void some_fail(struct http_reply *r, unsigned keys)
{
    json_t *list = results_of(r), *one;
    size_t i, errors = 0;
    assert_int_equal(json_array_size(list), keys);
    json_array_foreach(list, i, one)
    {
        const char *error = json_string_value(json_object_get(one, "code"));
        errors += error != NULL;
        if (error == NULL && !json_is_true(one))
            fail_msg("k%zu is not true", i);
        if (error != NULL && strcmp(error, "timeout") != 0 && strcmp(error, "unreachable") != 0)
            fail_msg("k%zu: \"%s\"", i, error);
        if (error != NULL)
            assert_null(strstr(json_string_value(json_object_get(one, "detail")), "acknowledged"));
    }
    json_decref(list);
    assert_in_range(errors, keys / 5, keys - keys / 5);
}

static void all_fail(struct http_reply *r, bool added)
{
    assert_in_range(r->status, 503, 504);
    assert_int_equal(strstr(r->body, "nothing was acknowledged") != NULL, added);
    http_reply_fini(r);
}

static void test_http_batch__a_node_that_does_not_answer_costs_its_keys_alone(void **state)
{
    (void)state;
    struct http_reply r = post("/v1/filters/wide/add", KEYS);
    json_decref(results_of(&r));
    stop_node(1);
    struct http_reply few = post("/v1/filters/wide/check", FEW);
    struct http_reply many = post("/v1/filters/wide/check", KEYS);
    struct http_reply added = post("/v1/filters/wide/add", KEYS);
    continue_node(1);
    some_fail(&few, FEW);
    some_fail(&many, KEYS);
    all_fail(&added, true); /* keys that are added together share one entry, which needs the blocks of all */
    is_back();
}

static void test_http_batch__is_a_problem_where_no_key_is_answered(void **state)
{
    (void)state;
    stop_node(0);
    stop_node(1);
    uint64_t began = clock_mono_us();
    struct http_reply r = post("/v1/filters/wide/check", KEYS);
    uint64_t took = clock_mono_us() - began;
    continue_node(0);
    continue_node(1);
    all_fail(&r, false);
    assert_true(took <
                3500 * 1000); /* the first slice's timeout counts, not the deadline of the whole request */
    is_back();
}

static void is_late(struct http_reply *r)
{
    if (r->status != 504 || strstr(r->body, "no answer within http_timeout (4000 ms)") == NULL)
        fail_msg("%d: %s", r->status, r->body == NULL ? "" : r->body);
    http_reply_fini(r);
}

static void test_http_batch__has_a_deadline_and_what_comes_after_it_is_dropped(void **state)
{
    (void)state;
    stop_node(1);
    struct http_reply r = post("/v1/filters/wide/check", MANY);
    continue_node(1);
    is_late(&r);
    is_back();
}

/* The admin thread waits for the silent node, so nobody makes room in a filter on the other one. */
static void test_http_batch__room_that_is_made_too_late_is_dropped(void **state)
{
    (void)state;
    enum { COUNTS = 8 };
    int fd[COUNTS];
    fixture_ask(&fixture, 0, "BF.RESERVE small 0.001 100");
    stop_node(1);
    for (unsigned i = 0; i < COUNTS; i++) {
        fd[i] = raw_open(fixture.daemon[0].port);
        assert_true(raw_puts(fd[i], "*2\r\n$8\r\nTB.COUNT\r\n$4\r\nwide\r\n"));
    }
    struct http_reply r = post("/v1/filters/small/add", KEYS);
    continue_node(1);
    all_fail(&r, true); /* each add reports by itself that it found no room in time */
    for (unsigned i = 0; i < COUNTS; i++)
        raw_close(fd[i]);
    r = post("/v1/filters/small/add", KEYS);
    for (unsigned i = 0; i < 10 && (r.status != 200 || strstr(r.body, "\"code\"") != NULL); i++) {
        http_reply_fini(&r); /* the control makes room when it reaches the node again */
        r = post("/v1/filters/small/add", KEYS);
    }
    json_decref(results_of(&r));
    is_all("/v1/filters/small/check", KEYS, true);
    is_back();
}

static void test_http_batch__that_outlasts_the_daemon_goes_with_it(void **state)
{
    (void)state;
    struct error e = {""};
    struct daemon d;
    must(daemon_start(&d, &(struct daemon_options){.nodes = fixture.node_list, .service = "timeout = 20s\n"},
                      &e),
         e);
    struct buffer b = body_of(KEYS);
    int fd = raw_open(d.http_port), other = raw_open(d.http_port);
    stop_node(1);
    assert_true(http_send(fd, "POST", "/v1/filters/wide/check", JSON, b.data, b.length));
    assert_true(http_send(other, "GET", "/livez", "", NULL, 0));
    struct http_reply r = http_receive(other, false);
    http_reply_fini(&r);
    process_signal(&d.process, SIGTERM);
    bool clean = daemon_fini(&d);
    continue_node(1);
    assert_true(clean);
    assert_true(raw_expect_close(fd));
    raw_close(fd);
    raw_close(other);
    buffer_fini(&b);
    is_back();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_http_batch__a_node_that_does_not_answer_costs_its_keys_alone),
        cmocka_unit_test(test_http_batch__is_a_problem_where_no_key_is_answered),
        cmocka_unit_test(test_http_batch__has_a_deadline_and_what_comes_after_it_is_dropped),
        cmocka_unit_test(test_http_batch__room_that_is_made_too_late_is_dropped),
        cmocka_unit_test(test_http_batch__that_outlasts_the_daemon_goes_with_it),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
