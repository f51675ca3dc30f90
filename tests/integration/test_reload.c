/* SPDX-License-Identifier: MIT */
/* SIGHUP: the daemon reads its file again while it serves. */
#include "tests/integration/fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 2000, CAPACITY = 4000, WAIT_MS = 30000, TRAFFIC_THREADS = 2, RELOADS = 60 };

static struct fixture fixture;

#define LINKS                                                                                                \
    "[filter " FILTER "]\ncapacity = 4000\nerror_rate = 0.01\ntable = short_link\nkey = code\n"              \
    "where = deleted_at IS NULL\ngrace = 100ms\nfollow = no\n"
#define QUICK "check_interval = 100ms\nthreads = 2\n"

static struct daemon_options options(const char *service, const char *filters)
{
    return (struct daemon_options){
        .nodes = fixture.node_list, .dsn = fixture.postgres.dsn, .service = service, .filters = filters};
}

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .postgres = true, .rows = ROWS});
    const struct daemon_options o = options(QUICK, LINKS);
    must(daemon_start(&fixture.daemon[0], &o, &e), e);
    fixture_reconnect(&fixture, 0);
    must(client_wait_status(&fixture.client[0], FILTER, "built", "1", WAIT_MS, &e), e);
    must(client_wait_status(&fixture.client[0], FILTER, "job_state", "done", WAIT_MS, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

static enum err reload(const char *service, const char *filters, struct error *e)
{
    const struct daemon_options o = options(service, filters);
    must(daemon_rewrite(&fixture.daemon[0], &o, e), *e);
    return daemon_reload(&fixture.daemon[0], e);
}

/* Restore the configuration of setup(). */
static int restore(void **state)
{
    (void)state;
    struct error e = {""};
    must(reload(QUICK, LINKS, &e), e);
    must(client_wait_status(&fixture.client[0], FILTER, "job_state", "done", WAIT_MS, &e), e);
    return 0;
}

static void status_is(const char *filter, const char *field, const char *wanted)
{
    struct error e = {""};
    char value[256];
    must(client_status(&fixture.client[0], filter, field, value, sizeof(value), &e), e);
    assert_string_equal(value, wanted);
}

static void refused_with(const char *service, const char *filters, const char *why)
{
    struct error e = {""};
    enum err err = reload(service, filters, &e);
    if (err != ERR_CONFIG || strstr(e.text, why) == NULL || strstr(e.text, "nothing changed") == NULL)
        fail_msg("expected \"%s\": %s", why, err == ERR_OK ? "accepted" : e.text);
}

static void test_reload__a_lowered_threshold_starts_an_expansion(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t before = fixture_generation(&fixture, 0);
    clock_sleep_us(500000);
    assert_int_equal(fixture_generation(&fixture, 0), before);
    must(reload(QUICK, LINKS "expand_at = 0.3\n", &e), e);
    must(client_wait_status_least(&fixture.client[0], FILTER, "generation", before + 1, WAIT_MS, &e), e);
    status_is(FILTER, "job_trigger", "total");
    status_is(FILTER, "expand_at_ratio", "0.3");
    fixture_all_present(&fixture, 0, 0, ROWS);
}

static void test_reload__a_threshold_in_bytes_starts_an_expansion(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t before = fixture_generation(&fixture, 0);
    must(reload(QUICK, LINKS "expand_at_bytes = 1KiB\n", &e), e);
    must(client_wait_status_least(&fixture.client[0], FILTER, "generation", before + 1, WAIT_MS, &e), e);
    status_is(FILTER, "job_trigger", "bytes");
}

static void test_reload__the_keeper_does_not_sleep_through_it(void **state)
{
    (void)state;
    struct error e = {""};
    must(reload("check_interval = 1h\nthreads = 2\n", LINKS, &e), e);
    clock_sleep_us(300000); /* now the controller sleeps for an hour */
    must(reload("check_interval = 1h\nthreads = 2\n", LINKS "[filter early]\ncapacity = 10\n", &e), e);
    must(client_wait_status(&fixture.client[0], "early", "state", "serving", WAIT_MS, &e), e);
}

static void test_reload__filters_come_and_go(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t n;
    struct client *c = &fixture.client[0];
    must(reload(QUICK, LINKS "[filter new.one]\ncapacity = 500\nerror_rate = 0.01\n", &e), e);
    must(client_wait_status(c, "new.one", "state", "serving", WAIT_MS, &e), e);
    status_is("new.one", "capacity", "500");
    must(client_integer(c, &n, &e, "BF.ADD new.one a"), e);
    assert_int_equal(n, 1);
    must(reload(QUICK, LINKS, &e), e);
    char value[64];
    assert_int_equal(client_status(c, "new.one", "expand_at_ratio", value, sizeof(value), &e), ERR_NOT_FOUND);
    must(client_integer(c, &n, &e, "BF.EXISTS new.one a"), e);
    assert_int_equal(n, 1);
    redisReply *r = client_command(c, "CONFIG GET filter.new.one.*");
    assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements == 0);
    freeReplyObject(r);
}

static void test_reload__a_bad_file_changes_nothing(void **state)
{
    (void)state;
    struct error e = {""};
    char where[PATH_MAX + 128];
    (void)snprintf(where, sizeof(where), "%s:4: unknown key 'treads' in [service]; did you mean 'threads'?",
                   fixture.daemon[0].config);
    refused_with("treads = 2\n", LINKS "expand_at = 0.2\n[filter never]\ncapacity = 1\n", where);
    refused_with(QUICK, LINKS "expand_at = 2\n", "'expand_at' is 2, out of bounds");
    refused_with(QUICK, LINKS "schedule = never\n", "write five fields");
    status_is(FILTER, "expand_at_ratio", "0.8");
    assert_int_equal(client_status(&fixture.client[0], "never", "state", where, sizeof(where), &e),
                     ERR_REFUSED);
    must(rename(fixture.daemon[0].config, where) == 0 ? ERR_OK : ERR_IO, e);
    assert_int_equal(daemon_reload(&fixture.daemon[0], &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "cannot be opened"));
    (void)remove(where);
}

static void test_reload__what_cannot_change_refuses_the_whole(void **state)
{
    (void)state;
    refused_with("check_interval = 100ms\nthreads = 3\n", LINKS "expand_at = 0.2\n",
                 "'threads' cannot change in a running daemon; restart it");
    status_is(FILTER, "expand_at_ratio", "0.8");
    struct error e = {""};
    struct daemon_options o = options("check_interval = 100ms\nthreads = 1\n", LINKS);
    o.redis = "timeout = 3s\nprefix = other\n";
    must(daemon_rewrite(&fixture.daemon[0], &o, &e), e);
    assert_int_equal(daemon_reload(&fixture.daemon[0], &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "'threads', 'prefix', 'redis.timeout' cannot change"));
}

/* A file is accepted even if a source in it does not exist; the controller reports that. The controller does
 * not use what it knows of the former source, which would be valid for 10 s. */
static void test_reload__a_source_that_does_not_fit_is_a_problem_of_its_filter(void **state)
{
    (void)state;
    struct error e = {""};
    must(reload(QUICK, LINKS "[filter astray]\ncapacity = 10\ntable = no_such_table\nkey = k\n", &e), e);
    must(client_wait_status(&fixture.client[0], "astray", "ready", "0", WAIT_MS, &e), e);
    char text[256] = "";
    for (int i = 0; i < 300 && strstr(text, "no_such_table does not exist") == NULL; i++) {
        clock_sleep_us(20000);
        must(client_status(&fixture.client[0], "astray", "postgres", text, sizeof(text), &e), e);
    }
    assert_non_null(strstr(text, "no_such_table does not exist"));
    must(reload(QUICK, LINKS "[filter astray]\ncapacity = 10\ntable = short_link\nkey = code\n", &e), e);
    must(client_wait_status(&fixture.client[0], "astray", "ready", "1", WAIT_MS, &e), e);
    must(client_wait_status(&fixture.client[0], "astray", "job_state", "done", WAIT_MS, &e), e);
    must(reload(QUICK, LINKS "[filter astray]\ncapacity = 10\ntable = other_table\nkey = k\n", &e), e);
    must(client_wait_status(&fixture.client[0], "astray", "ready", "0", 5000, &e), e);
}

/* A job keeps the configuration that it began with, even if its filter is no longer configured. */
static void test_reload__leaves_a_running_job_alone(void **state)
{
    (void)state;
    struct error e = {""};
    struct client *c = &fixture.client[0];
    int64_t before = fixture_generation(&fixture, 0);
    fixture_sql(fixture.db, "BEGIN; INSERT INTO short_link (code, url) VALUES ('slow', 'x')");
    must(client_ok(c, &e, "TB.REBUILD " FILTER), e);
    must(client_wait_status(c, FILTER, "job_step", "settle", WAIT_MS, &e), e);
    must(reload(QUICK, "", &e), e);
    must(reload(QUICK "max_clients = 77\n", "", &e), e);
    status_is(FILTER, "job_state", "running");
    fixture_sql(fixture.db, "COMMIT");
    must(client_wait_status(c, FILTER, "job_state", "done", WAIT_MS, &e), e);
    assert_int_equal(fixture_generation(&fixture, 0), before + 1);
    int64_t n;
    must(client_integer(c, &n, &e, "BF.EXISTS " FILTER " slow"), e);
    assert_int_equal(n, 1);
}

/* --- under traffic --- */

struct traffic {
    atomic_bool *stop;
    uint64_t checks, wrong;
    bool failed;
    struct error error;
    pthread_t thread;
};

static void *drive(void *arg)
{
    struct traffic *t = arg;
    struct client c = {0};
    uint64_t present = 0;
    t->failed = client_open(&c, fixture.daemon[0].port, WAIT_MS, &t->error) != ERR_OK;
    while (!t->failed && !atomic_load(t->stop)) {
        t->failed = client_mexists(&c, FILTER, fixture_code, 0, 200, &present, NULL, &t->error) != ERR_OK ||
                    client_madd(&c, "plain", fixture_code, t->checks, 20, &t->error) != ERR_OK ||
                    client_ok(&c, &t->error, "CONFIG SET page_rows %d verify_sample %d",
                              100 + (int)(t->checks / 200 % 100), 1000) != ERR_OK;
        t->wrong += 200 - present;
        t->checks += 200;
    }
    client_close(&c);
    return NULL;
}

static void test_reload__under_traffic_no_answer_changes(void **state)
{
    (void)state;
    static const char *const services[] = {QUICK, QUICK "timeout = 5s\nmax_clients = 50\n"};
    static const char *const filters[] = {
        LINKS, LINKS "on_lost = error\nexpand_at = 0.9\n[filter plain]\ncapacity = 9000\n",
        "[filter plain]\ncapacity = 9000\n"};
    struct error e = {""};
    atomic_bool stop = false;
    struct traffic t[TRAFFIC_THREADS] = {0};
    for (unsigned i = 0; i < TRAFFIC_THREADS; i++) {
        t[i].stop = &stop;
        assert_int_equal(pthread_create(&t[i].thread, NULL, drive, &t[i]), 0);
    }
    enum err err = ERR_OK;
    for (unsigned i = 0; i < RELOADS && err == ERR_OK; i++) {
        err = reload(services[i % 2], filters[i % 3], &e);
        if (i % 20 == 10 && err == ERR_OK) /* start a rebuild; BUSY is allowed */
            freeReplyObject(client_command(&fixture.client[0], "TB.REBUILD " FILTER));
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < TRAFFIC_THREADS; i++)
        assert_int_equal(pthread_join(t[i].thread, NULL), 0);
    must(err, e);
    for (unsigned i = 0; i < TRAFFIC_THREADS; i++) {
        if (t[i].failed)
            fail_msg("%s", t[i].error.text);
        assert_int_equal(t[i].wrong, 0);
        assert_true(t[i].checks > 0);
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, restore)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_reload__a_threshold_in_bytes_starts_an_expansion),
        TEST(test_reload__a_lowered_threshold_starts_an_expansion),
        TEST(test_reload__the_keeper_does_not_sleep_through_it),
        TEST(test_reload__filters_come_and_go),
        TEST(test_reload__a_bad_file_changes_nothing),
        TEST(test_reload__what_cannot_change_refuses_the_whole),
        TEST(test_reload__a_source_that_does_not_fit_is_a_problem_of_its_filter),
        TEST(test_reload__leaves_a_running_job_alone),
        TEST(test_reload__under_traffic_no_answer_changes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
