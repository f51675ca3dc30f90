/* SPDX-License-Identifier: MIT */
/* All processes count the same number of keys: the view's number up to `folded`, and the new keys of the
 * lanes' tails. */
#include "tests/integration/log_redis.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "migrate/build/build.h"
#include "shard/request/log_filter_state.h"
#include "shard/generations/grace.h"
#include "shard/view/view_load.h"

enum {
    SHARDS_MAX = 4096,
    REPLY_MS = 5000,
    MEMBERS = 3,
    EACH = 4000,
    BATCH = 100,
    ROWS = 3000,
    REBUILDS = 4,
    NEVER = 1000000,
    SWITCH_US = 100 * 1000,
    WAIT_US = 20 * 1000 * 1000
};

static struct log_member member[MEMBERS];

struct adder {
    struct log_member *member;
    uint64_t first;
    unsigned added;
    bool failed;
    pthread_t thread;
};

static int set_up(void **state)
{
    struct error e = {""};
    (void)state;
    log_redis_make(400000, 2, 1024);
    for (unsigned i = 0; i < MEMBERS; i++) { /* the last member has no shard in memory */
        const struct log_member_options o = {.nodes = &on.nodes,
                                             .names = &on.names,
                                             .memory = i + 1 < MEMBERS ? UINT64_MAX : 0,
                                             .timeout_ms = REPLY_MS,
                                             .retain_us = WAIT_US,
                                             .look_interval_us = 100 * 1000,
                                             .folds = i == 0};
        must(log_member_open(&member[i], &o, &e), e);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < MEMBERS; i++)
        log_member_close(&member[i]);
    return 0;
}

/* The keys of the generation that answers, as the process counts them. */
static uint64_t keys_of(struct log_member *m)
{
    (void)pthread_rwlock_rdlock(&m->filter->lock);
    const struct held *h = m->filter->slot[m->filter->current];
    uint64_t keys = h == NULL ? 0 : held_keys(h);
    (void)pthread_rwlock_unlock(&m->filter->lock);
    return keys;
}

/* Wait until the process has counted all keys. Returns their number. */
static uint64_t counted_by(struct log_member *m)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    for (bool counts = false; !counts; clock_sleep_us(1000)) {
        (void)pthread_rwlock_rdlock(&m->filter->lock);
        counts = m->filter->slot[m->filter->current]->counts;
        (void)pthread_rwlock_unlock(&m->filter->lock);
        if (!counts && clock_mono_us() > until)
            fail_msg("not all keys were counted after %d ms", WAIT_US / 1000);
    }
    return keys_of(m);
}

static uint64_t stored(void)
{
    struct error e = {""};
    must(log_view_load(on.link, &on.names, on.view, &e), e);
    return on.view->slot[on.view->current].keys;
}

/* Wait until each process, and the view, counts @keys. A folder that had nothing to do for long has given its
 * lease back, and reads lanes only when it is asked; no other process folds. */
static void all_have(uint64_t keys)
{
    (void)log_member_count(&member[0], NEVER, BATCH, KEY_ABSENT);
    uint64_t until = clock_mono_us() + WAIT_US;
    for (bool same = false; !same; clock_sleep_us(20000)) {
        same = stored() == keys;
        for (unsigned i = 0; i < MEMBERS; i++)
            same &= keys_of(&member[i]) == keys;
        if (!same && clock_mono_us() > until)
            fail_msg("%llu keys; the view has %llu, the processes %llu, %llu and %llu",
                     (unsigned long long)keys, (unsigned long long)stored(),
                     (unsigned long long)keys_of(&member[0]), (unsigned long long)keys_of(&member[1]),
                     (unsigned long long)keys_of(&member[2]));
    }
}

static void *add(void *arg)
{
    struct adder *a = arg;
    struct error e = {""};
    uint8_t answers[BATCH];
    for (unsigned i = 0; i < EACH; i += BATCH) {
        if (log_member_add(a->member, a->first + i, BATCH, answers, &e) != ERR_OK) {
            (void)fprintf(stderr, "%s\n", e.text);
            a->failed = true;
            break;
        }
        for (unsigned k = 0; k < BATCH; k++) {
            a->added += answers[k] == KEY_ADDED;
            a->failed |= answers[k] != KEY_ADDED && answers[k] != KEY_OLD;
        }
    }
    return NULL;
}

/* Half of each process's keys are the next one's, too. Returns how many were new. */
static unsigned all_add(uint64_t first)
{
    struct adder a[MEMBERS];
    unsigned added = 0;
    for (unsigned i = 0; i < MEMBERS; i++) {
        a[i] = (struct adder){.member = &member[i], .first = first + i * EACH / 2};
        assert_int_equal(pthread_create(&a[i].thread, NULL, add, &a[i]), 0);
    }
    for (unsigned i = 0; i < MEMBERS; i++) {
        assert_int_equal(pthread_join(a[i].thread, NULL), 0);
        added += a[i].added;
        assert_false(a[i].failed);
    }
    return added;
}

static void test_three_processes__count_alike(void **state)
{
    (void)state;
    uint64_t keys = all_add(0);
    assert_in_range(keys, EACH * 2 - EACH / 100, EACH * 2);
    all_have(keys);
    keys += all_add(EACH); /* some of them are repeated */
    all_have(keys);
}

/* Nobody folds, so all keys but the first ones come while shards are loaded. */
static void test_a_process_that_opens_late__counts_what_came_before(void **state)
{
    struct error e = {""};
    struct log_member late;
    const struct log_member_options o = {.nodes = &on.nodes,
                                         .names = &on.names,
                                         .memory = UINT64_MAX,
                                         .timeout_ms = REPLY_MS,
                                         .retain_us = WAIT_US,
                                         .look_interval_us = 100 * 1000};
    (void)state;
    uint64_t keys = log_member_added(&member[0], 0, EACH);
    all_have(keys);
    log_member_pause(&member[0]); /* this member folds */
    uint64_t folded = stored();
    keys += log_member_added(&member[1], EACH / 2, EACH); /* half of them are repeated */
    assert_in_range(keys, EACH + EACH / 2 - EACH / 100, EACH + EACH / 2);
    assert_int_equal(counted_by(&member[1]), keys);
    must(log_member_open(&late, &o, &e), e);
    assert_int_equal(log_member_count(&late, 0, BATCH, KEY_PRESENT), BATCH);
    assert_int_equal(counted_by(&late), keys);
    keys += log_member_added(&late, 30 * EACH, BATCH);
    keys += log_member_added(&member[1], 31 * EACH, BATCH);
    assert_int_equal(log_member_count(&late, 31 * EACH, BATCH, KEY_PRESENT), BATCH);
    assert_int_equal(counted_by(&late), keys);
    assert_int_equal(log_member_count(&member[1], 30 * EACH, BATCH, KEY_PRESENT), BATCH);
    assert_int_equal(counted_by(&member[1]), keys);
    assert_int_equal(stored(), folded);
    log_member_go_on(&member[0]);
    all_have(keys);
    log_member_close(&late);
}

static uint64_t counted_late(void)
{
    struct error e = {""};
    struct log_member late;
    const struct log_member_options o = {.nodes = &on.nodes,
                                         .names = &on.names,
                                         .memory = UINT64_MAX,
                                         .timeout_ms = REPLY_MS,
                                         .retain_us = WAIT_US,
                                         .look_interval_us = 100 * 1000};
    must(log_member_open(&late, &o, &e), e);
    assert_int_equal(log_member_count(&late, 0, BATCH, KEY_PRESENT), BATCH);
    uint64_t keys = counted_by(&late);
    keys += log_member_added(&late, 40 * EACH, BATCH); /* and goes on counting from there */
    assert_int_equal(counted_by(&late), keys);
    log_member_abandon(&late); /* nobody folds its entries */
    return keys - BATCH;
}

static redisReply *asks(const char *what, const char *key, size_t length, const char *field)
{
    redisReply *r = client_command(&on.client, what, key, length, field);
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    return r;
}

/* The folder has stored the number of keys, written half of the shards, and pauses. Returns the number. */
static uint64_t half_folded(void)
{
    struct key_name view, *shard = calloc(SHARDS_MAX, sizeof(*shard));
    redisReply *folded[2],
        **bytes = calloc(SHARDS_MAX, sizeof(*bytes)); /* NOLINT(bugprone-sizeof-expression) */
    char name[LOG_FOLDED_NAME_MAX];
    uint64_t keys = log_member_added(&member[0], 0, EACH);
    all_have(keys);
    log_member_pause(&member[0]);
    const struct log_generation *g = &on.view->slot[on.view->current];
    unsigned shards = g->shape.layers[0].geometry.shards;
    assert_in_range(shards, 2, SHARDS_MAX);
    names_filter_key(&on.names, "view", &view);
    for (unsigned i = 0; i < 2; i++) {
        log_folded_name(on.view->current, i, name);
        folded[i] = asks("HGET %b %s", view.text, view.length, name);
    }
    for (unsigned i = 0; i < shards; i += 2) {
        names_log_shard(&on.names, (struct shard_id){g->shape.number, 0, i}, &shard[i]);
        bytes[i] = asks("GET %b", shard[i].text, shard[i].length, NULL);
    }
    log_member_go_on(&member[0]);
    keys += log_member_added(&member[1], EACH / 2, EACH); /* half of them are repeated */
    all_have(keys);
    for (unsigned i = 0; i < MEMBERS; i++) /* who has seen these positions notices that they went back */
        log_member_pause(&member[i]);
    for (unsigned i = 0; i < 2; i++) {
        log_folded_name(on.view->current, i, name);
        freeReplyObject(client_command(&on.client, "HSET %b %s %b", view.text, view.length, name,
                                       folded[i]->str, folded[i]->len));
        freeReplyObject(folded[i]);
    }
    for (unsigned i = 0; i < shards; i += 2) {
        freeReplyObject(client_command(&on.client, "SET %b %b", shard[i].text, shard[i].length, bytes[i]->str,
                                       bytes[i]->len));
        freeReplyObject(bytes[i]);
    }
    free(shard);
    free(bytes);
    return keys;
}

static void test_a_folder_that_dies_before_it_stores_positions__has_counted(void **state)
{
    (void)state;
    uint64_t keys = half_folded();
    assert_int_equal(counted_late(), keys);
    for (unsigned i = 0; i < MEMBERS; i++)
        log_member_go_on(&member[i]);
}

/* Store @keys up to the ends of the lanes, as a folder does before its pages. */
static void count_ahead(uint64_t keys)
{
    struct key_name view;
    struct buffer text = {0};
    const struct log_view *v = on.view;
    names_filter_key(&on.names, "view", &view);
    buffer_printf(&text, "%llu %llu", (unsigned long long)v->slot[v->current].shape.number,
                  (unsigned long long)keys);
    for (unsigned i = 0; i < v->lane_count; i++) {
        struct lane lane;
        lane_key(&lane.key, &on.names, i, v->lane[i].number);
        redisReply *r =
            client_command(&on.client, "XREVRANGE %b + - COUNT 1", lane.key.text, lane.key.length);
        assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements == 1);
        buffer_printf(&text, " %llu:%016llx %s", (unsigned long long)v->lane[i].number,
                      (unsigned long long)v->lane[i].era, r->element[0]->element[0]->str);
        freeReplyObject(r);
    }
    freeReplyObject(client_command(&on.client, "HSET %b keys%u %b", view.text, view.length, v->current,
                                   text.data, text.length));
    buffer_fini(&text);
}

/* The lanes' node gets another replication id while a folder writes, and has lost nothing. */
static void test_what_was_counted_beyond_the_positions__stays_counted_in_another_era(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t keys = log_member_added(&member[0], 0, EACH);
    all_have(keys);
    log_member_pause(&member[0]);                         /* this member folds */
    keys += log_member_added(&member[1], EACH / 2, EACH); /* half of them are repeated */
    count_ahead(keys);
    assert_int_equal(stored(), keys);
    must(client_ok(&on.client, &e, "DEBUG CHANGE-REPL-ID"), e);
    log_member_go_on(&member[0]);
    keys += log_member_added(&member[1], 20 * EACH, BATCH);
    all_have(keys);
    assert_int_equal(counted_late(), keys);
}

/* Whatever a process has counted: from the view's positions on it counts as the view does. */
static void test_a_count_that_was_wrong__is_put_right_by_the_view(void **state)
{
    (void)state;
    uint64_t keys = all_add(0);
    all_have(keys);
    struct log_filter *f = member[1].filter;
    (void)pthread_rwlock_rdlock(&f->lock);
    f->slot[f->current]->keys += 7;
    (void)pthread_rwlock_unlock(&f->lock);
    keys += log_member_added(&member[0], 20 * EACH, BATCH);
    keys += log_member_added(&member[1], 21 * EACH, BATCH);
    assert_int_equal(log_member_count(&member[1], 20 * EACH, 2 * BATCH, KEY_PRESENT), BATCH);
    all_have(keys);
}

static void rows(struct build *build, uint64_t seed, unsigned first, unsigned last)
{
    char text[24];
    struct error e = {""};
    for (unsigned i = first; i < last; i++)
        build_put(build, 0, hash_key(seed, text, (size_t)snprintf(text, sizeof(text), "%u", i)));
    must(build_page_end(build, 0, &e), e);
}

/* Rows, keys that were added before and meanwhile, and both, in several flushes. */
static void test_a_generation_that_was_built__has_its_keys(void **state)
{
    struct error e = {""};
    struct builder *b;
    struct build *build;
    (void)state;
    assert_true(log_member_added(&member[0], ROWS / 2, BATCH) > 0);
    must(log_view_load(on.link, &on.names, on.view, &e), e);
    must(builder_new(&b, on.link, &on.names, &e), e);
    must(builder_begin(b, &on.view->slot[on.view->current].shape, "", &e), e);
    must(builder_start(b, &e), e);
    const struct build_options options = {.memory = UINT64_MAX, .writers = 1};
    must(build_new(&build, b, &options, &e), e);
    rows(build, b->seed, 0, ROWS / 2);
    for (unsigned i = 0; i < MEMBERS; i++)
        (void)log_member_added(&member[i], ROWS - BATCH, 2 * BATCH);
    must(build_checkpoint(build, "", 0, &e), e);
    rows(build, b->seed, ROWS / 4, ROWS);
    must(build_cutover(build, false, &e), e);
    build_free(build);
    builder_free(b);
    uint64_t keys = stored();
    assert_in_range(keys, ROWS + BATCH - 5, ROWS + BATCH); /* without false positives */
    all_have(keys);
    keys += all_add(10 * EACH);
    all_have(keys);
}

/* Each process and the view must count the same, all keys but some false positives. */
static void all_agree(uint64_t keys)
{
    uint64_t until = clock_mono_us() + WAIT_US, there = 0;
    for (bool same = false; !same; clock_sleep_us(20000)) {
        there = stored();
        same = there <= keys && there >= keys - keys / 1000;
        for (unsigned i = 0; i < MEMBERS; i++)
            same &= keys_of(&member[i]) == there;
        if (!same && clock_mono_us() > until)
            fail_msg("%llu keys; the view has %llu, the processes %llu, %llu and %llu",
                     (unsigned long long)keys, (unsigned long long)there,
                     (unsigned long long)keys_of(&member[0]), (unsigned long long)keys_of(&member[1]),
                     (unsigned long long)keys_of(&member[2]));
    }
}

/* Build a generation of the rows [0, before), while all members add later ones; cut over, roll back, and cut
 * over again. The old generation is forgotten. */
static void rebuild_and_roll_back(unsigned before)
{
    struct error e = {""};
    struct builder *b;
    struct build *build;
    struct adder a[MEMBERS];
    must(log_view_load(on.link, &on.names, on.view, &e), e);
    uint64_t old = on.view->slot[on.view->current].shape.number;
    must(builder_new(&b, on.link, &on.names, &e), e);
    must(builder_begin(b, &on.view->slot[on.view->current].shape, "", &e), e);
    must(builder_start(b, &e), e);
    const struct build_options options = {.memory = UINT64_MAX, .writers = 1};
    must(build_new(&build, b, &options, &e), e);
    for (unsigned i = 0; i < MEMBERS; i++) {
        a[i] = (struct adder){.member = &member[i], .first = before + i * EACH / 2};
        assert_int_equal(pthread_create(&a[i].thread, NULL, add, &a[i]), 0);
    }
    rows(build, b->seed, 0, before / 2);
    must(build_checkpoint(build, "", 0, &e), e);
    rows(build, b->seed, before / 2, before);
    must(build_cutover(build, false, &e), e);
    clock_sleep_us(SWITCH_US);
    must(log_switch(on.link, &on.names, old, &e), e);
    clock_sleep_us(SWITCH_US);
    must(log_switch(on.link, &on.names, b->shape.number, &e), e);
    for (unsigned i = 0; i < MEMBERS; i++) {
        assert_int_equal(pthread_join(a[i].thread, NULL), 0);
        assert_false(a[i].failed);
    }
    all_agree(before + 2 * EACH);
    must(grace_forget(on.link, &on.names, "", old, &e), e);
    must(grace_delete(on.link, &on.names, &e), e);
    build_free(build);
    builder_free(b);
}

static void test_rebuilds_and_rollbacks__count_no_key_twice(void **state)
{
    (void)state;
    for (unsigned i = 0; i < MEMBERS; i++)
        log_set_folding(member[i].control, true);
    (void)all_add(0);
    all_agree(2 * EACH);
    for (unsigned i = 1; i <= REBUILDS; i++)
        rebuild_and_roll_back(i * 2 * EACH);
    all_agree((REBUILDS + 1) * 2 * EACH);
}

#define KEYS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        KEYS_TEST(test_three_processes__count_alike),
        KEYS_TEST(test_a_process_that_opens_late__counts_what_came_before),
        KEYS_TEST(test_a_folder_that_dies_before_it_stores_positions__has_counted),
        KEYS_TEST(test_what_was_counted_beyond_the_positions__stays_counted_in_another_era),
        KEYS_TEST(test_a_count_that_was_wrong__is_put_right_by_the_view),
        KEYS_TEST(test_a_generation_that_was_built__has_its_keys),
        KEYS_TEST(test_rebuilds_and_rollbacks__count_no_key_twice),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
