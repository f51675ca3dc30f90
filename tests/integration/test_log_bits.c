/* SPDX-License-Identifier: MIT */
/* Commands that read the bits of filters that are logs: TB.COUNT, and the map of shards. */
#include "tests/integration/keyspace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/http.h"

/* The keys are not folded yet. */
static void test_tb_count__has_what_was_added_just_now(void **state)
{
    (void)state;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE fresh 0.001 10000");
    for (unsigned i = 1; i <= 5; i++) {
        keyspace_add(0, "fresh", (uint64_t)(i - 1) * 1000, 1000);
        int64_t n = keyspace_integer(&keyspace.fixture.client[1], "TB.COUNT fresh");
        if (n < i * 980 || n > i * 1020)
            fail_msg("%" PRId64 " of %u", n, i * 1000);
    }
}

static void test_tb_count__estimates_over_all_layers(void **state)
{
    (void)state;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE layered 0.001 1000");
    keyspace_add(0, "layered", 0, 10000);
    int64_t n = keyspace_integer(&keyspace.fixture.client[1], "TB.COUNT layered");
    if (n < 9700 || n > 10300)
        fail_msg("%" PRId64 " of 10000", n);
}

static unsigned long long number_behind(const char *body, const char *name)
{
    const char *at = strstr(body, name);
    assert_non_null(at);
    return strtoull(at + strlen(name), NULL, 10);
}

static void test_shards__tells_how_full_each_is(void **state)
{
    (void)state;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE mapped 0.001 2000 NONSCALING");
    keyspace_add(0, "mapped", 0, 1000);
    struct http_reply r =
        http_ask(keyspace.fixture.daemon[1].http_port, "GET", "/v1/filters/mapped/shards", NULL);
    assert_int_equal(r.status, 200);
    assert_in_range(number_behind(r.body, "\"keys\":"), 950, 1050);
    assert_int_equal(number_behind(r.body, "\"shards_per_cell\":"), 1);
    assert_non_null(strstr(r.body, "\"lost\":[]"));
    assert_null(strstr(r.body, "\"resident\":")); /* this coordinator has had no request for the filter */
    const char *at = strstr(r.body, "\"fill_permille\":[");
    assert_non_null(at);
    unsigned shards = (unsigned)number_behind(r.body, "\"shards\":"), seen = 0;
    unsigned long sum = 0;
    char *end = (char *)(at + strlen("\"fill_permille\":["));
    for (; *end != ']'; end += *end == ',') {
        unsigned long fill = strtoul(end, &end, 10);
        assert_in_range(fill, 1, 1000);
        sum += fill;
        seen++;
    }
    assert_int_equal(seen, shards);
    assert_true(shards > 1);
    assert_in_range(sum / shards, 475, 525);
    http_reply_fini(&r);
}

static void test_shards__tells_what_the_coordinator_has_in_memory(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t shards;
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE near 0.001 10000 NONSCALING");
    keyspace_add(0, "near", 0, 5000); /* as many as are folded at once */
    struct client *c = &keyspace.fixture.client[0];
    must(client_status_number(c, "near", "shards", &shards, &e), e);
    must(client_wait_status_least(c, "near", "resident_shards", shards, 30000, &e), e);
    must(client_wait_status(c, "near", "fold_lag_entries", "0", 30000, &e), e);
    struct http_reply r =
        http_ask(keyspace.fixture.daemon[0].http_port, "GET", "/v1/filters/near/shards", NULL);
    assert_int_equal(r.status, 200);
    const char *at = strstr(r.body, "\"resident\":[");
    assert_non_null(at);
    assert_int_equal(strncmp(at, "\"resident\":[[0,1],[1,1]", 23), 0);
    unsigned resident = 0;
    for (at = strchr(at, '['); *at != '\0' && strncmp(at, "]]", 2) != 0; at++)
        resident += strncmp(at, ",1]", 3) == 0;
    assert_int_equal(resident, shards);
    assert_non_null(strstr(r.body, "\"loading\":[],\"dirty\":[]"));
    http_reply_fini(&r);
}

/* A coordinator still has the lost shard in memory, and has not noticed the loss. */
static void test_shards__names_one_that_is_lost(void **state)
{
    (void)state;
    char pattern[] = "KEYS twinbloom:{gap.1.0.1}:*", command[512];
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE gap 0.001 2000");
    keyspace_add(0, "gap", 0, 10);
    for (unsigned i = 0; i < 2; i++) {
        redisReply *found = client_command(&keyspace.redis[i], pattern);
        assert_non_null(found);
        if (found->elements == 1) {
            (void)snprintf(command, sizeof(command), "DEL %s", found->element[0]->str);
            freeReplyObject(client_command(&keyspace.redis[i], command));
        }
        freeReplyObject(found);
    }
    struct http_reply r =
        http_ask(keyspace.fixture.daemon[1].http_port, "GET", "/v1/filters/gap/shards", NULL);
    assert_int_equal(r.status, 200);
    if (strstr(r.body, "\"lost\":[[1,1]]") == NULL)
        fail_msg("%s", r.body);
    http_reply_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tb_count__has_what_was_added_just_now),
        cmocka_unit_test(test_tb_count__estimates_over_all_layers),
        cmocka_unit_test(test_shards__tells_how_full_each_is),
        cmocka_unit_test(test_shards__tells_what_the_coordinator_has_in_memory),
        cmocka_unit_test(test_shards__names_one_that_is_lost),
    };
    return cmocka_run_group_tests(tests, keyspace_setup, keyspace_teardown);
}
