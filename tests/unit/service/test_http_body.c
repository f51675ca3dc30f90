/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "service/http/message/http_body.h"

static struct http_body take(enum http_body_kind kind, const char *text)
{
    struct http_body body = {0};
    struct error e = {.text = ""};
    if (http_body_parse(&body, kind, text, strlen(text), &e) != ERR_OK)
        fail_msg("%s: %s", text, e.text);
    return body;
}

static void is_key(const struct http_body *b, size_t i, const char *bytes, size_t length)
{
    assert_int_equal(b->keys[i].length, length);
    if (length > 0)
        assert_memory_equal(b->bytes.data + b->keys[i].offset, bytes, length);
}

static void refuse(enum http_body_kind kind, const char *text, enum err code, const char *why)
{
    struct http_body body = {0};
    struct error e = {.text = ""};
    enum err got = http_body_parse(&body, kind, text, strlen(text), &e);
    if (got != code || strstr(e.text, why) == NULL)
        fail_msg("%s: %s: %s", text, error_name(got), e.text);
    http_body_fini(&body);
}

static void test_http_body__has_keys_of_any_bytes(void **state)
{
    (void)state;
    struct http_body b = take(HTTP_BODY_KEYS, "{\"keys\":[\"a\",\"\",\"x\\u0000y\",\"\\u00fc\"]}");
    assert_int_equal(b.key_count, 4);
    is_key(&b, 0, "a", 1);
    is_key(&b, 1, "", 0);
    is_key(&b, 2, "x\0y", 3);
    is_key(&b, 3, "\xc3\xbc", 2);
    http_body_fini(&b);
    b = take(HTTP_BODY_KEYS, " {\"keys_base64\" : [\"/wA=\", \"\"] } ");
    assert_int_equal(b.key_count, 2);
    is_key(&b, 0, "\xff\0", 2);
    is_key(&b, 1, "", 0);
    http_body_fini(&b);
    b = take(HTTP_BODY_KEYS, "{\"keys\":[]}");
    assert_int_equal(b.key_count, 0);
    http_body_fini(&b);
}

/* A body of the usual form is parsed without a JSON tree. The result must be the same as with one. */
static void test_http_body__is_the_same_with_and_without_a_tree(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{\"keys\":[\"a\",\"\",\"b c\"]}",
        " {\t\"keys\" : [ \"a\" , \"b\"\r\n] }\n",
        "{\"keys\":[\"\xc3\xa9\",\"\x7f\"]}",
        "{\"keys\":[\"\xc3\"]}",
        "{\"keys\":[\"\xed\xa0\x80\"]}",
        "{\"keys\":[\"a\\n\",\"b\"]}",
        "{\"keys\":[\"a\nb\"]}",
        "{\"keys\":[]}",
        "{\"keys\":[\"a\",]}",
        "{\"keys\":[\"a\"]",
        "{\"keys\":[\"a\"]}}",
        "{\"keys\":[\"a\"],\"keys\":[\"b\"]}",
        "{\"keys\":[\"a\"],\"other\":1}",
        "{\"keys\":[\"a\",1]}",
        "{\"keys\":[\"a\" \"b\"]}",
        "{\"keys\":[\"a",
        "{\"keys\":",
        "{",
    };
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct http_body plain = {0}, tree = {0};
        struct error one = {.text = ""}, two = {.text = ""};
        enum err code = http_body_parse(&plain, HTTP_BODY_KEYS, bodies[i], strlen(bodies[i]), &one);
        assert_int_equal(http_body_parse_tree(&tree, HTTP_BODY_KEYS, bodies[i], strlen(bodies[i]), &two),
                         code);
        assert_string_equal(one.text, two.text);
        assert_true(code != ERR_OK || plain.key_count == tree.key_count);
        for (size_t k = 0; code == ERR_OK && k < tree.key_count; k++)
            is_key(&plain, k, tree.bytes.data + tree.keys[k].offset, tree.keys[k].length);
        http_body_fini(&plain);
        http_body_fini(&tree);
    }
}

static void test_http_body__has_what_a_filter_is_made_from(void **state)
{
    (void)state;
    struct http_body b = take(HTTP_BODY_CREATE, "{\"name\":\"n\",\"capacity\":1000,\"error_rate\":1e-3,"
                                                "\"expansion\":4}");
    assert_memory_equal(b.bytes.data + b.name.offset, "n", b.name.length);
    assert_int_equal(b.capacity, 1000);
    assert_true(b.error_rate > 0.000999 && b.error_rate < 0.001001);
    assert_int_equal(b.expansion, 4);
    assert_false(b.nonscaling);
    http_body_fini(&b);
    b = take(HTTP_BODY_CREATE, "{\"name_base64\":\"/w==\",\"nonscaling\":true}");
    assert_int_equal(b.name.length, 1);
    assert_true(b.nonscaling);
    http_body_fini(&b);
}

static void test_http_body__may_be_empty_where_nothing_is_needed(void **state)
{
    (void)state;
    struct http_body b = take(HTTP_BODY_NONE, "");
    http_body_fini(&b);
    b = take(HTTP_BODY_REBUILD, "");
    assert_false(b.hold || b.dry_run || b.verify_full);
    http_body_fini(&b);
    b = take(HTTP_BODY_REBUILD, "{\"hold\":true,\"verify_full\":true,\"capacity\":5}");
    assert_true(b.hold && b.verify_full && !b.dry_run);
    http_body_fini(&b);
    b = take(HTTP_BODY_REBUILD, "{\"nodes\":[\"a:1\",\"b:2\"],\"hold\":true}");
    assert_int_equal(b.nodes.length, 7);
    assert_string_equal(b.bytes.data + b.nodes.offset, "a:1,b:2");
    http_body_fini(&b);
    refuse(HTTP_BODY_REBUILD, "{\"nodes\":[]}", ERR_RANGE, "'nodes'");
    refuse(HTTP_BODY_REBUILD, "{\"nodes\":\"a:1\"}", ERR_RANGE, "'nodes'");
    refuse(HTTP_BODY_REBUILD, "{\"nodes\":[1]}", ERR_RANGE, "'nodes'");
    refuse(HTTP_BODY_REBUILD, "{\"nodes\":[\"a\\u0000b\"]}", ERR_RANGE, "'nodes'");
    refuse(HTTP_BODY_VERIFY, "{\"nodes\":[\"a\"]}", ERR_RANGE, "not a member");
    b = take(HTTP_BODY_THROTTLE, "{\"rows_per_second_limit\":0}");
    assert_int_equal(b.rows_per_second, 0);
    http_body_fini(&b);
    refuse(HTTP_BODY_THROTTLE, "", ERR_RANGE, "'rows_per_second_limit' is missing");
    refuse(HTTP_BODY_KEYS, "", ERR_RANGE, "'keys' or 'keys_base64' is missing");
    refuse(HTTP_BODY_CREATE, "{\"capacity\":1}", ERR_RANGE, "'name' or 'name_base64' is missing");
}

static void test_http_body__says_where_it_is_no_json(void **state)
{
    (void)state;
    refuse(HTTP_BODY_KEYS, "{\"keys\":[\"a\"", ERR_PARSE, "line 1, column 12, byte 12");
    refuse(HTTP_BODY_KEYS, "{\"keys\":\n[x]}", ERR_PARSE, "line 2, column 2");
    refuse(HTTP_BODY_KEYS, "{} {}", ERR_PARSE, "end of file expected");
    refuse(HTTP_BODY_KEYS, "{\"keys\":[],\"keys\":[]}", ERR_PARSE, "duplicate");
    refuse(HTTP_BODY_KEYS, "{\"keys\":[\"\xff\"]}", ERR_PARSE, "byte 10");
    refuse(HTTP_BODY_KEYS, "{\"keys\":[\"\\ud800\"]}", ERR_PARSE, "line 1");
    refuse(HTTP_BODY_KEYS, "\"keys\"", ERR_PARSE, "'[' or '{' expected");
}

static void test_http_body__refuses_json_that_is_not_what_is_wanted(void **state)
{
    (void)state;
    refuse(HTTP_BODY_KEYS, "[]", ERR_RANGE, "not an object");
    refuse(HTTP_BODY_KEYS, "{\"keys\":\"a\"}", ERR_RANGE, "'keys' is not an array");
    refuse(HTTP_BODY_KEYS, "{\"keys\":[\"a\",7]}", ERR_RANGE, "item 1 is not a string");
    refuse(HTTP_BODY_KEYS, "{\"keys_base64\":[\"AA==\",\"?\"]}", ERR_RANGE, "item 1: 'keys_base64'");
    refuse(HTTP_BODY_KEYS, "{\"keys\":[],\"keys_base64\":[]}", ERR_RANGE, "in the other form, too");
    refuse(HTTP_BODY_KEYS, "{\"keys\":[],\"capacity\":1}", ERR_RANGE,
           "'capacity' is not a member that this route takes, which are: keys, keys_base64");
    refuse(HTTP_BODY_NONE, "{\"x\":1}", ERR_RANGE,
           "'x' is not a member that this route takes, which are: none");
    refuse(HTTP_BODY_CREATE, "{\"name\":\"\"}", ERR_RANGE, "'name'");
    refuse(HTTP_BODY_CREATE, "{\"name\":\"n\",\"capacity\":0}", ERR_RANGE, "'capacity'");
    refuse(HTTP_BODY_CREATE, "{\"name\":\"n\",\"capacity\":1.5}", ERR_RANGE, "'capacity'");
    refuse(HTTP_BODY_CREATE, "{\"name\":\"n\",\"capacity\":\"1\"}", ERR_RANGE, "'capacity'");
    refuse(HTTP_BODY_CREATE, "{\"name\":\"n\",\"error_rate\":1}", ERR_RANGE, "'error_rate'");
    refuse(HTTP_BODY_CREATE, "{\"name\":\"n\",\"error_rate\":0}", ERR_RANGE, "'error_rate'");
    refuse(HTTP_BODY_CREATE, "{\"name\":\"n\",\"expansion\":32769}", ERR_RANGE, "'expansion'");
    refuse(HTTP_BODY_CREATE, "{\"name\":\"n\",\"expansion\":2,\"nonscaling\":true}", ERR_RANGE, "nonscaling");
    refuse(HTTP_BODY_REBUILD, "{\"hold\":1}", ERR_RANGE, "'hold' is not true or false");
    refuse(HTTP_BODY_THROTTLE, "{\"rows_per_second_limit\":-1}", ERR_RANGE, "'rows_per_second_limit'");
}

/* Returns @before, @count times @item, and @after. */
static char *repeat(const char *before, const char *item, size_t count, const char *after)
{
    struct buffer b = {0};
    buffer_puts(&b, before);
    for (size_t i = 0; i < count; i++)
        buffer_puts(&b, item);
    buffer_puts(&b, after);
    (void)buffer_text(&b);
    return b.data;
}

static void test_http_body__bounds_what_its_parsing_costs(void **state)
{
    (void)state;
    char *text = repeat("{\"keys\":", "[", 100000, "");
    refuse(HTTP_BODY_KEYS, text, ERR_PARSE, "nested more than");
    free(text);
    text = repeat("{\"keys\":[\"\"", ",\"\"", HTTP_KEYS_MAX, "]}");
    refuse(HTTP_BODY_KEYS, text, ERR_RANGE, "1000001 keys");
    free(text);
    text = repeat("{\"keys\":[[]", ",[]", HTTP_KEYS_MAX, "]}");
    refuse(HTTP_BODY_KEYS, text, ERR_RANGE, "more than 1000000");
    free(text);
    /* Brackets in strings do not count. */
    text = repeat("{\"keys\":[\"\"", ",\"a,b[{\"", HTTP_KEYS_MAX - 1, "]}");
    struct http_body b = take(HTTP_BODY_KEYS, text);
    assert_int_equal(b.key_count, HTTP_KEYS_MAX);
    http_body_fini(&b);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_http_body__has_keys_of_any_bytes),
        cmocka_unit_test(test_http_body__is_the_same_with_and_without_a_tree),
        cmocka_unit_test(test_http_body__has_what_a_filter_is_made_from),
        cmocka_unit_test(test_http_body__may_be_empty_where_nothing_is_needed),
        cmocka_unit_test(test_http_body__says_where_it_is_no_json),
        cmocka_unit_test(test_http_body__refuses_json_that_is_not_what_is_wanted),
        cmocka_unit_test(test_http_body__bounds_what_its_parsing_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
