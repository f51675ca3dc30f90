/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>
#include <cmocka.h>

#include "service/protocol/field.h"
#include "service/http/message/http_base64.h"
#include "service/http/message/http_json.h"

static void becomes(const char *reply, size_t length, const char *json)
{
    struct buffer out = {0};
    struct error e = {.text = ""};
    if (http_json_reply(&out, reply, length, &e) != ERR_OK)
        fail_msg("%s", e.text);
    assert_string_equal(buffer_text(&out), json);
    buffer_fini(&out);
}

static void test_http_json__has_every_kind_of_reply(void **state)
{
    (void)state;
    struct buffer b = {0};
    struct reply r = {.out = &b, .protocol = REPLY_TYPED};
    reply_map(&r, 9);
    reply_text(&r, "number");
    reply_integer(&r, -42);
    reply_text(&r, "most");
    reply_integer(&r, INT64_MAX);
    reply_text(&r, "tenth");
    reply_double(&r, 0.1);
    reply_text(&r, "small");
    reply_double(&r, 1e-7);
    reply_text(&r, "none");
    reply_double(&r, (double)NAN);
    reply_text(&r, "endless");
    reply_double(&r, (double)-INFINITY);
    reply_simple(&r, "list");
    reply_array(&r, 3);
    reply_boolean(&r, true);
    reply_boolean(&r, false);
    reply_null(&r);
    reply_text(&r, "empty");
    reply_array(&r, 0);
    reply_text(&r, "text");
    reply_bulk(&r, "a\r\n\"\\\0\xc3\xbc", 8);
    becomes(b.data, b.length,
            "{\"number\":-42,\"most\":9223372036854775807,\"tenth\":0.1,\"small\":1e-07,\"none\":null,"
            "\"endless\":null,\"list\":[true,false,null],\"empty\":[],"
            "\"text\":\"a\\u000d\\u000a\\\"\\\\\\u0000\xc3\xbc\"}");
    buffer_fini(&b);
}

static void test_http_json__has_fields_as_numbers_where_they_are_decimals(void **state)
{
    (void)state;
    struct buffer b = {0};
    struct reply r = {.out = &b, .protocol = REPLY_TYPED};
    struct fields f;
    fields_begin(&f, REPLY_TYPED);
    field_decimal(&f, "rate", 0.001);
    field_decimal(&f, "zero", -0.0);
    field_number(&f, "n", 7);
    field_text(&f, "t", "0.5");
    fields_end(&f, &r);
    becomes(b.data, b.length, "{\"rate\":0.001,\"zero\":0,\"n\":7,\"t\":\"0.5\"}");
    buffer_fini(&b);
}

static void test_http_json__keeps_bytes_that_are_no_text(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "\xff",         "\xc0\x80", "\xed\xa0\x80", "\xe2\x82", "\xf5\x80\x80\x80", "\xf4\x90\x80\x80",
        "\xe0\x80\x80", "a\x80"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct buffer out = {0}, base64 = {0};
        http_json_bytes(&out, wrong[i], strlen(wrong[i]));
        http_base64_encode(&base64, wrong[i], strlen(wrong[i]));
        assert_non_null(strstr(buffer_text(&out), "{\"base64\":\""));
        assert_non_null(strstr(buffer_text(&out), buffer_text(&base64)));
        buffer_clear(&out);
        http_json_text(&out, wrong[i], strlen(wrong[i]));
        assert_non_null(strstr(buffer_text(&out), "\xef\xbf\xbd"));
        buffer_fini(&out);
        buffer_fini(&base64);
    }
    becomes("$4\r\n\xf0\x9f\x8c\xb8\r\n", 10, "\"\xf0\x9f\x8c\xb8\"");
}

static void test_http_json__refuses_what_is_no_reply_of_ours(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "+",
                                        "+OK",
                                        "+OK\r",
                                        "+OK\r\n+",
                                        "-ERR\r\n",
                                        ":x\r\n",
                                        ":\r\n",
                                        "$3\r\nab\r\n",
                                        "$3\r\nabcd\r\n",
                                        "$-1\r\n",
                                        "*1\r\n",
                                        "*-1\r\n",
                                        "%1\r\n+a\r\n",
                                        "%1\r\n:1\r\n:1\r\n",
                                        "#x\r\n",
                                        "_x\r\n",
                                        "!x\r\n",
                                        "*99999999999999999999\r\n",
                                        "$9999999999\r\n"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct buffer out = {0};
        struct error e = {.text = ""};
        buffer_puts(&out, "kept");
        if (http_json_reply(&out, wrong[i], strlen(wrong[i]), &e) != ERR_PARSE)
            fail_msg("'%s' was taken", wrong[i]);
        assert_string_equal(buffer_text(&out), "kept");
        buffer_fini(&out);
    }
    struct buffer deep = {0}, out = {0};
    for (unsigned i = 0; i < 100000; i++)
        buffer_puts(&deep, "*1\r\n");
    struct error e;
    assert_int_equal(http_json_reply(&out, deep.data, deep.length, &e), ERR_PARSE);
    buffer_fini(&deep);
    buffer_fini(&out);
}

static void test_base64__is_that_of_the_rfc(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct buffer text = {0}, bytes = {0};
        http_base64_encode(&text, pairs[i][0], strlen(pairs[i][0]));
        assert_string_equal(buffer_text(&text), pairs[i][1]);
        assert_true(http_base64_decode(&bytes, pairs[i][1], strlen(pairs[i][1])));
        assert_string_equal(buffer_text(&bytes), pairs[i][0]);
        buffer_fini(&text);
        buffer_fini(&bytes);
    }
    static const char *const wrong[] = {
        "Z", "Zg", "Zg=", "Zh==", "Zm9=", "Z===", "====", "Zg==Zg==", "Zm 9", "-_-_"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct buffer bytes = {0};
        if (http_base64_decode(&bytes, wrong[i], strlen(wrong[i])))
            fail_msg("'%s' was taken", wrong[i]);
        buffer_fini(&bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_http_json__has_every_kind_of_reply),
        cmocka_unit_test(test_http_json__has_fields_as_numbers_where_they_are_decimals),
        cmocka_unit_test(test_http_json__keeps_bytes_that_are_no_text),
        cmocka_unit_test(test_http_json__refuses_what_is_no_reply_of_ours),
        cmocka_unit_test(test_base64__is_that_of_the_rfc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
