/* SPDX-License-Identifier: MIT */
/* What comes between two steps of a request, or of a control. The test stands in between: the requests' loop
 * and the control run only when it lets them. The lane is on the metadata node, the shards are on both. */
#include "tests/integration/cut_over.h"
#include "tests/integration/solo.h"
#include "tests/integration/two_nodes.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/filter/block.h"
#include "shard/generations/make.h"
#include "shard/members/roll.h"
#include "shard/request/key_request_internal.h"
#include "shard/view/view_load.h"

enum { CAPACITY = 20000, SHARD_BYTES = 32768, GUARD_US = 20 * 1000 * 1000 };

static const bool never = false;
static const struct control_options quiet = {.look_interval_us = UINT64_C(3600) * 1000000};

static struct temp_redis home, data;
static struct client client;
static struct nodes nodes;
static struct sync_client *l;
static struct names names;
static struct log_view *view;
static struct solo solo;

static const struct two_nodes two = {&home, &data, &client, &nodes, &names, &l, &view};

static int start(void **state)
{
    (void)state;
    two_nodes_start(&two, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    two_nodes_stop(&two);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    solo_close(&solo);
    return 0;
}

static void load(void)
{
    struct error e = {""};
    must(log_view_load(l, &names, view, &e), e);
    names.incarnation = view->incarnation;
}

/* @memory: bytes for shards. */
static void open_with(unsigned expansion, uint64_t memory)
{
    struct error e = {""};
    struct placement placement;
    must(client_ok(&client, &e, "FLUSHALL"), e);
    must(names_init(&names, "tb", "f", 1, &e), e);
    must(placement_choose(&placement, &nodes, "", &e), e);
    const struct make_options o = {.capacity = CAPACITY,
                                   .expansion = expansion,
                                   .error_rate = 0.0001,
                                   .lanes = 1,
                                   .placement = &placement,
                                   .shard_bytes = SHARD_BYTES};
    must(log_make(l, &names, &o, view, NULL, &e), e);
    load();
    solo_open(&solo, &nodes, &names, memory, &quiet);
    assert_int_equal(solo_ask(&solo, false, 0), KEY_ABSENT);
    solo_tend(&solo);
}

static void lane_is(struct lane *out)
{
    struct error e = {""};
    must(log_view_lane_at(view, &names, &nodes, 0, out, &e), e);
}

static int64_t entries(void)
{
    struct lane lane;
    lane_is(&lane);
    return lanes_number(&client, "XLEN", &lane);
}

static struct key_hash hash_of(uint64_t number)
{
    char text[24];
    return hash_key(view->seed, text, (size_t)snprintf(text, sizeof(text), "%" PRIu64, number));
}

/* Another process adds a key. */
static void add_elsewhere(uint64_t number)
{
    struct error e = {""};
    struct lane lane;
    struct lane_put entry;
    const struct key_hash hash = hash_of(number);
    lane_is(&lane);
    entry.length = log_entry_encode(entry.bytes, lanes_writer, number, &hash, 1);
    must(lane_put(l, &lane, &entry, 1, &e), e);
}

/* The first number from 1 on whose key is in shard @shard of the generation that is read. */
static uint64_t key_in(uint32_t shard)
{
    const struct generation *g = &view->slot[view->current].shape;
    struct key_place place = {.shard = UINT32_MAX};
    uint64_t number = 0;
    while (place.shard != shard)
        hash_place(&g->layers[0].geometry, hash_mix(hash_of(++number), g->seed), &place);
    return number;
}

static void begin_a_build(struct builder **b)
{
    struct error e = {""};
    load();
    must(builder_new(b, l, &names, &e), e);
    must(builder_begin(*b, &view->slot[view->current].shape, "", &e), e);
    must(builder_start(*b, &e), e);
}

static void end_the_build(struct builder *b)
{
    struct error e = {""};
    builder_note(b);
    must(cut_over(b, false, &e), e);
    builder_free(b);
}

static uint64_t answers_from(void)
{
    return solo.filter->slot[solo.filter->current]->shape.number;
}

/* The control takes over the next generation, while no reply to a request is read. */
static void takes_the_next_generation(void)
{
    struct error e = {""};
    uint64_t next, before = answers_from();
    log_filter_look(solo.filter);
    while (answers_from() == before)
        must(control_tend(solo.control, &next, &e), e);
    assert_null(solo.filter->slot[before % 2]);
}

/* A filter with memory for its first shard only. */
static void open_with_one_shard(void)
{
    open_with(2, SHARD_BYTES + SHARD_BYTES / 2);
    const struct bitmap *b = solo.filter->slot[solo.filter->current]->resident->layer[0];
    assert_true(b->geometry.shards > 1);
    assert_true(bitmap_stamp(b, 0) != 0 && bitmap_stamp(b, 1) == 0);
}

/* The tail read tells of a key that came before the check. It is applied to the generations that are held by
 * then, and the one that the check looks into is not. */
static void test_a_check_of_a_generation_that_is_dropped__looks_into_the_next_one(void **state)
{
    struct solo_request r;
    struct builder *b;
    (void)state;
    open_with_one_shard();
    uint64_t number = key_in(0);
    begin_a_build(&b);
    end_the_build(b);
    add_elsewhere(number);
    solo_begin(&solo, &r, false, number);
    assert_false(r.told);
    takes_the_next_generation();
    solo_run(&solo, &r.told, 0);
    assert_int_equal(r.code, ERR_OK);
    assert_int_equal(r.answer, KEY_PRESENT);
}

struct told {
    bool is;
    enum err code;
};

static void on_told(void *arg, enum err code, const char *text)
{
    struct told *t = arg;
    (void)text;
    *t = (struct told){.is = true, .code = code};
}

/* A check of two keys has read the lane, and waits for the block of the second one when it fails. Returns the
 * answer of the first one, whose shard is in memory. */
static enum key_answer known_by_then(bool is_dropped)
{
    static struct key_request q;
    char text[2][24];
    uint8_t answers[2];
    struct told told = {.is = false};
    struct builder *b;
    open_with_one_shard();
    struct request_key keys[2];
    for (unsigned i = 0; i < 2; i++) {
        int n = snprintf(text[i], sizeof(text[i]), "%" PRIu64, key_in(i));
        keys[i] = (struct request_key){.bytes = text[i], .length = (size_t)n};
    }
    if (is_dropped) {
        begin_a_build(&b);
        end_the_build(b);
        add_elsewhere(key_in(0));
    }
    assert_false(key_check(solo.port, solo.filter, &q, keys, 2, answers, on_told, &told));
    if (is_dropped)
        takes_the_next_generation();
    assert_int_equal(kill(data.process.pid, SIGSTOP), 0);
    while (!told.is && q.parts[0].is_under_way)
        solo_loop(&solo, &never, 1);
    assert_false(told.is);
    key_request_fail(&q, ERR_CANCELLED, "the test ends it");
    assert_int_equal(kill(data.process.pid, SIGCONT), 0);
    assert_int_equal(told.code, ERR_CANCELLED);
    assert_int_equal(answers[1], KEY_NO_ANSWER);
    return (enum key_answer)answers[0];
}

static void test_a_check_that_fails__answers_by_memory_behind_its_lane(void **state)
{
    (void)state;
    assert_int_equal(known_by_then(false), KEY_ABSENT);
}

static void test_a_check_that_fails__does_not_answer_by_a_generation_that_was_dropped(void **state)
{
    (void)state;
    assert_int_equal(known_by_then(true), KEY_NO_ANSWER);
}

/* What is new was decided while acknowledged keys may have been missing, though none is by now. */
static void test_an_add_across_a_loss_that_was_healed__cannot_tell_what_is_new(void **state)
{
    struct solo_request r;
    (void)state;
    open_with(2, UINT64_MAX);
    assert_int_equal(solo_ask(&solo, true, 1), KEY_ADDED);
    solo_begin(&solo, &r, true, 2);
    assert_true(r.q->is_sent);
    (void)pthread_rwlock_wrlock(&solo.filter->lock);
    log_filter_set_degraded(solo.filter, true);
    log_filter_set_degraded(solo.filter, false);
    (void)pthread_rwlock_unlock(&solo.filter->lock);
    solo_loop(&solo, &r.told, 0);
    assert_int_equal(r.code, ERR_OK);
    assert_int_equal(r.answer, KEY_UNSURE);
}

static enum key_answer adds(uint64_t number)
{
    struct solo_request r;
    solo_begin(&solo, &r, true, number);
    solo_loop(&solo, &r.told, 0);
    assert_int_equal(r.code, ERR_OK);
    return (enum key_answer)r.answer;
}

/* The lane was read again, and the control has yet to hold the generation anew: what an add finds in memory
 * may be known to nobody else. */
static void test_a_full_filter__knows_no_key_by_doubtful_memory(void **state)
{
    struct error e = {""};
    struct lane lane;
    (void)state;
    open_with(0, UINT64_MAX);
    assert_int_equal(solo_ask(&solo, true, 1), KEY_ADDED);
    lane_is(&lane);
    must(lane_mark_full(l, &lane, 1, &e), e);
    assert_int_equal(solo_ask(&solo, false, 2), KEY_ABSENT); /* it meets the mark */
    assert_int_equal(adds(1), KEY_OLD);
    struct held *h = solo.filter->slot[solo.filter->current];
    h->doubtful = true;
    assert_int_equal(adds(1), KEY_NO_ROOM);
    h->doubtful = false;
    assert_int_equal(adds(1), KEY_OLD);
}

/* --- terms --- */

static void open_in_a_term(void)
{
    open_with(2, UINT64_MAX);
    assert_int_equal(solo_ask(&solo, true, 1), KEY_ADDED);
    solo_tend(&solo);
    int64_t before = entries();
    assert_int_equal(adds(1), KEY_OLD);
    assert_int_equal(entries(), before);
}

/* What acknowledges it tells of this node only; the key's bits may be on another one. */
static void test_acks__are_of_an_entry_also_for_a_key_that_is_there(void **state)
{
    static struct key_request q;
    const struct key_terms terms = {.need = {.replicas = 1, .timeout_ms = 10}};
    const struct request_key key = {.bytes = "1", .length = 1};
    uint8_t answer;
    struct told told = {.is = false};
    (void)state;
    open_in_a_term();
    int64_t before = entries();
    key_add(solo.port, solo.filter, &q, &key, 1, &answer, &terms, on_told, &told);
    while (!told.is && q.state != REQUEST_UNACKED)
        solo_loop(&solo, &never, 1);
    assert_false(told.is);
    key_request_fail(&q, ERR_CANCELLED, "the test ends it");
    assert_int_equal(entries(), before + 1);
}

static void another_writer_registers(void)
{
    static const uint8_t id[LOG_WRITER_BYTES] = "another";
    struct error e = {""};
    struct roll roll;
    roll_init(&roll, l, &names, id);
    must(roll_register(&roll, &e), e);
    roll_fini(&roll);
}

static void *tend(void *arg)
{
    uint64_t next;
    struct error *e = arg;
    enum err code = control_tend(solo.control, &next, e);
    return code == ERR_OK ? NULL : e;
}

/* The control has loaded the view, and waits for the filter's lock. Meanwhile a build begins, and a request
 * meets its notice. The view that the control goes by knows nothing of that, so it begins no term: the build
 * would lack the keys that are added in it. */
static void test_a_notice_behind_the_view_that_was_loaded__lets_no_term_begin(void **state)
{
    struct error e = {""};
    struct builder *b;
    pthread_t thread;
    void *failed;
    (void)state;
    open_in_a_term();
    another_writer_registers(); /* a new view */
    uint64_t looked = atomic_load(&solo.filter->looked), until = clock_mono_us() + GUARD_US;
    log_filter_look(solo.filter);
    (void)pthread_rwlock_rdlock(&solo.filter->lock);
    assert_int_equal(pthread_create(&thread, NULL, tend, &e), 0);
    while (atomic_load(&solo.filter->looked) == looked && clock_mono_us() < until)
        clock_sleep_us(1000);
    begin_a_build(&b);
    struct solo_request r;
    solo_begin(&solo, &r, false, 2);
    solo_loop(&solo, &r.told, 0);
    assert_int_equal(r.answer, KEY_ABSENT);
    (void)pthread_rwlock_unlock(&solo.filter->lock);
    assert_int_equal(pthread_join(thread, &failed), 0);
    if (failed != NULL)
        fail_msg("%s", e.text);
    assert_int_equal(adds(1), KEY_OLD);
    end_the_build(b);
    log_filter_look(solo.filter);
    solo_tend(&solo);
    assert_int_equal(answers_from(), 2);
    assert_int_equal(solo_ask(&solo, false, 1), KEY_PRESENT);
}

#define BETWEEN_TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BETWEEN_TEST(test_a_check_of_a_generation_that_is_dropped__looks_into_the_next_one),
        BETWEEN_TEST(test_a_check_that_fails__answers_by_memory_behind_its_lane),
        BETWEEN_TEST(test_a_check_that_fails__does_not_answer_by_a_generation_that_was_dropped),
        BETWEEN_TEST(test_an_add_across_a_loss_that_was_healed__cannot_tell_what_is_new),
        BETWEEN_TEST(test_a_full_filter__knows_no_key_by_doubtful_memory),
        BETWEEN_TEST(test_acks__are_of_an_entry_also_for_a_key_that_is_there),
        BETWEEN_TEST(test_a_notice_behind_the_view_that_was_loaded__lets_no_term_begin),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
