/* SPDX-License-Identifier: MIT */
/* An operator uses the command line with real coordinators: dry runs, a hold, the cutover, a rollback, a
 * verification. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 20000, CAPACITY = 26000, LARGER = 60000, STEADY_MS = 60000 };

static struct fixture fixture;

static void assert_says(const char *arguments, int code, const char *part)
{
    const struct cli_result *r = fixture_cli(fixture.client[0].port, arguments);
    if (r->code != code || strstr(r->text, part) == NULL)
        fail_msg("%s: code %d\n%s", arguments, r->code, r->text);
}

static void expect(const char *field, const char *value)
{
    struct error e = {""};
    char text[512];
    must(client_status(&fixture.client[0], FILTER, field, text, sizeof(text), &e), e);
    assert_string_equal(text, value);
}

static int64_t number(const char *field)
{
    struct error e = {""};
    int64_t n = 0;
    must(client_status_number(&fixture.client[0], FILTER, field, &n, &e), e);
    return n;
}

static void wait_for(const char *field, const char *value)
{
    struct error e = {""};
    must(client_wait_status(&fixture.client[0], FILTER, field, value, STEADY_MS, &e), e);
}

/* Stop what an earlier test may have left running. */
static void quiet(void)
{
    redisReply *r = client_command(&fixture.client[0], "TB.ABORT " FILTER);
    freeReplyObject(r);
    wait_for("phase", "STEADY");
    wait_for("mutex_owner", "");
}

/* --- dry runs --- */

static redisReply *dry_run(const char *options)
{
    char line[256];
    (void)snprintf(line, sizeof(line), "TB.REBUILD " FILTER " %s DRYRUN", options);
    redisReply *r = client_command(&fixture.client[0], line);
    assert_non_null(r);
    if (r->type != REDIS_REPLY_ARRAY)
        fail_msg("%s: %s", line, r->str);
    return r;
}

static const redisReply *value_of(const redisReply *list, const char *name)
{
    for (size_t i = 0; i + 1 < list->elements; i += 2)
        if (strcmp(list->element[i]->str, name) == 0)
            return list->element[i + 1];
    fail_msg("the reply has no %s", name);
    return NULL;
}

static const redisReply *step_of(const redisReply *plan, const char *name)
{
    const redisReply *steps = value_of(plan, "steps");
    for (size_t i = 0; i < steps->elements; i++)
        if (strcmp(value_of(steps->element[i], "step")->str, name) == 0)
            return steps->element[i];
    fail_msg("the plan has no step %s", name);
    return NULL;
}

/* Return the place of a step in the plan, searched from @from on. */
static size_t place_of(const redisReply *plan, const char *name, size_t from)
{
    const redisReply *steps = value_of(plan, "steps");
    size_t i = from;
    while (i < steps->elements && strcmp(value_of(steps->element[i], "step")->str, name) != 0)
        i++;
    if (i == steps->elements)
        fail_msg("the job does %s where the plan does not", name);
    return i;
}

/* Watch the job until it is done. Its steps follow the plan's order. */
static void follow(const redisReply *plan, const char *first)
{
    struct error e = {""};
    char outcome[32] = "", step[32];
    size_t place = place_of(plan, first, 0);
    while (strcmp(outcome, "done") != 0) {
        must(client_status(&fixture.client[0], FILTER, "job_step", step, sizeof(step), &e), e);
        must(client_status(&fixture.client[0], FILTER, "job_state", outcome, sizeof(outcome), &e), e);
        if (strcmp(step, "done") != 0)
            place = place_of(plan, step, place);
        clock_sleep_us(5000);
    }
}

struct strings {
    struct client *client;
    long long bytes;
};

static void add_length(const char *name, void *arg)
{
    struct strings *s = arg;
    redisReply *r = client_command(s->client, "STRLEN %s", name);
    s->bytes += r != NULL && r->type == REDIS_REPLY_INTEGER ? r->integer : 0;
    freeReplyObject(r);
}

/* Return the length of all shards of a generation in Redis. */
static long long length_of(int64_t generation)
{
    struct error e = {""};
    long long bytes = 0;
    for (unsigned i = 0; i < fixture.nodes; i++) {
        struct client c;
        char pattern[128];
        (void)snprintf(pattern, sizeof(pattern), "twinbloom:{" FILTER ".%lld.*", (long long)generation);
        must(client_open(&c, fixture.redis[i].port, STEADY_MS, &e), e);
        struct strings s = {.client = &c};
        enum err code = client_scan(&c, pattern, add_length, &s, &e);
        client_close(&c);
        must(code, e);
        bytes += s.bytes;
    }
    return bytes;
}

/* Write what must not change: the number of keys in Redis, the token, the epoch and the job's record. */
static void picture(char *out, size_t size)
{
    struct error e = {""};
    struct client redis = {0};
    must(client_open(&redis, fixture.redis[0].port, STEADY_MS, &e), e);
    redisReply *keys = client_command(&redis, "KEYS *");
    redisReply *job = client_command(&redis, "HGETALL twinbloom:{" FILTER "}:job");
    redisReply *token = client_command(&redis, "GET twinbloom:{" FILTER "}:token");
    size_t n = (size_t)snprintf(out, size, "%zu keys, token %s, epoch %lld;", keys->elements, token->str,
                                (long long)number("epoch"));
    for (size_t i = 0; i < job->elements && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, " %s", job->element[i]->str);
    freeReplyObject(keys);
    freeReplyObject(job);
    freeReplyObject(token);
    client_close(&redis);
    assert_true(n < size);
}

static void test_dry_run__starts_nothing(void **state)
{
    (void)state;
    static char before[8192], after[8192];
    quiet();
    picture(before, sizeof(before));
    assert_says("rebuild " FILTER " --dry-run --hold --verify=full --capacity 60k", 0,
                "Nothing was started.\n");
    assert_says("rebuild " FILTER " --dry-run --json", 0, "\"rows_per_second_by\":\"by the last run\"");
    clock_sleep_us(700000);
    picture(after, sizeof(after));
    assert_string_equal(before, after);
}

/* The record has no rate, so a page is read and timed. */
static void test_dry_run__times_a_page_where_no_run_is_known(void **state)
{
    (void)state;
    struct error e = {""};
    struct client redis = {0};
    quiet();
    must(client_open(&redis, fixture.redis[0].port, STEADY_MS, &e), e);
    freeReplyObject(client_command(&redis, "HDEL twinbloom:{" FILTER "}:job rate"));
    client_close(&redis);
    redisReply *plan = dry_run("");
    assert_string_equal(value_of(plan, "rows_per_second_by")->str, "by one page just read");
    assert_true(strtod(value_of(plan, "rows_per_second")->str, NULL) > 0);
    assert_true(strtod(value_of(step_of(plan, "scan"), "duration_seconds")->str, NULL) > 0);
    freeReplyObject(plan);
}

static void expect_same_refusal(const char *options, const char *text)
{
    char line[256];
    quiet();
    (void)snprintf(line, sizeof(line), "rebuild " FILTER " %s --dry-run", options);
    assert_says(line, 1, text);
    (void)snprintf(line, sizeof(line), "rebuild " FILTER " %s --wait", options);
    assert_says(line, 5, text);
}

static void test_dry_run__is_refused_as_the_rebuild_would_be(void **state)
{
    (void)state;
    struct error e = {""};
    expect_same_refusal("--capacity 100", "capacity 100 is smaller than the source's 20,000 rows\n");
    struct client redis = {0};
    must(client_open(&redis, fixture.redis[1].port, STEADY_MS, &e), e);
    must(client_ok(&redis, &e, "CONFIG SET maxmemory 1000000"), e);
    expect_same_refusal("--capacity 5M", " has too little memory: ");
    char node[64]; /* the other node has room for the whole build */
    (void)snprintf(node, sizeof(node), "127.0.0.1:%u has too little memory: ", fixture.redis[1].port);
    expect_same_refusal("--capacity 5M", node);
    must(client_ok(&redis, &e, "CONFIG SET maxmemory 0"), e);
    client_close(&redis);
}

/* The plan's numbers for each node describe the filter's part on that node. Their sums are the plan's
 * totals. */
static void test_plan__shows_what_lies_on_each_node(void **state)
{
    (void)state;
    quiet();
    redisReply *plan = client_command(&fixture.client[0], "TB.PLAN " FILTER);
    assert_true(plan != NULL && plan->type == REDIS_REPLY_ARRAY);
    const redisReply *nodes = value_of(plan, "per_node");
    assert_int_equal(nodes->elements, fixture.nodes);
    long long before = 0, during = 0, after = 0, shards = 0;
    for (size_t i = 0; i < nodes->elements; i++) {
        const redisReply *node = nodes->element[i];
        char name[64];
        (void)snprintf(name, sizeof(name), "127.0.0.1:%u", fixture.redis[i].port);
        assert_string_equal(value_of(node, "node")->str, name);
        assert_true(value_of(node, "used_bytes")->integer > value_of(node, "before_bytes")->integer);
        assert_int_equal(value_of(node, "maxmemory_bytes")->integer, 0);
        assert_true(value_of(node, "limit_bytes")->integer > 0); /* the machine's memory */
        before += value_of(node, "before_bytes")->integer;
        during += value_of(node, "during_bytes")->integer;
        after += value_of(node, "after_bytes")->integer;
        shards += value_of(node, "shards")->integer;
    }
    assert_int_equal(before, value_of(plan, "memory_now_bytes")->integer);
    assert_int_equal(during, value_of(plan, "memory_peak_bytes")->integer);
    assert_int_equal(after, value_of(plan, "memory_after_bytes")->integer);
    assert_int_equal(shards, value_of(plan, "shards")->integer);
    freeReplyObject(plan);
    assert_says("plan " FILTER, 0, "USED THEN  MAXMEMORY\n");
}

/* The session ends right after the reply, or a little later. */
static bool has_session_of_plans(void)
{
    PGresult *r =
        PQexec(fixture.db, "SELECT 1 FROM pg_stat_activity WHERE application_name = 'twinbloom plan'");
    bool has = PQntuples(r) > 0;
    PQclear(r);
    return has;
}

static void test_plan__leaves_no_session_of_postgres(void **state)
{
    (void)state;
    static const char *const forms[] = {"TB.PLAN " FILTER, "TB.REBUILD " FILTER " DRYRUN"};
    quiet();
    for (size_t i = 0; i < 2; i++) {
        redisReply *r = client_command(&fixture.client[0], forms[i]);
        assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY);
        freeReplyObject(r);
        for (int looks = 0; has_session_of_plans() && looks < 500; looks++)
            clock_sleep_us(10 * 1000);
        assert_false(has_session_of_plans());
    }
}

static void test_dry_run__says_what_the_rebuild_then_does(void **state)
{
    (void)state;
    quiet();
    redisReply *plan = dry_run("CAPACITY 60000 HOLD");
    assert_int_equal(value_of(plan, "memory_now_bytes")->integer, number("memory_bytes"));
    assert_says("rebuild " FILTER " --capacity 60k --hold --wait", 0, " holds: generation ");
    assert_int_equal(value_of(plan, "capacity")->integer, LARGER);
    assert_int_equal(number("alternate_capacity"), LARGER);
    assert_int_equal(value_of(step_of(plan, "scan"), "rows")->integer, number("job_rows"));
    assert_int_equal(value_of(plan, "partitions")->integer, number("job_partitions"));
    assert_int_equal(value_of(plan, "size_bytes")->integer, length_of(number("alternate_generation")));
    assert_int_equal(value_of(step_of(plan, "hold"), "memory_after_bytes")->integer, number("memory_bytes"));
    assert_says("cutover " FILTER, 0, "switches");
    follow(plan, "hold");
    assert_int_equal(value_of(plan, "memory_after_bytes")->integer, number("memory_bytes"));
    assert_int_equal(number("capacity"), LARGER);
    fixture_all_present(&fixture, 0, 0, ROWS);
    freeReplyObject(plan);
}

/* --- holding, switching, going back --- */

static void test_hold__waits_for_the_cutover(void **state)
{
    (void)state;
    struct error e = {""};
    quiet();
    must(client_ok(&fixture.client[0], &e, "CONFIG SET filter." FILTER ".grace 60s"), e);
    int64_t before = number("generation");
    assert_says("rebuild " FILTER " --hold --wait", 0, "waits for \"twinbloom cutover " FILTER "\".\n");
    clock_sleep_us(1200000);
    expect("job_step", "hold");
    assert_says("status " FILTER " | grep -E 'holds before cutover +yes$'", 0, "");
    assert_says("rebuild " FILTER " --dry-run", 1, "the mutex is held by ");
    assert_int_equal(number("generation"), before);
    assert_says("rollback " FILTER, 4, "nothing to roll back");
    assert_says("cutover " FILTER, 0, "switches after the latest rows");
    wait_for("phase", "SWITCHED");
    assert_true(number("generation") > before);
    wait_for("job_step", "grace");
    assert_says("finish --yes " FILTER, 0, "ends its grace time");
    uint64_t asked = clock_mono_us();
    wait_for("job_state", "done");
    assert_true(clock_mono_us() - asked < UINT64_C(10000000));
    must(client_ok(&fixture.client[0], &e, "CONFIG SET filter." FILTER ".grace 4s"), e);
    fixture_all_present(&fixture, 0, 0, ROWS);
}

/* A restart throws away an unfinished job with what the job has built. Without such a job, a restart is a
 * start. */
static void test_restart__throws_away_what_an_unfinished_job_has_built(void **state)
{
    (void)state;
    quiet();
    assert_says("rebuild " FILTER " --hold --wait", 0, "waits for");
    int64_t thrown = number("job_generation");
    assert_says("rebuild " FILTER, 6, "");
    assert_says("rebuild " FILTER " --restart --dry-run", 2, "--dry-run starts nothing");
    assert_says("rebuild " FILTER " --restart --yes --hold --wait", 0, "waits for");
    assert_true(number("job_generation") > thrown);
    quiet();
    assert_says("rebuild " FILTER " --restart --yes --wait", 0, "");
    fixture_all_present(&fixture, 0, 0, ROWS);
}

/* A command with --wait ends when the new generation serves. The grace time goes on afterwards. */
static void test_wait__ends_where_the_grace_time_begins(void **state)
{
    (void)state;
    struct error e = {""};
    quiet();
    int64_t before = number("generation");
    must(client_ok(&fixture.client[0], &e, "CONFIG SET filter." FILTER ".grace 60s"), e);
    assert_says("rebuild " FILTER " --wait", 0, ", generation ");
    int64_t now_ms = (int64_t)(clock_wall_us() / 1000);
    expect("job_state", "running");
    expect("job_step", "grace");
    expect("phase", "SWITCHED");
    assert_true(number("generation") > before);
    assert_in_range(number("job_grace_ends_at"), now_ms + 30 * 1000, now_ms + 60 * 1000);
    assert_says("status " FILTER " | grep 'rollback until '", 0, "");
    assert_says("rebuild " FILTER, 6, "the mutex is held by ");
    assert_says("rebuild " FILTER, 6,
                ": a job of this filter has not ended; see \"twinbloom status\" (the mutex");
    assert_says("rollback " FILTER, 0, "is being rolled back");
    wait_for("job_step", "hold");
    assert_says("status " FILTER " | grep -c 'rollback until '", 1, "0\n");
    assert_int_equal(number("generation"), before);
    must(client_ok(&fixture.client[0], &e, "CONFIG SET filter." FILTER ".grace 4s"), e);
    assert_says("abort --yes " FILTER, 0, "");
    wait_for("job_state", "aborted");
}

static void test_rollback__loses_no_key_and_can_be_switched_again(void **state)
{
    (void)state;
    struct error e = {""};
    quiet();
    int64_t before = number("generation");
    assert_says("rebuild " FILTER " --wait", 0, "The old generation is kept until 2");
    assert_says("rollback " FILTER, 0, "is being rolled back");
    wait_for("job_step", "hold");
    assert_int_equal(number("generation"), before);
    must(client_madd(&fixture.client[0], FILTER, fixture_code, ROWS, 100, &e), e);
    assert_says("cutover " FILTER, 0, "switches");
    wait_for("job_state", "done");
    assert_true(number("generation") > before);
    fixture_all_present(&fixture, 0, 0, ROWS + 100);
}

static void test_pause__and_throttle_are_seen_in_the_status(void **state)
{
    (void)state;
    quiet();
    assert_says("pause " FILTER, 4, "no job is running");
    assert_says("rebuild " FILTER " --hold --wait", 0, "holds");
    assert_says("pause " FILTER, 0, "pauses");
    assert_says("throttle " FILTER " 5k", 0, "at most 5,000 rows a second");
    assert_says("status " FILTER " | grep -E 'paused +yes$'", 0, "");
    assert_says("status " FILTER " | grep -E 'limit, rows per second +5,000$'", 0, "");
    assert_says("cutover " FILTER, 0, " verified. It is paused until \"twinbloom resume\".\n");
    clock_sleep_us(700000);
    expect("phase", "BUILDING");
    assert_says("throttle " FILTER " none", 0, "without a limit");
    assert_says("resume " FILTER, 0, "continues");
    wait_for("job_state", "done");
}

/* --- verifying --- */

static void test_verify__looks_for_every_key(void **state)
{
    (void)state;
    quiet();
    assert_says("verify " FILTER " --full --wait", 0, "20,000 keys looked up, 0 missing and added, ");
    expect("verification", "passed");
    expect("job_verify_mode", "full");
    assert_says("status " FILTER " | grep -E 'method +full$'", 0, "");
    assert_true(number("job_rows") >= ROWS); /* the rows of the previous rebuild, unchanged */
}

/* A rebuild neither takes from the generation in use what is known of it, nor claims the new one's for it. */
static void test_verify__is_known_while_a_rebuild_runs(void **state)
{
    (void)state;
    quiet();
    assert_says("verify " FILTER " --wait", 0, "0 missing and added, ");
    int64_t verified_at = number("verified_at");
    assert_says("rebuild " FILTER " --hold --wait", 0, "holds");
    expect("verification", "passed");
    assert_int_equal(number("verified_at"), verified_at);
    assert_says("cutover " FILTER, 0, "switches");
    wait_for("job_state", "done");
    expect("verification", "passed");
    assert_true(number("verified_at") > verified_at);
    verified_at = number("verified_at");
    assert_says("rebuild " FILTER " --hold --wait", 0, "holds");
    assert_says("abort --yes " FILTER, 0, "");
    wait_for("job_state", "aborted");
    expect("verification", "passed");
    assert_int_equal(number("verified_at"), verified_at);
}

/* Plain SQL inserts the rows, and no follower reports them. */
static void test_verify__says_how_many_keys_were_missing(void **state)
{
    (void)state;
    quiet();
    fixture_sql(
        fixture.db,
        "INSERT INTO short_link (code, url) SELECT 'by-hand-' || n, 'x' FROM generate_series(1, 7) n");
    assert_says("verify " FILTER " --full --wait --json", 0,
                "\"job_verify_missing\":0,\"job_verify_added\":7,");
    assert_says("status " FILTER " | grep -E 'keys missing and added +7$'", 0, "");
    assert_says("check " FILTER " by-hand-1 by-hand-7", 0, "present\tby-hand-7\n");
    quiet();
    fixture_sql(fixture.db, "INSERT INTO short_link (code, url) VALUES ('by-hand-8', 'x')");
    assert_says("verify " FILTER " --full --wait", 0, "20,008 keys looked up, 1 missing and added, ");
    fixture_sql(fixture.db, "DELETE FROM short_link WHERE code LIKE 'by-hand-%'");
}

/* Empty the shard, but keep its tags and its header, so that the shard does not count as lost. */
static void empty_shard(struct client *redis, const char *name, size_t block)
{
    static const char zeros[512];
    struct error e = {""};
    int64_t length = 0, n = 0;
    must(client_integer(redis, &length, &e, "STRLEN %s", name), e);
    for (int64_t at = (int64_t)block; at < length; at += (int64_t)block)
        must(client_integer(redis, &n, &e, "SETRANGE %s %lld %b", name, (long long)at + 2, zeros, block - 2),
             e);
}

/* A key whose row is older than the build is removed from the filter by force. */
static void test_verify__ends_with_1_where_an_old_key_is_missing(void **state)
{
    (void)state;
    struct error e = {""};
    struct client redis = {0};
    char name[256] = "", pattern[128];
    quiet();
    must(client_open(&redis, fixture.redis[0].port, STEADY_MS, &e), e);
    (void)snprintf(pattern, sizeof(pattern), "twinbloom:{" FILTER ".%lld.0.*",
                   (long long)number("generation"));
    redisReply *keys = client_command(&redis, "KEYS %s", pattern);
    for (size_t i = 0; i < keys->elements && name[0] == '\0'; i++) {
        redisReply *type = client_command(&redis, "TYPE %s", keys->element[i]->str);
        if (strcmp(type->str, "string") == 0)
            (void)snprintf(name, sizeof(name), "%s", keys->element[i]->str);
        freeReplyObject(type);
    }
    freeReplyObject(keys);
    assert_true(name[0] != '\0');
    size_t block = (size_t)number("block_bits") / 8;
    client_close(&fixture.client[0]); /* the coordinator would answer from memory */
    assert_true(daemon_stop(&fixture.daemon[0], STEADY_MS));
    empty_shard(&redis, name, block);
    client_close(&redis);
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
    assert_says("verify " FILTER " --full --wait", 5, "twinbloom: the verification of " FILTER " failed: ");
    expect("verification", "failed");
    assert_says("status " FILTER, 0, "keys missing");
    fixture_all_present(&fixture, 0, 0, ROWS); /* the verification has added the missing keys */
}

static const struct fixture_options options = {.nodes = 2,
                                               .daemons = 1,
                                               .postgres = true,
                                               .rows = ROWS,
                                               .capacity = CAPACITY,
                                               .rate = "0.01",
                                               .grace = "4s"};

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dry_run__starts_nothing),
        cmocka_unit_test(test_dry_run__times_a_page_where_no_run_is_known),
        cmocka_unit_test(test_dry_run__is_refused_as_the_rebuild_would_be),
        cmocka_unit_test(test_plan__shows_what_lies_on_each_node),
        cmocka_unit_test(test_plan__leaves_no_session_of_postgres),
        cmocka_unit_test(test_dry_run__says_what_the_rebuild_then_does),
        cmocka_unit_test(test_hold__waits_for_the_cutover),
        cmocka_unit_test(test_restart__throws_away_what_an_unfinished_job_has_built),
        cmocka_unit_test(test_wait__ends_where_the_grace_time_begins),
        cmocka_unit_test(test_rollback__loses_no_key_and_can_be_switched_again),
        cmocka_unit_test(test_pause__and_throttle_are_seen_in_the_status),
        cmocka_unit_test(test_verify__looks_for_every_key),
        cmocka_unit_test(test_verify__is_known_while_a_rebuild_runs),
        cmocka_unit_test(test_verify__says_how_many_keys_were_missing),
        cmocka_unit_test(test_verify__ends_with_1_where_an_old_key_is_missing),
    };
    return fixture_run_tests(&fixture, &options, tests);
}
