/* SPDX-License-Identifier: MIT */
/* What TB.STATUS, HTTP, metrics and the command line tell operators about a filter that is a log. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/integration/scrape.h"
#include "tests/lib/http.h"

enum { WAIT_MS = 30000, KEYS = 5000 /* as many as are folded at once */ };

static struct fixture fixture;
static struct client redis;
static struct error e;

static int start(const char *redis_lines)
{
    (void)fixture_start(
        &fixture, &(struct fixture_options){
                      .nodes = 1, .daemons = 2, .service = "timeout = 20s\n", .redis_lines = redis_lines});
    must(client_open(&redis, fixture.redis[0].port, WAIT_MS, &e), e);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return start(NULL);
}

static int setup_without_memory(void **state)
{
    (void)state;
    return start("resident_memory = 0\n");
}

static int teardown(void **state)
{
    (void)state;
    client_close(&redis);
    return fixture_stop(&fixture);
}

static size_t key(uint64_t number, char out[CLIENT_KEY_MAX])
{
    return (size_t)snprintf(out, CLIENT_KEY_MAX, "k%llu", (unsigned long long)number);
}

static void make(void)
{
    fixture_ask(&fixture, 0, "BF.RESERVE f 0.001 100000");
    must(client_madd(&fixture.client[0], "f", key, 0, KEYS, &e), e);
    must(client_wait_status(&fixture.client[0], "f", "fold_lag_entries", "0", WAIT_MS, &e), e);
}

/* Wait until the first coordinator's log contains @text. */
static void wait_logged(const char *text)
{
    bool found = false;
    for (uint64_t until = clock_mono_us() + WAIT_MS * 1000ull; !found; clock_sleep_us(20000)) {
        char *log = process_log(&fixture.daemon[0].process);
        found = log != NULL && strstr(log, text) != NULL;
        free(log);
        if (!found && clock_mono_us() > until)
            fail_msg("not in the log: %s", text);
    }
}

static int64_t number(unsigned d, const char *field)
{
    int64_t n = -1;
    must(client_status_number(&fixture.client[d], "f", field, &n, &e), e);
    return n;
}

static const char *words(unsigned d, const char *field)
{
    static char text[1024];
    must(client_status(&fixture.client[d], "f", field, text, sizeof(text), &e), e);
    return text;
}

/* The first coordinator has the filter in memory and folds; the other one has had no request. */
static void test_status__says_what_is_in_memory_and_how_folding_goes(void **state)
{
    (void)state;
    make();
    must(client_wait_status_least(&fixture.client[0], "f", "resident_shards", number(0, "shards"), WAIT_MS,
                                  &e),
         e);
    assert_string_equal(words(0, "log_state"), "open");
    assert_string_equal(words(0, "log_error"), "");
    assert_string_equal(words(0, "lane_state"), "complete");
    assert_string_equal(words(0, "fold_error"), "");
    assert_int_equal(number(0, "serving_generation"), number(0, "generation"));
    assert_int_equal(number(0, "resident_bytes"), number(0, "shards") * number(0, "shard_bytes"));
    assert_int_equal(number(0, "loading_shards"), 0);
    assert_int_equal(number(0, "dirty_shards"), 0);
    assert_int_equal(number(0, "lanes"), 1);
    assert_int_equal(number(0, "writers"), 1);
    assert_int_equal(number(0, "degraded"), 0);
    assert_int_equal(number(0, "lost_shards"), 0);
    assert_true(number(0, "lane_bytes") > 0);
    assert_true(number(0, "folds") > 0);
    int64_t now = (int64_t)(clock_wall_us() / 1000);
    assert_in_range(number(0, "folded_at"), now - WAIT_MS, now);
    assert_string_equal(words(1, "log_state"), "unused");
    assert_int_equal(client_status(&fixture.client[1], "f", "resident_shards", (char[8]){""}, 8, &e),
                     ERR_NOT_FOUND);
}

/* Metrics have the same figures as the status. */
static void test_metrics__have_what_the_status_has(void **state)
{
    (void)state;
    static const struct {
        const char *field, *metric;
    } pairs[] = {{"resident_shards", "twinbloom_filter_resident_shards{filter=\"f\"}"},
                 {"loading_shards", "twinbloom_filter_loading_shards{filter=\"f\"}"},
                 {"dirty_shards", "twinbloom_filter_dirty_shards{filter=\"f\"}"},
                 {"resident_bytes", "twinbloom_filter_resident_bytes{filter=\"f\"}"},
                 {"loading_bytes", "twinbloom_filter_loading_bytes{filter=\"f\"}"},
                 {"dirty_bytes", "twinbloom_filter_dirty_bytes{filter=\"f\"}"},
                 {"lanes", "twinbloom_filter_lanes{filter=\"f\"}"},
                 {"writers", "twinbloom_filter_writers{filter=\"f\"}"},
                 {"fold_lag_entries", "twinbloom_filter_fold_lag_entries{filter=\"f\"}"},
                 {"fold_lag_bytes", "twinbloom_filter_fold_lag_bytes{filter=\"f\"}"}};
    char *s = scrape(&fixture.daemon[0], NULL);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        assert_int_equal((int64_t)scrape_value(s, pairs[i].metric), number(0, pairs[i].field));
    assert_true(scrape_value(s, "twinbloom_filter_lane_bytes{filter=\"f\"}") > 0);
    assert_true(scrape_value(s, "twinbloom_filter_resident_overhead_bytes{filter=\"f\"}") > 0);
    assert_true(scrape_value(s, "twinbloom_filter_folded_timestamp_seconds{filter=\"f\"}") > 0);
    assert_true(scrape_value(s, "twinbloom_filter_log_state{filter=\"f\",state=\"open\"}") > 0);
    assert_false(scrape_value(s, "twinbloom_filter_log_state{filter=\"f\",state=\"closed\"}") > 0);
    free(s);
}

static void test_cli_and_http__say_it_too(void **state)
{
    (void)state;
    const struct cli_result *r = fixture_cli(fixture.daemon[0].port, "status f");
    assert_int_equal(r->code, 0);
    if (strstr(r->text, "Log\n") == NULL || strstr(r->text, "resident shards") == NULL)
        fail_msg("%s", r->text);
    struct http_reply h = http_ask(fixture.daemon[0].http_port, "GET", "/v1/filters/f", NULL);
    assert_int_equal(h.status, 200);
    assert_non_null(strstr(h.body, "\"log_state\":\"open\""));
    assert_non_null(strstr(h.body, "\"dirty_bytes\":0"));
    http_reply_fini(&h);
}

/* No process has the shards in memory, so keys may be missing. */
static void test_a_lost_shard__is_named_with_what_heals_the_filter(void **state)
{
    (void)state;
    make();
    redisReply *found = client_command(&redis, "KEYS twinbloom:{f.1.0.1}:*");
    assert_non_null(found);
    assert_int_equal(found->elements, 1);
    freeReplyObject(client_command(&redis, "DEL %s", found->element[0]->str));
    freeReplyObject(found);
    uint64_t present, until = clock_mono_us() + WAIT_MS * 1000ull;
    while (client_mexists(&fixture.client[0], "f", key, 0, KEYS, &present, NULL, &e) != ERR_OK)
        assert_true(clock_mono_us() < until);
    assert_int_equal(present, KEYS);
    must(client_wait_status(&fixture.client[0], "f", "state", "degraded", WAIT_MS, &e), e);
    assert_int_equal(number(0, "lost_shards"), 1);
    wait_logged("event=lost_shards filter=\"f\" shards=1 before=0");
    wait_logged("event=filter_problem filter=\"f\" problem=\"acknowledged keys may be missing");
    const char *scope = words(0, "degraded_scope");
    if (strncmp(scope, "1 shard is missing in Redis (layer.shard 0.1); acknowledged keys may be missing",
                79) != 0)
        fail_msg("%s", scope);
    int64_t now = (int64_t)(clock_wall_us() / 1000);
    assert_in_range(number(0, "degraded_at"), now - WAIT_MS, now);
    must(client_wait_status(&fixture.client[1], "f", "state", "degraded", WAIT_MS, &e), e);
    assert_int_equal(number(1, "degraded"), 1);
}

/* Keys of the lost shard count as never added; keys of other shards stay. */
static void test_a_loss_that_is_accepted__is_over(void **state)
{
    (void)state;
    uint64_t present;
    must(client_mexists(&fixture.client[0], "f", fixture_absent_code, 0, KEYS, &present, NULL, &e), e);
    assert_in_range(present, 1, KEYS); /* "maybe" */
    redisReply *r = client_command(&fixture.client[1], "TB.TRUST nothing");
    assert_string_equal(r->str, "ERR not found");
    freeReplyObject(r);
    const struct cli_result *cli = fixture_cli(fixture.daemon[0].port, "trust f --yes");
    if (cli->code != 0)
        fail_msg("%d: %s", cli->code, cli->text);
    for (unsigned d = 0; d < 2; d++) {
        must(client_wait_status(&fixture.client[d], "f", "state", "serving", WAIT_MS, &e), e);
        /* who missed it before may have said so once more */
        must(client_wait_status(&fixture.client[d], "f", "lost_shards", "0", WAIT_MS, &e), e);
        assert_int_equal(number(d, "degraded"), 0);
        assert_string_equal(words(d, "degraded_scope"), "");
    }
    wait_logged("event=lost_shards filter=\"f\" shards=0 before=1");
    wait_logged("event=healthy filter=\"f\"");
    must(client_mexists(&fixture.client[0], "f", key, 0, KEYS, &present, NULL, &e), e);
    assert_in_range(present, KEYS / 4, KEYS - 1);
    must(client_mexists(&fixture.client[0], "f", fixture_absent_code, 0, KEYS, &present, NULL, &e), e);
    assert_in_range(present, 0, KEYS / 50);
    r = client_command(&fixture.client[0], "TB.HISTORY f");
    assert_int_equal(r->elements, 1);
    bool found = false;
    for (size_t i = 0; i < r->element[0]->elements; i++)
        found |= r->element[0]->element[i]->type == REDIS_REPLY_STRING &&
                 strcmp(r->element[0]->element[i]->str, "trusted") == 0;
    freeReplyObject(r);
    assert_true(found);
    r = client_command(&fixture.client[0], "TB.TRUST f"); /* this changes nothing for a healthy filter */
    assert_string_equal(r->str, "OK");
    freeReplyObject(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status__says_what_is_in_memory_and_how_folding_goes),
        cmocka_unit_test(test_metrics__have_what_the_status_has),
        cmocka_unit_test(test_cli_and_http__say_it_too),
    };
    const struct CMUnitTest without_memory[] = {
        cmocka_unit_test(test_a_lost_shard__is_named_with_what_heals_the_filter),
        cmocka_unit_test(test_a_loss_that_is_accepted__is_over),
    };
    int failed = cmocka_run_group_tests(tests, setup, teardown);
    return failed + cmocka_run_group_tests(without_memory, setup_without_memory, teardown);
}
