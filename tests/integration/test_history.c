/* SPDX-License-Identifier: MIT */
/* The last runs of a filter, as TB.HISTORY lists them. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 20000, CAPACITY = 40000, STEADY_MS = 60000 };

static struct fixture fixture;

/* A scan that can be held: see test_takeover.c. */
static const char gate[] =
    "CREATE FUNCTION public.gate(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN "
    "IF id = 10000 THEN PERFORM pg_advisory_lock_shared(7); "
    "PERFORM pg_advisory_unlock_shared(7); END IF; RETURN true; END $$";

static const struct fixture_options options = {.nodes = 1,
                                               .daemons = 2,
                                               .postgres = true,
                                               .rows = ROWS,
                                               .capacity = CAPACITY,
                                               .rate = "0.01",
                                               .service = "check_interval = 200ms\n",
                                               .expansion = "lease = 2s\nrows_per_second = 20000\n",
                                               .schema = gate,
                                               .where = "public.gate(id)"};

static redisReply *history(unsigned d, const char *arguments)
{
    char command[128];
    (void)snprintf(command, sizeof(command), "TB.HISTORY " FILTER "%s", arguments);
    redisReply *r = client_command(&fixture.client[d], command);
    assert_non_null(r);
    if (r->type != REDIS_REPLY_ARRAY)
        fail_msg("%s: %s", command, r->str);
    return r;
}

/* The value of a field as text; "" if the entry lacks it. In one of a few static buffers. */
static const char *field(const redisReply *run, const char *name)
{
    static char text[4][1024];
    static unsigned next;
    char *out = text[next++ % 4];
    out[0] = '\0';
    for (size_t i = 0; i + 1 < run->elements; i += 2) {
        const redisReply *value = run->element[i + 1];
        if (strcmp(run->element[i]->str, name) != 0)
            continue;
        if (value->type == REDIS_REPLY_INTEGER)
            (void)snprintf(out, sizeof(text[0]), "%lld", value->integer);
        else
            (void)snprintf(out, sizeof(text[0]), "%s", value->str);
    }
    return out;
}

static uint64_t number(const redisReply *run, const char *name)
{
    return strtoull(field(run, name), NULL, 10);
}

static double seconds(const redisReply *run, const char *name)
{
    return strtod(field(run, name), NULL);
}

/* Wait for @entries entries and return the newest. The caller frees *@all. */
static const redisReply *newest(redisReply **all, size_t entries)
{
    uint64_t until = clock_mono_us() + STEADY_MS * 1000ull;
    while ((*all = history(1, ""))->elements < entries) {
        freeReplyObject(*all);
        assert_true(clock_mono_us() < until);
        clock_sleep_us(20000);
    }
    assert_int_equal((*all)->elements, entries);
    return (*all)->element[0];
}

static void test_history__tells_of_the_first_build(void **state)
{
    (void)state;
    redisReply *all;
    const redisReply *run = newest(&all, 1);
    assert_string_equal(field(run, "outcome"), "done");
    assert_string_equal(field(run, "trigger"), "unbuilt");
    assert_string_equal(field(run, "error"), "");
    assert_int_equal(number(run, "generation_from"), 1);
    assert_int_equal(number(run, "generation"), fixture_generation(&fixture, 0));
    assert_int_equal(number(run, "rows"), ROWS);
    assert_int_equal(number(run, "capacity"), CAPACITY);
    assert_in_range(number(run, "verified_keys"), 1, ROWS);
    assert_true(strtod(field(run, "scan_seconds"), NULL) > 0);
    assert_true(strtod(field(run, "false_positive_rate"), NULL) < 0.02);
    assert_true(strlen(field(run, "owner")) > 0);
    assert_in_range(1000 * (seconds(run, "finished_at") - seconds(run, "started_at")), 500,
                    STEADY_MS); /* includes the grace time */
    assert_in_range(number(run, "finished_at"), clock_wall_us() / 1000000 - 600,
                    clock_wall_us() / 1000000 + 1);
    freeReplyObject(all);
}

static void test_history__tells_of_an_operators_rebuild(void **state)
{
    (void)state;
    struct error e = {""};
    redisReply *all;
    int64_t before = fixture_generation(&fixture, 0);
    must(client_ok(&fixture.client[0], &e, "TB.REBUILD " FILTER), e);
    const redisReply *run = newest(&all, 2);
    assert_string_equal(field(run, "outcome"), "done");
    assert_string_equal(field(run, "trigger"), "operator");
    assert_string_equal(field(run, "reason"), "asked for by an operator");
    assert_int_equal(number(run, "generation_from"), before);
    assert_int_equal(number(run, "generation"), before + 1);
    assert_string_equal(field(all->element[1], "trigger"), "unbuilt");
    freeReplyObject(all);
    all = history(0, " COUNT 1");
    assert_int_equal(all->elements, 1);
    assert_string_equal(field(all->element[0], "trigger"), "operator");
    freeReplyObject(all);
}

static void hold_a_rebuild(void)
{
    struct error e = {""};
    fixture_sql(fixture.db, "SELECT pg_advisory_lock(7)");
    must(client_ok(&fixture.client[0], &e, "TB.REBUILD " FILTER), e);
    must(client_wait_status(&fixture.client[1], FILTER, "job_step", "scan", STEADY_MS, &e), e);
}

static void test_history__tells_of_an_abort(void **state)
{
    (void)state;
    struct error e = {""};
    redisReply *all;
    int64_t before = fixture_generation(&fixture, 0);
    hold_a_rebuild();
    must(client_ok(&fixture.client[1], &e, "TB.ABORT " FILTER), e);
    const redisReply *run = newest(&all, 3);
    fixture_sql(fixture.db, "SELECT pg_advisory_unlock(7)");
    assert_string_equal(field(run, "outcome"), "aborted");
    assert_string_equal(field(run, "trigger"), "operator");
    assert_non_null(strstr(field(run, "error"), "aborted by an operator"));
    assert_int_equal(number(run, "generation_from"), before);
    assert_int_equal(number(run, "generation"), before + 1);
    assert_string_equal(field(run, "verified_keys"), "");
    freeReplyObject(all);
}

static void test_history__tells_of_a_failure(void **state)
{
    (void)state;
    struct error e = {""};
    redisReply *all;
    fixture_sql(fixture.db, "BEGIN");
    fixture_sql(fixture.db, "ALTER TABLE short_link RENAME code TO other");
    must(client_ok(&fixture.client[0], &e, "TB.REBUILD " FILTER), e);
    /* until the job reports progress; it has read no row yet */
    must(client_wait_status(&fixture.client[1], FILTER, "job_waiting_for", "an answer of Postgres", STEADY_MS,
                            &e),
         e);
    fixture_sql(fixture.db, "COMMIT");
    const redisReply *run = newest(&all, 4);
    fixture_sql(fixture.db, "ALTER TABLE short_link RENAME other TO code");
    assert_string_equal(field(run, "outcome"), "failed");
    assert_string_equal(field(run, "trigger"), "operator");
    assert_non_null(strstr(field(run, "error"), "code"));
    assert_string_equal(field(run, "rows"), ""); /* nothing from the run before */
    assert_string_equal(field(run, "generation"), "");
    assert_int_equal(number(run, "generation_from"), fixture_generation(&fixture, 0));
    freeReplyObject(all);
}

/* Two drivers make one entry, with the start and the reason of the first driver. */
static void test_history__of_a_run_that_another_coordinator_finished_is_one_entry(void **state)
{
    (void)state;
    struct error e = {""};
    char owner[128], started[64];
    redisReply *all;
    int64_t before = fixture_generation(&fixture, 1);
    hold_a_rebuild();
    must(client_status(&fixture.client[1], FILTER, "job_started_at", started, sizeof(started), &e), e);
    must(client_status(&fixture.client[1], FILTER, "job_owner", owner, sizeof(owner), &e), e);
    client_close(&fixture.client[0]);
    daemon_kill(&fixture.daemon[0]);
    fixture_sql(fixture.db, "SELECT pg_advisory_unlock(7)");
    const redisReply *run = newest(&all, 5);
    assert_string_equal(field(run, "outcome"), "done");
    assert_string_equal(field(run, "trigger"), "operator");
    assert_string_equal(field(run, "reason"), "asked for by an operator");
    assert_string_equal(field(run, "started_at"), started);
    assert_string_not_equal(field(run, "owner"), owner);
    assert_int_equal(number(run, "generation_from"), before);
    assert_int_equal(number(run, "generation"), fixture_generation(&fixture, 1));
    assert_true(fixture_generation(&fixture, 1) > before);
    freeReplyObject(all);
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
}

/* --- a coordinator dies, and a verification is asked for before the controller of the other one looks --- */

static void looks_every(const char *interval)
{
    struct error e = {""};
    char command[64];
    (void)snprintf(command, sizeof(command), "CONFIG SET check_interval %s", interval);
    must(client_ok(&fixture.client[1], &e, command), e);
}

static void die_and_verify(void)
{
    struct error e = {""};
    uint64_t until = clock_mono_us() + STEADY_MS * 1000ull;
    client_close(&fixture.client[0]);
    daemon_kill(&fixture.daemon[0]);
    while (client_ok(&fixture.client[1], &e, "TB.VERIFY " FILTER) !=
           ERR_OK) { /* until the lease has expired */
        assert_true(clock_mono_us() < until);
        clock_sleep_us(20000);
    }
}

static void live_again(void)
{
    struct error e = {""};
    looks_every("200ms");
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
}

static void test_history__of_a_run_that_died_while_it_was_planned_is_an_entry(void **state)
{
    (void)state;
    struct error e = {""};
    char started[64];
    redisReply *all;
    looks_every("1h");
    fixture_sql(fixture.db, "BEGIN");
    fixture_sql(fixture.db, "LOCK TABLE short_link");
    must(client_ok(&fixture.client[0], &e, "TB.REBUILD " FILTER), e);
    must(client_wait_status(&fixture.client[1], FILTER, "job_step", "plan", STEADY_MS, &e), e);
    must(client_status(&fixture.client[1], FILTER, "job_started_at", started, sizeof(started), &e), e);
    die_and_verify();
    fixture_sql(fixture.db, "COMMIT");
    const redisReply *run = newest(&all, 7);
    assert_string_equal(field(run, "outcome"), "done");
    assert_string_equal(field(run, "rows"), ""); /* none from the run before */
    run = all->element[1];
    assert_string_equal(field(run, "outcome"), "failed");
    assert_string_equal(field(run, "trigger"), "operator");
    assert_string_equal(field(run, "started_at"), started);
    assert_string_equal(field(run, "error"), "the coordinator that ran this job ended before the job did");
    assert_string_not_equal(field(run, "job_id"), field(all->element[0], "job_id"));
    freeReplyObject(all);
    live_again();
}

/* A verification's driver goes on with the rebuild. */
static void test_history__of_a_rebuild_that_a_verification_took_over_tells_of_the_rebuild(void **state)
{
    (void)state;
    redisReply *all;
    int64_t before = fixture_generation(&fixture, 1);
    looks_every("1h");
    hold_a_rebuild();
    die_and_verify();
    fixture_sql(fixture.db, "SELECT pg_advisory_unlock(7)");
    const redisReply *run = newest(&all, 8);
    assert_string_equal(field(run, "outcome"), "done");
    assert_string_equal(field(run, "trigger"), "operator");
    assert_true(number(run, "rows") >= ROWS);
    assert_int_equal(number(run, "generation_from"), before);
    assert_true(number(run, "generation") > (uint64_t)before);
    freeReplyObject(all);
    live_again();
}

/* What the verification before has looked up is not this one's. */
static void test_history__of_a_verification_that_was_aborted_tells_of_no_keys(void **state)
{
    (void)state;
    struct error e = {""};
    redisReply *all;
    fixture_sql(fixture.db, "SELECT pg_advisory_lock(7)");
    must(client_ok(&fixture.client[0], &e, "TB.VERIFY " FILTER), e);
    must(client_wait_status(&fixture.client[1], FILTER, "job_waiting_for", "an answer of Postgres", STEADY_MS,
                            &e),
         e);
    must(client_ok(&fixture.client[1], &e, "TB.ABORT " FILTER), e);
    const redisReply *run = newest(&all, 9);
    fixture_sql(fixture.db, "SELECT pg_advisory_unlock(7)");
    assert_string_equal(field(run, "outcome"), "aborted");
    assert_string_equal(field(run, "trigger"), "verify");
    assert_string_equal(field(run, "verified_keys"), "");
    assert_string_equal(field(run, "false_positive_rate"), "");
    freeReplyObject(all);
}

static void refused(const char *command, const char *expected)
{
    redisReply *r = client_command(&fixture.client[1], command);
    assert_non_null(r);
    assert_int_equal(r->type, REDIS_REPLY_ERROR);
    assert_string_equal(r->str, expected);
    freeReplyObject(r);
}

static void test_history__refuses_what_it_cannot_tell_of(void **state)
{
    (void)state;
    struct error e = {""};
    refused("TB.HISTORY", "ERR wrong number of arguments for 'tb.history' command");
    refused("TB.HISTORY none", "ERR not found");
    refused("TB.HISTORY " FILTER " COUNT", "ERR syntax error");
    refused("TB.HISTORY " FILTER " COUNT 0", "RANGE COUNT is not a whole number above 0");
    refused("TB.HISTORY " FILTER " COUNT -1", "RANGE COUNT is not a whole number above 0");
    refused("TB.HISTORY " FILTER " LAST 1", "ERR syntax error");
    must(client_ok(&fixture.client[1], &e, "BF.RESERVE plain 0.01 100"), e);
    redisReply *r = client_command(&fixture.client[1], "TB.HISTORY plain COUNT 18446744073709551615");
    assert_non_null(r);
    assert_int_equal(r->type, REDIS_REPLY_ARRAY);
    assert_int_equal(r->elements, 0);
    freeReplyObject(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_history__tells_of_the_first_build),
        cmocka_unit_test(test_history__tells_of_an_operators_rebuild),
        cmocka_unit_test(test_history__tells_of_an_abort),
        cmocka_unit_test(test_history__tells_of_a_failure),
        cmocka_unit_test(test_history__of_a_run_that_another_coordinator_finished_is_one_entry),
        cmocka_unit_test(test_history__of_a_run_that_died_while_it_was_planned_is_an_entry),
        cmocka_unit_test(test_history__of_a_rebuild_that_a_verification_took_over_tells_of_the_rebuild),
        cmocka_unit_test(test_history__of_a_verification_that_was_aborted_tells_of_no_keys),
        cmocka_unit_test(test_history__refuses_what_it_cannot_tell_of),
    };
    return fixture_run_tests(&fixture, &options, tests);
}
