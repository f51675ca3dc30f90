/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buffer.h"
#include "shard/redis/wire/replies.h"

/* Feed @bytes in pieces of @piece bytes, and call @each with every reply. Returns the number of replies. */
static size_t feed(const char *bytes, size_t length, size_t piece,
                   void (*each)(size_t number, const redisReply *reply))
{
    static struct replies r;
    struct error e;
    size_t count = 0;
    assert_true(replies_init(&r));
    for (size_t i = 0; i < length; i += piece) {
        size_t n = length - i < piece ? length - i : piece;
        memcpy(replies_room(&r), bytes + i, n);
        replies_filled(&r, n);
        redisReply *reply;
        do {
            assert_int_equal(replies_next(&r, &reply, &e), ERR_OK);
            if (reply != NULL)
                each(count++, reply);
            freeReplyObject(reply);
        } while (reply != NULL);
    }
    replies_fini(&r);
    return count;
}

/* Replies 0, 4, 8, ... are short strings. The others are integers, arrays, and strings of growing length. */
static size_t long_of(size_t number)
{
    return number * number * 3;
}

static void write_stream(struct buffer *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *text = malloc(long_of(i) + 1);
        assert_non_null(text);
        memset(text, 'a' + (int)(i % 26), long_of(i));
        if (i % 4 == 0)
            buffer_printf(b, "$2\r\n%02zu\r\n", i % 100);
        else if (i % 4 == 1)
            buffer_printf(b, ":-%zu\r\n", i);
        else if (i % 4 == 2)
            buffer_printf(b, "*5\r\n:1\r\n$-1\r\n*0\r\n+fine\r\n*2\r\n$1\r\n%c\r\n*-1\r\n",
                          (char)('a' + i % 26));
        else
            buffer_printf(b, "$%zu\r\n%.*s\r\n", long_of(i), (int)long_of(i), text);
        free(text);
    }
}

static void expect(size_t number, const redisReply *r)
{
    char text[8];
    if (number % 4 == 0) {
        (void)snprintf(text, sizeof(text), "%02zu", number % 100);
        assert_string_equal(r->str, text);
    } else if (number % 4 == 1) {
        assert_int_equal(r->type, REDIS_REPLY_INTEGER);
        assert_int_equal(-r->integer, number);
    } else if (number % 4 == 2) {
        assert_int_equal(r->elements, 5);
        assert_int_equal(r->element[1]->type, REDIS_REPLY_NIL);
        assert_int_equal(r->element[2]->elements, 0);
        assert_string_equal(r->element[3]->str, "fine");
        assert_int_equal(r->element[4]->element[0]->str[0], 'a' + (int)(number % 26));
        assert_int_equal(r->element[4]->element[1]->type, REDIS_REPLY_NIL);
    } else {
        assert_int_equal(r->len, long_of(number));
        for (size_t i = 0; i < r->len; i++)
            assert_int_equal(r->str[i], 'a' + (int)(number % 26));
        assert_int_equal(r->str[r->len], '\0');
    }
}

static void test_replies__are_the_same_however_they_are_cut(void **state)
{
    (void)state;
    enum { COUNT = 120 }; /* the last strings are larger than a chunk */
    static const size_t pieces[] = {1, 2, 3, 7, 100, 1023, 1024, 1025, 4096, REPLIES_CHUNK};
    struct buffer b = {0};
    write_stream(&b, COUNT);
    assert_true(long_of(COUNT - 1) > 2 * REPLIES_CHUNK);
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
        assert_int_equal(feed(b.data, b.length, pieces[i], expect), COUNT);
    buffer_fini(&b);
}

static void test_replies__refuse_what_is_no_reply(void **state)
{
    (void)state;
    static const char *const bad[] = {"?\r\n", "$x\r\n", "*1\r\n!\r\n", "HTTP/1.1 200\r\n",
                                      "$99999999999999999999\r\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        static struct replies r;
        redisReply *reply;
        struct error e = {""};
        assert_true(replies_init(&r));
        memcpy(replies_room(&r), bad[i], strlen(bad[i]));
        replies_filled(&r, strlen(bad[i]));
        if (replies_next(&r, &reply, &e) != ERR_PARSE)
            fail_msg("taken: %s", bad[i]);
        assert_null(reply);
        assert_true(strlen(e.text) > 0);
        replies_fini(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replies__are_the_same_however_they_are_cut),
        cmocka_unit_test(test_replies__refuse_what_is_no_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
