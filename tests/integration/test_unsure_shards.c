/* SPDX-License-Identifier: MIT */
/* Lost shards that are made anew beside the others, as jobs and coordinators meet them: the first one sleeps
 * while no operation of it runs, and knows the view that it saw last. */
#include "tests/integration/coordinator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS = 6, KEYS = 300, LATER = 1000, NEW = 2000, ATTEMPT = 123456 };

static struct servers servers;
static struct filter f;
static struct coordinator one, two;

static const struct filter_policy sourced = {.configured = true, .sourced = true};
static const struct filter_policy strict = {.configured = true, .sourced = true, .error_on_lost = true};

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

static int setup(void **state)
{
    (void)state;
    servers_flush(&servers);
    filter_init(&f, &servers, "f");
    filter_make(&f, SHARDS);
    coordinator_open(&one, &servers, sourced);
    coordinator_open(&two, &servers, sourced);
    coordinator_add(&one, 0, KEYS);
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
    return view_current(&f.view);
}

static uint32_t shard_of(unsigned key)
{
    char text[16];
    struct key_place place;
    int n = snprintf(text, sizeof(text), "k%u", key);
    hash_place(&current()->layers[0].geometry, hash_key(current()->seed, text, (size_t)n), &place);
    return place.shard;
}

/* --- what a job does --- */

static void command_shard(const char *command, uint32_t shard, uint64_t epoch, const char *rest)
{
    const struct key_name *name = filter_shard(&f, current()->number, shard, epoch);
    char format[64];
    (void)snprintf(format, sizeof(format), "%s %%b%s", command, rest);
    freeReplyObject(servers_command(&servers, filter_node(&f, shard), format, name->text, name->length));
}

static void delete_shard(uint32_t shard)
{
    command_shard("DEL", shard, f.view.epoch, "");
}

/* Only the first half is left of it. */
static void cut_shard(uint32_t shard)
{
    const struct key_name *name = filter_shard(&f, current()->number, shard, f.view.epoch);
    uint32_t half = geometry_shard_bytes(&current()->layers[0].geometry) / 2;
    redisReply *r = servers_command(&servers, filter_node(&f, shard), "GETRANGE %b 0 %u", name->text,
                                    name->length, half - 1);
    assert_int_equal(r->len, half);
    freeReplyObject(servers_command(&servers, filter_node(&f, shard), "SET %b %b", name->text, name->length,
                                    r->str, (size_t)r->len));
    freeReplyObject(r);
}

/* The view names all that are lost as unsure, besides those that were. */
static void give_up(uint64_t attempt, bool fenced)
{
    static struct view to;
    struct error e = {""};
    uint8_t lost[SHARDS];
    uint64_t count, none;
    must(fence_find_lost(&f.fence, &f.view, current(), 0, lost, &count, &e), e);
    assert_true(count > 0);
    to = f.view;
    if (to.unsure.generation == 0)
        unsure_begin(&to.unsure, current()->number, SHARDS);
    for (uint32_t i = 0; i < SHARDS; i++)
        if (lost[i])
            unsure_add(&to.unsure, i);
    to.unsure.token = attempt;
    to.epoch = to.unsure.epoch = f.view.epoch + 1;
    must(fence_make_anew(&f.fence, current(), attempt, lost, &e), e);
    must(fence_change(&f.fence, &f.view, &to, MUTEX, NULL, &e), e);
    f.view = to;
    if (fenced) {
        must(fence_complete(&f.fence, &f.view, &none, &e), e);
        assert_int_equal(none, 0);
        filter_all_are(&f, current(), f.view.epoch, "shard");
    }
}

/* All rows are read, then nothing is unsure. */
static void fill(void)
{
    struct error e = {""};
    (void)filter_add(&f, current(), 0, KEYS);
    must(fence_sure(&f.fence, &f.view, MUTEX, &e), e);
}

/* --- tests --- */

/* Of @count keys from @first on that were never added: none is said to be absent where @unsure has the shard,
 * and nearly all of the others are. */
static void says_maybe_by(struct coordinator *c, unsigned first, const uint8_t *unsure)
{
    unsigned others = 0, absent = 0;
    assert_int_equal(coordinator_ask(c, OPERATION_CHECK, first, KEYS), ERR_OK);
    for (unsigned i = 0; i < KEYS; i++) {
        if (unsure[shard_of(first + i)])
            assert_int_equal(c->result[i], KEY_YES);
        others += !unsure[shard_of(first + i)];
        absent += !unsure[shard_of(first + i)] && c->result[i] == KEY_NO;
    }
    assert_in_range(absent, others - others / 20, others);
}

static void test_unsure__shards_say_maybe_and_the_others_no(void **state)
{
    (void)state;
    static const uint8_t which[SHARDS] = {[1] = 1, [4] = 1};
    delete_shard(1);
    delete_shard(4);
    give_up(ATTEMPT, true);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(coordinator_check(&one, 0, KEYS, KEY_YES), KEYS);
        says_maybe_by(&one, LATER, which);
        says_maybe_by(&two, LATER, which);
    }
    assert_int_equal(one.lost, 0); /* it is known */
    assert_int_equal(one.suspect, 0);
    fill();
    static const uint8_t none[SHARDS] = {0};
    coordinator_run(&one, 300);
    (void)coordinator_ask(&one, OPERATION_CHECK, LATER, KEYS); /* which looks whether the view has changed */
    coordinator_run(&one, 100);
    says_maybe_by(&one, LATER, none);
    assert_int_equal(coordinator_check(&one, 0, KEYS, KEY_YES), KEYS);
}

static void test_unsure__shards_take_adds_that_are_never_new(void **state)
{
    (void)state;
    delete_shard(1);
    give_up(ATTEMPT, true);
    coordinator_add(&one, NEW, KEYS);
    for (unsigned i = 0; i < KEYS; i++)
        if (shard_of(NEW + i) == 1)
            assert_int_equal(one.result[i], KEY_NO);
    assert_in_range(coordinator_results(&one, KEYS, KEY_YES), KEYS / 2, KEYS);
    fill();
    coordinator_close(&two);
    coordinator_open(&two, &servers, sourced);
    assert_int_equal(coordinator_check(&two, NEW, KEYS, KEY_YES), KEYS);
    assert_int_equal(filter_check(&f, current(), NEW, KEYS), KEYS); /* they are there */
}

static void test_unsure__shards_are_an_error_where_that_is_wanted(void **state)
{
    (void)state;
    delete_shard(1);
    give_up(ATTEMPT, true);
    coordinator_close(&two);
    coordinator_open(&two, &servers, strict);
    assert_int_equal(coordinator_ask(&two, OPERATION_CHECK, 0, KEYS), ERR_OK);
    for (unsigned i = 0; i < KEYS; i++)
        assert_int_equal(two.result[i], shard_of(i) == 1 ? KEY_LOST : KEY_YES);
    coordinator_add(&two, NEW, KEYS); /* which is done, whatever could be said before */
    assert_int_equal(coordinator_results(&two, KEYS, KEY_LOST), 0);
    assert_int_equal(filter_check(&f, current(), NEW, KEYS), KEYS);
    fill();
    coordinator_run(&two, 300);
    assert_int_equal(coordinator_check(&two, 0, KEYS, KEY_YES), KEYS);
}

/* The first coordinator slept since before the loss: what it is told to add must be where others look for it.
 */
static void add_by_a_sleeper(void)
{
    coordinator_add(&one, NEW, KEYS);
    assert_int_equal(filter_check(&f, current(), NEW, KEYS), KEYS);
}

static void test_unsure__shards_are_found_by_who_slept_through_their_loss(void **state)
{
    (void)state;
    delete_shard(1);
    give_up(ATTEMPT, true);
    filter_all_are(&f, current(), f.view.epoch - 1, "tombstone");
    add_by_a_sleeper();
    /* And where the tombstones are gone by now. */
    for (uint32_t i = 0; i < SHARDS; i++)
        command_shard("DEL", i, f.view.epoch - 1, "");
    assert_int_equal(coordinator_check(&two, NEW, KEYS, KEY_YES), KEYS);
}

static void test_unsure__shards_that_were_cut_are_given_up(void **state)
{
    (void)state;
    cut_shard(1);
    give_up(ATTEMPT, true);
    filter_all_are(&f, current(), f.view.epoch - 1, "tombstone");
    add_by_a_sleeper();
    static const uint8_t which[SHARDS] = {[1] = 1};
    says_maybe_by(&two, LATER, which);
    fill();
    assert_int_equal(filter_check(&f, current(), 0, KEYS), KEYS);
}

static void test_unsure__shards_are_brought_to_their_names_by_who_needs_them(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t lost;
    cut_shard(1);
    delete_shard(2);
    give_up(ATTEMPT, false);
    assert_int_equal(coordinator_check(&two, 0, KEYS, KEY_YES), KEYS);
    add_by_a_sleeper();
    filter_all_are(&f, current(), f.view.epoch, "shard");
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    assert_int_equal(lost, 0);
    assert_int_equal(filter_check(&f, current(), NEW, KEYS), KEYS);
}

/* One attempt makes a shard once: a fence that is late makes no other. */
static void test_unsure__shards_that_are_lost_again_stay_lost_under_their_epoch(void **state)
{
    (void)state;
    static struct view late;
    struct error e = {""};
    uint64_t lost = 0;
    delete_shard(1);
    give_up(ATTEMPT, true);
    late = f.view;
    late.fenced_epoch--;
    delete_shard(1);
    for (int round = 0; round < 2; round++) { /* the tombstone of its first name is gone the second time */
        uint64_t again = 0;
        struct view *v = malloc(sizeof(*v));
        assert_non_null(v);
        *v = late;
        gives(ERR_OK, fence_complete(&f.fence, v, &again, &e), e);
        free(v);
        assert_int_equal(again, 1);
        assert_int_equal(coordinator_check(&one, 0, KEYS, KEY_YES), KEYS);
        assert_true(one.lost > 0);
        struct key_name name;
        names_new_shard(&f.fence.names, (struct shard_id){.generation = current()->number, .shard = 1},
                        ATTEMPT, &name);
        freeReplyObject(servers_command(&servers, filter_node(&f, 1), "DEL %b", name.text, name.length));
    }
    /* The next attempt: what lives on keeps what it has. */
    coordinator_add(&one, NEW, KEYS);
    delete_shard(2);
    give_up(ATTEMPT + 1, true);
    assert_int_equal(f.view.unsure.count, 2);
    static const uint8_t which[SHARDS] = {[1] = 1, [2] = 1};
    says_maybe_by(&one, LATER, which);
    /* And the fence of the one before is refused. */
    gives(ERR_FENCED, fence_complete(&f.fence, &late, &lost, &e), e);
    filter_all_are(&f, current(), f.view.epoch, "shard");
    fill();
    static const uint8_t none[SHARDS] = {0};
    coordinator_close(&two);
    coordinator_open(&two, &servers, sourced);
    says_maybe_by(&two, LATER, none);
}

/* Unsure since before, and there: it keeps its bits in the next epoch. */
static void test_unsure__shards_that_live_on_keep_what_was_added(void **state)
{
    (void)state;
    delete_shard(1);
    give_up(ATTEMPT, true);
    coordinator_add(&one, NEW, KEYS);
    delete_shard(2);
    give_up(ATTEMPT + 1, true);
    unsigned there = 0, of_one = 0;
    for (unsigned i = 0; i < KEYS; i++)
        if (shard_of(NEW + i) == 1) {
            of_one++;
            there += (unsigned)filter_check(&f, current(), NEW + i, 1);
        }
    assert_true(of_one > 0);
    assert_int_equal(there, of_one);
}

static const char *field(const char *name)
{
    return servers_text(&servers, 0, "HGET " PREFIX ":{f}:view %s", name);
}

static void test_sure__is_said_by_who_holds_the_mutex_of_the_view_that_it_knows(void **state)
{
    (void)state;
    static struct view other;
    struct error e = {""};
    uint64_t lost;
    delete_shard(1);
    give_up(ATTEMPT, false);
    assert_string_equal(field("format"), "2"); /* which earlier versions refuse */
    other = f.view;
    gives(ERR_FENCED, fence_sure(&f.fence, &other, MUTEX, &e), e); /* not fenced */
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    gives(ERR_MUTEX_LOST, fence_sure(&f.fence, &f.view, "owner:8", &e), e);
    other = f.view;
    other.epoch++;
    gives(ERR_FENCED, fence_sure(&f.fence, &other, MUTEX, &e), e);
    other = f.view;
    unsure_add(&other.unsure, 3);
    gives(ERR_FENCED, fence_sure(&f.fence, &other, MUTEX, &e), e);
    other = f.view;
    other.incarnation++;
    gives(ERR_FENCED, fence_sure(&f.fence, &other, MUTEX, &e), e);
    assert_string_equal(field("format"), "2");
    must(fence_sure(&f.fence, &f.view, MUTEX, &e), e);
    assert_string_equal(field("format"), "1");
    assert_string_equal(field("unsure"), "");
    assert_int_equal(f.view.unsure.generation, 0);
    gives(ERR_FENCED, fence_sure(&f.fence, &other, MUTEX, &e), e);
}

/* A build that follows, and the way back. */
static void test_unsure__shards_stay_so_until_their_generation_is_gone(void **state)
{
    (void)state;
    static const uint8_t which[SHARDS] = {[1] = 1};
    delete_shard(1);
    give_up(ATTEMPT, true);
    filter_open(&f, SHARDS, true);
    says_maybe_by(&one, LATER, which);
    assert_string_equal(field("format"), "2");
    f.view.unsure.generation = current()->number;
    filter_cutover(&f, true);
    struct view *back = malloc(sizeof(*back));
    assert_non_null(back);
    *back = f.view;
    back->phase = PHASE_BUILDING;
    back->current = 1 - back->current;
    filter_change(&f, back, true);
    free(back);
    says_maybe_by(&one, LATER, which);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_unsure__shards_say_maybe_and_the_others_no),
        TEST(test_unsure__shards_take_adds_that_are_never_new),
        TEST(test_unsure__shards_are_an_error_where_that_is_wanted),
        TEST(test_unsure__shards_are_found_by_who_slept_through_their_loss),
        TEST(test_unsure__shards_that_were_cut_are_given_up),
        TEST(test_unsure__shards_are_brought_to_their_names_by_who_needs_them),
        TEST(test_unsure__shards_that_are_lost_again_stay_lost_under_their_epoch),
        TEST(test_unsure__shards_that_live_on_keep_what_was_added),
        TEST(test_sure__is_said_by_who_holds_the_mutex_of_the_view_that_it_knows),
        TEST(test_unsure__shards_stay_so_until_their_generation_is_gone),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
