/* SPDX-License-Identifier: MIT */
/* Users, their roles, and the patterns of filters that they may use. */
#include "tests/integration/access.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/integration/dumps.h"
#include "tests/lib/raw.h"

/* The command must not be refused with NOPERM. Any other reply is fine. */
static void is_allowed(struct client *c, const char *command)
{
    redisReply *r = client_command(c, command);
    assert_non_null(r);
    if (r->type == REDIS_REPLY_ERROR && strncmp(r->str, "NOPERM", 6) == 0)
        fail_msg("%s: %s", command, r->str);
    freeReplyObject(r);
}

static void test_login__is_asked_of_everybody_once_there_are_users(void **state)
{
    (void)state;
    struct client c = {0};
    access_open(&c);
    access_gives(&c, "PING", NOAUTH);
    access_gives(&c, "BF.EXISTS alpha x", NOAUTH);
    access_gives(&c, "NOSUCH", NOAUTH);
    access_gives(&c, "ACL WHOAMI", NOAUTH);
    access_gives(
        &c, "HELLO 3",
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH "
        "<user> <pass> option can be used to authenticate the client and select the RESP protocol version at "
        "the same time");
    access_gives(
        &c, "AUTH reader",
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
        "configuration is correct?");
    access_gives(&c, "AUTH default x", WRONGPASS);
    access_gives(&c, "AUTH nobody reader", WRONGPASS);
    access_gives(&c, "AUTH reader writer", WRONGPASS);
    access_gives(&c, "AUTH Reader reader", WRONGPASS);
    access_gives(&c, "AUTH a b c", "ERR syntax error");
    access_gives(&c, "PING", NOAUTH);
    access_gives(&c, "AUTH reader reader", "OK");
    access_gives(&c, "PING", "PONG");
    access_gives(&c, "ACL WHOAMI", "reader");
    access_gives(&c, "AUTH writer wrong", WRONGPASS); /* a failed login leaves the connection's user */
    access_gives(&c, "ACL WHOAMI", "reader");
    access_gives(&c, "HELLO 2 AUTH writer writer SETNAME me", "array of 14");
    access_gives(&c, "ACL WHOAMI", "writer");
    access_gives(&c, "CLIENT GETNAME", "me");
    access_gives(&c, "RESET", "RESET");
    access_gives(&c, "PING", NOAUTH);
    client_close(&c);
}

static void test_login__of_hello_answers_in_the_new_protocol(void **state)
{
    (void)state;
    char reply[512];
    int fd = raw_open(access_fixture.daemon[0].port);
    assert_true(raw_puts(fd, "HELLO 3 AUTH writer nonsense\r\n"));
    assert_true(raw_expect(fd, "-" WRONGPASS "\r\n"));
    assert_true(raw_puts(fd, "HELLO 3 AUTH writer writer\r\nACL WHOAMI\r\nBF.EXISTS alpha none\r\n"));
    assert_true(raw_read_until(fd, "#f\r\n", reply, sizeof(reply)));
    assert_int_equal(strncmp(reply, "%7\r\n", 4), 0);
    assert_non_null(strstr(reply, "*0\r\n$6\r\nwriter\r\n#f\r\n"));
    raw_close(fd);
}

#define NOALL "NOPERM this user has no permissions to access all filters, as 'tb.nodes' needs"

static void test_roles__say_which_commands_may_be_run(void **state)
{
    (void)state;
    struct client reader = {0}, writer = {0}, chief = {0};
    access_log_in(&reader, "reader");
    access_log_in(&writer, "writer");
    access_log_in(&chief, "chief");
    static const struct {
        const char *command, *reader, *writer, *chief;
    } rows[] = {
        {"BF.ADD alpha x", NOCOMMAND("bf.add"), "1", "0"},
        {"BF.EXISTS alpha x", "1", "1", "1"},
        {"BF.CARD alpha", "1", "1", "1"},
        {"BF.MADD alpha y z", NOCOMMAND("bf.madd"), "array of 2", "array of 2"},
        {"BF.INSERT alpha ITEMS y", NOCOMMAND("bf.insert"), "array of 1", "array of 1"},
        {"BF.RESERVE made-1 0.01 10", NOCOMMAND("bf.reserve"), "OK", "ERR item exists"},
        {"TB.ABORT alpha", NOCOMMAND("tb.abort"), NOCOMMAND("tb.abort"), NULL},
        {"TB.REBUILD alpha", NOCOMMAND("tb.rebuild"), NOCOMMAND("tb.rebuild"), NULL},
        {"TB.TRUST alpha", NOCOMMAND("tb.trust"), NOCOMMAND("tb.trust"), "OK"},
        {"TB.NODES", NOALL, NOALL, "array of 1"},
        {"CONFIG GET save", NOCOMMAND("config|get"), NOCOMMAND("config|get"), "array of 2"},
        {"CONFIG SET log_level info", NOCOMMAND("config|set"), NOCOMMAND("config|set"), "OK"},
        {"ECHO hi", "hi", "hi", "hi"},
        {"BF.NOSUCH", "ERR unknown command 'BF.NOSUCH', with args beginning with: ",
         "ERR unknown command 'BF.NOSUCH', with args beginning with: ",
         "ERR unknown command 'BF.NOSUCH', with args beginning with: "},
        {"BF.ADD alpha", "ERR wrong number of arguments for 'bf.add' command",
         "ERR wrong number of arguments for 'bf.add' command",
         "ERR wrong number of arguments for 'bf.add' command"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        access_gives(&reader, rows[i].command, rows[i].reader);
        access_gives(&writer, rows[i].command, rows[i].writer);
        if (rows[i].chief != NULL)
            access_gives(&chief, rows[i].command, rows[i].chief);
        else
            is_allowed(&chief, rows[i].command);
    }
    client_close(&reader);
    client_close(&writer);
    client_close(&chief);
}

static void test_patterns__say_which_filters_may_be_used(void **state)
{
    (void)state;
    struct client reader = {0}, writer = {0};
    access_log_in(&reader, "reader");
    access_log_in(&writer, "writer");
    access_gives(&reader, "BF.EXISTS beta x", NOKEY);
    access_gives(&reader, "BF.EXISTS Alpha x", NOKEY); /* names are case-sensitive */
    access_gives(&reader, "BF.INFO beta", NOKEY);
    access_gives(&reader, "BF.CARD beta", NOKEY);
    access_gives(&reader, "TB.STATUS beta", NOKEY);
    access_gives(&reader, "TB.PLAN beta", NOKEY);
    access_gives(&reader, "TB.HISTORY beta", NOKEY);
    access_gives(&reader, "BF.EXISTS alphabet x", "0");
    access_gives(&writer, "BF.ADD beta x", NOKEY);
    access_gives(&writer, "BF.ADD made-12 x", NOKEY);
    access_gives(&writer, "BF.ADD made-2 x", "1");
    access_gives(&writer, "BF.INSERT beta ITEMS alpha", NOKEY);
    client_close(&reader);
    client_close(&writer);
}

static void test_patterns__hide_other_filters_from_lists(void **state)
{
    (void)state;
    struct client reader = {0};
    access_log_in(&reader, "reader");
    redisReply *all = client_command(&access_fixture.client[0], "TB.STATUS");
    redisReply *some = client_command(&reader, "TB.STATUS");
    assert_non_null(all);
    assert_non_null(some);
    assert_int_equal(some->type, REDIS_REPLY_ARRAY);
    assert_true(all->elements >= 2);
    assert_int_equal(some->elements, 1);
    assert_string_equal(some->element[0]->element[1]->str, "alpha");
    freeReplyObject(all);
    freeReplyObject(some);
    client_close(&reader);
}

static void test_patterns__hold_for_every_name_of_a_command(void **state)
{
    (void)state;
    struct client reader = {0}, writer = {0};
    access_log_in(&reader, "reader");
    access_log_in(&writer, "writer");
    access_gives(&access_fixture.client[0], "BF.RESERVE made-3 0.01 10", "OK");
    access_gives(&access_fixture.client[0], "BF.RESERVE other 0.01 10", "OK");
    access_gives(&reader, "EXISTS alpha beta", NOKEY);
    access_gives(&reader, "EXISTS alpha", "1");
    access_gives(&reader, "TYPE beta", NOKEY);
    access_gives(&reader, "MEMORY USAGE beta", NOKEY);
    access_gives(&reader, "DEL alpha", NOCOMMAND("del"));
    access_gives(&reader, "EXPIRE alpha 100", NOCOMMAND("expire"));
    access_gives(&writer, "DEL made-3 other", NOKEY);
    access_gives(&access_fixture.client[0], "EXISTS made-3 other", "2"); /* neither filter was deleted */
    access_gives(&writer, "EXPIRE other 100", NOKEY);
    access_gives(&writer, "BF.SCANDUMP made-3 0", NOCOMMAND("bf.scandump"));
    access_gives(&writer, "BF.LOADCHUNK other 1 x", NOKEY);
    access_gives(&writer, "TB.MADD other x", NOKEY);
    access_gives(&writer, "TB.INIT other 0.01 10", NOKEY);
    access_gives(&reader, "CLIENT LIST", NOCOMMAND("client|list"));
    access_gives(&reader, "CLIENT KILL ID 1", NOCOMMAND("client|kill"));
    access_gives(&reader, "KEYS *", "array of 1");
    access_gives(&reader, "DBSIZE", "1");
    access_gives(&reader, "RANDOMKEY", "alpha");
    redisReply *r = client_command(&reader, "SCAN 0 COUNT 1000");
    assert_non_null(r);
    assert_int_equal(r->element[1]->elements, 1);
    assert_string_equal(r->element[1]->element[0]->str, "alpha");
    freeReplyObject(r);
    access_gives(&writer, "DEL made-3", "1");
    access_gives(&access_fixture.client[0], "DEL other", "1");
    client_close(&reader);
    client_close(&writer);
}

/* A login within a transaction applies to the commands after it. */
static void test_transactions__may_change_who_one_is(void **state)
{
    (void)state;
    struct client c = {0};
    access_log_in(&c, "reader");
    access_gives(&c, "MULTI", "OK");
    access_gives(&c, "AUTH writer writer", "QUEUED");
    access_gives(&c, "ACL WHOAMI", "QUEUED");
    redisReply *r = client_command(&c, "EXEC");
    assert_non_null(r);
    assert_int_equal(r->elements, 2);
    assert_string_equal(r->element[0]->str, "OK");
    assert_string_equal(r->element[1]->str, "writer");
    freeReplyObject(r);
    client_close(&c);
}

static void test_transactions__are_refused_whole_where_one_command_may_not_be_run(void **state)
{
    (void)state;
    struct client reader = {0};
    access_log_in(&reader, "reader");
    access_gives(&reader, "MULTI", "OK");
    access_gives(&reader, "BF.EXISTS alpha x", "QUEUED");
    access_gives(&reader, "BF.ADD alpha x", NOCOMMAND("bf.add"));
    access_gives(&reader, "EXEC", "EXECABORT Transaction discarded because of previous errors.");
    access_gives(&reader, "MULTI", "OK");
    access_gives(&reader, "BF.EXISTS beta x", NOKEY);
    access_gives(&reader, "EXEC", "EXECABORT Transaction discarded because of previous errors.");
    client_close(&reader);
}

static void test_http__knows_users_tokens_roles_and_patterns(void **state)
{
    (void)state;
#define BASIC_READER "Basic cmVhZGVyOnJlYWRlcg=="
#define BASIC_WRITER "Basic d3JpdGVyOndyaXRlcg=="
    static const struct {
        const char *method, *path, *authorization;
        int status;
    } rows[] = {
        {"GET", "/livez", "", 200},
        {"GET", "/v1/filters", "", 401},
        {"GET", "/v1/filters", "Bearer nonsense", 401},
        {"GET", "/v1/filters", "Basic cmVhZGVyOndyb25n", 401},     /* reader:wrong */
        {"GET", "/v1/filters", "Basic bm9ib2R5OnJlYWRlcg==", 401}, /* nobody:reader */
        {"GET", "/v1/filters", "Basic cmVhZGVy", 401},             /* no colon */
        {"GET", "/v1/filters", "Basic ZGVmYXVsdDo=", 401},         /* default: */
        {"GET", "/v1/filters/alpha", BASIC_READER, 200},
        {"GET", "/v1/filters/beta", BASIC_READER, 403},
        {"POST", "/v1/filters/alpha/check", BASIC_READER, 200},
        {"POST", "/v1/filters/alpha/add", BASIC_READER, 403},
        {"POST", "/v1/filters/alpha/add", BASIC_WRITER, 200},
        {"POST", "/v1/filters/beta/add", BASIC_WRITER, 403},
        {"GET", "/v1/jobs/alpha.0123456789abcdef", BASIC_READER, 404},
        {"GET", "/v1/jobs/beta.0123456789abcdef", BASIC_READER, 403},
        {"GET", "/v1/jobs/.0123456789abcdef", BASIC_READER, 403}, /* of the filter "" */
        {"DELETE", "/v1/filters/alpha", BASIC_READER, 403},
        {"DELETE", "/v1/filters/beta", BASIC_WRITER, 403},
        {"DELETE", "/v1/filters/alpha-none", BASIC_WRITER, 404},
        {"POST", "/v1/filters/beta/add", "Bearer abc", 200}, /* the chief's token */
        {"GET", "/v1/filters", "bearer abc", 200},
        {"POST", "/v1/filters/alpha/trust", BASIC_WRITER, 403},
        {"POST", "/v1/filters/alpha/trust", "Bearer abc", 200},
    };
    char answer[16384];
    for (int again = 0; again < 2; again++) /* the second time, from remembered passwords */
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            int status = access_http_status(rows[i].method, rows[i].path, rows[i].authorization, answer,
                                            sizeof(answer));
            if (status != rows[i].status)
                fail_msg("%s %s %s: %.400s", rows[i].method, rows[i].path, rows[i].authorization, answer);
        }
    assert_int_equal(access_http_status("GET", "/v1/filters", BASIC_READER, answer, sizeof(answer)), 200);
    assert_non_null(strstr(answer, "alpha"));
    assert_null(strstr(answer, "beta"));
    access_reload(SERVICE, FILTERS WRITER CHIEF);
    assert_int_equal(access_http_status("GET", "/v1/filters", BASIC_READER, answer, sizeof(answer)), 401);
    access_reload(SERVICE, FILTERS);
    assert_int_equal(access_http_status("GET", "/v1/filters", "", answer, sizeof(answer)), 200);
}

static void coordinators_say(struct client *c, const char *nodes)
{
    redisReply *r = client_command(c, "TB.COORDINATORS");
    assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements == 1);
    const redisReply *one = r->element[0];
    for (size_t i = 0; i + 1 < one->elements; i += 2) {
        const char *field = one->element[i]->str, *value = one->element[i + 1]->str;
        if (strcmp(field, "nodes") == 0)
            assert_string_equal(value, nodes);
        if (strcmp(field, "redis") == 0)
            assert_string_equal(value, "ok");
    }
    freeReplyObject(r);
}

/* Only users that may use all filters see the nodes and their errors. */
static void test_patterns__hide_nodes(void **state)
{
    (void)state;
    struct client reader = {0}, chief = {0};
    char answer[16384];
    access_log_in(&reader, "reader");
    access_log_in(&chief, "chief");
    access_gives(&reader, "INFO nodes", "# Nodes\r\nnodes_mode:list\r\nnodes_state:up\r\n");
    redisReply *r = client_command(&chief, "INFO");
    assert_true(r != NULL && strstr(r->str, "node0:name=127.0.0.1:") != NULL);
    freeReplyObject(r);
    coordinators_say(&reader, "");
    coordinators_say(&chief, access_fixture.node_list + strlen("redis://"));
    process_signal(&access_fixture.redis[0].process, SIGSTOP);
    int status = access_http_status("GET", "/readyz", "", answer, sizeof(answer));
    process_signal(&access_fixture.redis[0].process, SIGCONT);
    assert_int_equal(status, 503);
    assert_non_null(strstr(answer, "\"detail\":\"not ready; the log says why\""));
    client_close(&reader);
    client_close(&chief);
}

static void is_refused(struct client *c, const char *command, const char *why)
{
    redisReply *r = client_command(c, command);
    assert_non_null(r);
    if (r->type != REDIS_REPLY_ERROR || strstr(r->str, why) == NULL)
        fail_msg("%s: %s", command, r->str == NULL ? "?" : r->str);
    freeReplyObject(r);
}

/* The doctor looks at all filters, so a user with a pattern may not call it. */
static void test_doctor__is_for_administrators_of_all_filters(void **state)
{
    (void)state;
    struct client some = {0}, chief = {0};
    access_reload(SERVICE,
                  FILTERS "[user writer]\npassword = " WRITER_HASH "\nroles = admin\nfilters = a*\n" CHIEF);
    access_log_in(&some, "writer");
    access_log_in(&chief, "chief");
    access_gives(&some, "TB.DOCTOR",
                 "NOPERM this user has no permissions to access all filters, which TB.DOCTOR looks at");
    is_allowed(&chief, "TB.DOCTOR");
    client_close(&some);
    client_close(&chief);
}

/* Quotas count filters made by any command, and bytes of filters that grow. */
static void test_quotas__bound_what_a_user_makes(void **state)
{
    (void)state;
    struct client writer = {0}, chief = {0};
    static const char sections[] =
        FILTERS "[user writer]\npassword = " WRITER_HASH
                "\nroles = write\nfilters = quota-*\nfilters_max = 2\nbytes_max = 16KiB\n" CHIEF;
    char command[2048];
    bool grows = true;
    access_reload(SERVICE, sections);
    access_log_in(&writer, "writer");
    access_log_in(&chief, "chief");
    access_gives(&writer, "BF.RESERVE quota-1 0.01 1000", "OK");
    is_refused(&writer, "BF.RESERVE quota-2 0.01 1000000",
               "user writer may take 16384 bytes of Redis (bytes_max)");
    access_gives(&writer, "BF.RESERVE quota-2 0.01 1000", "OK");
    access_gives(&writer, "BF.RESERVE quota-2 0.01 1000", "ERR item exists");
    access_gives(&writer, "BF.RESERVE quota-2 0.01 1000000", "ERR item exists"); /* it would make nothing */
    access_gives(&writer, "TB.INIT quota-2 0.01 1000000", "0");
    is_refused(&writer, "BF.RESERVE quota-3 0.01 10", "user writer may have 2 filters (filters_max)");
    is_refused(&writer, "BF.ADD quota-3 x", "user writer may have 2 filters (filters_max)");
    access_gives(&chief, "BF.RESERVE quota-3 0.01 1000000", "OK"); /* the chief has no quota */
    is_refused(&writer, "BF.ADD quota-4 x", "filters_max");
    access_gives(&chief, "DEL quota-3", "1");
    for (int i = 0; i < 200 && grows; i++) {
        size_t length = (size_t)snprintf(command, sizeof(command), "BF.INSERT quota-1 ITEMS");
        for (int k = 0; k < 100; k++)
            length += (size_t)snprintf(command + length, sizeof(command) - length, " k%d-%d", i, k);
        redisReply *r = client_command(&writer, command);
        assert_non_null(r);
        grows = r->type == REDIS_REPLY_ARRAY && r->element[r->elements - 1]->type != REDIS_REPLY_ERROR;
        freeReplyObject(r);
    }
    assert_false(grows);
    int64_t there = 1;
    struct error e = {""};
    for (int i = 0; there == 1; i++) { /* a false positive would be no key more */
        (void)snprintf(command, sizeof(command), "BF.ADD quota-1 one-more-%d", i);
        must(client_integer(&writer, &there, &e, "BF.EXISTS quota-1 one-more-%d", i), e);
    }
    is_refused(&writer, command, "bytes_max");
    access_gives(&writer, "BF.EXISTS quota-1 k0-0", "1");
    access_gives(&chief, command, "1");
    access_gives(&chief, "DEL quota-1 quota-2", "2");
    client_close(&writer);
    client_close(&chief);
}

/* Who is disabled while a command of his waits has no quota any more, so the command makes nothing. */
static void test_quotas__hold_for_who_is_disabled_meanwhile(void **state)
{
    (void)state;
    struct client chief = {0}, redis = {0};
    struct error e = {""};
    char reply[512];
    int first, second;
    access_reload(SERVICE, FILTERS "[user writer]\npassword = " WRITER_HASH
                                   "\nroles = write\nfilters = off-*\nfilters_max = 1\n" CHIEF);
    access_log_in(&chief, "chief");
    must(client_open(&redis, access_fixture.redis[0].port, ACCESS_REPLY_MS, &e), e);
    first = raw_open(access_fixture.daemon[0].port);
    second = raw_open(access_fixture.daemon[0].port);
    assert_true(raw_puts(first, "AUTH chief chief\r\n") && raw_expect(first, "+OK\r\n"));
    assert_true(raw_puts(second, "AUTH writer writer\r\nBF.RESERVE off-1 0.01 10\r\n"));
    assert_true(raw_expect(second, "+OK\r\n+OK\r\n"));
    must(client_ok(&redis, &e, "CLIENT PAUSE 700 ALL"), e);
    assert_true(raw_puts(first, "BF.RESERVE other 0.01 10\r\n")); /* the thread that makes filters is busy */
    clock_sleep_us(100000);
    assert_true(raw_puts(second, "BF.RESERVE off-2 0.01 1000000\r\n"));
    clock_sleep_us(100000);
    access_gives(&chief, "CONFIG SET user.writer.enabled no", "OK");
    assert_true(raw_expect(first, "+OK\r\n"));
    assert_true(raw_read_until(second, "\r\n", reply, sizeof(reply)));
    if (reply[0] != '-' || strstr(reply, "user writer may ") == NULL)
        fail_msg("a disabled user has made a filter: %s", reply);
    access_gives(&chief, "EXISTS off-2", "0");
    access_gives(&chief, "DEL off-1 other", "2");
    raw_close(first);
    raw_close(second);
    client_close(&redis);
    client_close(&chief);
}

/* For a user without a quota: one command may take a quarter of the memory that Redis has left, and no
 * more. */
static void test_quotas__leave_memory_to_others_by_default(void **state)
{
    (void)state;
    struct client writer = {0}, chief = {0}, redis = {0};
    struct error e = {""};
    static const char share[] = FILTERS WRITER CHIEF;
    static const char own[] = FILTERS WRITER "bytes_max = 1GiB\n" CHIEF;
    must(client_open(&redis, access_fixture.redis[0].port, ACCESS_REPLY_MS, &e), e);
    must(client_ok(&redis, &e, "CONFIG SET maxmemory 64mb"), e);
    access_reload(SERVICE, share);
    access_log_in(&writer, "writer");
    access_log_in(&chief, "chief");
    is_refused(&writer, "BF.RESERVE a-large 0.001 15000000", "a quarter of the memory that Redis has left");
    is_refused(&writer, "BF.INSERT a-large CAPACITY 15000000 ITEMS x", "a quarter of the memory");
    access_gives(&chief, "EXISTS a-large", "0");
    access_gives(&writer, "BF.RESERVE a-small 0.001 1000000", "OK");
    access_gives(&writer, "BF.RESERVE a-small 0.001 15000000", "ERR item exists");
    access_gives(&chief, "BF.RESERVE a-large 0.001 15000000", "OK"); /* admins have no such limit */
    access_gives(&chief, "DEL a-large", "1");
    access_reload(SERVICE, own);
    access_gives(&writer, "BF.RESERVE a-large 0.001 15000000", "OK");
    access_gives(&chief, "DEL a-large a-small", "2");
    must(client_ok(&redis, &e, "CONFIG SET maxmemory 0"), e);
    client_close(&redis);
    client_close(&writer);
    client_close(&chief);
}

/* A load counts when its filter is published, too: several that were begun before may not all be. */
static void test_quotas__count_loads_when_they_end(void **state)
{
    (void)state;
    static const char *const names[] = {"load-5", "load-6", "load-7"};
    struct client writer = {0}, chief = {0};
    struct error e = {""};
    struct dump d = {0};
    access_log_in(&chief, "chief");
    access_gives(&chief, "BF.RESERVE source 0.01 10", "OK");
    must(dump_rest(&d, &chief, "source", &e), e);
    access_reload(SERVICE, FILTERS "[user writer]\npassword = " WRITER_HASH
                                   "\nroles = write\nfilters = load-*\nfilters_max = 1\n" CHIEF);
    access_log_in(&writer, "writer");
    for (size_t i = 0; i < 3; i++)
        must(dump_load(&d.piece[0], &writer, names[i], &e), e);
    for (size_t i = 1; i < d.count; i++)
        must(dump_load(&d.piece[i], &writer, names[0], &e), e);
    for (size_t i = 1; i + 1 < d.count; i++)
        must(dump_load(&d.piece[i], &writer, names[1], &e), e);
    assert_int_equal(dump_load(&d.piece[d.count - 1], &writer, names[1], &e), ERR_REFUSED);
    assert_non_null(strstr(e.text, "filters_max"));
    access_gives(&writer, "KEYS *", "array of 1");
    access_gives(&writer, "DEL load-5", "1"); /* now there is room */
    must(dump_load(&d.piece[d.count - 1], &writer, names[1], &e), e);
    access_gives(&chief, "DEL load-6 source", "2");
    dump_free(&d);
    client_close(&writer);
    client_close(&chief);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ACCESS_TEST(test_login__is_asked_of_everybody_once_there_are_users),
        ACCESS_TEST(test_login__of_hello_answers_in_the_new_protocol),
        ACCESS_TEST(test_roles__say_which_commands_may_be_run),
        ACCESS_TEST(test_patterns__say_which_filters_may_be_used),
        ACCESS_TEST(test_patterns__hide_other_filters_from_lists),
        ACCESS_TEST(test_patterns__hide_nodes),
        ACCESS_TEST(test_patterns__hold_for_every_name_of_a_command),
        ACCESS_TEST(test_transactions__may_change_who_one_is),
        ACCESS_TEST(test_transactions__are_refused_whole_where_one_command_may_not_be_run),
        ACCESS_TEST(test_http__knows_users_tokens_roles_and_patterns),
        ACCESS_TEST(test_doctor__is_for_administrators_of_all_filters),
        ACCESS_TEST(test_quotas__bound_what_a_user_makes),
        ACCESS_TEST(test_quotas__hold_for_who_is_disabled_meanwhile),
        ACCESS_TEST(test_quotas__leave_memory_to_others_by_default),
        ACCESS_TEST(test_quotas__count_loads_when_they_end),
    };
    return cmocka_run_group_tests(tests, access_setup, access_teardown);
}
