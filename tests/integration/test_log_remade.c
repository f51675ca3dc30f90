/* SPDX-License-Identifier: MIT */
/* The metadata node starts with an older file, from before a cutover; lanes and shards are on another node
 * and keep their data. A build is resumed there, while a member reads blocks of the generation that it had
 * built. */
#include "tests/integration/log_members.h"
#include "tests/integration/cut_over.h"
#include "tests/integration/log_redis.h"
#include "tests/integration/two_nodes.h"

#include <stdio.h>

#include "base/clock.h"
#include "migrate/build/build.h"
#include "shard/generations/grace.h"
#include "shard/members/lost.h"
#include "shard/view/view_load.h"
#include "tests/lib/client.h"
#include "tests/lib/temp_redis.h"

enum { REPLY_MS = 5000, CAPACITY = 3000, KEYS = 300, WAIT_US = 20 * 1000 * 1000 };

static struct temp_redis home, data;
static struct client client;
static struct nodes nodes;
static struct sync_client *l;
static struct names names;
static struct log_view *view;
static struct log_member folder, sleeper;

static const struct two_nodes two = {&home, &data, &client, &nodes, &names, &l, &view};

static int set_up(void **state)
{
    (void)state;
    two_nodes_start(&two, NULL);
    two_nodes_make(&two, &data, CAPACITY, 1);
    names.incarnation = view->incarnation;
    log_members_open(&folder, &nodes, &names, UINT64_MAX, true);
    log_members_open(&sleeper, &nodes, &names, 0, false); /* it reads blocks */
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    log_member_abandon(&folder);
    log_member_abandon(&sleeper);
    two_nodes_stop(&two);
    return 0;
}

static uint64_t current(void)
{
    struct error e = {""};
    must(log_view_load(l, &names, view, &e), e);
    return view->slot[view->current].shape.number;
}

static void wait_until_read(struct log_member *m, uint64_t number)
{
    struct log_status s;
    uint64_t until = clock_mono_us() + WAIT_US;
    bool is_read = false;
    while (!is_read) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(5000);
        control_status(m->control, &s);
        is_read = s.generation[number % 2].answers && s.generation[number % 2].number == number;
    }
}

/* Build the next generation up to its cutover. */
static struct builder *builds(void)
{
    struct error e = {""};
    struct builder *b;
    struct build *build;
    char text[24];
    (void)current();
    must(builder_new(&b, l, &names, &e), e);
    must(builder_begin(b, &view->slot[view->current].shape, "", &e), e);
    must(builder_start(b, &e), e);
    const struct build_options options = {.memory = UINT64_MAX, .writers = 1};
    must(build_new(&build, b, &options, &e), e);
    for (unsigned i = 0; i < KEYS; i++)
        build_put(build, 0, hash_key(b->seed, text, (size_t)snprintf(text, sizeof(text), "%u", i)));
    must(build_page_end(build, 0, &e), e);
    must(build_checkpoint(build, "", 0, &e), e);
    build_free(build);
    return b;
}

/* Resume the build of the view, and begin it again. Returns the number of its generation. */
static uint64_t begins_again(enum err *code)
{
    struct error e = {""};
    struct builder *b;
    struct buffer rows = {0};
    must(builder_new(&b, l, &names, &e), e);
    must(builder_resume(b, &rows, &e), e);
    assert_true(b->anew);
    uint64_t number = b->shape.number;
    *code = builder_start(b, &e);
    buffer_fini(&rows);
    builder_free(b);
    return number;
}

/* It may answer nothing: the shards that it reads are deleted in the end. */
static void calls_none_absent(struct log_member *m)
{
    struct error e = {""};
    uint8_t answers[KEYS];
    unsigned absent = 0;
    if (log_member_check(m, 0, KEYS, answers, &e) != ERR_OK)
        return;
    for (unsigned i = 0; i < KEYS; i++)
        absent += answers[i] == KEY_ABSENT;
    assert_int_equal(absent, 0);
}

/* Keys are added, and a generation is built, which both members read; then they sleep. *@before: the number
 * of the generation before. */
static uint64_t is_read_by_sleepers(uint64_t *before)
{
    struct error e = {""};
    assert_int_equal(log_member_added(&folder, 0, KEYS), KEYS);
    *before = current();
    struct builder *b = builds();
    must(client_save(&client, &e), e);
    must(cut_over(b, false, &e), e);
    builder_free(b);
    uint64_t built = current();
    assert_int_not_equal(built, *before);
    wait_until_read(&folder, built);
    wait_until_read(&sleeper, built);
    assert_int_equal(log_member_count(&sleeper, 0, KEYS, KEY_PRESENT), KEYS);
    log_member_pause(&sleeper);
    log_member_pause(&folder);
    return built;
}

/* The folder notices that the view is an older one, and degrades the filter. */
static void test_a_build_that_is_resumed_by_an_older_view__empties_no_shard_that_is_read(void **state)
{
    struct error e = {""};
    enum err code;
    uint64_t before;
    (void)state;
    uint64_t built = is_read_by_sleepers(&before);
    two_nodes_go_back(&two);
    assert_int_equal(current(), before);
    assert_int_equal(begins_again(&code), built);
    calls_none_absent(&sleeper);
    gives(ERR_LOST, code, e);
    log_member_go_on(&folder);
    uint64_t until = clock_mono_us() + WAIT_US;
    while (current() != before || !view->degraded) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(5000);
    }
    assert_true(begins_again(&code) > built);
    gives(ERR_OK, code, e);
    calls_none_absent(&sleeper);
    must(grace_delete(l, &names, &e), e); /* the shards that the build had made by its former number */
    calls_none_absent(&sleeper);
    log_member_go_on(&sleeper);
    assert_int_equal(log_member_count(&sleeper, 0, KEYS, KEY_ABSENT), 0);
}

/* Behind a rollback the generation loses a shard, so that it may not be read again, and is built anew. */
static void test_a_build_behind_a_rollback__empties_no_shard_that_is_read(void **state)
{
    struct error e = {""};
    enum err code;
    uint64_t before;
    (void)state;
    uint64_t built = is_read_by_sleepers(&before);
    must(log_switch(l, &names, before, &e), e);
    const struct log_lost lost = {.generation = built};
    must(lost_say(l, &names, &lost, &e), e);
    assert_int_equal(current(), before);
    assert_true(begins_again(&code) > built);
    gives(ERR_OK, code, e);
    calls_none_absent(&sleeper);
    log_member_go_on(&folder);
    log_member_go_on(&sleeper);
    assert_int_equal(log_member_count(&sleeper, 0, KEYS, KEY_PRESENT), KEYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_a_build_that_is_resumed_by_an_older_view__empties_no_shard_that_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_build_behind_a_rollback__empties_no_shard_that_is_read, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
