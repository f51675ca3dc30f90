/* SPDX-License-Identifier: MIT */
/* TB.TRUST of filters that are logs: an operator accepts the loss of a shard that no process has. */
#include "tests/integration/fixture.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

#include "shard/filter/names.h"
#include "tests/lib/http.h"

enum { KEYS = 2000, NEVER = 1000000, WAIT_MS = 30000, REPLY_MS = 20000 };

static struct fixture f;

static int setup(void **state)
{
    (void)state;
    const struct fixture_options o = {.nodes = 2,
                                      .daemons = 2,
                                      .postgres = true,
                                      .rows = 100,
                                      .capacity = 1000,
                                      .rate = "0.01",
                                      .service = "check_interval = 200ms\ntimeout = 15s\n",
                                      .redis_lines = "shard_bytes = 4KiB\n"};
    struct error e = {""};
    if (fixture_start(&f, &o) != 0)
        return -1;
    must(client_ok(&f.client[0], &e, "BF.RESERVE seen 0.0001 10000"), e);
    must(client_madd(&f.client[0], "seen", fixture_code, 0, KEYS, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&f);
}

static void take_name(const char *name, void *arg)
{
    (void)snprintf(arg, KEY_NAME_MAX, "%s", name);
}

static void delete_shard(void)
{
    struct error e = {""};
    int64_t deleted = 0;
    for (unsigned i = 0; i < 2 && deleted == 0; i++) {
        struct client c = {0};
        char name[KEY_NAME_MAX] = "";
        must(client_open(&c, f.redis[i].port, REPLY_MS, &e), e);
        must(client_scan(&c, "twinbloom:{seen.1.0.1}:*", take_name, name, &e), e);
        if (name[0] != '\0')
            must(client_integer(&c, &deleted, &e, "DEL %s", name), e);
        client_close(&c);
    }
    assert_int_equal(deleted, 1);
}

/* Something happens while no coordinator has a filter in memory. */
static void while_stopped(void (*fn)(void))
{
    struct error e = {""};
    for (unsigned d = 0; d < 2; d++)
        assert_true(daemon_stop(&f.daemon[d], 20000));
    fn();
    for (unsigned d = 0; d < 2; d++) {
        must(daemon_launch(&f.daemon[d], &e), e);
        client_close(&f.client[d]);
        must(client_open(&f.client[d], f.daemon[d].port, REPLY_MS, &e), e);
    }
}

static void lose_shard(void)
{
    while_stopped(delete_shard);
}

static uint64_t present_in(const char *filter, unsigned d, uint64_t first)
{
    struct error e = {""};
    uint64_t n = 0;
    must(client_mexists(&f.client[d], filter, fixture_code, first, KEYS, &n, NULL, &e), e);
    return n;
}

static uint64_t present(unsigned d, uint64_t first)
{
    return present_in("seen", d, first);
}

static void says(const char *filter, const char *kind, const char *part)
{
    redisReply *r = client_command(&f.client[0], "TB.TRUST %s", filter);
    if (r->type != REDIS_REPLY_ERROR || strncmp(r->str, kind, strlen(kind)) != 0 ||
        strstr(r->str, part) == NULL)
        fail_msg("TB.TRUST %s: %s", filter, r->str);
    freeReplyObject(r);
}

static uint64_t trusted_in_history(void)
{
    uint64_t found = 0;
    redisReply *r = client_command(&f.client[1], "TB.HISTORY seen");
    assert_int_equal(r->type, REDIS_REPLY_ARRAY);
    for (size_t i = 0; i < r->elements; i++)
        for (size_t k = 0; k < r->element[i]->elements; k++)
            found += r->element[i]->element[k]->type == REDIS_REPLY_STRING &&
                     strcmp(r->element[i]->element[k]->str, "trusted") == 0;
    freeReplyObject(r);
    return found;
}

static void test_trust__accepts_what_is_lost(void **state)
{
    (void)state;
    struct error e = {""};
    lose_shard();
    for (unsigned d = 0; d < 2; d++) {
        assert_int_equal(present(d, 0), KEYS); /* none of them is reported absent */
        must(client_wait_status(&f.client[d], "seen", "degraded", "1", WAIT_MS, &e), e);
        assert_int_equal(present(d, 0), KEYS);
        assert_int_equal(present(d, NEVER), KEYS); /* nor is any other key */
    }
    assert_int_equal(trusted_in_history(), 0);
    must(client_ok(&f.client[1], &e, "TB.TRUST seen"), e);
    for (unsigned d = 0; d < 2; d++) {
        must(client_wait_status(&f.client[d], "seen", "degraded", "0", WAIT_MS, &e), e);
        must(client_wait_status(&f.client[d], "seen", "lost_shards", "0", WAIT_MS, &e), e);
        /* Keys of the other shards are present; keys of the lost one are lost, as accepted. */
        assert_in_range(present(d, 0), KEYS / 2, KEYS - 1);
        assert_in_range(present(d, NEVER), 0, 10);
    }
    assert_int_equal(trusted_in_history(), 1);
    must(client_madd(&f.client[0], "seen", fixture_code, 0, KEYS, &e), e);
    assert_int_equal(present(1, 0), KEYS);
    must(client_ok(&f.client[0], &e, "TB.TRUST seen"), e); /* nothing is lost, so nothing changes */
    assert_int_equal(present(1, 0), KEYS);
    assert_int_equal(trusted_in_history(), 1);
}

static void test_trust__is_refused_while_somebody_works_on_the_filter_and_where_there_is_none(void **state)
{
    (void)state;
    struct error e = {""};
    struct client c = {0};
    int64_t n = 0;
    says("nothing", "ERR ", "not found");
    must(client_open(&c, f.redis[0].port, REPLY_MS, &e), e);
    must(client_ok(&c, &e, "SET twinbloom:{seen}:expansion_flag somebody:7 PX 60000"), e);
    says("seen", "BUSY ", "somebody");
    must(client_integer(&c, &n, &e, "DEL twinbloom:{seen}:expansion_flag"), e);
    client_close(&c);
}

static void posts(const char *path, int status, const char *part)
{
    struct http_reply r = http_ask(f.daemon[0].http_port, "POST", path, "{}");
    if (r.status != status || strstr(r.body, part) == NULL)
        fail_msg("%s: %d: %s", path, r.status, r.body == NULL ? "" : r.body);
    http_reply_fini(&r);
}

static void lose_and_notice(void)
{
    struct error e = {""};
    lose_shard();
    assert_int_equal(present(0, 0), KEYS);
    must(client_wait_status(&f.client[0], "seen", "degraded", "1", WAIT_MS, &e), e);
}

static void is_accepted(void)
{
    struct error e = {""};
    must(client_wait_status(&f.client[0], "seen", "degraded", "0", WAIT_MS, &e), e);
    must(client_madd(&f.client[0], "seen", fixture_code, 0, KEYS, &e), e);
    assert_int_equal(present(1, 0), KEYS);
}

static void test_trust__by_http_is_the_same(void **state)
{
    (void)state;
    lose_and_notice();
    posts("/v1/filters/nothing/trust", 404, "the filter does not exist");
    posts("/v1/filters/seen/trust", 200, "\"accepted\":\"trust\"");
    is_accepted();
}

/* A loss can only be accepted when all nodes answer. */
static void test_trust__needs_all_nodes(void **state)
{
    (void)state;
    struct error e = {""};
    struct client c = {0};
    lose_and_notice();
    must(client_open(&c, f.redis[1].port, REPLY_MS, &e), e);
    must(client_save(&c, &e), e);
    client_close(&c);
    temp_redis_kill(&f.redis[1]);
    posts("/v1/filters/seen/trust", 503, "refused");
    says("seen", "CLUSTERDOWN ", "refused");
    must(temp_redis_restart(&f.redis[1], true, &e), e);
    must(client_when_free(&f.client[0], WAIT_MS, &e, "TB.TRUST seen"), e);
    is_accepted();
}

static void test_trust__by_the_command_line_wants_to_be_told_twice(void **state)
{
    (void)state;
    struct error e = {""};
    char degraded[16];
    lose_and_notice();
    assert_int_equal(fixture_cli(f.daemon[0].port, "trust seen")->code, 2);
    must(client_status(&f.client[0], "seen", "degraded", degraded, sizeof(degraded), &e), e);
    assert_string_equal(degraded, "1");
    assert_int_equal(fixture_cli(f.daemon[0].port, "trust seen --yes")->code, 0);
    is_accepted();
    assert_int_equal(fixture_cli(f.daemon[0].port, "trust nothing --yes")->code, 4);
}

static void home_goes_back(void)
{
    struct error e = {""};
    temp_redis_kill(&f.redis[0]);
    fixture_copy_dump(&f, "earlier.rdb", "data/dump.rdb");
    must(temp_redis_restart(&f.redis[0], true, &e), e);
}

/* The view says that nothing was folded, and the lane beside it has no entry. What was folded is in the
 * shards of the other node. */
static void test_trust__behind_a_home_that_went_back_reads_shards_of_others(void **state)
{
    (void)state;
    struct error e = {""};
    struct client home = {0};
    must(client_ok(&f.client[0], &e, "BF.RESERVE back 0.0001 10000"), e);
    must(client_open(&home, f.redis[0].port, REPLY_MS, &e), e);
    must(client_save(&home, &e), e);
    client_close(&home);
    fixture_copy_dump(&f, "data/dump.rdb", "earlier.rdb");
    must(client_madd(&f.client[0], "back", fixture_code, 0, KEYS, &e), e);
    while_stopped(home_goes_back);
    for (unsigned d = 0; d < 2; d++) {
        assert_int_equal(present_in("back", d, 0), KEYS);
        must(client_wait_status(&f.client[d], "back", "degraded", "1", WAIT_MS, &e), e);
    }
    must(client_ok(&f.client[1], &e, "TB.TRUST back"), e);
    for (unsigned d = 0; d < 2; d++) {
        uint64_t until = clock_mono_us() + WAIT_MS * 1000ull;
        must(client_wait_status(&f.client[d], "back", "degraded", "0", WAIT_MS, &e), e);
        while (present_in("back", d, NEVER) > 10) /* "maybe", until it has loaded */
            assert_true(clock_mono_us() < until);
        assert_in_range(present_in("back", d, 0), KEYS / 4, KEYS - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trust__accepts_what_is_lost),
        cmocka_unit_test(test_trust__is_refused_while_somebody_works_on_the_filter_and_where_there_is_none),
        cmocka_unit_test(test_trust__by_http_is_the_same),
        cmocka_unit_test(test_trust__needs_all_nodes),
        cmocka_unit_test(test_trust__by_the_command_line_wants_to_be_told_twice),
        cmocka_unit_test(test_trust__behind_a_home_that_went_back_reads_shards_of_others),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
