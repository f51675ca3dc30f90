/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "service/protocol/resp.h"

static const struct resp_limits small = {
    .request_max = 250, .bulk_max = 100, .arguments_max = 4, .inline_max = 40};

/* Use resp_again() for commands that differ from the one before only in their last argument. */
static bool runs;

static void write_argument(struct buffer *out, const char *bytes, size_t length)
{
    buffer_puts(out, "<");
    buffer_append(out, bytes, length);
    buffer_puts(out, ">");
}

/* Write the next commands that differ from the first one only in their last argument. Returns their length in
 * bytes. */
static size_t write_others(struct buffer *out, const struct resp_parser *p, const char *bytes, size_t length)
{
    size_t count = p->argument_count, used = 0, before = count > 1 ? p->arguments[count - 2].offset : 0;
    struct argument last[3];
    if (!runs || count < 2 || bytes[0] != '*')
        return 0;
    size_t same = before + p->arguments[count - 2].length + 2;
    size_t others = resp_again(p, bytes, same, bytes + p->consumed, length - p->consumed,
                               sizeof(last) / sizeof(*last), last, &used);
    for (size_t i = 0; i < others; i++) {
        for (size_t a = 0; a + 1 < count; a++)
            write_argument(out, bytes + p->arguments[a].offset, p->arguments[a].length);
        write_argument(out, last[i].bytes, last[i].length);
        buffer_puts(out, "|");
    }
    assert_true((others == 0) == (used == 0));
    return used;
}

/* Parse @bytes in pieces that end at the offsets in @cuts, and write the result: "<arg><arg>|" for each
 * command, "!text" for an error, "+" and the number of bytes left for an incomplete command. Each piece is in
 * memory of its exact size, so that a sanitizer reports a read beyond the end. */
static void transcribe(struct buffer *out, const struct resp_limits *limits, const char *bytes, size_t length,
                       const size_t *cuts, size_t cut_count)
{
    struct resp_parser p;
    resp_init(&p, limits);
    size_t start = 0;
    char *shown = NULL;
    enum resp_result result = RESP_MORE;
    for (size_t i = 0; i <= cut_count && result != RESP_ERROR; i++) {
        size_t end = i < cut_count ? cuts[i] : length;
        do {
            free(shown);
            shown = malloc(end - start + 1);
            assert_non_null(shown);
            /* The allocation ends with the last byte of the piece. The byte before it avoids an empty
             * allocation. */
            char *piece = shown + 1;
            memcpy(piece, bytes + start, end - start);
            result = resp_parse(&p, piece, end - start);
            if (result == RESP_ERROR)
                buffer_printf(out, "!%s", p.error);
            if (result == RESP_MORE)
                assert_true(p.need > end - start);
            if (result != RESP_COMMAND)
                break;
            for (size_t a = 0; a < p.argument_count; a++)
                write_argument(out, piece + p.arguments[a].offset, p.arguments[a].length);
            buffer_puts(out, "|");
            assert_true(p.consumed > 0);
            start += p.consumed + write_others(out, &p, piece, end - start);
        } while (true);
    }
    if (result == RESP_MORE && length > start)
        buffer_printf(out, "+%zu", length - start);
    free(shown);
    resp_fini(&p);
}

static void check_bytes(const struct resp_limits *limits, const char *bytes, size_t length,
                        const char *expected)
{
    struct buffer whole = {0};
    transcribe(&whole, limits, bytes, length, NULL, 0);
    assert_string_equal(buffer_text(&whole), expected);
    for (size_t cut = 0; cut <= length; cut++) {
        struct buffer split = {0};
        transcribe(&split, limits, bytes, length, &cut, 1);
        assert_string_equal(buffer_text(&split), expected);
        buffer_fini(&split);
    }
    size_t *every = malloc((length + 1) * sizeof(*every));
    assert_non_null(every);
    for (size_t i = 0; i <= length; i++)
        every[i] = i;
    struct buffer single = {0};
    transcribe(&single, limits, bytes, length, every, length);
    assert_string_equal(buffer_text(&single), expected);
    buffer_fini(&single);
    free(every);
    buffer_fini(&whole);
}

/* Check with and without resp_again(). */
static void check_both(const struct resp_limits *limits, const char *text, const char *expected)
{
    check_bytes(limits, text, strlen(text), expected);
    runs = true;
    check_bytes(limits, text, strlen(text), expected);
    runs = false;
}

static void check(const char *text, const char *expected)
{
    check_both(NULL, text, expected);
}

static void check_small(const char *text, const char *expected)
{
    check_both(&small, text, expected);
}

static void test_resp_parse__reads_arrays_split_anywhere(void **state)
{
    (void)state;
    check("*1\r\n$4\r\nPING\r\n", "<PING>|");
    check("*3\r\n$6\r\nBF.ADD\r\n$1\r\nk\r\n$4\r\nitem\r\n", "<BF.ADD><k><item>|");
    check("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "<ECHO><>|");
    check("*2\r\n$4\r\nECHO\r\n$6\r\na\r\n*1\r\r\n", "<ECHO><a\r\n*1\r>|");
    check("", "");
    check("*2\r\n$4\r\nECHO\r\n$5\r\nabc", "+21");
}

#define ONE "*2\r\n$4\r\nECHO\r\n"
#define X100                                                                                                 \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static void test_resp_again__finds_what_the_parser_finds(void **state)
{
    (void)state;
    check(ONE "$2\r\nab\r\n" ONE "$3\r\ncde\r\n" ONE "$0\r\n\r\n" ONE "$1\r\nf\r\n" ONE "$4\r\n\r\n$1\r\n" ONE
              "$12\r\n123456789012\r\n",
          "<ECHO><ab>|<ECHO><cde>|<ECHO><>|<ECHO><f>|<ECHO><\r\n$1>|<ECHO><123456789012>|");
    check(ONE "$2\r\nab\r\n" ONE "$100\r\n" X100 "\r\n" ONE "$0100\r\n" X100 "\r\n",
          "<ECHO><ab>|<ECHO><" X100 ">|!invalid bulk length");
    check(ONE "$2\r\nab\r\n" ONE "$02\r\nab\r\n", "<ECHO><ab>|!invalid bulk length");
    check(ONE "$2\r\nab\r\n" ONE "$-1\r\nabcdef\r\n", "<ECHO><ab>|!invalid bulk length");
    check(ONE "$2\r\nab\r\n" ONE "$\r\nabcdefgh\r\n", "<ECHO><ab>|!invalid bulk length");
    check(ONE "$2\r\nab\r\n" ONE "$999999\r\nabcdefgh", "<ECHO><ab>|+31");
    check(ONE "$2\r\nab\r\n" ONE ":2\r\nabcdefgh", "<ECHO><ab>|!expected '$', got ':'");
    check(ONE "$2\r\nab\r\n*2\r\n$4\r\necho\r\n$2\r\nab\r\n*3\r\n$4\r\nECHO\r\n$2\r\nab\r\n$2\r\ncd\r\n",
          "<ECHO><ab>|<echo><ab>|<ECHO><ab><cd>|");
    check(ONE "$2\r\nab\r\n" ONE "$12345\r\nabcdefgh\r\n", "<ECHO><ab>|+32");
    check_small(ONE "$2\r\nab\r\n" ONE "$100\r\n" X100 "\r\n" ONE "$101\r\n" X100 "x\r\n",
                "<ECHO><ab>|<ECHO><" X100 ">|!invalid bulk length");
    static const struct resp_limits tight = {
        .request_max = 40, .bulk_max = 100, .arguments_max = 4, .inline_max = 40};
    check_both(&tight,
               ONE "$2\r\nab\r\n" ONE "$19\r\n1234567890123456789\r\n" ONE
                   "$22\r\n1234567890123456789012\r\n",
               "<ECHO><ab>|<ECHO><1234567890123456789>|!too big request");
    static const struct resp_limits narrow = {
        .request_max = 400, .bulk_max = 100, .arguments_max = 4, .inline_max = 4};
    check_both(&narrow, ONE "$2\r\nab\r\n" ONE "$12345\r\nabcd\r\n", "<ECHO><ab>|!too big bulk count string");
}

static void test_resp_parse__reads_binary_arguments(void **state)
{
    (void)state;
    static const char bytes[] = "*1\r\n$3\r\n\0\xff\n\r\n";
    struct resp_parser p;
    resp_init(&p, NULL);
    char copy[sizeof(bytes)];
    memcpy(copy, bytes, sizeof(bytes));
    assert_int_equal(resp_parse(&p, copy, sizeof(bytes) - 1), RESP_COMMAND);
    assert_int_equal(p.argument_count, 1);
    assert_int_equal(p.arguments[0].length, 3);
    assert_memory_equal(copy + p.arguments[0].offset, "\0\xff\n", 3);
    resp_fini(&p);
}

static void test_resp_parse__gives_no_arguments_for_nothing(void **state)
{
    (void)state;
    check("*0\r\n", "|");
    check("*-1\r\n", "|");
    check("*-7\r\n", "|");
    check("\r\n", "|");
    check("\n", "|");
    check("  \t \r\n", "|");
    check("*0\r\n\r\n*1\r\n$4\r\nPING\r\n", "||<PING>|");
}

static void test_resp_parse__reads_inline_commands(void **state)
{
    (void)state;
    check("PING\r\n", "<PING>|");
    check("PING\n", "<PING>|");
    check("  bf.add \t k   item \r\n", "<bf.add><k><item>|");
    check("ECHO a*b$c\r\nPING\r\n", "<ECHO><a*b$c>|<PING>|");
    check("PIN", "+3");
}

static void test_resp_parse__reads_quotes_of_inline_commands(void **state)
{
    (void)state;
    check("a \"b c\" d\r\n", "<a><b c><d>|");
    check("a \"\" ''\r\n", "<a><><>|");
    check("a \"\\n\\r\\t\\b\\a\\\\\\\"\\q\"\r\n", "<a><\n\r\t\b\a\\\"q>|");
    check("a \"\\x41\\x4a\\x4A\\x4\" b\r\n", "<a><AJJx4><b>|");
    check("a 'b \\' \\n \" c' d\r\n", "<a><b ' \\n \" c><d>|");
    check("a pre\"b c\" d\r\n", "<a><preb c><d>|");
}

static void test_resp_parse__keeps_a_nul_in_an_inline_command(void **state)
{
    (void)state;
    struct resp_parser p;
    resp_init(&p, NULL);
    char bytes[] = "a\0b \"\\x00\"\r\n";
    assert_int_equal(resp_parse(&p, bytes, sizeof(bytes) - 1), RESP_COMMAND);
    assert_int_equal(p.argument_count, 2);
    assert_int_equal(p.arguments[0].length, 3);
    assert_int_equal(p.arguments[1].length, 1);
    assert_int_equal(bytes[p.arguments[1].offset], 0);
    resp_fini(&p);
}

static void test_resp_parse__refuses_unbalanced_quotes(void **state)
{
    (void)state;
    const char *const texts[] = {"a \"b\r\n",  "a 'b\r\n", "a \"b\"c\r\n", "a 'b'c\r\n",
                                 "\"\\\"\r\n", "'\\'\r\n", "\"\r\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        check(texts[i], "!unbalanced quotes in request");
}

static void test_resp_parse__refuses_bad_array_lengths(void **state)
{
    (void)state;
    const char *const texts[] = {"*\r\n",     "*x\r\n",
                                 "*+1\r\n",   "*01\r\n",
                                 "* 1\r\n",   "*1 \r\n",
                                 "*1.0\r\n",  "*-\r\n",
                                 "*--1\r\n",  "*1048577\r\n",
                                 "*-0\r\n",   "*99999999999999999999999\r\n",
                                 "*0x10\r\n", "*9223372036854775808\r\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        check(texts[i], "!invalid multibulk length");
    check("*1048576\r\n", "+10");
    check_small("*5\r\n", "!invalid multibulk length");
    check_small("*4\r\n", "+4");
}

static void test_resp_parse__refuses_bad_bulk_lengths(void **state)
{
    (void)state;
    const char *const texts[] = {"*1\r\n$\r\n",
                                 "*1\r\n$-1\r\n",
                                 "*1\r\n$x\r\n",
                                 "*1\r\n$04\r\n",
                                 "*1\r\n$+4\r\n",
                                 "*1\r\n$536870913\r\n",
                                 "*1\r\n$ 4\r\n",
                                 "*1\r\n$9223372036854775807\r\n",
                                 "*1\r\n$18446744073709551616\r\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        check(texts[i], "!invalid bulk length");
    check("*1\r\n$536870912\r\n", "+16");
    check_small("*1\r\n$101\r\n", "!invalid bulk length");
    check_small("*1\r\n$100\r\n", "+10");
}

static void test_resp_parse__refuses_other_types_in_arrays(void **state)
{
    (void)state;
    check("*1\r\n:4\r\nPING\r\n", "!expected '$', got ':'");
    check("*2\r\n$1\r\na\r\n*1\r\n", "!expected '$', got '*'");
    check("*1\r\n\r\n", "!expected '$', got ' '");
    /* As in Redis, the two bytes after an argument are skipped, whatever they are. */
    check("*2\r\n$1\r\nabcd\r\n$1\r\n", "!expected '$', got 'd'");
}

static void test_resp_parse__refuses_lines_without_end(void **state)
{
    (void)state;
    char line[64];
    memset(line, '1', sizeof(line));
    check_bytes(&small, line, 40, "+40");
    check_bytes(&small, line, 41, "!too big inline request");
    line[40] = '\n';
    check_bytes(&small, line, 40, "+40");
    line[40] = '1';
    line[50] = '\n'; /* too long, although the line ends here */
    check_bytes(&small, line, 51, "!too big inline request");
    line[0] = '*';
    check_bytes(&small, line, 40, "+40");
    check_bytes(&small, line, 41, "!too big mbulk count string");
    static const char header[] = {'*', '1', '\r', '\n', '$'};
    memcpy(line, header, sizeof(header));
    check_bytes(&small, line, 44, "+44");
    check_bytes(&small, line, 45, "!too big bulk count string");
    check_small("a b c d e\r\n", "!too big inline request"); /* five arguments; four are allowed */
}

static void test_resp_parse__has_redis_limits_by_default(void **state)
{
    (void)state;
    size_t length = (64u << 10) + 1;
    char *line = malloc(length);
    assert_non_null(line);
    memset(line, 'a', length);
    struct resp_parser p;
    resp_init(&p, NULL);
    assert_int_equal(resp_parse(&p, line, length - 1), RESP_MORE);
    assert_int_equal(resp_parse(&p, line, length), RESP_ERROR);
    assert_string_equal(p.error, "too big inline request");
    resp_fini(&p);
    free(line);
}

static void test_resp_parse__repeats_an_error(void **state)
{
    (void)state;
    struct resp_parser p;
    resp_init(&p, NULL);
    char bad[] = "*x\r\n", good[] = "PING\r\n";
    assert_int_equal(resp_parse(&p, bad, strlen(bad)), RESP_ERROR);
    assert_int_equal(p.argument_count, 0);
    assert_int_equal(resp_parse(&p, good, strlen(good)), RESP_ERROR);
    assert_string_equal(p.error, "invalid multibulk length");
    resp_fini(&p);
}

static void test_resp_parse__says_how_much_a_large_argument_needs(void **state)
{
    (void)state;
    const size_t size = 3u << 20;
    char *bytes = malloc(size + 64);
    assert_non_null(bytes);
    int head = snprintf(bytes, 64, "*2\r\n$4\r\nECHO\r\n$%zu\r\n", size);
    memset(bytes + head, '\r', size);
    bytes[(size_t)head + size] = '\r';
    bytes[(size_t)head + size + 1] = '\n';
    size_t length = (size_t)head + size + 2;
    struct resp_parser p;
    resp_init(&p, NULL);
    assert_int_equal(resp_parse(&p, bytes, (size_t)head), RESP_MORE);
    assert_int_equal(p.need, length);
    assert_int_equal(resp_parse(&p, bytes, length - 1), RESP_MORE);
    assert_int_equal(p.need, length);
    assert_int_equal(resp_parse(&p, bytes, length), RESP_COMMAND);
    assert_int_equal(p.consumed, length);
    assert_int_equal(p.arguments[1].offset, head);
    assert_int_equal(p.arguments[1].length, size);
    resp_fini(&p);
    free(bytes);
}

static void test_resp_parse__allocates_by_what_has_come(void **state)
{
    (void)state;
    struct resp_parser p;
    resp_init(&p, NULL);
    char bytes[] = "*1048576\r\n$1\r\na\r\n";
    assert_int_equal(resp_parse(&p, bytes, strlen(bytes)), RESP_MORE);
    assert_int_equal(p.argument_count, 1);
    assert_true(p.capacity <= 16);
    resp_fini(&p);
}

static void test_resp_parse__gives_a_large_array_back(void **state)
{
    (void)state;
    enum { COUNT = 10000 };
    struct buffer b = {0};
    buffer_printf(&b, "*%d\r\n", COUNT);
    for (int i = 0; i < COUNT; i++)
        buffer_puts(&b, "$1\r\na\r\n");
    struct resp_parser p;
    resp_init(&p, NULL);
    assert_int_equal(resp_parse(&p, b.data, b.length), RESP_COMMAND);
    assert_int_equal(p.argument_count, COUNT);
    assert_true(p.capacity >= COUNT);
    struct resp_spare spare = {0};
    resp_return(&p, &spare);
    assert_int_equal(resp_memory(&p), 0);
    assert_null(spare.arguments);
    char ping[] = "PING\r\n";
    assert_int_equal(resp_parse(&p, ping, strlen(ping)), RESP_COMMAND);
    assert_true(p.capacity < COUNT);
    resp_fini(&p);
    buffer_fini(&b);
}

static void test_parsers__share_an_array_while_no_command_is_under_way(void **state)
{
    (void)state;
    struct resp_parser one, two;
    struct resp_spare spare = {0};
    char half[] = "*2\r\n$4\r\nECHO\r\n$1\r\nx\r\n", whole[] = "PING\r\n";
    resp_init(&one, NULL);
    resp_init(&two, NULL);
    assert_int_equal(resp_parse(&one, whole, strlen(whole)), RESP_COMMAND);
    struct argument *array = one.arguments;
    resp_return(&one, &spare);
    assert_int_equal(resp_memory(&one), 0);
    assert_ptr_equal(spare.arguments, array);
    resp_borrow(&two, &spare);
    assert_ptr_equal(two.arguments, array);
    assert_int_equal(resp_parse(&two, half, 14), RESP_MORE);
    resp_return(&two, &spare);
    assert_null(spare.arguments); /* the array is in use: it has the first argument of a command */
    resp_borrow(&one, &spare);
    assert_int_equal(resp_parse(&one, whole, strlen(whole)), RESP_COMMAND);
    assert_int_equal(resp_parse(&two, half, strlen(half)), RESP_COMMAND);
    assert_int_equal(two.argument_count, 2);
    assert_int_equal(half[two.arguments[0].offset], 'E');
    resp_return(&one, &spare);
    resp_return(&two, &spare); /* there is room for one array only */
    assert_int_equal(resp_memory(&two), 0);
    free(spare.arguments);
    resp_fini(&one);
    resp_fini(&two);
}

static void test_resp_parse__reads_a_deep_pipeline(void **state)
{
    (void)state;
    enum { COUNT = 50000 };
    struct buffer b = {0};
    for (int i = 0; i < COUNT; i++)
        buffer_puts(&b, i % 3 == 0   ? "*2\r\n$4\r\nECHO\r\n$1\r\nx\r\n"
                        : i % 3 == 1 ? "ECHO x\r\n"
                                     : "ECHO 'x'\n");
    struct resp_parser p;
    resp_init(&p, NULL);
    size_t at = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(resp_parse(&p, b.data + at, b.length - at), RESP_COMMAND);
        assert_int_equal(p.argument_count, 2);
        assert_int_equal(b.data[at + p.arguments[1].offset], 'x');
        at += p.consumed;
    }
    assert_int_equal(at, b.length);
    resp_fini(&p);
    buffer_fini(&b);
}

/* Random commands, some of them invalid, are parsed in random pieces. The result must be the same as in one
 * piece. */
static void test_resp_parse__does_not_depend_on_the_cuts(void **state)
{
    (void)state;
    static const char *const parts[] = {"*2\r\n",
                                        "$4\r\nECHO\r\n",
                                        "$3\r\na\rb\r\n",
                                        "*1\r\n",
                                        "PING\r\n",
                                        "$0\r\n\r\n",
                                        "*0\r\n",
                                        "\"a b\" 'c'\r\n",
                                        "\n",
                                        "*3\r\n",
                                        "x\"\\x4",
                                        "\r",
                                        "$11\r\n",
                                        "aaaaaaaaaaa\r\n",
                                        ":",
                                        "*-1\r\n",
                                        "'\r\n"};
    unsigned seed = 1;
    for (int round = 0; round < 3000; round++) {
        struct buffer b = {0}, whole = {0}, split = {0};
        size_t cuts[4];
        for (int i = 0; i < 12; i++)
            buffer_puts(&b, parts[(size_t)rand_r(&seed) % (sizeof(parts) / sizeof(parts[0]))]);
        for (size_t i = 0; i < 4; i++)
            cuts[i] = (i > 0 ? cuts[i - 1] : 0) + (size_t)rand_r(&seed) % (b.length / 4);
        transcribe(&whole, &small, b.data, b.length, NULL, 0);
        transcribe(&split, &small, b.data, b.length, cuts, 4);
        assert_string_equal(buffer_text(&whole), buffer_text(&split));
        buffer_fini(&b);
        buffer_fini(&whole);
        buffer_fini(&split);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resp_parse__reads_arrays_split_anywhere),
        cmocka_unit_test(test_resp_parse__reads_binary_arguments),
        cmocka_unit_test(test_resp_parse__gives_no_arguments_for_nothing),
        cmocka_unit_test(test_resp_parse__reads_inline_commands),
        cmocka_unit_test(test_resp_parse__reads_quotes_of_inline_commands),
        cmocka_unit_test(test_resp_parse__keeps_a_nul_in_an_inline_command),
        cmocka_unit_test(test_resp_parse__refuses_unbalanced_quotes),
        cmocka_unit_test(test_resp_parse__refuses_bad_array_lengths),
        cmocka_unit_test(test_resp_parse__refuses_bad_bulk_lengths),
        cmocka_unit_test(test_resp_parse__refuses_other_types_in_arrays),
        cmocka_unit_test(test_resp_parse__refuses_lines_without_end),
        cmocka_unit_test(test_resp_parse__has_redis_limits_by_default),
        cmocka_unit_test(test_resp_parse__repeats_an_error),
        cmocka_unit_test(test_resp_parse__says_how_much_a_large_argument_needs),
        cmocka_unit_test(test_resp_parse__allocates_by_what_has_come),
        cmocka_unit_test(test_resp_again__finds_what_the_parser_finds),
        cmocka_unit_test(test_resp_parse__gives_a_large_array_back),
        cmocka_unit_test(test_parsers__share_an_array_while_no_command_is_under_way),
        cmocka_unit_test(test_resp_parse__reads_a_deep_pipeline),
        cmocka_unit_test(test_resp_parse__does_not_depend_on_the_cuts),
    };
    return cmocka_run_group_tests_name("resp", tests, NULL, NULL);
}
