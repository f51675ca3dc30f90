/* SPDX-License-Identifier: MIT */
/* The dashboard's page with its protecting headers, and requests that another site's page may have sent. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#include "tests/lib/http.h"
#include "tests/lib/raw.h"

#define JSON "Content-Type: application/json\r\n"

static struct fixture fixture;

static const struct fixture_options options = {.nodes = 1,
                                               .daemons = 1,
                                               .redis_lines = "shard_bytes = 4KiB\ntimeout = 300ms\n",
                                               .command = "BF.RESERVE h 0.001 20000"};

static void test_dashboard__comes_with_what_guards_it(void **state)
{
    (void)state;
    static const char *const files[] = {"/", "/dashboard/app.js"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char etag[128], headers[256];
        struct http_reply r = http_ask(fixture.daemon[0].http_port, "GET", files[i], NULL);
        assert_int_equal(r.status, 200);
        const char *policy = http_reply_header(&r, "Content-Security-Policy");
        assert_non_null(strstr(policy, "default-src 'none'"));
        assert_non_null(strstr(policy, "frame-ancestors 'none'"));
        assert_null(strstr(policy, "unsafe"));
        assert_string_equal(http_reply_header(&r, "X-Content-Type-Options"), "nosniff");
        assert_string_equal(http_reply_header(&r, "Referrer-Policy"), "no-referrer");
        assert_string_equal(http_reply_header(&r, "Cache-Control"), "no-cache");
        (void)snprintf(etag, sizeof(etag), "%s", http_reply_header(&r, "ETag"));
        http_reply_fini(&r);
        (void)snprintf(headers, sizeof(headers), "If-None-Match: %s\r\n", etag);
        int fd = raw_open(fixture.daemon[0].http_port);
        assert_true(http_send(fd, "GET", files[i], headers, NULL, 0));
        r = http_receive(fd, true);
        assert_int_equal(r.status, 304);
        assert_string_equal(http_reply_header(&r, "ETag"), etag);
        assert_string_equal(http_reply_header(&r, "Content-Length"), ""); /* would be the page's */
        assert_string_equal(http_reply_header(&r, "Content-Type"), "");
        http_reply_fini(&r);
        raw_close(fd);
        assert_int_equal(http_status(fixture.daemon[0].http_port, "POST", files[i], JSON, "{}"), 405);
    }
}

static void test_dashboard__is_compressed_for_those_who_take_that(void **state)
{
    (void)state;
    static const struct {
        const char *headers;
        const char *coding;
    } cases[] = {{"", ""},
                 {"Accept-Encoding: gzip, deflate, br\r\n", "gzip"},
                 {"Accept-Encoding: br, GZIP ; Q=0.1\r\n", "gzip"},
                 {"Accept-Encoding: deflate, identity\r\n", ""},
                 {"Accept-Encoding: gzip;q=0, identity\r\n", ""},
                 {"Accept-Encoding: deflate, gzip; q=0.000\r\n", ""}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int fd = raw_open(fixture.daemon[0].http_port);
        assert_true(http_send(fd, "GET", "/dashboard/app.js", cases[i].headers, NULL, 0));
        struct http_reply r = http_receive(fd, false);
        assert_int_equal(r.status, 200);
        if (strcmp(http_reply_header(&r, "Content-Encoding"), cases[i].coding) != 0)
            fail_msg("%s: \"%s\"", cases[i].headers, http_reply_header(&r, "Content-Encoding"));
        bool is_text = strstr(r.body, "import ") != NULL;
        assert_int_equal(is_text, cases[i].coding[0] == '\0');
        http_reply_fini(&r);
        raw_close(fd);
    }
}

/* The policy's @directive must allow the text between the tags, only by its hash. */
static void is_let_in(const struct http_reply *r, const char *opens, const char *closes,
                      const char *directive)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length;
    char hash[64], wanted[128];
    const char *from = strstr(r->body, opens), *to = from == NULL ? NULL : strstr(from, closes);
    assert_non_null(to);
    from += strlen(opens);
    assert_int_equal(EVP_Digest(from, (size_t)(to - from), digest, &length, EVP_sha256(), NULL), 1);
    assert_int_equal(EVP_EncodeBlock((unsigned char *)hash, digest, (int)length), 44);
    (void)snprintf(wanted, sizeof(wanted), "; %s 'sha256-%s'; ", directive, hash);
    assert_non_null(strstr(http_reply_header(r, "Content-Security-Policy"), wanted));
}

static void test_dashboard__has_its_style_in_the_page_and_its_hash_in_the_policy(void **state)
{
    (void)state;
    struct http_reply r = http_ask(fixture.daemon[0].http_port, "GET", "/", NULL);
    assert_int_equal(r.status, 200);
    is_let_in(&r, "<style>", "</style>", "style-src");
    is_let_in(&r, "<script>", "</script>", "script-src 'self'");
    assert_non_null(strstr(r.body, "--petal-a:"));            /* from style.css */
    assert_non_null(strstr(r.body, "localStorage.getItem(")); /* from theme.js */
    assert_null(strstr(r.body, "rel=\"stylesheet\""));
    http_reply_fini(&r);
    assert_int_equal(http_status(fixture.daemon[0].http_port, "GET", "/dashboard/style.css", "", NULL), 404);
}

static void test_other_sites__are_refused_where_they_would_change_something(void **state)
{
    (void)state;
    static const char add[] = "/v1/filters/h/check", body[] = "{\"keys\":[]}";
    assert_int_equal(http_status(fixture.daemon[0].http_port, "POST", add, JSON, body),
                     200); /* not from a browser */
    assert_int_equal(
        http_status(fixture.daemon[0].http_port, "POST", add, JSON "Origin: http://evil.example\r\n", body),
        403);
    assert_int_equal(http_status(fixture.daemon[0].http_port, "POST", add, JSON "Origin: null\r\n", body),
                     403);
    assert_int_equal(
        http_status(fixture.daemon[0].http_port, "POST", add, JSON "Sec-Fetch-Site: cross-site\r\n", body),
        403);
    assert_int_equal(
        http_status(fixture.daemon[0].http_port, "POST", add, JSON "Sec-Fetch-Site: same-site\r\n", body),
        403);
    assert_int_equal(
        http_status(fixture.daemon[0].http_port, "POST", add, JSON "Sec-Fetch-Site: same-origin\r\n", body),
        403);
    assert_int_equal(
        http_status(fixture.daemon[0].http_port, "POST", add, JSON "Origin: http://localhost\r\n", body),
        403);
    assert_int_equal(http_status(fixture.daemon[0].http_port, "POST", add,
                                 JSON "Origin: http://localhost\r\nX-CSRF-Token: 00\r\n", body),
                     403);
    struct http_reply r = http_ask(fixture.daemon[0].http_port, "GET", "/v1/session", NULL);
    const char *at = strstr(r.body, "\"csrf_token\":\"");
    assert_non_null(at);
    char headers[512];
    (void)snprintf(headers, sizeof(headers), JSON "Origin: http://localhost\r\nX-CSRF-Token: %.64s\r\n",
                   at + strlen("\"csrf_token\":\""));
    http_reply_fini(&r);
    assert_int_equal(http_status(fixture.daemon[0].http_port, "POST", add, headers, body), 200);
    static const char other[] =
        "/v1/filters/h"; /* without a body there is no content type that a form could not send */
    assert_int_equal(
        http_status(fixture.daemon[0].http_port, "DELETE", other, "Origin: http://evil.example\r\n", NULL),
        403);
    assert_int_equal(
        http_status(fixture.daemon[0].http_port, "DELETE", other, "Sec-Fetch-Site: cross-site\r\n", NULL),
        403);
    assert_int_equal(
        http_status(fixture.daemon[0].http_port, "DELETE", other, "Origin: http://localhost\r\n", NULL), 403);
    assert_int_equal(http_status(fixture.daemon[0].http_port, "GET", other, "", NULL), 200);
    assert_int_equal(http_status_misdirected(fixture.daemon[0].http_port, "/v1/filters"), 421);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dashboard__comes_with_what_guards_it),
        cmocka_unit_test(test_dashboard__is_compressed_for_those_who_take_that),
        cmocka_unit_test(test_dashboard__has_its_style_in_the_page_and_its_hash_in_the_policy),
        cmocka_unit_test(test_other_sites__are_refused_where_they_would_change_something),
    };
    return fixture_run_tests(&fixture, &options, tests);
}
