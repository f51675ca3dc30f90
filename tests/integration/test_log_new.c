/* SPDX-License-Identifier: MIT */
/* Which keys an add reports as new, and which blocks count, when shards are not in memory and the view
 * changes meanwhile, on a real Redis. */
#include "tests/integration/log_redis.h"
#include "tests/integration/solo.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/request/log_filter_state.h"
#include "shard/fold/fold.h"
#include "shard/members/roll.h"
#include "shard/view/view_load.h"

enum { PAUSE_MS = 200, TURNS = 10, KEYS = 50 };

static const bool never = false;
static struct solo solo;

static void open_as(uint64_t memory, const struct control_options *o)
{
    struct error e = {""};
    log_redis_make(10000, 2, 32768);
    must(log_view_load(on.link, &on.names, on.view, &e), e);
    on.names.incarnation = on.view->incarnation;
    solo_open(&solo, &on.nodes, &on.names, memory, o);
}

static void open_with(uint64_t memory)
{
    open_as(memory, &(struct control_options){.look_interval_us = 60 * 1000 * 1000});
}

static int tear_down(void **state)
{
    (void)state;
    solo_close(&solo);
    return 0;
}

/* --- what changes a view --- */

static void another_writer_registers(void)
{
    static uint8_t id[LOG_WRITER_BYTES] = {7};
    struct error e = {""};
    struct roll roll;
    id[1]++;
    roll_init(&roll, on.link, &on.names, id);
    must(roll_register(&roll, &e), e);
    roll_fini(&roll);
}

static void another_folder_draws(void)
{
    struct error e = {""};
    struct fold f;
    fold_init(&f, on.link, &on.names, on.view->slot[on.view->current].shape.number);
    must(fold_draw(&f, 1, &e), e);
    fold_fini(&f);
}

static uint32_t read_by(void)
{
    return resident_view(solo.filter->slot[solo.filter->current]->resident);
}

static uint64_t looks(void)
{
    struct log_status s;
    control_status(solo.control, &s);
    return s.looks;
}

/* Have the process read the view. */
static void look(void)
{
    uint64_t before = looks();
    log_filter_look(solo.filter);
    solo_tend(&solo);
    assert_true(looks() > before);
}

/* --- tests --- */

/* The add's entry is under way when the process reads the other view, which it does first. */
static void test_a_view_that_changes_behind_the_blocks__leaves_new_exact(void **state)
{
    (void)state;
    open_with(0);
    assert_int_equal(solo_ask(&solo, true, 1), KEY_ADDED);
    for (uint64_t key = 2; key < 2 + TURNS; key += 2) {
        struct error e = {""};
        struct solo_request added, old;
        another_folder_draws();
        another_writer_registers();
        must(client_ok(&on.client, &e, "CLIENT PAUSE %d WRITE", PAUSE_MS), e);
        solo_begin(&solo, &added, true, key);
        solo_begin(&solo, &old, true, key - 2 == 0 ? 1 : key - 2);
        while (!added.q->is_sent || !old.q->is_sent)
            solo_loop(&solo, &never, 1);
        uint32_t before = read_by();
        look();
        assert_true(read_by() != before);
        solo_run(&solo, &added.told, 0);
        solo_run(&solo, &old.told, 0);
        assert_int_equal(added.answer, KEY_ADDED);
        assert_int_equal(old.answer, KEY_OLD);
    }
}

/* Blocks that are being read count under a new view if it has the same shards. */
static void test_a_writer_that_registers__has_no_block_read_again(void **state)
{
    (void)state;
    open_with(0);
    assert_int_equal(solo_ask(&solo, true, 1), KEY_ADDED);
    uint32_t before = read_by();
    another_writer_registers();
    look();
    assert_int_equal(read_by(), before);
    another_folder_draws();
    look();
    assert_true(read_by() != before);
}

/* Of two processes that add the same keys the first one is told "new", and neither gets "unsure", while the
 * view changes all the time. */
static void test_views_that_change_all_the_time__leave_new_exact(void **state)
{
    (void)state;
    open_with(0);
    for (uint64_t key = 1; key <= TURNS; key++) {
        struct solo_request first, second;
        solo_begin(&solo, &first, true, key);
        another_folder_draws();
        log_filter_look(solo.filter);
        solo_begin(&solo, &second, true, key);
        another_writer_registers();
        log_filter_look(solo.filter);
        solo_run(&solo, &first.told, 0);
        solo_run(&solo, &second.told, 0);
        assert_int_equal(first.code, ERR_OK);
        assert_int_equal(second.code, ERR_OK);
        bool one = first.answer != second.answer;
        one &= first.answer == KEY_ADDED || first.answer == KEY_OLD;
        if (!one || (second.answer != KEY_ADDED && second.answer != KEY_OLD))
            fail_msg("key %" PRIu64 ": answers %u and %u", key, first.answer, second.answer);
    }
}

/* The first add keeps the block in memory only until it is answered. The second one is applied behind that.
 */
static void test_a_block_that_another_add_has_read__is_kept_by_the_next_add_too(void **state)
{
    struct error e = {""};
    struct solo_request first, second;
    (void)state;
    open_with(0);
    assert_int_equal(solo_ask(&solo, true, 1), KEY_ADDED);
    must(client_ok(&on.client, &e, "CLIENT PAUSE %d WRITE", PAUSE_MS), e);
    solo_begin(&solo, &first, true, 2);
    while (!first.q->is_sent)
        solo_loop(&solo, &never, 1);
    solo_begin(&solo, &second, true, 2);
    solo_run(&solo, &first.told, 0);
    solo_run(&solo, &second.told, 0);
    assert_int_equal(first.answer, KEY_ADDED);
    assert_int_equal(second.answer, KEY_OLD);
}

static void read_again(unsigned i)
{
    struct error e = {""};
    struct lane_reader *r = solo.filter->lane[i].reader;
    struct lane lane;
    struct log_position at;
    must(log_view_lane_at(on.view, &on.names, &on.nodes, i, &lane, &e), e);
    lane_reader_stop(r);
    lane_reader_position(r, &at);
    lane_reader_move(r, &lane, &at);
}

/* The lanes are read again, so that new keys cannot be told any more; but a key that was present is old. */
static void test_a_base_that_is_lost__leaves_old_what_was_there(void **state)
{
    struct error e = {""};
    struct solo_request added, old;
    (void)state;
    open_with(UINT64_MAX);
    assert_int_equal(solo_ask(&solo, true, 1), KEY_ADDED);
    must(client_ok(&on.client, &e, "CLIENT PAUSE %d WRITE", PAUSE_MS), e);
    solo_begin(&solo, &added, true, 2);
    solo_begin(&solo, &old, true, 1);
    assert_true(added.q->is_sent && old.q->is_sent);
    must(log_view_load(on.link, &on.names, on.view, &e), e);
    for (unsigned i = 0; i < on.view->lane_count; i++)
        read_again(i);
    solo_run(&solo, &added.told, 0);
    solo_run(&solo, &old.told, 0);
    assert_int_equal(added.answer, KEY_UNSURE);
    assert_int_equal(old.answer, KEY_OLD);
}

/* --- a filter that was just made --- */

static uint64_t ranges_read(void)
{
    redisReply *r = client_command(&on.client, "INFO commandstats");
    const char *at = strstr(r->str, "cmdstat_getrange:calls=");
    uint64_t calls = at == NULL ? 0 : strtoull(at + strlen("cmdstat_getrange:calls="), NULL, 10);
    freeReplyObject(r);
    return calls;
}

/* Whether keys are counted, even those that were added while shards were loaded. */
static bool is_counted(void)
{
    struct log_status s;
    control_status(solo.control, &s);
    return s.generation[1].counts;
}

static bool is_folded(void)
{
    struct log_status s;
    control_status(solo.control, &s);
    return s.folder.report.folds > 0 && s.lane[0].lag.entries == 0 && s.lane[1].lag.entries == 0;
}

/* Nothing was folded into the filter, so there is nothing to load. A process that comes later reads what was
 * folded. */
static void test_a_new_filter__is_whole_in_memory_without_being_read(void **state)
{
    struct error e = {""};
    struct solo later;
    struct log_status s;
    const struct control_options o = {.folds = true, .fold_interval_us = 10000, .look_interval_us = 20000};
    (void)state;
    log_redis_make(10000, 2, 32768);
    solo_open(&solo, &on.nodes, &on.names, UINT64_MAX, &o);
    assert_int_equal(solo_ask(&solo, true, 0),
                     KEY_ADDED); /* its block is read, as this is the first request */
    for (unsigned i = 0; i < 200 && !is_counted(); i++)
        solo_run(&solo, &never, 10);
    assert_true(is_counted());
    must(client_ok(&on.client, &e, "CONFIG RESETSTAT"), e);
    for (unsigned i = 1; i < KEYS; i++)
        assert_int_equal(solo_ask(&solo, true, i), KEY_ADDED);
    for (unsigned i = 0; i < 200 && !is_folded(); i++)
        solo_run(&solo, &never, 10);
    assert_true(is_folded());
    control_status(solo.control, &s);
    assert_true(ranges_read() <= 2 + s.folder.report.folds); /* headers, by scripts and by take-overs */
    solo_open(&later, &on.nodes, &on.names, UINT64_MAX, &o);
    for (unsigned i = 0; i < KEYS; i++)
        assert_int_equal(solo_ask(&later, false, i), KEY_PRESENT);
    assert_int_equal(solo_ask(&later, false, KEYS), KEY_ABSENT);
    solo_close(&later);
}

/* The largest token in the shards' headers; 0: there are no shards yet. */
static uint64_t entered(void)
{
    const struct held *h = solo.filter->slot[solo.filter->current];
    const struct geometry *g = &h->shape.layers[0].geometry;
    uint64_t most = 0;
    for (uint32_t s = 0; s < g->shards; s++) {
        struct key_name name;
        struct header found;
        struct error e = {""};
        names_log_shard(&on.names, (struct shard_id){.generation = h->shape.number, .shard = s}, &name);
        redisReply *r =
            client_command(&on.client, "GETRANGE %b 0 %u", name.text, name.length, header_bytes(g) - 1);
        assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
        must(header_decode(&found, (const uint8_t *)r->str, r->len, name.text, &e), e);
        most = found.writer.number > most ? found.writer.number : most;
        freeReplyObject(r);
    }
    return most;
}

/* Entering a token into thousands of shards takes seconds, in which this process would read no block. */
static void test_a_token__is_in_the_view_of_its_process_before_it_is_in_a_shard(void **state)
{
    (void)state;
    open_as(0, &(struct control_options){.folds = true, .fold_interval_us = 1000});
    assert_int_equal(solo_ask(&solo, true, 1), KEY_ADDED);
    uint64_t before = entered();
    for (uint64_t key = 2; key <= 3; key++) { /* first as a process that has not folded yet */
        assert_int_equal(solo_ask(&solo, true, key), KEY_ADDED);
        uint64_t until = clock_mono_us() + 10000000, now;
        while ((now = entered()) <= before && clock_mono_us() < until) {
            struct error e = {""};
            uint64_t next;
            must(control_tend(solo.control, &next, &e), e);
            assert_true(entered() <= solo.filter->slot[solo.filter->current]->writer.number);
            solo_loop(&solo, &never, 10);
        }
        assert_true(now > before);
        before = now + 1;
        another_folder_draws();
    }
}

#define NEW_TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        NEW_TEST(test_a_token__is_in_the_view_of_its_process_before_it_is_in_a_shard),
        NEW_TEST(test_a_view_that_changes_behind_the_blocks__leaves_new_exact),
        NEW_TEST(test_a_writer_that_registers__has_no_block_read_again),
        NEW_TEST(test_views_that_change_all_the_time__leave_new_exact),
        NEW_TEST(test_a_block_that_another_add_has_read__is_kept_by_the_next_add_too),
        NEW_TEST(test_a_base_that_is_lost__leaves_old_what_was_there),
        NEW_TEST(test_a_new_filter__is_whole_in_memory_without_being_read),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
