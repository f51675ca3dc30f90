/* SPDX-License-Identifier: MIT */
/* finish.lua ends a job's record and writes its history entry in one step, under the mutex. Which unfinished
 * job is resumed. And raise.lua, by which timelines are noted. */
#include "tests/integration/filters.h"

#include <stdio.h>
#include <string.h>

#include "expansion/record/control.h"
#include "expansion/record/history.h"

extern const char embedded_finish[], embedded_raise[];

#define KEY(what) PREFIX ":{f}:" what

static struct servers servers;
static struct filter f;

static int start(void **state)
{
    (void)state;
    return servers_start(&servers, 1);
}

static int stop(void **state)
{
    (void)state;
    return servers_stop(&servers);
}

static int setup(void **state)
{
    (void)state;
    servers_flush(&servers);
    filter_init(&f, &servers, "f"); /* sets the mutex to MUTEX */
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    filter_fini(&f);
    return 0;
}

/* Finish a job; the history keeps three entries of state, error and rows. */
static long long finish(const char *mutex, const char *reset, const char *outcome, const char *error)
{
    static const char *const keys[] = {"expansion_flag", "job", "history"};
    const char *const arguments[] = {mutex, reset,     "state", outcome, "error", error,  "",
                                     "3",   "outcome", "state", "error", "error", "rows", "rows"};
    struct error e = {""};
    long long answer = 99;
    script_begin(&f.handle.call, embedded_finish);
    for (size_t i = 0; i < 3; i++) {
        struct key_name name;
        names_filter_key(&f.handle.names, keys[i], &name);
        script_key(&f.handle.call, &name);
    }
    for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++)
        script_text(&f.handle.call, arguments[i]);
    must(script_run(&f.handle.call, f.handle.redis, handle_home(&f.handle), &answer, &e), e);
    return answer;
}

static void expect_entry(int index, const char *expected)
{
    assert_string_equal(servers_text(&servers, 0, "LINDEX " KEY("history") " %d", index), expected);
}

static void test_finish__writes_the_record_and_an_entry_of_what_it_says(void **state)
{
    (void)state;
    assert_int_equal(servers_integer(&servers, 0, "HSET " KEY("job") " state running rows 5 step scan"), 3);
    assert_int_equal(finish(MUTEX, "0", "failed", "no"), 1);
    assert_string_equal(servers_text(&servers, 0, "HGET " KEY("job") " state"), "failed");
    assert_string_equal(servers_text(&servers, 0, "HGET " KEY("job") " step"), "scan");
    expect_entry(0, "outcome=failed error=no rows=5");
    assert_int_equal(finish(MUTEX, "1", "done", ""), 1); /* a job without a record */
    assert_int_equal(servers_integer(&servers, 0, "HEXISTS " KEY("job") " step"), 0);
    expect_entry(0, "outcome=done");
}

/* A job that ends before it has a record of its own drops that of the one before, but for these. */
static void test_finish__keeps_what_is_known_of_generations(void **state)
{
    static const char *const kept[] = {"dead_generation", "dead_at_build", "swept",
                                       "system",          "verification0", "verification1"};
    (void)state;
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        assert_int_equal(servers_integer(&servers, 0, "HSET " KEY("job") " %s known", kept[i]), 1);
    assert_int_equal(servers_integer(&servers, 0, "HSET " KEY("job") " state running rows 5 step scan"), 3);
    assert_int_equal(finish(MUTEX, "1", "failed", "no"), 1);
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        assert_string_equal(servers_text(&servers, 0, "HGET " KEY("job") " %s", kept[i]), "known");
    assert_int_equal(servers_integer(&servers, 0, "HLEN " KEY("job")), sizeof(kept) / sizeof(kept[0]) + 2);
    expect_entry(0, "outcome=failed error=no");
}

static void test_finish__keeps_the_newest_entries(void **state)
{
    (void)state;
    static const char *const errors[] = {"1", "2", "3", "4", "5"};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(finish(MUTEX, "0", "failed", errors[i]), 1);
    assert_int_equal(servers_integer(&servers, 0, "LLEN " KEY("history")), 3);
    expect_entry(0, "outcome=failed error=5");
    expect_entry(2, "outcome=failed error=3");
}

static void test_finish__is_refused_without_the_mutex(void **state)
{
    (void)state;
    assert_int_equal(servers_integer(&servers, 0, "HSET " KEY("job") " state running"), 1);
    assert_int_equal(finish("owner:6", "1", "done", ""), -1);
    assert_string_equal(servers_text(&servers, 0, "HGET " KEY("job") " state"), "running");
    assert_int_equal(servers_integer(&servers, 0, "EXISTS " KEY("history")), 0);
}

static void test_finish__writes_a_line_that_is_read_back(void **state)
{
    (void)state;
    static const char error[] = "a b\n\t100% \xc3\xa9 \xff=\x7f \"quoted\"";
    assert_int_equal(finish(MUTEX, "0", "failed", error), 1);
    const char *entry = servers_text(&servers, 0, "LINDEX " KEY("history") " 0");
    assert_null(strchr(entry, '\n'));
    const char *at = entry, *end = entry + strlen(entry);
    struct history_pair pair;
    assert_true(history_next(&at, end, &pair));
    assert_string_equal(pair.value, "failed");
    assert_true(history_next(&at, end, &pair));
    assert_string_equal(pair.field->name, "error");
    assert_string_equal(pair.value, error);
    assert_false(history_next(&at, end, &pair));
}

/* The view of a log has no phase. */
static void test_control_unfinished__is_the_job_of_a_view_with_two_generations(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t id = 99;
    must(control_unfinished(&f.handle, &id, &e), e);
    assert_int_equal(id, 0);
    (void)servers_integer(&servers, 0, "HSET " KEY("job") " id 77");
    (void)servers_integer(&servers, 0, "HSET " KEY("view") " generation0 %s generation1 %s", "number=2", "");
    must(control_unfinished(&f.handle, &id, &e), e);
    assert_int_equal(id, 0);
    (void)servers_integer(&servers, 0, "HSET " KEY("view") " generation1 %s", "number=3");
    must(control_unfinished(&f.handle, &id, &e), e);
    assert_int_equal(id, 77);
}

static void test_control_ask__refuses_a_rollback_to_what_was_never_built(void **state)
{
    (void)state;
    static const char generation[] = "number=%d seed=0000000000000001 built=%d capacity=10 rate=0.01";
    struct error e = {""};
    char former[128], current[128];
    (void)snprintf(current, sizeof(current), generation, 3, 1);
    for (int built = 0; built < 2; built++) {
        (void)snprintf(former, sizeof(former), generation, 2, built);
        (void)servers_integer(
            &servers, 0,
            "HSET " KEY("view") " format %d bloom_filter_current_index 1 generation0 %s generation1 %s",
            VIEW_FORMAT, former, current);
        enum err code = control_ask(&f.handle, WISH_ROLLBACK, 0, 0, &e);
        gives(built == 1 ? ERR_OK : ERR_CONFLICT, code, e);
        if (built == 0)
            assert_non_null(strstr(e.text, "the former generation was not built"));
        assert_string_equal(servers_text(&servers, 0, "HGET " KEY("job") " rollback"), built == 1 ? "1" : "");
        must(control_ask(&f.handle, WISH_FINISH, 0, 0, &e), e);
    }
}

static void test_control_ask__asks_nothing_of_another_job(void **state)
{
    (void)state;
    static const char generation[] = "number=%d seed=0000000000000001 built=1 capacity=10 rate=0.01";
    struct error e = {""};
    char former[128], current[128];
    (void)snprintf(former, sizeof(former), generation, 2);
    (void)snprintf(current, sizeof(current), generation, 3);
    (void)servers_integer(
        &servers, 0,
        "HSET " KEY("view") " format %d bloom_filter_current_index 1 generation0 %s generation1 %s",
        VIEW_FORMAT, former, current);
    (void)servers_integer(&servers, 0, "HSET " KEY("job") " id 77");
    gives(ERR_CONFLICT, control_ask(&f.handle, WISH_ROLLBACK, 0, 76, &e), e);
    assert_non_null(strstr(e.text, "another one runs"));
    assert_string_equal(servers_text(&servers, 0, "HGET " KEY("job") " rollback"), "");
    must(control_ask(&f.handle, WISH_ROLLBACK, 0, 77, &e), e);
    assert_string_equal(servers_text(&servers, 0, "HGET " KEY("job") " rollback"), "1");
}

/* The mutex of a driver that was killed has expired; its record says that it runs. */
static void test_control_ask__finds_no_job_where_the_mutex_is_gone(void **state)
{
    (void)state;
    struct error e = {""};
    (void)servers_integer(
        &servers, 0,
        "HSET " KEY("view") " format %d bloom_filter_current_index 0 generation0 %s generation1 %s",
        VIEW_FORMAT, "number=2 seed=0000000000000001 built=1 capacity=10 rate=0.01", "");
    (void)servers_integer(&servers, 0, "HSET " KEY("job") " state running token 6 id 77");
    assert_int_equal(servers_integer(&servers, 0, "DEL " KEY("expansion_flag")), 1);
    gives(ERR_CONFLICT, control_ask(&f.handle, WISH_PAUSE, 0, 77, &e), e);
    assert_string_equal(e.text, "no job is running");
}

static const char *raise_to(const char *number)
{
    struct error e = {""};
    struct key_name key;
    long long answer = 0;
    key.length = (size_t)snprintf(key.text, sizeof(key.text), "%s", PREFIX ":timelines");
    script_begin(&f.handle.call, embedded_raise);
    script_key(&f.handle.call, &key);
    script_text(&f.handle.call, "7123456789012345678");
    script_text(&f.handle.call, number);
    unsigned where = nodes_key(sync_client_nodes(f.handle.redis), key.text, key.length);
    must(script_run(&f.handle.call, f.handle.redis, where, &answer, &e), e);
    assert_int_equal(answer, 1);
    return servers_text(&servers, 0, "HGET " PREFIX ":timelines 7123456789012345678");
}

/* Two coordinators look at once, and the one that met the former primary writes last. */
static void test_raise__lowers_nothing(void **state)
{
    (void)state;
    assert_string_equal(raise_to("2"), "2");
    assert_string_equal(raise_to("11"), "11");
    assert_string_equal(raise_to("3"), "11");
    (void)servers_integer(&servers, 0, "HSET " PREFIX ":timelines 7123456789012345678 x");
    assert_string_equal(raise_to("3"), "3");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_finish__writes_the_record_and_an_entry_of_what_it_says),
        TEST(test_finish__keeps_what_is_known_of_generations),
        TEST(test_finish__keeps_the_newest_entries),
        TEST(test_finish__is_refused_without_the_mutex),
        TEST(test_finish__writes_a_line_that_is_read_back),
        TEST(test_control_ask__refuses_a_rollback_to_what_was_never_built),
        TEST(test_control_ask__asks_nothing_of_another_job),
        TEST(test_control_ask__finds_no_job_where_the_mutex_is_gone),
        TEST(test_control_unfinished__is_the_job_of_a_view_with_two_generations),
        TEST(test_raise__lowers_nothing),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
