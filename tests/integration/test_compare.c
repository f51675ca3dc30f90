/* SPDX-License-Identifier: MIT */
/* Compares a generation with keys: no missing key is overlooked, and no present key is reported missing. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "migrate/verify/compare.h"
#include "migrate/verify/log_check.h"
#include "tests/integration/builds.h"

/* Keys of both layers; keys from ABSENT on were never added. */
enum { KEYS = 3000, ABSENT = 100000, WRITERS = 3 };

static struct log_input input;
static struct compare *c;

static void bring(unsigned layer, uint64_t first, unsigned count)
{
    void *none = NULL;
    builds.builder->shape.layer_count = layer + 1; /* a build fills the last layer */
    builds_make(builds_options(&none));
    builds_put(0, first, count);
    builds_flush();
}

static int setup(void **state)
{
    struct error e = {""};
    if (builds_setup_two_layers(state) != 0)
        return -1;
    bring(0, 0, KEYS - 500);
    bring(1, KEYS - 500, 500);
    must(log_input_init_build(&input, builds.builder, &e), e);
    return 0;
}

static int setup_short(void **state)
{
    builds_ms = BUILDS_SHORT_MS;
    return setup(state);
}

static int teardown(void **state)
{
    compare_free(c);
    c = NULL;
    log_input_fini(&input);
    return builds_teardown(state);
}

#undef MEMORY
#undef SPILLED
#define MEMORY(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define SPILLED(name)                                                                                        \
    {                                                                                                        \
#name " (spilled)", name, setup, teardown, builds_spilled                                            \
    }

/* All tests run twice: in memory, and with hashes spilled for ranges of shards. */
static struct build_options options(void **state)
{
    return (struct build_options){.memory = *state == NULL ? UINT64_MAX : 1,
                                  .writers = WRITERS,
                                  .spill_dir = log_directory,
                                  .spill_bytes = 1 << 20};
}

static void make(struct build_options o)
{
    struct error e = {""};
    must(compare_new(&c, &input, &o, &e), e);
}

static void load(void)
{
    struct error e = {""};
    must(compare_load(c, &e), e);
}

static void put(unsigned writer, unsigned first, unsigned count)
{
    struct error e = {""};
    for (unsigned i = first; i < first + count; i++)
        compare_put(c, writer, builds_hash(i));
    must(compare_page_end(c, writer, &e), e);
}

static void finish(void)
{
    struct error e = {""};
    must(compare_finish(c, &e), e);
}

static void finish_gives(enum err code)
{
    struct error e = {""};
    gives(code, compare_finish(c, &e), e);
}

static int by_value(const void *a, const void *b)
{
    const struct key_hash *x = a, *y = b;
    if (x->high != y->high)
        return x->high < y->high ? -1 : 1;
    return (x->low > y->low) - (x->low < y->low);
}

static bool is_found(uint64_t key)
{
    struct key_hash h = log_key(key);
    struct error e = {""};
    uint8_t found;
    must(log_check(builds.builder, &h, 1, &found, &e), e);
    return found;
}

/* Of the keys [ABSENT, ABSENT + count), exactly those must be reported missing that a check does not find. */
static void missing_are(unsigned count)
{
    struct key_hash *expected = calloc(count + 1, sizeof(*expected));
    size_t n = 0, listed = 0;
    assert_non_null(expected);
    for (unsigned i = ABSENT; i < ABSENT + count; i++)
        if (!is_found(i))
            expected[n++] = builds_hash(i);
    if (n > 0)
        qsort(expected, n, sizeof(*expected), by_value);
    const struct key_hash *missing = compare_missing(c, &listed);
    assert_int_equal(compare_missing_total(c), n);
    assert_int_equal(listed, n);
    if (n > 0)
        assert_memory_equal(missing, expected, n * sizeof(*expected));
    free(expected);
}

/* --- what it finds --- */

static void test_compare__finds_all_keys_that_are_there(void **state)
{
    make(options(state));
    finish_gives(*state == NULL ? ERR_CONFLICT : ERR_OK); /* spilled hashes need no load */
    load();
    for (unsigned i = 0; i < WRITERS; i++)
        put(i, i * (KEYS / WRITERS), KEYS / WRITERS);
    finish();
    missing_are(0);
    assert_int_equal(compare_tested(c), KEYS);
}

static void test_compare__finds_the_keys_that_are_missing(void **state)
{
    make(options(state));
    load();
    put(0, 0, 1000);
    put(1, ABSENT, 700);
    put(2, 1000, KEYS - 1000);
    put(2, ABSENT + 700, 100);
    finish();
    missing_are(800);
    assert_int_equal(compare_tested(c), KEYS + 800);
}

static void test_compare_finish__may_be_done_again(void **state)
{
    make(options(state));
    load();
    finish();
    missing_are(0);
    for (unsigned i = 0; i < 4; i++) {
        put(i % WRITERS, ABSENT + i * 50, 50);
        put(i % WRITERS, i * 100, 100);
        finish();
        missing_are((i + 1) * 50);
        assert_int_equal(compare_tested(c), (i + 1) * 150);
    }
}

/* One bit of one key is cleared. */
static void test_compare__sees_a_single_bit_that_is_missing(void **state)
{
    struct key_place place;
    const struct generation *g = &builds.builder->shape;
    const struct geometry *layer = &g->layers[0].geometry;
    struct key_name name;
    const unsigned key = 17;
    hash_place(layer, builds_hash(key), &place);
    names_log_shard(&log_names, (struct shard_id){g->number, 0, place.shard}, &name);
    unsigned bit = header_bytes(layer) * 8 + place.block * layer->block_bits + place.bits[0];
    assert_int_equal(
        servers_integer(&log_servers, place.shard % 2, "SETBIT %b %u 0", name.text, name.length, bit), 1);
    size_t listed = 0;
    bool found = false;
    make(options(state));
    load();
    put(0, 0, KEYS);
    finish();
    const struct key_hash *missing = compare_missing(c, &listed);
    struct key_hash h = builds_hash(key);
    assert_in_range(listed, 1, 30); /* other keys have that bit, too */
    for (size_t i = 0; i < listed; i++)
        found |= missing[i].high == h.high && missing[i].low == h.low;
    assert_true(found);
    unsigned there = 0;
    for (unsigned i = 0; i < KEYS; i++)
        there += is_found(i);
    assert_int_equal(there, KEYS - listed);
}

static enum err stop_third(void *arg, struct error *e)
{
    return ++*(unsigned *)arg == 3 ? error_set(e, ERR_CANCELLED, "stop") : ERR_OK;
}

static void test_compare_missing__lists_so_many_and_counts_the_rest(void **state)
{
    enum { MORE = 100000 };
    struct error e = {""};
    unsigned calls = 0;
    struct build_options o = options(state);
    o.spill_bytes = 1 << 30;
    o.poll = (struct work){stop_third, &calls}; /* interrupted in the middle: nothing is counted twice */
    make(o);
    load();
    for (uint64_t i = 0; i < COMPARE_MISSING_MAX + MORE; i++)
        compare_put(c, (unsigned)(i % WRITERS), hash_key(1, &i, sizeof(i)));
    for (unsigned i = 0; i < WRITERS; i++)
        must(compare_page_end(c, i, &e), e);
    enum err code = compare_finish(c, &e);
    if (code == ERR_CANCELLED)
        code = compare_finish(c, &e);
    must(code, e);
    size_t listed = 0;
    const struct key_hash *missing = compare_missing(c, &listed);
    assert_int_equal(compare_tested(c), COMPARE_MISSING_MAX + MORE);
    assert_int_equal(listed, COMPARE_MISSING_MAX);
    assert_in_range(compare_missing_total(c), COMPARE_MISSING_MAX + MORE * 99 / 100,
                    COMPARE_MISSING_MAX + MORE);
    for (size_t i = 1; i < listed; i++)
        assert_true(by_value(&missing[i - 1], &missing[i]) <= 0);
}

/* --- threads --- */

struct one {
    unsigned index;
    enum err code;
};

static void *put_share(void *arg)
{
    struct one *o = arg;
    struct error e;
    for (unsigned i = o->index; i < 300000; i += WRITERS) {
        compare_put(c, o->index, builds_hash(i % 1000 == 7 ? ABSENT + i / 1000 : i % KEYS));
        if (i % 1000 < WRITERS)
            o->code = compare_page_end(c, o->index, &e);
        if (o->code != ERR_OK)
            return NULL;
    }
    o->code = compare_page_end(c, o->index, &e);
    return NULL;
}

static void test_compare__takes_keys_of_several_threads(void **state)
{
    struct one one[WRITERS];
    pthread_t thread[WRITERS];
    make(options(state));
    load();
    for (unsigned i = 0; i < WRITERS; i++) {
        one[i] = (struct one){.index = i};
        assert_int_equal(pthread_create(&thread[i], NULL, put_share, &one[i]), 0);
    }
    if (*state != NULL)
        for (unsigned i = 0; i < 3; i++)
            finish(); /* in the meantime */
    for (unsigned i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_int_equal(one[i].code, ERR_OK);
    }
    finish();
    missing_are(300);
    assert_int_equal(compare_tested(c), 300000);
}

/* --- what stops it --- */

/* In memory the load reads the shards, else the finish does. */
static void reading_gives(void **state, enum err code)
{
    struct error e = {""};
    enum err got = compare_load(c, &e);
    if (*state != NULL) {
        gives(ERR_OK, got, e);
        got = compare_finish(c, &e);
    }
    gives(code, got, e);
}

static void after_all(void **state)
{
    if (*state == NULL) {
        load();
        put(0, 0, KEYS);
    }
    put(1, ABSENT, 200); /* spilled: behind what the finish that failed has left */
    finish();
    missing_are(200);
    assert_int_equal(compare_tested(c), KEYS + 200);
}

static void before_all(void **state)
{
    if (*state != NULL)
        put(0, 0, KEYS);
}

static void test_compare__of_a_lost_shard_is_no_answer(void **state)
{
    make(options(state));
    before_all(state);
    builds_lose(2);
    reading_gives(state, ERR_LOST);
    builds_find(2);
    builds_spoil(3);
    reading_gives(state, ERR_LOST);
    builds_mend(3);
    after_all(state);
}

static void test_compare__goes_on_where_redis_did_not_answer(void **state)
{
    make(options(state));
    before_all(state);
    process_signal(&log_servers.redis[1].process, SIGSTOP);
    clock_sleep_us(50 * 1000);
    reading_gives(state, ERR_UNREACHABLE);
    process_signal(&log_servers.redis[1].process, SIGCONT);
    after_all(state);
}

static enum err stop_first(void *arg, struct error *e)
{
    bool *stopped = arg;
    if (*stopped)
        return ERR_OK;
    *stopped = true;
    return error_set(e, ERR_CANCELLED, "stop");
}

static void test_compare__goes_on_where_it_was_stopped(void **state)
{
    bool stopped = false;
    struct build_options o = options(state);
    o.poll = (struct work){stop_first, &stopped};
    make(o);
    before_all(state);
    reading_gives(state, ERR_CANCELLED);
    assert_true(stopped);
    after_all(state);
}

/* --- making one --- */

static void test_compare_new__says_what_it_needs(void **state)
{
    struct error e = {""};
    struct compare *none = NULL;
    struct build_options o = options(state);
    o.spill_dir = NULL;
    gives(ERR_CONFIG, compare_new(&none, &input, &o, &e), e);
    assert_non_null(strstr(e.text, "spill_dir"));
    o.spill_dir = "/nowhere";
    gives(ERR_CONFIG, compare_new(&none, &input, &o, &e), e);
    o = options(state);
    o.writers = 0;
    gives(ERR_RANGE, compare_new(&none, &input, &o, &e), e);
    assert_null(none);
}

static void test_compare_finish__refuses_where_no_shard_was_read(void **state)
{
    make(options(state));
    put(0, 0, 10);
    finish_gives(ERR_CONFLICT);
}

static void test_compare_is_full__when_so_much_is_spilled(void **state)
{
    make(options(state));
    unsigned n = 0;
    for (; n < 1000000 && !compare_is_full(c); n += 1000)
        put(0, n % KEYS, 1000);
    assert_in_range(n, 60000, 600000);
    finish();
    assert_false(compare_is_full(c));
    missing_are(0);
    assert_int_equal(compare_tested(c), n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_compare__finds_all_keys_that_are_there),
        BOTH(test_compare__finds_the_keys_that_are_missing),
        BOTH(test_compare_finish__may_be_done_again),
        BOTH(test_compare__sees_a_single_bit_that_is_missing),
        BOTH(test_compare_missing__lists_so_many_and_counts_the_rest),
        BOTH(test_compare__takes_keys_of_several_threads),
        BOTH(test_compare__of_a_lost_shard_is_no_answer),
        cmocka_unit_test_setup_teardown(test_compare__goes_on_where_redis_did_not_answer, setup_short,
                                        teardown),
        {"test_compare__goes_on_where_redis_did_not_answer (spilled)",
         test_compare__goes_on_where_redis_did_not_answer, setup_short, teardown, builds_spilled},
        BOTH(test_compare__goes_on_where_it_was_stopped),
        SPILLED(test_compare_new__says_what_it_needs),
        MEMORY(test_compare_finish__refuses_where_no_shard_was_read),
        SPILLED(test_compare_is_full__when_so_much_is_spilled),
    };
    return cmocka_run_group_tests(tests, log_start, log_stop);
}
