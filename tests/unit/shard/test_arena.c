/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "shard/redis/wire/arena.h"

/* Read @bytes into *@out. Returns what hiredis says. */
static int read_reply(struct arena *a, const char *bytes, void **out)
{
    redisReader *r = redisReaderCreateWithFunctions(arena_functions());
    assert_non_null(r);
    r->privdata = a;
    *out = NULL;
    assert_int_equal(redisReaderFeed(r, bytes, strlen(bytes)), REDIS_OK);
    int result = redisReaderGetReply(r, out);
    redisReaderFree(r);
    return result;
}

static void test_arena__holds_a_reply_of_every_kind_of_resp2(void **state)
{
    (void)state;
    void *got;
    struct arena *a = arena_new();
    assert_non_null(a);
    assert_int_equal(read_reply(a, "*4\r\n:7\r\n$2\r\nab\r\n$-1\r\n+OK\r\n", &got), REDIS_OK);
    const redisReply *r = got;
    assert_int_equal(r->elements, 4);
    assert_int_equal(r->element[0]->integer, 7);
    assert_string_equal(r->element[1]->str, "ab");
    assert_int_equal(r->element[2]->type, REDIS_REPLY_NIL);
    assert_string_equal(r->element[3]->str, "OK");
    arena_free(a);
}

/* Later versions of hiredis read doubles and booleans although nobody has asked for RESP3. */
static void test_arena__refuses_what_no_command_returns(void **state)
{
    (void)state;
    static const char *const replies[] = {",1.5\r\n", "#t\r\n", "*1\r\n,1.5\r\n", "*2\r\n:1\r\n#f\r\n"};
    struct arena *a = arena_new();
    assert_non_null(a);
    for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
        void *got;
        assert_int_equal(read_reply(a, replies[i], &got), REDIS_ERR);
        assert_null(got);
    }
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena__holds_a_reply_of_every_kind_of_resp2),
        cmocka_unit_test(test_arena__refuses_what_no_command_returns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
