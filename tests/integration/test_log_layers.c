/* SPDX-License-Identifier: MIT */
/* Filters grow by layers while members check and add, on a real Redis. No key is lost, each is new once, and
 * the layers are as planned, even if a member is late, has no memory for shards, or ends before all is
 * done. */
#include "tests/integration/log_redis.h"
#include "tests/integration/cut_over.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/request/log_filter_state.h"
#include "shard/generations/build.h"
#include "shard/generations/grace.h"
#include "shard/generations/grow.h"
#include "shard/generations/make.h"
#include "shard/members/remove.h"
#include "shard/view/view_load.h"

enum {
    REPLY_MS = 5000,
    MEMBERS = 4,
    CAPACITY = 3000,
    KEYS = 27000,
    BATCH = 100,
    WAIT_US = 20 * 1000 * 1000,
    RETAIN_US = WAIT_US
};

static struct log_member member[MEMBERS];
static unsigned opened;
static uint64_t look_us; /* 0: the tests' default */

static int set_up(void **state)
{
    (void)state;
    opened = 0;
    look_us = 0;
    log_redis_make(CAPACITY, 2, 32768);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    while (opened > 0)
        log_member_abandon(&member[--opened]); /* nobody may be left who folds its entries */
    return 0;
}

static bool is_whole(struct log_member *m)
{
    struct resident_status s = {0};
    (void)pthread_rwlock_rdlock(&m->filter->lock);
    if (m->filter->slot[1] != NULL)
        resident_status(m->filter->slot[1]->resident, &s);
    (void)pthread_rwlock_unlock(&m->filter->lock);
    return s.shards > 0 && s.resident == s.shards;
}

/* Open a member and wait until its shards are in memory, if there is room. */
static struct log_member *open_member(uint64_t memory, bool folds)
{
    struct log_member *m = &member[opened++];
    struct error e = {""};
    uint64_t until = clock_mono_us() + WAIT_US;
    const struct log_member_options o = {.nodes = &on.nodes,
                                         .names = &on.names,
                                         .memory = memory,
                                         .timeout_ms = REPLY_MS,
                                         .retain_us = RETAIN_US,
                                         .look_interval_us = look_us,
                                         .folds = folds};
    must(log_member_open(m, &o, &e), e);
    while (memory > 0 && !is_whole(m)) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(2000);
    }
    return m;
}

static const struct log_generation *stored(void)
{
    struct error e = {""};
    must(log_view_load(on.link, &on.names, on.view, &e), e);
    return &on.view->slot[on.view->current];
}

/* Wait until the view has @layers layers, and positions after the newest one's marks in both lanes. */
static void wait_for_layers(unsigned layers)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    for (;; clock_sleep_us(5000)) {
        const struct log_generation *g = stored();
        if (g->shape.layer_count == layers && g->folded[0].layers == layers && g->folded[1].layers == layers)
            return;
        if (clock_mono_us() > until)
            fail_msg("%u layers, folded to %u and %u; %s", g->shape.layer_count, g->folded[0].layers,
                     g->folded[1].layers, member[0].last.text);
    }
}

/* --- adding at once --- */

struct adder {
    struct log_member *member;
    uint64_t first, step; /* the number of the first batch, and of those that are left out; odd */
    uint8_t *answers;     /* of each key, as the member got it */
    pthread_t thread;
};

static void *add(void *arg)
{
    struct adder *a = arg;
    enum { BATCHES = KEYS / BATCH };
    for (uint64_t i = 0; i < BATCHES; i++) {
        uint64_t first = (a->first + i * a->step) % BATCHES * BATCH;
        struct error e = {""};
        must(log_member_add(a->member, first, BATCH, a->answers + first, &e), e);
    }
    return NULL;
}

static void is_new_once(const struct adder *a, unsigned adders)
{
    unsigned more = 0, none = 0;
    for (unsigned k = 0; k < KEYS; k++) {
        unsigned times = 0, unsure = 0;
        for (unsigned i = 0; i < adders; i++) {
            times += a[i].answers[k] == KEY_ADDED;
            unsure += a[i].answers[k] == KEY_UNSURE;
        }
        more += times > 1;
        none += times + unsure == 0;
    }
    assert_int_equal(more, 0);
    assert_true(none < KEYS / 100); /* false positives: a layer gets somewhat more keys than planned */
}

static void has_all(struct log_member *m)
{
    for (unsigned k = 0; k < KEYS; k += BATCH)
        assert_int_equal(log_member_count(m, k, BATCH, KEY_PRESENT), BATCH);
    unsigned absent = 0;
    for (unsigned k = KEYS; k < 2 * KEYS; k += BATCH)
        absent += log_member_count(m, k, BATCH, KEY_ABSENT);
    assert_true(absent > KEYS - KEYS / 100);
}

static void begin_adding(struct adder *a, unsigned adders)
{
    static const uint64_t steps[] = {1, 7, 89};
    for (unsigned i = 0; i < adders; i++) {
        a[i] =
            (struct adder){.member = &member[i], .first = i * 60, .step = steps[i], .answers = malloc(KEYS)};
        assert_int_equal(pthread_create(&a[i].thread, NULL, add, &a[i]), 0);
    }
}

static void end_adding(struct adder *a, unsigned adders)
{
    for (unsigned i = 0; i < adders; i++)
        assert_int_equal(pthread_join(a[i].thread, NULL), 0);
    is_new_once(a, adders);
    for (unsigned i = 0; i < adders; i++)
        free(a[i].answers);
}

/* Each layer was planned from the one before. The number of layers depends on how many keys repeat. */
static void layers_are_as_planned(void)
{
    const struct generation *g = &stored()->shape;
    struct generation planned = *g, next;
    struct error e = {""};
    assert_true(g->layer_count >= 3);
    planned.layer_count = 1;
    planned.capacity = g->layers[0].capacity;
    for (unsigned layer = 1; layer < g->layer_count; layer++, planned = next) {
        must(grow_plan(&next, &planned, 2, false, 32768, g->layers[layer].token, &e), e);
        assert_memory_equal(&next.layers[layer].geometry, &g->layers[layer].geometry,
                            sizeof(next.layers[layer].geometry));
        assert_int_equal(next.layers[layer].capacity, g->layers[layer].capacity);
    }
    assert_int_equal(planned.capacity, g->capacity);
}

static void test_three_members__grow_through_several_layers(void **state)
{
    (void)state;
    struct adder a[3];
    (void)open_member(UINT64_MAX, true);
    (void)open_member(UINT64_MAX, false);
    (void)open_member(0, false);
    struct log_member *late = open_member(UINT64_MAX, false);
    log_member_pause(late); /* its memory has one layer */
    begin_adding(a, 3);
    end_adding(a, 3);
    log_member_go_on(late);
    for (unsigned i = 0; i < 4; i++)
        has_all(&member[i]);
    layers_are_as_planned();
    wait_for_layers(stored()->shape.layer_count);
    assert_int_equal(log_member_added(late, 0, BATCH), 0);
}

/* Two folders take over from each other all the time, and both add layers when the filter is full. */
static void test_two_folders__make_each_layer_once(void **state)
{
    (void)state;
    struct adder a[3];
    (void)open_member(UINT64_MAX, true);
    (void)open_member(UINT64_MAX, true);
    (void)open_member(0, false);
    begin_adding(a, 3);
    end_adding(a, 3);
    for (unsigned i = 0; i < 3; i++)
        has_all(&member[i]);
    layers_are_as_planned();
}

/* --- one that is behind --- */

static void grow_from_one_layer(void)
{
    struct error e = {""};
    must(log_grow(on.link, &on.names, 1, 1, on.view, &e), e);
}

/* All keys must be new. */
static void adds_new(struct log_member *m, uint64_t first, unsigned count)
{
    struct error e = {""};
    uint8_t answers[BATCH * 2];
    must(log_member_add(m, first, count, answers, &e), e);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(answers[i], KEY_ADDED);
}

/* Wait until the member's memory has @layers layers. */
static void wait_until_known(struct log_member *m, unsigned layers)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    while (atomic_load(&m->filter->slot[1]->resident->layer_count) < layers) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(5000);
    }
}

/* A member that does not know the layer folds keys that another one, which knows it and has only the first
 * layer in memory, has applied, too. If each put them into the newest layer of its own view, they would be in
 * neither. */
static void test_one_that_does_not_know_the_layer__folds_for_one_that_does(void **state)
{
    (void)state;
    const struct geometry *first = &stored()->shape.layers[0].geometry;
    struct log_member *folder = open_member(UINT64_MAX, false),
                      *reader = open_member(geometry_bytes(first), false);
    assert_int_equal(log_member_count(folder, 0, BATCH, KEY_ABSENT), BATCH); /* until connected */
    log_member_pause(folder);
    grow_from_one_layer();
    wait_until_known(reader, 2);
    adds_new(reader, 0, BATCH);
    assert_int_equal(log_member_count(folder, 0, BATCH, KEY_PRESENT), BATCH);
    log_set_folding(folder->control, true);
    log_member_go_on(folder);
    wait_for_layers(2);
    adds_new(folder, BATCH, BATCH); /* after the marks */
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(log_member_count(&member[i], 0, 2 * BATCH, KEY_PRESENT), 2 * BATCH);
    clock_sleep_us(100 * 1000); /* until the member has read the view with the layer */
    assert_int_equal(log_member_count(reader, 0, 2 * BATCH, KEY_PRESENT), 2 * BATCH);
}

/* --- deaths --- */

/* The grower ends when the view has the layer, but no entry marks its beginning. */
static void test_a_layer_without_its_entries__begins_when_the_next_one_folds(void **state)
{
    (void)state;
    struct log_member *a = open_member(UINT64_MAX, false), *b = open_member(0, false);
    adds_new(a, 0, BATCH);
    grow_from_one_layer();
    adds_new(a, BATCH, BATCH); /* goes into the earlier layer */
    adds_new(b, 2 * BATCH, BATCH);
    log_set_folding(a->control, true);
    wait_for_layers(2);
    adds_new(b, 3 * BATCH, BATCH);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(log_member_count(&member[i], 0, 4 * BATCH, KEY_PRESENT), 4 * BATCH);
    struct log_member *c = open_member(UINT64_MAX, false);
    assert_int_equal(log_member_count(c, 0, 4 * BATCH, KEY_PRESENT), 4 * BATCH);
    assert_int_equal(stored()->shape.layer_count, 2);
}

/* Only one lane has the entry, so that the two lanes' keys go into different layers meanwhile. */
static void test_a_layer_with_one_entry__begins_in_the_other_lane_later(void **state)
{
    (void)state;
    struct error e = {""};
    struct lane lane;
    struct log_member *a = open_member(UINT64_MAX, false), *b = open_member(0, false);
    grow_from_one_layer();
    must(log_view_lane_at(on.view, &on.names, &on.nodes, 1, &lane, &e), e);
    must(lane_mark_layer(on.link, &lane, 1, 1, &e), e);
    adds_new(a, 0, 2 * BATCH);
    log_set_folding(b->control, true); /* this member has no shard in memory */
    wait_for_layers(2);
    adds_new(b, 2 * BATCH, BATCH);
    struct log_member *c = open_member(UINT64_MAX, false);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(log_member_count(&member[i], 0, 3 * BATCH, KEY_PRESENT), 3 * BATCH);
    assert_int_equal(log_member_added(c, 0, 3 * BATCH), 0);
}

/* --- generations that have several layers --- */

/* The id of a lane's last entry. */
static struct log_id end_of(unsigned lane)
{
    struct error e = {""};
    struct lane l;
    struct log_id id;
    must(log_view_lane_at(on.view, &on.names, &on.nodes, lane, &l, &e), e);
    redisReply *r = client_command(&on.client, "XREVRANGE %b + - COUNT 1", l.key.text, l.key.length);
    assert_true(r != NULL && r->elements == 1);
    const redisReply *text = r->element[0]->element[0];
    assert_true(log_id_parse(&id, text->str, text->len));
    freeReplyObject(r);
    return id;
}

static void wait_until_folded(void)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    for (unsigned lane = 0; lane < 2; lane++)
        while (log_id_compare(stored()->folded[lane].position.id, end_of(lane)) < 0) {
            assert_true(clock_mono_us() < until);
            clock_sleep_us(5000);
        }
}

static bool comes_to(struct log_member *m, enum key_answer answer)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    unsigned count;
    while ((count = log_member_count(m, 0, BATCH, answer)) < BATCH && clock_mono_us() < until)
        clock_sleep_us(2000);
    return count == BATCH;
}

/* Build a generation without rows and cut over. Returns the number of the one before. */
static uint64_t reads_another(void)
{
    struct error e = {""};
    struct builder *b;
    struct generation shape = stored()->shape;
    must(builder_new(&b, on.link, &on.names, &e), e);
    must(builder_begin(b, &shape, "", &e), e);
    must(builder_start(b, &e), e);
    builder_note(b);
    must(cut_over(b, false, &e), e);
    builder_free(b);
    return shape.number;
}

/* All of its layers are loaded, even those that had begun before the member held it. */
static void test_a_generation_of_two_layers__is_read_again(void **state)
{
    (void)state;
    struct error e = {""};
    struct log_member *a = open_member(UINT64_MAX, true), *b = open_member(UINT64_MAX, false),
                      *c = open_member(0, false);
    grow_from_one_layer();
    wait_for_layers(2);
    adds_new(a, 0, BATCH); /* into the second layer */
    on.names.incarnation = on.view->incarnation;
    wait_until_folded();
    uint64_t before = reads_another();
    assert_true(comes_to(a, KEY_ABSENT) && comes_to(b, KEY_ABSENT) && comes_to(c, KEY_ABSENT));
    must(log_switch(on.link, &on.names, before, &e), e);
    assert_true(comes_to(a, KEY_PRESENT) && comes_to(b, KEY_PRESENT) && comes_to(c, KEY_PRESENT));
}

static void drop(uint64_t number)
{
    struct error e = {""};
    must(grace_forget(on.link, &on.names, "", number, &e), e);
    must(grace_delete(on.link, &on.names, &e), e);
}

struct late {
    struct log_member *member;
    uint64_t first;
    uint8_t answers[BATCH];
    pthread_t thread;
};

static void *add_late(void *arg)
{
    struct late *l = arg;
    struct error e = {""};
    must(log_member_add(l->member, l->first, BATCH, l->answers, &e), e);
    return NULL;
}

static void begin_late(struct late *l, struct log_member *m, uint64_t first)
{
    *l = (struct late){.member = m, .first = first};
    assert_int_equal(pthread_create(&l->thread, NULL, add_late, l), 0);
}

/* Wait until the member has met the mark of a layer that its view lacks. */
static void wait_until_stalled(const struct log_member *m)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    while (atomic_load(&m->filter->lane[0].stalled) != TAIL_LAYER &&
           atomic_load(&m->filter->lane[1].stalled) != TAIL_LAYER) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(2000);
    }
}

static void put_in_doubt(const struct log_member *m)
{
    struct error e = {""};
    struct roll r;
    (void)stored();
    roll_init(&r, on.link, &on.names, m->filter->writer);
    must(remove_doubt(&r, log_view_writer(on.view, m->filter->writer), &e), e);
    roll_fini(&r);
}

/* Members that were stopped meanwhile meet the layer's mark in their lanes, when the view has no such layer
 * any more: one member has all shards of the former generation, the other none. @doubt: the former is put in
 * doubt, as each writer is in turn, and registers again before its lanes go on. */
static void meet_a_layer_of_a_generation_that_was_replaced(bool doubt)
{
    struct log_member *a = open_member(UINT64_MAX, true), *b = open_member(UINT64_MAX, false),
                      *c = open_member(0, false);
    struct late late[2];
    adds_new(a, 0, BATCH);
    adds_new(b, BATCH, BATCH);
    assert_int_equal(log_member_count(c, 0, 2 * BATCH, KEY_PRESENT), 2 * BATCH);
    log_member_pause(b);
    log_member_pause(c);
    log_set_folding(c->control, true); /* only now: nobody waits for a lease that it has */
    grow_from_one_layer();
    wait_for_layers(2);
    adds_new(a, 2 * BATCH, BATCH); /* into the second layer */
    on.names.incarnation = on.view->incarnation;
    drop(reads_another());
    assert_true(comes_to(a, KEY_ABSENT)); /* nothing was read into the other generation */
    adds_new(a, 3 * BATCH, BATCH);
    for (unsigned i = 0; i < 2; i++)
        begin_late(&late[i], &b[i], (5 + i) * BATCH);
    wait_until_stalled(b); /* the other member reads blocks first, and finds none */
    if (doubt)
        put_in_doubt(b);
    for (unsigned i = 0; i < 2; i++)
        log_member_go_on(&b[i]);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_join(late[i].thread, NULL), 0);
    assert_true(comes_to(b, KEY_ABSENT) && comes_to(c, KEY_ABSENT));
    for (struct log_member *m = b; m <= c; m++) {
        assert_int_equal(log_member_count(m, 3 * BATCH, BATCH, KEY_PRESENT), BATCH);
        assert_int_equal(log_member_added(m, 3 * BATCH, BATCH), 0);
    }
    adds_new(b, 4 * BATCH, BATCH);
    assert_int_equal(log_member_count(a, 4 * BATCH, 3 * BATCH, KEY_PRESENT), 3 * BATCH);
    for (unsigned i = 0; i < BATCH; i++)
        assert_int_equal(late[0].answers[i], KEY_ADDED);
    assert_int_equal(stored()->shape.layer_count,
                     2); /* as in the former generation: no further layer was made */
}

static void test_a_layer_of_a_generation_that_was_replaced__stops_nobody(void **state)
{
    (void)state;
    meet_a_layer_of_a_generation_that_was_replaced(false);
}

static void test_a_layer_of_a_generation_that_was_replaced__stops_no_writer_in_doubt(void **state)
{
    (void)state;
    meet_a_layer_of_a_generation_that_was_replaced(true);
}

/* Until what @m holds in slot 1 has passed a layer, or has not, and has so many layers. */
static void wait_until_held(struct log_member *m, bool replaced, unsigned layers)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    for (bool is_so = false; !is_so; clock_sleep_us(2000)) {
        (void)pthread_rwlock_rdlock(&m->filter->lock);
        const struct held *h = m->filter->slot[1];
        is_so = h != NULL && atomic_load(&h->replaced) == replaced &&
                atomic_load(&h->resident->layer_count) == layers;
        (void)pthread_rwlock_unlock(&m->filter->lock);
        assert_true(clock_mono_us() < until);
    }
}

/* The metadata node goes back to where the generation was current: what a member has set in another layer
 * than the log says must not be written. A shard is missing, so that the member still holds that generation.
 */
static void test_a_generation_that_comes_back__is_held_anew(void **state)
{
    (void)state;
    struct error e = {""};
    struct log_member *a = open_member(UINT64_MAX, true), *b = open_member(UINT64_MAX, false);
    struct key_name view, shard;
    struct late late;
    adds_new(a, 0, BATCH);
    adds_new(b, BATCH, BATCH);
    log_member_pause(b);
    grow_from_one_layer();
    wait_for_layers(2);
    on.names.incarnation = on.view->incarnation;
    names_filter_key(&on.names, "view", &view);
    freeReplyObject(client_command(&on.client, "COPY %b earlier", view.text, view.length));
    must(grace_forget(on.link, &on.names, "", reads_another(), &e), e);
    log_member_pause(a);
    names_log_shard(&on.names, (struct shard_id){.generation = stored()->shape.number}, &shard);
    freeReplyObject(client_command(&on.client, "DEL %b", shard.text, shard.length));
    begin_late(&late, b, 2 * BATCH);
    wait_until_stalled(b);
    log_member_go_on(b);
    assert_int_equal(pthread_join(late.thread, NULL), 0);
    wait_until_held(b, true, 1);
    freeReplyObject(client_command(&on.client, "COPY earlier %b REPLACE", view.text, view.length));
    wait_until_held(b, false, 2);
    log_member_go_on(a);
}

/* --- full --- */

static int make_fixed(unsigned lanes)
{
    struct error e = {""};
    struct placement placement;
    const struct make_options o = {.capacity = CAPACITY,
                                   .error_rate = 0.0001,
                                   .lanes = lanes,
                                   .placement = &placement,
                                   .shard_bytes = 32768};
    opened = 0;
    must(client_ok(&on.client, &e, "FLUSHALL"), e);
    must(names_init(&on.names, "tb", "f", 1, &e), e);
    must(placement_choose(&placement, &on.nodes, "", &e), e);
    must(log_make(on.link, &on.names, &o, on.view, NULL, &e), e);
    return 0;
}

static int set_up_fixed(void **state)
{
    (void)state;
    return make_fixed(2);
}

/* With several lanes, processes meet entries in different orders, so that their false positives may
 * differ. */
static int set_up_fixed_in_order(void **state)
{
    (void)state;
    return make_fixed(1);
}

static unsigned answers_of(const uint8_t *answers, unsigned count, enum key_answer answer)
{
    unsigned n = 0;
    for (unsigned i = 0; i < count; i++)
        n += answers[i] == answer;
    return n;
}

/* Wait until the view has a mark of each lane, and @keys keys. */
static void wait_until_full(uint64_t keys)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    for (;; clock_sleep_us(5000)) {
        const struct log_generation *g = stored();
        bool full = g->keys == keys;
        for (unsigned i = 0; i < on.view->lane_count; i++)
            full &= log_view_is_full(on.view, g, i);
        if (full)
            return;
        if (clock_mono_us() > until)
            fail_msg("%" PRIu64 " keys, not %" PRIu64 ", or not full; %s", g->keys, keys,
                     member[0].last.text);
    }
}

static uint64_t entries(void)
{
    struct lane lane;
    struct error e = {""};
    uint64_t n = 0;
    (void)stored();
    for (unsigned i = 0; i < 2; i++) {
        must(log_view_lane_at(on.view, &on.names, &on.nodes, i, &lane, &e), e);
        n += (uint64_t)lanes_number(&on.client, "XLEN", &lane);
    }
    return n;
}

static void test_one_that_adds_alone__is_refused_at_the_very_key(void **state)
{
    (void)state;
    struct error e = {""};
    uint8_t *answers = malloc(KEYS);
    struct log_member *a = open_member(UINT64_MAX, true);
    for (unsigned k = 0; k < 2 * CAPACITY; k += CAPACITY)
        must(log_member_add(a, k / 2, CAPACITY, answers + k, &e),
             e); /* half of the second batch is repeated */
    assert_int_equal(answers_of(answers, 2 * CAPACITY, KEY_ADDED), CAPACITY);
    unsigned old = answers_of(answers, 2 * CAPACITY, KEY_OLD); /* some are false positives */
    assert_in_range(old, CAPACITY / 2, CAPACITY / 2 + CAPACITY / 100);
    assert_int_equal(answers_of(answers, 2 * CAPACITY, KEY_NO_ROOM), CAPACITY - old);
    wait_until_full(CAPACITY);

    /* Members that come later know that the filter is full, and append nothing. */
    struct log_member *b = open_member(UINT64_MAX, false), *c = open_member(0, false);
    uint64_t before = entries();
    for (struct log_member *m = b; m <= c; m++) {
        for (unsigned k = 0; k < 2 * CAPACITY; k += CAPACITY)
            must(log_member_add(m, k, CAPACITY, answers + k, &e), e);
        assert_int_equal(answers_of(answers, CAPACITY, KEY_OLD), CAPACITY);
        assert_true(answers_of(answers, 2 * CAPACITY, KEY_NO_ROOM) > CAPACITY - CAPACITY / 100);
        assert_int_equal(answers_of(answers, 2 * CAPACITY, KEY_ADDED), 0);
    }
    assert_true(entries() <= before);

    /* An entry after the mark, by a process that did not know the mark. */
    const char text[] = "1000000";
    const struct key_hash key = hash_key(on.view->seed, text, strlen(text));
    struct lane_put put = {.length = 0};
    struct lane lane;
    put.length = log_entry_encode(put.bytes, lanes_writer, 1, &key, 1);
    must(log_view_lane_at(on.view, &on.names, &on.nodes, log_lane_of(key, 2), &lane, &e), e);
    must(lane_put(on.link, &lane, &put, 1, &e), e);
    for (struct log_member *m = a; m <= c; m++)
        assert_int_equal(log_member_count(m, 1000000, 1, KEY_ABSENT), 1);
    free(answers);
}

static void test_three_members__agree_on_what_was_accepted(void **state)
{
    (void)state;
    struct error e = {""};
    struct adder a[3];
    unsigned accepted = 0;
    uint8_t *present = malloc(KEYS), *first = malloc(KEYS);
    for (unsigned i = 0; i < 3; i++)
        (void)open_member(UINT64_MAX, i == 0);
    begin_adding(a, 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(pthread_join(a[i].thread, NULL), 0);
    struct log_member *late = open_member(UINT64_MAX, false);
    for (unsigned m = 0; m < 4; m++) {
        for (unsigned k = 0; k < KEYS; k += BATCH)
            must(log_member_check(m < 3 ? &member[m] : late, k, BATCH, present + k, &e), e);
        if (m > 0)
            assert_memory_equal(present, first, KEYS);
        memcpy(first, present, KEYS);
    }
    for (unsigned k = 0; k < KEYS; k++) {
        unsigned added = 0;
        for (unsigned i = 0; i < 3; i++) {
            added += a[i].answers[k] == KEY_ADDED;
            if (a[i].answers[k] == KEY_ADDED || a[i].answers[k] == KEY_OLD)
                assert_int_equal(first[k], KEY_PRESENT);
            assert_true(a[i].answers[k] != KEY_UNSURE);
        }
        assert_true(added <= 1);
        accepted += added;
    }
    assert_in_range(accepted, CAPACITY,
                    CAPACITY + 2 * BATCH); /* including other members' keys that were under way */
    wait_until_full(accepted);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(held_keys(member[i].filter->slot[1]), accepted);
        free(a[i].answers);
    }
    free(present);
    free(first);
}

/* Otherwise requests that wait for the layer would wait for the next look at the view. */
static void test_whoever_makes_a_layer__does_not_wait_for_its_next_look(void **state)
{
    (void)state;
    look_us = 10ull * REPLY_MS * 1000;
    struct log_member *m = open_member(1 << 24, true);
    uint8_t answers[BATCH];
    for (uint64_t first = 0; first < 2 * CAPACITY; first += BATCH) {
        struct error e = {""};
        must(log_member_add(m, first, BATCH, answers, &e), e);
    }
    assert_int_equal(stored()->shape.layer_count, 2);
}

#define MEMBER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MEMBER_TEST(test_three_members__grow_through_several_layers),
        MEMBER_TEST(test_two_folders__make_each_layer_once),
        MEMBER_TEST(test_one_that_does_not_know_the_layer__folds_for_one_that_does),
        MEMBER_TEST(test_a_layer_without_its_entries__begins_when_the_next_one_folds),
        MEMBER_TEST(test_a_layer_with_one_entry__begins_in_the_other_lane_later),
        MEMBER_TEST(test_a_generation_of_two_layers__is_read_again),
        MEMBER_TEST(test_a_layer_of_a_generation_that_was_replaced__stops_nobody),
        MEMBER_TEST(test_a_layer_of_a_generation_that_was_replaced__stops_no_writer_in_doubt),
        MEMBER_TEST(test_a_generation_that_comes_back__is_held_anew),
        MEMBER_TEST(test_whoever_makes_a_layer__does_not_wait_for_its_next_look),
        cmocka_unit_test_setup_teardown(test_one_that_adds_alone__is_refused_at_the_very_key, set_up_fixed,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_three_members__agree_on_what_was_accepted, set_up_fixed_in_order,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
