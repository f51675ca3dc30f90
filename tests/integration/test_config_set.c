/* SPDX-License-Identifier: MIT */
/* CONFIG SET and GET through clients, while the daemon serves. */
#include "tests/integration/fixture.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { REPLY_MS = 30000, SEEN_MS = 10000 };

static struct fixture fixture;

#define FILTERS                                                                                              \
    "[filter plain]\ncapacity = 1000\nerror_rate = 0.01\non_lost = maybe\n[filter a.b]\ncapacity = 10\n"

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1});
    const struct daemon_options o = {.nodes = fixture.node_list,
                                     .dsn = "postgresql://app:hunter2@127.0.0.1:1/app",
                                     .service = "threads = 2\n",
                                     /* without memory, or the lost shard would come back from it */
                                     .redis = "resident_memory = 0\n",
                                     .filters = FILTERS};
    must(daemon_start(&fixture.daemon[0], &o, &e), e);
    fixture_reconnect(&fixture, 0);
    must(client_wait_status(&fixture.client[0], "plain", "state", "serving", REPLY_MS, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

/* After each test the values of the file apply again. */
static int restore(void **state)
{
    (void)state;
    struct error e = {""};
    must(daemon_reload(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
    return 0;
}

static void is_error(struct client *c, const char *command, const char *text)
{
    redisReply *r = client_command(c, command);
    if (r == NULL || r->type != REDIS_REPLY_ERROR || strcmp(r->str, text) != 0)
        fail_msg("%s: %s; expected: %s", command, r != NULL ? r->str : "no reply", text);
    freeReplyObject(r);
}

/* The reply to a command has @keys pairs; @texts are the pairs in any order. */
static void gives(const char *command, size_t keys, const char *const texts[])
{
    redisReply *r = client_command(&fixture.client[0], command);
    assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY);
    if (r->elements != 2 * keys)
        fail_msg("%s: %zu elements", command, r->elements);
    for (size_t i = 0; i < keys; i++) {
        size_t j = 0;
        while (j < r->elements && strcmp(r->element[j]->str, texts[2 * i]) != 0)
            j += 2;
        if (j >= r->elements || strcmp(r->element[j + 1]->str, texts[2 * i + 1]) != 0)
            fail_msg("%s: %s is %s", command, texts[2 * i],
                     j < r->elements ? r->element[j + 1]->str : "missing");
    }
    freeReplyObject(r);
}

#define GIVES(command, ...)                                                                                  \
    gives(command, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *) / 2,                          \
          (const char *const[]){__VA_ARGS__})

static void test_config_get__lists_keys_and_masks_secrets(void **state)
{
    (void)state;
    GIVES("CONFIG GET save", "save", "");
    GIVES("CONFIG GET appendonly", "appendonly", "no");
    GIVES("CONFIG GET save appendonly SAVE", "save", "", "appendonly", "no");
    GIVES("CONFIG GET service.log_*", "service.log_level", "info", "service.log_format", "logfmt");
    GIVES("CONFIG GET log_*", "service.log_level", "info", "service.log_format", "logfmt");
    GIVES("CONFIG GET log_level THREADS", "log_level", "info", "threads", "2");
    GIVES("CONFIG GET log_level service.log_level", "service.log_level", "info");
    GIVES("CONFIG GET *.timeout", "service.timeout", "1s", "redis.timeout", "1s", "postgres.timeout", "10s");
    GIVES("CONFIG GET filter.a.b.cap*", "filter.a.b.capacity", "10");
    GIVES("CONFIG GET postgres.dsn", "postgres.dsn", "postgresql://app:***@127.0.0.1:1/app");
    gives("CONFIG GET timeout", 0, NULL); /* three sections have a timeout */
    gives("CONFIG GET nonsense", 0, NULL);
    struct error e = {""};
    must(client_ok(&fixture.client[0], &e, "CONFIG SET password sesame"), e);
    GIVES("CONFIG GET password", "password", "***");
    redisReply *r = client_command(&fixture.client[0], "CONFIG GET *");
    assert_true(r != NULL && r->elements > 60);
    for (size_t i = 0; i < r->elements; i++)
        if (strstr(r->element[i]->str, "sesame") != NULL || strstr(r->element[i]->str, "hunter2") != NULL)
            fail_msg("a secret: %s", r->element[i]->str);
    freeReplyObject(r);
    char *log = process_log(&fixture.daemon[0].process);
    assert_non_null(strstr(log, "event=config_set"));
    assert_null(strstr(log, "sesame"));
    assert_null(strstr(log, "hunter2"));
    free(log);
}

static void test_config_set__is_all_or_nothing(void **state)
{
    (void)state;
    struct client *c = &fixture.client[0];
    struct error e = {""};
    is_error(c, "CONFIG SET max_clients 9 threads 3",
             "ERR CONFIG SET failed (possibly related to argument 'threads') - can't set immutable config");
    is_error(c, "CONFIG SET max_clients 9 log_level loud",
             "ERR CONFIG SET failed (possibly related to argument 'log_level') - 'log_level' is 'loud', "
             "which is not valid; give debug, info, warn or error");
    char alone[PATH_MAX + 256];
    (void)snprintf(
        alone, sizeof(alone),
        "ERR CONFIG SET failed (possibly related to argument 'filter.plain.where') - it is taken from "
        "the configuration file alone; change it in %s and send SIGHUP",
        fixture.daemon[0].config);
    is_error(c, "CONFIG SET max_clients 9 filter.plain.where pg_sleep(9)=1", alone);
    is_error(
        c, "CONFIG SET max_clients 9 nonsense 1",
        "ERR Unknown option or number of arguments for CONFIG SET - 'nonsense'; CONFIG GET * lists the keys");
    is_error(
        c, "CONFIG SET max_clients 9 timeout 1s",
        "ERR CONFIG SET failed (possibly related to argument 'timeout') - several sections have this key; "
        "for that of [service] write service.timeout");
    is_error(c, "CONFIG SET max_clients 9 log_level", "ERR syntax error");
    is_error(c, "CONFIG SET max_clients", "ERR wrong number of arguments for 'config|set' command");
    is_error(c, "CONFIG GET", "ERR wrong number of arguments for 'config|get' command");
    is_error(c, "CONFIG REWRITE",
             "ERR CONFIG REWRITE is not offered: the configuration file is yours; write into it what is to "
             "outlast the next SIGHUP or restart");
    is_error(c, "CONFIG RESETSTAT", "ERR unknown subcommand 'RESETSTAT'. Try CONFIG HELP.");
    redisReply *help = client_command(c, "CONFIG HELP");
    assert_true(help != NULL && help->type == REDIS_REPLY_ARRAY && help->elements > 3);
    assert_non_null(strstr(help->element[3]->str, "other than those of filters and users.")); /* not cut */
    freeReplyObject(help);
    GIVES("CONFIG GET max_clients log_level", "max_clients", "10000", "log_level", "info");
    must(client_ok(c, &e, "CONFIG SET max_clients 9 rebuild.lease 20s filter.a.b.grace 1s"), e);
    GIVES("CONFIG GET max_clients lease filter.a.b.grace", "max_clients", "9", "lease", "20s",
          "filter.a.b.grace", "1s");
    must(daemon_reload(&fixture.daemon[0], &e), e); /* restores the file's values */
    GIVES("CONFIG GET max_clients lease filter.a.b.grace", "max_clients", "10000", "lease", "10s",
          "filter.a.b.grace", "10m");
}

static void open_client(struct client *c)
{
    struct error e = {""};
    must(client_open(c, fixture.daemon[0].port, REPLY_MS, &e), e);
}

static void test_config_set__a_new_password_is_asked_of_new_clients(void **state)
{
    (void)state;
    struct error e = {""};
    struct client *old = &fixture.client[0];
    freeReplyObject(client_command(old, "PING"));
    must(client_ok(old, &e, "CONFIG SET password first"), e);
    for (int i = 0; i < 4; i++) { /* on both workers */
        struct client c = {0};
        open_client(&c);
        is_error(&c, "PING", "NOAUTH Authentication required.");
        is_error(&c, "AUTH second", "WRONGPASS invalid username-password pair or user is disabled.");
        must(client_ok(&c, &e, "AUTH first"), e);
        must(client_ok(old, &e, "CONFIG SET password second"), e);
        must(client_ok(&c, &e, "CONFIG SET log_level info"), e); /* clients that are logged in stay so */
        is_error(&c, "AUTH first", "WRONGPASS invalid username-password pair or user is disabled.");
        must(client_ok(&c, &e, "AUTH second"), e);
        must(client_ok(old, &e, "CONFIG SET password first"), e);
        client_close(&c);
    }
    struct client waiting = {0};
    open_client(&waiting);
    is_error(&waiting, "PING", "NOAUTH Authentication required.");
    must(daemon_reload(&fixture.daemon[0], &e), e); /* the file has no password */
    must(client_ok(&waiting, &e, "CONFIG SET log_level info"), e);
    client_close(&waiting);
}

static void test_config_set__bounds_the_clients(void **state)
{
    (void)state;
    struct error e = {""};
    must(client_ok(&fixture.client[0], &e, "CONFIG SET max_clients 1"), e);
    struct client c = {0};
    open_client(&c);
    redisReply *r = client_command(&c, "PING");
    assert_true(r == NULL ||
                (r->type == REDIS_REPLY_ERROR && strstr(r->str, "max number of clients") != NULL));
    freeReplyObject(r);
    client_close(&c);
    r = client_command(&fixture.client[0], "INFO");
    assert_true(r != NULL && strstr(r->str, "maxclients:1\r\n") != NULL);
    freeReplyObject(r);
}

static void test_config_set__changes_what_is_logged(void **state)
{
    (void)state;
    struct error e = {""};
    struct client *c = &fixture.client[0];
    must(client_ok(c, &e, "CONFIG SET log_level error"), e);
    must(client_ok(c, &e, "CONFIG SET verify_sample 4321"), e);
    must(client_ok(c, &e, "CONFIG SET log_level info"), e);
    must(client_ok(c, &e, "CONFIG SET page_rows 4321"), e);
    char *log = process_log(&fixture.daemon[0].process);
    assert_null(strstr(log, "changed=\"'verify_sample'\""));
    assert_non_null(strstr(log, "changed=\"'page_rows'\""));
    free(log);
}

/* Check a key of a filter whose shard is lost, until the reply is @wanted (NULL: an error). */
static void check_becomes(const char *wanted)
{
    char got[512] = "no reply";
    for (unsigned i = 0; i < SEEN_MS / 20; i++) {
        redisReply *r = client_command(&fixture.client[0], "BF.EXISTS plain k");
        bool error = r != NULL && r->type == REDIS_REPLY_ERROR;
        bool same = r != NULL && (wanted == NULL ? error && strstr(r->str, "degraded") != NULL
                                                 : !error && r->integer == 1);
        if (r != NULL)
            (void)snprintf(got, sizeof(got), "%.400s %lld", error ? r->str : "integer", r->integer);
        freeReplyObject(r);
        if (same)
            return;
        clock_sleep_us(20000);
    }
    fail_msg("the answer stays %s", got);
}

static void test_config_set__policies_of_filters_follow(void **state)
{
    (void)state;
    struct error e = {""};
    struct client *c = &fixture.client[0];
    int64_t n;
    must(client_integer(c, &n, &e, "BF.ADD plain k"), e);
    struct client redis = {0};
    must(client_open(&redis, fixture.redis[0].port, REPLY_MS, &e), e);
    must(client_integer(&redis, &n, &e, "EVAL %s 0",
                        "local n = 0 for _, k in ipairs(redis.call('KEYS', '*{plain.*}*')) do "
                        "n = n + redis.call('DEL', k) end return n"),
         e);
    client_close(&redis);
    assert_true(n > 0);
    check_becomes("1");
    must(client_ok(c, &e, "CONFIG SET filter.plain.on_lost error"), e);
    check_becomes(NULL);
    must(client_ok(c, &e, "CONFIG SET filter.plain.on_lost maybe"), e);
    check_becomes("1");
}

/* A shorter deadline also applies to requests under way. */
static void test_config_set__a_shorter_deadline_counts_at_once(void **state)
{
    (void)state;
    struct error e = {""};
    struct client asking = {0};
    must(client_ok(&fixture.client[0], &e, "CONFIG SET service.timeout 1h"), e);
    clock_sleep_us(200000);
    open_client(&asking);
    process_signal(&fixture.redis[0].process, SIGSTOP);
    assert_int_equal(redisAppendCommand(asking.redis, "BF.EXISTS a.b k"), REDIS_OK);
    int written = 0;
    while (written == 0)
        assert_int_equal(redisBufferWrite(asking.redis, &written), REDIS_OK);
    clock_sleep_us(2000000); /* more than any deadline but this one */
    uint64_t start = clock_mono_us();
    enum err err = client_ok(&fixture.client[0], &e, "CONFIG SET service.timeout 100ms");
    redisReply *r = NULL;
    int got = redisGetReply(asking.redis, (void **)&r);
    uint64_t took = clock_mono_us() - start;
    process_signal(&fixture.redis[0].process, SIGCONT);
    must(err, e);
    assert_int_equal(got, REDIS_OK);
    assert_int_equal(r->type, REDIS_REPLY_ERROR);
    freeReplyObject(r);
    client_close(&asking);
    if (took > 5000000)
        fail_msg("%llu us", (unsigned long long)took);
}

#define TEST(name) cmocka_unit_test_teardown(name, restore)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_config_get__lists_keys_and_masks_secrets),
        TEST(test_config_set__is_all_or_nothing),
        TEST(test_config_set__a_new_password_is_asked_of_new_clients),
        TEST(test_config_set__bounds_the_clients),
        TEST(test_config_set__changes_what_is_logged),
        TEST(test_config_set__a_shorter_deadline_counts_at_once),
        TEST(test_config_set__policies_of_filters_follow),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
