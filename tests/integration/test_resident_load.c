/* SPDX-License-Identifier: MIT */
/* A job loads shards from real servers while entries are applied. A shard that is missing, cut, of another
 * type, or on a server that the view does not mean is reported, and never taken for zeros. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include "base/clock.h"
#include "tests/integration/loads.h"

/* Apply keys from KEYS on while the pieces come. */
static void *apply(void *arg)
{
    uint8_t added;
    while (!loads.done) {
        struct key_hash h = loads_hash(KEYS + loads.applied++);
        if (resident_apply(loads.r, 0, (struct log_id){loads.applied, 0}, &h, 1, &added, NULL) != ERR_OK)
            return &loads;
    }
    return arg;
}

static void has_all(void)
{
    assert_int_equal(loads.failures, 0);
    for (uint64_t key = 0; key < KEYS + loads.applied; key++)
        assert_int_equal(loads_look(key), RESIDENT_PRESENT);
    unsigned found = 0;
    for (uint64_t key = 1 << 20; key < (1 << 20) + 1000; key++) {
        assert_int_not_equal(loads_look(key), RESIDENT_UNKNOWN);
        found += loads_look(key) == RESIDENT_PRESENT;
    }
    assert_in_range(found, 0, 10);
    loads_finish();
}

static void test_load__brings_all_shards_into_memory(void **state)
{
    (void)state;
    loads_prepare();
    assert_int_equal(loads_all(), loads_g.shards);
    has_all();
}

/* The rate holds for all loads of the process together. At this rate a yielding thread makes too little
 * progress, so the rest is loaded without yielding. */
static void test_load__asks_for_no_more_than_the_rate(void **state)
{
    (void)state;
    loads_prepare();
    loads.budget.load_rate = 4000000;
    uint64_t began = clock_mono_us(), paid = geometry_bytes(&loads_g) - LOAD_PIECE;
    assert_int_equal(loads_all(), loads_g.shards);
    assert_true(clock_mono_us() - began >= paid / 4 - BUDGET_LOAD_LATE_US);
    for (uint64_t key = 0; key < KEYS; key++)
        assert_int_equal(loads_look(key), RESIDENT_PRESENT);
    loads_finish();
}

static void test_load__brings_all_shards_into_memory_while_entries_are_applied(void **state)
{
    pthread_t thread;
    void *failed;
    (void)state;
    loads_prepare();
    loads.budget.load_rate = 4000000; /* so that the load takes a while */
    loads.done = false;
    assert_int_equal(pthread_create(&thread, NULL, apply, NULL), 0);
    uint32_t loaded = loads_all();
    loads.done = true;
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    assert_int_equal(loaded, loads_g.shards);
    assert_true(loads.applied > 10);
    has_all();
}

/* One shard fails, and the others are loaded. No key of the failed shard is reported absent. */
static void fails(uint32_t shard, enum err code, const char *why)
{
    assert_int_equal(loads_all(), loads_g.shards - 1);
    assert_int_equal(loads.failures, 1);
    assert_int_equal(loads.failed_shard, shard);
    if (loads.code != code || strstr(loads.why, why) == NULL)
        fail_msg("%s: \"%s\", expected %s: \"%s\"", error_name(loads.code), loads.why, error_name(code), why);
    struct key_name name = loads_name(shard);
    assert_non_null(memmem(loads.why, strlen(loads.why), name.text, name.length));
    for (uint64_t key = 0; key < KEYS + 100; key++)
        assert_true(loads_shard_of(key) == shard ? loads_look(key) == RESIDENT_UNKNOWN
                                                 : key >= KEYS || loads_look(key) == RESIDENT_PRESENT);
    loads_finish();
}

static void missing(void)
{
    struct key_name name = loads_name(2);
    loads_command(placement_where(&loads.placement, 0, 2), "DEL %b", &name, NULL, 0);
    fails(2, ERR_LOST, "is missing");
}

static void cut(void)
{
    struct header h = loads_header(3);
    loads_write_shard(3, &h, 1);
    fails(3, ERR_LOST, "is cut");
}

static void without_a_tag(void)
{
    struct header h = loads_header(5);
    size_t at = 5 * (size_t)geometry_shard_bytes(&loads_g) + 1200 * 128;
    loads.shards[at] ^= 1;
    loads_write_shard(5, &h, 0);
    fails(5, ERR_LOST, "block 1200 of shard 5 does not begin with its tag");
}

static void of_another_generation(void)
{
    struct header h = loads_header(1);
    h.generation++;
    loads_write_shard(1, &h, 0);
    fails(1, ERR_LOST, "belongs to generation 4");
}

static void of_a_later_writer(void)
{
    struct header h = loads_header(0);
    h.writer.number++;
    loads_write_shard(0, &h, 0);
    fails(0, ERR_FENCED, "token 8, later than the view's 7");
}

static void of_a_later_format(void)
{
    struct key_name name = loads_name(4);
    loads_command(placement_where(&loads.placement, 0, 4), "SETRANGE %b 5 %b", &name, "\2", 1);
    fails(4, ERR_FORMAT, "has format 2");
}

static void of_another_type(void)
{
    struct key_name name = loads_name(4);
    loads_command(placement_where(&loads.placement, 0, 4), "DEL %b", &name, NULL, 0);
    loads_command(placement_where(&loads.placement, 0, 4), "LPUSH %b %b", &name, "x", 1);
    fails(4, ERR_WRONG_TYPE, "is no string");
}

static void test_load__tells_of_a_shard_that_is_missing(void **state)
{
    (void)state;
    loads_prepare();
    missing();
}

static void test_load__tells_of_a_shard_that_was_cut(void **state)
{
    (void)state;
    loads_prepare();
    cut();
}

static void test_load__tells_of_a_block_without_its_tag(void **state)
{
    (void)state;
    loads_prepare();
    without_a_tag();
}

static void test_load__tells_of_a_shard_of_something_else(void **state)
{
    (void)state;
    loads_prepare();
    of_another_generation();
    loads_prepare();
    of_a_later_writer();
    loads_prepare();
    of_a_later_format();
    loads_prepare();
    of_another_type();
}

/* From some moment on, the first node's shards do not count: those with even numbers. The others count. A
 * loaded shard has all its bits, and keys of the other shards are unknown. */
static void loads_some(unsigned least, unsigned most, const char *why)
{
    uint32_t ended = loads_all();
    assert_in_range(ended, least, most);
    assert_int_equal(loads.failures, loads_g.shards - ended);
    assert_non_null(strstr(loads.why, why));
    for (uint64_t key = 0; key < KEYS; key++) {
        bool whole = bitmap_state(loads.r->layer[0], loads_shard_of(key)) == BITMAP_RESIDENT;
        assert_int_equal(loads_look(key), whole ? RESIDENT_PRESENT : RESIDENT_UNKNOWN);
        assert_true(whole || loads_shard_of(key) % 2 == 0 || loads.changes);
    }
    loads_finish();
}

static void under_another_id(void)
{
    loads_first_node_does("DEBUG CHANGE-REPL-ID");
    loads_some(loads_g.shards / 2, loads_g.shards / 2, "has a replication id that the view does not accept");
    assert_int_equal(loads.fenced, loads_g.shards / 2);
}

static void from_a_replica(void)
{
    loads_first_node_does("REPLICAOF 127.0.0.1 1");
    loads_some(loads_g.shards / 2, loads_g.shards / 2, "its node is no master");
    assert_int_equal(loads.fenced, loads_g.shards / 2);
    loads_first_node_does("REPLICAOF NO ONE");
}

/* A missing shard on a server under another id does not count either. */
static void missing_under_another_id(void)
{
    struct key_name name = loads_name(0);
    loads_command(placement_where(&loads.placement, 0, 0), "DEL %b", &name, NULL, 0);
    under_another_id();
}

/* The node answers all the time. Its id changes behind some of the pieces, when shard 1 fails. */
static void while_it_is_loaded(void)
{
    struct key_name name = loads_name(1);
    loads_command(placement_where(&loads.placement, 0, 1), "DEL %b", &name, NULL, 0);
    loads.changes = true;
    loads_some(loads_g.shards / 2 - 1, loads_g.shards - 2,
               "has a replication id that the view does not accept");
    assert_true(loads.fenced >= 1);
    assert_int_equal(loads.fenced, loads.failures - 1);
}

static void test_load__counts_only_under_an_era_that_the_view_accepts(void **state)
{
    (void)state;
    loads_prepare();
    under_another_id();
    loads_prepare();
    missing_under_another_id();
}

/* Shards that were whole before stay in memory, and are not whole again. */
static void test_load__again_counts_only_under_an_era_that_the_view_accepts(void **state)
{
    (void)state;
    loads_prepare();
    assert_int_equal(loads_all(), loads_g.shards);
    resident_rebase(loads.r);
    loads_first_node_does("DEBUG CHANGE-REPL-ID");
    assert_int_equal(loads_all(), loads_g.shards / 2);
    for (uint32_t s = 0; s < loads_g.shards; s++)
        assert_int_equal(bitmap_state(loads.r->layer[0], s), s % 2 == 0 ? BITMAP_RELOADING : BITMAP_RESIDENT);
    loads_finish();
}

static void test_load__counts_nothing_that_a_replica_says(void **state)
{
    (void)state;
    loads_prepare();
    from_a_replica();
}

static void test_load__counts_nothing_that_came_before_a_change_of_the_era_was_seen(void **state)
{
    (void)state;
    loads_prepare();
    while_it_is_loaded();
}

/* --- one judge for several pieces --- */

static void seems_to_go_elsewhere(uint64_t *connection)
{
    (*connection)++;
}

/* Each piece of a group is one in turn: the first, one in the middle, the judge. */
static void test_load__counts_nothing_whose_judge_came_over_another_connection(void **state)
{
    (void)state;
    for (unsigned piece = 1; piece <= 7; piece++) {
        loads_prepare();
        loads_at_piece(piece, seems_to_go_elsewhere);
        fails(0, ERR_UNREACHABLE, "several connections");
    }
}

static uint64_t number_of(unsigned where)
{
    static struct slot_redirect redirect;
    const char command[] = "PING\r\n";
    const size_t end = sizeof(command) - 1;
    uint64_t number = 0;
    redisReply *reply = NULL;
    struct error e = {""};
    if (sync_client_append_together(loads.link, where, &redirect, 1, command, &end, &number, &e) != ERR_OK ||
        sync_client_reply(loads.link, where, &reply, &e) != ERR_OK)
        fail_msg("%s", e.text);
    freeReplyObject(reply);
    return number;
}

static void test_load__each_connection_has_its_own_number(void **state)
{
    (void)state;
    uint64_t first = number_of(0), second = number_of(1);
    assert_true(first != 0 && first != second);
    assert_int_equal(number_of(0), first);
    loads_first_node_does("CLIENT KILL TYPE normal");
    assert_true(number_of(0) > second && number_of(0) > first);
    assert_int_equal(number_of(1), second);
}

/* Runs last: the node does not come back. */
static void test_load__tells_of_shards_whose_node_is_away(void **state)
{
    (void)state;
    loads_prepare();
    temp_redis_kill(&loads.redis[1]);
    assert_int_equal(loads_all(), loads_g.shards / 2);
    assert_int_equal(loads.failures, loads_g.shards / 2);
    assert_int_equal(loads.code, ERR_UNREACHABLE);
    loads_finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load__brings_all_shards_into_memory),
        cmocka_unit_test(test_load__asks_for_no_more_than_the_rate),
        cmocka_unit_test(test_load__brings_all_shards_into_memory_while_entries_are_applied),
        cmocka_unit_test(test_load__tells_of_a_shard_that_is_missing),
        cmocka_unit_test(test_load__tells_of_a_shard_that_was_cut),
        cmocka_unit_test(test_load__tells_of_a_block_without_its_tag),
        cmocka_unit_test(test_load__tells_of_a_shard_of_something_else),
        cmocka_unit_test(test_load__counts_only_under_an_era_that_the_view_accepts),
        cmocka_unit_test(test_load__again_counts_only_under_an_era_that_the_view_accepts),
        cmocka_unit_test(test_load__counts_nothing_that_a_replica_says),
        cmocka_unit_test(test_load__counts_nothing_that_came_before_a_change_of_the_era_was_seen),
        cmocka_unit_test(test_load__counts_nothing_whose_judge_came_over_another_connection),
        cmocka_unit_test(test_load__each_connection_has_its_own_number),
        cmocka_unit_test(test_load__tells_of_shards_whose_node_is_away),
    };
    return cmocka_run_group_tests(tests, loads_start, loads_stop);
}
