/* SPDX-License-Identifier: MIT */
/* BF.SCANDUMP: a dump is complete, or it is refused. */
#include "tests/integration/dumps.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/filter/dump.h"
#include "shard/filter/names.h"

enum { BIG = 120000, BIG_CAPACITY = 50000 };

static struct two two;

static int setup(void **state)
{
    (void)state;
    return two_start(&two);
}

static int teardown(void **state)
{
    (void)state;
    return two_stop(&two);
}

static void test_dump__of_many_keys_in_layers_is_loaded_elsewhere_as_it_was(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump d = {0};
    must(client_ok(&two.from, &e, "BF.RESERVE big 0.01 %d", BIG_CAPACITY), e);
    must(client_madd(&two.from, "big", fixture_code, 0, BIG, &e), e);
    must(dump_rest(&d, &two.from, "big", &e), e);
    assert_int_equal(two_status(&two.from, "big", "layers"), 2);
    assert_in_range(d.count, 3, DUMP_PIECES_MAX);
    must(dump_load_all(&d, &two.to, "big copy", &e), e);
    dump_free(&d);
    two_all_present(&two.to, "big copy", 0, BIG);
    uint64_t before = two_false_positives(&two.from, "big");
    assert_in_range(before, 1, TWO_ABSENT / 100);
    assert_int_equal(two_false_positives(&two.to, "big copy"), before);
    two_same_info(&two, "big", "big copy");
}

/* The copy has the same layers, so it is full at the same count and then gets the same new layer. */
static void test_dump__loaded_grows_as_the_original_does(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump d = {0};
    two_make(&two, "growing", 1000, 2900, &d);
    must(dump_load_all(&d, &two.to, "growing", &e), e);
    dump_free(&d);
    int64_t layers = two_status(&two.from, "growing", "layers");
    assert_int_equal(two_status(&two.to, "growing", "layers"), layers);
    must(client_madd(&two.from, "growing", fixture_code, 2900, 5000, &e), e);
    must(client_madd(&two.to, "growing", fixture_code, 2900, 5000, &e), e);
    two_all_present(&two.to, "growing", 0, 7900);
    assert_in_range(two_status(&two.from, "growing", "layers"), layers + 1, 24);
    two_same_info(&two, "growing", "growing");
}

static void test_dump__of_a_filter_that_does_not_scale_stays_full(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump d = {0};
    must(client_ok(&two.from, &e, "BF.RESERVE fixed 0.01 10 NONSCALING"), e);
    must(client_madd(&two.from, "fixed", fixture_code, 0, 10, &e), e);
    must(dump_rest(&d, &two.from, "fixed", &e), e);
    must(dump_load_all(&d, &two.to, "fixed", &e), e);
    dump_free(&d);
    redisReply *r = client_command(&two.to, "BF.ADD fixed onemore");
    assert_int_equal(r->type, REDIS_REPLY_ERROR);
    assert_string_equal(r->str, "ERR non scaling filter is full");
    freeReplyObject(r);
}

/* --- consistent while adds go on --- */

struct adder {
    atomic_bool stop;
    atomic_uint_fast64_t acknowledged; /* keys 0 .. n - 1 */
    atomic_bool failed;
};

static void *run_adder(void *arg)
{
    struct adder *a = arg;
    struct client c;
    struct error e = {""};
    if (client_open(&c, two.fixture.daemon[0].port, TWO_REPLY_MS, &e) != ERR_OK) {
        a->failed = true;
        return NULL;
    }
    while (!atomic_load(&a->stop) && !a->failed) {
        uint64_t n = atomic_load(&a->acknowledged);
        a->failed = client_madd(&c, "busy", fixture_code, n, 100, &e) != ERR_OK;
        if (!a->failed)
            atomic_store(&a->acknowledged, n + 100);
        clock_sleep_us(1000);
    }
    client_close(&c);
    return NULL;
}

static void test_dump__holds_every_key_acknowledged_before_it_began(void **state)
{
    (void)state;
    struct adder a = {0};
    pthread_t thread;
    struct error e = {""};
    /* The dump has several chunks, and the filter is so small that it gains layers all the time. */
    must(client_ok(&two.from, &e, "BF.RESERVE busy 0.01 100 EXPANSION 4"), e);
    assert_int_equal(pthread_create(&thread, NULL, run_adder, &a), 0);
    for (unsigned round = 0; round < 6; round++) {
        struct dump d = {0};
        char name[16];
        uint64_t wanted = atomic_load(&a.acknowledged) + 900;
        while (atomic_load(&a.acknowledged) < wanted && !a.failed)
            clock_sleep_us(1000);
        uint64_t sure = atomic_load(&a.acknowledged);
        must(dump_rest(&d, &two.from, "busy", &e), e);
        (void)snprintf(name, sizeof(name), "busy%u", round);
        must(dump_load_all(&d, &two.to, name, &e), e);
        dump_free(&d);
        two_all_present(&two.to, name, 0, sure);
    }
    atomic_store(&a.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(a.failed);
    assert_in_range(two_status(&two.from, "busy", "layers"), 4, 24);
}

/* Layers that are made after the header are not in the dump. The other layers have all keys that were
 * acknowledged before. */
static void test_dump__goes_on_when_the_filter_gains_layers(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump d = {0};
    must(client_ok(&two.from, &e, "BF.RESERVE gaining 0.01 1000"), e);
    must(client_madd(&two.from, "gaining", fixture_code, 0, 900, &e), e);
    must(dump_next(&d, &two.from, "gaining", 0, &e), e);
    must(client_madd(&two.from, "gaining", fixture_code, 900, 9000, &e), e);
    assert_in_range(two_status(&two.from, "gaining", "layers"), 2, 24);
    must(dump_rest(&d, &two.from, "gaining", &e), e);
    must(dump_load_all(&d, &two.to, "gaining", &e), e);
    dump_free(&d);
    assert_int_equal(two_status(&two.to, "gaining", "layers"), 1);
    two_all_present(&two.to, "gaining", 0, 900);
}

static void test_dump__is_refused_once_another_generation_is_in_use(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump d = {0};
    int64_t generation = fixture_generation(&two.fixture, 0);
    must(dump_next(&d, &two.from, FILTER, 0, &e), e);
    must(dump_next(&d, &two.from, FILTER, d.piece[0].position, &e), e);
    fixture_ask(&two.fixture, 0, "TB.REBUILD " FILTER);
    for (unsigned i = 0; i < 1000 && fixture_generation(&two.fixture, 0) == generation; i++)
        clock_sleep_us(20000);
    static const char again[] = "TRYAGAIN the filter was rebuilt during the dump: begin again with 0";
    two_refused(dump_next(&d, &two.from, FILTER, d.piece[0].position, &e), &e, again);
    two_refused(dump_next(&d, &two.from, FILTER, 5, &e), &e, again);
    two_refused(dump_next(&d, &two.from, FILTER, -1, &e), &e, again);
    dump_free(&d);
    must(dump_rest(&d, &two.from, FILTER, &e), e);
    must(dump_load_all(&d, &two.to, FILTER, &e), e);
    dump_free(&d);
    two_all_present(&two.to, FILTER, 0, 2000);
    assert_int_equal(two_status(&two.to, FILTER, "has_source"), 0);
}

/* One of 1024 filters has the same positions as the one before: then make another one. */
static void test_dump__is_refused_once_the_filter_was_made_again(void **state)
{
    (void)state;
    enum { PART_BITS = 10 };
    struct error e = {""};
    struct dump d = {0};
    two_make_layers(&two, "remade", &d);
    uint64_t part = 0, before = (uint64_t)d.piece[0].position >> (31 - PART_BITS);
    for (unsigned i = 0; i == 0 || part == before; i++) {
        struct dump other = {0};
        int64_t deleted = 0;
        must(client_integer(&two.from, &deleted, &e, "DEL remade"), e);
        assert_int_equal(deleted, 1);
        two_make_layers(&two, "remade", &other);
        part = (uint64_t)other.piece[0].position >> (31 - PART_BITS);
        dump_free(&other);
        assert_in_range(i, 0, 3);
    }
    two_refused(dump_next(&d, &two.from, "remade", d.piece[1].position, &e), &e,
                "TRYAGAIN the filter was rebuilt during the dump: begin again with 0");
    dump_free(&d);
}

/* --- what cannot be dumped --- */

/* A missing shard is written again from memory. A key of another form is not replaced. */
static void test_dump__of_a_lost_shard_waits_for_it_and_of_a_spoilt_one_is_an_error(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump d = {0};
    char name[KEY_NAME_MAX];
    enum err code = ERR_REFUSED;
    two_make(&two, "lossy", 1000, 10, &d);
    int64_t position = d.piece[0].position;
    dump_free(&d);
    d = (struct dump){0};
    two_find_key(&two.from_node, "twinbloom:{lossy.1.0.0}:*", name);
    two_tell(&two.from_node, "DEL %s", name);
    for (unsigned i = 0; i < 200 && code == ERR_REFUSED; i++) {
        code = dump_rest(&d, &two.from, "lossy", &e);
        if (code == ERR_REFUSED) {
            assert_int_equal(strncmp(e.text, "LOST ", 5), 0);
            dump_free(&d);
            d = (struct dump){0};
            clock_sleep_us(50000);
        }
    }
    must(code, e);
    must(dump_load_all(&d, &two.to, "lossy", &e), e);
    two_all_present(&two.to, "lossy", 0, 10);
    dump_free(&d);
    d = (struct dump){0};
    two_tell(&two.from_node, "SET %s short", name);
    assert_int_equal(dump_next(&d, &two.from, "lossy", position, &e), ERR_REFUSED);
    assert_int_equal(strncmp(e.text, "LOST ", 5), 0);
}

static void test_dump__of_a_filter_that_is_not_built_is_an_error(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump d = {0};
    two_make(&two, "unbuilt", 1000, 10, &d);
    dump_free(&d);
    redisReply *r = client_command(&two.from_node, "HGET twinbloom:{unbuilt}:view generation1");
    assert_int_equal(r->type, REDIS_REPLY_STRING);
    char *built = strstr(r->str, "built=1");
    assert_non_null(built);
    built[6] = '0';
    two_tell(&two.from_node, "HSET twinbloom:{unbuilt}:view generation1 %s", r->str);
    freeReplyObject(r);
    two_refused(dump_next(&d, &two.from, "unbuilt", 0, &e), &e,
                "CONFLICT the filter is not built yet: there is nothing to dump");
}

static void test_scandump__refuses_in_the_order_of_the_contract(void **state)
{
    (void)state;
    struct dump d = {0};
    two_make(&two, "order", 100, 1, &d);
    dump_free(&d);
    two_says(&two.from, "BF.SCANDUMP nosuch abc", "ERR not found");
    two_says(&two.from, "BF.SCANDUMP nosuch 0", "ERR not found");
    two_says(&two.from, "BF.SCANDUMP order abc", "Second argument must be numeric");
    two_says(&two.from, "BF.SCANDUMP order +1", "Second argument must be numeric");
    two_says(&two.from, "BF.SCANDUMP order", "ERR wrong number of arguments for 'bf.scandump' command");
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_dump__of_many_keys_in_layers_is_loaded_elsewhere_as_it_was),
        TEST(test_dump__loaded_grows_as_the_original_does),
        TEST(test_dump__of_a_filter_that_does_not_scale_stays_full),
        TEST(test_dump__holds_every_key_acknowledged_before_it_began),
        TEST(test_dump__goes_on_when_the_filter_gains_layers),
        TEST(test_dump__is_refused_once_another_generation_is_in_use),
        TEST(test_dump__is_refused_once_the_filter_was_made_again),
        TEST(test_dump__of_a_lost_shard_waits_for_it_and_of_a_spoilt_one_is_an_error),
        TEST(test_dump__of_a_filter_that_is_not_built_is_an_error),
        TEST(test_scandump__refuses_in_the_order_of_the_contract),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
