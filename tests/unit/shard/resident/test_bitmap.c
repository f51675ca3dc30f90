/* SPDX-License-Identifier: MIT */
#include "tests/unit/shard/resident/memory.h"

#include <sys/mman.h>
#include <unistd.h>
#include "shard/resident/dirty.h"

static const struct geometry geometries[] = {{.shards = 5, .blocks = 97, .block_bits = 512, .hashes = 7},
                                             {.shards = 3, .blocks = 201, .block_bits = 1024, .hashes = 10},
                                             {.shards = 2, .blocks = 33, .block_bits = 4096, .hashes = 13},
                                             {.shards = 1, .blocks = 1, .block_bits = 512, .hashes = 1}};
enum { GEOMETRIES = sizeof(geometries) / sizeof(geometries[0]), KEYS = 2000 };

static struct bitmap *bitmap_of(const struct geometry *g, const uint8_t *shards)
{
    struct bitmap *b = NULL;
    assert_int_equal(bitmap_new(&b, g, TAG, NULL), ERR_OK);
    for (uint32_t s = 0; shards != NULL && s < g->shards; s++) {
        bitmap_change(b, s, BITMAP_LOADING);
        load_whole(b, s, shards);
        assert_true(bitmap_is_loaded(b, s));
        bitmap_change(b, s, BITMAP_RESIDENT);
    }
    return b;
}

static enum bitmap_answer look(const struct bitmap *b, uint64_t key)
{
    struct bitmap_aim aim;
    bitmap_aim(b, hash_mix(hash_of(key), MIX), &aim);
    return (enum bitmap_answer)bitmap_see(b, &aim);
}

static void test_bitmap__answers_as_blocks_of_redis_do(void **state)
{
    (void)state;
    for (int i = 0; i < GEOMETRIES; i++) {
        const struct geometry *g = &geometries[i];
        uint8_t *shards = redis_new(g);
        for (uint64_t key = 0; key < KEYS / 2; key++)
            (void)redis_set(g, shards, key);
        struct bitmap *b = bitmap_of(g, shards);
        for (uint64_t key = 0; key < KEYS; key++) {
            struct key_place p = place_of(g, key);
            const uint8_t *block =
                shards + (size_t)p.shard * b->shard_bytes + (size_t)p.block * (g->block_bits / 8);
            bool there = block_test(g, TAG, &p, block, g->block_bits / 8) == BLOCK_PRESENT;
            assert_int_equal(look(b, key), there ? BITMAP_YES : BITMAP_NO);
        }
        bitmap_free(b);
        free(shards);
    }
}

static void test_bitmap_set__sets_what_block_set_sets_and_tells_what_is_new(void **state)
{
    (void)state;
    for (int i = 0; i < GEOMETRIES; i++) {
        const struct geometry *g = &geometries[i];
        uint8_t *shards = redis_new(g);
        struct bitmap *b = bitmap_of(g, shards);
        for (uint64_t key = 0; key < KEYS; key++) {
            struct key_place p = place_of(g, key % (KEYS / 2));
            assert_int_equal(bitmap_set(b, &p), redis_set(g, shards, key % (KEYS / 2)));
        }
        assert_memory_equal((const void *)b->words, shards, geometry_bytes(g));
        bitmap_free(b);
        free(shards);
    }
}

static void test_bitmap_look__says_no_only_of_what_is_whole(void **state)
{
    (void)state;
    const struct geometry *g = &geometries[0];
    uint8_t *shards = redis_new(g);
    (void)redis_set(g, shards, 1);
    struct bitmap *b = bitmap_of(g, shards);
    uint32_t shard = place_of(g, 1).shard;
    uint64_t absent = 1000;
    while (place_of(g, absent).shard != shard)
        absent++;
    assert_int_equal(look(b, absent), BITMAP_NO);
    bitmap_change(b, shard, BITMAP_ABSENT);
    assert_int_equal(look(b, absent), BITMAP_UNKNOWN);
    assert_int_equal(look(b, 1), BITMAP_UNKNOWN);
    bitmap_change(b, shard, BITMAP_LOADING);
    assert_int_equal(look(b, 1), BITMAP_UNKNOWN);
    load_whole(b, shard, shards);
    assert_int_equal(look(b, 1), BITMAP_YES);
    assert_int_equal(look(b, absent), BITMAP_UNKNOWN);
    bitmap_free(b);
    free(shards);
}

/* 600 MB of shards, none of which is there. Of memory that was only read, the system has pages, too. */
static void test_bitmap_look__takes_no_memory_for_shards_that_are_absent(void **state)
{
    (void)state;
    const struct geometry g = {.shards = 4700, .blocks = 2000, .block_bits = 512, .hashes = 7};
    struct bitmap *b = bitmap_of(&g, NULL);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = b->mapped / page, there = 0;
    unsigned char *in_memory = malloc(pages);
    assert_non_null(in_memory);
    for (uint64_t key = 0; key < KEYS; key++)
        assert_int_equal(look(b, key), BITMAP_UNKNOWN);
    assert_int_equal(mincore((void *)b->words, pages * page, in_memory), 0);
    for (size_t i = 0; i < pages; i++)
        there += in_memory[i] & 1;
    assert_int_equal(there, 0);
    free(in_memory);
    bitmap_free(b);
}

static void test_bitmap_change__to_absent_leaves_the_neighbours_alone(void **state)
{
    (void)state;
    const struct geometry *g = &geometries[0];
    uint8_t *shards = redis_new(g);
    for (uint64_t key = 0; key < KEYS; key++)
        (void)redis_set(g, shards, key);
    struct bitmap *b = bitmap_of(g, shards);
    struct key_place p = {.shard = 2};
    dirty_mark_all(b, p.shard);
    bitmap_change(b, 2, BITMAP_ABSENT);
    const uint8_t *bytes = (const uint8_t *)b->words;
    size_t n = b->shard_bytes;
    assert_memory_equal(bytes, shards, 2 * n);
    assert_memory_equal(bytes + 3 * n, shards + 3 * n, 2 * n);
    for (size_t i = 2 * n; i < 3 * n; i++)
        assert_int_equal(bytes[i], 0);
    assert_int_equal(dirty_bytes(b, 2), 0);
    bitmap_free(b);
    free(shards);
}

static void test_bitmap_or__takes_pieces_in_order_and_refuses_others(void **state)
{
    (void)state;
    const struct geometry *g = &geometries[1];
    struct error e = {""};
    uint8_t *shards = redis_new(g);
    struct bitmap *b = bitmap_of(g, NULL);
    uint32_t block = g->block_bits / 8;
    assert_int_equal(bitmap_or(b, 0, 0, shards, block, &e), ERR_CONFLICT); /* the load has not begun */
    bitmap_change(b, 0, BITMAP_LOADING);
    assert_int_equal(bitmap_or(b, 0, block, shards, block, &e), ERR_CONFLICT);
    assert_int_equal(bitmap_or(b, 0, 0, shards, block - 1, &e), ERR_CONFLICT);
    assert_int_equal(bitmap_or(b, 0, 0, shards, b->shard_bytes + block, &e), ERR_CONFLICT);
    shards[block * 2] ^= 1;
    assert_int_equal(bitmap_or(b, 0, 0, shards, 4 * block, &e), ERR_LOST);
    assert_string_equal(e.text, "block 2 of shard 0 does not begin with its tag");
    for (uint32_t i = 0; i < b->shard_bytes / 8; i++)
        assert_int_equal(b->words[i], 0);
    shards[block * 2] ^= 1;
    assert_int_equal(bitmap_or(b, 0, 0, shards, 4 * block, &e), ERR_OK);
    assert_int_equal(bitmap_or(b, 0, 0, shards, 4 * block, &e), ERR_CONFLICT);
    assert_false(bitmap_is_loaded(b, 0));
    assert_int_equal(bitmap_or(b, 0, 4 * block, shards + 4 * block, b->shard_bytes - 4 * block, &e), ERR_OK);
    assert_true(bitmap_is_loaded(b, 0));
    bitmap_free(b);
    free(shards);
}

static void test_bitmap__takes_little_beside_the_shards(void **state)
{
    (void)state;
    struct geometry g;
    struct bitmap *b = NULL;
    assert_int_equal(geometry_plan(&g, 100000000, 1e-3, SHARD_BYTES_DEFAULT, NULL), ERR_OK);
    assert_int_equal(bitmap_new(&b, &g, TAG, NULL), ERR_OK);
    assert_true((double)bitmap_overhead(b) < 0.02 * (double)geometry_bytes(&g));
    bitmap_free(b);
}

/* --- dirty.h --- */

static struct dirty_batch batch;

static bool take(struct bitmap *b, uint32_t shard)
{
    uint32_t page = 0;
    return dirty_take_from(b, shard, &page, &batch);
}

static void test_dirty__gives_back_exactly_what_was_set(void **state)
{
    (void)state;
    for (int i = 0; i < GEOMETRIES; i++) {
        const struct geometry *g = &geometries[i];
        uint8_t *redis = redis_new(g);
        struct bitmap *b = bitmap_of(g, redis);
        for (int round = 0; round < 20; round++) {
            for (uint64_t key = 0; key < (round % 2 == 0 ? 5 : 300); key++) {
                struct key_place p = place_of(g, key + (uint64_t)round * 1000);
                (void)bitmap_set(b, &p);
            }
            for (uint32_t shard = 0; dirty_next(b, &shard); shard++)
                while (take(b, shard)) {
                    uint32_t at = 0;
                    assert_int_equal(batch.shard, shard);
                    for (unsigned k = 0; k < batch.count; k++) {
                        assert_true(batch.piece[k].offset + batch.piece[k].length <= b->shard_bytes);
                        memcpy(redis + (size_t)shard * b->shard_bytes + batch.piece[k].offset,
                               batch.bytes + at, batch.piece[k].length);
                        at += batch.piece[k].length;
                    }
                    assert_int_equal(at, batch.length);
                }
            assert_memory_equal((const void *)b->words, redis, geometry_bytes(g));
        }
        bitmap_free(b);
        free(redis);
    }
}

static void set_units(struct bitmap *b, uint32_t first, uint32_t count, uint32_t step)
{
    for (uint32_t i = 0; i < count; i++) {
        struct key_place p = {.shard = 0, .block = first + i * step, .bits = {20, 20, 20, 20, 20, 20, 20}};
        assert_true(bitmap_set(b, &p));
    }
}

static void test_dirty__takes_a_page_where_nine_of_its_blocks_are(void **state)
{
    (void)state;
    const struct geometry g = {.shards = 1, .blocks = 150, .block_bits = 512, .hashes = 7};
    uint8_t *shards = redis_new(&g);
    struct bitmap *b = bitmap_of(&g, shards);
    set_units(b, 0, 8, 3);
    set_units(b, 64, 9, 3);
    set_units(b, 128, 11, 2); /* in the last page, which has 22 blocks */
    assert_int_equal(dirty_bytes(b, 0), 28 * 64);
    assert_true(take(b, 0));
    assert_int_equal(batch.count, 8 + 1);
    for (unsigned i = 0; i < 8; i++)
        assert_true(batch.piece[i].offset == i * 3 * 64 && batch.piece[i].length == 64);
    assert_true(batch.piece[8].offset == 4096 && batch.piece[8].length == 4096 + 22 * 64);
    dirty_put_back(b, &batch);
    assert_int_equal(dirty_bytes(b, 0), 8 * 64 + 4096 + 22 * 64);
    assert_true(take(b, 0));
    assert_false(take(b, 0));
    set_units(b, 30, 3, 1); /* adjacent blocks */
    assert_true(take(b, 0));
    assert_true(batch.count == 1 && batch.piece[0].offset == 30 * 64 && batch.piece[0].length == 3 * 64);
    bitmap_free(b);
    free(shards);
}

static void test_dirty__keeps_a_batch_within_its_bytes_and_leaves_the_rest(void **state)
{
    (void)state;
    const struct geometry g = {.shards = 2, .blocks = 16383, .block_bits = 512, .hashes = 7};
    uint8_t *shards = redis_new(&g);
    struct bitmap *b = bitmap_of(&g, shards);
    dirty_mark_all(b, 1);
    uint32_t shard = 0;
    assert_true(dirty_next(b, &shard));
    assert_int_equal(shard, 1);
    assert_int_equal(dirty_bytes(b, 1), b->shard_bytes);
    uint64_t bytes = 0;
    for (int n = 0; take(b, 1); n++) {
        assert_in_range(batch.length, 1, DIRTY_BATCH_BYTES);
        bytes += batch.length;
        if (n == 3) { /* this batch was not written */
            dirty_put_back(b, &batch);
            bytes -= batch.length;
        }
    }
    assert_int_equal(bytes, b->shard_bytes);
    assert_int_equal(dirty_bytes(b, 1), 0);
    set_units(b, 0, 1, 1); /* one block first, so that no page ends where a batch ends */
    for (uint32_t page = 1; page < 40; page++)
        set_units(b, page * 64, DIRTY_PAGE_AT, 3);
    for (bytes = 0; take(b, 0); bytes += batch.length)
        assert_in_range(batch.length, 1, DIRTY_BATCH_BYTES);
    assert_int_equal(bytes, 64 + 39 * 4096);
    bitmap_free(b);
    free(shards);
}

/* Redis may have bits that memory lacks. Writing the shard's pages would overwrite them. */
static void test_dirty__takes_nothing_of_a_shard_that_is_not_whole(void **state)
{
    (void)state;
    const struct geometry *g = &geometries[0];
    uint8_t *shards = redis_new(g);
    struct bitmap *b = bitmap_of(g, NULL);
    uint32_t shard = 0;
    struct key_place p = {.shard = 0, .bits = {20, 21, 22, 23, 24, 25, 26}};
    bitmap_change(b, 0, BITMAP_LOADING);
    assert_true(bitmap_set(b, &p));
    assert_false(dirty_next(b, &shard));
    assert_false(take(b, 0));
    load_whole(b, 0, shards);
    bitmap_change(b, 0, BITMAP_RESIDENT);
    shard = 0;
    assert_true(dirty_next(b, &shard));
    assert_true(take(b, 0));
    assert_int_equal(batch.length, 64);
    bitmap_free(b);
    free(shards);
}

/* Bits that are set while pages are taken are left for the next fold. So folding comes to an end. */
static void test_dirty_take_from__takes_each_page_once(void **state)
{
    (void)state;
    static const struct geometry large = {.shards = 1, .blocks = 4096, .block_bits = 512, .hashes = 7};
    uint8_t *redis = redis_new(&large);
    struct bitmap *b = bitmap_of(&large, redis);
    uint32_t page = 0;
    unsigned batches = 0;
    dirty_mark_all(b, 0);
    for (uint64_t key = 0; dirty_take_from(b, 0, &page, &batch); key++, batches++) {
        struct key_place p = place_of(&large, key);
        (void)bitmap_set(b, &p);
    }
    assert_int_equal(batches, 4); /* 256 KiB */
    assert_int_equal(page, b->shard_pages);
    assert_true(dirty_bytes(b, 0) > 0);
    for (page = 0, batches = 0; dirty_take_from(b, 0, &page, &batch); batches++)
        ;
    assert_int_equal(batches, 1);
    assert_int_equal(dirty_bytes(b, 0), 0);
    bitmap_free(b);
    free(redis);
}

static void test_bitmap_stayed__until_the_next_change(void **state)
{
    (void)state;
    struct bitmap *b = bitmap_of(&geometries[0], NULL);
    assert_false(bitmap_stayed(b, 0, bitmap_stamp(b, 0)));
    bitmap_change(b, 0, BITMAP_LOADING);
    assert_false(bitmap_stayed(b, 0, bitmap_stamp(b, 0)));
    bitmap_change(b, 0, BITMAP_RESIDENT);
    uint32_t stamp = bitmap_stamp(b, 0);
    assert_true(bitmap_stayed(b, 0, stamp));
    bitmap_change(b, 0, BITMAP_ABSENT);
    assert_false(bitmap_stayed(b, 0, stamp));
    bitmap_change(b, 0, BITMAP_LOADING);
    bitmap_change(b, 0, BITMAP_RESIDENT);
    assert_false(bitmap_stayed(b, 0, stamp));
    bitmap_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bitmap__answers_as_blocks_of_redis_do),
        cmocka_unit_test(test_bitmap_set__sets_what_block_set_sets_and_tells_what_is_new),
        cmocka_unit_test(test_bitmap_look__says_no_only_of_what_is_whole),
        cmocka_unit_test(test_bitmap_look__takes_no_memory_for_shards_that_are_absent),
        cmocka_unit_test(test_bitmap_change__to_absent_leaves_the_neighbours_alone),
        cmocka_unit_test(test_bitmap_or__takes_pieces_in_order_and_refuses_others),
        cmocka_unit_test(test_bitmap__takes_little_beside_the_shards),
        cmocka_unit_test(test_dirty__gives_back_exactly_what_was_set),
        cmocka_unit_test(test_dirty__takes_a_page_where_nine_of_its_blocks_are),
        cmocka_unit_test(test_dirty__takes_nothing_of_a_shard_that_is_not_whole),
        cmocka_unit_test(test_dirty__keeps_a_batch_within_its_bytes_and_leaves_the_rest),
        cmocka_unit_test(test_dirty_take_from__takes_each_page_once),
        cmocka_unit_test(test_bitmap_stayed__until_the_next_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
