/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <jansson.h>

#include "service/http/http_internal.h"
#include "service/http/http_route.h"

extern const char embedded_openapi[], embedded_errors[];

/* Returns the pattern of the route for a request; "": there is none. The request's filter must be @filter. */
static const char *find(const char *method, const char *path, const char *filter, size_t length)
{
    struct buffer name = {0};
    bool known;
    const struct http_route *route = http_route_find(method, path, &name, &known);
    if (route != NULL) {
        assert_true(known);
        assert_int_equal(name.length, length);
        assert_memory_equal(name.length == 0 ? "" : name.data, filter, length);
    }
    buffer_fini(&name);
    return route == NULL ? "" : route->pattern;
}

static void test_http_route__finds_a_row_by_method_and_path(void **state)
{
    (void)state;
    assert_string_equal(find("GET", "/", "", 0), "/");
    assert_string_equal(find("GET", "/dashboard/app.js", "app.js", 6), "/dashboard/{file}");
    assert_string_equal(find("GET", "/livez", "", 0), "/livez");
    assert_string_equal(find("HEAD", "/livez", "", 0), "/livez");
    assert_string_equal(find("GET", "/v1/filters", "", 0), "/v1/filters");
    assert_string_equal(find("GET", "/v1/filters/a", "a", 1), "/v1/filters/{filter}");
    assert_string_equal(find("POST", "/v1/filters/a/add", "a", 1), "/v1/filters/{filter}/add");
    assert_string_equal(find("POST", "/v1/filters/add/add", "add", 3), "/v1/filters/{filter}/add");
}

static void test_http_route__decodes_any_byte_of_a_filter(void **state)
{
    (void)state;
    assert_string_equal(find("GET", "/v1/filters/%00%2f%FFx", "\0/\xffx", 4), "/v1/filters/{filter}");
    assert_string_equal(find("GET", "/v1/filters/a%20b+c", "a b+c", 5), "/v1/filters/{filter}");
    assert_string_equal(find("GET", "/v1/filters/%2e%2e/plan", "..", 2), "/v1/filters/{filter}/plan");
}

static void test_http_route__knows_no_other_path(void **state)
{
    (void)state;
    static const char *const paths[] = {"",
                                        "/dashboard",
                                        "/dashboard/",
                                        "/dashboard/x/y.js",
                                        "/dashboard/../app.js",
                                        "*",
                                        "/livez/",
                                        "/livez2",
                                        "/LIVEZ",
                                        "/v1/filters/",
                                        "/v1/filters/a/",
                                        "/v1/filters/a/nothing",
                                        "/v1/filters/a/b/add",
                                        "/v1/filters//add"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        bool known = true;
        struct buffer name = {0};
        assert_null(http_route_find("GET", paths[i], &name, &known));
        assert_false(known);
        assert_null(http_route_find("POST", paths[i], &name, &known));
        assert_false(known);
        buffer_fini(&name);
    }
}

static void test_http_route__tells_a_wrong_method_and_wrong_percents_from_a_wrong_path(void **state)
{
    (void)state;
    struct buffer name = {0}, allow = {0};
    bool known = false;
    assert_null(http_route_find("DELETE", "/v1/filters", &name, &known));
    assert_true(known);
    http_route_allow("/v1/filters", &allow);
    assert_string_equal(buffer_text(&allow), "GET, HEAD, POST, PUT");
    buffer_clear(&allow);
    http_route_allow("/v1/filters/x/add", &allow);
    assert_string_equal(buffer_text(&allow), "POST");
    static const char *const wrong[] = {"/v1/filters/%", "/v1/filters/%2", "/v1/filters/%zz",
                                        "/v1/filters/%2/plan"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        known = false;
        assert_null(http_route_find("GET", wrong[i], &name, &known));
        assert_true(known);
    }
    buffer_fini(&name);
    buffer_fini(&allow);
}

static void test_http_percent__encodes_what_it_decodes(void **state)
{
    (void)state;
    char all[256];
    struct buffer text = {0}, back = {0};
    for (size_t i = 0; i < sizeof(all); i++)
        all[i] = (char)i;
    buffer_percent(&text, all, sizeof(all));
    assert_null(memchr(text.data, '/', text.length));
    assert_null(memchr(text.data, '\0', text.length));
    assert_true(http_percent_decode(&back, text.data, text.length));
    assert_int_equal(back.length, sizeof(all));
    assert_memory_equal(back.data, all, sizeof(all));
    buffer_fini(&text);
    buffer_fini(&back);
}

/* --- the published interface --- */

static void test_openapi__names_exactly_the_routes_of_the_table(void **state)
{
    (void)state;
    json_error_t why;
    json_t *root = json_loads(embedded_openapi, JSON_REJECT_DUPLICATES, &why);
    if (root == NULL)
        fail_msg("openapi.json, line %d: %s", why.line, why.text);
    const json_t *paths = json_object_get(root, "paths");
    size_t described = 0;
    const char *path, *method;
    json_t *item, *operation;
    json_object_foreach((json_t *)(uintptr_t)paths, path, item)
    {
        json_object_foreach(item, method, operation)
        {
            described += strcmp(method, "parameters") != 0;
        }
    }
    for (size_t i = 0; i < http_route_count; i++) {
        const struct http_route *route = &http_routes[i];
        if (route->run == http_dashboard)
            continue; /* the dashboard's files are not part of the interface */
        described--;
        char lower[8] = "";
        for (size_t n = 0; route->method[n] != '\0'; n++)
            lower[n] = (char)(route->method[n] | 0x20);
        operation = json_object_get(json_object_get(paths, route->pattern), lower);
        if (operation == NULL)
            fail_msg("openapi.json does not name %s %s", route->method, route->pattern);
        assert_string_equal(json_string_value(json_object_get(operation, "summary")), route->summary);
        assert_int_equal(json_object_get(operation, "requestBody") != NULL, route->body != 0);
        assert_int_equal(json_object_get(operation, "security") != NULL, route->role == HTTP_ROLE_NONE);
        const json_t *answers = json_object_get(operation, "responses"); /* see is_asked_from_here() */
        assert_int_equal(json_object_get(answers, "421") != NULL, route->role != HTTP_ROLE_NONE);
        static const char *const always[] = {"400", "413", "417", "501"}; /* see http_parse.c */
        for (size_t n = 0; n < sizeof(always) / sizeof(always[0]); n++)
            assert_non_null(json_object_get(answers, always[n]));
        assert_true(json_array_size(json_object_get(operation, "tags")) == 1);
    }
    assert_int_equal(described, 0);
    json_decref(root);
}

static void test_http_problem__is_as_rfc_9457_has_it(void **state)
{
    (void)state;
    struct buffer out = {0};
    http_problem_body(&out, 404, "not-found", "no \"such\"\n\xff", "/x");
    assert_string_equal(
        buffer_text(&out),
        "{\"type\":\"/errors#not-found\",\"code\":\"not-found\",\"title\":\"Not Found\","
        "\"status\":404,\"detail\":\"no \\\"such\\\"\\u000a\xef\xbf\xbd\",\"instance\":\"/x\"}");
    buffer_fini(&out);
}

static void has_place(const char *page, const char *name)
{
    char place[64];
    (void)snprintf(place, sizeof(place), "<h2 id=\"%s\">", name);
    const char *at = strstr(page, place);
    if (at == NULL || strstr(at + 1, place) != NULL)
        fail_msg("the page of errors has %s not once", name);
}

static void test_http_problem__of_each_code_has_one_place_on_the_page(void **state)
{
    (void)state;
    size_t count;
    const struct error_code *errors = error_codes(&count);
    for (size_t i = 0; i < count; i++)
        has_place(embedded_errors, errors[i].name);
    for (enum http_code code = 0; code < HTTP_CODE_COUNT; code++) {
        has_place(embedded_errors, http_code_row(code)->name);
        assert_string_not_equal(http_reason(http_code_row(code)->status), "Error");
    }
    assert_null(strchr(embedded_errors, '`'));
}

static void test_http_problem__of_a_refused_head_has_the_code_of_its_status(void **state)
{
    (void)state;
    static const int statuses[] = {400, 403, 413, 417, 421, 501}; /* of http_parse.c and http_origin.c */
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
        assert_int_equal(http_code_row(http_code_of_refusal(statuses[i]))->status, statuses[i]);
    assert_int_equal(http_code_of_refusal(403), HTTP_OTHER_SITE);
}

static void test_http_status__of_each_error_is_one_that_has_a_name(void **state)
{
    (void)state;
    static const enum err codes[] = {
#define X(code, ...) code,
        ERROR_CODES(X)
#undef X
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        assert_in_range(http_status_of(codes[i]), 400, 599);
        assert_string_not_equal(http_reason(http_status_of(codes[i])), "Error");
    }
    assert_int_equal(http_status_of(ERR_PARSE), 400);
    assert_int_equal(http_status_of(ERR_NOT_FOUND), 404);
    assert_int_equal(http_status_of(ERR_BUSY), 409);
    assert_int_equal(http_status_of(ERR_RANGE), 422);
    assert_int_equal(http_status_of(ERR_UNREACHABLE), 503);
    assert_int_equal(http_status_of(ERR_TIMEOUT), 504);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_http_route__finds_a_row_by_method_and_path),
        cmocka_unit_test(test_http_route__decodes_any_byte_of_a_filter),
        cmocka_unit_test(test_http_route__knows_no_other_path),
        cmocka_unit_test(test_http_route__tells_a_wrong_method_and_wrong_percents_from_a_wrong_path),
        cmocka_unit_test(test_http_percent__encodes_what_it_decodes),
        cmocka_unit_test(test_openapi__names_exactly_the_routes_of_the_table),
        cmocka_unit_test(test_http_problem__is_as_rfc_9457_has_it),
        cmocka_unit_test(test_http_problem__of_each_code_has_one_place_on_the_page),
        cmocka_unit_test(test_http_problem__of_a_refused_head_has_the_code_of_its_status),
        cmocka_unit_test(test_http_status__of_each_error_is_one_that_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
