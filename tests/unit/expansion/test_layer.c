/* SPDX-License-Identifier: MIT */
/* How a filter grows: whatever its layers do, together they keep the promised rate. */
#include "expansion/layer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

static struct generation generation;

/* The first layer of a filter for @capacity keys at @rate. */
static struct generation *begin(double rate, uint64_t capacity, bool sourced)
{
    generation = (struct generation){.number = 1, .capacity = capacity, .error_rate = rate, .layer_count = 1};
    generation.layers[0] =
        (struct layer){.capacity = capacity, .error_rate = sourced ? rate : layer_first_rate(rate)};
    return &generation;
}

static void grow(struct generation *g, uint32_t expansion, bool sourced)
{
    struct error e = {""};
    struct layer layer = {.error_rate = layer_next_rate(g, sourced)};
    if (layer_next_capacity(g, expansion, &layer.capacity, &e) != ERR_OK)
        fail_msg("%s", e.text);
    assert_true(layer.error_rate > 0);
    g->layers[g->layer_count++] = layer;
    g->capacity += layer.capacity;
}

/* What the layers' geometries give when all are full, not only what was asked of them. */
static double rate_when_full(struct generation *g)
{
    double sum = 0;
    struct error e = {""};
    for (unsigned i = 0; i < g->layer_count; i++) {
        struct layer *l = &g->layers[i];
        if (geometry_plan(&l->geometry, l->capacity, l->error_rate, SHARD_BYTES_DEFAULT, &e) != ERR_OK)
            fail_msg("layer %u: %s", i, e.text);
        sum += geometry_rate(&l->geometry, l->capacity);
    }
    return sum;
}

static void keeps(double rate, uint64_t capacity, uint32_t expansion, bool sourced, unsigned layers)
{
    double promised = sourced ? 1.5 * rate : rate;
    struct generation *g = begin(rate, capacity, sourced);
    while (g->layer_count < layers) {
        grow(g, expansion, sourced);
        assert_true(layer_rate_bound(g) <= promised * (1 + 1e-12));
    }
    assert_true(rate_when_full(g) <= promised * (1 + 1e-9));
}

static void test_layers__together_keep_the_promised_rate(void **state)
{
    (void)state;
    static const double rates[] = {0.5, 0.01, 1e-3, 1e-9, 1e-10, 1e-11, 1e-20};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        keeps(rates[i], 100, 1, false, GENERATION_LAYERS_MAX);
        keeps(rates[i], 100, 2, false, GENERATION_LAYERS_MAX - 4);
        keeps(rates[i], 100, 1, true, GENERATION_LAYERS_MAX);
    }
}

/* Up to a version before this one each layer had half of the rate of the one before, to the last. */
static void test_layers__go_on_where_rates_were_halved(void **state)
{
    (void)state;
    struct generation *g = begin(0.01, 100, false);
    while (g->layer_count < 20) {
        g->layers[g->layer_count] = g->layers[g->layer_count - 1];
        g->layers[g->layer_count++].error_rate /= 2;
    }
    while (g->layer_count < GENERATION_LAYERS_MAX)
        grow(g, 1, false);
    assert_true(rate_when_full(g) <= 0.01);
}

static void test_layers__of_one_size_grow_far_beyond_their_number(void **state)
{
    (void)state;
    struct generation *g = begin(0.01, 100, false);
    while (g->layer_count < LAYER_EVEN) {
        grow(g, 1, false);
        assert_int_equal(g->layers[g->layer_count - 1].capacity, 100);
    }
    while (g->layer_count < GENERATION_LAYERS_MAX)
        grow(g, 1, false);
    assert_true(g->capacity > UINT64_C(2000000000));
    g = begin(0.01, 100, false);
    while (g->layer_count < 12)
        grow(g, 8, false);
    assert_int_equal(g->layers[11].capacity, UINT64_C(100) << 33);
}

static void test_layer_next_capacity__is_refused_where_it_is_no_number(void **state)
{
    (void)state;
    uint64_t out;
    struct error e = {""};
    const struct generation *g = begin(0.01, UINT64_MAX / 2, false);
    assert_int_equal(layer_next_capacity(g, 3, &out, &e), ERR_RANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers__together_keep_the_promised_rate),
        cmocka_unit_test(test_layers__go_on_where_rates_were_halved),
        cmocka_unit_test(test_layers__of_one_size_grow_far_beyond_their_number),
        cmocka_unit_test(test_layer_next_capacity__is_refused_where_it_is_no_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
