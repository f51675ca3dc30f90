/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>
#include <cmocka.h>

#include "service/protocol/field.h"
#include "service/protocol/base64.h"
#include "service/protocol/json.h"

static void becomes(struct fields *f, const char *json)
{
    struct buffer out = {0};
    struct reply r = {.out = &out, .protocol = REPLY_JSON};
    fields_end(f, &r);
    assert_string_equal(buffer_text(&out), json);
    buffer_fini(&out);
}

static void test_json__has_every_kind_of_reply(void **state)
{
    (void)state;
    struct fields f, list;
    fields_begin(&f, REPLY_JSON);
    field_number(&f, "number", (uint64_t)-42);
    field_number(&f, "most", INT64_MAX);
    reply_name(&f.reply, "tenth");
    reply_double(&f.reply, 0.1);
    reply_name(&f.reply, "small");
    reply_double(&f.reply, 1e-7);
    reply_name(&f.reply, "none");
    reply_double(&f.reply, (double)NAN);
    reply_name(&f.reply, "endless");
    reply_double(&f.reply, (double)-INFINITY);
    field_array(&f, "list", 3);
    reply_boolean(&f.reply, true);
    reply_boolean(&f.reply, false);
    reply_null(&f.reply);
    field_array(&f, "empty", 0);
    fields_begin(&list, REPLY_JSON);
    field_list(&f, "none_of_them", &list);
    field_bytes(&f, "text", "a\r\n\"\\\0\xc3\xbc", 8);
    becomes(&f, "{\"number\":-42,\"most\":9223372036854775807,\"tenth\":0.1,\"small\":1e-07,\"none\":null,"
                "\"endless\":null,\"list\":[true,false,null],\"empty\":[],\"none_of_them\":[],"
                "\"text\":\"a\\u000d\\u000a\\\"\\\\\\u0000\xc3\xbc\"}");
}

static void test_json__closes_arrays_behind_their_last_element(void **state)
{
    (void)state;
    struct fields f, list, each;
    fields_begin(&f, REPLY_JSON);
    field_array(&f, "pairs", 2);
    for (int i = 0; i < 2; i++) {
        reply_array(&f.reply, 2);
        reply_integer(&f.reply, i);
        reply_simple(&f.reply, "[,");
    }
    fields_begin(&list, REPLY_JSON);
    for (; list.count < 2; list.count++) {
        fields_begin(&each, REPLY_JSON);
        field_array(&each, "a", 1);
        reply_array(&each.reply, 1);
        reply_array(&each.reply, 0);
        fields_end(&each, &list.reply);
    }
    field_list(&f, "maps", &list);
    field_array(&f, "maps_too", 1);
    fields_begin(&each, REPLY_JSON);
    fields_end(&each, &f.reply);
    field_null(&f, "last");
    becomes(&f, "{\"pairs\":[[0,\"[,\"],[1,\"[,\"]],\"maps\":[{\"a\":[[[]]]},{\"a\":[[[]]]}],"
                "\"maps_too\":[{}],\"last\":null}");
}

static void test_json__has_fields_as_numbers_where_they_are_decimals(void **state)
{
    (void)state;
    struct fields f;
    fields_begin(&f, REPLY_JSON);
    field_decimal(&f, "rate", 0.001);
    field_decimal(&f, "zero", -0.0);
    field_number(&f, "n", 7);
    field_text(&f, "t", "0.5");
    field_time(&f, "at", 1500);
    becomes(&f, "{\"rate\":0.001,\"zero\":0,\"n\":7,\"t\":\"0.5\",\"at\":1.5}");
}

static void test_json__keeps_bytes_that_are_no_text(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "\xff",         "\xc0\x80", "\xed\xa0\x80", "\xe2\x82", "\xf5\x80\x80\x80", "\xf4\x90\x80\x80",
        "\xe0\x80\x80", "a\x80"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct buffer out = {0}, base64 = {0};
        json_put_bytes(&out, wrong[i], strlen(wrong[i]));
        base64_encode(&base64, wrong[i], strlen(wrong[i]));
        assert_non_null(strstr(buffer_text(&out), "{\"base64\":\""));
        assert_non_null(strstr(buffer_text(&out), buffer_text(&base64)));
        buffer_clear(&out);
        json_put_text(&out, wrong[i], strlen(wrong[i]));
        assert_non_null(strstr(buffer_text(&out), "\xef\xbf\xbd"));
        buffer_fini(&out);
        buffer_fini(&base64);
    }
    struct buffer out = {0};
    json_put_bytes(&out, "\xf0\x9f\x8c\xb8", 4);
    assert_string_equal(buffer_text(&out), "\"\xf0\x9f\x8c\xb8\"");
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
        base64_encode(&text, pairs[i][0], strlen(pairs[i][0]));
        assert_string_equal(buffer_text(&text), pairs[i][1]);
        assert_true(base64_decode(&bytes, pairs[i][1], strlen(pairs[i][1])));
        assert_string_equal(buffer_text(&bytes), pairs[i][0]);
        buffer_fini(&text);
        buffer_fini(&bytes);
    }
    static const char *const wrong[] = {
        "Z", "Zg", "Zg=", "Zh==", "Zm9=", "Z===", "====", "Zg==Zg==", "Zm 9", "-_-_"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct buffer bytes = {0};
        if (base64_decode(&bytes, wrong[i], strlen(wrong[i])))
            fail_msg("'%s' was taken", wrong[i]);
        buffer_fini(&bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json__has_every_kind_of_reply),
        cmocka_unit_test(test_json__closes_arrays_behind_their_last_element),
        cmocka_unit_test(test_json__has_fields_as_numbers_where_they_are_decimals),
        cmocka_unit_test(test_json__keeps_bytes_that_are_no_text),
        cmocka_unit_test(test_base64__is_that_of_the_rfc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
