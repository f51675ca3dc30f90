/* SPDX-License-Identifier: MIT */
/* Members during a cutover: the generation that was current before gets the keys that are added meanwhile,
 * lanes are trimmed nevertheless, and it may become current again. */
#include "tests/integration/log_redis.h"
#include "tests/integration/cut_over.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "migrate/build/build.h"
#include "shard/request/log_filter_state.h"
#include "shard/generations/grace.h"
#include "shard/view/view_load.h"

enum { REPLY_MS = 5000, ROWS = 300, MORE = 200, WAIT_US = 30 * 1000 * 1000 };

static struct log_member folder, other;

static int set_up(void **state)
{
    (void)state;
    log_redis_make(10000, 1, 32768);
    log_members_open(&folder, &on.nodes, &on.names, UINT64_MAX, true);
    log_members_open(&other, &on.nodes, &on.names, UINT64_MAX, false);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    log_member_abandon(&folder); /* nobody may be left who folds its entries */
    log_member_abandon(&other);
    return 0;
}

static const struct log_generation *stored(unsigned slot)
{
    struct error e = {""};
    must(log_view_load(on.link, &on.names, on.view, &e), e);
    return &on.view->slot[slot];
}

/* Build a generation of the rows [0, ROWS). */
static void build_and_cut_over(void)
{
    struct error e = {""};
    struct builder *b;
    struct build *build;
    char text[24];
    must(log_view_load(on.link, &on.names, on.view, &e), e);
    must(builder_new(&b, on.link, &on.names, &e), e);
    must(builder_begin(b, &on.view->slot[on.view->current].shape, "", &e), e);
    must(builder_start(b, &e), e);
    const struct build_options options = {.memory = UINT64_MAX, .writers = 1};
    must(build_new(&build, b, &options, &e), e);
    for (unsigned i = 0; i < ROWS; i++)
        build_put(build, 0, hash_key(b->seed, text, (size_t)snprintf(text, sizeof(text), "%u", i)));
    must(build_page_end(build, 0, &e), e);
    must(build_cutover(build, false, &e), e);
    build_free(build);
    builder_free(b);
}

static struct log_id end_of_lane(void)
{
    struct log_id id = {0};
    struct lane lane;
    struct error e = {""};
    must(log_view_lane_at(on.view, &on.names, &on.nodes, 0, &lane, &e), e);
    redisReply *r = client_command(&on.client, "XREVRANGE %b + - COUNT 1", lane.key.text, lane.key.length);
    if (r == NULL || r->elements != 1)
        fail_msg("the lane is empty");
    else
        assert_true(log_id_parse(&id, r->element[0]->element[0]->str, r->element[0]->element[0]->len));
    freeReplyObject(r);
    return id;
}

static void wait_until_folded(unsigned slot, struct log_id id)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    while (log_id_compare(stored(slot)->folded[0].position.id, id) < 0) {
        if (clock_mono_us() > until)
            fail_msg("slot %u is not folded", slot);
        clock_sleep_us(5000);
    }
}

static void wait_until_let_go(struct log_member *m, unsigned slot)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    bool held = true;
    while (held) {
        (void)pthread_rwlock_rdlock(&m->filter->lock);
        held = m->filter->slot[slot] != NULL;
        (void)pthread_rwlock_unlock(&m->filter->lock);
        if (held && clock_mono_us() > until)
            fail_msg("a generation is held that the view has not");
        clock_sleep_us(5000);
    }
}

static void all_have(unsigned count)
{
    assert_int_equal(log_member_count(&folder, 0, count, KEY_PRESENT), count);
    assert_int_equal(log_member_count(&other, 0, count, KEY_PRESENT), count);
}

/* The slot and the *@number of a generation with rows that a build has replaced. */
static unsigned replaced_by_a_build(uint64_t *number)
{
    assert_int_equal(log_member_added(&other, 0, ROWS), ROWS);
    unsigned before = stored(0)->shape.number != 0 ? 0 : 1;
    *number = on.view->slot[before].shape.number;
    build_and_cut_over();
    return before;
}

static void test_the_generation_before__is_folded_and_may_be_read_again(void **state)
{
    struct error e = {""};
    (void)state;
    uint64_t number;
    unsigned before = replaced_by_a_build(&number);
    assert_int_equal(stored(before)->shape.number, number);
    assert_int_equal(on.view->current, before ^ 1);
    all_have(ROWS);
    assert_int_equal(log_member_added(&other, ROWS, MORE), MORE);
    assert_int_equal(log_member_added(&folder, ROWS + MORE, MORE), MORE);
    struct log_id end = end_of_lane();
    wait_until_folded(before, end);
    wait_until_folded(before ^ 1, end);
    must(log_switch(on.link, &on.names, number, &e), e);
    all_have(ROWS + 2 * MORE);
    struct log_member late;
    log_members_open(&late, &on.nodes, &on.names, UINT64_MAX, false); /* it has the data of Redis */
    assert_int_equal(log_member_count(&late, 0, ROWS + 2 * MORE, KEY_PRESENT), ROWS + 2 * MORE);
    assert_int_equal(log_member_added(&late, 0, ROWS + 2 * MORE), 0);
    log_member_close(&late);
    assert_int_equal(log_member_added(&folder, 5000, MORE), MORE);
    wait_until_folded(before, end_of_lane());
    uint64_t token = on.view->slot[before].writer.number;
    must(grace_forget(on.link, &on.names, "", on.view->slot[before ^ 1].shape.number, &e), e);
    assert_int_equal(log_member_added(&folder, 6000, MORE), MORE);
    wait_until_let_go(&folder, before ^ 1);
    wait_until_let_go(&other, before ^ 1);
    assert_int_equal(log_member_added(&folder, 7000, MORE), MORE);
    wait_until_folded(before, end_of_lane());
    all_have(ROWS + 2 * MORE);
    /* The folder of the current generation goes on: it does not take over from itself. */
    assert_int_equal(stored(before)->writer.number, token);
}

static void wait_for_looks(struct log_member *m, unsigned count)
{
    struct log_status status;
    uint64_t until = clock_mono_us() + WAIT_US, looks;
    control_status(m->control, &status);
    for (looks = status.looks; status.looks < looks + count && clock_mono_us() < until;
         control_status(m->control, &status))
        clock_sleep_us(5000);
}

/* Keys were added after the position that the cutover stores, and were applied before: the readers go back
 * there, without any request. The keys are folded nevertheless, and the writer leaves the register. */
static void test_what_was_added_before_a_cutover__is_folded_though_nobody_asks(void **state)
{
    struct error e = {""};
    struct builder *b;
    (void)state;
    log_member_pause(&folder);
    must(log_view_load(on.link, &on.names, on.view, &e), e);
    must(builder_new(&b, on.link, &on.names, &e), e);
    must(builder_begin(b, &on.view->slot[on.view->current].shape, "", &e), e);
    must(builder_start(b, &e), e);
    builder_note(b);
    assert_int_equal(log_member_added(&other, 0, 10), 10);
    must(cut_over(b, false, &e), e);
    builder_free(b);
    struct log_id end = end_of_lane();
    wait_for_looks(&other, 3); /* until it has read the new view */
    log_set_folding(other.control, true);
    wait_until_folded(on.view->current ^ 1, end);
}

static enum err pass_over(void *arg, const struct tail_record *record, struct error *e)
{
    (void)arg;
    (void)record;
    (void)e;
    return ERR_OK;
}

/* Keys were added after the builder's last tail read, and folded into the generation that is current until
 * the cutover. Their writer keeps them, as the lane may be lost after the cutover. */
static void test_what_was_added_behind_the_last_read_of_a_build__outlives_the_lane(void **state)
{
    struct error e = {""};
    struct builder *b;
    struct lane lane;
    struct log_member late;
    bool read = true;
    (void)state;
    must(log_view_load(on.link, &on.names, on.view, &e), e);
    unsigned before = on.view->current;
    must(builder_new(&b, on.link, &on.names, &e), e);
    must(builder_begin(b, &on.view->slot[before].shape, "", &e), e);
    must(builder_start(b, &e), e);
    builder_note(b);
    must(builder_cutover(b, false, &read, &e), e);
    assert_false(read);
    must(builder_follow(b, pass_over, NULL, &e), e);
    builder_note(b);
    assert_int_equal(log_member_added(&other, 0, 10), 10);
    assert_int_equal(log_member_count(&folder, 0, 10, KEY_PRESENT), 10);
    wait_until_folded(before, end_of_lane());
    wait_for_looks(&other, 3);
    log_member_pause(&folder);
    must(builder_cutover(b, false, &read, &e), e);
    assert_true(read);
    builder_free(b);
    (void)stored(0);
    uint64_t number = on.view->lane[0].number, until = clock_mono_us() + WAIT_US;
    must(log_view_lane_at(on.view, &on.names, &on.nodes, 0, &lane, &e), e);
    must(client_ok(&on.client, &e, "RENAME %b gone", lane.key.text, lane.key.length), e);
    while (on.view->lane[0].number == number || on.view->lane[0].era == 0) {
        uint8_t answer;
        enum err unused = log_member_check(&other, 5000, 1, &answer, &e); /* a request meets the loss */
        (void)unused;
        if (clock_mono_us() > until)
            fail_msg("the lane is not replaced: %s", other.last.text);
        (void)stored(0);
    }
    log_members_open(&late, &on.nodes, &on.names, UINT64_MAX, false);
    unsigned found = log_member_count(&late, 0, 10, KEY_PRESENT);
    log_member_close(&late);
    assert_int_equal(found, 10);
}

static void delete_shard(uint64_t generation)
{
    struct key_name shard;
    names_log_shard(&on.names, (struct shard_id){generation, 0, 0}, &shard);
    redisReply *r = client_command(&on.client, "DEL %b", shard.text, shard.length);
    assert_true(r != NULL && r->type == REDIS_REPLY_INTEGER && r->integer == 1);
    freeReplyObject(r);
}

static bool is_degraded(void)
{
    (void)stored(0);
    return on.view->degraded;
}

/* A shard is lost before any process has loaded the new generation. All answer from the generation before, so
 * no key is absent. As no process has the shard, the filter is degraded, which a build heals. */
static void test_a_shard_that_went_behind_a_cutover__degrades_the_filter(void **state)
{
    (void)state;
    assert_int_equal(log_member_added(&other, 0, ROWS), ROWS);
    all_have(ROWS); /* so that both hold the generation before */
    log_member_pause(&folder);
    log_member_pause(&other);
    build_and_cut_over();
    (void)stored(0);
    delete_shard(on.view->slot[on.view->current].shape.number);
    log_member_go_on(&folder);
    log_member_go_on(&other);
    uint64_t until = clock_mono_us() + WAIT_US;
    while (!is_degraded()) {
        if (clock_mono_us() > until)
            fail_msg("it is not degraded");
        assert_int_equal(log_member_count(&folder, 0, ROWS, KEY_PRESENT), ROWS);
        assert_int_equal(log_member_count(&other, 0, ROWS, KEY_PRESENT), ROWS);
        clock_sleep_us(20000);
    }
    all_have(ROWS);
}

/* Somebody else's key lies where the shard was. */
static void take_name(uint64_t generation)
{
    struct key_name shard;
    names_log_shard(&on.names, (struct shard_id){generation, 0, 0}, &shard);
    freeReplyObject(client_command(&on.client, "RPUSH %b theirs", shard.text, shard.length));
}

/* Nobody makes a shard of the generation before again. So there is no rollback, and the lane is not kept for
 * one. */
static void loses_a_shard_of_the_generation_before(bool foreign)
{
    struct error e = {""};
    uint64_t number;
    unsigned before = replaced_by_a_build(&number);
    assert_int_equal(log_member_added(&other, ROWS, MORE), MORE);
    (void)stored(0);
    wait_until_folded(before, end_of_lane());
    log_member_pause(&folder);
    delete_shard(number);
    if (foreign)
        take_name(number);
    log_member_go_on(&folder);
    uint64_t until = clock_mono_us() + WAIT_US;
    for (unsigned first = ROWS + MORE; stored(before)->shape.built; first += MORE) {
        if (clock_mono_us() > until)
            fail_msg("the lane is kept: %s", folder.last.text);
        assert_int_equal(log_member_added(&other, first, 1), 1);
        clock_sleep_us(100 * 1000);
    }
    gives(ERR_CONFLICT, log_switch(on.link, &on.names, number, &e), e);
    assert_false(on.view->degraded);
    struct log_id end = end_of_lane();
    wait_until_folded(before ^ 1, end);
    assert_true(log_id_compare(stored(before)->folded[0].position.id, end) < 0);
    all_have(ROWS + MORE);
}

static void test_a_shard_of_the_generation_before_that_is_lost__ends_its_grace(void **state)
{
    (void)state;
    loses_a_shard_of_the_generation_before(false);
}

static void test_a_foreign_key_at_a_shard_of_the_generation_before__ends_its_grace(void **state)
{
    (void)state;
    loses_a_shard_of_the_generation_before(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_generation_before__is_folded_and_may_be_read_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_added_before_a_cutover__is_folded_though_nobody_asks,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_what_was_added_behind_the_last_read_of_a_build__outlives_the_lane, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_shard_of_the_generation_before_that_is_lost__ends_its_grace,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_foreign_key_at_a_shard_of_the_generation_before__ends_its_grace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_shard_that_went_behind_a_cutover__degrades_the_filter, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
