/* SPDX-License-Identifier: MIT */
/* When a generation grows, how its layers are planned, and how a process reads several layers. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>
#include "shard/filter/block.h"
#include "shard/resident/overlay.h"
#include "shard/generations/grow.h"

enum { SHARD_BYTES = 65536 };

static void test_grow_decide__by_the_keys(void **state)
{
    (void)state;
    assert_int_equal(grow_decide(99, 100, 1, false), GROW_NOTHING);
    assert_int_equal(grow_decide(100, 100, 1, false), GROW_LAYER);
    assert_int_equal(grow_decide(99, 100, 1, true), GROW_NOTHING);
    assert_int_equal(grow_decide(100, 100, 1, true), GROW_FULL);
    assert_int_equal(grow_decide(1000, 100, GENERATION_LAYERS_MAX - 1, false), GROW_LAYER);
    assert_int_equal(grow_decide(1000, 100, GENERATION_LAYERS_MAX, false), GROW_NOTHING);
}

static struct generation first(double rate)
{
    struct error e = {""};
    struct generation g = {
        .number = 1, .capacity = 100, .error_rate = 0.01, .layer_count = 1, .node_count = 1};
    g.layers[0] = (struct layer){.capacity = 100, .error_rate = rate};
    assert_int_equal(geometry_plan(&g.layers[0].geometry, 100, rate, SHARD_BYTES, &e), ERR_OK);
    return g;
}

static double promised(const struct generation *g)
{
    double sum = 0;
    for (unsigned i = 0; i < g->layer_count; i++)
        sum += g->layers[i].error_rate;
    return sum;
}

/* With the smallest factor, a filter ends with more capacity than anybody needs. With a large factor, it ends
 * where no larger layer can be planned. The rate holds to the end. */
static void check_all_layers(uint32_t expansion, unsigned least, uint64_t least_capacity)
{
    struct error e = {""};
    struct generation g = first(grow_first_rate(0.01)), next;
    while (grow_plan(&next, &g, expansion, false, SHARD_BYTES, g.layer_count, &e) == ERR_OK) {
        assert_int_equal(next.layer_count, g.layer_count + 1);
        const struct layer *last = &next.layers[g.layer_count];
        assert_int_equal(last->token, g.layer_count);
        assert_true(last->capacity >= g.layers[g.layer_count - 1].capacity * expansion);
        assert_int_equal(next.capacity, g.capacity + last->capacity);
        assert_true(promised(&next) <= 0.01 * 1.000001);
        g = next;
    }
    assert_true(e.text[0] != '\0');
    assert_true(g.layer_count >= least && g.capacity >= least_capacity);
}

static void test_grow_plan__keeps_the_rate_to_the_last_layer(void **state)
{
    (void)state;
    check_all_layers(1, GENERATION_LAYERS_MAX, 100000000);
    check_all_layers(2, GENERATION_LAYERS_MAX, 100000000);
    check_all_layers(1000, 3, 100000000);
    check_all_layers(UINT32_MAX, 1, 100);
}

static void test_grow_plan__with_a_source_follows_the_generation(void **state)
{
    (void)state;
    struct error e = {""};
    struct generation g = first(0.01), next;
    assert_int_equal(grow_plan(&next, &g, 0, true, SHARD_BYTES, 5, &e), ERR_OK);
    assert_int_equal(next.layers[1].capacity, 100);
    assert_true(promised(&next) <= 0.015);
    g.capacity = UINT64_MAX / 2;
    assert_int_equal(grow_plan(&next, &g, 0, true, SHARD_BYTES, 5, &e), ERR_RANGE);
}

/* For this process an entry is in the new layer, for the folder in the old one. The process reads the blocks
 * of both layers together, and meanwhile `folded` passes the entry. One of the two blocks must have it. */
static void test_layers__are_read_together(void **state)
{
    (void)state;
    struct error e = {""};
    struct generation g = first(0.01);
    const struct geometry *shape = &g.layers[0].geometry;
    const struct key_hash hash = {.high = 0x123456789abcdef, .low = 0xfedcba987654321};
    struct key_place place;
    struct overlay_read old, new, late;
    uint8_t block[BLOCK_BITS_MAX / 8] = {0};
    size_t length = shape->block_bits / 8;
    struct overlay *o = overlay_new(1);
    hash_place(shape, hash, &place);
    const struct overlay_key key = {.hash = hash, .shard = place.shard, .block = place.block};
    assert_int_equal(overlay_add(o, 0, (struct log_id){5, 0}, 1, &key, 1, &e), ERR_OK);
    overlay_read_begin(o, &old);
    overlay_read_begin(o, &new);
    assert_true(overlay_read_end(o, &old, 0, shape, place.shard, place.block, block));
    /* The block was read before the fold. */
    assert_int_equal(block_test(shape, 0, &place, block, length), BLOCK_ABSENT);
    overlay_folded(o, &(struct log_id){5, 0});
    assert_true(overlay_read_end(o, &new, 1, shape, place.shard, place.block, block));
    assert_int_equal(block_test(shape, 0, &place, block, length), BLOCK_PRESENT);
    /* If the blocks were read one after the other, neither would have the entry. */
    memset(block, 0, sizeof(block));
    overlay_read_begin(o, &late);
    assert_true(overlay_read_end(o, &late, 1, shape, place.shard, place.block, block));
    assert_int_equal(block_test(shape, 0, &place, block, length), BLOCK_ABSENT);
    overlay_free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grow_decide__by_the_keys),
        cmocka_unit_test(test_grow_plan__keeps_the_rate_to_the_last_layer),
        cmocka_unit_test(test_grow_plan__with_a_source_follows_the_generation),
        cmocka_unit_test(test_layers__are_read_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
