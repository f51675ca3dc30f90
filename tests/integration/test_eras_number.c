/* SPDX-License-Identifier: MIT */
/* A view that went back gets another generation of the same number. */
#include "tests/integration/eras_members.h"

#include <stdio.h>

#include "base/clock.h"

enum { KEYS = 20 };

/* Keys of the metadata node, which is the only master: the view, the number of drawn tokens, and the
 * registry, which notes what became of the view. */
enum { VIEW, TOKEN, REGISTRY, AT_HOME };

static void home_key(unsigned i, struct key_name *key)
{
    if (i == REGISTRY)
        key->length = (size_t)snprintf(key->text, sizeof(key->text), "%s:incarnations", on.names.prefix);
    else
        names_filter_key(&on.names, i == VIEW ? "view" : "token", key);
}

static void note_home(redisReply *was[AT_HOME])
{
    for (unsigned i = 0; i < AT_HOME; i++) {
        struct key_name key;
        home_key(i, &key);
        was[i] = client_command(&on.client, "DUMP %b", key.text, key.length);
        assert_true(was[i] != NULL &&
                    (was[i]->type == REDIS_REPLY_STRING || i == REGISTRY)); /* or there is none */
    }
}

/* The metadata node goes back; what was made since is lost. */
static void home_goes_back(redisReply *was[AT_HOME], uint64_t made)
{
    struct error e = {""};
    struct key_name key;
    for (uint32_t i = 0; i < on.view->slot[made % 2].shape.layers[0].geometry.shards; i++) {
        names_log_shard(&on.names, (struct shard_id){made, 0, i}, &key);
        freeReplyObject(client_command(&on.client, "DEL %b", key.text, key.length));
    }
    for (unsigned i = 0; i < AT_HOME; i++) {
        home_key(i, &key);
        freeReplyObject(client_command(&on.client, "DEL %b", key.text, key.length));
        if (was[i]->type == REDIS_REPLY_STRING)
            must(client_ok(&on.client, &e, "RESTORE %b 0 %b", key.text, key.length, was[i]->str, was[i]->len),
                 e);
        freeReplyObject(was[i]);
    }
    eras_case_load();
}

static void has_made(uint64_t number)
{
    eras_case_load();
    eras_case_heals(false);
    eras_case_load();
    assert_int_equal(on.view->slot[on.view->current].shape.number, number);
}

static void wait_until_reads(struct log_member *m, uint64_t number)
{
    struct log_status s = {.version = 0};
    uint64_t until = clock_mono_us() + ERAS_GUARD_MS * UINT64_C(1000);
    for (; clock_mono_us() < until; clock_sleep_us(1000)) {
        control_status(m->control, &s);
        for (unsigned i = 0; i < 2; i++)
            if (s.generation[i].number == number && s.generation[i].answers)
                return;
    }
    fail_msg("it does not read generation %u", (unsigned)number);
}

/* The clock of the metadata node is far behind the counter of tokens, so tokens that were drawn come again
 * when the counter goes back. */
static void clock_is_behind(void)
{
    struct error e = {""};
    struct key_name key;
    names_filter_key(&on.names, "token", &key);
    must(client_ok(&on.client, &e, "SET %b 9000000000000", key.text, key.length), e);
}

/* The generation has the number and the token of the one in the process's memory, but another mix, so that
 * memory has none of its bits. */
static void test_a_generation_with_the_number_of_another__is_loaded(void **state)
{
    struct log_member m, other;
    struct lane lane;
    struct key_name key;
    redisReply *was[AT_HOME];
    (void)state;
    names_filter_key(&on.names, "view", &key);
    clock_is_behind();
    log_members_open(&m, &on.nodes, &on.names, UINT64_MAX, true);
    assert_int_equal(log_member_added(&m, 1000, 1), 1);
    eras_await_forgotten(&m);
    note_home(was);
    has_made(2);
    const struct generation before = on.view->slot[0].shape;
    assert_int_equal(log_member_added(&m, 2000, 1), 1);
    eras_await_forgotten(&m);
    wait_until_reads(&m, 2);
    log_member_pause(&m);
    home_goes_back(was, 2);
    has_made(2);
    assert_int_equal(on.view->slot[0].shape.layers[0].token, before.layers[0].token);
    assert_true(on.view->slot[0].shape.seed != before.seed);
    freeReplyObject(client_command(&on.client, "HINCRBY %b version 100", key.text, key.length));
    log_members_open(&other, &on.nodes, &on.names, UINT64_MAX, true);
    assert_int_equal(log_member_added(&other, 0, KEYS), KEYS);
    assert_int_equal(log_member_added(&other, KEYS, 1), 1);
    eras_await_forgotten(&other);
    lane_key(&lane.key, &on.names, 0, 1);
    freeReplyObject(client_command(&on.client, "XTRIM %b MAXLEN 1", lane.key.text, lane.key.length));
    log_member_go_on(&m);
    assert_int_equal(log_member_count(&m, 0, KEYS + 1, KEY_PRESENT), KEYS + 1);
    log_member_close(&m);
    log_member_close(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ERAS_TEST(test_a_generation_with_the_number_of_another__is_loaded),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
