/* SPDX-License-Identifier: MIT */
/* Checks and adds on the log, on a real Redis: members that share a filter agree which keys are present and
 * which are new, whoever folds, sleeps or starts late. */
#include "tests/integration/log_redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/generations/drop.h"
#include "shard/view/view_load.h"

enum { REPLY_MS = 5000, MEMBERS = 3, ALL = 1000 };

static struct log_member member[MEMBERS];
static unsigned opened;
static struct lane lane; /* the filter's first lane */

static void make(unsigned lanes)
{
    log_redis_make(100000, lanes, 32768);
    lane_key(&lane.key, &on.names, 0, 1);
}

static struct log_member *open_member(bool folds)
{
    struct log_member *m = &member[opened++];
    log_members_open(m, &on.nodes, &on.names, UINT64_MAX, folds);
    return m;
}

static int set_up(void **state)
{
    (void)state;
    opened = 0;
    make(1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    while (opened > 0)
        log_member_abandon(&member[--opened]); /* nobody may be left who folds its entries */
    return 0;
}

static void test_a_key__is_new_once_and_present_for_all(void **state)
{
    (void)state;
    struct log_member *a = open_member(false), *b = open_member(false);
    assert_int_equal(log_member_count(a, 0, ALL, KEY_ABSENT), ALL);
    assert_int_equal(log_member_added(a, 0, ALL / 2), ALL / 2);
    assert_int_equal(log_member_count(b, 0, ALL / 2, KEY_PRESENT), ALL / 2);
    assert_int_equal(log_member_added(b, 0, ALL), ALL / 2);
    assert_int_equal(log_member_added(a, 0, ALL), 0);
    assert_int_equal(log_member_count(a, 0, ALL, KEY_PRESENT), ALL);
}

static void test_keys_of_many_lanes__have_their_own_answers(void **state)
{
    uint8_t answers[ALL];
    struct error e = {""};
    (void)state;
    make(5);
    struct log_member *a = open_member(true), *b = open_member(false);
    assert_int_equal(log_member_added(a, 100, 300), 300);
    must(log_member_check(b, 0, ALL, answers, &e), e);
    for (unsigned i = 0; i < ALL; i++)
        assert_int_equal(answers[i], i >= 100 && i < 400 ? KEY_PRESENT : KEY_ABSENT);
    must(log_member_add(b, 0, ALL, answers, &e), e);
    for (unsigned i = 0; i < ALL; i++)
        assert_int_equal(answers[i], i >= 100 && i < 400 ? KEY_OLD : KEY_ADDED);
}

/* Wait until the member has stored that the shards have all keys of the lane. */
static void wait_until_folded(struct log_member *m)
{
    struct log_view *v = malloc(sizeof(*v));
    struct error e = {""};
    uint64_t until = clock_mono_us() + 10 * 1000000ull;
    for (bool folded = false; !folded;) {
        redisReply *r =
            client_command(&on.client, "XREVRANGE %b + - COUNT 1", lane.key.text, lane.key.length);
        must(log_view_load(on.link, &on.names, v, &e), e);
        char id[LOG_ID_TEXT_MAX];
        (void)log_id_format(v->slot[1].folded[0].position.id, id);
        folded = r->elements == 1 && strcmp(r->element[0]->element[0]->str, id) == 0;
        freeReplyObject(r);
        if (clock_mono_us() > until)
            fail_msg("not folded: %s", m->last.text);
        clock_sleep_us(5000);
    }
    free(v);
}

static void test_who_comes_late__has_what_was_folded_and_what_was_not(void **state)
{
    (void)state;
    struct log_member *a = open_member(true);
    assert_int_equal(log_member_added(a, 0, ALL), ALL);
    wait_until_folded(a);
    log_member_pause(a);
    freeReplyObject(client_command(&on.client, "XTRIM %b MAXLEN 1", lane.key.text, lane.key.length));
    assert_int_equal(log_member_added(a, ALL, ALL), ALL);
    struct log_member *b = open_member(false);
    assert_int_equal(log_member_count(b, 0, 2 * ALL, KEY_PRESENT), 2 * ALL);
    assert_int_equal(log_member_count(b, 2 * ALL, ALL, KEY_ABSENT), ALL);
    log_member_go_on(a);
}

/* The lane was trimmed past the sleeper's position: it loads the shards again, and gives no wrong answer
 * meanwhile. */
static void test_who_slept_through_a_trim__loads_again(void **state)
{
    (void)state;
    struct log_member *a = open_member(true), *sleeper = open_member(false);
    assert_int_equal(log_member_count(sleeper, 0, ALL, KEY_ABSENT), ALL);
    log_member_pause(sleeper);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(log_member_added(a, (uint64_t)i * ALL, ALL), ALL);
    wait_until_folded(a);
    freeReplyObject(client_command(&on.client, "XTRIM %b MAXLEN 1", lane.key.text, lane.key.length));
    log_member_go_on(sleeper);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(log_member_count(sleeper, (uint64_t)i * ALL, ALL, KEY_PRESENT), ALL);
    assert_int_equal(log_member_added(sleeper, 9 * ALL, 2 * ALL), ALL);
}

static void is_empty_but_for_a_registry_since(const char *incarnation)
{
    freeReplyObject(client_command(&on.client, "EVAL %s 0 %s",
                                   "redis.call('FLUSHALL') "
                                   "redis.call('HSET', 'tb:incarnations', '{complete}', ARGV[1])",
                                   incarnation));
}

static void test_a_filter_that_is_deleted__is_not_found(void **state)
{
    struct error e = {""};
    uint8_t answer;
    (void)state;
    struct log_member *a = open_member(false);
    assert_int_equal(log_member_added(a, 1, 1), 1);
    must(log_drop(on.link, &on.names, on.names.incarnation, 0, NULL, &e), e);
    assert_int_equal(log_member_check(a, 2, 1, &answer, &e), ERR_NOT_FOUND);
    assert_int_equal(log_member_add(a, 2, 1, &answer, &e), ERR_NOT_FOUND);
}

/* There is no view, and an older registry that does not name the filter: the only master came back with data
 * from before the filter was made. The filter counts as lost, not as deleted. */
static void test_a_filter_that_is_later_than_its_home__is_not_taken_for_deleted(void **state)
{
    struct error e = {""};
    uint8_t answer;
    (void)state;
    struct log_member *a = open_member(false);
    assert_int_equal(log_member_added(a, 1, 1), 1);
    is_empty_but_for_a_registry_since("0000000000000001");
    enum err code = ERR_TIMEOUT;
    for (unsigned i = 0; i < 10 && code == ERR_TIMEOUT; i++)
        code = log_member_check(a, 2, 1, &answer, &e);
    assert_int_equal(code, ERR_LOST);
    assert_int_equal(log_member_add(a, 2, 1, &answer, &e), ERR_LOST);
}

/* The same if an earlier filter of that name was deleted. */
static void test_a_filter_whose_name_was_deleted_before__is_not_taken_for_deleted(void **state)
{
    struct error e = {""};
    uint8_t answer;
    (void)state;
    must(log_drop(on.link, &on.names, on.names.incarnation, 0, NULL, &e), e);
    must(log_member_make(on.link, &on.names, 100000, 1, 32768, &e), e);
    struct log_member *a = open_member(false);
    assert_int_equal(log_member_added(a, 1, 1), 1);
    must(client_ok(&on.client, &e, "RENAME tb:{f}:view away"), e);
    log_filter_look(a->filter);
    enum err code = ERR_OK;
    for (unsigned i = 0; i < 100 && code == ERR_OK; i++) {
        clock_sleep_us(20000);
        code = log_member_check(a, 2, 1, &answer, &e);
    }
    assert_int_equal(code, ERR_LOST);
}

/* All nodes came back empty, and another filter was made before this one was looked for. */
static void test_a_filter_that_is_older_than_all_registries__is_not_taken_for_deleted(void **state)
{
    struct error e = {""};
    uint8_t answer;
    (void)state;
    struct log_member *a = open_member(false);
    assert_int_equal(log_member_added(a, 1, 1), 1);
    is_empty_but_for_a_registry_since("ffffffffffffffff");
    enum err code = ERR_TIMEOUT;
    for (unsigned i = 0; i < 10 && code == ERR_TIMEOUT; i++)
        code = log_member_check(a, 2, 1, &answer, &e);
    assert_int_equal(code, ERR_LOST);
    assert_int_equal(log_member_add(a, 2, 1, &answer, &e), ERR_LOST);
}

/* There is no registry either: the filter counts as lost, not as deleted. */
static void test_a_filter_that_is_lost_as_a_whole__is_not_taken_for_deleted(void **state)
{
    struct error e = {""};
    uint8_t answer;
    (void)state;
    struct log_member *a = open_member(false);
    assert_int_equal(log_member_added(a, 1, 1), 1);
    must(client_ok(&on.client, &e, "FLUSHALL"), e);
    enum err code = ERR_TIMEOUT;
    for (unsigned i = 0; i < 10 && code == ERR_TIMEOUT;
         i++) /* a request under way waits for its lane in vain */
        code = log_member_check(a, 2, 1, &answer, &e);
    assert_int_equal(code, ERR_LOST);
    assert_int_equal(log_member_add(a, 2, 1, &answer, &e), ERR_LOST);
}

#define MEMBER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MEMBER_TEST(test_a_key__is_new_once_and_present_for_all),
        MEMBER_TEST(test_keys_of_many_lanes__have_their_own_answers),
        MEMBER_TEST(test_who_comes_late__has_what_was_folded_and_what_was_not),
        MEMBER_TEST(test_who_slept_through_a_trim__loads_again),
        MEMBER_TEST(test_a_filter_that_is_deleted__is_not_found),
        MEMBER_TEST(test_a_filter_that_is_later_than_its_home__is_not_taken_for_deleted),
        MEMBER_TEST(test_a_filter_whose_name_was_deleted_before__is_not_taken_for_deleted),
        MEMBER_TEST(test_a_filter_that_is_lost_as_a_whole__is_not_taken_for_deleted),
        MEMBER_TEST(test_a_filter_that_is_older_than_all_registries__is_not_taken_for_deleted),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
