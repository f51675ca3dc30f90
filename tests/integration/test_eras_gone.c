/* SPDX-License-Identifier: MIT */
/* Shards' nodes in another era, and writers that are gone: for whom the others wait, and how that ends. */
#include "tests/integration/eras_members.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "shard/fold/lease.h"
#include "shard/members/lost.h"

enum { REPLY_MS = 5000, LEASE_MS = 60000, PAUSE_US = 600 * 1000, KEYS = 20, MANY = 100 };

/* A dead writer is removed when folding has reached its removal, though the nodes are not accepted yet. It
 * may have added keys that were folded, and lost with the node before another process read them. */
static void test_a_writer_that_is_gone__is_removed_while_others_wait(void **state)
{
    struct log_member m;
    (void)state;
    eras_open(&m, UINT64_MAX, ERAS_HASTY_US);
    assert_int_equal(log_member_added(&m, 0, 10), 10);
    eras_case_registers(eras_case_writer[1]);
    eras_lose();
    eras_answer_roll_call(eras_case_writer[1]);
    eras_await_degraded(&m);
    assert_int_equal(log_member_count(&m, 0, 10, KEY_PRESENT), 10);
    log_member_close(&m);
}

/* A member, and two writers that have no process; the shards' node gets another id. */
static void beside_two(struct log_member *m, uint64_t memory, uint64_t grace_us)
{
    eras_open(m, memory, grace_us);
    assert_int_equal(log_member_added(m, 0, 10), 10);
    eras_case_registers(eras_case_writer[1]);
    eras_case_registers(eras_case_writer[2]);
    eras_lose();
    eras_answer_roll_call(eras_case_writer[1]);
    eras_answer_roll_call(eras_case_writer[2]);
}

/* The member has no shards in memory, so it says that it did not write all, and folds nothing: no removal
 * ends, and the doubt about each of the two must do. */
static void test_two_writers_that_are_gone__are_not_waited_for_where_one_lacks_memory(void **state)
{
    struct log_member m;
    (void)state;
    beside_two(&m, 0, ERAS_HASTY_US);
    eras_await_degraded(&m);
    assert_int_equal(log_member_count(&m, 0, 10, KEY_PRESENT), 10);
    log_member_close(&m);
}

static bool is_in_doubt(const uint8_t id[LOG_WRITER_BYTES])
{
    const struct log_writer *w = log_view_writer(on.view, id);
    assert_non_null(w);
    return w->in_doubt;
}

/* Several are gone: all of them have the time to answer at once, so nothing waits for one after the other. */
static void test_two_writers_that_are_gone__are_in_doubt_together(void **state)
{
    struct log_member m;
    (void)state;
    beside_two(&m, UINT64_MAX, LEASE_MS * UINT64_C(1000));
    uint64_t until = clock_mono_us() + ERAS_GUARD_MS * UINT64_C(1000);
    eras_case_load();
    while (!(is_in_doubt(eras_case_writer[1]) && is_in_doubt(eras_case_writer[2])) &&
           clock_mono_us() < until) {
        clock_sleep_us(5000);
        eras_case_load();
    }
    assert_true(is_in_doubt(eras_case_writer[1]) && is_in_doubt(eras_case_writer[2]));
    log_member_close(&m);
}

/* Those that are left only check, so none of them is a writer, and nobody writes or says anything. */
static void who_only_checks(uint64_t memory)
{
    struct log_member m;
    eras_case_registers(eras_case_writer[1]);
    eras_open(&m, memory, ERAS_HASTY_US);
    assert_int_equal(log_member_count(&m, 0, 10, KEY_ABSENT), 10);
    eras_lose();
    eras_answer_roll_call(eras_case_writer[1]);
    eras_await_degraded(&m);
    log_member_close(&m);
}

static void test_a_writer_that_is_gone__is_not_waited_for_by_who_only_checks(void **state)
{
    (void)state;
    who_only_checks(UINT64_MAX);
}

static void test_a_writer_that_is_gone__is_not_waited_for_by_who_only_checks_without_memory(void **state)
{
    (void)state;
    who_only_checks(0);
}

/* How many removals have begun, by the entries of the lane. */
static unsigned removals(const struct lane *lane)
{
    unsigned n = 0;
    redisReply *r = client_command(&on.client, "XRANGE %b - +", lane->key.text, lane->key.length);
    assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY);
    for (size_t i = 0; i < r->elements; i++) {
        const redisReply *bytes = r->element[i]->element[1]->element[1];
        struct log_entry entry;
        struct error e = {""};
        must(log_entry_decode(&entry, bytes->str, bytes->len, &e), e);
        n += entry.kind == LOG_REMOVAL;
    }
    freeReplyObject(r);
    return n;
}

/* The second writer has the folder's lease. */
static struct sync_client *second_writes(struct lease *lease)
{
    struct error e = {""};
    static char name[LEASE_OWNER_MAX];
    const struct lease_report report = {.folds = 0};
    lease_name(name, "the second", eras_case_writer[1]);
    struct sync_client *link = sync_client_new(&on.nodes, REPLY_MS, "second");
    assert_non_null(link);
    lease_init(lease, link, &on.names, name, LEASE_MS);
    while (lease_take(lease, &report, &e) == ERR_BUSY)
        clock_sleep_us(1000);
    assert_true(lease_is_held(lease));
    return link;
}

static void second_has_ended(struct lease *lease, struct sync_client *link)
{
    lease_give_back(lease);
    lease_fini(lease);
    sync_client_free(link);
}

/* It may have gigabytes to write, and holds the folder's lease meanwhile. */
static void test_a_writer_that_writes__is_not_removed_before_it_ends(void **state)
{
    struct error e = {""};
    struct log_member m;
    struct lease of_second;
    struct lane lane;
    (void)state;
    eras_open(&m, UINT64_MAX, ERAS_HASTY_US);
    assert_int_equal(log_member_added(&m, 0, 10), 10);
    eras_case_registers(eras_case_writer[1]);
    struct sync_client *link = second_writes(&of_second);
    eras_lose();
    eras_answer_roll_call(eras_case_writer[1]);
    must(log_view_lane_at(on.view, &on.names, &on.nodes, 0, &lane, &e), e);
    clock_sleep_us(PAUSE_US);
    eras_case_load();
    assert_non_null(log_view_writer(on.view, eras_case_writer[1]));
    assert_int_equal(removals(&lane), 0);
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    second_has_ended(&of_second, link);
    uint64_t until = clock_mono_us() + ERAS_GUARD_MS * UINT64_C(1000);
    while (log_view_writer(on.view, eras_case_writer[1]) != NULL && clock_mono_us() < until) {
        clock_sleep_us(5000);
        eras_case_load();
    }
    assert_null(log_view_writer(on.view, eras_case_writer[1]));
    log_member_close(&m);
}

/* The second writer's last entry has keys of all shards. */
static void second_adds(uint64_t first)
{
    struct error e = {""};
    struct key_hash keys[MANY];
    struct lane_put put;
    struct lane lane;
    eras_case_load();
    for (unsigned i = 0; i < MANY; i++) {
        char text[24];
        int length = snprintf(text, sizeof(text), "%u", (unsigned)first + i);
        keys[i] = hash_key(on.view->seed, text, (size_t)length);
    }
    put.length = log_entry_encode(put.bytes, eras_case_writer[1], 1, keys, MANY);
    must(log_view_lane_at(on.view, &on.names, &on.nodes, 0, &lane, &e), e);
    must(lane_put(on.link, &lane, &put, 1, &e), e);
}

/* A shard is lost when all have written, but a writer that is gone. It is removed when the shards are folded,
 * and one of them cannot be. @is_replaced: by another client's key. */
static void loses_a_shard_while_it_waits(bool is_replaced)
{
    struct log_member m;
    struct lease of_second;
    struct key_name key;
    eras_shard_key(0, &key);
    eras_open(&m, UINT64_MAX, ERAS_PATIENT_US);
    assert_int_equal(log_member_added(&m, 0, KEYS), KEYS);
    eras_case_registers(eras_case_writer[1]);
    eras_lose();
    eras_answer_roll_call(eras_case_writer[1]);
    eras_await_written(&m);
    struct sync_client *link = second_writes(&of_second);
    second_adds(1000);
    assert_int_equal(eras_case_look(), ERAS_WRITE);
    freeReplyObject(is_replaced ? client_command(&on.client, "SET %b theirs", key.text, key.length)
                                : client_command(&on.client, "DEL %b", key.text, key.length));
    second_has_ended(&of_second, link);
    eras_await_degraded(&m);
    assert_int_equal(log_member_count(&m, 0, KEYS, KEY_PRESENT), KEYS);
    assert_int_equal(log_member_count(&m, 1000, MANY, KEY_PRESENT), MANY);
    log_member_abandon(&m);
}

static void test_a_shard_that_is_lost_while_others_wait__is_made_again(void **state)
{
    (void)state;
    loses_a_shard_while_it_waits(false);
    struct key_name key;
    eras_shard_key(0, &key);
    redisReply *there = client_command(&on.client, "EXISTS %b", key.text, key.length);
    assert_true(there != NULL && there->integer == 1);
    freeReplyObject(there);
}

static void test_a_shard_that_is_overwritten_while_others_wait__degrades_the_filter(void **state)
{
    (void)state;
    loses_a_shard_while_it_waits(true);
}

/* Another client's key has replaced a shard. Wait until the process knows that the view says so. */
static void wait_until_told(const struct log_member *m, const struct key_name *key)
{
    struct error e = {""};
    struct log_status s = {.looks = 0};
    const struct log_lost lost = {.generation = on.view->slot[1].shape.number};
    uint64_t until = clock_mono_us() + ERAS_GUARD_MS * UINT64_C(1000);
    must(client_ok(&on.client, &e, "SET %b theirs", key->text, key->length), e);
    must(lost_say(on.link, &on.names, &lost, &e), e);
    for (; s.lost.since_ms == 0 && clock_mono_us() < until; clock_sleep_us(1000))
        control_status(m->control, &s);
    assert_true(s.lost.since_ms != 0);
}

/* The loss ends while the shards' node fails over: then the shards are written, and the writer that is gone
 * is removed, though the process has not yet noticed that nothing is lost. */
static void test_a_writer_that_is_gone__is_removed_where_a_shard_was_lost_before(void **state)
{
    struct log_member m;
    struct key_name key;
    (void)state;
    eras_shard_key(0, &key);
    eras_open(&m, UINT64_MAX, ERAS_HASTY_US);
    assert_int_equal(log_member_added(&m, 0, 10), 10);
    wait_until_told(&m, &key);
    log_member_pause(&m);
    eras_case_registers(eras_case_writer[1]);
    freeReplyObject(client_command(&on.client, "DEL %b", key.text, key.length));
    eras_lose();
    eras_answer_roll_call(eras_case_writer[1]);
    log_member_go_on(&m);
    eras_await_degraded(&m);
    assert_int_equal(log_member_count(&m, 0, 10, KEY_PRESENT), 10);
    log_member_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ERAS_TEST(test_a_writer_that_is_gone__is_removed_while_others_wait),
        ERAS_TEST(test_two_writers_that_are_gone__are_not_waited_for_where_one_lacks_memory),
        ERAS_TEST(test_two_writers_that_are_gone__are_in_doubt_together),
        ERAS_TEST(test_a_writer_that_is_gone__is_not_waited_for_by_who_only_checks),
        ERAS_TEST(test_a_writer_that_is_gone__is_not_waited_for_by_who_only_checks_without_memory),
        ERAS_TEST(test_a_writer_that_writes__is_not_removed_before_it_ends),
        ERAS_TEST(test_a_shard_that_is_lost_while_others_wait__is_made_again),
        ERAS_TEST(test_a_shard_that_is_overwritten_while_others_wait__degrades_the_filter),
        ERAS_TEST(test_a_writer_that_is_gone__is_removed_where_a_shard_was_lost_before),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
