/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "shard/redis/wire/greeting.h"

static struct nodes nodes;

static struct greeting greet(const char *url, const char *name, const char *expected)
{
    struct buffer b = {0};
    struct error e = {""};
    if (nodes_parse(&nodes, url, &e) != ERR_OK)
        fail_msg("%s", e.text);
    struct greeting g = greeting_write(&b, &nodes, &nodes.node[0], name);
    const char *text = buffer_text(&b);
    assert_true(b.length >= strlen(greeting_ask_replication));
    b.length -= strlen(greeting_ask_replication); /* this request is always the last one */
    assert_string_equal(text + b.length, greeting_ask_replication);
    assert_string_equal(buffer_text(&b), expected);
    buffer_fini(&b);
    return g;
}

static enum err judge(struct greeting *g, unsigned i, int type, const char *text)
{
    char copy[64];
    struct error e = {""};
    (void)strncpy(copy, text, sizeof(copy) - 1);
    copy[sizeof(copy) - 1] = '\0';
    const redisReply reply = {.type = type, .str = copy, .len = strlen(copy)};
    enum err code = greeting_judge(g, i, &reply, &e);
    assert_string_equal(e.text, code == ERR_OK ? "" : text);
    return code;
}

static void test_greeting__says_what_the_node_needs(void **state)
{
    (void)state;
    assert_int_equal(greet("redis://h", NULL, "").count, 1);
    assert_int_equal(greet("redis://h", "n", "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\nn\r\n").count, 2);
    assert_int_equal(greet("redis://:p%20q@h/3", NULL,
                           "*2\r\n$4\r\nAUTH\r\n$3\r\np q\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n")
                         .count,
                     3);
    assert_int_equal(greet("unix://u:p@/s?db=12", "n",
                           "*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$1\r\np\r\n*2\r\n$6\r\nSELECT\r\n$2\r\n12\r\n"
                           "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\nn\r\n")
                         .count,
                     4);
}

/* A sentinel replies to INFO replication with an empty text. */
static void test_greeting__does_not_ask_a_sentinel_for_its_replication_id(void **state)
{
    (void)state;
    struct buffer b = {0};
    struct error e = {""};
    assert_int_equal(nodes_parse(&nodes, "redis://:p@h", &e), ERR_OK);
    nodes.node[0].watches = true;
    struct greeting g = greeting_write(&b, &nodes, &nodes.node[0], "n");
    assert_int_equal(g.count, 2);
    assert_null(strstr(buffer_text(&b), "INFO"));
    assert_int_equal(judge(&g, 1, REDIS_REPLY_STATUS, "OK"), ERR_OK);
    buffer_fini(&b);
}

static void test_greeting__is_over_where_the_login_is_refused_but_not_for_a_name(void **state)
{
    (void)state;
    struct greeting g = greet("redis://:p@h/1", "n",
                              "*2\r\n$4\r\nAUTH\r\n$1\r\np\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n1\r\n"
                              "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\nn\r\n");
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(judge(&g, i, REDIS_REPLY_STATUS, "OK"), ERR_OK);
    assert_int_equal(judge(&g, 0, REDIS_REPLY_ERROR, "WRONGPASS no"), ERR_REFUSED);
    assert_int_equal(judge(&g, 1, REDIS_REPLY_ERROR, "NOPERM no"), ERR_REFUSED);
    assert_int_equal(judge(&g, 2, REDIS_REPLY_ERROR, "NOPERM no"), ERR_OK);
    assert_int_equal(judge(&g, 2, REDIS_REPLY_ERROR, "NOAUTH Authentication required."), ERR_REFUSED);
    g = greet("redis://:p@h", NULL, "*2\r\n$4\r\nAUTH\r\n$1\r\np\r\n");
    assert_int_equal(judge(&g, 0, REDIS_REPLY_ERROR, "ERR no"), ERR_REFUSED);
}

static enum err judge_replication(bool cluster, int type, const char *text, uint64_t *replication,
                                  struct error *e)
{
    char copy[256];
    (void)snprintf(copy, sizeof(copy), "%s", text);
    const redisReply reply = {.type = type, .str = copy, .len = strlen(copy)};
    return greeting_judge_replication(cluster, &reply, replication, e);
}

#define ID "aaaaaaaaaaaaaaa1bbbbbbbbbbbbbbbbbbbbbbbb"

static void test_greeting__ends_with_the_replication_id(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t id = 0;
    static const char master[] = "role:master\r\nmaster_replid:" ID "\r\n";
    static const char replica[] = "role:slave\r\nmaster_replid:" ID "\r\n";
    assert_int_equal(judge_replication(false, REDIS_REPLY_STRING, master, &id, &e), ERR_OK);
    assert_true(id == 0xaaaaaaaaaaaaaaa1);
    assert_int_equal(judge_replication(true, REDIS_REPLY_STRING, replica, &id, &e), ERR_OK);
    assert_true(id == 0);
    assert_int_equal(judge_replication(false, REDIS_REPLY_STRING, replica, &id, &e), ERR_UNREACHABLE);
    assert_non_null(strstr(e.text, "replica"));
    assert_int_equal(judge_replication(false, REDIS_REPLY_ERROR, "BUSY a script runs", &id, &e),
                     ERR_UNREACHABLE);
    assert_int_equal(judge_replication(false, REDIS_REPLY_ERROR, "NOPERM no", &id, &e), ERR_REFUSED);
    assert_non_null(strstr(e.text, "+info"));
    assert_int_equal(judge_replication(false, REDIS_REPLY_ERROR, "ERR unknown command", &id, &e),
                     ERR_REFUSED);
    assert_int_equal(judge_replication(false, REDIS_REPLY_STRING, "role:master\r\n", &id, &e), ERR_REFUSED);
    assert_int_equal(judge_replication(false, REDIS_REPLY_INTEGER, "", &id, &e), ERR_REFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greeting__says_what_the_node_needs),
        cmocka_unit_test(test_greeting__does_not_ask_a_sentinel_for_its_replication_id),
        cmocka_unit_test(test_greeting__is_over_where_the_login_is_refused_but_not_for_a_name),
        cmocka_unit_test(test_greeting__ends_with_the_replication_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
