/* SPDX-License-Identifier: MIT */
/* BF.SCANDUMP of filters that are logs. */
#include "tests/integration/dumps.h"
#include "tests/integration/keyspace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/filter/block.h"
#include "shard/filter/dump.h"
#include "shard/filter/hash.h"

/* A dump, taken apart. */
struct scan {
    struct dump_header header;
    uint8_t *layer[GENERATION_LAYERS_MAX]; /* all shards of the layer, one after the other */
};

static void take_apart(const struct dump *d, struct scan *s)
{
    struct error e = {""};
    must(dump_header_decode(&s->header, d->piece[0].data, d->piece[0].length, &e), e);
    assert_int_equal(d->count, s->header.chunks + 1);
    for (unsigned i = 0; i < s->header.layer_count; i++) {
        s->layer[i] = malloc(geometry_bytes(&s->header.layers[i].geometry));
        assert_non_null(s->layer[i]);
    }
    for (uint32_t i = 1; i <= s->header.chunks; i++) {
        struct dump_chunk c;
        struct dump_run run;
        must(dump_chunk_decode(&c, d->piece[i].data, d->piece[i].length, &e), e);
        assert_true(dump_run_at(&s->header, i, &run));
        assert_int_equal(c.id, s->header.id);
        assert_int_equal(c.number, i);
        assert_int_equal(c.run.bytes, run.bytes);
        memcpy(s->layer[run.layer] +
                   (size_t)run.first * geometry_shard_bytes(&s->header.layers[run.layer].geometry),
               c.shards, run.bytes);
    }
}

static void scan_free(struct scan *s)
{
    for (unsigned i = 0; i < s->header.layer_count; i++)
        free(s->layer[i]);
}

static bool has(const struct scan *s, const char *key, size_t length)
{
    struct key_hash h = hash_mix(hash_key(s->header.seed, key, length), s->header.mix);
    for (unsigned i = 0; i < s->header.layer_count; i++) {
        const struct geometry *g = &s->header.layers[i].geometry;
        struct key_place place;
        hash_place(g, h, &place);
        const uint8_t *block = s->layer[i] + (size_t)place.shard * geometry_shard_bytes(g) +
                               (size_t)place.block * g->block_bits / 8;
        enum block_answer answer = block_test(g, 0, &place, block, g->block_bits / 8);
        assert_int_not_equal(answer, BLOCK_BAD);
        if (answer == BLOCK_PRESENT)
            return true;
    }
    return false;
}

static uint64_t count(const struct scan *s, client_key_fn *name, uint64_t keys)
{
    uint64_t found = 0;
    char key[CLIENT_KEY_MAX];
    for (uint64_t i = 0; i < keys; i++) {
        size_t length = name(i, key);
        found += has(s, key, length);
    }
    return found;
}

/* The other coordinator dumps before the last keys are folded. */
static void test_dump__has_every_key_of_all_layers(void **state)
{
    (void)state;
    enum { KEYS = 6000, ABSENT = 10000 };
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE dumped 0.001 500");
    for (uint64_t added = 0; added < KEYS; added += KEYS / 6) {
        struct dump d = {0};
        struct scan s = {0};
        struct error e = {""};
        keyspace_add(0, "dumped", added, KEYS / 6);
        must(dump_rest(&d, &keyspace.fixture.client[1], "dumped", &e), e);
        take_apart(&d, &s);
        assert_int_equal(count(&s, fixture_code, added + KEYS / 6), added + KEYS / 6);
        assert_in_range(count(&s, fixture_absent_code, ABSENT), 0, ABSENT / 200);
        assert_true(s.header.layer_count > 1);
        scan_free(&s);
        dump_free(&d);
    }
}

/* The last keys may only be in the lane when all chunks are read; the first chunk is read again when they are
 * in shards. */
static void test_dump__each_chunk_has_its_keys_whenever_it_is_read(void **state)
{
    (void)state;
    enum { BEFORE = 1000, KEYS = 1200, FOLDED_US = 3000000 };
    struct dump d = {0}, again = {0};
    struct scan s = {0};
    struct error e = {""};
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE twice 0.001 500");
    keyspace_add(0, "twice", 0, BEFORE);
    clock_sleep_us(FOLDED_US);
    keyspace_add(0, "twice", BEFORE, 1); /* the fold that is due has ended then */
    clock_sleep_us(FOLDED_US / 10);
    keyspace_add(0, "twice", BEFORE + 1, KEYS - BEFORE - 1);
    must(dump_rest(&d, &keyspace.fixture.client[1], "twice", &e), e);
    clock_sleep_us(FOLDED_US);
    must(dump_next(&again, &keyspace.fixture.client[1], "twice", d.piece[0].position, &e), e);
    free(d.piece[1].data);
    d.piece[1] = again.piece[0];
    take_apart(&d, &s);
    assert_int_equal(count(&s, fixture_code, KEYS), KEYS);
    scan_free(&s);
    dump_free(&d);
}

static void test_dump__of_a_filter_that_was_made_again_is_not_gone_on_with(void **state)
{
    (void)state;
    struct dump d = {0}, no = {0};
    struct error e = {""};
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE again 0.01 100");
    must(dump_next(&d, &keyspace.fixture.client[0], "again", 0, &e), e);
    assert_int_equal(keyspace_integer(&keyspace.fixture.client[0], "DEL again"), 1);
    fixture_ask(&keyspace.fixture, 0, "BF.RESERVE again 0.01 200000");
    enum err code = dump_next(&no, &keyspace.fixture.client[0], "again", d.piece[0].position, &e);
    if (code == ERR_OK) { /* positions have ten bits of the id; the chunk itself has the whole */
        struct dump_chunk c;
        struct dump_header h;
        must(dump_header_decode(&h, d.piece[0].data, d.piece[0].length, &e), e);
        must(dump_chunk_decode(&c, no.piece[0].data, no.piece[0].length, &e), e);
        assert_true(c.id != h.id);
        dump_free(&no);
    } else {
        assert_non_null(strstr(e.text, "begin again with 0"));
    }
    dump_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dump__has_every_key_of_all_layers),
        cmocka_unit_test(test_dump__each_chunk_has_its_keys_whenever_it_is_read),
        cmocka_unit_test(test_dump__of_a_filter_that_was_made_again_is_not_gone_on_with),
    };
    return cmocka_run_group_tests(tests, keyspace_setup, keyspace_teardown);
}
