/* SPDX-License-Identifier: MIT */
/* An add of keys that are there appends no entry, where one generation answers; else it appends them. */
#include "tests/integration/eras_members.h"

#include <string.h>
#include "base/clock.h"
#include "shard/generations/build.h"
#include "shard/request/log_filter_state.h"
#include "shard/view/view_load.h"

enum { KEYS = 20 };

/* The last entry of the lane, decoded. */
struct last {
    char id[40];
    struct log_entry entry;
};

static struct last last(void)
{
    struct last out;
    struct error e = {""};
    struct lane lane;
    lane_key(&lane.key, &on.names, 0, 1);
    redisReply *r = client_command(&on.client, "XREVRANGE %b + - COUNT 1", lane.key.text, lane.key.length);
    assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements == 1);
    const redisReply *one = r->element[0], *bytes = one->element[1]->element[1];
    (void)snprintf(out.id, sizeof(out.id), "%s", one->element[0]->str);
    must(log_entry_decode(&out.entry, bytes->str, bytes->len, &e), e);
    out.entry.hashes = NULL; /* the reply's */
    freeReplyObject(r);
    return out;
}

static bool is_of(const struct last *l, const struct log_member *m, unsigned keys)
{
    return l->entry.kind == LOG_KEYS && l->entry.count == keys &&
           memcmp(l->entry.writer, m->filter->writer, LOG_WRITER_BYTES) == 0;
}

/* Add keys that are there: all are old. True: they were appended. */
static bool appends(struct log_member *m)
{
    uint8_t answers[KEYS];
    struct error e = {""};
    struct last before = last();
    must(log_member_add(m, 0, KEYS, answers, &e), e);
    for (unsigned i = 0; i < KEYS; i++)
        assert_int_equal(answers[i], KEY_OLD);
    struct last after = last();
    bool is_same = strcmp(before.id, after.id) == 0;
    assert_true(is_same || is_of(&after, m, KEYS));
    return !is_same;
}

static void await_term(struct log_member *m)
{
    uint64_t until = clock_mono_us() + ERAS_GUARD_MS * UINT64_C(1000);
    while (atomic_load(&m->filter->term) == 0 && clock_mono_us() < until)
        clock_sleep_us(1000);
    assert_true(atomic_load(&m->filter->term) != 0);
}

static size_t kept(const struct log_member *m)
{
    return own_count(m->filter->lane[0].own);
}

/* Open a member, and have it add keys, until they are folded and need no entry. */
static void open_with_keys(struct log_member *m)
{
    log_members_open(m, &on.nodes, &on.names, UINT64_MAX, true);
    assert_int_equal(log_member_added(m, 0, KEYS), KEYS);
    eras_await_forgotten(m);
    await_term(m);
}

static void test_keys_that_are_there__are_not_appended(void **state)
{
    uint8_t answers[2 * KEYS];
    struct error e = {""};
    struct log_member m;
    (void)state;
    open_with_keys(&m);
    assert_false(appends(&m));
    assert_int_equal(kept(&m), 0); /* the shards have them */
    must(log_member_add(&m, 0, 2 * KEYS, answers, &e), e);
    for (unsigned i = 0; i < 2 * KEYS; i++)
        assert_int_equal(answers[i], i < KEYS ? KEY_OLD : KEY_ADDED);
    struct last end = last();
    assert_true(is_of(&end, &m, KEYS)); /* the new ones */
    log_member_close(&m);
}

/* The writer that appended them answers a roll call as one that does not know of them: it was never told that
 * they are there. */
static void test_keys_that_are_there__are_kept_until_they_are_folded(void **state)
{
    struct error e = {""};
    struct log_member first, second;
    uint8_t id[LOG_WRITER_BYTES];
    struct lane lane;
    (void)state;
    log_members_open(&first, &on.nodes, &on.names, UINT64_MAX, false);
    eras_open(&second, UINT64_MAX, ERAS_HASTY_US);
    assert_int_equal(log_member_added(&second, 1000, 1), 1); /* it is a writer, and the lane is folded */
    eras_await_forgotten(&second);
    log_set_folding(second.control, false);
    assert_int_equal(log_member_added(&first, 0, KEYS), KEYS);
    assert_int_equal(log_member_count(&second, 0, KEYS, KEY_PRESENT), KEYS);
    await_term(&second);
    size_t before = kept(&second);
    assert_false(appends(&second));
    assert_int_equal(kept(&second), before + 1);
    memcpy(id, first.filter->writer, sizeof(id));
    log_member_abandon(&first);
    lane_key(&lane.key, &on.names, 0, 1);
    struct last end = last();
    freeReplyObject(client_command(&on.client, "XDEL %b %s", lane.key.text, lane.key.length, end.id));
    must(client_ok(&on.client, &e, "REPLICAOF 127.0.0.1 1"), e);
    must(client_ok(&on.client, &e, "REPLICAOF NO ONE"), e);
    eras_answer_roll_call(id);
    uint64_t until = clock_mono_us() + ERAS_GUARD_MS * UINT64_C(1000);
    for (end = last(); !is_of(&end, &second, KEYS) && clock_mono_us() < until; end = last())
        clock_sleep_us(1000);
    assert_true(is_of(&end, &second, KEYS)); /* appended again */
    log_set_folding(second.control, true);
    eras_await_forgotten(&second);
    log_member_close(&second);
}

/* Whatever the notice is about, the view that was loaded before may lack it: a build may have begun. */
static void test_behind_a_notice__keys_are_appended_until_the_view_is_loaded(void **state)
{
    struct log_member m;
    (void)state;
    open_with_keys(&m);
    log_member_pause(&m);
    assert_false(appends(&m));
    log_view_notify(on.link, &on.names);
    assert_true(appends(&m));
    assert_true(appends(&m));
    log_member_go_on(&m);
    await_term(&m);
    assert_false(appends(&m));
    log_member_close(&m);
}

/* The build has what was added behind its S0 from the lane alone. */
static void test_while_a_generation_is_built__keys_are_appended(void **state)
{
    struct error e = {""};
    struct log_member m;
    struct builder *b;
    (void)state;
    open_with_keys(&m);
    log_member_pause(&m); /* it does not load the view */
    assert_false(appends(&m));
    eras_case_load();
    must(builder_new(&b, on.link, &on.names, &e), e);
    must(builder_begin(b, &on.view->slot[on.view->current].shape, "", &e), e);
    must(builder_start(b, &e), e);
    assert_true(appends(&m));
    log_member_go_on(&m);
    for (unsigned i = 0; i < 20; i++) {
        clock_sleep_us(10 * 1000);
        assert_true(appends(&m));
    }
    builder_free(b);
    log_member_close(&m);
}

/* The lane's node failed over, and nobody asked this process, which was no writer, what it had: its memory
 * may have keys of entries that are lost. */
static void test_memory_of_before_a_failover__does_not_count(void **state)
{
    struct log_member m, late;
    (void)state;
    open_with_keys(&m);
    log_members_await_loaded(&m);
    log_members_open(&late, &on.nodes, &on.names, UINT64_MAX, false);
    assert_int_equal(log_member_count(&late, 0, KEYS, KEY_PRESENT), KEYS);
    await_term(&late);
    eras_lose();
    assert_int_equal(log_member_count(&late, 1000, 1, KEY_ABSENT), 1); /* it reads under the new id */
    for (unsigned i = 0; i < 20; i++) {
        clock_sleep_us(10 * 1000);
        assert_true(appends(&late));
    }
    await_term(&m); /* which has written all that it had */
    assert_false(appends(&m));
    log_member_close(&late);
    log_member_close(&m);
}

/* Bits of a key may be those of keys of another lane, whose entries are lost and folded by themselves. */
static void test_where_there_are_two_lanes__keys_are_appended(void **state)
{
    struct log_member m;
    (void)state;
    log_redis_make(1000, 2, 32768);
    eras_case_load();
    log_members_open(&m, &on.nodes, &on.names, UINT64_MAX, true);
    uint64_t key = log_members_key_of(on.view, 0, 0);
    assert_int_equal(log_member_added(&m, key, 1), 1);
    eras_await_forgotten(&m);
    log_members_await_loaded(&m);
    for (unsigned i = 0; i < 20; i++) {
        struct last before = last();
        assert_int_equal(log_member_added(&m, key, 1), 0);
        struct last after = last();
        assert_true(strcmp(before.id, after.id) != 0 && is_of(&after, &m, 1));
        clock_sleep_us(10 * 1000);
    }
    log_member_close(&m);
}

/* What was looked for in one term does not count in the next one, which may be of another generation. */
static void test_a_term__is_that_of_the_look(void **state)
{
    struct log_member m;
    (void)state;
    open_with_keys(&m);
    uint64_t term = atomic_load(&m.filter->term);
    assert_true(log_filter_hooks.is_term(&m.filter->lane[0], term));
    log_view_notify(on.link, &on.names);
    assert_int_equal(log_member_count(&m, 1000, 1, KEY_ABSENT), 1);
    await_term(&m);
    assert_true(atomic_load(&m.filter->term) != term);
    assert_false(log_filter_hooks.is_term(&m.filter->lane[0], term));
    log_member_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ERAS_TEST(test_keys_that_are_there__are_not_appended),
        ERAS_TEST(test_keys_that_are_there__are_kept_until_they_are_folded),
        ERAS_TEST(test_behind_a_notice__keys_are_appended_until_the_view_is_loaded),
        ERAS_TEST(test_while_a_generation_is_built__keys_are_appended),
        ERAS_TEST(test_memory_of_before_a_failover__does_not_count),
        ERAS_TEST(test_where_there_are_two_lanes__keys_are_appended),
        ERAS_TEST(test_a_term__is_that_of_the_look),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
