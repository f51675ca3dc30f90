/* SPDX-License-Identifier: MIT */
/* Shards' nodes in another era, on a real Redis: what members write, and for whom they wait. */
#include "tests/integration/eras_members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/fold/lease.h"
#include "shard/members/roll.h"
#include "shard/request/log_filter_state.h"

enum { REPLY_MS = 5000, LEASE_MS = 60000, PAUSE_US = 600 * 1000 };

/* The second writer, which has no process, reports that it has written everything. */
static void second_has_written(void)
{
    struct error e = {""};
    const struct eras_written what = {.all = true, .knows_left = true};
    must(eras_say(&eras_case_watch, on.link, &on.names, on.view, eras_case_writer[1], &what, &e), e);
}

/* If a writer wrote again while it waits, it would take the shards from another writer, which would begin
 * again, and so on. */
static void test_what_was_written__is_not_written_again(void **state)
{
    struct log_member m;
    (void)state;
    log_members_open(&m, &on.nodes, &on.names, UINT64_MAX, true);
    assert_int_equal(log_member_added(&m, 0, 10), 10);
    eras_case_registers(eras_case_writer[1]);
    eras_lose();
    eras_answer_roll_call(eras_case_writer[1]);
    eras_await_written(&m);
    uint64_t token = on.view->slot[on.view->current].writer.number;
    clock_sleep_us(PAUSE_US);
    eras_case_load();
    assert_int_equal(on.view->slot[on.view->current].writer.number, token);
    second_has_written();
    assert_int_equal(log_member_count(&m, 0, 10, KEY_PRESENT), 10);
    log_member_close(&m);
}

static void test_writers__write_one_after_the_other(void **state)
{
    struct error e = {""};
    struct log_member m;
    struct lease other;
    const struct lease_report report = {.folds = 0};
    (void)state;
    log_members_open(&m, &on.nodes, &on.names, UINT64_MAX, false);
    assert_int_equal(log_member_added(&m, 0, 10), 10);
    struct sync_client *link = sync_client_new(&on.nodes, REPLY_MS, NULL);
    assert_non_null(link);
    lease_init(&other, link, &on.names, "other", LEASE_MS);
    must(lease_take(&other, &report, &e), e);
    eras_case_registers(eras_case_writer[1]);
    uint64_t token = on.view->slot[on.view->current].writer.number;
    eras_lose();
    eras_answer_roll_call(eras_case_writer[1]);
    clock_sleep_us(PAUSE_US);
    assert_false(eras_has_written(&m));
    assert_int_equal(on.view->slot[on.view->current].writer.number, token);
    lease_give_back(&other);
    lease_fini(&other);
    sync_client_free(link);
    eras_await_written(&m);
    second_has_written();
    log_member_close(&m);
}

/* --- a degraded filter --- */

static void wait_for_answer(struct log_member *m, uint64_t key, enum key_answer answer)
{
    uint64_t until = clock_mono_us() + ERAS_GUARD_MS * UINT64_C(1000);
    while (log_member_count(m, key, 1, answer) == 0 && clock_mono_us() < until)
        clock_sleep_us(1000);
    assert_int_equal(log_member_count(m, key, 1, answer), 1);
}

/* The filter may have lost keys that were reported new before. */
static void test_keys_of_a_degraded_filter__are_not_said_to_be_new(void **state)
{
    struct error e = {""};
    struct log_member m;
    uint8_t answers[20];
    (void)state;
    log_members_open(&m, &on.nodes, &on.names, UINT64_MAX, true);
    assert_int_equal(log_member_added(&m, 0, 10), 10);
    eras_case_load();
    eras_case_degrades();
    wait_for_answer(&m, 100, KEY_MAYBE);
    must(log_member_add(&m, 0, 20, answers, &e), e);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(answers[i], i < 10 ? KEY_OLD : KEY_UNSURE);
    eras_case_heals(false);
    wait_for_answer(&m, 100, KEY_ABSENT);
    assert_int_equal(log_member_added(&m, 20, 10), 10);
    log_member_close(&m);
}

/* The generation that the build made cannot be loaded yet, so the one before, which lacks keys, answers. */
static void test_a_filter_that_was_healed__is_degraded_until_it_is_loaded(void **state)
{
    struct log_member m;
    struct log_status status;
    (void)state;
    log_members_open(&m, &on.nodes, &on.names, UINT64_MAX, true);
    eras_case_load();
    eras_case_degrades();
    wait_for_answer(&m, 100, KEY_MAYBE);
    eras_case_heals(true);
    control_status(m.control, &status);
    for (uint64_t looks = status.looks; status.looks < looks + 5; control_status(m.control, &status))
        clock_sleep_us(1000);
    assert_int_equal(log_member_count(&m, 100, 1, KEY_MAYBE), 1);
    log_member_abandon(&m); /* its entries are never folded */
}

/* --- a writer that adds, folds and leaves; its node then goes back to before that --- */

enum { KEYS = 20, SHARDS_MAX = 16 };

/* Data of the node at a moment: its shards, and the end of its lane. */
struct past {
    redisReply *shard[SHARDS_MAX];
    uint32_t shards;
};

static void note(struct past *p)
{
    eras_case_load();
    p->shards = on.view->slot[1].shape.layers[0].geometry.shards;
    assert_true(p->shards <= SHARDS_MAX);
    for (uint32_t i = 0; i < p->shards; i++) {
        struct key_name key;
        eras_shard_key(i, &key);
        p->shard[i] = client_command(&on.client, "GET %b", key.text, key.length);
    }
}

/* Put back the earlier shards, and trim the lane. */
static void put_back(struct past *p)
{
    struct error e = {""};
    struct lane lane;
    lane_key(&lane.key, &on.names, 0, 1);
    for (uint32_t i = 0; i < p->shards; i++) {
        struct key_name key;
        eras_shard_key(i, &key);
        must(client_ok(&on.client, &e, "SET %b %b", key.text, key.length, p->shard[i]->str, p->shard[i]->len),
             e);
        freeReplyObject(p->shard[i]);
    }
    freeReplyObject(client_command(&on.client, "XTRIM %b MAXLEN 1", lane.key.text, lane.key.length));
}

/* Imitate a failover to a replica that lags: the above, and another id. */
static void go_back(struct past *p)
{
    struct error e = {""};
    put_back(p);
    must(client_ok(&on.client, &e, "REPLICAOF 127.0.0.1 1"), e);
    must(client_ok(&on.client, &e, "REPLICAOF NO ONE"), e);
}

static void adds_folds_and_leaves(void)
{
    struct log_member m;
    log_members_open(&m, &on.nodes, &on.names, UINT64_MAX, true);
    assert_int_equal(log_member_added(&m, 0, KEYS), KEYS);
    log_member_close(&m);
    eras_case_load();
    assert_int_equal(on.view->writer_count, 0);
    assert_int_equal(on.view->left_count, 1);
}

static bool has_taken(void)
{
    uint64_t until = clock_mono_us() + ERAS_GUARD_MS * UINT64_C(1000);
    bool has = false;
    for (; !has && clock_mono_us() < until; eras_case_load())
        has = trusted_contains(&on.view->eras, lanes_era(&on.client));
    return has;
}

/* A process that looks at the view every @look_us, if it is registered. */
static void opens(struct log_member *m, uint64_t look_us)
{
    struct error e = {""};
    const struct log_member_options o = {.nodes = &on.nodes,
                                         .names = &on.names,
                                         .memory = UINT64_MAX,
                                         .timeout_ms = ERAS_GUARD_MS,
                                         .look_interval_us = look_us};
    must(log_member_open(m, &o, &e), e);
}

/* No process has the keys that the writer added. */
static void test_keys_of_a_writer_that_left__are_not_absent_after_a_failover(void **state)
{
    struct past past;
    struct log_member m;
    (void)state;
    note(&past);
    adds_folds_and_leaves();
    go_back(&past);
    opens(&m, PAUSE_US / 6);
    assert_int_equal(log_member_count(&m, 0, KEYS, KEY_MAYBE), KEYS);
    assert_true(has_taken());
    assert_true(on.view->degraded);
    log_member_close(&m);
}

/* A process that only checks reads the added keys, when the view says who left, and writes them. */
static void test_keys_of_a_writer_that_left__are_written_by_who_has_them(void **state)
{
    struct past past;
    struct log_member m, late;
    (void)state;
    log_members_open(&m, &on.nodes, &on.names, UINT64_MAX, false);
    assert_true(log_member_count(&m, KEYS, KEYS, KEY_ABSENT) > KEYS - 3);
    note(&past);
    adds_folds_and_leaves();
    uint64_t looks = 0, until = clock_mono_us() + ERAS_GUARD_MS * UINT64_C(1000);
    for (struct log_status s; looks < 3 && clock_mono_us() < until; looks += s.version == on.view->version) {
        control_status(m.control, &s); /* until it has read the view that says who left */
        clock_sleep_us(20 * 1000);
    }
    go_back(&past);
    assert_true(log_member_count(&m, KEYS, KEYS, KEY_ABSENT) > KEYS - 3);
    assert_true(has_taken());
    assert_false(on.view->degraded);
    log_members_open(&late, &on.nodes, &on.names, UINT64_MAX, false);
    assert_int_equal(log_member_count(&late, 0, KEYS, KEY_PRESENT), KEYS);
    log_member_close(&late);
    log_member_close(&m);
}

/* Of two processes that only check, the one that has all shards in memory looks at the view later. */
static void test_who_has_nothing__waits_for_who_only_checks(void **state)
{
    struct past past;
    struct log_member all, late;
    struct log_status s = {.version = 0};
    (void)state;
    opens(&all, PAUSE_US);
    assert_true(log_member_count(&all, KEYS, KEYS, KEY_ABSENT) > KEYS - 3);
    note(&past);
    adds_folds_and_leaves();
    uint64_t until = clock_mono_us() + ERAS_GUARD_MS * UINT64_C(1000);
    for (log_filter_look(all.filter); s.version != on.view->version && clock_mono_us() < until;
         clock_sleep_us(1000))
        control_status(all.control, &s);
    clock_sleep_us(PAUSE_US); /* it has read the tail by then, so it knows of who left */
    go_back(&past);
    opens(&late, PAUSE_US);
    assert_int_equal(log_member_count(&late, 0, KEYS, KEY_PRESENT), KEYS);
    assert_true(has_taken());
    assert_false(on.view->degraded);
    log_member_close(&late);
    log_member_close(&all);
}

/* A process that has just begun, and adds, is no writer before others have written what they have. */
static void test_who_adds_and_has_nothing__waits_for_who_has_all(void **state)
{
    struct error e = {""};
    struct log_member all, late;
    uint8_t answers[KEYS];
    (void)state;
    log_members_open(&all, &on.nodes, &on.names, UINT64_MAX, true);
    assert_int_equal(log_member_added(&all, 0, KEYS), KEYS);
    eras_await_forgotten(&all);
    log_member_pause(&all);
    eras_lose();
    opens(&late, PAUSE_US / 6);
    log_member_go_on(&all);
    must(log_member_add(&late, KEYS, KEYS, answers, &e), e);
    assert_int_equal(log_member_count(&late, 0, 2 * KEYS, KEY_PRESENT), 2 * KEYS);
    assert_true(has_taken());
    assert_false(on.view->degraded);
    log_member_close(&late);
    log_member_close(&all);
}

/* The id of the lane's last entry. */
static void last_entry(const struct lane *lane, char out[64])
{
    redisReply *r = client_command(&on.client, "XREVRANGE %b + - COUNT 1", lane->key.text, lane->key.length);
    assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements == 1);
    (void)snprintf(out, 64, "%s", r->element[0]->element[0]->str);
    freeReplyObject(r);
}

/* Delete the entries after @last from the lane. */
static void forget_behind(const struct lane *lane, const char *last)
{
    redisReply *r = client_command(&on.client, "XRANGE %b (%s +", lane->key.text, lane->key.length, last);
    assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements > 0);
    for (size_t i = 0; i < r->elements; i++)
        freeReplyObject(client_command(&on.client, "XDEL %b %s", lane->key.text, lane->key.length,
                                       r->element[i]->element[0]->str));
    freeReplyObject(r);
}

/* The writer is killed, and its node goes back to before it added and folded keys. Of two processes that only
 * check, the one that has read these keys writes them, before the other one, which has none, says so. */
static void test_who_has_all__stands_in_before_who_has_not(void **state)
{
    struct past past;
    struct log_member all, none, late, gone;
    uint8_t id[LOG_WRITER_BYTES];
    (void)state;
    eras_open(&none, 0, ERAS_PATIENT_US);
    eras_open(&all, UINT64_MAX, ERAS_PATIENT_US);
    eras_open(&gone, UINT64_MAX, ERAS_PATIENT_US);
    assert_int_equal(log_member_count(&all, 0, 1, KEY_ABSENT), 1);
    note(&past);
    assert_int_equal(log_member_added(&gone, 0, KEYS), KEYS);
    eras_await_forgotten(&gone);
    assert_int_equal(log_member_count(&all, 0, KEYS, KEY_PRESENT), KEYS);
    assert_int_equal(log_member_count(&none, 0, KEYS, KEY_PRESENT), KEYS);
    memcpy(id, gone.filter->writer, sizeof(id));
    log_member_abandon(&gone);
    go_back(&past);
    eras_answer_roll_call(id);
    eras_await_degraded(&all);
    log_members_open(&late, &on.nodes, &on.names, UINT64_MAX, false);
    assert_int_equal(log_member_count(&late, 0, KEYS, KEY_PRESENT), KEYS);
    log_member_close(&late);
    log_member_close(&all);
    log_member_close(&none);
}

/* Lane and shards fail over to a state before @second added and folded keys, which @first, also a writer, has
 * not read. @lost: the state is older than the shards. */
static void one_writes_before_the_other(bool lost)
{
    struct past past;
    struct lane lane;
    struct log_member first, second;
    char last[64];
    log_members_open(&first, &on.nodes, &on.names, UINT64_MAX, false);
    assert_int_equal(log_member_added(&first, 1000, 1), 1);
    log_members_open(&second, &on.nodes, &on.names, UINT64_MAX, true);
    assert_int_equal(log_member_added(&second, 1001, 1), 1);
    eras_await_forgotten(&second);
    eras_await_forgotten(&first);
    assert_int_equal(log_member_count(&first, 1000, 2, KEY_PRESENT), 2);
    log_member_pause(&first);
    note(&past);
    lane_key(&lane.key, &on.names, 0, 1);
    last_entry(&lane, last);
    assert_int_equal(log_member_added(&second, 0, KEYS), KEYS);
    eras_await_forgotten(&second);
    log_member_pause(&second);
    forget_behind(&lane, last);
    go_back(&past);
    for (uint32_t i = 0; lost && i < past.shards; i++) {
        struct key_name key;
        eras_shard_key(i, &key);
        freeReplyObject(client_command(&on.client, "DEL %b", key.text, key.length));
    }
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    eras_answer_roll_call(second.filter->writer);
    log_member_go_on(&first);
    eras_await_written(&first);
    log_member_go_on(&second);
    assert_true(has_taken());
    assert_false(on.view->degraded);
    assert_int_equal(log_member_count(&first, 0, KEYS, KEY_PRESENT), KEYS);
    assert_int_equal(log_member_count(&first, 1000, 2, KEY_PRESENT), 2);
    assert_int_equal(log_member_count(&second, 0, KEYS, KEY_PRESENT), KEYS);
    assert_int_equal(log_member_count(&second, 1000, 2, KEY_PRESENT), 2);
    log_member_close(&first);
    log_member_close(&second);
}

/* What a process loaded before all others had written is not complete. */
static void test_who_writes_first__says_absent_of_nothing_that_others_write(void **state)
{
    (void)state;
    one_writes_before_the_other(false);
}

/* The layer is younger than the node's data. */
static void test_shards_that_the_node_went_back_behind__are_made_again(void **state)
{
    (void)state;
    one_writes_before_the_other(true);
}

/* Wait until @m has seen the view that was loaded last. */
static void await_seen(const struct log_member *m)
{
    uint64_t until = clock_mono_us() + ERAS_GUARD_MS * UINT64_C(1000);
    struct log_status s = {.version = 0};
    while (s.version != on.view->version && clock_mono_us() < until) {
        clock_sleep_us(5000);
        control_status(m->control, &s);
    }
    assert_int_equal(s.version, on.view->version);
}

/* The metadata node, which holds the shards, goes back under the id that the view accepts. Of two writers one
 * has seen the later view. */
static void test_a_writer_that_has_not_seen_that_home_went_back__writes_again(void **state)
{
    struct error e = {""};
    struct past past;
    struct key_name key;
    struct log_member first, second, late;
    uint8_t answers[KEYS] = {0};
    (void)state;
    log_members_open(&first, &on.nodes, &on.names, UINT64_MAX, true);
    log_members_open(&second, &on.nodes, &on.names, UINT64_MAX, false);
    assert_int_equal(log_member_added(&first, 5000, 1), 1);
    assert_int_equal(log_member_added(&second, 5001, 1), 1);
    eras_await_forgotten(&first);
    eras_await_forgotten(&second);
    log_member_pause(&second);
    note(&past);
    names_filter_key(&on.names, "view", &key);
    redisReply *view = client_command(&on.client, "DUMP %b", key.text, key.length);
    assert_int_equal(log_member_added(&first, 0, KEYS), KEYS);
    eras_await_forgotten(&first);
    eras_case_registers(eras_case_writer[0]);
    eras_case_leaves(eras_case_writer[0]);
    await_seen(&first);
    put_back(&past);
    must(client_ok(&on.client, &e, "RESTORE %b 0 %b REPLACE", key.text, key.length, view->str, view->len), e);
    freeReplyObject(view);
    log_member_go_on(&second);
    log_members_open(&late, &on.nodes, &on.names, UINT64_MAX, false);
    uint64_t until = clock_mono_us() + ERAS_GUARD_MS * UINT64_C(1000);
    unsigned present = 0;
    while ((present < KEYS || log_members_failing(&first)[0] != '\0') && clock_mono_us() < until) {
        clock_sleep_us(5000);
        enum err code = log_member_check(&late, 0, KEYS, answers, &e);
        present = 0;
        for (unsigned i = 0; i < KEYS; i++)
            present += code == ERR_OK && answers[i] == KEY_PRESENT;
    }
    assert_string_equal(log_members_failing(&first), "");
    assert_int_equal(present, KEYS);
    eras_case_load();
    assert_false(on.view->degraded);
    assert_true(log_member_added(&first, KEYS, 1500) > 1000); /* more than its capacity: it grows */
    log_member_close(&late);
    log_member_close(&second);
    log_member_close(&first);
}

/* Another client's key has replaced a shard, and its node fails over, so that no writer can write all shards.
 * The view accepts the id nevertheless, as otherwise no build could begin that replaces the shards. */
static void test_a_shard_that_nobody_can_write__degrades_the_filter(void **state)
{
    struct error e = {""};
    struct log_member m;
    struct key_name key;
    (void)state;
    log_members_open(&m, &on.nodes, &on.names, UINT64_MAX, true);
    assert_int_equal(log_member_added(&m, 0, KEYS), KEYS);
    eras_await_forgotten(&m);
    log_member_pause(&m);
    eras_shard_key(0, &key);
    must(client_ok(&on.client, &e, "SET %b theirs", key.text, key.length), e);
    must(client_ok(&on.client, &e, "REPLICAOF 127.0.0.1 1"), e);
    must(client_ok(&on.client, &e, "REPLICAOF NO ONE"), e);
    log_member_go_on(&m);
    assert_true(has_taken());
    assert_true(on.view->degraded);
    log_member_abandon(&m); /* its entries are never folded */
}

/* Another generation was built while a process slept. What it has in memory is not read any more, so it
 * writes none of it; it has no shards of the current generation. */
static void test_a_generation_that_is_read_no_more__is_not_written(void **state)
{
    struct error e = {""};
    struct log_member m;
    (void)state;
    log_members_open(&m, &on.nodes, &on.names, UINT64_MAX, true);
    assert_int_equal(log_member_added(&m, 0, 10), 10);
    log_member_pause(&m);
    eras_case_load();
    uint64_t token = on.view->slot[1].writer.number;
    eras_case_degrades();
    eras_case_heals(false);
    eras_case_load();
    assert_true(on.view->current == 0 && !on.view->degraded && !on.view->slot[1].shape.built);
    must(client_ok(&on.client, &e, "REPLICAOF 127.0.0.1 1"), e);
    must(client_ok(&on.client, &e, "REPLICAOF NO ONE"), e);
    log_member_go_on(&m);
    uint64_t until = clock_mono_us() + ERAS_GUARD_MS * UINT64_C(1000);
    while (!trusted_contains(&on.view->eras, lanes_era(&on.client)) && clock_mono_us() < until)
        eras_case_load();
    assert_true(trusted_contains(&on.view->eras, lanes_era(&on.client)));
    assert_int_equal(on.view->slot[1].writer.number, token);
    assert_true(on.view->degraded);
    log_member_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ERAS_TEST(test_who_writes_first__says_absent_of_nothing_that_others_write),
        ERAS_TEST(test_shards_that_the_node_went_back_behind__are_made_again),
        ERAS_TEST(test_a_writer_that_has_not_seen_that_home_went_back__writes_again),
        ERAS_TEST(test_a_shard_that_nobody_can_write__degrades_the_filter),
        ERAS_TEST(test_keys_of_a_writer_that_left__are_not_absent_after_a_failover),
        ERAS_TEST(test_keys_of_a_writer_that_left__are_written_by_who_has_them),
        ERAS_TEST(test_who_has_nothing__waits_for_who_only_checks),
        ERAS_TEST(test_who_adds_and_has_nothing__waits_for_who_has_all),
        ERAS_TEST(test_a_generation_that_is_read_no_more__is_not_written),
        ERAS_TEST(test_what_was_written__is_not_written_again),
        ERAS_TEST(test_writers__write_one_after_the_other),
        ERAS_TEST(test_who_has_all__stands_in_before_who_has_not),
        ERAS_TEST(test_keys_of_a_degraded_filter__are_not_said_to_be_new),
        ERAS_TEST(test_a_filter_that_was_healed__is_degraded_until_it_is_loaded),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
