/* SPDX-License-Identifier: MIT */
#include "tests/unit/shard/resident/memory.h"

static const struct geometry g = {.shards = 3, .blocks = 10, .block_bits = 512, .hashes = 7};

static void add(struct overlay *o, unsigned lane, uint64_t id, unsigned layer, uint64_t key)
{
    struct key_place p = place_of(&g, key);
    struct overlay_key k = {hash_mix(hash_of(key), MIX), p.shard, p.block};
    assert_int_equal(overlay_add(o, lane, (struct log_id){id, 0}, layer, &k, 1, NULL), ERR_OK);
}

/* End @read with the block of @key, which is empty in Redis. True: the overlay added the key. @counts: the
 * expected result of overlay_read_end(). */
static bool ends(struct overlay *o, struct overlay_read *read, unsigned layer, uint64_t key, bool counts)
{
    uint8_t block[64] = {TAG >> 8, TAG & 0xff};
    struct key_place p = place_of(&g, key);
    assert_int_equal(overlay_read_end(o, read, layer, &g, p.shard, p.block, block), counts);
    return block_test(&g, TAG, &p, block, sizeof(block)) == BLOCK_PRESENT;
}

static bool has(struct overlay *o, unsigned layer, uint64_t key)
{
    struct overlay_read read;
    overlay_read_begin(o, &read);
    return ends(o, &read, layer, key, true);
}

static uint64_t held(struct overlay *o)
{
    uint64_t keys = 0, bytes = 0;
    overlay_size(o, &keys, &bytes);
    return keys;
}

static void folded(struct overlay *o, uint64_t first, uint64_t second)
{
    overlay_folded(o, (struct log_id[]){{first, 0}, {second, 0}});
}

static void test_overlay__adds_its_keys_to_blocks(void **state)
{
    (void)state;
    struct overlay *o = overlay_new(1);
    for (uint64_t key = 0; key < 1000; key++)
        add(o, 0, key + 1, key % 2, key);
    for (uint64_t key = 0; key < 1000; key++)
        assert_true(has(o, key % 2, key));
    /* A key is added only to its own layer, shard and block. */
    struct overlay *one = overlay_new(1);
    add(one, 0, 1, 0, 7);
    assert_false(has(one, 1, 7));
    assert_false(has(one, 0, 8));
    assert_int_equal(held(o), 1000);
    overlay_free(one);
    overlay_free(o);
}

static void test_overlay_folded__drops_what_was_passed_lane_by_lane(void **state)
{
    (void)state;
    struct overlay *o = overlay_new(2);
    for (uint64_t id = 1; id <= 10; id++) {
        add(o, 0, id, 0, id);
        add(o, 1, id, 0, 100 + id);
    }
    folded(o, 4, 0);
    assert_int_equal(held(o), 16);
    assert_false(has(o, 0, 4));
    assert_true(has(o, 0, 5) && has(o, 0, 101));
    folded(o, 2, 9); /* `folded` does not go back */
    assert_int_equal(held(o), 7);
    folded(o, 10, 10);
    assert_int_equal(held(o), 0);
    overlay_free(o);
}

/* The read is sent before the fold writes the block. The reply comes after `folded` is known. */
static void test_overlay_folded__waits_for_the_reads_under_way(void **state)
{
    (void)state;
    struct overlay_read early, late;
    struct overlay *o = overlay_new(2);
    add(o, 0, 1, 0, 7);
    overlay_read_begin(o, &early);
    folded(o, 1, 0);
    overlay_read_begin(o, &late); /* sent after `folded` is known, so the block has the key */
    assert_int_equal(held(o), 1);
    assert_true(ends(o, &early, 0, 7, true));
    assert_int_equal(held(o), 0);
    (void)ends(o, &late, 0, 7, true);
    overlay_free(o);
}

static void test_overlay_folded__that_comes_again_and_again_is_not_put_off_for_ever(void **state)
{
    (void)state;
    struct overlay_read read[50];
    struct overlay *o = overlay_new(2);
    for (uint64_t id = 1; id <= 50; id++)
        add(o, 0, id, 0, id);
    overlay_read_begin(o, &read[0]);
    for (unsigned i = 1; i < 50; i++) { /* there is always a read under way */
        folded(o, i, 0);
        overlay_read_begin(o, &read[i]);
        assert_true(ends(o, &read[i - 1], 0, i, true));
    }
    assert_in_range(held(o), 1, 3);
    overlay_read_cancel(o, &read[49]);
    assert_int_equal(held(o), 1);
    overlay_free(o);
}

static void test_overlay_discard__ends_what_is_under_way(void **state)
{
    (void)state;
    struct overlay_read read, other;
    struct overlay *o = overlay_new(2);
    add(o, 0, 1, 0, 7);
    overlay_read_begin(o, &read);
    overlay_read_begin(o, &other);
    overlay_discard(o);
    folded(o, 1, 0); /* does not wait for the discarded reads */
    assert_int_equal(held(o), 0);
    assert_false(ends(o, &read, 0, 7, false));
    overlay_read_cancel(o, &other);
    overlay_free(o);
}

enum { ROOM = LOG_KEYS_MAX };

/* Walk on, with at most @times calls. Returns the number of keys. Adds the low halves of their hashes and
 * their layers to *@sum. */
static unsigned walk(struct overlay *o, struct overlay_walk *w, const struct log_id *from,
                     const struct log_id *to, unsigned times, uint64_t *sum)
{
    struct overlay_met met[ROOM];
    unsigned n, all = 0;
    while (times-- > 0 && overlay_walk_next(o, w, from, to, met, ROOM, &n))
        for (unsigned i = 0; i < n; i++, all++)
            *sum += met[i].key.hash.low + met[i].layer;
    return all;
}

static uint64_t sum_of(uint64_t first, uint64_t last, unsigned layer)
{
    uint64_t sum = 0;
    for (uint64_t key = first; key <= last; key++)
        sum += hash_mix(hash_of(key), MIX).low + layer;
    return sum;
}

static void test_overlay_walk__meets_each_key_between_two_positions_once(void **state)
{
    (void)state;
    struct overlay *o = overlay_new(2);
    struct overlay_walk w;
    uint64_t sum = 0;
    for (uint64_t id = 1; id <= 1000; id++) {
        add(o, 0, id, 0, id);
        add(o, 1, id, 1, 2000 + id);
    }
    const struct log_id from[] = {{100, 0}, {0, 0}}, to[] = {{900, 0}, {50, 0}}, none[] = {{0, 0}, {0, 0}};
    overlay_walk_begin(o, &w);
    assert_int_equal(walk(o, &w, from, to, UINT32_MAX, &sum), 800 + 50);
    assert_true(sum == sum_of(101, 900, 0) + sum_of(2001, 2050, 1));
    overlay_walk_end(o, &w);
    overlay_walk_begin(o, &w);
    assert_int_equal(walk(o, &w, none, none, UINT32_MAX, &sum), 0);
    overlay_walk_end(o, &w);
    overlay_free(o);
}

/* The entry that a walk would meet next may be dropped. */
static void test_overlay_walk__goes_on_where_entries_go(void **state)
{
    (void)state;
    struct overlay *o = overlay_new(1);
    struct overlay_walk w, other;
    uint64_t sum = 0;
    for (uint64_t id = 1; id <= 1000; id++)
        add(o, 0, id, 0, id);
    const struct log_id from = {0, 0}, to = {1000, 0};
    overlay_walk_begin(o, &other);
    overlay_walk_begin(o, &w);
    unsigned met = walk(o, &w, &from, &to, 1, &sum);
    assert_int_equal(met, ROOM);
    overlay_folded(o, &(struct log_id){500, 0});
    add(o, 0, 1001, 0, 1001); /* after the end of the walk */
    met += walk(o, &w, &from, &to, UINT32_MAX, &sum);
    assert_int_equal(met, ROOM + 500);
    assert_true(sum == sum_of(1, ROOM, 0) + sum_of(501, 1000, 0));
    overlay_walk_end(o, &w);
    overlay_folded(o, &(struct log_id){1001, 0});
    assert_int_equal(walk(o, &other, &from, &to, UINT32_MAX, &sum), 0);
    overlay_walk_end(o, &other);
    overlay_free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overlay__adds_its_keys_to_blocks),
        cmocka_unit_test(test_overlay_folded__drops_what_was_passed_lane_by_lane),
        cmocka_unit_test(test_overlay_folded__waits_for_the_reads_under_way),
        cmocka_unit_test(test_overlay_folded__that_comes_again_and_again_is_not_put_off_for_ever),
        cmocka_unit_test(test_overlay_discard__ends_what_is_under_way),
        cmocka_unit_test(test_overlay_walk__meets_each_key_between_two_positions_once),
        cmocka_unit_test(test_overlay_walk__goes_on_where_entries_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
