/* SPDX-License-Identifier: MIT */
/* Compares a generation of a filter that is a log with keys: keys in its lanes are not missing. */
#include "tests/integration/log_builds.h"

#include <stdlib.h>
#include <string.h>

#include "migrate/verify/compare.h"
#include "migrate/verify/log_input.h"
#include "service/filters/log_shards.h"
#include "shard/filter/block.h"

enum { ROWS = 8000, OTHERS = 1000000 /* keys that are only in the lane */, ABSENT = 2000000, SOME = 100 };

static char spilled[] = "spilled";
static struct log_process a;
static struct log_input input;
static struct compare *c;

static int teardown(void **state)
{
    (void)state;
    compare_free(c);
    c = NULL;
    log_input_fini(&input);
    log_close(&a);
    return 0;
}

static void compares(void **state)
{
    struct error e = {""};
    const struct build_options o = {.memory = *state == spilled ? LOG_SPILLS : UINT64_MAX,
                                    .writers = 1,
                                    .spill_dir = log_directory,
                                    .spill_bytes = 1 << 30};
    must(compare_new(&c, &input, &o, &e), e);
    assert_int_equal(compare_finish(c, &e), *state == spilled ? ERR_OK : ERR_CONFLICT);
}

static void put(uint64_t first, uint64_t count)
{
    struct error e = {""};
    for (uint64_t i = first; i < first + count; i++)
        compare_put(c, 0, hash_mix(log_key(i), input.generation->seed));
    must(compare_page_end(c, 0, &e), e);
}

static uint64_t missing(void)
{
    struct error e = {""};
    must(compare_finish(c, &e), e);
    return compare_missing_total(c);
}

/* A build whose rows are flushed, and keys that were added later: it has read them, and not written. */
static void builds(void)
{
    struct error e = {""};
    log_begin(&a, UINT64_MAX);
    log_rows(&a, 0, ROWS);
    must(build_checkpoint(a.build, "all", 3, &e), e);
    log_add(OTHERS, SOME);
    must(build_follow(a.build, &e), e);
    must(log_input_init_build(&input, a.builder, &e), e);
}

static void test_compare__of_a_build_has_what_was_added_since(void **state)
{
    struct error e = {""};
    builds();
    compares(state);
    must(compare_load(c, &e), e);
    put(0, ROWS);
    put(OTHERS, SOME);
    assert_int_equal(missing(), 0);
    assert_int_equal(compare_tested(c), ROWS + SOME);
}

static void test_compare__says_what_neither_shards_nor_lanes_have(void **state)
{
    struct error e = {""};
    builds();
    compares(state);
    must(compare_load(c, &e), e);
    put(ABSENT, 1000);
    put(0, SOME);
    assert_in_range(missing(), 950, 1000); /* one in a hundred is a false positive */
}

/* Entries that come while shards are read are found by the lane reads after that. */
static void test_compare__reads_the_lanes_again_for_each_run(void **state)
{
    struct error e = {""};
    uint64_t added = OTHERS + SOME;
    struct key_place at;
    (void)state;
    builds();
    const struct geometry *g = &input.generation->layers[0].geometry;
    const struct bitmap *read = input.resident->layer[0];
    for (uint32_t s = 0; s < g->shards; s++) {
        do
            hash_place(g, hash_mix(log_key(++added), input.generation->seed), &at);
        while (at.shard != s); /* a key of the next shard to be read */
        log_add(added, 1);
        must(log_input_read(&input, 0, s, 1, &e), e);
        const uint8_t *shard = (const uint8_t *)(read->words + (size_t)s * read->shard_words);
        assert_int_equal(block_test(g, a.builder->fold.tag, &at, shard + (size_t)at.block * g->block_bits / 8,
                                    g->block_bits / 8),
                         BLOCK_PRESENT);
    }
}

static void test_compare__of_the_generation_that_is_read(void **state)
{
    struct error e = {""};
    log_open(&a, &log_servers.nodes);
    log_add(OTHERS, SOME); /* not folded */
    must(log_input_init(&input, a.link, &log_names, log_stored(), log_stored()->current, &e), e);
    log_add(OTHERS + SOME, SOME);
    compares(state);
    must(compare_load(c, &e), e);
    put(OTHERS, 2 * SOME);
    put(ABSENT, SOME);
    assert_int_equal(missing(), SOME); /* all shards are empty */
}

static void test_compare__refuses_a_lane_that_was_trimmed_past_it(void **state)
{
    struct error e = {""};
    builds();
    log_trim();
    compares(state);
    enum err code = compare_load(c, &e);
    if (code == ERR_OK) { /* spilled hashes are compared at the end */
        put(0, SOME);
        code = compare_finish(c, &e);
    }
    gives(ERR_CONFLICT, code, e);
}

static void test_compare__names_a_shard_that_is_lost(void **state)
{
    struct error e = {""};
    struct key_name key;
    builds();
    names_log_shard(&log_names, (struct shard_id){input.generation->number, 0, 1}, &key);
    assert_int_equal(servers_integer(&log_servers, 1, "DEL %b", key.text, key.length), 1);
    compares(state);
    gives(ERR_LOST, compare_load(c, &e), e);
    assert_non_null(strstr(e.text, key.text));
}

static void test_compare__takes_no_shard_of_another_era(void **state)
{
    struct error e = {""};
    builds();
    input.eras.id[0] ^= 1;
    compares(state);
    gives(ERR_FENCED, compare_load(c, &e), e);
}

/* Whoever made it again was late, and it is empty. */
static void test_compare__takes_no_shard_of_an_earlier_token(void **state)
{
    struct error e = {""};
    builds();
    a.builder->shape.layers[0].token = a.builder->fold.token.number + 1;
    compares(state);
    gives(ERR_LOST, compare_load(c, &e), e);
    assert_non_null(strstr(e.text, "was made under token"));
}

static void test_log_input__needs_positions(void **state)
{
    struct error e = {""};
    (void)state;
    builds();
    log_input_fini(&input);
    unsigned slot = 1 - log_stored()->current;
    gives(ERR_CONFLICT, log_input_init(&input, a.link, &log_names, log_stored(), slot, &e), e);
}

/* Its slot has another generation now, or the name another filter. */
static void test_log_shards__are_those_of_one_generation_of_one_filter(void **state)
{
    (void)state;
    struct error e = {""};
    struct log_shards *s = NULL;
    struct names names = log_names;
    builds();
    uint64_t number = log_stored()->slot[log_stored()->current].shape.number;
    names.incarnation = log_stored()->incarnation;
    must(log_shards_open(&s, a.link, &names, number, &e), e);
    log_shards_close(s);
    gives(ERR_CONFLICT, log_shards_open(&s, a.link, &names, number + 2, &e), e);
    names.incarnation++;
    gives(ERR_CONFLICT, log_shards_open(&s, a.link, &names, number, &e), e);
}

#define LOG_TEST(test) cmocka_unit_test_setup_teardown(test, log_setup, teardown)
#define SPILLED_TOO(test)                                                                                    \
    LOG_TEST(test),                                                                                          \
    {                                                                                                        \
#test " (spilled)", test, log_setup, teardown, spilled                                               \
    }

int main(void)
{
    const struct CMUnitTest all[] = {
        SPILLED_TOO(test_compare__of_a_build_has_what_was_added_since),
        SPILLED_TOO(test_compare__says_what_neither_shards_nor_lanes_have),
        LOG_TEST(test_compare__reads_the_lanes_again_for_each_run),
        SPILLED_TOO(test_compare__of_the_generation_that_is_read),
        SPILLED_TOO(test_compare__refuses_a_lane_that_was_trimmed_past_it),
        LOG_TEST(test_compare__names_a_shard_that_is_lost),
        LOG_TEST(test_compare__takes_no_shard_of_another_era),
        LOG_TEST(test_compare__takes_no_shard_of_an_earlier_token),
        LOG_TEST(test_log_input__needs_positions),
        LOG_TEST(test_log_shards__are_those_of_one_generation_of_one_filter),
    };
    return cmocka_run_group_tests_name("log compare", all, log_start, log_stop);
}
