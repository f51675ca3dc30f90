/* SPDX-License-Identifier: MIT */
#include "tests/unit/shard/resident/memory.h"
#include "shard/resident/dirty.h"

static const struct geometry g = {.shards = 4, .blocks = 300, .block_bits = 1024, .hashes = 9};
enum { KEYS = 1500 };

struct fixture {
    struct budget budget;
    struct resident *r;
    uint8_t *redis;
};

static void init(struct fixture *f, unsigned lanes)
{
    budget_init(&f->budget, 1 << 30);
    assert_int_equal(resident_new(&f->r, MIX, lanes, &f->budget, NULL), ERR_OK);
    assert_int_equal(resident_add_layer(f->r, &g, TAG, NULL), ERR_OK);
    f->redis = redis_new(&g);
}

static void fini(struct fixture *f)
{
    resident_free(f->r);
    assert_int_equal(f->budget.used, 0);
    free(f->redis);
}

static void fold(struct fixture *f, uint64_t id)
{
    overlay_folded(f->r->overlay, &(struct log_id){id, 0});
}

/* Read the block of @key from Redis, as a check does. */
static bool read_one_key(struct fixture *f, uint64_t key)
{
    struct overlay_read read;
    uint8_t block[128];
    struct key_place p = place_of(&g, key);
    overlay_read_begin(f->r->overlay, &read);
    memcpy(block, f->redis + (size_t)p.shard * geometry_shard_bytes(&g) + p.block * sizeof(block),
           sizeof(block));
    assert_true(overlay_read_end(f->r->overlay, &read, 0, &g, p.shard, p.block, block));
    return block_test(&g, TAG, &p, block, sizeof(block)) == BLOCK_PRESENT;
}

static void test_resident__answers_and_tells_new_keys_in_log_order(void **state)
{
    (void)state;
    struct fixture f;
    struct key_hash hashes[KEYS];
    uint8_t answers[KEYS];
    init(&f, 1);
    load_layer(f.r, 0, f.redis);
    for (uint64_t key = 0; key < KEYS; key++)
        hashes[key] = hash_of(key);
    for (uint64_t at = 0; at < KEYS / 2; at += 125) {
        uint8_t added[125];
        assert_int_equal(resident_apply(f.r, 0, (struct log_id){at, 1}, hashes + at, 125, added, NULL),
                         ERR_OK);
        for (uint64_t i = 0; i < 125; i++) /* a key whose bits others have set is not new */
            assert_int_equal(added[i], redis_set(&g, f.redis, at + i) ? RESIDENT_NEW : RESIDENT_OLD);
    }
    struct key_hash twice[2] = {hash_of(5000), hash_of(5000)};
    uint8_t added[2];
    assert_int_equal(resident_apply(f.r, 0, (struct log_id){9999, 1}, twice, 2, added, NULL), ERR_OK);
    assert_true(added[0] == RESIDENT_NEW && added[1] == RESIDENT_OLD);
    resident_look(f.r, hashes, KEYS, answers);
    unsigned found = 0;
    for (unsigned i = 0; i < KEYS; i++) {
        found += answers[i] == RESIDENT_PRESENT;
        assert_true(answers[i] == RESIDENT_PRESENT || (i >= KEYS / 2 && answers[i] == RESIDENT_ABSENT));
    }
    assert_in_range(found, KEYS / 2, KEYS / 2 + 10);
    resident_look(f.r, hashes, 0, answers);
    fini(&f);
}

static void test_resident_changes__tells_of_entries_layers_and_a_rebase(void **state)
{
    (void)state;
    struct fixture f;
    struct key_hash hash = hash_of(1);
    uint8_t added, answer;
    init(&f, 1);
    load_layer(f.r, 0, f.redis);
    uint64_t before = resident_changes(f.r);
    resident_look(f.r, &hash, 1, &answer);
    assert_int_equal(resident_changes(f.r), before);
    assert_int_equal(resident_apply(f.r, 0, (struct log_id){1, 1}, &hash, 1, &added, NULL), ERR_OK);
    assert_int_not_equal(resident_changes(f.r), before);
    before = resident_changes(f.r);
    resident_rebase(f.r);
    assert_int_not_equal(resident_changes(f.r), before);
    before = resident_changes(f.r);
    assert_int_equal(resident_add_layer(f.r, &g, TAG, NULL), ERR_OK);
    assert_int_not_equal(resident_changes(f.r), before);
    fini(&f);
}

static void test_resident_look__without_a_layer_or_a_shard_knows_nothing(void **state)
{
    (void)state;
    struct fixture f;
    struct resident *empty = NULL;
    init(&f, 1);
    assert_int_equal(resident_new(&empty, MIX, 1, &f.budget, NULL), ERR_OK);
    assert_int_equal(look_one_key(empty, 1), RESIDENT_UNKNOWN);
    assert_int_equal(look_one_key(f.r, 1), RESIDENT_UNKNOWN);
    resident_free(empty);
    fini(&f);
}

/* --- layers --- */

static void test_resident__looks_in_all_layers_and_writes_into_the_newest(void **state)
{
    (void)state;
    struct fixture f;
    const struct geometry second = {.shards = 2, .blocks = 100, .block_bits = 512, .hashes = 5};
    init(&f, 1);
    uint8_t *newer = redis_new(&second);
    load_layer(f.r, 0, f.redis);
    assert_int_equal(apply_one_key(f.r, 0, 1, 1), RESIDENT_NEW);
    assert_int_equal(resident_add_layer(f.r, &second, TAG, NULL), ERR_OK);
    assert_int_equal(look_one_key(f.r, 2), RESIDENT_UNKNOWN);
    assert_int_equal(look_one_key(f.r, 1), RESIDENT_PRESENT);
    assert_int_equal(resident_begin_layer(f.r, 0, (struct log_id){1, 1}, 1, NULL), ERR_OK);
    assert_int_equal(apply_one_key(f.r, 0, 2, 2), RESIDENT_UNSURE);
    load_layer(f.r, 1, newer); /* the layer gets the earlier entry from the overlay */
    assert_int_equal(look_one_key(f.r, 2), RESIDENT_PRESENT);
    /* The first layer had the key; now both have it. */
    assert_int_equal(apply_one_key(f.r, 0, 3, 1), RESIDENT_OLD);
    assert_int_equal(apply_one_key(f.r, 0, 4, 3), RESIDENT_NEW);
    uint8_t *was = redis_new(&g);
    (void)redis_set(&g, was, 1);
    assert_memory_equal((const void *)f.r->layer[0]->words, was, geometry_bytes(&g));
    assert_int_equal(look_one_key(f.r, 3), RESIDENT_PRESENT);
    assert_int_equal(look_one_key(f.r, 4), RESIDENT_ABSENT);
    for (uint64_t key = 1; key <= 3; key++)
        (void)redis_set(&second, newer, key);
    assert_memory_equal((const void *)f.r->layer[1]->words, newer, geometry_bytes(&second));
    free(was);
    free(newer);
    fini(&f);
}

/* The layer in which a key is set depends on the key's position in its lane. */
static void test_resident_begin_layer__in_one_lane(void **state)
{
    (void)state;
    struct fixture f;
    struct error e = {""};
    const struct geometry second = {.shards = 2, .blocks = 100, .block_bits = 512, .hashes = 5};
    init(&f, 2);
    uint8_t *older = redis_new(&g), *newer = redis_new(&second);
    load_layer(f.r, 0, f.redis);
    assert_int_equal(apply_one_key(f.r, 0, 1, 1), RESIDENT_NEW);
    assert_int_equal(resident_begin_layer(f.r, 0, (struct log_id){2, 0}, 1, &e), ERR_FENCED);
    assert_int_equal(f.r->applied[0].ms, 1);
    assert_int_equal(resident_add_layer(f.r, &second, TAG, NULL), ERR_OK);
    load_layer(f.r, 1, newer);
    assert_int_equal(apply_one_key(f.r, 1, 1, 2), RESIDENT_NEW);
    assert_int_equal(resident_begin_layer(f.r, 0, (struct log_id){2, 0}, 1, &e), ERR_OK);
    assert_int_equal(f.r->applied[0].ms, 2);
    /* Another process has begun the same layer. */
    assert_int_equal(resident_begin_layer(f.r, 0, (struct log_id){3, 0}, 1, &e), ERR_OK);
    assert_int_equal(apply_one_key(f.r, 0, 4, 3), RESIDENT_NEW);
    assert_int_equal(apply_one_key(f.r, 1, 4, 4), RESIDENT_NEW); /* the layer has not begun there */
    assert_int_equal(resident_keys(f.r), 4);
    for (uint64_t key = 1; key <= 4; key++)
        (void)(key == 3 ? redis_set(&second, newer, key) : redis_set(&g, older, key));
    assert_memory_equal((const void *)f.r->layer[0]->words, older, geometry_bytes(&g));
    assert_memory_equal((const void *)f.r->layer[1]->words, newer, geometry_bytes(&second));
    resident_begin(f.r, 1, (struct log_id){9, 0}, 2); /* as read from a view */
    assert_int_equal(apply_one_key(f.r, 1, 10, 5), RESIDENT_NEW);
    (void)redis_set(&second, newer, 5);
    assert_memory_equal((const void *)f.r->layer[1]->words, newer, geometry_bytes(&second));
    free(older);
    free(newer);
    fini(&f);
}

/* --- load --- */

/* Entries are applied before, between and after the pieces. A piece has the entries that were folded before
 * it was read. */
static void test_resident_load__has_every_entry_whenever_it_came(void **state)
{
    (void)state;
    struct fixture f;
    struct error e = {""};
    init(&f, 1);
    struct bitmap *b = f.r->layer[0];
    for (uint64_t key = 1; key <= 100; key++) /* folded before everything else */
        (void)redis_set(&g, f.redis, key);
    for (uint64_t key = 101; key <= 200; key++)
        assert_int_equal(apply_one_key(f.r, 0, key, key), RESIDENT_UNSURE);
    for (uint64_t key = 101; key <= 150; key++) /* folded, and `folded` is known */
        (void)redis_set(&g, f.redis, key);
    fold(&f, 150);
    assert_int_equal(resident_load_begin(f.r, 0, 0, g.shards, &e), ERR_OK);
    assert_int_equal(resident_load_begin(f.r, 0, 0, 1, &e), ERR_CONFLICT);
    uint32_t half = b->shard_bytes / 256 * 128;
    for (uint32_t s = 0; s < g.shards; s++)
        assert_int_equal(resident_load_piece(f.r, 0, s, 0, f.redis + (size_t)s * b->shard_bytes, half, &e),
                         ERR_OK);
    /* These keys are folded after the first halves were read. The overlay drops them. */
    for (uint64_t key = 151; key <= 200; key++)
        (void)redis_set(&g, f.redis, key);
    fold(&f, 200);
    for (uint64_t key = 201; key <= 300; key++)
        assert_int_equal(apply_one_key(f.r, 0, key, key), RESIDENT_UNSURE);
    assert_int_equal(resident_load_end(f.r, 0, 0, &e), ERR_CONFLICT);
    for (uint32_t s = 0; s < g.shards; s++) {
        assert_int_equal(resident_load_piece(f.r, 0, s, half, f.redis + (size_t)s * b->shard_bytes + half,
                                             b->shard_bytes - half, &e),
                         ERR_OK);
        assert_int_equal(resident_load_end(f.r, 0, s, &e), ERR_OK);
    }
    for (uint64_t key = 1; key <= 300; key++)
        assert_int_equal(look_one_key(f.r, key), RESIDENT_PRESENT);
    assert_int_equal(look_one_key(f.r, 7777), RESIDENT_ABSENT);
    fini(&f);
}

static void test_resident_load_cancel__loses_no_entry(void **state)
{
    (void)state;
    struct fixture f;
    init(&f, 1);
    assert_int_equal(apply_one_key(f.r, 0, 1, 1), RESIDENT_UNSURE);
    assert_int_equal(resident_load_begin(f.r, 0, 0, g.shards, NULL), ERR_OK);
    assert_int_equal(apply_one_key(f.r, 0, 2, 2), RESIDENT_UNSURE);
    for (uint32_t s = 0; s < g.shards; s++)
        resident_load_cancel(f.r, 0, s);
    assert_int_equal(f.budget.used, 0);
    assert_true(read_one_key(&f, 1) && read_one_key(&f, 2));
    assert_false(read_one_key(&f, 3));
    load_layer(f.r, 0, f.redis);
    assert_int_equal(look_one_key(f.r, 1), RESIDENT_PRESENT);
    assert_int_equal(look_one_key(f.r, 2), RESIDENT_PRESENT);
    fini(&f);
}

/* The lanes are read again from an earlier position. The log may lack entries that memory has. */
static void test_resident_rebase__keeps_what_is_set_and_is_loaded_again(void **state)
{
    (void)state;
    struct fixture f;
    struct overlay_read read;
    init(&f, 1);
    load_layer(f.r, 0, f.redis);
    assert_int_equal(apply_one_key(f.r, 0, 7, 1), RESIDENT_NEW);
    fold(&f, 7); /* the next entry has a smaller id */
    uint64_t used = f.budget.used;
    uint32_t view = resident_view(f.r);
    overlay_read_begin(f.r->overlay, &read);
    resident_rebase(f.r);
    assert_int_not_equal(resident_view(f.r), view);
    assert_false(read.counts);
    assert_int_equal(f.budget.used, used);
    assert_int_equal(look_one_key(f.r, 1), RESIDENT_PRESENT);
    assert_int_equal(look_one_key(f.r, 2), RESIDENT_UNKNOWN);
    assert_int_equal(apply_one_key(f.r, 0, 3, 3), RESIDENT_UNSURE);
    assert_true(read_one_key(&f, 3)); /* the key does not count as folded */
    assert_false(read_one_key(&f, 1));
    (void)redis_set(&g, f.redis, 4);
    load_layer(f.r, 0, f.redis);
    assert_int_equal(f.budget.used, used);
    for (uint64_t key = 1; key <= 4; key++)
        assert_int_equal(look_one_key(f.r, key), key == 2 ? RESIDENT_ABSENT : RESIDENT_PRESENT);
    assert_int_equal(apply_one_key(f.r, 0, 4, 2), RESIDENT_NEW);
    fini(&f);
}

static void test_resident__keeps_within_its_memory(void **state)
{
    (void)state;
    struct fixture f;
    struct error e = {""};
    init(&f, 1);
    f.budget.limit = 2 * geometry_shard_bytes(&g) + 1;
    assert_int_equal(resident_load_begin(f.r, 0, 0, 3, &e), ERR_NOMEM);
    assert_string_equal(e.text, "resident_memory has no room for 3 shards of 38400 bytes");
    assert_int_equal(resident_load_begin(f.r, 0, 2, 2, &e), ERR_OK);
    assert_int_equal(resident_load_begin(f.r, 0, 0, 1, &e), ERR_NOMEM);
    f.budget.limit = 0;
    resident_load_cancel(f.r, 0, 2);
    assert_int_equal(resident_load_begin(f.r, 0, 2, 1, &e), ERR_NOMEM);
    fini(&f);
}

static void test_resident_status__counts_shards_and_bytes(void **state)
{
    (void)state;
    struct fixture f;
    struct resident_status s;
    init(&f, 1);
    uint64_t bytes = geometry_shard_bytes(&g);
    assert_int_equal(resident_load_begin(f.r, 0, 0, 3, NULL), ERR_OK);
    for (uint32_t i = 0; i < 2; i++) {
        load_whole(f.r->layer[0], i, f.redis);
        assert_int_equal(resident_load_end(f.r, 0, i, NULL), ERR_OK);
    }
    dirty_mark_all(f.r->layer[0], 1);
    uint64_t key = 0;
    while (place_of(&g, key).shard != 3)
        key++;
    assert_int_equal(apply_one_key(f.r, 0, 1, key), RESIDENT_UNSURE);
    resident_status(f.r, &s);
    assert_true(s.shards == 4 && s.resident == 2 && s.loading == 1 && s.dirty == 1);
    assert_true(s.shard_bytes == 4 * bytes && s.resident_bytes == 2 * bytes && s.loading_bytes == bytes);
    assert_true(s.dirty_bytes == bytes && s.overlay_keys == 1 && s.overlay_bytes > 0 && s.overhead_bytes > 0);
    fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resident__answers_and_tells_new_keys_in_log_order),
        cmocka_unit_test(test_resident_changes__tells_of_entries_layers_and_a_rebase),
        cmocka_unit_test(test_resident_look__without_a_layer_or_a_shard_knows_nothing),
        cmocka_unit_test(test_resident__looks_in_all_layers_and_writes_into_the_newest),
        cmocka_unit_test(test_resident_load__has_every_entry_whenever_it_came),
        cmocka_unit_test(test_resident_load_cancel__loses_no_entry),
        cmocka_unit_test(test_resident_begin_layer__in_one_lane),
        cmocka_unit_test(test_resident_rebase__keeps_what_is_set_and_is_loaded_again),
        cmocka_unit_test(test_resident__keeps_within_its_memory),
        cmocka_unit_test(test_resident_status__counts_shards_and_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
