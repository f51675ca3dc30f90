/* SPDX-License-Identifier: MIT */
/* Four threads look up keys, one applies entries, one folds, and one unloads and loads shards. A key that was
 * applied before a look-up must not be absent. In the end Redis and memory must be equal. Run this test with
 * TSan, too. */
#include "tests/unit/shard/resident/memory.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include "shard/resident/dirty.h"

static const struct geometry g = {.shards = 6, .blocks = 1500, .block_bits = 512, .hashes = 7};
enum { BATCH = 100, READERS = 4, ENTRY = 20 };

static struct fixture {
    struct budget budget;
    struct resident *r;
    pthread_mutex_t lock; /* protects `redis`: Redis runs one command at a time */
    uint8_t *redis;
    uint64_t keys;
    _Atomic uint64_t applied, failed, loaded, read_directly, walked;
    _Atomic bool ended;
    struct dirty_batch batch;
} f;

/* As a check does for a key that memory does not know. */
static bool read_block(uint64_t key)
{
    struct overlay_read read;
    uint8_t block[64];
    struct key_place p = place_of(&g, key);
    overlay_read_begin(f.r->overlay, &read);
    pthread_mutex_lock(&f.lock);
    memcpy(block, f.redis + (size_t)p.shard * geometry_shard_bytes(&g) + p.block * sizeof(block),
           sizeof(block));
    pthread_mutex_unlock(&f.lock);
    bool counts = overlay_read_end(f.r->overlay, &read, 0, &g, p.shard, p.block, block);
    return counts && block_test(&g, TAG, &p, block, sizeof(block)) == BLOCK_PRESENT;
}

static void *read_keys(void *arg)
{
    uint64_t random = (uintptr_t)arg;
    while (!f.ended) {
        uint64_t keys[BATCH], applied = f.applied;
        struct key_hash hashes[BATCH];
        uint8_t answers[BATCH];
        for (unsigned i = 0; i < BATCH && applied > 0; i++) { /* half of them are among the latest keys */
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            uint64_t range = i % 2 == 0 || applied < BATCH ? applied : BATCH;
            keys[i] = applied - 1 - (random >> 32) % range;
            hashes[i] = hash_of(keys[i]);
        }
        if (applied == 0)
            continue;
        resident_look(f.r, hashes, BATCH, answers);
        for (unsigned i = 0; i < BATCH; i++) {
            if (answers[i] == RESIDENT_UNKNOWN)
                f.read_directly++;
            if (answers[i] == RESIDENT_ABSENT || (answers[i] == RESIDENT_UNKNOWN && !read_block(keys[i])))
                f.failed++;
        }
    }
    return NULL;
}

static void *apply_keys(void *arg)
{
    (void)arg;
    for (uint64_t at = 0; at < f.keys; at += ENTRY) {
        struct key_hash hashes[ENTRY];
        uint8_t added[ENTRY];
        for (unsigned i = 0; i < ENTRY; i++)
            hashes[i] = hash_of(at + i);
        if (resident_apply(f.r, 0, (struct log_id){at + ENTRY, 0}, hashes, ENTRY, added, NULL) != ERR_OK)
            f.failed++;
        f.applied = at + ENTRY;
    }
    f.ended = true;
    return NULL;
}

static void write_batch(const struct dirty_batch *batch)
{
    const uint8_t *from = batch->bytes;
    pthread_mutex_lock(&f.lock);
    for (unsigned i = 0; i < batch->count; i++) {
        memcpy(f.redis + (size_t)batch->shard * geometry_shard_bytes(&g) + batch->piece[i].offset, from,
               batch->piece[i].length);
        from += batch->piece[i].length;
    }
    pthread_mutex_unlock(&f.lock);
}

/* Write the overlay's keys of the shards that were not in memory all the time. */
static void write_keys(const bool *whole, uint64_t from, uint64_t to)
{
    enum { ROOM = 256 };
    struct overlay_met met[ROOM];
    struct overlay_walk walk;
    unsigned n;
    overlay_walk_begin(f.r->overlay, &walk);
    while (overlay_walk_next(f.r->overlay, &walk, &(struct log_id){from, 0}, &(struct log_id){to, 0}, met,
                             ROOM, &n))
        for (unsigned i = 0; i < n; i++) {
            const struct overlay_key *key = &met[i].key;
            struct key_place p;
            if (whole[key->shard])
                continue;
            hash_place(&g, key->hash, &p);
            pthread_mutex_lock(&f.lock);
            (void)block_set(&g, &p, f.redis + (size_t)key->shard * geometry_shard_bytes(&g));
            pthread_mutex_unlock(&f.lock);
            f.walked++;
        }
    overlay_walk_end(f.r->overlay, &walk);
}

/* Note the position and the stamps, then write the dirty pages. Then write the overlay's keys of each shard
 * that was not in memory all the time. Either way, Redis has every key afterwards. */
static void fold(uint64_t *folded)
{
    struct bitmap *b = f.r->layer[0];
    uint64_t to = f.applied;
    uint32_t stamp[8];
    bool whole[8];
    for (uint32_t s = 0; s < g.shards; s++)
        stamp[s] = bitmap_stamp(b, s);
    for (uint32_t shard = 0; dirty_next(b, &shard); shard++)
        for (uint32_t page = 0; dirty_take_from(b, shard, &page, &f.batch);)
            write_batch(&f.batch);
    for (uint32_t s = 0; s < g.shards; s++)
        whole[s] = bitmap_stayed(b, s, stamp[s]);
    write_keys(whole, *folded, to);
    for (; *folded < to; ++*folded) {
        pthread_mutex_lock(&f.lock);
        if (redis_set(&g, f.redis, *folded))
            f.failed++;
        pthread_mutex_unlock(&f.lock);
    }
    overlay_folded(f.r->overlay, &(struct log_id){to, 0});
}

static void *fold_keys(void *arg)
{
    uint64_t folded = 0;
    (void)arg;
    while (!f.ended)
        fold(&folded);
    fold(&folded);
    return NULL;
}

static void load(uint32_t shard)
{
    enum { PIECES = 4 };
    struct bitmap *b = f.r->layer[0];
    uint32_t length = b->shard_bytes / PIECES;
    uint8_t *piece = malloc(length);
    bool failed = piece == NULL || resident_load_begin(f.r, 0, shard, 1, NULL) != ERR_OK;
    for (uint32_t i = 0; i < PIECES && !failed; i++) {
        pthread_mutex_lock(&f.lock);
        memcpy(piece, f.redis + (size_t)shard * b->shard_bytes + (size_t)i * length, length);
        pthread_mutex_unlock(&f.lock);
        failed |= resident_load_piece(f.r, 0, shard, i * length, piece, length, NULL) != ERR_OK;
    }
    if (failed || resident_load_end(f.r, 0, shard, NULL) != ERR_OK)
        f.failed++;
    free(piece);
}

static void *load_shards(void *arg)
{
    (void)arg;
    for (uint32_t shard = 0; !f.ended && shard < g.shards; shard++) {
        sched_yield();
        load(shard);
        f.loaded++;
    }
    return NULL;
}

/* @loading: the shards are loaded while keys are applied; false: before. */
static void run(uint64_t keys, unsigned readers, bool loading)
{
    pthread_t threads[READERS + 3];
    void *(*const others[])(void *) = {apply_keys, fold_keys, load_shards};
    unsigned n = 0;
    memset(&f, 0, sizeof(f));
    pthread_mutex_init(&f.lock, NULL);
    budget_init(&f.budget, 1 << 30);
    assert_int_equal(resident_new(&f.r, MIX, 1, &f.budget, NULL), ERR_OK);
    assert_int_equal(resident_add_layer(f.r, &g, TAG, NULL), ERR_OK);
    f.redis = redis_new(&g);
    if (!loading)
        load_layer(f.r, 0, f.redis);
    f.keys = keys;
    for (; n < readers; n++)
        assert_int_equal(pthread_create(&threads[n], NULL, read_keys, (void *)(uintptr_t)(n + 1)), 0);
    for (unsigned i = 0; i < (loading ? 3 : 2); i++)
        assert_int_equal(pthread_create(&threads[n++], NULL, others[i], NULL), 0);
    while (n-- > 0)
        assert_int_equal(pthread_join(threads[n], NULL), 0);
    print_message("shards loaded %llu, keys read directly %llu, folded from the overlay %llu\n",
                  (unsigned long long)f.loaded, (unsigned long long)f.read_directly,
                  (unsigned long long)f.walked);
    assert_int_equal(f.failed, 0);
    for (uint32_t s = 0; s < g.shards; s++) {
        size_t bytes = geometry_shard_bytes(&g);
        if (bitmap_state(f.r->layer[0], s) >= BITMAP_RESIDENT)
            assert_memory_equal((const uint8_t *)f.r->layer[0]->words + s * bytes, f.redis + s * bytes,
                                bytes);
    }
    for (uint64_t key = 0; key < keys; key++)
        assert_false(redis_set(&g, f.redis, key));
    resident_free(f.r);
    free(f.redis);
    pthread_mutex_destroy(&f.lock);
}

static void test_threads__find_every_key_that_was_applied_before(void **state)
{
    (void)state;
    run(60000, READERS, false);
}

static void test_threads__find_every_key_while_shards_load(void **state)
{
    (void)state;
    unsigned runs = 0;
    do /* all keys may be applied before the first shard is loaded */
        run(60000, READERS, true);
    while (f.loaded == 0 && ++runs < 50);
    assert_true(f.loaded > 0);
}

/* Needs a processor for each of the two threads. The test finds a fold that copies a page before it clears
 * the page's mark. */
static void test_threads__fold_every_key_while_keys_are_applied(void **state)
{
    (void)state;
    run(400000, 0, false);
}

/* --- a piece is copied while bits are set --- */

static struct {
    struct bitmap *b;
    atomic_uint round, ended; /* setter and loader begin a round together; the setter ends it */
    atomic_bool over;
} copy;

static const struct geometry one = {.shards = 1, .blocks = 1024, .block_bits = 512, .hashes = 7};
enum { COPIES = 200, SET_KEYS = 2000 };

static void *set_keys(void *arg)
{
    (void)arg;
    for (unsigned round = 1;; round++) {
        while (atomic_load(&copy.round) < round && !atomic_load(&copy.over))
            sched_yield();
        if (atomic_load(&copy.over))
            return NULL;
        for (uint64_t i = 0; i < SET_KEYS; i++) {
            struct key_place p = place_of(&one, round * SET_KEYS + i);
            (void)bitmap_set(copy.b, &p);
        }
        atomic_store(&copy.ended, round);
    }
}

static unsigned count_lost(unsigned round)
{
    unsigned lost = 0;
    for (uint64_t i = 0; i < SET_KEYS; i++) {
        struct bitmap_aim aim;
        bitmap_aim(copy.b, hash_mix(hash_of(round * SET_KEYS + i), MIX), &aim);
        lost += bitmap_see(copy.b, &aim) != BITMAP_YES;
    }
    return lost;
}

static void test_threads__lose_no_bit_to_a_piece_that_is_copied_meanwhile(void **state)
{
    (void)state;
    pthread_t setter;
    uint8_t *redis = redis_new(&one);
    memset(&copy, 0, sizeof(copy));
    assert_int_equal(bitmap_new(&copy.b, &one, TAG, NULL), ERR_OK);
    assert_int_equal(pthread_create(&setter, NULL, set_keys, NULL), 0);
    unsigned lost = 0;
    for (unsigned round = 1; round <= COPIES; round++) {
        bitmap_change(copy.b, 0, BITMAP_ABSENT);
        atomic_store(&copy.round, round);
        do {
            bitmap_change(copy.b, 0, BITMAP_RELOADING);
            load_whole(copy.b, 0, redis);
        } while (atomic_load(&copy.ended) < round);
        lost += count_lost(round);
    }
    atomic_store(&copy.over, true);
    assert_int_equal(pthread_join(setter, NULL), 0);
    assert_int_equal(lost, 0);
    bitmap_free(copy.b);
    free(redis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads__find_every_key_that_was_applied_before),
        cmocka_unit_test(test_threads__find_every_key_while_shards_load),
        cmocka_unit_test(test_threads__fold_every_key_while_keys_are_applied),
        cmocka_unit_test(test_threads__lose_no_bit_to_a_piece_that_is_copied_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
