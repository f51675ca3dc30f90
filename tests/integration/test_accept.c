/* SPDX-License-Identifier: MIT */
/* Coordinators and a Redis that was started again from its file: degraded, until an operator accepts; and
 * what is none of that: a first replica, a view of an older version. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "tests/lib/http.h"

enum { KEYS = 2000, NEVER = 1000000, WAIT_MS = 30000 };

static struct fixture f;

static int setup(void **state)
{
    (void)state;
    const struct fixture_options o = {.nodes = 2,
                                      .daemons = 2,
                                      .service = "check_interval = 200ms\n",
                                      .redis_lines = "shard_bytes = 4KiB\n"};
    if (fixture_start(&f, &o) != 0)
        return -1;
    struct error e = {""};
    must(client_ok(&f.client[0], &e, "BF.RESERVE seen 0.0001 10000"), e);
    must(client_madd(&f.client[0], "seen", fixture_code, 0, KEYS, &e), e);
    must(client_ok(&f.client[0], &e, "BF.RESERVE tiny 0.01 100"), e); /* one shard, on the first node */
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&f);
}

static struct client *node(unsigned i)
{
    static struct client c;
    struct error e = {""};
    client_close(&c);
    must(client_open(&c, f.redis[i].port, 5000, &e), e);
    return &c;
}

/* All that it has comes back, but nobody can know. */
static void restart(unsigned i)
{
    struct error e = {""};
    must(client_save(node(i), &e), e);
    temp_redis_kill(&f.redis[i]);
    must(temp_redis_restart(&f.redis[i], true, &e), e);
}

static void wait_for(unsigned d, const char *field, const char *value)
{
    struct error e = {""};
    must(client_wait_status(&f.client[d], "seen", field, value, WAIT_MS, &e), e);
}

static uint64_t present(unsigned d, uint64_t first)
{
    struct error e = {""};
    uint64_t n = 0;
    must(client_mexists(&f.client[d], "seen", fixture_code, first, KEYS, &n, NULL, &e), e);
    return n;
}

static void status(unsigned d, const char *field, char out[512])
{
    struct error e = {""};
    must(client_status(&f.client[d], "seen", field, out, 512, &e), e);
}

static void test_restart__is_degraded_until_it_is_accepted(void **state)
{
    (void)state;
    struct error e = {""};
    char text[512], name[32];
    int64_t ms = 0, since = 0;
    assert_in_range(present(0, NEVER), 0, 10);
    must(client_status_number(&f.client[0], "seen", "healthy_at", &since, &e), e);
    restart(1);
    for (unsigned d = 0; d < 2; d++) {
        wait_for(d, "degraded", "1");
        wait_for(d, "state", "degraded");
        status(d, "degraded_scope", text);
        (void)snprintf(name, sizeof(name), "127.0.0.1:%u", f.redis[1].port);
        assert_string_equal(text, name);
        must(client_status_number(&f.client[d], "seen", "degraded_at", &ms, &e), e);
        assert_true((uint64_t)ms + WAIT_MS > clock_wall_us() / 1000);
        wait_for(d, "lost_shards", "0");
        status(d, "problem", text);
        assert_non_null(strstr(text, "TB.TRUST"));
        assert_int_equal(present(d, 0), KEYS);
        /* Those on the other node are answered as ever. */
        assert_in_range(present(d, NEVER), KEYS / 10, KEYS * 9 / 10);
        must(client_wait_status(&f.client[d], "tiny", "degraded", "0", WAIT_MS, &e), e);
    }
    redisReply *r = client_command(&f.client[1], "TB.TRUST seen");
    assert_string_equal(r->str, "OK");
    freeReplyObject(r);
    for (unsigned d = 0; d < 2; d++) {
        wait_for(d, "degraded", "0");
        wait_for(d, "state", "serving");
        for (int i = 0; i < 100 && present(d, NEVER) > 10; i++)
            clock_sleep_us(50000);
        assert_in_range(present(d, NEVER), 0, 10);
        assert_int_equal(present(d, 0), KEYS);
        must(client_status_number(&f.client[d], "seen", "healthy_at", &ms, &e), e);
        assert_true(ms > since);
    }
    r = client_command(&f.client[0], "TB.HISTORY seen");
    assert_true(r->type == REDIS_REPLY_ARRAY && r->elements == 1);
    bool found = false;
    for (size_t i = 0; i < r->element[0]->elements; i++)
        found |= r->element[0]->element[i]->type == REDIS_REPLY_STRING &&
                 strcmp(r->element[0]->element[i]->str, "trusted") == 0;
    assert_true(found);
    freeReplyObject(r);
}

static void test_accept__needs_all_masters_and_a_filter(void **state)
{
    (void)state;
    redisReply *r = client_command(&f.client[0], "TB.TRUST nothing");
    assert_true(r->type == REDIS_REPLY_ERROR && strcmp(r->str, "ERR not found") == 0);
    freeReplyObject(r);
    temp_redis_kill(&f.redis[1]);
    r = client_command(&f.client[0], "TB.TRUST seen");
    assert_int_equal(r->type, REDIS_REPLY_ERROR);
    assert_non_null(strstr(r->str, "does not answer"));
    freeReplyObject(r);
    struct error e = {""};
    must(temp_redis_restart(&f.redis[1], true, &e), e);
}

static void refuses(const char *filter, const char *kind, const char *why)
{
    redisReply *r = client_command(&f.client[0], "TB.TRUST %s", filter);
    if (r == NULL || r->type != REDIS_REPLY_ERROR || strncmp(r->str, kind, strlen(kind)) != 0 ||
        strstr(r->str, why) == NULL)
        fail_msg("TB.TRUST %s: %s", filter, r == NULL || r->str == NULL ? "no reply" : r->str);
    freeReplyObject(r);
}

static void count_name(const char *name, void *count)
{
    (void)name;
    ++*(unsigned *)count;
}

static void test_accept__is_refused_while_somebody_works_on_the_filter(void **state)
{
    (void)state;
    struct error e = {""};
    char was[512], is[512];
    unsigned count = 0;
    redisReply *r = client_command(node(0), "HGET twinbloom:{seen}:view trusted_ms");
    (void)snprintf(was, sizeof(was), "%s", r->str);
    freeReplyObject(r);
    must(client_ok(node(0), &e, "SET twinbloom:{seen}:expansion_flag somebody:7 PX 60000"), e);
    refuses("seen", "BUSY ", "somebody");
    r = client_command(node(0), "HGET twinbloom:{seen}:view trusted_ms");
    (void)snprintf(is, sizeof(is), "%s", r->str);
    freeReplyObject(r);
    assert_string_equal(is, was);
    refuses("nothing", "ERR ", "not found"); /* nor is its mutex taken */
    must(client_scan(node(0), "twinbloom:{nothing}*", count_name, &count, &e), e);
    assert_int_equal(count, 0);
}

static void a_name(const char *name, void *out)
{
    (void)snprintf(out, 256, "%s", name);
}

/* What a view that went back does not know of would be lost for good. */
static void test_accept__is_refused_where_the_view_went_back(void **state)
{
    (void)state;
    struct error e = {""};
    char name[256] = "";
    must(client_scan(node(1), "twinbloom:{seen.1.0.*.e*", a_name, name, &e), e);
    char *epoch = strrchr(name, 'e');
    assert_non_null(epoch);
    (void)snprintf(epoch, 8, "e99");
    must(client_ok(node(1), &e, "SET %s x", name), e);
    refuses("seen", "LOST ", "the view is outdated");
}

static void test_accept__needs_no_master_that_has_nothing_of_the_filter(void **state)
{
    (void)state;
    struct error e = {""};
    temp_redis_kill(&f.redis[1]);
    refuses("seen", "CLUSTERDOWN ", "does not answer");
    must(client_ok(&f.client[0], &e, "TB.TRUST tiny"), e);
    must(temp_redis_restart(&f.redis[1], true, &e), e);
}

static void posts(const char *path, int status, const char *part)
{
    struct http_reply r = http_ask(f.daemon[0].http_port, "POST", path, "{}");
    if (r.status != status || strstr(r.body, part) == NULL)
        fail_msg("%s: %d: %s", path, r.status, r.body == NULL ? "" : r.body);
    http_reply_fini(&r);
}

static void test_accept__by_http_is_refused_in_the_same_way(void **state)
{
    (void)state;
    struct error e = {""};
    posts("/v1/filters/nothing/trust", 404, "the filter does not exist");
    must(client_save(node(1), &e), e);
    temp_redis_kill(&f.redis[1]);
    posts("/v1/filters/seen/trust", 503, "does not answer");
    must(temp_redis_restart(&f.redis[1], true, &e), e);
    wait_for(0, "degraded", "1");
    posts("/v1/filters/seen/trust", 200, "\"accepted\":\"trust\"");
    wait_for(0, "degraded", "0");
}

static int cli(const char *words)
{
    char command[PATH_MAX + 200];
    (void)snprintf(command, sizeof(command), TWINBLOOM_CLI " --port %u %s < /dev/null", f.daemon[0].port,
                   words);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_accept__by_the_command_line_wants_to_be_told_twice(void **state)
{
    (void)state;
    restart(1);
    wait_for(0, "degraded", "1");
    assert_int_equal(cli("trust seen"), 2);
    clock_sleep_us(500000);
    wait_for(0, "degraded", "1");
    assert_int_equal(cli("trust seen --yes"), 0);
    wait_for(0, "degraded", "0");
    assert_int_equal(cli("trust nothing --yes"), 4);
}

/* It draws a new id when its first replica comes, and is the same process all the while. */
static void test_replica__the_first_one_degrades_nothing(void **state)
{
    (void)state;
    struct temp_redis replica = {0};
    struct error e = {""};
    char before[512], after[512];
    (void)snprintf(before, sizeof(before), "%s", "");
    redisReply *r = client_command(node(0), "HGET twinbloom:{seen}:view trusted");
    (void)snprintf(before, sizeof(before), "%s", r->str);
    freeReplyObject(r);
    must(temp_redis_start(&replica, NULL, &e), e);
    struct client c;
    must(client_open(&c, replica.port, 5000, &e), e);
    must(client_ok(&c, &e, "REPLICAOF 127.0.0.1 %u", f.redis[0].port), e);
    client_close(&c);
    for (int i = 0; i < 100; i++) {
        r = client_command(node(0), "HGET twinbloom:{seen}:view trusted");
        (void)snprintf(after, sizeof(after), "%s", r->str);
        freeReplyObject(r);
        if (strcmp(before, after) != 0)
            break;
        char degraded[512];
        status(0, "degraded", degraded);
        assert_string_equal(degraded, "0");
        clock_sleep_us(50000);
    }
    assert_true(strncmp(before, after, strlen(before)) == 0 && strlen(after) > strlen(before));
    clock_sleep_us(1200000);
    for (unsigned d = 0; d < 2; d++) {
        wait_for(d, "degraded", "0");
        assert_in_range(present(d, NEVER), 0, 10);
        assert_int_equal(present(d, 0), KEYS);
    }
    temp_redis_fini(&replica);
}

static void test_view__of_an_older_version_is_adopted(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t n = 0;
    must(client_integer(node(0), &n, &e, "HDEL twinbloom:{seen}:view trusted trusted_ms"), e);
    assert_int_equal(n, 2);
    for (int i = 0; i < 100 && n != 0; i++) {
        int64_t there = 0;
        must(client_integer(node(0), &there, &e, "HEXISTS twinbloom:{seen}:view trusted"), e);
        n = there == 1 ? 0 : 1;
        clock_sleep_us(50000);
    }
    assert_int_equal(n, 0);
    wait_for(0, "degraded", "0");
    assert_in_range(present(0, NEVER), 0, 10);
    restart(0);
    wait_for(0, "degraded", "1");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_restart__is_degraded_until_it_is_accepted),
        TEST(test_accept__needs_all_masters_and_a_filter),
        TEST(test_accept__is_refused_while_somebody_works_on_the_filter),
        TEST(test_accept__is_refused_where_the_view_went_back),
        TEST(test_accept__needs_no_master_that_has_nothing_of_the_filter),
        TEST(test_accept__by_http_is_refused_in_the_same_way),
        TEST(test_accept__by_the_command_line_wants_to_be_told_twice),
        TEST(test_replica__the_first_one_degrades_nothing),
        TEST(test_view__of_an_older_version_is_adopted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
