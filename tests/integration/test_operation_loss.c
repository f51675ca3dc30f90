/* SPDX-License-Identifier: MIT */
/* Checks and adds of a coordinator whose shards, view or servers are gone; counts. */
#include "tests/integration/coordinator.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/number.h"

/* What must succeed has PATIENT_MS, on however busy a machine. */
enum { SHARDS = 6, PATIENT_MS = 15000, RECOVER_MS = 30000, LATE_TURNS = 30 /* of 10 ms */ };

static struct servers servers;
static struct filter f;
static struct coordinator one, two;

static const struct filter_policy sourced = {.configured = true, .sourced = true};
static const struct filter_policy strict = {.configured = true, .sourced = true, .error_on_lost = true};
static const struct filter_policy reserved = {.configured = false};

static int start(void **state)
{
    (void)state;
    return servers_start(&servers, 2);
}

static int stop(void **state)
{
    (void)state;
    return servers_stop(&servers);
}

static void open_patient(struct coordinator *c, struct filter_policy policy)
{
    coordinator_open(c, &servers, policy);
    coordinator_give(c, PATIENT_MS);
}

static int setup(void **state)
{
    (void)state;
    servers_flush(&servers);
    filter_init(&f, &servers, "f");
    filter_make(&f, SHARDS);
    open_patient(&one, sourced);
    open_patient(&two, sourced);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    coordinator_close(&one);
    coordinator_close(&two);
    filter_fini(&f);
    return 0;
}

static const struct generation *current(void)
{
    return &f.view.slot[f.view.current];
}

static uint32_t shard_of(unsigned key)
{
    char text[16];
    struct key_place place;
    int n = snprintf(text, sizeof(text), "k%u", key);
    hash_place(&current()->layers[0].geometry, hash_key(current()->seed, text, (size_t)n), &place);
    return place.shard;
}

static void delete_shard(uint32_t shard)
{
    const struct key_name *name = filter_shard(&f, current()->number, shard, f.view.epoch);
    assert_int_equal(servers_integer(&servers, filter_node(&f, shard), "DEL %b", name->text, name->length),
                     1);
}

/* --- lost shards and views --- */

static void test_operation__says_maybe_for_keys_of_a_lost_shard(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 300);
    delete_shard(shard_of(0));
    unsigned of_shard = 0;
    for (unsigned i = 0; i < 300; i++)
        of_shard += shard_of(1000 + i) == shard_of(0);
    assert_true(of_shard > 0);
    assert_int_equal(coordinator_check(&one, 0, 300, KEY_YES), 300);
    assert_int_equal(coordinator_check(&one, 1000, 300, KEY_LOST), 0);
    for (unsigned i = 0; i < 300; i++)
        if (shard_of(1000 + i) == shard_of(0))
            assert_int_equal(one.result[i], KEY_YES);
    assert_in_range(coordinator_results(&one, 300, KEY_NO), 300 - of_shard - 5, 300 - of_shard);
    assert_int_equal(one.lost, 1); /* told once */
    assert_int_equal(one.lost_generation, 2);
    coordinator_add(&one, 0, 300); /* of a filter with a source: the row is the truth */
    assert_int_equal(coordinator_results(&one, 300, KEY_YES), 0);
    assert_int_equal(coordinator_check(&one, 0, 300, KEY_YES), 300);
}

static void test_operation__gives_an_error_for_a_lost_shard_where_that_is_wanted(void **state)
{
    (void)state;
    coordinator_close(&two);
    open_patient(&two, strict);
    coordinator_add(&two, 0, 300);
    delete_shard(shard_of(0));
    for (int kind = OPERATION_CHECK; kind <= (int)OPERATION_ADD; kind++) {
        assert_int_equal(coordinator_ask(&two, (enum operation_kind)kind, 0, 300), ERR_OK);
        for (unsigned i = 0; i < 300; i++)
            assert_int_equal(two.result[i] == KEY_LOST, shard_of(i) == shard_of(0));
    }
    assert_int_equal(two.lost, 1);
}

static void test_operation__acknowledges_no_add_to_a_lost_shard_without_a_source(void **state)
{
    (void)state;
    coordinator_close(&two);
    open_patient(&two, reserved);
    coordinator_add(&two, 0, 300);
    delete_shard(shard_of(0));
    for (int round = 0; round < 2; round++) { /* the first may leave a zombie for the second */
        assert_int_equal(coordinator_ask(&two, OPERATION_ADD, 0, 300), ERR_OK);
        for (unsigned i = 0; i < 300; i++)
            assert_int_equal(two.result[i] == KEY_LOST, shard_of(i) == shard_of(0));
        assert_int_equal(coordinator_check(&two, 0, 300, KEY_YES), 300);
    }
    assert_int_equal(two.lost, 1);
}

/* Behind a cutover the old generation takes adds and answers nothing: its loss is not one of the generation
 * in use. */
static void test_operation__says_which_generation_lost_a_shard(void **state)
{
    (void)state;
    filter_open(&f, SHARDS, true);
    uint64_t old = current()->number;
    filter_cutover(&f, true);
    const struct generation *before = &f.view.slot[1 - f.view.current];
    assert_int_equal(before->number, old);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        const struct key_name *name = filter_shard(&f, old, shard, f.view.epoch);
        assert_int_equal(
            servers_integer(&servers, filter_node(&f, shard), "DEL %b", name->text, name->length), 1);
    }
    coordinator_add(&one, 0, 50);
    assert_int_equal(one.lost_generation, old);
    assert_int_equal(coordinator_check(&one, 0, 50, KEY_YES), 50);
    delete_shard(shard_of(0));
    assert_int_equal(coordinator_check(&one, 0, 1, KEY_YES), 1);
    assert_int_equal(one.lost_generation, current()->number);
}

/* It may lie under a later epoch, where others read it: home came back with an older view. */
static void test_operation__acknowledges_no_add_to_a_lost_shard_before_that_is_sure(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 20);
    delete_shard(shard_of(0));
    one.unsure = true;
    assert_int_equal(coordinator_check(&one, 0, 1, KEY_YES), 1);
    coordinator_give(&one, COORDINATOR_TIMEOUT_MS);
    assert_int_equal(coordinator_ask(&one, OPERATION_ADD, 0, 1), ERR_TIMEOUT);
    coordinator_give(&one, PATIENT_MS);
    one.unsure = false;
    coordinator_add(&one, 0, 1);
    assert_int_equal(coordinator_results(&one, 1, KEY_NO), 1);
}

/* At the end of their time: the view might come back. */
static void refuses_adds(struct coordinator *c)
{
    coordinator_give(c, COORDINATOR_TIMEOUT_MS);
    assert_int_equal(coordinator_ask(c, OPERATION_ADD, 0, 10), ERR_LOST);
    coordinator_give(c, PATIENT_MS);
}

static void test_operation__never_says_no_once_the_view_is_gone(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 300);
    coordinator_close(&two);
    open_patient(&two, reserved);
    assert_int_equal(coordinator_check(&two, 0, 300, KEY_YES), 300);
    assert_int_equal(servers_integer(&servers, 0, "DEL " PREFIX ":{f}:view"), 1);
    assert_int_equal(coordinator_check(&one, 0, 300, KEY_YES), 300);
    servers_flush(&servers);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(coordinator_check(&one, 0, 600, KEY_YES), 600);
        assert_int_equal(coordinator_check(&two, 0, 600, KEY_YES), 600);
        refuses_adds(&two);
        refuses_adds(&one);
    }
    assert_true(one.lost > 0);
    assert_true(two.lost > 0);
    assert_int_equal(one.lost_generation, 0); /* the whole view */
    assert_int_equal(servers_integer(&servers, 0, "EXISTS " PREFIX ":{f}:view"), 0);
}

/* Its shards are there, and whoever still holds the view reads them: "no" is right for what was not written.
 */
static void test_operation__acknowledges_no_add_once_the_view_is_gone(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 10);
    filter_open(&f, 2, true);
    assert_int_equal(coordinator_check(&two, 0, 10, KEY_YES), 10);
    assert_int_equal(servers_integer(&servers, 0, "DEL " PREFIX ":{f}:view"), 1);
    coordinator_give(&one, COORDINATOR_TIMEOUT_MS);
    assert_int_equal(coordinator_ask(&one, OPERATION_ADD, 100, 10), ERR_LOST);
    assert_in_range(one.late_turns, 0, LATE_TURNS);
    assert_non_null(strstr(one.error, "nothing was acknowledged"));
    assert_int_equal(one.lost_generation, 0);
    assert_int_equal(coordinator_check(&two, 100, 10, KEY_NO), 10);
}

static void test_operation__never_says_no_for_a_configured_filter_without_a_view(void **state)
{
    (void)state;
    servers_flush(&servers);
    assert_int_equal(coordinator_check(&one, 0, 300, KEY_YES), 300);
    coordinator_close(&two);
    open_patient(&two, strict);
    assert_int_equal(coordinator_ask(&two, OPERATION_CHECK, 0, 10), ERR_OK);
    assert_int_equal(coordinator_results(&two, 10, KEY_LOST), 10);
}

/* --- a server that is away --- */

/* The status of one operation, which must come within the time that it has. */
static enum err ask_in_time(struct coordinator *c, enum operation_kind kind, unsigned first)
{
    coordinator_give(c, COORDINATOR_TIMEOUT_MS);
    enum err status = coordinator_ask(c, kind, first, 50);
    assert_in_range(c->late_turns, 0, LATE_TURNS);
    coordinator_give(c, PATIENT_MS);
    return status;
}

static enum err check_in_time(struct coordinator *c)
{
    return ask_in_time(c, OPERATION_CHECK, 0);
}

static enum err add_in_time(struct coordinator *c)
{
    return ask_in_time(c, OPERATION_ADD, 100);
}

static void wait_recovered(struct coordinator *c)
{
    uint64_t until = clock_mono_us() + RECOVER_MS * 1000ull;
    enum err status;
    while ((status = coordinator_ask(c, OPERATION_CHECK, 0, 50)) != ERR_OK)
        if (clock_mono_us() > until)
            fail_msg("no recovery: %s (%s)", error_name(status), c->error);
}

/* Whoever sends the add makes it; one that had been there was lost. */
static void test_operation__an_add_finds_no_filter_where_a_configured_one_was_never_made(void **state)
{
    (void)state;
    static const struct filter_policy configured = {.configured = true};
    coordinator_add(&one, 0, 10);
    coordinator_close(&two);
    servers_flush(&servers);
    open_patient(&two, configured);
    assert_int_equal(coordinator_ask(&two, OPERATION_ADD, 0, 10), ERR_NOT_FOUND);
    assert_int_equal(coordinator_check(&two, 0, 10, KEY_YES), 10);
}

static void test_operation__gives_up_in_time_while_redis_does_not_answer(void **state)
{
    (void)state;
    for (unsigned node = 0; node < 2; node++) {
        coordinator_add(&one, 0, 50);
        process_signal(&servers.redis[node].process, SIGSTOP);
        enum err first = check_in_time(&one);
        enum err second = check_in_time(&one);
        enum err fresh =
            check_in_time(&two); /* on the second node: knows the view, has no connection there */
        process_signal(&servers.redis[node].process, SIGCONT);
        assert_true(first == ERR_TIMEOUT || first == ERR_UNREACHABLE);
        assert_true(second == ERR_TIMEOUT || second == ERR_UNREACHABLE);
        assert_true(fresh == ERR_TIMEOUT || fresh == ERR_UNREACHABLE);
        wait_recovered(&one);
        wait_recovered(&two);
        assert_int_equal(coordinator_check(&one, 0, 50, KEY_YES), 50);
    }
}

static void test_operation__gives_up_in_time_while_redis_is_down_and_recovers(void **state)
{
    (void)state;
    for (unsigned down = 2; down > 0; down--) { /* a node with shards alone, then the one with the view */
        struct error e = {""};
        unsigned node = down - 1;
        coordinator_add(&one, 0, 50);
        unsigned lost = one.lost;
        temp_redis_kill(&servers.redis[node]);
        assert_int_equal(check_in_time(&one), ERR_UNREACHABLE);
        assert_non_null(strstr(one.error, servers.nodes.node[node].name));
        assert_int_equal(check_in_time(&two), ERR_UNREACHABLE);
        assert_int_equal(add_in_time(&one), ERR_UNREACHABLE);
        must(temp_redis_restart(&servers.redis[node], false, &e), e);
        client_close(&servers.client[node]);
        must(client_open(&servers.client[node], servers.redis[node].port, 5000, &e), e);
        wait_recovered(&one);
        assert_int_equal(coordinator_check(&one, 0, 50, KEY_YES), 50); /* it came back empty: maybe */
        assert_true(one.lost > lost);
    }
}

/* --- how long Redis takes --- */

/* What Redis showed of checks, and what the test's own clock did: no command took longer than a check, or
 * than two where it ended with the next one. */
struct watched {
    struct latency_figures figures;
    double ms, longest_ms;
};

/* Check for 300 ms, and until there are @samples. */
static void watch_checks(struct latency_reader *reader, uint64_t samples, struct watched *out)
{
    uint64_t began = clock_mono_us(), now = began;
    *out = (struct watched){.longest_ms = 0};
    do {
        struct latency_reader glance = *reader;
        uint64_t before = now;
        (void)coordinator_check(&one, 0, 2, KEY_YES);
        now = clock_mono_us();
        double ms = (double)(now - before) / 1000;
        out->longest_ms = ms > out->longest_ms ? ms : out->longest_ms;
        latency_read(&one.latency, &glance, &out->figures);
    } while (now - began < 300 * 1000 || out->figures.samples < samples);
    out->ms = (double)(now - began) / 1000;
    latency_read(&one.latency, reader, &out->figures);
    /* One a node and millisecond, and buckets are within an eighth. */
    assert_true((double)out->figures.samples <= 2.2 * out->ms + 100);
    assert_true(out->figures.p99_ms <= 2 * out->longest_ms * 1.125 + 1);
}

static void test_latency__shows_a_redis_that_is_paused(void **state)
{
    (void)state;
    struct latency_reader reader = {0};
    struct watched quick, slow;
    coordinator_add(&one, 0, 2);
    watch_checks(&reader, 20, &quick);
    unsigned tries = 0;
    do { /* again where the machine came so late to the first check that half of the pause was over */
        for (unsigned node = 0; node < servers.count; node++)
            assert_string_equal(servers_text(&servers, node, "CLIENT PAUSE 200 ALL"), "OK");
        watch_checks(&reader, 100, &slow);
    } while (slow.figures.p99_ms <= 150 && ++tries < 5);
    assert_true(slow.figures.p99_ms > 150);
}

/* A command that is never answered counts too. */
static void test_latency__shows_a_redis_that_does_not_answer(void **state)
{
    (void)state;
    struct latency_reader reader = {0};
    struct latency_figures figures;
    coordinator_add(&one, 0, 50);
    latency_read(&one.latency, &reader, &figures);
    coordinator_run(&one, 5);
    for (unsigned node = 0; node < servers.count; node++)
        process_signal(&servers.redis[node].process, SIGSTOP);
    coordinator_give(&one, 3000); /* so that the nodes are given up by then */
    assert_int_equal(coordinator_ask(&one, OPERATION_CHECK, 0, 50), ERR_UNREACHABLE);
    coordinator_give(&one, PATIENT_MS);
    for (unsigned node = 0; node < servers.count; node++)
        process_signal(&servers.redis[node].process, SIGCONT);
    latency_read(&one.latency, &reader, &figures);
    assert_true(figures.samples > 0);
    assert_true(figures.p99_ms > 200);
    wait_recovered(&one);
}

/* --- counts --- */

static long long counted(const char *field)
{
    const char *text = servers_text(&servers, 0, "HGET " PREFIX ":{f}:count %s", field);
    uint64_t n = 0;
    return number_u64(text, strlen(text), &n) ? (long long)n : 0;
}

static long long counted_by_shard(uint64_t generation, uint32_t shards)
{
    long long sum = 0;
    for (uint32_t i = 0; i < shards; i++) {
        char field[32];
        (void)snprintf(field, sizeof(field), "%llu.0.%u", (unsigned long long)generation, i);
        sum += counted(field);
    }
    return sum;
}

/* Counts of single shards go out once a second; Redis may be slow to take them. */
static void expect_counts(uint64_t generation, uint32_t shards, long long wanted)
{
    char field[32];
    (void)snprintf(field, sizeof(field), "%llu.0", (unsigned long long)generation);
    for (uint64_t until = clock_mono_us() + RECOVER_MS * 1000ull; clock_mono_us() < until;) {
        if (counted(field) == wanted && counted_by_shard(generation, shards) == wanted)
            break;
        coordinator_run(&one, 100);
        if (two.base != NULL)
            coordinator_run(&two, 100);
    }
    assert_int_equal(counted(field), wanted);
    assert_int_equal(counted_by_shard(generation, shards), wanted);
}

static void test_catalog__counts_new_keys_in_redis(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 400);
    unsigned fresh = coordinator_results(&one, 400, KEY_YES);
    coordinator_add(&one, 0, 400);
    coordinator_add(&two, 0, 450);
    fresh += coordinator_results(&two, 450, KEY_YES);
    coordinator_run(&one, 1300);
    coordinator_run(&two, 1300);
    expect_counts(2, SHARDS, fresh);
}

static void test_catalog__counts_both_generations_while_one_is_built(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 200);
    unsigned fresh = coordinator_results(&one, 200, KEY_YES);
    filter_open(&f, 3, true);
    coordinator_add(&one, 200, 200);
    unsigned late = coordinator_results(&one, 200, KEY_YES);
    coordinator_run(&one, 1300);
    expect_counts(2, SHARDS, fresh + late);
    assert_in_range(counted("3.0"), 195, 200);
    expect_counts(3, 3, counted("3.0"));
}

/* More shards than are sent at one time, by a view that is replaced before it is their turn, and by one that
 * stays. */
static void test_catalog__counts_every_one_of_many_shards(void **state)
{
    (void)state;
    enum { MANY = 2000 };
    servers_flush(&servers);
    filter_fini(&f);
    filter_init(&f, &servers, "f");
    filter_make(&f, MANY);
    coordinator_add(&one, 0, 1000);
    unsigned fresh = coordinator_results(&one, 1000, KEY_YES);
    assert_true(fresh > 900);
    filter_open(&f, MANY, true);
    assert_int_equal(coordinator_check(&one, 0, 1000, KEY_YES), 1000);
    assert_true(one.retried);
    coordinator_run(&one, 500);
    expect_counts(2, MANY, fresh);
    coordinator_add(&one, 1000, 1000);
    coordinator_run(&one, 1300);
    assert_in_range(counted("3.0"), 990, 1000);
    expect_counts(3, MANY, counted("3.0"));
    expect_counts(2, MANY, counted("2.0"));
}

static void raise_flag(void *arg)
{
    *(bool *)arg = true;
}

static void test_catalog_flush__calls_back_when_redis_has_the_counts(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 200);
    unsigned fresh = coordinator_results(&one, 200, KEY_YES);
    bool flushed = false;
    catalog_flush(one.catalog, raise_flag, &flushed);
    while (!flushed)
        assert_int_equal(event_base_loop(one.base, EVLOOP_ONCE), 0);
    assert_int_equal(counted("2.0"), fresh);
    flushed = false;
    expect_counts(2, SHARDS, fresh);                  /* those of single shards are there, too */
    coordinator_run(&one, 100);                       /* and their answers here */
    catalog_flush(one.catalog, raise_flag, &flushed); /* nothing is under way: at once */
    assert_true(flushed);
}

/* --- logins --- */

/* What coordinator two gets as another user, in another database. */
static enum err ask_as(const char *user, const char *password, unsigned database)
{
    struct servers other = servers;
    for (unsigned i = 0; i < other.count; i++) {
        struct node *n = &other.nodes.node[i];
        (void)snprintf(n->user, sizeof(n->user), "%s", user);
        (void)snprintf(n->password, sizeof(n->password), "%s", password);
        n->database = database;
    }
    coordinator_close(&two);
    coordinator_open(&two, &other, sourced); /* it is refused within that time */
    enum err code = coordinator_ask(&two, OPERATION_CHECK, 0, 10);
    coordinator_close(&two); /* it knows the nodes of this function */
    return code;
}

/* On a busy machine its time may be over before Redis has said why. */
static void refused_as(const char *user, const char *password, unsigned database, const char *why)
{
    for (int i = 0; i < 20 && (i == 0 || strstr(two.error, why) == NULL); i++)
        assert_int_equal(ask_as(user, password, database), ERR_UNREACHABLE);
    if (strstr(two.error, why) == NULL)
        fail_msg("refused, but not by %s: %s", why, two.error);
}

static void test_login__that_fails_is_an_error_and_nothing_is_asked_without_it(void **state)
{
    (void)state;
    for (unsigned i = 0; i < servers.count; i++)
        assert_string_equal(servers_text(&servers, i, "ACL SETUSER app on >secret ~* +@all"), "OK");
    coordinator_add(&one, 0, 10);
    assert_int_equal(ask_as("app", "secret", 0), ERR_OK);
    assert_int_equal(coordinator_results(&two, 10, KEY_YES), 10);
    refused_as("app", "wrong", 0, "WRONGPASS");
    refused_as("", "wrong", 0, "ERR AUTH");
    for (unsigned i = 0; i < servers.count; i++)
        assert_string_equal(servers_text(&servers, i, "CONFIG SET requirepass common"), "OK");
    assert_int_equal(ask_as("", "common", 0), ERR_OK);
    refused_as("", "", 0, "NOAUTH");
    for (unsigned i = 0; i < servers.count; i++)
        assert_string_equal(servers_text(&servers, i, "CONFIG SET requirepass \"\""), "OK");
    /* The filter is in database 0, where a connection is whose SELECT was refused. */
    refused_as("app", "secret", 9999, "DB index is out of range");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_operation__says_maybe_for_keys_of_a_lost_shard),
        TEST(test_operation__gives_an_error_for_a_lost_shard_where_that_is_wanted),
        TEST(test_operation__acknowledges_no_add_to_a_lost_shard_without_a_source),
        TEST(test_operation__says_which_generation_lost_a_shard),
        TEST(test_operation__acknowledges_no_add_to_a_lost_shard_before_that_is_sure),
        TEST(test_operation__never_says_no_once_the_view_is_gone),
        TEST(test_operation__acknowledges_no_add_once_the_view_is_gone),
        TEST(test_operation__never_says_no_for_a_configured_filter_without_a_view),
        TEST(test_operation__an_add_finds_no_filter_where_a_configured_one_was_never_made),
        TEST(test_operation__gives_up_in_time_while_redis_does_not_answer),
        TEST(test_operation__gives_up_in_time_while_redis_is_down_and_recovers),
        TEST(test_latency__shows_a_redis_that_is_paused),
        TEST(test_latency__shows_a_redis_that_does_not_answer),
        TEST(test_catalog__counts_new_keys_in_redis),
        TEST(test_catalog__counts_every_one_of_many_shards),
        TEST(test_catalog__counts_both_generations_while_one_is_built),
        TEST(test_catalog_flush__calls_back_when_redis_has_the_counts),
        TEST(test_login__that_fails_is_an_error_and_nothing_is_asked_without_it),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
