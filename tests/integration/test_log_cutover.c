/* SPDX-License-Identifier: MIT */
/* The time of grace of a filter that is a log: the driver dies before it has recorded the cutover; a rollback
 * is impossible; the source changes after one. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/proxy.h"

enum { ROWS = 3000, SLOW_MS = 20, SLOWER_MS = 200, SWITCH_MS = 30000 };

static struct fixture f;
static struct proxy *proxy;
static unsigned route;
static struct client redis; /* without the proxy */

static void put_redis_behind_a_proxy(struct fixture *fixture)
{
    struct error e = {""};
    uint16_t port;
    must(proxy_start(&proxy, &e), e);
    must(proxy_add(proxy, WIRE_REDIS, fixture->redis[0].port, &route, &port, &e), e);
    must(client_open(&redis, fixture->redis[0].port, 5000, &e), e);
    (void)snprintf(fixture->node_list, sizeof(fixture->node_list), "redis://127.0.0.1:%u", port);
}

static int setup(void **state)
{
    (void)state;
    const struct fixture_options o = {.nodes = 1,
                                      .daemons = 1,
                                      .postgres = true,
                                      .rows = ROWS,
                                      .capacity = 10000,
                                      .rate = "0.001",
                                      .grace = "60s",
                                      .expansion = "lease = 2s\n",
                                      .service = "check_interval = 200ms\n",
                                      .prepare = put_redis_behind_a_proxy};
    return fixture_start(&f, &o);
}

static int teardown(void **state)
{
    (void)state;
    int status = fixture_stop(&f);
    proxy_stop(proxy);
    client_close(&redis);
    return status;
}

/* A field of a hash in Redis; "": there is none. */
static void field_of(const char *hash, const char *field, char *out, size_t size)
{
    redisReply *r = client_command(&redis, "HGET twinbloom:{" FILTER "}:%s %s", hash, field);
    assert_non_null(r);
    (void)snprintf(out, size, "%s", r->type == REDIS_REPLY_STRING ? r->str : "");
    freeReplyObject(r);
}

/* Wait until a field of a hash in Redis is @value, or (not @wanted) is not. */
static void await_field(const char *hash, const char *field, const char *value, bool wanted)
{
    char now[24];
    uint64_t until = clock_mono_us() + SWITCH_MS * 1000ull;
    do {
        clock_sleep_us(1000);
        field_of(hash, field, now, sizeof(now));
    } while ((strcmp(now, value) == 0) != wanted && clock_mono_us() < until);
    if ((strcmp(now, value) == 0) != wanted)
        fail_msg("%s is \"%s\"", field, now);
}

/* A job ends behind its phase: until it has given its mutex back there is no other one. */
static void await_end(void)
{
    fixture_wait(&f, 0, "phase", "STEADY");
    fixture_wait(&f, 0, "mutex_owner", "");
}

/* View and record are written one after the other, and each request is slow: kill the driver as soon as the
 * view is switched. */
static void cut_over_and_die(void)
{
    char before[24], step[24];
    field_of("view", "bloom_filter_current_index", before, sizeof(before));
    proxy_set(proxy, route, &(struct proxy_fault){.request_delay_ms = SLOW_MS});
    fixture_ask(&f, 0, "TB.CUTOVER " FILTER);
    await_field("job", "step", "cutover", true);
    proxy_set(proxy, route, &(struct proxy_fault){.request_delay_ms = SLOWER_MS});
    await_field("view", "bloom_filter_current_index", before, false);
    client_close(&f.client[0]);
    daemon_kill(&f.daemon[0]);
    (void)proxy_reset(proxy, route, NULL, false); /* its requests under way do not arrive either */
    proxy_lift(proxy);
    field_of("job", "step", step, sizeof(step));
    assert_string_equal(step, "cutover");
}

static void test_cutover__whose_driver_dies_before_it_is_recorded_leaves_its_grace(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t before = fixture_generation(&f, 0), switched = 0;
    char step[24];
    fixture_ask(&f, 0, "TB.REBUILD " FILTER " HOLD");
    fixture_wait(&f, 0, "job_step", "hold");
    int64_t asked = (int64_t)(clock_wall_us() / 1000);
    cut_over_and_die();
    int64_t died = (int64_t)(clock_wall_us() / 1000);
    must(daemon_launch(&f.daemon[0], &e), e);
    fixture_reconnect(&f, 0);
    fixture_wait(&f, 0, "phase", "SWITCHED");
    do { /* the job follows and verifies first */
        clock_sleep_us(20000);
        must(client_status(&f.client[0], FILTER, "job_step", step, sizeof(step), &e), e);
    } while (strcmp(step, "follow") == 0 || strcmp(step, "confirm") == 0 || strcmp(step, "cutover") == 0);
    assert_string_equal(step, "grace");
    must(client_status_number(&f.client[0], FILTER, "job_switched_at", &switched, &e), e);
    assert_in_range(switched, asked, died);
    clock_sleep_us(1000 * 1000);
    must(client_status(&f.client[0], FILTER, "job_step", step, sizeof(step), &e), e);
    assert_string_equal(step, "grace");
    fixture_all_present(&f, 0, 0, ROWS);
    fixture_ask(&f, 0, "TB.ROLLBACK " FILTER); /* the old generation is still there */
    fixture_wait(&f, 0, "job_step", "hold");
    assert_int_equal(fixture_generation(&f, 0), before);
    fixture_all_present(&f, 0, 0, ROWS);
    fixture_ask(&f, 0, "TB.ABORT " FILTER);
    await_end();
}

/* What the record says of rows that were read cannot be relied on, so each row is compared: also one whose
 * key was changed when nobody followed. */
static void test_cutover__whose_record_is_damaged_misses_no_row(void **state)
{
    (void)state;
    enum { CHANGED = 900000 };
    struct error e = {""};
    char mode[16];
    fixture_ask(&f, 0, "TB.REBUILD " FILTER " HOLD");
    fixture_wait(&f, 0, "job_step", "hold");
    cut_over_and_die();
    fixture_sql(f.db, "UPDATE short_link SET code = 'c900000' WHERE id = 7");
    redisReply *r = client_command(&redis, "HSET twinbloom:{" FILTER "}:job swept %01000d", 0);
    assert_true(r != NULL && r->type == REDIS_REPLY_INTEGER && r->integer == 0); /* the field was there */
    freeReplyObject(r);
    must(daemon_launch(&f.daemon[0], &e), e);
    fixture_reconnect(&f, 0);
    fixture_wait(&f, 0, "job_step", "grace");
    must(client_status(&f.client[0], FILTER, "job_verify_mode", mode, sizeof(mode), &e), e);
    assert_string_equal(mode, "full"); /* a sample would have the row only because the table is small */
    fixture_all_present(&f, 0, CHANGED, 1);
    fixture_all_present(&f, 0, 0, ROWS);
    char *log = process_log(&f.daemon[0].process);
    assert_non_null(strstr(log, "event=checkpoint_invalid filter=\"" FILTER "\" field=\"swept\""));
    free(log);
    fixture_sql(f.db, "UPDATE short_link SET code = 'c6' WHERE id = 7");
    fixture_ask(&f, 0, "TB.FINISH " FILTER);
    await_end();
}

/* The request was acknowledged, so its job waits where the node goes away before it has begun. */
static void test_job__begins_though_the_node_goes_away_meanwhile(void **state)
{
    (void)state;
    int64_t before = fixture_generation(&f, 0);
    proxy_count_only(proxy, "HGETALL");
    proxy_count(proxy, "", 1, PROXY_BEFORE);
    fixture_ask(&f, 0, "TB.REBUILD " FILTER);
    assert_true(proxy_await_held(proxy, SWITCH_MS));
    proxy_release(proxy, false);
    fixture_wait(&f, 0, "job_step", "grace");
    assert_true(fixture_generation(&f, 0) > before);
    fixture_all_present(&f, 0, 0, ROWS);
    fixture_ask(&f, 0, "TB.FINISH " FILTER);
    await_end();
    char *log = process_log(&f.daemon[0].process);
    assert_non_null(strstr(log, "event=job_waiting filter=\"" FILTER "\" step=begin"));
    free(log);
}

/* A shard of the generation before is lost when the request was accepted, and the driver has not seen it yet.
 */
static void ask_too_late(void)
{
    static const char script[] = "local view = redis.call('HMGET', KEYS[1], 'bloom_filter_current_index', "
                                 "'generation0', 'generation1') "
                                 "local text = string.gsub(view[3 - view[1]], ' built=1 ', ' built=0 ') "
                                 "redis.call('HSET', KEYS[1], 'generation' .. 1 - view[1], text) "
                                 "redis.call('HSET', KEYS[2], 'rollback', '1') "
                                 "return redis.call('HINCRBY', KEYS[1], 'version', 1)";
    redisReply *r =
        client_command(&redis, "EVAL %s 2 twinbloom:{" FILTER "}:view twinbloom:{" FILTER "}:job", script);
    assert_true(r != NULL && r->type == REDIS_REPLY_INTEGER);
    freeReplyObject(r);
}

/* The new generation stays, and the job ends: there is nothing to wait for. */
static void test_rollback__that_became_impossible_is_refused_once(void **state)
{
    (void)state;
    fixture_ask(&f, 0, "TB.REBUILD " FILTER);
    fixture_wait(&f, 0, "job_step", "grace");
    int64_t built = fixture_generation(&f, 0);
    ask_too_late();
    await_end();
    fixture_wait(&f, 0, "job_state", "done");
    assert_int_equal(fixture_generation(&f, 0), built);
    fixture_all_present(&f, 0, 0, ROWS);
    char *log = process_log(&f.daemon[0].process), *line = strstr(log, "event=rollback_impossible");
    assert_non_null(line);
    assert_non_null(strstr(line, "cannot be read: it was not built, or lacks keys that were acknowledged"));
    assert_null(strstr(line + 1, "event=rollback_impossible"));
    free(log);
}

/* The generation that was in use is not built again, as it has clients' keys. The job ends, and the next one
 * builds. */
static void test_rollback__and_another_source_behind_it_ends_the_job(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t before = fixture_generation(&f, 0);
    char why[600];
    fixture_ask(&f, 0, "TB.REBUILD " FILTER);
    fixture_wait(&f, 0, "job_step", "grace");
    must(client_madd(&f.client[0], FILTER, fixture_code, 100000, ROWS, &e), e);
    fixture_ask(&f, 0, "TB.ROLLBACK " FILTER);
    fixture_wait(&f, 0, "job_step", "hold");
    fixture_sql(
        f.db,
        "ALTER TABLE short_link RENAME TO earlier; "
        "CREATE TABLE short_link (LIKE earlier INCLUDING ALL); "
        "INSERT INTO short_link (code, url) SELECT 'c' || n, '' FROM generate_series(200000, 200099) n");
    fixture_ask(&f, 0, "TB.CUTOVER " FILTER);
    fixture_wait(&f, 0, "job_state", "failed");
    await_end();
    must(client_status(&f.client[0], FILTER, "job_error", why, sizeof(why), &e), e);
    assert_non_null(strstr(why, "does not match its source any more"));
    assert_int_equal(fixture_generation(&f, 0), before);
    fixture_all_present(&f, 0, 0, ROWS);
    fixture_all_present(&f, 0, 100000, ROWS);
    fixture_ask(&f, 0, "TB.REBUILD " FILTER);
    fixture_wait(&f, 0, "job_step", "grace");
    fixture_all_present(&f, 0, 200000, 100);
    fixture_ask(&f, 0, "TB.FINISH " FILTER);
    await_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_cutover__whose_driver_dies_before_it_is_recorded_leaves_its_grace, setup),
        cmocka_unit_test(test_cutover__whose_record_is_damaged_misses_no_row),
        cmocka_unit_test(test_job__begins_though_the_node_goes_away_meanwhile),
        cmocka_unit_test_teardown(test_rollback__that_became_impossible_is_refused_once, teardown),
        cmocka_unit_test_setup_teardown(test_rollback__and_another_source_behind_it_ends_the_job, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
