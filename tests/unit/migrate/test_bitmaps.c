/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "migrate/build/bitmaps.h"
#include "shard/filter/block.h"

enum { SHARDS = 5, BLOCKS = 6, BYTES = BLOCKS * 128, WORDS = BYTES / 8 };

static const struct geometry geometry = {.shards = SHARDS, .blocks = BLOCKS, .block_bits = 1024, .hashes = 9};

static struct key_hash hash_of(uint64_t key)
{
    return hash_key(5, &key, sizeof(key));
}

static struct bitmaps *made(const struct geometry *g, uint32_t held, unsigned writers)
{
    struct bitmaps *b = NULL;
    struct error e = {""};
    if (bitmaps_new(&b, g, held, writers, &e) != ERR_OK)
        fail_msg("%s", e.text);
    return b;
}

/* Compute the bits that the keys [0, count) set in shard @shard. Returns how many of the keys were new. */
static uint64_t expect(uint32_t shard, uint64_t count, uint8_t out[BYTES])
{
    uint64_t added = 0;
    memset(out, 0, BYTES);
    for (uint64_t key = 0; key < count; key++) {
        struct key_place place;
        hash_place(&geometry, hash_of(key), &place);
        added += place.shard == shard && block_set(&geometry, &place, out);
    }
    return added;
}

static void put_keys(struct bitmaps *b, unsigned writer, uint64_t first, uint64_t count)
{
    static struct bitmaps_writer w;
    bitmaps_writer_init(&w, b, writer);
    for (uint64_t key = first; key < first + count; key++)
        bitmaps_put(&w, hash_of(key));
    bitmaps_apply(&w);
}

static void copy(const struct bitmaps *b, uint32_t shard, void *out, size_t bytes)
{
    memset(out, 0, bytes);
    for (uint32_t at = 0; at < bytes; at += BITMAPS_UNIT)
        (void)bitmaps_or(b, shard, at, (uint8_t *)out + at);
}

static void test_bitmaps__have_the_bits_that_redis_has(void **state)
{
    (void)state;
    uint8_t expected[BYTES];
    uint64_t copied[WORDS];
    for (unsigned writers = 1; writers <= 2; writers++) {
        struct bitmaps *b = made(&geometry, SHARDS, writers);
        put_keys(b, writers - 1, 0, 500);
        for (uint32_t i = 0; i < SHARDS; i++) {
            assert_int_equal(bitmaps_added(b, i), expect(i, 500, expected));
            copy(b, i, copied, BYTES);
            assert_memory_equal(copied, expected, BYTES);
            copy(b, i, copied, BYTES);
            assert_memory_equal(copied, expected, BYTES);
        }
        bitmaps_free(b);
    }
}

/* It says where bits were lacking, and leaves those that were there. */
static void test_bitmaps_or__says_what_lacked_a_bit(void **state)
{
    (void)state;
    struct bitmaps *b = made(&geometry, SHARDS, 2);
    uint8_t expected[BYTES], had[BITMAPS_UNIT];
    put_keys(b, 0, 0, 7);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        (void)expect(shard, 7, expected);
        for (uint32_t at = 0; at < BYTES; at += BITMAPS_UNIT) {
            static const uint8_t nothing[BITMAPS_UNIT];
            memset(had, 0, sizeof(had));
            assert_int_equal(bitmaps_or(b, shard, at, had), memcmp(expected + at, nothing, sizeof(had)) != 0);
            assert_false(bitmaps_or(b, shard, at, had));
            memset(had, 0xff, sizeof(had));
            assert_false(bitmaps_or(b, shard, at, had));
            assert_int_equal(had[0], 0xff);
        }
    }
    bitmaps_free(b);
}

static uint64_t added_in_all(const struct bitmaps *b)
{
    uint64_t added = 0;
    for (uint32_t i = 0; i < SHARDS; i++)
        added += bitmaps_added(b, i);
    return added;
}

static void test_bitmaps_apply__is_what_makes_the_last_keys_count(void **state)
{
    (void)state;
    struct bitmaps *b = made(&geometry, SHARDS, 1);
    struct bitmaps_writer w;
    bitmaps_writer_init(&w, b, 0);
    bitmaps_put(&w, hash_of(1));
    assert_int_equal(added_in_all(b), 0);
    bitmaps_apply(&w);
    assert_int_equal(added_in_all(b), 1);
    bitmaps_put(&w, hash_of(1));
    bitmaps_apply(&w);
    assert_int_equal(added_in_all(b), 1); /* the key was already present */
    bitmaps_free(b);
}

static bool has(const struct bitmaps *b, const struct key_place *place)
{
    uint8_t bytes[BYTES], *block = bytes + (size_t)place->block * geometry.block_bits / 8;
    copy(b, place->shard, bytes, BYTES);
    for (unsigned i = 0; i < geometry.hashes; i++)
        if ((block[place->bits[i] / 8] >> (7 - place->bits[i] % 8) & 1) == 0)
            return false;
    return true;
}

static void test_bitmaps_or__has_what_was_put(void **state)
{
    (void)state;
    struct bitmaps *b = made(&geometry, SHARDS, 1);
    struct key_place place;
    unsigned others = 0;
    put_keys(b, 0, 0, 100);
    for (uint64_t key = 0; key < 300; key++) {
        hash_place(&geometry, hash_of(key), &place);
        if (key < 100)
            assert_true(has(b, &place));
        else
            others += has(b, &place);
    }
    assert_in_range(others, 0, 5);
    bitmaps_free(b);
}

static void test_bitmaps_hold__empties_and_moves_them(void **state)
{
    (void)state;
    uint8_t expected[BYTES], copied[BYTES];
    struct bitmaps *b = made(&geometry, 2, 1);
    struct bitmaps_writer w;
    bitmaps_writer_init(&w, b, 0);
    for (uint32_t first = 0; first < SHARDS; first += 2) {
        uint32_t count = SHARDS - first < 2 ? 1 : 2;
        bitmaps_hold(b, first);
        for (uint64_t key = 0; key < 400; key++) {
            struct key_place place;
            hash_place(&geometry, hash_of(key), &place);
            if (place.shard >= first && place.shard < first + count)
                bitmaps_put(&w, hash_of(key));
        }
        bitmaps_apply(&w);
        for (uint32_t i = first; i < first + count; i++) {
            assert_int_equal(bitmaps_added(b, i), expect(i, 400, expected));
            copy(b, i, copied, BYTES);
            assert_memory_equal(copied, expected, BYTES);
        }
    }
    bitmaps_free(b);
}

/* --- several threads --- */

enum { THREADS = 3, KEYS = 60000 };

struct crowd {
    struct bitmaps *b;
    const struct geometry *g;
    unsigned writers;
    uint64_t seed;
    pthread_barrier_t begin;
    atomic_uint at_work;
};

struct one {
    struct crowd *crowd;
    unsigned index;
};

/* Keys go through the blocks in order. So all threads write to the same block at about the same time, and few
 * of its bits are set by more than one key. */
static struct key_hash sweep(uint64_t seed, uint64_t key)
{
    struct key_hash h = hash_key(seed, &key, sizeof(key));
    h.high = UINT64_MAX / KEYS * key;
    return h;
}

static void *put_share(void *arg)
{
    const struct one *o = arg;
    struct crowd *c = o->crowd;
    struct bitmaps_writer w;
    bitmaps_writer_init(&w, c->b, o->index);
    (void)pthread_barrier_wait(&c->begin);
    for (uint64_t key = o->index; key < KEYS; key += c->writers)
        bitmaps_put(&w, sweep(c->seed, key));
    bitmaps_apply(&w);
    (void)atomic_fetch_sub(&c->at_work, 1);
    return NULL;
}

/* Copy each shard that has new keys, as a flush does, until the writers have finished, and then once more. */
static void copy_all(struct crowd *c, uint64_t *into, size_t words)
{
    uint64_t *bits = calloc(words + c->g->shards, sizeof(*bits));
    assert_non_null(bits);
    uint64_t *seen = bits + words;
    for (bool last = false; !last;) {
        last = atomic_load(&c->at_work) == 0;
        for (uint32_t i = 0; i < c->g->shards; i++) {
            uint64_t added = bitmaps_added(c->b, i);
            if (added == seen[i])
                continue;
            seen[i] = added;
            copy(c->b, i, bits, words * sizeof(*bits));
            memcpy(into + i * words, bits, words * sizeof(*bits));
        }
    }
    free(bits);
}

static void one_round(const struct geometry *g, unsigned writers, uint64_t seed)
{
    struct crowd c = {.b = made(g, g->shards, writers), .g = g, .writers = writers, .seed = seed};
    size_t words = geometry_shard_bytes(g) / 8;
    uint64_t *into = calloc(g->shards * words, sizeof(*into));
    uint64_t *expected = calloc(g->shards * words, sizeof(*expected));
    struct one one[THREADS];
    pthread_t thread[THREADS];
    assert_true(into != NULL && expected != NULL);
    atomic_store(&c.at_work, writers);
    assert_int_equal(pthread_barrier_init(&c.begin, NULL, writers), 0);
    for (unsigned i = 0; i < writers; i++) {
        one[i] = (struct one){&c, i};
        assert_int_equal(pthread_create(&thread[i], NULL, put_share, &one[i]), 0);
    }
    copy_all(&c, into, words);
    for (unsigned i = 0; i < writers; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (uint64_t key = 0; key < KEYS; key++) {
        struct key_place place;
        hash_place(g, sweep(seed, key), &place);
        (void)block_set(g, &place, (uint8_t *)(expected + place.shard * words));
    }
    for (size_t i = 0; i < g->shards * words; i++)
        if (into[i] != expected[i])
            fail_msg("bits are lost");
    (void)pthread_barrier_destroy(&c.begin);
    free(expected);
    free(into);
    bitmaps_free(c.b);
}

static void no_bit_is_lost(struct geometry g, unsigned writers, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++)
        one_round(&g, writers, i);
}

/* One writer, whose keys another one puts at the same time, flushes behind each of its keys: that key must be
 * in what was copied, whoever has set its bits. */
static void flushes_what_it_has_put(const struct geometry *g, uint64_t seed)
{
    struct crowd c = {.b = made(g, g->shards, 2), .g = g, .writers = 1, .seed = seed};
    size_t words = geometry_shard_bytes(g) / 8;
    uint64_t *into = calloc(g->shards * words, sizeof(*into)), *seen = calloc(g->shards, sizeof(*seen));
    struct bitmaps_writer w;
    struct one other = {&c, 0};
    pthread_t thread;
    assert_non_null(into);
    assert_non_null(seen);
    assert_int_equal(pthread_barrier_init(&c.begin, NULL, 2), 0);
    assert_int_equal(pthread_create(&thread, NULL, put_share, &other), 0);
    bitmaps_writer_init(&w, c.b, 1);
    (void)pthread_barrier_wait(&c.begin);
    uint64_t lost = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        struct key_place place;
        hash_place(g, sweep(seed, key), &place);
        bitmaps_put(&w, sweep(seed, key));
        bitmaps_apply(&w);
        uint64_t added = bitmaps_added(c.b, place.shard), *copied = into + place.shard * words;
        if (added != seen[place.shard])
            copy(c.b, place.shard, copied, words * sizeof(*copied));
        seen[place.shard] = added;
        lost += block_set(g, &place, (uint8_t *)copied);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(lost, 0);
    (void)pthread_barrier_destroy(&c.begin);
    free(seen);
    free(into);
    bitmaps_free(c.b);
}

static void test_bitmaps_added__counts_what_was_found_there(void **state)
{
    (void)state;
    const struct geometry g = {.shards = 30, .blocks = 40, .block_bits = 1024, .hashes = 6};
    for (uint64_t round = 0; round < 20; round++)
        flushes_what_it_has_put(&g, round);
}

static void test_bitmaps_or__loses_no_bit_of_one_writer(void **state)
{
    (void)state;
    no_bit_is_lost((struct geometry){.shards = 3, .blocks = 400, .block_bits = 1024, .hashes = 6}, 1, 20);
}

static void test_bitmaps_or__loses_no_bit_of_several_writers(void **state)
{
    (void)state;
    no_bit_is_lost((struct geometry){.shards = 3, .blocks = 400, .block_bits = 1024, .hashes = 6}, 2, 10);
    no_bit_is_lost((struct geometry){.shards = 3, .blocks = 400, .block_bits = 1024, .hashes = 6}, THREADS,
                   10);
}

/* With so many shards, all writers share one count per shard. */
static void test_bitmaps_or__loses_no_bit_of_very_many_shards(void **state)
{
    (void)state;
    no_bit_is_lost((struct geometry){.shards = 200000, .blocks = 1, .block_bits = 512, .hashes = 6}, THREADS,
                   1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bitmaps__have_the_bits_that_redis_has),
        cmocka_unit_test(test_bitmaps_or__says_what_lacked_a_bit),
        cmocka_unit_test(test_bitmaps_apply__is_what_makes_the_last_keys_count),
        cmocka_unit_test(test_bitmaps_or__has_what_was_put),
        cmocka_unit_test(test_bitmaps_hold__empties_and_moves_them),
        cmocka_unit_test(test_bitmaps_added__counts_what_was_found_there),
        cmocka_unit_test(test_bitmaps_or__loses_no_bit_of_one_writer),
        cmocka_unit_test(test_bitmaps_or__loses_no_bit_of_several_writers),
        cmocka_unit_test(test_bitmaps_or__loses_no_bit_of_very_many_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
