/* SPDX-License-Identifier: MIT */
/* The list of coordinators: its entries, also for a coordinator that dies, sleeps, falls behind, or whose
 * Redis is away. */
#include "tests/integration/roll.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/http.h"

enum { ROWS = 2000, WAIT_MS = 30000 };

static struct fixture fixture;

static const struct fixture_options options = {.nodes = 2,
                                               .daemons = 3,
                                               .postgres = true,
                                               .rows = ROWS,
                                               .capacity = 5000,
                                               .rate = "0.001",
                                               .service = "threads = 2\n"};

static const char *field(unsigned by, unsigned d, const char *name)
{
    return roll_field(&fixture, by, d, NULL, name);
}

static void wait_all_serve(void)
{
    for (unsigned d = 0; d < 3; d++)
        roll_wait(&fixture, 0, d, NULL, "state", "serving", WAIT_MS);
}

static void restart(unsigned d)
{
    struct error e = {""};
    must(daemon_launch(&fixture.daemon[d], &e), e);
    fixture_reconnect(&fixture, d);
}

static void contains(const char *text, const char *wanted)
{
    if (strstr(text, wanted) == NULL)
        fail_msg("no \"%s\" in:\n%s", wanted, text);
}

/* --- what is said --- */

static void test_coordinators__each_lists_all_of_them(void **state)
{
    (void)state;
    wait_all_serve();
    for (unsigned by = 0; by < 3; by++) {
        assert_int_equal(roll_count(&fixture, by), 3);
        for (unsigned d = 0; d < 3; d++) {
            char text[160];
            assert_string_equal(field(by, d, "state"), "serving");
            assert_string_equal(field(by, d, "format"), "3");
            assert_string_equal(field(by, d, "redis"), "ok");
            assert_string_equal(field(by, d, "postgres"), "ok");
            roll_wait(&fixture, by, d, NULL, "jobs", "", WAIT_MS);
            assert_string_not_equal(field(by, d, "version"), "");
            assert_int_equal(strtol(field(by, d, "pid"), NULL, 10), fixture.daemon[d].process.pid);
            (void)snprintf(text, sizeof(text), "127.0.0.1:%u, 127.0.0.1:%u", fixture.redis[0].port,
                           fixture.redis[1].port);
            assert_string_equal(field(by, d, "nodes"), text);
            assert_in_range(strtol(field(by, d, "age_ms"), NULL, 10), 0, 5000);
        }
    }
    redisReply *r = client_command(&fixture.client[0], "TB.COORDINATORS nobody");
    assert_true(r != NULL && r->type == REDIS_REPLY_ERROR && strstr(r->str, "not found") != NULL);
    freeReplyObject(r);
    r = client_command(&fixture.client[0], "TB.COORDINATORS %s", ""); /* a name, too: not all filters */
    assert_true(r != NULL && r->type == REDIS_REPLY_ERROR && strstr(r->str, "not found") != NULL);
    freeReplyObject(r);
    r = client_command(&fixture.client[0], "TB.STATUS %s", "");
    assert_true(r != NULL && r->type == REDIS_REPLY_ERROR && strstr(r->str, "not found") != NULL);
    freeReplyObject(r);
    r = client_command(&fixture.client[0], "TB.COORDINATORS a b");
    assert_true(r != NULL && r->type == REDIS_REPLY_ERROR);
    freeReplyObject(r);
}

static void ask_everywhere(void)
{
    for (unsigned d = 0; d < 3; d++)
        for (unsigned i = 0; i < 4; i++) { /* one connection for each worker */
            struct client c = {0};
            struct error e = {""};
            int64_t n;
            must(client_open(&c, fixture.daemon[d].port, 5000, &e), e);
            must(client_integer(&c, &n, &e, "BF.EXISTS " FILTER " c1"), e);
            client_close(&c);
        }
}

/* Wait until coordinator @by reports that @d serves that epoch or a later one. The epoch also grows with each
 * writer that comes or goes. */
static void wait_epoch(unsigned by, unsigned d, const char *epoch)
{
    uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000), wanted = strtoull(epoch, NULL, 10);
    while (strtoull(roll_field(&fixture, by, d, FILTER, "epoch"), NULL, 10) < wanted) {
        if (clock_mono_us() > until)
            fail_msg("coordinator %u does not serve epoch %s", d, epoch);
        clock_sleep_us(50000);
    }
}

static void test_coordinators__say_which_epoch_each_serves(void **state)
{
    (void)state;
    char epoch[24];
    ask_everywhere();
    struct error e = {""};
    int64_t before = fixture_generation(&fixture, 0);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    must(client_wait_status_least(&fixture.client[0], FILTER, "generation", before + 1, WAIT_MS, &e), e);
    fixture_wait(&fixture, 0, "phase", "STEADY");
    fixture_wait(&fixture, 0, "job_state", "done");
    must(client_status(&fixture.client[0], FILTER, "epoch", epoch, sizeof(epoch), &e), e);
    for (unsigned d = 0; d < 3; d++) {
        wait_epoch(2, d, epoch);
        roll_wait(&fixture, 2, d, FILTER, "current", "1", WAIT_MS);
        roll_wait(&fixture, 2, d, NULL, "behind", "0", WAIT_MS);
        assert_string_equal(field(2, d, "filters"), "1");
    }
}

/* The output of the command line, which must succeed. */
static const char *prints(const char *arguments)
{
    const struct cli_result *r = fixture_cli(fixture.daemon[1].port, arguments);
    if (r->code != 0)
        fail_msg("%s: code %d\n%s", arguments, r->code, r->text);
    return r->text;
}

static void test_coordinators__on_the_command_line_and_over_http(void **state)
{
    (void)state;
    wait_all_serve();
    const char *text = prints("coordinators");
    contains(text, "COORDINATOR");
    contains(text, "VERSION");
    contains(text, "serving");
    assert_null(strstr(text, "gone"));
    contains(prints("coordinators " FILTER), "EPOCH");
    uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
    do /* until somebody has reported the latest epoch */
        text = prints("coordinators --json " FILTER);
    while (strstr(text, "\"current\":true") == NULL && clock_mono_us() < until);
    contains(text, "[{\"coordinator\":\"");
    contains(text, "\"jobs\":[]");
    contains(text, "\"current\":true");
    assert_int_equal(fixture_cli(fixture.daemon[1].port, "coordinators nobody")->code, 4);
    struct http_reply r = http_ask(fixture.daemon[0].http_port, "GET", "/v1/coordinators", NULL);
    assert_int_equal(r.status, 200);
    contains(r.body, "{\"coordinators\":[{\"coordinator\":\"");
    assert_null(strstr(r.body, "view_epoch"));
    http_reply_fini(&r);
    r = http_ask(fixture.daemon[0].http_port, "GET", "/v1/coordinators?filter=" FILTER, NULL);
    assert_int_equal(r.status, 200);
    contains(r.body, "\"view_epoch\":");
    http_reply_fini(&r);
    r = http_ask(fixture.daemon[0].http_port, "GET", "/v1/coordinators?filter=nobody", NULL);
    assert_int_equal(r.status, 404);
    http_reply_fini(&r);
}

/* --- who is gone --- */

static void test_coordinators__one_that_was_killed_is_listed_as_gone(void **state)
{
    (void)state;
    char id[128];
    wait_all_serve();
    (void)snprintf(id, sizeof(id), "%s", field(0, 2, "coordinator"));
    client_close(&fixture.client[2]);
    daemon_kill(&fixture.daemon[2]);
    roll_wait(&fixture, 0, 2, NULL, "state", "gone", WAIT_MS);
    assert_string_equal(field(1, 0, "state"), "serving");
    assert_string_equal(field(1, 1, "state"), "serving");
    restart(2);
    roll_wait(&fixture, 0, 2, NULL, "state", "serving", WAIT_MS);
    assert_int_equal(roll_count(&fixture, 0), 4); /* including the dead one, which is listed for an hour */
    assert_string_not_equal(field(0, 2, "coordinator"), id);
    /* A coordinator that ends cleanly leaves the list at once. */
    client_close(&fixture.client[2]);
    assert_true(daemon_stop(&fixture.daemon[2], 20000));
    assert_int_equal(roll_count(&fixture, 0), 3);
    restart(2);
    wait_all_serve();
}

static void test_coordinators__one_that_sleeps_is_gone_until_it_wakes(void **state)
{
    (void)state;
    char id[128];
    wait_all_serve();
    (void)snprintf(id, sizeof(id), "%s", field(0, 1, "coordinator"));
    daemon_pause(&fixture.daemon[1]);
    roll_wait(&fixture, 0, 1, NULL, "state", "gone", WAIT_MS);
    daemon_resume(&fixture.daemon[1]);
    roll_wait(&fixture, 0, 1, NULL, "state", "serving", WAIT_MS);
    assert_string_equal(field(0, 1, "coordinator"), id);
}

static void test_coordinators__an_emptied_redis_has_them_again_at_once(void **state)
{
    (void)state;
    struct client redis = {0};
    struct error e = {""};
    wait_all_serve();
    must(client_open(&redis, fixture.redis[0].port, WAIT_MS, &e), e);
    must(client_ok(&redis, &e, "FLUSHALL"), e);
    client_close(&redis);
    uint64_t began = clock_mono_us();
    wait_all_serve();
    assert_true(clock_mono_us() - began < 10 * 1000 * 1000);
    fixture_wait(&fixture, 0, "built", "1");
    fixture_wait(&fixture, 0, "job_state", "done");
    ask_everywhere();
    char epoch[24];
    must(client_status(&fixture.client[0], FILTER, "epoch", epoch, sizeof(epoch), &e), e);
    for (unsigned d = 0; d < 3; d++)
        wait_epoch(0, d, epoch);
}

/* Wait until the record of @id names the filter. The heartbeat that wrote the record again must do so: until
 * then whoever asks who has the filter finds nobody. */
static void wait_named(struct client *redis, const char *id)
{
    char first[24] = "";
    uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
    for (bool named = false; !named; clock_sleep_us(1000)) {
        redisReply *r =
            client_command(redis, "HMGET twinbloom:{twinbloom:coordinators}:%s uptime_ms epoch:" FILTER, id);
        assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY && clock_mono_us() < until);
        const char *uptime = r->element[0]->type == REDIS_REPLY_STRING ? r->element[0]->str : "";
        if (first[0] == '\0')
            (void)snprintf(first, sizeof(first), "%s", uptime);
        assert_string_equal(uptime, first);
        named = r->element[1]->type == REDIS_REPLY_STRING;
        freeReplyObject(r);
    }
}

static void test_coordinators__a_record_that_was_lost_is_whole_again(void **state)
{
    (void)state;
    struct client redis = {0};
    struct error e = {""};
    char epoch[24], id[128];
    int64_t n;
    wait_all_serve();
    ask_everywhere();
    must(client_status(&fixture.client[0], FILTER, "epoch", epoch, sizeof(epoch), &e), e);
    wait_epoch(0, 1, epoch);
    must(client_open(&redis, fixture.redis[0].port, WAIT_MS, &e), e);
    (void)snprintf(id, sizeof(id), "%s", field(0, 1, "coordinator"));
    must(client_integer(&redis, &n, &e, "DEL twinbloom:{twinbloom:coordinators}:%s", id), e);
    assert_int_equal(n, 1);
    wait_named(&redis, id);
    client_close(&redis);
    roll_wait(&fixture, 0, 1, NULL, "state", "serving", WAIT_MS);
    wait_epoch(0, 1, epoch); /* though the epoch did not change */
}

/* --- servers that are away --- */

static void await_logged(unsigned d, const char *line)
{
    uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
    for (bool is = false; !is; clock_sleep_us(50000)) {
        char *log = process_log(&fixture.daemon[d].process);
        is = strstr(log, line) != NULL;
        free(log);
        if (clock_mono_us() > until)
            fail_msg("%s is not logged", line);
    }
}

static void test_coordinators__a_node_that_is_away_is_said_by_all(void **state)
{
    (void)state;
    struct error e = {""};
    wait_all_serve();
    process_signal(&fixture.redis[1].process, SIGSTOP);
    for (unsigned d = 0; d < 3; d++) {
        uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
        char name[32];
        (void)snprintf(name, sizeof(name), "%u", fixture.redis[1].port);
        while (strstr(field(0, d, "redis"), name) == NULL && clock_mono_us() < until)
            clock_sleep_us(50000);
        contains(field(0, d, "redis"), name);
        assert_string_equal(field(0, d, "state"), "serving"); /* its heartbeats go on */
    }
    process_signal(&fixture.redis[1].process, SIGCONT);
    for (unsigned d = 0; d < 3; d++)
        roll_wait(&fixture, 0, d, NULL, "redis", "ok", WAIT_MS);
    temp_postgres_fini(&fixture.postgres);
    fixture.has_postgres = false;
    (void)e;
    for (unsigned d = 0; d < 3; d++) {
        uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
        while (strcmp(field(0, d, "postgres"), "ok") == 0 && clock_mono_us() < until)
            clock_sleep_us(50000);
        assert_string_not_equal(field(0, d, "postgres"), "ok");
        assert_string_equal(field(0, d, "state"), "serving");
        await_logged(d, "event=source_unusable filter=\"" FILTER "\" code=unreachable");
    }
}

static void test_coordinators__a_home_that_is_away_holds_nobody_up(void **state)
{
    (void)state;
    struct error e = {""};
    wait_all_serve();
    process_signal(&fixture.redis[0].process, SIGSTOP);
    for (unsigned i = 0; i < 20; i++) {
        uint64_t began = clock_mono_us();
        redisReply *r = client_command(&fixture.client[0], "PING");
        assert_true(r != NULL && r->type == REDIS_REPLY_STATUS);
        freeReplyObject(r);
        assert_true(clock_mono_us() - began < 3 * 1000 * 1000);
        clock_sleep_us(50000);
    }
    redisReply *r = client_command(&fixture.client[0], "TB.COORDINATORS");
    assert_true(r != NULL && r->type == REDIS_REPLY_ERROR);
    freeReplyObject(r);
    client_close(&fixture.client[1]);
    uint64_t began = clock_mono_us();
    assert_true(daemon_stop(&fixture.daemon[1], 30000)); /* a clean end does not wait for that node either */
    assert_true(clock_mono_us() - began < 20 * 1000 * 1000);
    await_logged(0, "event=heartbeat_failed code=");
    process_signal(&fixture.redis[0].process, SIGCONT);
    restart(1);
    wait_all_serve();
    (void)e;
}

/* --- messages that are not heard --- */

static void test_coordinators__an_event_loop_that_is_behind_loads_its_view(void **state)
{
    (void)state;
    struct client redis = {0};
    struct error e = {""};
    char epoch[24], *log;
    ask_everywhere();
    must(client_open(&redis, fixture.redis[0].port, WAIT_MS, &e), e);
    must(client_ok(&redis, &e, "ACL SETUSER default -subscribe -psubscribe"), e);
    freeReplyObject(client_command(&redis, "CLIENT KILL TYPE pubsub"));
    int64_t generation = fixture_generation(&fixture, 0);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    must(client_wait_status_least(&fixture.client[0], FILTER, "generation", generation + 1, WAIT_MS, &e), e);
    fixture_wait(&fixture, 0, "job_state", "done");
    must(client_status(&fixture.client[0], FILTER, "epoch", epoch, sizeof(epoch), &e), e);
    for (unsigned d = 0; d < 3; d++)
        wait_epoch(0, d, epoch);
    log = process_log(&fixture.daemon[1].process);
    contains(log, "event=view_outdated");
    free(log);
    must(client_ok(&redis, &e, "ACL SETUSER default +subscribe +psubscribe"), e);
    client_close(&redis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coordinators__each_lists_all_of_them),
        cmocka_unit_test(test_coordinators__say_which_epoch_each_serves),
        cmocka_unit_test(test_coordinators__on_the_command_line_and_over_http),
        cmocka_unit_test(test_coordinators__an_event_loop_that_is_behind_loads_its_view),
        cmocka_unit_test(test_coordinators__one_that_was_killed_is_listed_as_gone),
        cmocka_unit_test(test_coordinators__one_that_sleeps_is_gone_until_it_wakes),
        cmocka_unit_test(test_coordinators__an_emptied_redis_has_them_again_at_once),
        cmocka_unit_test(test_coordinators__a_record_that_was_lost_is_whole_again),
        cmocka_unit_test(test_coordinators__a_home_that_is_away_holds_nobody_up),
        cmocka_unit_test(test_coordinators__a_node_that_is_away_is_said_by_all),
    };
    return fixture_run_tests(&fixture, &options, tests);
}
