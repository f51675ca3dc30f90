/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "service/cli/keys/cli_split.h"

/* Append the key in brackets. */
static bool note(void *arg, const char *key, size_t length)
{
    struct buffer *out = arg;
    buffer_puts(out, "[");
    buffer_append(out, key, length);
    buffer_puts(out, "]");
    return true;
}

/* Feed @bytes in pieces of @piece bytes, each in its own allocation. */
static enum err feed(struct split *s, const char *bytes, size_t length, size_t piece, struct buffer *out,
                     struct error *e)
{
    enum err code = ERR_OK;
    for (size_t at = 0; at < length && code == ERR_OK; at += piece) {
        size_t n = length - at < piece ? length - at : piece;
        char *copy = malloc(n);
        memcpy(copy, bytes + at, n);
        code = split_feed(s, copy, n, note, out, e);
        free(copy);
    }
    return code == ERR_OK ? split_end(s, note, out, e) : code;
}

/* The keys must be the same with pieces of any length. */
static void gives(enum split_kind kind, const char *column, const char *bytes, size_t length,
                  const char *expected, uint64_t empty, uint64_t malformed)
{
    for (size_t piece = 1; piece <= length + 1; piece++) {
        struct split s;
        struct buffer out = {0};
        struct error e = {""};
        split_init(&s, kind, column);
        if (feed(&s, bytes, length, piece, &out, &e) != ERR_OK)
            fail_msg("%s: %s", bytes, e.text);
        if (out.length != strlen(expected) || (out.length > 0 && memcmp(out.data, expected, out.length) != 0))
            fail_msg("pieces of %zu: %s", piece, buffer_text(&out));
        assert_int_equal(s.empty, empty);
        assert_int_equal(s.malformed, malformed);
        split_fini(&s);
        buffer_fini(&out);
    }
}

#define GIVES(kind, column, bytes, expected, empty, malformed)                                               \
    gives(kind, column, bytes, sizeof(bytes) - 1, expected, empty, malformed)

static void test_split_lines__are_keys_of_any_bytes_but_the_newline(void **state)
{
    (void)state;
    GIVES(SPLIT_LINES, NULL, "a\nbc\n\nd", "[a][bc][d]", 1, 0);
    GIVES(SPLIT_LINES, NULL, "a\n", "[a]", 0, 0);
    GIVES(SPLIT_LINES, NULL, "\n\n", "", 2, 0);
    GIVES(SPLIT_LINES, NULL, "x\r\n, \" \n", "[x\r][, \" ]", 0, 0);
}

static void test_split_nuls__are_keys_of_any_bytes_but_nul(void **state)
{
    (void)state;
    GIVES(SPLIT_NULS, NULL, "a\nb\0\0c", "[a\nb][c]", 1, 0);
    GIVES(SPLIT_NULS, NULL, "a\0", "[a]", 0, 0);
}

static void test_split_csv__takes_a_column_by_number(void **state)
{
    (void)state;
    GIVES(SPLIT_CSV, "2", "1,a,x\r\n2,b,y\r\n", "[a][b]", 0, 0);
    GIVES(SPLIT_CSV, "3", "1,a,x\r\n2,b,y", "[x][y]", 0, 0);
    GIVES(SPLIT_CSV, "1", "\xef\xbb\xbfp,q\nr,s\n", "[p][r]", 0, 0);
    GIVES(SPLIT_CSV, "1", "\xef\xbb\x80p,q\n", "[\xef\xbb\x80p]", 0, 0);
    GIVES(SPLIT_CSV, "2", "1,\n2,b\n", "[b]", 1, 0);
    GIVES(SPLIT_CSV, "1", "a\n\n\r\nb\n", "[a][b]", 2, 0);
}

static void test_split_csv__takes_a_column_by_its_name(void **state)
{
    (void)state;
    GIVES(SPLIT_CSV, "code", "id,code\n1,a\n2,b\n", "[a][b]", 0, 0);
    GIVES(SPLIT_CSV, "the code", "\"id\",\"the code\"\r\n1,a\r\n", "[a]", 0, 0);
    GIVES(SPLIT_CSV, "id", "id,id\n1,a\n", "[1]", 0, 0);
    struct split s;
    struct buffer out = {0};
    struct error e = {""};
    split_init(&s, SPLIT_CSV, "nosuch");
    assert_int_equal(feed(&s, "id,code\n1,a\n", 12, 5, &out, &e), ERR_PARSE);
    assert_string_equal(e.text, "the first record has no column \"nosuch\"");
    assert_int_equal(out.length, 0);
    split_fini(&s);
    buffer_fini(&out);
}

static void test_split_csv__understands_quotes(void **state)
{
    (void)state;
    GIVES(SPLIT_CSV, "2", "1,\"a,b\",x\n", "[a,b]", 0, 0);
    GIVES(SPLIT_CSV, "2", "1,\"a\"\"b\"\n2,\"\"\n3,\"\"\"\"\n", "[a\"b][\"]", 1, 0);
    GIVES(SPLIT_CSV, "1", "\"line\r\nbreak\",2\r\nnext,3\r\n", "[line\r\nbreak][next]", 0, 0);
    GIVES(SPLIT_CSV, "2", "\"x\ny\",b\nc,d\n", "[b][d]", 0, 0);
    GIVES(SPLIT_CSV, "1", "\"ends in CR\r\"\r\n", "[ends in CR\r]", 0, 0);
    GIVES(SPLIT_CSV, "1", "5\" pipe\n", "[5\" pipe]", 0, 0);
}

static void test_split_csv__counts_records_that_are_malformed_and_goes_on(void **state)
{
    (void)state;
    GIVES(SPLIT_CSV, "2", "1,a\n2\n3,c\n", "[a][c]", 0, 1);
    GIVES(SPLIT_CSV, "1", "\"a\"b,1\nc,2\n", "[c]", 0, 1);
    struct split s;
    struct buffer out = {0};
    struct error e = {""};
    split_init(&s, SPLIT_CSV, "2");
    assert_int_equal(feed(&s, "1,a\n2\n3\n", 8, 3, &out, &e), ERR_OK);
    assert_int_equal(s.malformed, 2);
    assert_int_equal(s.first_malformed, 2);
    split_fini(&s);
    buffer_fini(&out);
}

static void test_split_csv__says_where_a_quote_was_not_closed(void **state)
{
    (void)state;
    struct split s;
    struct buffer out = {0};
    struct error e = {""};
    split_init(&s, SPLIT_CSV, "1");
    assert_int_equal(feed(&s, "a\n\"b\nc\nd\n", 10, 4, &out, &e), ERR_PARSE);
    assert_string_equal(e.text, "the quote that opens in record 2 is not closed");
    split_fini(&s);
    buffer_fini(&out);
}

static void test_split__bounds_a_key(void **state)
{
    (void)state;
    enum { PIECE = 1 << 20 };
    struct split s;
    struct buffer out = {0};
    struct error e = {""};
    enum err code = ERR_OK;
    char *piece = malloc(PIECE);
    memset(piece, 'x', PIECE);
    split_init(&s, SPLIT_LINES, NULL);
    for (size_t i = 0; i < SPLIT_KEY_MAX / PIECE; i++)
        assert_int_equal(split_feed(&s, piece, PIECE, note, &out, &e), ERR_OK);
    code = split_feed(&s, piece, 1, note, &out, &e);
    assert_int_equal(code, ERR_RANGE);
    assert_int_equal(out.length, 0);
    free(piece);
    split_fini(&s);
    buffer_fini(&out);
}

static bool stop(void *arg, const char *key, size_t length)
{
    (void)key;
    (void)length;
    return --*(int *)arg > 0;
}

static void test_split__ends_where_its_caller_wants_no_more(void **state)
{
    (void)state;
    struct split s;
    struct error e = {""};
    int left = 2;
    split_init(&s, SPLIT_LINES, NULL);
    assert_int_equal(split_feed(&s, "a\nb\nc\nd\n", 8, stop, &left, &e), ERR_CANCELLED);
    assert_int_equal(left, 0);
    split_fini(&s);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_split_lines__are_keys_of_any_bytes_but_the_newline),
        TEST(test_split_nuls__are_keys_of_any_bytes_but_nul),
        TEST(test_split_csv__takes_a_column_by_number),
        TEST(test_split_csv__takes_a_column_by_its_name),
        TEST(test_split_csv__understands_quotes),
        TEST(test_split_csv__counts_records_that_are_malformed_and_goes_on),
        TEST(test_split_csv__says_where_a_quote_was_not_closed),
        TEST(test_split__bounds_a_key),
        TEST(test_split__ends_where_its_caller_wants_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
