/* SPDX-License-Identifier: MIT */
/* Users and rights that change while clients are connected. */
#include "tests/integration/access.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/raw.h"

static void test_reload__changes_rights_at_once(void **state)
{
    (void)state;
    struct client writer = {0}, reader = {0};
    access_log_in(&writer, "writer");
    access_log_in(&reader, "reader");
    access_gives(&writer, "BF.ADD alpha k1", "1");
    access_gives(&writer, "MULTI", "OK");
    access_gives(&writer, "BF.ADD alpha k2", "QUEUED");
    access_gives(&writer, "BF.EXISTS alpha k2", "QUEUED");
    access_reload(SERVICE, FILTERS "[user writer]\npassword = " WRITER_HASH "\nfilters = a*\n" CHIEF SLOW);
    redisReply *r = client_command(&writer, "EXEC");
    assert_non_null(r);
    assert_int_equal(r->type, REDIS_REPLY_ARRAY);
    assert_int_equal(r->elements, 2);
    assert_string_equal(r->element[0]->str, NOCOMMAND("bf.add"));
    assert_int_equal(r->element[1]->integer, 0);
    freeReplyObject(r);
    access_gives(&writer, "BF.ADD alpha k3", NOCOMMAND("bf.add"));
    access_gives(&reader, "BF.EXISTS alpha k1", NOAUTH); /* the user was removed */
    access_gives(&reader, "AUTH reader reader", WRONGPASS);
    access_reload(SERVICE, FILTERS READER "[user writer]\npassword = " WRITER_HASH
                                          "\nroles = write\nenabled = no\n" CHIEF SLOW);
    access_gives(&writer, "BF.EXISTS alpha k1", NOAUTH);
    access_gives(&writer, "AUTH writer writer", WRONGPASS);
    access_gives(&reader, "BF.EXISTS alpha k1", "1"); /* the user is back */
    client_close(&writer);
    client_close(&reader);
}

static void test_reload__a_removed_user_cannot_run_what_it_has_queued(void **state)
{
    (void)state;
    struct client writer = {0};
    access_log_in(&writer, "writer");
    access_gives(&writer, "MULTI", "OK");
    access_gives(&writer, "BF.ADD alpha queued", "QUEUED");
    access_reload(SERVICE, FILTERS READER CHIEF SLOW);
    access_gives(&writer, "AUTH reader reader", "OK"); /* not queued: the transaction is gone */
    access_gives(&writer, "EXEC", "ERR EXEC without MULTI");
    access_gives(&writer, "BF.EXISTS alpha queued", "0");
    client_close(&writer);
}

static void test_reload__the_first_user_ends_the_free_entry(void **state)
{
    (void)state;
    struct client c = {0};
    access_reload(SERVICE, FILTERS);
    access_open(&c);
    access_gives(&c, "PING", "PONG");
    access_gives(&c, "ACL WHOAMI", "default");
    access_gives(&c, "AUTH default anything", "OK");
    access_gives(&c, "AUTH reader reader", WRONGPASS);
    access_reload(SERVICE, FILTERS READER);
    access_gives(&c, "PING", NOAUTH);
    access_gives(&c, "AUTH reader reader", "OK");
    access_reload(SERVICE "password = " CHIEF_HASH "\n", FILTERS READER);
    access_gives(&c, "AUTH reader", WRONGPASS);
    access_gives(&c, "AUTH chief", "OK"); /* the default user's password, configured as a hash */
    access_gives(&c, "CONFIG GET save", "array of 2");
    client_close(&c);
}

/* Of a request whose head had come before. */
static void test_http__rights_are_withdrawn_before_the_body(void **state)
{
    (void)state;
    struct client chief = {0};
    char answer[2048];
    int fd = raw_open(access_fixture.daemon[0].http_port);
    access_log_in(&chief, "chief");
    assert_true(raw_puts(fd, "POST /v1/filters/alpha/add HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                             "Content-Type: application/json\r\nAuthorization: Basic d3JpdGVyOndyaXRlcg==\r\n"
                             "Expect: 100-continue\r\nContent-Length: 17\r\n\r\n"));
    assert_true(raw_expect(fd, "HTTP/1.1 100 Continue\r\n\r\n"));
    access_gives(&chief, "CONFIG SET user.writer.enabled no", "OK");
    assert_true(raw_puts(fd, "{\"keys\":[\"late\"]}"));
    assert_true(raw_read_all(fd, answer, sizeof(answer)));
    if (strncmp(answer, "HTTP/1.1 401 ", 13) != 0)
        fail_msg("%s", answer);
    access_gives(&chief, "BF.EXISTS alpha late", "0");
    raw_close(fd);
    client_close(&chief);
}

/* CONFIG SET works like a reload. */
static void test_config_set__changes_users(void **state)
{
    (void)state;
    struct client writer = {0};
    struct error e = {""};
    access_log_in(&writer, "writer");
    must(client_ok(&access_fixture.client[0], &e, "CONFIG SET user.writer.roles read"), e);
    access_gives(&writer, "BF.ADD alpha k", NOCOMMAND("bf.add"));
    access_gives(
        &access_fixture.client[0], "CONFIG SET user.writer.password hunter2",
        "ERR CONFIG SET failed (possibly related to argument 'user.writer.password') - 'password' of a user "
        "must be a hash, not the password itself; make one with twinbloom hash-password");
    must(client_ok(&access_fixture.client[0], &e, "CONFIG SET user.writer.password %s", READER_HASH), e);
    access_gives(&writer, "AUTH writer writer", WRONGPASS); /* this password was remembered as right */
    access_gives(&writer, "AUTH writer reader", "OK");
    client_close(&writer);
}

/* The user of a request that is under way stays who it was. */
static void test_reset__waits_in_a_transaction_too(void **state)
{
    (void)state;
    struct client redis = {0};
    struct error e = {""};
    int fd = raw_open(access_fixture.daemon[0].port);
    must(client_open(&redis, access_fixture.redis[0].port, ACCESS_REPLY_MS, &e), e);
    assert_true(raw_puts(fd, "AUTH writer writer\r\nBF.ADD alpha reset-1\r\n"));
    assert_true(raw_expect(fd, "+OK\r\n:1\r\n"));
    must(client_ok(&redis, &e, "CLIENT PAUSE 700 ALL"), e);
    assert_true(raw_puts(fd, "BF.ADD alpha reset-2\r\nMULTI\r\nRESET\r\n"));
    clock_sleep_us(300000);
    redisReply *r = client_command(&access_fixture.client[0], "CLIENT LIST");
    assert_non_null(r);
    if (strstr(r->str, "cmd=reset") != NULL)
        fail_msg("%s", r->str);
    freeReplyObject(r);
    assert_true(raw_expect(fd, ":1\r\n+OK\r\n+RESET\r\n"));
    raw_close(fd);
    client_close(&redis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ACCESS_TEST(test_reload__changes_rights_at_once),
        ACCESS_TEST(test_reload__a_removed_user_cannot_run_what_it_has_queued),
        ACCESS_TEST(test_reload__the_first_user_ends_the_free_entry),
        ACCESS_TEST(test_http__rights_are_withdrawn_before_the_body),
        ACCESS_TEST(test_config_set__changes_users),
        ACCESS_TEST(test_reset__waits_in_a_transaction_too),
    };
    return cmocka_run_group_tests(tests, access_setup, access_teardown);
}
