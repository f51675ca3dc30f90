/* SPDX-License-Identifier: MIT */
/* A node of a list comes back with what it had saved a while ago; marks where a node is away. */
#include "tests/integration/healing.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "shard/marks.h"
#include "shard/slots.h"

enum { ROWS = 20000, ADDED = 400, EACH = 50, MARKS_US = 2500 * 1000 };

static struct fixture f;

static int setup_with(const char *filter)
{
    const struct fixture_options o = {.nodes = 2,
                                      .daemons = 2,
                                      .postgres = true,
                                      .rows = ROWS,
                                      .capacity = 60000,
                                      .rate = "0.001",
                                      .filter = filter,
                                      .redis_lines = "shard_bytes = 4KiB\n",
                                      .expansion = "lease = 2s\n",
                                      .service = "check_interval = 200ms\ntimeout = 5s\n"};
    return fixture_start(&f, &o);
}

static int setup(void **state)
{
    (void)state;
    return setup_with(NULL);
}

static int setup_without_sweep(void **state)
{
    (void)state;
    return setup_with("sweep = no\n");
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&f);
}

/* Save it, add, kill it, start it again with what it saved. */
static void go_back(unsigned node)
{
    struct error e = {""};
    struct client c = {0};
    clock_sleep_us(MARKS_US);
    must(client_open(&c, f.redis[node].port, 10000, &e), e);
    must(client_save(&c, &e), e);
    client_close(&c);
    healing_insert_and_add(&f, 0, ROWS, ADDED, EACH);
    temp_redis_kill(&f.redis[node]);
    must(temp_redis_restart(&f.redis[node], true, &e), e);
}

static void is_whole(int64_t before)
{
    for (unsigned d = 0; d < 2; d++) {
        healing_await(&f, d, ROWS + ADDED, before);
        fixture_all_present(&f, d, 0, ROWS + ADDED);
        assert_in_range(fixture_false_positives(&f, d, 10000), 0, 60);
    }
    assert_in_range(healing_number(&f, 0, "job_heal_added"), ADDED / 4, ADDED);
}

static void test_heal__of_a_node_that_was_restarted_from_an_older_file(void **state)
{
    (void)state;
    int64_t before = healing_safe_since(&f, 0);
    go_back(1);
    is_whole(before);
    healing_is(&f, 0, "job_heal_by", "marks");
    assert_in_range(healing_number(&f, 0, "job_heal_rows"), ADDED, 2 * ADDED);
}

static void test_heal__compares_the_whole_table_where_sweeps_are_off(void **state)
{
    (void)state;
    int64_t before = healing_safe_since(&f, 0);
    go_back(1);
    is_whole(before);
    healing_is(&f, 0, "job_heal_by", "table");
}

static uint64_t newest_mark(unsigned node)
{
    struct error e = {""};
    struct client c = {0};
    struct mark m = {0};
    struct key_name name;
    marks_name("twinbloom", SLOTS, &name);
    must(client_open(&c, f.redis[node].port, 10000, &e), e);
    redisReply *r = client_command(&c, "LINDEX %b 0", name.text, name.length);
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING && mark_parse(&m, r->str, (size_t)r->len));
    freeReplyObject(r);
    client_close(&c);
    return m.ms;
}

/* Stopped, it takes connections and answers nothing. */
static void test_marks__are_written_where_another_node_is_away(void **state)
{
    (void)state;
    process_signal(&f.redis[1].process, SIGSTOP);
    clock_sleep_us(2 * MARKS_US);
    uint64_t first = newest_mark(0);
    clock_sleep_us(2 * MARKS_US);
    uint64_t second = newest_mark(0);
    process_signal(&f.redis[1].process, SIGCONT);
    assert_true(second > first);
    clock_sleep_us(MARKS_US);
    assert_true(newest_mark(1) > second);
}

/* Of two coordinators that mark at the same pace one is enough, and lists stay short. */
static void test_marks__of_several_coordinators_are_as_many_as_of_one(void **state)
{
    (void)state;
    struct error e = {""};
    struct client c = {0};
    int64_t before = 0, after = 0, cut = 0;
    clock_sleep_us(1000 * 1000);
    must(client_open(&c, f.redis[1].port, 10000, &e), e);
    must(client_integer(&c, &before, &e, "LLEN twinbloom:mark"), e);
    clock_sleep_us(3000 * 1000);
    must(client_integer(&c, &after, &e, "LLEN twinbloom:mark"), e);
    assert_in_range(after - before, 1, 3000 / 150 + 2);
    for (int i = 0; i < 200; i++)
        must(client_integer(&c, &cut, &e, "RPUSH twinbloom:mark junk"), e);
    clock_sleep_us(1000 * 1000);
    must(client_integer(&c, &cut, &e, "LLEN twinbloom:mark"), e);
    client_close(&c);
    assert_in_range(cut, 1, marks_kept(200, 1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_heal__of_a_node_that_was_restarted_from_an_older_file, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_heal__compares_the_whole_table_where_sweeps_are_off,
                                        setup_without_sweep, teardown),
        cmocka_unit_test_setup_teardown(test_marks__are_written_where_another_node_is_away, setup, teardown),
        cmocka_unit_test_setup_teardown(test_marks__of_several_coordinators_are_as_many_as_of_one, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
