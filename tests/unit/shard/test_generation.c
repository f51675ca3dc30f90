/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buffer.h"
#include "shard/filter/generation.h"

static const char sample[] =
    "number=3 seed=00000000deadbeef built=1 capacity=1000 rate=0.125 "
    "nodes=127.0.0.1:6379,[::1]:6380 layers=2:3:1024:7:900:0.25:5;1:1:512:1:100:0.5:7";

static struct generation parsed(const char *text)
{
    struct generation g;
    struct error e;
    assert_int_equal(generation_parse(&g, text, strlen(text), &e), ERR_OK);
    return g;
}

static void test_generation_parse__reads_the_form_of_the_header(void **state)
{
    (void)state;
    struct generation g = parsed(sample);
    assert_true(g.number == 3 && g.seed == 0xdeadbeef && g.built && g.capacity == 1000);
    assert_true(g.error_rate == 0.125);
    assert_int_equal(g.node_count, 2);
    assert_string_equal(g.nodes[0], "127.0.0.1:6379");
    assert_string_equal(g.nodes[1], "[::1]:6380");
    assert_int_equal(g.layer_count, 2);
    const struct layer *l = &g.layers[0];
    assert_true(l->geometry.shards == 2 && l->geometry.blocks == 3 && l->geometry.block_bits == 1024);
    assert_true(l->geometry.hashes == 7 && l->capacity == 900 && l->error_rate == 0.25);
    assert_true(l->token == 5);
    assert_int_equal(generation_shards(&g), 3);
    assert_int_equal(generation_bytes(&g), 2 * 3 * 128 + 64);
}

static void test_generation_text__is_read_back_whole_at_every_bound(void **state)
{
    (void)state;
    struct generation g = {
        .number = UINT64_MAX, .seed = UINT64_MAX, .capacity = UINT64_MAX, .error_rate = 1 - 0x1p-53};
    g.layer_count = GENERATION_LAYERS_MAX;
    g.node_count = GENERATION_NODES_MAX;
    for (unsigned i = 0; i < g.layer_count; i++)
        g.layers[i] = (struct layer){.geometry = {UINT32_C(1) << 31, 2047, 4096, GEOMETRY_HASHES_MAX},
                                     .capacity = UINT64_MAX,
                                     .error_rate = 1.2345678901234567e-300,
                                     .token = UINT64_MAX};
    for (unsigned i = 0; i < g.node_count; i++)
        memset(g.nodes[i], 'a' + (int)(i % 26), NODE_NAME_MAX - 1);
    char text[GENERATION_TEXT_MAX];
    size_t length = generation_text(&g, text);
    assert_true(length < sizeof(text));
    struct generation back = {0};
    assert_int_equal(generation_parse(&back, text, length, NULL), ERR_OK);
    assert_memory_equal(&back, &g, sizeof(g));
}

static void test_generation_text__gives_the_text_that_was_read(void **state)
{
    (void)state;
    struct generation g = parsed(sample);
    char text[GENERATION_TEXT_MAX];
    assert_int_equal(generation_text(&g, text), strlen(sample));
    assert_string_equal(text, sample);
}

static void assert_refused(const char *text, size_t length)
{
    struct error e;
    char *exact = malloc(length + 1); /* exact size, so that a sanitizer reports a read past the end */
    assert_non_null(exact);
    char *copy = realloc(exact, length == 0 ? 1 : length);
    assert_non_null(copy);
    memcpy(copy, text, length);
    struct generation g;
    if (generation_parse(&g, copy, length, &e) != ERR_PARSE)
        fail_msg("accepted: %.*s", (int)length, text);
    free(copy);
}

static void test_generation_parse__refuses_every_cut(void **state)
{
    (void)state;
    /* The last field is one digit, so no shorter text is complete. */
    for (size_t length = 0; length < strlen(sample); length++)
        if (strncmp(sample + length, ";1:1:512", 8) != 0) /* at the end of a layer the text is complete */
            assert_refused(sample, length);
}

static void test_generation_parse__refuses_what_is_out_of_bounds(void **state)
{
    (void)state;
    static const char *const swaps[][2] = {
        {"number=3", "number=0"},
        {"number=3", "number=-3"},
        {"number=3", "number=3 "},
        {"number=3", "number=18446744073709551616"},
        {"number=", "numbe="},
        {"seed=0", "seed=00"},
        {"seed=0", "seed=x"},
        {"built=1", "built=2"},
        {"built=1", "built=1 opening=1"},
        {"built=1", "built=11"},
        {"capacity=1000", "capacity="},
        {"rate=0.125", "rate=0"},
        {"rate=0.125", "rate=1"},
        {"rate=0.125", "rate=nan"},
        {"rate=0.125", "rate=-1"},
        {"nodes=127.0.0.1:6379", "nodes="},
        {"6379,", "6379,,"},
        {"6379,", "6379;"},
        {"layers=2:", "layers=0:"},
        {"layers=2:", "layers=2147483649:"},
        {"layers=2:", "layers=4294967298:"},
        {":1024:", ":1000:"},
        {":1024:", ":8192:"},
        {":7:900", ":41:900"},
        {":7:900", ":0:900"},
        {":3:1024", ":8192:1024"},
        {":3:1024", ":0:1024"},
        {"0.25:", "1.0:"},
        {":5;", ":5:6;"},
        {":5;", ":5;;"},
        {"0.5:7", "0.5:7;"},
        {"0.5:7", "0.5:7 "},
        {"0.5:7", "0.5:7 more=1"},
        {"127.0", "127\x01"},
    };
    for (size_t i = 0; i < sizeof(swaps) / sizeof(swaps[0]); i++) {
        const char *at = strstr(sample, swaps[i][0]);
        assert_non_null(at);
        char text[400];
        int n = snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - sample), sample, swaps[i][1],
                         at + strlen(swaps[i][0]));
        assert_refused(text, (size_t)n);
    }
}

static void test_generation_parse__refuses_more_than_it_can_hold(void **state)
{
    (void)state;
    struct buffer b = {0};
    buffer_puts(&b, "number=1 seed=1 built=0 capacity=1 rate=0.1 nodes=a:1");
    size_t nodes = b.length;
    for (int i = 0; i < GENERATION_NODES_MAX; i++)
        buffer_puts(&b, ",a:1");
    buffer_puts(&b, " layers=1:1:512:1:1:0.1:1");
    assert_refused(b.data, b.length);
    b.length = nodes;
    buffer_puts(&b, " layers=1:1:512:1:1:0.1:1");
    for (int i = 0; i < GENERATION_LAYERS_MAX; i++)
        buffer_puts(&b, ";1:1:512:1:1:0.1:1");
    assert_refused(b.data, b.length);
    buffer_clear(&b);
    buffer_puts(&b, "number=1 seed=1 built=0 capacity=1 rate=0.1 nodes=");
    for (int i = 0; i < NODE_NAME_MAX; i++)
        buffer_puts(&b, "a");
    buffer_puts(&b, " layers=1:1:512:1:1:0.1:1");
    assert_refused(b.data, b.length);
    buffer_fini(&b);
}

/* Random damage of a valid text. Whatever is accepted must be within bounds. */
static void test_generation_parse__survives_hostile_text(void **state)
{
    (void)state;
    uint64_t random = 42;
    unsigned accepted = 0;
    for (int round = 0; round < 100000; round++) {
        char text[sizeof(sample)];
        memcpy(text, sample, sizeof(text));
        size_t length = strlen(sample);
        for (int hits = 0; hits < 1 + round % 3; hits++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            text[(random >> 33) % length] = "0123456789:;,= .-eaf\xff"[(random >> 20) % 21];
        }
        struct generation g;
        if (generation_parse(&g, text, length, NULL) != ERR_OK)
            continue;
        accepted++;
        assert_in_range(g.layer_count, 1, GENERATION_LAYERS_MAX);
        assert_in_range(g.node_count, 1, GENERATION_NODES_MAX);
        assert_true(g.number > 0 && g.error_rate > 0 && g.error_rate < 1);
        for (unsigned i = 0; i < g.layer_count; i++)
            assert_int_equal(geometry_check(&g.layers[i].geometry, NULL), ERR_OK);
    }
    assert_true(accepted > 1000);
}

static void test_generation_rate__fills_the_layers_in_order(void **state)
{
    (void)state;
    struct generation g = {.layer_count = 3};
    static const uint64_t capacity[] = {1000, 2000, 4000};
    for (unsigned i = 0; i < 3; i++) {
        g.layers[i].capacity = capacity[i];
        g.layers[i].geometry = (struct geometry){1, 20u << i, 1024, 7 + i};
    }
    double p[3];
    for (unsigned i = 0; i < 3; i++)
        p[i] = geometry_rate(&g.layers[i].geometry, capacity[i]);
    assert_true(generation_rate(&g, 0) == 0);
    double half = geometry_rate(&g.layers[0].geometry, 500);
    assert_true(fabs(generation_rate(&g, 500) - half) < 1e-12 * half);
    double two = 1 - (1 - p[0]) * (1 - geometry_rate(&g.layers[1].geometry, 1500));
    assert_true(fabs(generation_rate(&g, 2500) - two) < 1e-9 * two);
    /* The last layer takes all remaining keys, also beyond its capacity. */
    double over = 1 - (1 - p[0]) * (1 - p[1]) * (1 - geometry_rate(&g.layers[2].geometry, 6000));
    assert_true(fabs(generation_rate(&g, 9000) - over) < 1e-9 * over);
    assert_true(over > 1 - (1 - p[0]) * (1 - p[1]) * (1 - p[2]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generation_parse__reads_the_form_of_the_header),
        cmocka_unit_test(test_generation_text__is_read_back_whole_at_every_bound),
        cmocka_unit_test(test_generation_text__gives_the_text_that_was_read),
        cmocka_unit_test(test_generation_parse__refuses_every_cut),
        cmocka_unit_test(test_generation_parse__refuses_what_is_out_of_bounds),
        cmocka_unit_test(test_generation_parse__refuses_more_than_it_can_hold),
        cmocka_unit_test(test_generation_parse__survives_hostile_text),
        cmocka_unit_test(test_generation_rate__fills_the_layers_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
