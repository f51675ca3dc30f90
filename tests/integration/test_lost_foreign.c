/* SPDX-License-Identifier: MIT */
/* Another client's key has replaced a shard that a process has in memory. When that key is deleted, the
 * process makes the shard again, and nobody makes it empty before. */
#include "tests/integration/eras_case.h"
#include "tests/integration/log_members.h"

#include "base/clock.h"
#include "shard/members/lost.h"
#include "shard/request/log_filter_state.h"

enum { KEYS = 20, GUARD_MS = 20000 };

static struct key_name shard;

static bool is_folded(const struct log_member *m)
{
    return own_count(m->filter->lane[0].own) == 0;
}

static bool is_degraded(const struct log_member *m)
{
    (void)m;
    return on.view->degraded;
}

static bool is_not_lost(const struct log_member *m)
{
    (void)m;
    return on.view->slot[1].lost.generation == 0;
}

/* @is_so looks at the view, too. */
static void wait_until(bool (*is_so)(const struct log_member *m), const struct log_member *m)
{
    uint64_t until = clock_mono_us() + GUARD_MS * UINT64_C(1000);
    for (eras_case_load(); !is_so(m) && clock_mono_us() < until; eras_case_load())
        clock_sleep_us(1000);
    assert_true(is_so(m));
}

static bool is_there(void)
{
    redisReply *r = client_command(&on.client, "EXISTS %b", shard.text, shard.length);
    bool there = r->integer == 1;
    freeReplyObject(r);
    return there;
}

static void delete_it(void)
{
    freeReplyObject(client_command(&on.client, "DEL %b", shard.text, shard.length));
    assert_false(is_there());
}

/* The filter is degraded, and the process has said that it cannot write the shard. */
static void loses_it(struct log_member *m)
{
    struct error e = {""};
    const struct log_lost lost = {.generation = on.view->slot[1].shape.number};
    names_log_shard(&on.names, (struct shard_id){lost.generation, 0, 0}, &shard);
    log_members_open(m, &on.nodes, &on.names, UINT64_MAX, true);
    assert_int_equal(log_member_added(m, 0, KEYS), KEYS);
    wait_until(is_folded, m);
    must(client_ok(&on.client, &e, "RENAME %b kept", shard.text, shard.length), e);
    must(client_ok(&on.client, &e, "SET %b theirs", shard.text, shard.length), e);
    must(lost_say(on.link, &on.names, &lost, &e), e);
    wait_until(is_degraded, m);
}

/* A new member finds all added keys. */
static void accepts_nothing(void)
{
    struct error e = {""};
    struct log_member late;
    uint64_t made;
    must(lost_accept(on.link, &on.names, &made, &e), e);
    assert_int_equal(made, 0);
    eras_case_load();
    assert_false(on.view->degraded);
    log_members_open(&late, &on.nodes, &on.names, UINT64_MAX, false);
    assert_int_equal(log_member_count(&late, 0, KEYS, KEY_PRESENT), KEYS);
    log_member_close(&late);
}

static void test_a_foreign_key_that_is_deleted_late__gives_way_to_the_shard(void **state)
{
    struct log_member m;
    (void)state;
    loses_it(&m);
    delete_it();
    wait_until(is_not_lost, &m);
    assert_true(is_there());
    accepts_nothing();
    log_member_close(&m);
}

/* The shard was renamed, and comes back in place of the foreign key. */
static void test_a_shard_that_is_put_back__is_not_lost(void **state)
{
    struct error e = {""};
    struct log_member m;
    (void)state;
    loses_it(&m);
    must(client_ok(&on.client, &e, "RENAME kept %b", shard.text, shard.length), e);
    wait_until(is_not_lost, &m);
    accepts_nothing();
    log_member_close(&m);
}

/* An operator deletes the foreign key, and accepts the loss at once. */
static void test_a_loss__is_not_accepted_where_memory_has_the_shard(void **state)
{
    struct error e = {""};
    struct log_member m;
    uint64_t made;
    (void)state;
    loses_it(&m);
    log_member_pause(&m);
    delete_it();
    gives(ERR_BUSY, lost_accept(on.link, &on.names, &made, &e), e);
    assert_false(is_there());
    log_member_go_on(&m);
    wait_until(is_not_lost, &m);
    accepts_nothing();
    log_member_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ERAS_TEST(test_a_foreign_key_that_is_deleted_late__gives_way_to_the_shard),
        ERAS_TEST(test_a_shard_that_is_put_back__is_not_lost),
        ERAS_TEST(test_a_loss__is_not_accepted_where_memory_has_the_shard),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
