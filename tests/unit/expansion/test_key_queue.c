/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "expansion/job/key_queue.h"

enum { TAKE = 64, WAIT_MS = 20000, MIB = 1024 * 1024 };

static struct key_queue *new_queue(void)
{
    struct key_queue *b = key_queue_new();
    assert_non_null(b);
    return b;
}

static void test_key_queue_take__gives_keys_in_their_order_whatever_is_in_them(void **state)
{
    (void)state;
    struct key_queue *b = new_queue();
    const char *keys[TAKE];
    size_t lengths[TAKE];
    assert_int_equal(key_queue_take(b, TAKE, keys, lengths, 0), 0);
    assert_true(key_queue_put(b, "a", 1));
    assert_true(key_queue_put(b, "", 0));
    assert_true(key_queue_put(b, "b\0c", 3));
    assert_int_equal(key_queue_take(b, 2, keys, lengths, 0), 2);
    assert_int_equal(lengths[0], 1);
    assert_memory_equal(keys[0], "a", 1);
    assert_int_equal(lengths[1], 0);
    assert_true(key_queue_put(b, "later", 5));
    /* A call takes only keys of the first buffer. */
    assert_int_equal(key_queue_take(b, TAKE, keys, lengths, 0), 1);
    assert_int_equal(lengths[0], 3);
    assert_memory_equal(keys[0], "b\0c", 3);
    assert_int_equal(key_queue_take(b, TAKE, keys, lengths, 0), 1);
    assert_memory_equal(keys[0], "later", 5);
    assert_int_equal(key_queue_take(b, TAKE, keys, lengths, 0), 0);
    assert_false(key_queue_failed(b));
    key_queue_free(b);
    key_queue_free(NULL);
}

static void test_key_queue_take__gives_what_is_there_when_it_was_closed(void **state)
{
    (void)state;
    struct key_queue *b = new_queue();
    const char *keys[TAKE];
    size_t lengths[TAKE];
    assert_true(key_queue_put(b, "before", 6));
    key_queue_close(b);
    assert_false(key_queue_put(b, "after", 5));
    assert_int_equal(key_queue_take(b, TAKE, keys, lengths, WAIT_MS), 1);
    assert_memory_equal(keys[0], "before", 6);
    assert_int_equal(key_queue_take(b, TAKE, keys, lengths, WAIT_MS), 0); /* returns at once */
    key_queue_free(b);
}

static void test_key_queue_take__waits_for_the_first_key_no_longer_than_it_was_told(void **state)
{
    (void)state;
    struct key_queue *b = new_queue();
    const char *keys[TAKE];
    size_t lengths[TAKE];
    uint64_t began = clock_mono_us();
    assert_int_equal(key_queue_take(b, TAKE, keys, lengths, 30), 0);
    assert_true(clock_mono_us() - began >= 30000);
    key_queue_free(b);
}

/* --- several threads --- */

enum { WRITERS = 4, KEYS = 50000 };

struct writer {
    struct key_queue *queue;
    size_t pad; /* length of the padding of each key, in bytes */
    unsigned number, keys;
    atomic_uint put;
    atomic_bool refused;
};

static void *write_keys(void *arg)
{
    struct writer *w = arg;
    char *key = calloc(1, 32 + w->pad);
    if (key == NULL)
        abort();
    for (unsigned i = 0; i < w->keys; i++) {
        int n = snprintf(key, 32, "%u %u", w->number, i);
        if (!key_queue_put(w->queue, key, (size_t)n + 1 + w->pad)) {
            atomic_store(&w->refused, true);
            break;
        }
        atomic_fetch_add(&w->put, 1);
    }
    free(key);
    return NULL;
}

static pthread_t start(struct writer *w)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_keys, w), 0);
    return thread;
}

/* All keys of a writer arrive, in the writer's order. */
static void test_key_queue_put__loses_no_key_of_several_threads(void **state)
{
    (void)state;
    struct key_queue *b = new_queue();
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    unsigned next[WRITERS] = {0}, taken = 0;
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.queue = b, .number = i, .pad = i * 100, .keys = KEYS};
        threads[i] = start(&writers[i]);
    }
    while (taken < WRITERS * KEYS) {
        const char *keys[TAKE];
        size_t lengths[TAKE];
        size_t n = key_queue_take(b, TAKE, keys, lengths, WAIT_MS);
        assert_true(n > 0);
        for (size_t i = 0; i < n; i++) {
            char *end;
            unsigned long writer = strtoul(keys[i], &end, 10), key = strtoul(end, NULL, 10);
            assert_true(writer < WRITERS);
            assert_int_equal(key, next[writer]++);
            assert_int_equal(lengths[i], strlen(keys[i]) + 1 + writer * 100);
        }
        taken += (unsigned)n;
    }
    for (unsigned i = 0; i < WRITERS; i++)
        (void)pthread_join(threads[i], NULL);
    key_queue_free(b);
}

/* A writer waits while the queue has 4 MiB of keys. */
static void test_key_queue_put__waits_for_room_and_goes_on_when_there_is_some(void **state)
{
    (void)state;
    struct key_queue *b = new_queue();
    struct writer w = {.queue = b, .pad = MIB, .keys = 20};
    pthread_t thread = start(&w);
    const char *keys[TAKE];
    size_t lengths[TAKE];
    unsigned taken = 0;
    clock_sleep_us(50000);
    assert_true(atomic_load(&w.put) <= 4);
    while (taken < w.keys) {
        size_t n = key_queue_take(b, 1, keys, lengths, WAIT_MS);
        assert_int_equal(n, 1);
        taken++;
        /* There are two buffers of 4 MiB, one of which is being emptied. */
        assert_true(atomic_load(&w.put) <= taken + 8);
    }
    (void)pthread_join(thread, NULL);
    assert_false(atomic_load(&w.refused));
    key_queue_free(b);
}

static void test_key_queue_put__takes_a_key_larger_than_all_its_room(void **state)
{
    (void)state;
    struct key_queue *b = new_queue();
    struct writer w = {.queue = b, .pad = (size_t)6 * MIB, .keys = 3};
    pthread_t thread = start(&w);
    for (unsigned i = 0; i < w.keys; i++) {
        const char *keys[TAKE];
        size_t lengths[TAKE];
        assert_int_equal(key_queue_take(b, TAKE, keys, lengths, WAIT_MS), 1);
        assert_true(lengths[0] > (size_t)6 * MIB);
    }
    (void)pthread_join(thread, NULL);
    key_queue_free(b);
}

static void test_key_queue_close__lets_those_go_who_wait_for_room(void **state)
{
    (void)state;
    struct key_queue *b = new_queue();
    struct writer w = {.queue = b, .pad = MIB, .keys = 20};
    pthread_t thread = start(&w);
    while (atomic_load(&w.put) < 3)
        clock_sleep_us(1000);
    key_queue_close(b);
    (void)pthread_join(thread, NULL);
    assert_true(atomic_load(&w.refused));
    assert_false(key_queue_failed(b));
    key_queue_free(b);
}

/* If there is no memory for a key, the queue rejects the whole key. The next keys stay readable. */
static void test_key_queue_put__refuses_what_there_is_no_memory_for(void **state)
{
    (void)state;
    struct key_queue *b = new_queue();
    const char *keys[TAKE];
    size_t lengths[TAKE];
    assert_true(key_queue_put(b, "fine", 4));
    assert_int_equal(key_queue_take(b, TAKE, keys, lengths, 0), 1);
    assert_false(key_queue_put(b, "", SIZE_MAX - 8)); /* no buffer can be so large */
    assert_true(key_queue_failed(b));
    assert_int_equal(key_queue_take(b, TAKE, keys, lengths, 0), 0);
    assert_true(key_queue_put(b, "again", 5));
    assert_int_equal(key_queue_take(b, TAKE, keys, lengths, 0), 1);
    assert_memory_equal(keys[0], "again", 5);
    assert_true(key_queue_failed(b));
    key_queue_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key_queue_take__gives_keys_in_their_order_whatever_is_in_them),
        cmocka_unit_test(test_key_queue_take__gives_what_is_there_when_it_was_closed),
        cmocka_unit_test(test_key_queue_take__waits_for_the_first_key_no_longer_than_it_was_told),
        cmocka_unit_test(test_key_queue_put__loses_no_key_of_several_threads),
        cmocka_unit_test(test_key_queue_put__waits_for_room_and_goes_on_when_there_is_some),
        cmocka_unit_test(test_key_queue_put__takes_a_key_larger_than_all_its_room),
        cmocka_unit_test(test_key_queue_close__lets_those_go_who_wait_for_room),
        cmocka_unit_test(test_key_queue_put__refuses_what_there_is_no_memory_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
