/* SPDX-License-Identifier: MIT */
/* Pinned blocks of shards that are not in memory answer requests, and tell which keys are new, as shards in
 * memory do. */
#include "tests/unit/shard/resident/memory.h"

enum { KEYS = 1500, ENTRY = 25, BLOCK = 128 };
static const struct geometry g = {.shards = 4, .blocks = 60, .block_bits = 1024, .hashes = 9};
static const struct geometry second = {.shards = 3, .blocks = 50, .block_bits = 512, .hashes = 5};

struct fixture {
    struct budget budget;
    struct resident *r;
    uint8_t *redis;
};

static void init(struct fixture *f, unsigned lanes)
{
    budget_init(&f->budget, 1 << 20);
    assert_int_equal(resident_new(&f->r, MIX, lanes, &f->budget, NULL), ERR_OK);
    assert_int_equal(resident_add_layer(f->r, &g, TAG, NULL), ERR_OK);
    f->redis = redis_new(&g);
}

static void fini(struct fixture *f)
{
    assert_int_equal(f->budget.pinned, 0);
    resident_free(f->r);
    assert_int_equal(f->budget.used, 0);
    free(f->redis);
}

static void fold(struct fixture *f, uint64_t id)
{
    overlay_folded(f->r->overlay, &(struct log_id){id, 0});
}

static uint64_t overlay_keys(const struct fixture *f)
{
    struct resident_status s;
    resident_status(f->r, &s);
    return s.overlay_keys;
}

/* --- a request of one key, in the first layer --- */

struct request {
    struct fixture *f;
    struct block_at at;
    enum resident_pin pin;
    struct overlay_read read;
    uint8_t answer[BLOCK];
};

static struct block_at block_of(uint64_t key)
{
    struct key_place p = place_of(&g, key);
    return (struct block_at){.shard = p.shard, .block = p.block};
}

static void pins(struct request *q, struct fixture *f, uint64_t key, enum resident_pin needs)
{
    *q = (struct request){.f = f, .at = block_of(key)};
    assert_int_equal(resident_pin(f->r, resident_view(f->r), &q->at, &q->read, &q->pin, NULL), ERR_OK);
    assert_int_equal(q->pin, needs);
}

/* Redis executes GETRANGE. */
static void redis_answers(struct request *q)
{
    memcpy(q->answer,
           q->f->redis + (size_t)q->at.shard * geometry_shard_bytes(&g) + (size_t)q->at.block * BLOCK, BLOCK);
}

static void takes(struct request *q)
{
    assert_true(resident_take_block(q->f->r, &q->at, &q->read, q->answer));
}

static void unpins(struct request *q)
{
    resident_unpin(q->f->r, &q->at);
}

/* Pin the block of @key, and read it. */
static void reads(struct request *q, struct fixture *f, uint64_t key)
{
    pins(q, f, key, PIN_ASK);
    redis_answers(q);
    takes(q);
}

/* Returns another key in the block of @key. */
static uint64_t neighbour(uint64_t key, uint64_t from)
{
    struct key_place p = place_of(&g, key), n = place_of(&g, from);
    while (from == key || n.shard != p.shard || n.block != p.block)
        n = place_of(&g, ++from);
    return from;
}

/* --- answers --- */

static void test_a_block__answers_from_its_answer_to_its_unpin(void **state)
{
    (void)state;
    struct fixture f;
    struct request q;
    struct resident_status s;
    init(&f, 1);
    uint64_t other = neighbour(1, 2);
    (void)redis_set(&g, f.redis, 1);
    pins(&q, &f, 1, PIN_ASK);
    assert_int_equal(look_one_key(f.r, 1), RESIDENT_UNKNOWN);
    redis_answers(&q);
    takes(&q);
    assert_int_equal(look_one_key(f.r, 1), RESIDENT_PRESENT);
    assert_int_equal(look_one_key(f.r, other), RESIDENT_ABSENT);
    resident_status(f.r, &s);
    assert_true(s.pinned_blocks == 1 && s.pinned_bytes == f.budget.pinned && s.pinned_bytes > BLOCK);
    unpins(&q);
    assert_int_equal(look_one_key(f.r, 1), RESIDENT_UNKNOWN);
    assert_int_equal(look_one_key(f.r, other), RESIDENT_UNKNOWN);
    fini(&f);
}

static void test_a_block__is_shared_and_stays_for_its_last_holder(void **state)
{
    (void)state;
    struct fixture f;
    struct request a, b, late;
    init(&f, 1);
    reads(&a, &f, 1);
    pins(&b, &f, 1, PIN_WHOLE);
    unpins(&a);
    assert_int_equal(look_one_key(f.r, 1), RESIDENT_ABSENT);
    assert_int_equal(apply_one_key(f.r, 0, 1, 1), RESIDENT_NEW);
    pins(&late, &f, 1, PIN_WHOLE); /* the block was read before, and has all entries since */
    unpins(&b);
    assert_int_equal(look_one_key(f.r, 1), RESIDENT_PRESENT);
    unpins(&late);
    pins(&late, &f, 1, PIN_ASK);
    resident_drop_read(f.r, &late.read);
    unpins(&late);
    fini(&f);
}

/* The keys in order: applied and folded before the pin; applied before the pin, and folded after it; applied
 * between the pin and the execution of GETRANGE; applied between the execution and the reply; applied after
 * the reply. The reply has only the first key. */
static void test_a_block__has_every_entry_whenever_it_came(void **state)
{
    (void)state;
    struct fixture f;
    struct request q;
    uint64_t key[6] = {1};
    init(&f, 1);
    for (unsigned i = 1; i < 6; i++)
        key[i] = neighbour(1, key[i - 1] + 1);
    assert_int_equal(apply_one_key(f.r, 0, 1, key[0]), RESIDENT_UNSURE);
    (void)redis_set(&g, f.redis, key[0]);
    fold(&f, 1);
    assert_int_equal(overlay_keys(&f), 0);
    assert_int_equal(apply_one_key(f.r, 0, 2, key[1]), RESIDENT_UNSURE);
    pins(&q, &f, 1, PIN_ASK);
    assert_int_equal(apply_one_key(f.r, 0, 3, key[2]), RESIDENT_UNSURE);
    redis_answers(&q);
    (void)redis_set(&g, f.redis, key[1]);
    (void)redis_set(&g, f.redis, key[2]);
    fold(&f, 3);
    assert_int_equal(overlay_keys(&f), 2); /* the read under way keeps them there */
    assert_int_equal(apply_one_key(f.r, 0, 4, key[3]), RESIDENT_UNSURE);
    takes(&q);
    assert_int_equal(overlay_keys(&f), 1);
    assert_int_equal(apply_one_key(f.r, 0, 5, key[4]), RESIDENT_NEW);
    assert_int_equal(apply_one_key(f.r, 0, 6, key[4]), RESIDENT_OLD);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(look_one_key(f.r, key[i]), RESIDENT_PRESENT);
    fold(&f, 6); /* the block keeps what the overlay drops */
    assert_int_equal(overlay_keys(&f), 0);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(look_one_key(f.r, key[i]), RESIDENT_PRESENT);
    assert_int_equal(look_one_key(f.r, key[5]), RESIDENT_ABSENT);
    unpins(&q);
    fini(&f);
}

/* Two requests read one block. The first gets its reply and adds the key. Another process folds the entry, so
 * the second reply has the key before the entry is applied here. The first reply decides that the key is
 * new. */
static void test_the_first_answer__counts(void **state)
{
    (void)state;
    struct fixture f;
    struct request a, b;
    init(&f, 1);
    pins(&a, &f, 1, PIN_ASK);
    pins(&b, &f, 1, PIN_ASK);
    redis_answers(&a);
    takes(&a);
    (void)redis_set(&g, f.redis, 1);
    redis_answers(&b);
    takes(&b);
    assert_int_equal(look_one_key(f.r, 1), RESIDENT_ABSENT);
    assert_int_equal(apply_one_key(f.r, 0, 1, 1), RESIDENT_NEW);
    unpins(&a);
    unpins(&b);
    fini(&f);
}

/* --- compared with a generation in memory --- */

struct twin {
    struct fixture not, whole;
    uint8_t *layer[2]; /* the shards of both layers in Redis */
};

static void read_block_of(struct twin *t, unsigned layer, uint64_t key)
{
    const struct geometry *of = layer == 0 ? &g : &second;
    struct key_place p = place_of(of, key);
    const struct block_at at = {.layer = layer, .shard = p.shard, .block = p.block};
    struct overlay_read read;
    enum resident_pin needs;
    uint8_t bytes[BLOCK];
    size_t length = of->block_bits / 8;
    assert_int_equal(resident_pin(t->not .r, 1, &at, &read, &needs, NULL), ERR_OK);
    if (needs == PIN_WHOLE)
        return;
    memcpy(bytes, t->layer[layer] + (size_t)p.shard * geometry_shard_bytes(of) + p.block * length, length);
    assert_true(resident_take_block(t->not .r, &at, &read, bytes));
}

static void unpin_block_of(struct twin *t, unsigned layer, uint64_t key)
{
    struct key_place p = place_of(layer == 0 ? &g : &second, key);
    resident_unpin(t->not .r, &(struct block_at){.layer = layer, .shard = p.shard, .block = p.block});
}

static void compare_entry(struct twin *t, uint64_t id, const uint64_t *keys)
{
    struct key_hash hashes[ENTRY];
    uint8_t a[ENTRY], b[ENTRY];
    for (unsigned i = 0; i < ENTRY; i++) {
        hashes[i] = hash_of(keys[i]);
        read_block_of(t, 0, keys[i]);
        read_block_of(t, 1, keys[i]);
    }
    resident_look(t->not .r, hashes, ENTRY, a);
    resident_look(t->whole.r, hashes, ENTRY, b);
    assert_memory_equal(a, b, ENTRY);
    unsigned lane = id % 2;
    assert_int_equal(resident_apply(t->not .r, lane, (struct log_id){id, 0}, hashes, ENTRY, a, NULL), ERR_OK);
    assert_int_equal(resident_apply(t->whole.r, lane, (struct log_id){id, 0}, hashes, ENTRY, b, NULL),
                     ERR_OK);
    assert_memory_equal(a, b, ENTRY);
    resident_look(t->not .r, hashes, ENTRY, a);
    for (unsigned i = 0; i < ENTRY; i++) {
        assert_int_equal(a[i], RESIDENT_PRESENT);
        unpin_block_of(t, 0, keys[i]);
        unpin_block_of(t, 1, keys[i]);
    }
}

static void test_blocks__answer_and_tell_new_keys_as_shards_in_memory_do(void **state)
{
    (void)state;
    struct twin t;
    uint64_t random = 1, folded = 0, keys[KEYS];
    init(&t.not, 2);
    init(&t.whole, 2);
    t.layer[0] = t.not .redis;
    t.layer[1] = redis_new(&second);
    for (uint64_t key = 0; key < 300; key++)
        (void)redis_set(&g, t.layer[0], 1000 + key);
    assert_int_equal(resident_add_layer(t.not .r, &second, TAG, NULL), ERR_OK);
    assert_int_equal(resident_add_layer(t.whole.r, &second, TAG, NULL), ERR_OK);
    load_layer(t.whole.r, 0, t.layer[0]);
    load_layer(t.whole.r, 1, t.layer[1]);
    for (unsigned lane = 0; lane < 2; lane++) {
        resident_begin(t.not .r, lane, (struct log_id){0}, 2);
        resident_begin(t.whole.r, lane, (struct log_id){0}, 2);
    }
    for (unsigned i = 0; i < KEYS; i++) { /* many keys occur twice, some are in the first layer */
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        keys[i] = (random >> 33) % 1300;
    }
    for (uint64_t at = 0; at < KEYS; at += ENTRY) {
        compare_entry(&t, at / ENTRY, keys + at);
        /* Fold the keys so far, at random; the process learns of it at once or later. */
        if (random >> at % 64 & 1)
            for (; folded < at + ENTRY; folded++) {
                (void)redis_set(&second, t.layer[1], keys[folded]);
            }
        if (at % 2 == 0 && folded >= ENTRY) {
            uint64_t id = folded / ENTRY - 1;
            overlay_folded(t.not .r->overlay, (const struct log_id[]){{id, 0}, {id, 0}});
        }
    }
    free(t.layer[1]);
    fini(&t.not );
    fini(&t.whole);
}

/* --- a new view --- */

static void test_discard__has_reads_under_way_begin_again(void **state)
{
    (void)state;
    struct fixture f;
    struct request whole, asked;
    enum resident_pin needs;
    struct overlay_read read;
    init(&f, 1);
    reads(&whole, &f, 1);
    uint64_t other = 2;
    while (block_of(other).shard == whole.at.shard)
        other++;
    pins(&asked, &f, other, PIN_ASK);
    redis_answers(&asked);
    uint32_t view = resident_view(f.r);
    resident_discard(f.r);
    assert_false(resident_take_block(f.r, &asked.at, &asked.read, asked.answer));
    resident_drop_read(f.r, &asked.read); /* allowed after a refused block, too */
    assert_int_equal(look_one_key(f.r, other), RESIDENT_UNKNOWN);
    assert_int_equal(resident_pin(f.r, view, &asked.at, &read, &needs, NULL), ERR_FENCED);
    assert_int_equal(apply_one_key(f.r, 0, 1, other), RESIDENT_UNSURE);
    unpins(&asked);
    unpins(&whole);
    fini(&f);
}

/* An add that was sent under the previous view still learns which keys were new. */
static void test_discard__leaves_blocks_whole(void **state)
{
    (void)state;
    struct fixture f;
    struct request whole, again;
    init(&f, 1);
    reads(&whole, &f, 1);
    resident_discard(f.r);
    assert_int_equal(look_one_key(f.r, 1), RESIDENT_ABSENT);
    assert_int_equal(apply_one_key(f.r, 0, 1, 1), RESIDENT_NEW);
    resident_discard(f.r);
    assert_int_equal(apply_one_key(f.r, 0, 2, 1), RESIDENT_OLD);
    pins(&again, &f, neighbour(1, 2), PIN_WHOLE);
    assert_int_equal(look_one_key(f.r, neighbour(1, 2)), RESIDENT_ABSENT);
    unpins(&whole);
    unpins(&again);
    fini(&f);
}

/* Memory may lack entries between the old and the new position in the lanes. */
static void test_rebase__has_blocks_read_again(void **state)
{
    (void)state;
    struct fixture f;
    struct request whole, asked, again;
    init(&f, 1);
    reads(&whole, &f, 1);
    uint64_t other = 2;
    while (block_of(other).shard == whole.at.shard)
        other++;
    pins(&asked, &f, other, PIN_ASK);
    redis_answers(&asked);
    (void)redis_set(&g, f.redis, 1); /* another process has added and folded the key */
    resident_rebase(f.r);
    assert_int_equal(look_one_key(f.r, 1), RESIDENT_UNKNOWN);
    assert_false(resident_take_block(f.r, &asked.at, &asked.read, asked.answer));
    assert_int_equal(apply_one_key(f.r, 0, 1, neighbour(1, 2)), RESIDENT_UNSURE);
    reads(&again, &f, 1);
    assert_int_equal(look_one_key(f.r, 1), RESIDENT_PRESENT);
    assert_int_equal(look_one_key(f.r, neighbour(1, 2)), RESIDENT_PRESENT); /* the key is in the overlay */
    unpins(&whole);
    unpins(&again);
    unpins(&asked);
    fini(&f);
}

/* --- shards that load meanwhile --- */

static void test_a_shard_in_memory__needs_no_pin(void **state)
{
    (void)state;
    struct fixture f;
    struct request q;
    init(&f, 1);
    load_layer(f.r, 0, f.redis);
    pins(&q, &f, 1, PIN_NEEDLESS);
    resident_rebase(f.r);
    pins(&q, &f, 1, PIN_ASK);
    resident_drop_read(f.r, &q.read);
    unpins(&q);
    fini(&f);
}

static void load_shard(struct fixture *f, uint32_t shard)
{
    assert_int_equal(resident_load_begin(f->r, 0, shard, 1, NULL), ERR_OK);
    load_whole(f->r->layer[0], shard, f->redis);
    assert_int_equal(resident_load_end(f->r, 0, shard, NULL), ERR_OK);
}

/* The overlay does not have the entries of a shard in memory, so the block itself must have them. */
static void test_a_block__keeps_whole_while_its_shard_loads(void **state)
{
    (void)state;
    struct fixture f;
    struct request whole, asked;
    init(&f, 1);
    uint64_t key[4] = {1}, twin[4];
    for (unsigned i = 1; i < 4; i++)
        key[i] = neighbour(1, key[i - 1] + 1);
    uint32_t shard = block_of(1).shard;
    uint64_t other = 2; /* another block of that shard; its read is under way all the time */
    while (block_of(other).shard != shard || block_of(other).block == block_of(1).block)
        other++;
    twin[0] = other;
    for (unsigned i = 1; i < 4; i++)
        twin[i] = neighbour(other, twin[i - 1] + 1);
    reads(&whole, &f, 1);
    pins(&asked, &f, other, PIN_ASK);
    redis_answers(&asked);

    assert_int_equal(resident_load_begin(f.r, 0, shard, 1, NULL), ERR_OK);
    /* While the shard loads, the block decides. */
    assert_int_equal(apply_one_key(f.r, 0, 1, key[0]), RESIDENT_NEW);
    assert_int_equal(apply_one_key(f.r, 0, 2, twin[0]), RESIDENT_UNSURE);
    load_whole(f.r->layer[0], shard, f.redis);
    assert_int_equal(resident_load_end(f.r, 0, shard, NULL), ERR_OK);
    assert_int_equal(apply_one_key(f.r, 0, 3, key[1]), RESIDENT_NEW);
    assert_int_equal(apply_one_key(f.r, 0, 4, twin[1]), RESIDENT_NEW);
    assert_int_equal(apply_one_key(f.r, 0, 5, key[1]), RESIDENT_OLD);
    assert_int_equal(overlay_keys(&f), 2);
    assert_int_equal(apply_one_key(f.r, 0, 6, key[2]), RESIDENT_NEW);
    assert_int_equal(apply_one_key(f.r, 0, 7, twin[2]), RESIDENT_NEW);
    for (unsigned i = 0; i < 3; i++) {
        (void)redis_set(&g, f.redis, key[i]);
        (void)redis_set(&g, f.redis, twin[i]);
    }
    fold(&f, 7);

    takes(&asked); /* this reply is older than all entries */
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(look_one_key(f.r, key[i]), RESIDENT_PRESENT);
        assert_int_equal(look_one_key(f.r, twin[i]), RESIDENT_PRESENT);
    }
    assert_int_equal(look_one_key(f.r, key[3]), RESIDENT_ABSENT);
    assert_int_equal(apply_one_key(f.r, 0, 8, key[3]), RESIDENT_NEW);
    unpins(&whole);
    unpins(&asked);
    fini(&f);
}

/* A block was read, and an add of its key was sent. Then the shard is loaded from pieces that already have
 * the entry. The block decides that the key is new. */
static void test_a_block__decides_what_is_new_before_a_shard_that_was_loaded_later(void **state)
{
    (void)state;
    struct fixture f;
    struct request q;
    init(&f, 1);
    reads(&q, &f, 1);
    (void)redis_set(&g, f.redis, 1);
    load_shard(&f, block_of(1).shard);
    assert_int_equal(look_one_key(f.r, 1), RESIDENT_PRESENT);
    assert_int_equal(apply_one_key(f.r, 0, 1, 1), RESIDENT_NEW);
    assert_int_equal(apply_one_key(f.r, 0, 2, 1), RESIDENT_OLD);
    unpins(&q);
    fini(&f);
}

/* --- memory --- */

static void test_pins__have_a_bound_of_their_own(void **state)
{
    (void)state;
    struct fixture f;
    struct error e = {""};
    struct overlay_read read;
    enum resident_pin needs;
    init(&f, 1);
    f.budget.limit = 0; /* resident_memory = 0 */
    assert_true(budget_pin(&f.budget, BUDGET_PINNED_MAX - 500));
    const struct block_at at[3] = {{.block = 1}, {.block = 2}, {.block = 3}};
    assert_int_equal(resident_pin(f.r, 1, &at[0], &read, &needs, &e), ERR_OK);
    resident_drop_read(f.r, &read);
    assert_int_equal(resident_pin(f.r, 1, &at[1], &read, &needs, &e), ERR_OK);
    resident_drop_read(f.r, &read);
    assert_int_equal(resident_pin(f.r, 1, &at[2], &read, &needs, &e), ERR_NOMEM);
    assert_non_null(strstr(e.text, "more than 64 MiB of blocks"));
    /* This block is already pinned. */
    assert_int_equal(resident_pin(f.r, 1, &at[1], &read, &needs, &e), ERR_OK);
    resident_drop_read(f.r, &read);
    resident_unpin(f.r, &at[0]);
    resident_unpin(f.r, &at[1]);
    assert_int_equal(resident_pin(f.r, 1, &at[2], &read, &needs, &e), ERR_OK);
    resident_drop_read(f.r, &read);
    resident_unpin(f.r, &at[1]);
    resident_unpin(f.r, &at[2]);
    budget_unpin(&f.budget, BUDGET_PINNED_MAX - 500);
    fini(&f);
}

static void test_many_pins__are_all_found(void **state)
{
    (void)state;
    struct fixture f;
    struct request q;
    init(&f, 1);
    for (uint64_t key = 0; key < 2000; key++) {
        pins(&q, &f, key, PIN_ASK);
        resident_drop_read(f.r, &q.read);
    }
    for (uint64_t key = 0; key < 2000; key++)
        (void)apply_one_key(f.r, 0, key, key);
    for (uint64_t key = 0; key < 2000; key++) /* set bits count even in blocks that were not read */
        assert_int_equal(look_one_key(f.r, key), RESIDENT_PRESENT);
    for (uint64_t key = 0; key < 2000; key++)
        resident_unpin(f.r, &(struct block_at){.shard = block_of(key).shard, .block = block_of(key).block});
    fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block__answers_from_its_answer_to_its_unpin),
        cmocka_unit_test(test_a_block__is_shared_and_stays_for_its_last_holder),
        cmocka_unit_test(test_a_block__has_every_entry_whenever_it_came),
        cmocka_unit_test(test_the_first_answer__counts),
        cmocka_unit_test(test_blocks__answer_and_tell_new_keys_as_shards_in_memory_do),
        cmocka_unit_test(test_discard__has_reads_under_way_begin_again),
        cmocka_unit_test(test_discard__leaves_blocks_whole),
        cmocka_unit_test(test_rebase__has_blocks_read_again),
        cmocka_unit_test(test_a_shard_in_memory__needs_no_pin),
        cmocka_unit_test(test_a_block__keeps_whole_while_its_shard_loads),
        cmocka_unit_test(test_a_block__decides_what_is_new_before_a_shard_that_was_loaded_later),
        cmocka_unit_test(test_pins__have_a_bound_of_their_own),
        cmocka_unit_test(test_many_pins__are_all_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
