/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/redis/acks.h"

static char text[512];

static enum ack_outcome judge(unsigned replicas, bool fsync, const char *bytes)
{
    struct error e = {""};
    void *reply = NULL;
    redisReader *reader = redisReaderCreate();
    assert_non_null(reader);
    assert_int_equal(redisReaderFeed(reader, bytes, strlen(bytes)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    const struct ack_need need = {.replicas = replicas, .fsync = fsync, .timeout_ms = 70};
    enum ack_outcome outcome = ack_judge(&need, reply, &e);
    freeReplyObject(reply);
    redisReaderFree(reader);
    (void)snprintf(text, sizeof(text), "%s", e.text);
    return outcome;
}

static void says(const char *wanted)
{
    if (strstr(text, wanted) == NULL)
        fail_msg("'%s' without '%s'", text, wanted);
}

static void test_ack_judge__counts_replicas(void **state)
{
    (void)state;
    assert_int_equal(judge(1, false, ":1\r\n"), ACK_GIVEN);
    assert_int_equal(judge(1, false, ":3\r\n"), ACK_GIVEN);
    assert_int_equal(judge(2, false, ":1\r\n"), ACK_SHORT);
    says("1 of 2 replicas acknowledged within 70 ms");
}

static void test_ack_judge__counts_disks(void **state)
{
    (void)state;
    assert_int_equal(judge(0, true, "*2\r\n:1\r\n:0\r\n"), ACK_GIVEN);
    assert_int_equal(judge(2, true, "*2\r\n:1\r\n:2\r\n"), ACK_GIVEN);
    assert_int_equal(judge(2, true, "*2\r\n:0\r\n:2\r\n"), ACK_SHORT);
    says("own disk");
    assert_int_equal(judge(2, true, "*2\r\n:1\r\n:1\r\n"), ACK_SHORT);
    says("1 of 2 replicas");
}

static void test_ack_judge__refuses_all_else(void **state)
{
    (void)state;
    assert_int_equal(judge(1, true, "-ERR unknown command 'WAITAOF', with args beginning with: \r\n"),
                     ACK_REFUSED);
    says("add_fsync = no");
    assert_int_equal(judge(1, false, "-ERR WAIT cannot be used with replica instances.\r\n"), ACK_REFUSED);
    says("replica instances");
    assert_int_equal(judge(0, true, ":1\r\n"), ACK_REFUSED);
    assert_int_equal(judge(0, true, "*1\r\n:1\r\n"), ACK_REFUSED);
    assert_int_equal(judge(0, true, "*2\r\n:1\r\n$1\r\n1\r\n"), ACK_REFUSED);
    assert_int_equal(judge(1, false, "*2\r\n:1\r\n:1\r\n"), ACK_REFUSED);
    assert_int_equal(judge(1, false, "$-1\r\n"), ACK_REFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ack_judge__counts_replicas),
        cmocka_unit_test(test_ack_judge__counts_disks),
        cmocka_unit_test(test_ack_judge__refuses_all_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
