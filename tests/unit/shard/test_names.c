/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "shard/filter/names.h"

static struct names names_of(const char *filter, size_t length)
{
    struct names n;
    assert_int_equal(names_init(&n, "twinbloom", filter, length, NULL), ERR_OK);
    return n;
}

static void assert_key(const struct key_name *key, const char *expected)
{
    assert_int_equal(key->length, strlen(expected));
    assert_memory_equal(key->text, expected, key->length);
}

static void test_names__have_the_form_of_the_design(void **state)
{
    (void)state;
    struct names n = names_of("short-link", 10);
    n.incarnation = 0x0123456789abcdef;
    struct key_name key;
    names_filter_key(&n, "view", &key);
    assert_key(&key, "twinbloom:{short-link}:view");
    names_filter_key(&n, "expansion_flag", &key);
    assert_key(&key, "twinbloom:{short-link}:expansion_flag");
    const struct shard_id id = {.generation = 12, .layer = 0, .shard = 1047};
    names_log_shard(&n, id, &key);
    assert_key(&key, "twinbloom:{short-link.12.0.1047}:0123456789abcdef");
    names_new_shard(&n, id, 31, &key);
    assert_key(&key, "twinbloom:{short-link.12.0.1047}:0123456789abcdef.n31.12");
}

static void test_names__fit_their_storage_at_every_bound(void **state)
{
    (void)state;
    char prefix[PREFIX_MAX + 2];
    char filter[FILTER_NAME_MAX + 1];
    memset(prefix, 'p', sizeof(prefix));
    memset(filter, 'f', sizeof(filter));
    prefix[PREFIX_MAX] = '\0';
    struct names n;
    assert_int_equal(names_init(&n, prefix, filter, FILTER_NAME_MAX, NULL), ERR_OK);
    n.incarnation = UINT64_MAX;
    const struct shard_id id = {.generation = UINT64_MAX, .layer = UINT32_MAX, .shard = UINT32_MAX};
    struct key_name key;
    names_new_shard(&n, id, UINT64_MAX, &key);
    static const char tail[] = ".18446744073709551615.4294967295.4294967295}:ffffffffffffffff."
                               "n18446744073709551615.18446744073709551615";
    assert_true(key.length <= KEY_NAME_MAX);
    assert_memory_equal(key.text + key.length - strlen(tail), tail, strlen(tail));
    assert_int_equal(key.length, PREFIX_MAX + 2 + FILTER_NAME_MAX + strlen(tail));

    struct error e;
    assert_int_equal(names_init(&n, prefix, filter, FILTER_NAME_MAX + 1, &e), ERR_RANGE);
    filter[FILTER_NAME_MAX - 1] = '{'; /* '{' is escaped, so the name is two bytes too long */
    assert_int_equal(names_init(&n, prefix, filter, FILTER_NAME_MAX, &e), ERR_RANGE);
    assert_int_equal(names_init(&n, prefix, filter, FILTER_NAME_MAX - 2, &e), ERR_OK);
    filter[FILTER_NAME_MAX - 3] = '{';
    assert_int_equal(names_init(&n, prefix, filter, FILTER_NAME_MAX - 2, &e), ERR_OK);
    assert_int_equal(n.filter_length, FILTER_NAME_MAX);
    prefix[PREFIX_MAX] = 'p';
    prefix[PREFIX_MAX + 1] = '\0';
    assert_int_equal(names_init(&n, prefix, "f", 1, &e), ERR_RANGE);
}

static void test_names_init__refuses_prefixes_that_spoil_the_hash_tag(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "a{b", "a}b", "a b", "a\nb", "\x7f"};
    struct names n;
    struct error e;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(names_init(&n, bad[i], "f", 1, &e), ERR_RANGE);
}

struct filter_name {
    const char *bytes;
    size_t length;
    const char *escaped;
};

static void test_names_init__escapes_so_that_no_two_filters_share_a_key(void **state)
{
    (void)state;
    static const struct filter_name names[] = {
        {"", 0, "%"},
        {"%", 1, "%25"},
        {"%25", 3, "%2525"},
        {"%%", 2, "%25%25"},
        {"{", 1, "%7b"},
        {"}", 1, "%7d"},
        {"%7b", 3, "%257b"},
        {"%7B", 3, "%257B"},
        {"\0", 1, "%00"},
        {"\0\0", 2, "%00%00"},
        {"%00", 3, "%2500"},
        {"\r\n", 2, "%0d%0a"},
        {"a", 1, "a"},
        {"a.1.0.2", 7, "a.1.0.2"},
        {"a.1", 3, "a.1"},
        {"a\0", 2, "a%00"},
        {"{a}", 3, "%7ba%7d"},
        {"a}:view", 7, "a%7d:view"},
        {"\xff\xfe", 2, "\xff\xfe"},
        {" ", 1, " "},
    };
    enum { COUNT = sizeof(names) / sizeof(names[0]) };
    static struct key_name view[COUNT];
    static struct key_name shard[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        struct names n = names_of(names[i].bytes, names[i].length);
        assert_string_equal(n.filter, names[i].escaped);
        assert_int_equal(n.filter_length, strlen(names[i].escaped));
        names_filter_key(&n, "view", &view[i]);
        names_log_shard(&n, (struct shard_id){1, 0, 2}, &shard[i]);
        /* There is one opening and one closing brace, so the hash tag is the complete name. */
        const char *open = memchr(shard[i].text, '{', shard[i].length);
        assert_ptr_equal(open, memrchr(shard[i].text, '{', shard[i].length));
        const char *close = memchr(shard[i].text, '}', shard[i].length);
        assert_ptr_equal(close, memrchr(shard[i].text, '}', shard[i].length));
        assert_true(close > open + 1);
    }
    for (size_t i = 0; i < COUNT; i++)
        for (size_t j = 0; j < COUNT; j++) {
            assert_false(i != j && view[i].length == view[j].length &&
                         memcmp(view[i].text, view[j].text, view[i].length) == 0);
            assert_false(i != j && shard[i].length == shard[j].length &&
                         memcmp(shard[i].text, shard[j].text, shard[i].length) == 0);
            assert_false(view[i].length == shard[j].length &&
                         memcmp(view[i].text, shard[j].text, view[i].length) == 0);
        }
}

static void assert_unescaped(const char *name, size_t length)
{
    struct names n = names_of(name, length);
    char back[FILTER_NAME_MAX];
    size_t back_length = SIZE_MAX;
    assert_true(names_unescape(n.filter, n.filter_length, back, &back_length));
    assert_int_equal(back_length, length);
    assert_memory_equal(back, name, length);
}

static void assert_no_escaped_form(const char *text)
{
    char out[FILTER_NAME_MAX];
    size_t length;
    if (names_unescape(text, strlen(text), out, &length))
        fail_msg("\"%s\" was taken for an escaped name", text);
}

static void test_names_unescape__gives_the_name_back(void **state)
{
    (void)state;
    char full[FILTER_NAME_MAX];
    memset(full, 'x', sizeof(full));
    assert_unescaped("short-link", 10);
    assert_unescaped("", 0);
    assert_unescaped("%", 1);
    assert_unescaped("a b{c}%d\r\n\0e\xff", 13);
    assert_unescaped(full, sizeof(full));
}

static void test_names_unescape__refuses_what_no_name_is_written_as(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "a%", "a%2", "%7", "%7B", "%61", "%zz", "a{b", "a\nb", "%%"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_no_escaped_form(bad[i]);
    char full[FILTER_NAME_MAX + 2];
    memset(full, 'x', sizeof(full));
    full[sizeof(full) - 1] = '\0';
    assert_no_escaped_form(full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names__have_the_form_of_the_design),
        cmocka_unit_test(test_names__fit_their_storage_at_every_bound),
        cmocka_unit_test(test_names_init__refuses_prefixes_that_spoil_the_hash_tag),
        cmocka_unit_test(test_names_init__escapes_so_that_no_two_filters_share_a_key),
        cmocka_unit_test(test_names_unescape__gives_the_name_back),
        cmocka_unit_test(test_names_unescape__refuses_what_no_name_is_written_as),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
