/* SPDX-License-Identifier: MIT */
/* Two appliers, one per lane, pin and read the blocks of their keys as adds do. Three threads check keys, one
 * folds, and one loads and unloads shards and changes the view. A key that was applied before a request must
 * not be absent. If a key is added twice, only the first one may be new. Run this test with TSan, too. */
#include "tests/unit/shard/resident/memory.h"

#include <pthread.h>
#include <stdatomic.h>

static const struct geometry g = {.shards = 5, .blocks = 400, .block_bits = 512, .hashes = 7};
enum { BLOCK = 64, BATCH = 16, ENTRY = 8, LANES = 2, READERS = 3, FEW = 6000, MANY = 24000 };

static struct fixture {
    struct budget budget;
    struct resident *r;
    pthread_mutex_t lock; /* protects `redis`: Redis runs one command at a time */
    uint8_t *redis;
    uint64_t keys_per_lane;
    _Atomic uint64_t applied[LANES]; /* number of applied keys of each lane */
    _Atomic unsigned appliers;
    _Atomic uint64_t failed, answered, unknown, loaded, not_new, unsure;
} f;

/* Keys of lane 0 are even. */
static uint64_t key_of(unsigned lane, uint64_t i)
{
    return 2 * i + lane;
}

/* --- a request: the blocks of some keys --- */

struct request {
    uint32_t view;
    unsigned count, pinned;
    struct block_at at[BATCH];
    struct overlay_read read[BATCH];
    bool is_pinned[BATCH];
};

static void read_block(const struct block_at *at, uint8_t *out)
{
    pthread_mutex_lock(&f.lock);
    memcpy(out, f.redis + (size_t)at->shard * geometry_shard_bytes(&g) + (size_t)at->block * BLOCK, BLOCK);
    pthread_mutex_unlock(&f.lock);
}

/* False: the view has changed. The caller must call unpin() in any case. */
static bool pin_and_read(struct request *q, const uint64_t *keys, unsigned count)
{
    bool counts = true;
    *q = (struct request){.view = resident_view(f.r), .count = count};
    for (unsigned i = 0; i < count && counts; i++) {
        struct key_place p = place_of(&g, keys[i]);
        enum resident_pin needs;
        uint8_t bytes[BLOCK];
        q->at[i] = (struct block_at){.shard = p.shard, .block = p.block};
        counts = resident_pin(f.r, q->view, &q->at[i], &q->read[i], &needs, NULL) == ERR_OK;
        q->is_pinned[i] = counts && needs != PIN_NEEDLESS;
        q->pinned += q->is_pinned[i];
        if (!counts || needs != PIN_ASK)
            continue;
        read_block(&q->at[i], bytes);
        counts = resident_take_block(f.r, &q->at[i], &q->read[i], bytes);
    }
    return counts;
}

static void unpin(struct request *q)
{
    for (unsigned i = 0; i < q->count; i++)
        if (q->is_pinned[i])
            resident_unpin(f.r, &q->at[i]);
}

/* --- threads --- */

static void *check_keys(void *arg)
{
    uint64_t random = (uintptr_t)arg;
    while (f.appliers > 0) {
        struct request q;
        struct key_hash hashes[BATCH];
        uint8_t answers[BATCH];
        uint64_t keys[BATCH], applied[LANES] = {f.applied[0], f.applied[1]};
        bool must[BATCH];
        for (unsigned i = 0; i < BATCH; i++) { /* the latest keys, and keys that are not applied yet */
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            unsigned lane = i % LANES;
            uint64_t n = applied[lane] + (random >> 32) % 64;
            n = n < 48 ? n : n - 48;
            keys[i] = key_of(lane, n);
            must[i] = n < applied[lane];
            hashes[i] = hash_of(keys[i]);
        }
        if (pin_and_read(&q, keys, BATCH)) {
            resident_look(f.r, hashes, BATCH, answers);
            for (unsigned i = 0; i < BATCH; i++) {
                f.failed += must[i] && answers[i] == RESIDENT_ABSENT;
                f.unknown += answers[i] == RESIDENT_UNKNOWN;
                f.answered += q.is_pinned[i] && answers[i] != RESIDENT_UNKNOWN;
            }
        }
        unpin(&q);
    }
    return NULL;
}

/* Add each key twice. The second one must not be new. */
static void add(unsigned lane, uint64_t first, uint64_t id)
{
    struct request q;
    struct key_hash hashes[2 * ENTRY];
    uint64_t keys[ENTRY];
    uint8_t added[2 * ENTRY];
    for (unsigned i = 0; i < ENTRY; i++) {
        keys[i] = key_of(lane, first + i);
        hashes[i] = hashes[ENTRY + i] = hash_of(keys[i]);
    }
    bool counts = pin_and_read(&q, keys, ENTRY);
    f.failed += resident_apply(f.r, lane, (struct log_id){id, 0}, hashes, 2 * ENTRY, added, NULL) != ERR_OK;
    bool exact = counts && q.pinned == ENTRY; /* even if the view changes meanwhile */
    for (unsigned i = 0; i < ENTRY; i++) {
        f.failed += added[ENTRY + i] == RESIDENT_NEW;
        f.failed += exact && (added[i] == RESIDENT_UNSURE || added[ENTRY + i] != RESIDENT_OLD);
        f.not_new += added[i] == RESIDENT_OLD;
        f.unsure += added[i] == RESIDENT_UNSURE;
    }
    unpin(&q);
}

static void *apply_keys(void *arg)
{
    unsigned lane = (unsigned)(uintptr_t)arg;
    for (uint64_t at = 0; at < f.keys_per_lane; at += ENTRY) {
        add(lane, at, at + ENTRY);
        f.applied[lane] = at + ENTRY;
    }
    f.appliers--;
    return NULL;
}

static void *fold_keys(void *arg)
{
    uint64_t folded[LANES] = {0};
    (void)arg;
    while (f.appliers > 0) {
        for (unsigned lane = 0; lane < LANES; lane++)
            for (uint64_t to = f.applied[lane]; folded[lane] < to; folded[lane]++) {
                pthread_mutex_lock(&f.lock);
                (void)redis_set(&g, f.redis, key_of(lane, folded[lane]));
                pthread_mutex_unlock(&f.lock);
            }
        overlay_folded(f.r->overlay, (const struct log_id[]){{folded[0], 0}, {folded[1], 0}});
        sched_yield();
    }
    return NULL;
}

static void load(uint32_t shard)
{
    uint32_t length = geometry_shard_bytes(&g);
    uint8_t *bytes = malloc(length);
    bool failed = bytes == NULL || resident_load_begin(f.r, 0, shard, 1, NULL) != ERR_OK;
    if (!failed) {
        pthread_mutex_lock(&f.lock);
        memcpy(bytes, f.redis + (size_t)shard * length, length);
        pthread_mutex_unlock(&f.lock);
        failed = resident_load_piece(f.r, 0, shard, 0, bytes, length, NULL) != ERR_OK;
    }
    f.failed += failed || resident_load_end(f.r, 0, shard, NULL) != ERR_OK;
    free(bytes);
}

static void *load_shards(void *arg)
{
    (void)arg;
    for (uint32_t shard = 0; f.appliers > 0 && shard < g.shards; shard++) {
        load(shard);
        sched_yield();
        f.loaded++;
        if (shard == 0)
            resident_discard(f.r);
    }
    return NULL;
}

static void init(void)
{
    memset(&f, 0, sizeof(f));
    pthread_mutex_init(&f.lock, NULL);
    budget_init(&f.budget, 1 << 30);
    assert_int_equal(resident_new(&f.r, MIX, LANES, &f.budget, NULL), ERR_OK);
    assert_int_equal(resident_add_layer(f.r, &g, TAG, NULL), ERR_OK);
    f.redis = redis_new(&g);
}

static void fini(void)
{
    assert_int_equal(f.failed, 0);
    assert_int_equal(f.budget.pinned, 0);
    resident_free(f.r);
    free(f.redis);
    pthread_mutex_destroy(&f.lock);
}

static void run(bool loading)
{
    pthread_t threads[READERS + LANES + 2];
    unsigned n = 0;
    init();
    f.appliers = LANES;
    f.keys_per_lane = loading ? MANY : FEW;
    for (unsigned lane = 0; lane < LANES; lane++)
        assert_int_equal(pthread_create(&threads[n++], NULL, apply_keys, (void *)(uintptr_t)lane), 0);
    for (unsigned i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[n++], NULL, check_keys, (void *)(uintptr_t)(i + 1)), 0);
    assert_int_equal(pthread_create(&threads[n++], NULL, fold_keys, NULL), 0);
    if (loading)
        assert_int_equal(pthread_create(&threads[n++], NULL, load_shards, NULL), 0);
    while (n-- > 0)
        assert_int_equal(pthread_join(threads[n], NULL), 0);
    print_message(
        "answered by blocks %llu, unknown %llu, shards loaded %llu, unsure %llu, old at first %llu\n",
        (unsigned long long)f.answered, (unsigned long long)f.unknown, (unsigned long long)f.loaded,
        (unsigned long long)f.unsure, (unsigned long long)f.not_new);
    assert_true(f.answered > 0);
    fini();
}

/* --- one request at a time: nothing else is pinned --- */

static void *apply_one_by_one(void *arg)
{
    (void)arg;
    for (uint64_t key = 0; key < MANY; key++) {
        (void)apply_one_key(f.r, 0, key + 1, key);
        f.applied[0] = key + 1;
    }
    f.appliers--;
    return NULL;
}

static void *rebase(void *arg)
{
    (void)arg;
    while (f.appliers > 0) {
        resident_rebase(f.r);
        sched_yield();
    }
    return NULL;
}

/* An entry that is applied while its block is read must be in the block, either from the overlay or because
 * it was applied after the pin. */
static void test_threads__meet_the_entry_that_is_applied_while_its_block_is_pinned(void **state)
{
    (void)state;
    pthread_t thread;
    init();
    f.appliers = 1;
    assert_int_equal(pthread_create(&thread, NULL, apply_one_by_one, NULL), 0);
    while (f.appliers > 0) {
        struct request q;
        uint64_t key = f.applied[0];
        assert_true(pin_and_read(&q, &key, 1));
        while (f.applied[0] <= key && f.appliers > 0)
            sched_yield();
        f.answered += f.applied[0] > key;
        f.failed += f.applied[0] > key && look_one_key(f.r, key) != RESIDENT_PRESENT;
        unpin(&q);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(f.answered > 0);
    fini();
}

static void test_threads__never_answer_by_a_block_of_the_base_before(void **state)
{
    (void)state;
    pthread_t thread;
    unsigned counted = 0;
    init();
    f.appliers = 1;
    assert_int_equal(pthread_create(&thread, NULL, rebase, NULL), 0);
    for (uint64_t key = 0; key < MANY; key++) {
        struct request q;
        bool counts = pin_and_read(&q, &key, 1);
        uint32_t after = resident_view(f.r);
        bool answers = look_one_key(f.r, key) == RESIDENT_ABSENT;
        f.failed += answers && (!counts || after != q.view);
        counted += answers;
        unpin(&q);
    }
    f.appliers = 0;
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(counted > 0);
    fini();
}

static void test_threads__find_every_key_by_blocks_alone(void **state)
{
    (void)state;
    run(false);
    assert_int_equal(f.unknown, 0);
    assert_int_equal(f.unsure, 0);
    assert_in_range(f.not_new, 0, LANES * FEW / 50); /* false positives */
}

static void test_threads__find_every_key_while_shards_load(void **state)
{
    (void)state;
    unsigned runs = 0;
    do
        run(true);
    while (f.loaded == 0 && ++runs < 50);
    assert_true(f.loaded > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads__meet_the_entry_that_is_applied_while_its_block_is_pinned),
        cmocka_unit_test(test_threads__never_answer_by_a_block_of_the_base_before),
        cmocka_unit_test(test_threads__find_every_key_by_blocks_alone),
        cmocka_unit_test(test_threads__find_every_key_while_shards_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
