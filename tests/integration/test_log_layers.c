/* SPDX-License-Identifier: MIT */
/* Filters that grow by layers while members check and add, on a real Redis: no key is lost, each is new once, and the
 * layers are those that were planned, whoever is late, has no memory for shards, or ends before all is done. */
#include "tests/integration/log_members.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/view/grow.h"
#include "shard/view/view_load.h"
#include "tests/lib/temp_redis.h"

enum { REPLY_MS = 5000, MEMBERS = 4, CAPACITY = 1000, KEYS = 9000, BATCH = 100, WAIT_US = 20 * 1000 * 1000 };

static struct temp_redis redis;
static struct client client;
static struct nodes nodes;
static struct link *l;
static struct names names;
static struct log_member member[MEMBERS];
static unsigned opened;
static struct log_view *view;

static int start(void **state)
{
    struct error e = {""};
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    must(temp_redis_start(&redis, NULL, &e), e);
    must(client_open(&client, redis.port, REPLY_MS, &e), e);
    must(nodes_parse(&nodes, redis.url, &e), e);
    l = link_new(&nodes, REPLY_MS, NULL);
    view = malloc(sizeof(*view));
    assert_true(l != NULL && view != NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    free(view);
    link_free(l);
    client_close(&client);
    temp_redis_fini(&redis);
    return 0;
}

static int set_up(void **state)
{
    struct error e = {""};
    (void)state;
    opened = 0;
    must(client_ok(&client, &e, "FLUSHALL"), e);
    must(names_init(&names, "tb", "f", 1, &e), e);
    must(log_member_make(l, &names, CAPACITY, 2, 32768, &e), e);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    while (opened > 0)
        log_member_close(&member[--opened]);
    return 0;
}

static struct log_member *open_member(uint64_t memory, bool folds)
{
    struct log_member *m = &member[opened++];
    log_members_open(m, &nodes, &names, memory, folds);
    return m;
}

static const struct log_generation *stored(void)
{
    struct error e = {""};
    must(log_view_load(l, &names, view, &e), e);
    return &view->slot[view->current];
}

/* Until the view has @layers, and positions behind the marks of the newest one in both lanes. */
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
    uint8_t *answers;     /* of each key, as it was told */
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
    assert_true(none < KEYS / 1000); /* false positives */
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
        a[i] = (struct adder){.member = &member[i], .first = i * 20, .step = steps[i], .answers = malloc(KEYS)};
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

/* Each layer was planned by the one before. How many there are depends on how often keys come again. */
static void layers_are_as_planned(void)
{
    const struct generation *g = &stored()->shape;
    struct generation planned = *g, next;
    struct error e = {""};
    assert_true(g->layer_count >= 3);
    planned.layer_count = 1;
    planned.capacity = g->layers[0].capacity;
    for (unsigned layer = 1; layer < g->layer_count; layer++, planned = next) {
        must(grow_plan(&next, &planned, 2, false, 2, 32768, g->layers[layer].token, &e), e);
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
    assert_int_equal(log_member_count(late, 0, BATCH, KEY_ABSENT), BATCH);
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

/* Two that fold take over from each other all the time, and both grow what is full. */
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

/* --- deaths --- */

/* The grower ends when the view has the layer, and no entry says that it begins. */
static void test_a_layer_without_its_entries__begins_when_the_next_one_folds(void **state)
{
    (void)state;
    struct error e = {""};
    struct log_member *a = open_member(UINT64_MAX, false), *b = open_member(0, false);
    const struct grow_options o = {.generation = 1, .layers = 1, .shard_bytes = 32768, .growth = 2};
    assert_int_equal(log_member_added(a, 0, BATCH), BATCH);
    must(log_grow(l, &names, &o, view, NULL, &e), e);
    assert_int_equal(log_member_added(a, BATCH, BATCH), BATCH); /* goes into the layer before */
    assert_int_equal(log_member_added(b, 2 * BATCH, BATCH), BATCH);
    control_set_folding(a->control, true);
    wait_for_layers(2);
    assert_int_equal(log_member_added(b, 3 * BATCH, BATCH), BATCH);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(log_member_count(&member[i], 0, 4 * BATCH, KEY_PRESENT), 4 * BATCH);
    struct log_member *c = open_member(UINT64_MAX, false);
    assert_int_equal(log_member_count(c, 0, 4 * BATCH, KEY_PRESENT), 4 * BATCH);
    assert_int_equal(stored()->shape.layer_count, 2);
}

/* In one lane only: the two lanes' keys go into different layers meanwhile. */
static void test_a_layer_with_one_entry__begins_in_the_other_lane_later(void **state)
{
    (void)state;
    struct error e = {""};
    struct lane lane;
    struct log_member *a = open_member(UINT64_MAX, false), *b = open_member(0, false);
    const struct grow_options o = {.generation = 1, .layers = 1, .shard_bytes = 32768, .growth = 2};
    must(log_grow(l, &names, &o, view, NULL, &e), e);
    must(log_view_lane_at(view, &names, &nodes, 1, &lane, &e), e);
    must(lane_mark_layer(l, &lane, 1, 1, &e), e);
    assert_int_equal(log_member_added(a, 0, 2 * BATCH), 2 * BATCH);
    control_set_folding(b->control, true); /* it has no shard in memory */
    wait_for_layers(2);
    assert_int_equal(log_member_added(b, 0, 3 * BATCH), BATCH);
    struct log_member *c = open_member(UINT64_MAX, false);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(log_member_count(&member[i], 0, 3 * BATCH, KEY_PRESENT), 3 * BATCH);
    assert_int_equal(log_member_added(c, 0, 3 * BATCH), 0);
}

#define MEMBER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MEMBER_TEST(test_three_members__grow_through_several_layers),
        MEMBER_TEST(test_two_folders__make_each_layer_once),
        MEMBER_TEST(test_a_layer_without_its_entries__begins_when_the_next_one_folds),
        MEMBER_TEST(test_a_layer_with_one_entry__begins_in_the_other_lane_later),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
