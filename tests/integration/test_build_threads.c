/* SPDX-License-Identifier: MIT */
/* Builds by several threads, flushed at random moments: no key is lost. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "migrate/verify/log_check.h"
#include "tests/integration/builds.h"

enum { KEYS = LOG_BUILD_KEYS, WRITERS_MAX = 8, PAGE_MAX = 100, LOOKS = 20 };

/* --- writers --- */

struct crowd {
    struct build *b;
    unsigned writers;
    atomic_uint at_work;
    atomic_uint ended[WRITERS_MAX]; /* how many keys of each writer are in ended pages */
    atomic_uint failed;
};

struct one {
    struct crowd *crowd;
    unsigned index;
    unsigned random;
};

static unsigned draw(unsigned *random, unsigned below)
{
    *random = *random * 1103515245 + 12345;
    return (*random >> 16) % below;
}

/* Put one writer's keys: key number n of writer i is n * writers + i. */
static void *put_share(void *arg)
{
    struct one *o = arg;
    struct crowd *c = o->crowd;
    struct error e = {""};
    for (unsigned n = 0; n < KEYS / c->writers;) {
        unsigned page = 1 + draw(&o->random, PAGE_MAX);
        for (; page > 0 && n < KEYS / c->writers; page--, n++)
            build_put(c->b, o->index, log_key(n * c->writers + o->index));
        if (build_page_end(c->b, o->index, &e) != ERR_OK)
            (void)atomic_fetch_add(&c->failed, 1);
        atomic_store(&c->ended[o->index], n);
        if (draw(&o->random, 2) == 0)
            clock_sleep_us(draw(&o->random, 4000));
    }
    (void)atomic_fetch_sub(&c->at_work, 1);
    return NULL;
}

/* --- the driver --- */

static enum err stop_sometimes(void *arg, struct error *e)
{
    return draw(arg, 3) == 0 ? error_set(e, ERR_CANCELLED, "stop") : ERR_OK;
}

/* Keys whose pages ended before a flush must be in Redis after it. */
static void some_are_there(const struct crowd *c, const unsigned *ended, unsigned *random)
{
    struct key_hash keys[WRITERS_MAX * LOOKS];
    uint8_t found[WRITERS_MAX * LOOKS];
    size_t count = 0;
    struct error e = {""};
    for (unsigned i = 0; i < c->writers; i++)
        for (unsigned j = 0; j < LOOKS && ended[i] > 0; j++) {
            unsigned n = j == 0 ? ended[i] - 1 : draw(random, ended[i]);
            keys[count++] = log_key(n * c->writers + i);
        }
    must(log_check(builds.builder, keys, count, found, &e), e);
    for (size_t i = 0; i < count; i++)
        assert_true(found[i]);
}

static void flush_at_random(struct crowd *c, unsigned *random)
{
    unsigned ended[WRITERS_MAX], flushes = 0, stopped = 0;
    for (bool last = false; !last;) {
        struct error e = {""};
        last = atomic_load(&c->at_work) == 0;
        for (unsigned i = 0; i < c->writers; i++)
            ended[i] = atomic_load(&c->ended[i]);
        enum err code = build_flush(c->b, &e);
        if (code == ERR_CANCELLED) {
            stopped++;
            last = false;
            continue;
        }
        must(code, e);
        flushes++;
        some_are_there(c, ended, random);
        clock_sleep_us(draw(random, 4000));
    }
    print_message("%u writers, %u partitions: %u flushes, %u stopped\n", c->writers, build_partitions(c->b),
                  flushes, stopped);
}

static void no_key_is_lost(unsigned writers, uint64_t memory, uint64_t seed)
{
    struct crowd c = {.writers = writers};
    struct one one[WRITERS_MAX];
    pthread_t thread[WRITERS_MAX];
    unsigned random = (unsigned)seed;
    void *none = NULL;
    struct build_options o = builds_options(&none);
    o.memory = memory;
    o.writers = writers;
    o.poll = (struct work){stop_sometimes, &random};
    builds_make(o);
    c.b = builds_build;
    atomic_store(&c.at_work, writers);
    for (unsigned i = 0; i < writers; i++) {
        one[i] = (struct one){&c, i, (unsigned)seed + i};
        assert_int_equal(pthread_create(&thread[i], NULL, put_share, &one[i]), 0);
    }
    flush_at_random(&c, &random);
    for (unsigned i = 0; i < writers; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_int_equal(atomic_load(&c.failed), 0);
    builds_all_there(0, KEYS / writers * writers);
    assert_in_range(build_take_count(c.b), KEYS * 99 / 100, KEYS);
    assert_int_equal(build_spilled_bytes(c.b), 0);
}

static uint64_t seed(void)
{
    uint64_t n = random_u64();
    print_message("seed %llx\n", (unsigned long long)n);
    return n;
}

static void test_build__loses_no_key_of_one_writer(void **state)
{
    (void)state;
    no_key_is_lost(1, UINT64_MAX, seed());
}

static void test_build__loses_no_key_of_several_writers(void **state)
{
    (void)state;
    no_key_is_lost(4, UINT64_MAX, seed());
}

static void test_build__loses_no_spilled_key_of_one_writer(void **state)
{
    (void)state;
    no_key_is_lost(1, LOG_SPILLS, seed());
}

static void test_build__loses_no_spilled_key_of_several_writers(void **state)
{
    (void)state;
    no_key_is_lost(4, LOG_SPILLS, seed());
}

static void test_build__loses_no_key_where_one_shard_fits(void **state)
{
    (void)state;
    no_key_is_lost(WRITERS_MAX, 1, seed());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MEMORY(test_build__loses_no_key_of_one_writer),
        MEMORY(test_build__loses_no_key_of_several_writers),
        MEMORY(test_build__loses_no_spilled_key_of_one_writer),
        MEMORY(test_build__loses_no_spilled_key_of_several_writers),
        MEMORY(test_build__loses_no_key_where_one_shard_fits),
    };
    return cmocka_run_group_tests(tests, log_start, log_stop);
}
