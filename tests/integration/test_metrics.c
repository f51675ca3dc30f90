/* SPDX-License-Identifier: MIT */
/* /metrics: the figures match the requests that were sent, tools accept both formats, and it is answered even
 * if Redis or Postgres is away. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/integration/scrape.h"
#include "tests/lib/http.h"
#include "tests/lib/proxy.h"
#include "tests/lib/raw.h"

enum { ROWS = 2000 };

static struct fixture fixture;
static struct proxy *proxy;
static unsigned route[2];
static uint16_t port[2]; /* of the nodes, as the coordinator knows them */

static void put_nodes_behind_a_proxy(struct fixture *f)
{
    struct error e = {""};
    must(proxy_start(&proxy, &e), e);
    for (unsigned i = 0; i < 2; i++)
        must(proxy_add(proxy, WIRE_REDIS, f->redis[i].port, &route[i], &port[i], &e), e);
    (void)snprintf(f->node_list, sizeof(f->node_list), "redis://127.0.0.1:%u, redis://127.0.0.1:%u", port[0],
                   port[1]);
}

static const struct fixture_options options = {.nodes = 2,
                                               .daemons = 1,
                                               .postgres = true,
                                               .rows = ROWS,
                                               .capacity = 10000,
                                               .rate = "0.001",
                                               .service = "timeout = 20s\n",
                                               .filter = "schedule = 30 3 * * *\n",
                                               .expansion = "lease = 2s\nrows_per_second = 500\n",
                                               .prepare = put_nodes_behind_a_proxy};

static const struct daemon *coordinator(void)
{
    return &fixture.daemon[0];
}

static void run(const char *command)
{
    redisReply *r = client_command(&fixture.client[0], command);
    assert_non_null(r);
    freeReplyObject(r);
}

/* The increase of @series from @before to @after. */
static double grown(const char *before, const char *after, const char *series)
{
    double from = scrape_value(before, series), to = scrape_value(after, series);
    return (isnan(to) ? 0 : to) - (isnan(from) ? 0 : from);
}

static void grew(const char *before, const char *after, const char *series, double by)
{
    double is = grown(before, after, series);
    if (is != by)
        fail_msg("%s grew by %g, not by %g", series, is, by);
}

#define REQUESTS(command, outcome) "twinbloom_requests_total{command=\"" command "\",outcome=\"" outcome "\"}"

static void test_metrics__requests_are_those_that_were_sent(void **state)
{
    (void)state;
    struct error e = {""};
    char *before = scrape(coordinator(), NULL);
    uint64_t present;
    for (int i = 0; i < 7; i++)
        run("BF.ADD counted k");
    for (int i = 0; i < 5; i++)
        run(i < 2 ? "BF.EXISTS counted k" : "BF.EXISTS counted absent");
    for (int i = 0; i < 3; i++)
        run("NOSUCH thing");
    for (int i = 0; i < 2; i++)
        run("BF.ADD counted");
    run("BF.ADD counted a b c");
    run("BF.EXISTS nowhere k");
    run("BF.RESERVE full 0.01 1 NONSCALING");
    run("TB.STATUS " FILTER);
    run("MULTI");
    run("TB.MADD counted m1 m2 m3");
    run("PING");
    run("EXEC");
    run("MULTI");
    run("PING");
    run("DISCARD");
    must(client_mexists(&fixture.client[0], FILTER, fixture_code, 0, ROWS, &present, NULL, &e), e);
    char *after = scrape(coordinator(), NULL);
    grew(before, after, REQUESTS("BF.ADD", "ok"), 7);
    grew(before, after, REQUESTS("BF.ADD", "error"), 3);
    grew(before, after, REQUESTS("BF.EXISTS", "ok"), 6);
    grew(before, after, REQUESTS("unknown", "error"), 3);
    grew(before, after, REQUESTS("TB.STATUS", "ok"), 1);
    grew(before, after, REQUESTS("BF.RESERVE", "ok"), 1);
    grew(before, after, REQUESTS("TB.MADD", "ok"), 1);
    grew(before, after, REQUESTS("PING", "ok"), 1);
    grew(before, after, REQUESTS("MULTI", "ok"), 2);
    grew(before, after, REQUESTS("EXEC", "ok"), 1);
    grew(before, after, REQUESTS("DISCARD", "ok"), 1);
    grew(before, after, "twinbloom_request_duration_seconds_count{command=\"BF.ADD\"}", 10);
    grew(before, after, "twinbloom_request_duration_seconds_bucket{command=\"BF.ADD\",le=\"+Inf\"}", 10);
    grew(before, after, "twinbloom_filter_adds_total{filter=\"counted\"}", 10);
    grew(before, after, "twinbloom_filter_adds_new_total{filter=\"counted\"}", 4);
    grew(before, after, "twinbloom_filter_checks_total{filter=\"counted\"}", 5);
    grew(before, after, "twinbloom_filter_positives_total{filter=\"counted\"}", 2);
    grew(before, after, "twinbloom_filter_checks_total{filter=\"" FILTER "\"}", ROWS);
    grew(before, after, "twinbloom_filter_positives_total{filter=\"" FILTER "\"}", ROWS);
    assert_int_equal(present, ROWS);
    assert_null(strstr(after, "nowhere"));
    assert_null(strstr(after, "NOSUCH"));
    free(before);
    free(after);
}

/* A command with so many keys runs as a batch, whose reply is written in parts. */
/* Two milliseconds are less than a tick of the kernel's coarse clocks. The proxy passes a reply that comes
 * while it delays another one of that connection together with it, so a few take less. */
static void test_metrics__a_request_takes_as_long_as_redis_does(void **state)
{
    (void)state;
    enum { TIMES = 200, FEW = 10, DELAY_MS = 2 };
    static const char series[] =
        "twinbloom_request_duration_seconds_bucket{command=\"BF.EXISTS\",le=\"0.0016\"}";
    char *before = scrape(coordinator(), NULL);
    for (unsigned i = 0; i < 2; i++)
        proxy_set(proxy, route[i], &(struct proxy_fault){.reply_delay_ms = DELAY_MS});
    for (unsigned i = 0; i < TIMES; i++)
        run("BF.EXISTS " FILTER " no-such-code");
    proxy_lift(proxy);
    char *after = scrape(coordinator(), NULL);
    assert_in_range((unsigned)grown(before, after, series), 0, FEW);
    free(before);
    free(after);
}

static void test_metrics__large_commands_count_once_and_all_their_keys(void **state)
{
    (void)state;
    enum { KEYS = 9000 };
    static char text[KEYS][16];
    static const char *argv[KEYS + 2];
    static size_t lengths[KEYS + 2];
    argv[0] = "BF.MADD";
    argv[1] = "batched";
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(text[i], sizeof(text[i]), "k%d", i);
        argv[i + 2] = text[i];
    }
    for (int i = 0; i < KEYS + 2; i++)
        lengths[i] = strlen(argv[i]);
    run("BF.RESERVE batched 0.001 20000");
    char *before = scrape(coordinator(), NULL);
    freeReplyObject(client_argv(&fixture.client[0], KEYS + 2, argv, lengths));
    argv[0] = "TB.MEXISTS";
    lengths[0] = strlen(argv[0]);
    freeReplyObject(client_argv(&fixture.client[0], KEYS + 2, argv, lengths));
    char *after = scrape(coordinator(), NULL);
    grew(before, after, REQUESTS("BF.MADD", "ok"), 1);
    grew(before, after, REQUESTS("TB.MEXISTS", "ok"), 1);
    grew(before, after, "twinbloom_filter_adds_total{filter=\"batched\"}", KEYS);
    grew(before, after, "twinbloom_filter_checks_total{filter=\"batched\"}", KEYS);
    grew(before, after, "twinbloom_filter_positives_total{filter=\"batched\"}", KEYS);
    free(before);
    free(after);
}

#define ROUTE(method, route, code)                                                                           \
    "twinbloom_http_requests_total{method=\"" method "\",route=\"" route "\",code=\"" code "\"}"

static void test_metrics__http_requests_are_counted_by_route_and_status(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path, *body;
    } asked[] = {{"GET", "/livez", NULL},
                 {"GET", "/v1/filters/" FILTER, NULL},
                 {"GET", "/v1/filters/none", NULL},
                 {"GET", "/somewhere/else", NULL},
                 {"GET", "/somewhere/that/is/not", NULL},
                 {"POST", "/v1/filters/" FILTER "/check", "{\"keys\":[\"a\",\"b\"]}"},
                 {"POST", "/v1/filters/" FILTER "/check", "{"}};
    char *before = scrape(coordinator(), NULL);
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        struct http_reply r =
            http_ask(coordinator()->http_port, asked[i].method, asked[i].path, asked[i].body);
        http_reply_fini(&r);
    }
    char *after = scrape(coordinator(), NULL);
    grew(before, after, ROUTE("GET", "/livez", "200"), 1);
    grew(before, after, ROUTE("GET", "/v1/filters/{filter}", "200"), 1);
    grew(before, after, ROUTE("GET", "/v1/filters/{filter}", "404"), 1);
    grew(before, after, ROUTE("other", "other", "404"), 2);
    grew(before, after, ROUTE("POST", "/v1/filters/{filter}/check", "200"), 1);
    grew(before, after, ROUTE("POST", "/v1/filters/{filter}/check", "400"), 1);
    grew(before, after, ROUTE("GET", "/metrics", "200"), 1);
    grew(before, after, "twinbloom_filter_checks_total{filter=\"" FILTER "\"}", 2);
    grew(before, after, "twinbloom_connections_total", 0); /* it counts Redis clients only */
    assert_true(grown(before, after, "twinbloom_http_connections_accepted_total") >= 1);
    assert_null(strstr(after, "somewhere"));
    free(before);
    free(after);
}

static void test_metrics__filters_are_as_status_says(void **state)
{
    (void)state;
    static const struct {
        const char *field, *series;
    } pairs[] = {
        {"keys", "twinbloom_filter_keys{filter=\"" FILTER "\"}"},
        {"capacity", "twinbloom_filter_capacity_keys{filter=\"" FILTER "\"}"},
        {"epoch", "twinbloom_filter_epoch{filter=\"" FILTER "\"}"},
        {"generation", "twinbloom_filter_generation{filter=\"" FILTER "\"}"},
        {"shards", "twinbloom_filter_shards{filter=\"" FILTER "\"}"},
        {"memory_bytes", "twinbloom_filter_memory_bytes{filter=\"" FILTER "\"}"},
        {"job_rows", "twinbloom_job_rows{filter=\"" FILTER "\"}"},
        {"schedule_next_at", "twinbloom_filter_next_schedule_timestamp_seconds{filter=\"" FILTER "\"}"}};
    struct error e = {""};
    char *text = scrape(coordinator(), NULL);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        int64_t number;
        must(client_status_number(&fixture.client[0], FILTER, pairs[i].field, &number, &e), e);
        if (strcmp(pairs[i].field, "schedule_next_at") == 0)
            number /= 1000; /* a time in milliseconds */
        if (scrape_value(text, pairs[i].series) != (double)number)
            fail_msg("%s: %g, not %lld", pairs[i].series, scrape_value(text, pairs[i].series),
                     (long long)number);
    }
    assert_true(scrape_value(text, "twinbloom_filter_phase{filter=\"" FILTER "\",phase=\"STEADY\"}") == 1);
    assert_true(scrape_value(text, "twinbloom_filter_state{filter=\"" FILTER "\",state=\"serving\"}") == 1);
    assert_true(scrape_value(text, "twinbloom_job_state{filter=\"" FILTER "\",state=\"done\"}") == 1);
    assert_true(scrape_value(text, "twinbloom_job_cutover_stall_seconds{filter=\"" FILTER "\"}") >= 0);
    assert_true(scrape_value(text, "twinbloom_postgres_page_duration_seconds_count") > 0);
    free(text);
}

static void test_metrics__tools_take_both_formats(void **state)
{
    (void)state;
    static const char hostile[] = "h\"o\\s\nt\xff{le=\"1\"} \xc3\xa9";
    const char *argv[] = {"BF.ADD", hostile, "k"};
    const size_t lengths[] = {6, sizeof(hostile) - 1, 1};
    freeReplyObject(client_argv(&fixture.client[0], 3, argv, lengths));
    char *plain = scrape(coordinator(), NULL);
    char *open = scrape(coordinator(), "Accept: application/openmetrics-text; version=1.0.0\r\n");
    scrape_pipe(plain, "promtool check metrics");
    scrape_pipe(open, "/usr/bin/python3 " OPENMETRICS " 68226f5c730a74ff7b6c653d2231227d20c3a9");
    assert_string_equal(open + strlen(open) - 6, "# EOF\n");
    assert_null(strstr(plain, "# EOF"));
    free(plain);
    free(open);
}

/* --- the table --- */

static char *described(void)
{
    struct daemon *d = &fixture.daemon[0];
    struct error e = {""};
    char *output = NULL;
    int status;
    must(daemon_run(d, "--describe-metrics", &output, &status, &e), e);
    assert_int_equal(status, 0);
    return output;
}

/* True for series that only other tests or installations have: those of a follower, a loss, an abort. */
static bool is_elsewhere(const char *name)
{
    static const char *const names[] = {"twinbloom_filter_rebuild_expected_timestamp_seconds",
                                        "twinbloom_filter_next_attempt_timestamp_seconds",
                                        "twinbloom_filter_degraded_timestamp_seconds",
                                        "twinbloom_filter_healed_timestamp_seconds",
                                        "twinbloom_job_heal_added_keys",
                                        "twinbloom_job_repair_rows",
                                        "twinbloom_job_repair_rows_expected",
                                        "twinbloom_follow_lag_seconds",
                                        "twinbloom_follow_rows"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static void note(struct scrape_names *seen)
{
    char *text = scrape(coordinator(), NULL);
    scrape_names(seen, text);
    free(text);
}

static void test_metrics__are_those_of_the_table(void **state)
{
    (void)state;
    struct scrape_names seen = {.count = 0};
    size_t rows = 0;
    run("BF.ADD leaves k");
    run("PEXPIRE leaves 3600000");
    fixture_insert(fixture.db, ROWS, 3000);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    scrape_wait(coordinator(), "twinbloom_job_throttled{filter=\"" FILTER "\",reason=\"operator\"}", 1);
    scrape_wait(coordinator(), "twinbloom_job_step{filter=\"" FILTER "\",step=\"scan\"}", 1);
    note(&seen);
    fixture_ask(&fixture, 0, "TB.THROTTLE " FILTER " 1000000");
    fixture_wait(&fixture, 0, "job_state", "done");
    scrape_wait(coordinator(), "twinbloom_job_state{filter=\"" FILTER "\",state=\"done\"}", 1);
    note(&seen);
    char *table = described();
    for (char *at = table; (at = strstr(at, "| `")) != NULL; at = strchr(at, '\n')) {
        char name[96];
        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(at + 3, "`"), at + 3);
        rows++;
        if (!scrape_has(&seen, name) && !is_elsewhere(name))
            fail_msg("%s is in the table and nowhere else", name);
        at = strchr(at, '\n') - 1;
    }
    for (size_t i = 0; i < seen.count; i++) {
        char cell[128];
        (void)snprintf(cell, sizeof(cell), "| `%s` |", seen.name[i]);
        if (strstr(table, cell) == NULL)
            fail_msg("%s is not in the table", seen.name[i]);
    }
    assert_true(rows > 60);
    free(table);
}

/* --- what is away --- */

static void test_metrics__are_answered_without_redis_and_postgres(void **state)
{
    (void)state;
    struct error e = {""};
    char node[128];
    (void)snprintf(node, sizeof(node), "twinbloom_redis_up{node=\"127.0.0.1:%u\"}", port[0]);
    temp_postgres_stop(&fixture.postgres);
    scrape_wait(coordinator(), "twinbloom_filter_source_up{filter=\"" FILTER "\"}", 0);
    for (unsigned i = 0; i < fixture.nodes; i++)
        (void)kill(fixture.redis[i].process.pid, SIGSTOP); /* a hung node is worse than one that is gone */
    char *text = scrape(coordinator(), NULL);
    assert_false(isnan(scrape_value(text, "twinbloom_uptime_seconds")));
    free(text);
    scrape_wait(coordinator(), "twinbloom_filter_state{filter=\"" FILTER "\",state=\"unreachable\"}", 1);
    run("BF.EXISTS " FILTER " k"); /* the reply is an error */
    scrape_wait(coordinator(), node, 0);
    text = scrape(coordinator(), NULL);
    scrape_pipe(text, "promtool check metrics");
    assert_true(scrape_value(text, "twinbloom_filter_ready{filter=\"" FILTER "\"}") == 0);
    double failed = grown("", text, REQUESTS("BF.EXISTS", "timeout")) +
                    grown("", text, REQUESTS("BF.EXISTS", "unavailable"));
    assert_true(failed >= 1);
    free(text);
    for (unsigned i = 0; i < fixture.nodes; i++)
        (void)kill(fixture.redis[i].process.pid, SIGCONT);
    scrape_wait(coordinator(), node, 1);
    scrape_wait(coordinator(), "twinbloom_filter_state{filter=\"" FILTER "\",state=\"serving\"}", 1);
    must(temp_postgres_restart(&fixture.postgres, &e), e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metrics__requests_are_those_that_were_sent),
        cmocka_unit_test(test_metrics__a_request_takes_as_long_as_redis_does),
        cmocka_unit_test(test_metrics__large_commands_count_once_and_all_their_keys),
        cmocka_unit_test(test_metrics__http_requests_are_counted_by_route_and_status),
        cmocka_unit_test(test_metrics__filters_are_as_status_says),
        cmocka_unit_test(test_metrics__tools_take_both_formats),
        cmocka_unit_test(test_metrics__are_those_of_the_table),
        cmocka_unit_test(test_metrics__are_answered_without_redis_and_postgres),
    };
    int status = fixture_run_tests(&fixture, &options, tests);
    proxy_stop(proxy);
    return status;
}
