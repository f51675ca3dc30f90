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
#include <unistd.h>
#include "base/clock.h"
#include "tests/lib/process.h"
#include "migrate/build/spill.h"

#define must(expression, e)                                                                                  \
    do {                                                                                                     \
        if ((expression) != ERR_OK)                                                                          \
            fail_msg("%s: %s", #expression, (e).text);                                                       \
    } while (0)

enum { PARTITIONS = 5, WRITERS = 4, KEYS_MAX = 400000 };

static char directory[PATH_MAX];
static struct spill *spill;
static struct periodic nobody;
static uint8_t *found; /* how many times each key was read */

static void renew(uint32_t partitions, unsigned writers)
{
    struct error e = {""};
    spill_free(spill);
    must(spill_new(&spill, directory, partitions, writers, &e), e);
}

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    must(process_make_directory(directory, "spill", &e), e);
    found = calloc(KEYS_MAX, 1);
    assert_non_null(found);
    nobody = (struct periodic){0};
    renew(PARTITIONS, WRITERS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    spill_free(spill);
    spill = NULL;
    free(found);
    assert_int_equal(rmdir(directory), 0);
    return 0;
}

/* The hash contains the key, which determines the partition. */
static void put(unsigned writer, uint32_t partitions, uint64_t key)
{
    spill_put(spill_writer(spill, writer), (uint32_t)(key % partitions),
              (struct key_hash){.high = key, .low = ~key});
}

static void put_page(unsigned writer, uint64_t first, uint64_t count)
{
    for (uint64_t key = first; key < first + count; key++)
        put(writer, PARTITIONS, key);
}

static void end_page(unsigned writer)
{
    struct error e = {""};
    must(spill_page_end(spill_writer(spill, writer), &e), e);
}

static enum err note(void *arg, const struct key_hash *hashes, uint32_t count, struct error *e)
{
    (void)e;
    const uint32_t *which = arg; /* the partition and the number of partitions */
    for (uint32_t i = 0; i < count; i++) {
        assert_true(hashes[i].high < KEYS_MAX && hashes[i].low == ~hashes[i].high);
        assert_int_equal(hashes[i].high % which[1], which[0]);
        found[hashes[i].high]++;
    }
    return ERR_OK;
}

/* Read and forget all partitions of the sealed file. */
static void drain(uint32_t partitions)
{
    struct error e = {""};
    for (uint32_t i = 0; i < partitions; i++) {
        uint32_t which[] = {i, partitions};
        must(spill_file_read(spill_sealed(spill), i, note, which, &e), e);
        spill_file_forget(spill_sealed(spill), i);
        assert_false(spill_file_holds(spill_sealed(spill), i));
    }
    assert_false(spill_is_sealed(spill));
}

static void seal(void)
{
    struct error e = {""};
    must(spill_seal(spill, &nobody, &e), e);
}

static void keys_came(uint64_t first, uint64_t count, unsigned times)
{
    for (uint64_t key = first; key < first + count; key++)
        if (found[key] != times)
            fail_msg("key %llu came %u times, not %u", (unsigned long long)key, found[key], times);
}

/* --- sealing --- */

static void test_spill_seal__gives_what_ended_pages_have(void **state)
{
    (void)state;
    put_page(0, 0, 1000);
    put_page(1, 1000, 1);
    end_page(0);
    end_page(1);
    assert_false(spill_is_sealed(spill));
    seal();
    assert_true(spill_is_sealed(spill));
    drain(PARTITIONS);
    keys_came(0, 1001, 1);
    assert_int_equal(spill_bytes(spill), 0);
}

static void test_spill_seal__gives_what_came_since_the_last_time(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 7; round++) {
        put_page(round % WRITERS, round * 1000, 1000);
        end_page(round % WRITERS);
        seal();
        put_page(3, 100000 + round, 1); /* this key is for the next round */
        end_page(3);
        drain(PARTITIONS);
        keys_came(0, (round + 1) * 1000, 1);
        keys_came(100000, round, 1);
        keys_came(100000 + round, 1, 0);
    }
}

static void test_spill_seal__does_not_touch_what_was_not_forgotten(void **state)
{
    (void)state;
    put_page(0, 0, 100);
    end_page(0);
    seal();
    put_page(0, 100, 100);
    end_page(0);
    /* The first hundred keys were not read yet, so the file stays sealed. */
    seal();
    drain(PARTITIONS);
    keys_came(0, 100, 1);
    keys_came(100, 100, 0);
    seal();
    drain(PARTITIONS);
    keys_came(0, 200, 1);
}

static void test_spill_read__may_be_done_again(void **state)
{
    (void)state;
    struct error e = {""};
    uint32_t which[] = {2, PARTITIONS};
    put_page(0, 0, 100);
    end_page(0);
    seal();
    assert_true(spill_file_holds(spill_sealed(spill), 2));
    must(spill_file_read(spill_sealed(spill), 2, note, which, &e), e);
    assert_int_equal(found[2], 1);
    drain(PARTITIONS);
    assert_int_equal(found[2], 2);
    assert_int_equal(found[3], 1);
}

/* --- a writer in the middle of a page --- */

static enum err stop_at_third(void *arg, struct error *e)
{
    unsigned *calls = arg;
    return ++*calls == 3 ? error_set(e, ERR_CANCELLED, "stop") : ERR_OK;
}

static void test_spill_seal__can_be_stopped_while_it_waits_for_a_page(void **state)
{
    (void)state;
    struct error e = {""};
    unsigned calls = 0;
    struct periodic impatient = {.work = {stop_at_third, &calls}};
    put_page(0, 0, 100);
    end_page(0);
    put_page(1, 100, 100);
    assert_int_equal(spill_seal(spill, &impatient, &e), ERR_CANCELLED);
    assert_int_equal(calls, 3);
    assert_true(spill_is_sealed(spill));
    put_page(1, 200, 50);
    put_page(2, 250, 50); /* writer 2 had no open page, so it already uses the next file */
    end_page(1);
    end_page(2);
    seal();
    drain(PARTITIONS);
    keys_came(0, 250, 1);
    seal();
    drain(PARTITIONS);
    keys_came(0, 300, 1);
}

/* What was put before the first seal comes first, also where none of it was written yet. */
static void test_spill_seal__can_be_stopped_twice_and_is_the_same_seal(void **state)
{
    (void)state;
    struct error e = {""};
    put_page(1, 0, 100);
    end_page(1);
    put_page(1, 100, 1);
    for (int i = 0; i < 2; i++) {
        unsigned calls = 0;
        struct periodic impatient = {.work = {stop_at_third, &calls}};
        assert_int_equal(spill_seal(spill, &impatient, &e), ERR_CANCELLED);
        put_page(0, 200 + 50 * (uint64_t)i, 50);
        end_page(0);
    }
    end_page(1);
    seal();
    drain(PARTITIONS);
    keys_came(0, 101, 1);
    keys_came(200, 100, 0);
    seal();
    drain(PARTITIONS);
    keys_came(200, 100, 1);
}

static atomic_bool ended;

static void *end_later(void *arg)
{
    (void)arg;
    struct error e;
    clock_sleep_us(30 * 1000);
    atomic_store(&ended, true);
    return spill_page_end(spill_writer(spill, 1), &e) == ERR_OK ? NULL : spill;
}

static void test_spill_seal__waits_for_the_end_of_a_page(void **state)
{
    (void)state;
    pthread_t thread;
    void *failed = NULL;
    atomic_store(&ended, false);
    put_page(1, 0, 100);
    assert_int_equal(pthread_create(&thread, NULL, end_later, NULL), 0);
    seal();
    assert_true(atomic_load(&ended));
    drain(PARTITIONS);
    keys_came(0, 100, 1);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
}

/* --- buffers --- */

static void test_spill__has_room_for_the_most_writers_and_partitions(void **state)
{
    (void)state;
    renew(1024, 64);
    for (uint64_t key = 0; key < KEYS_MAX; key++)
        put((unsigned)(key / 7 % 64), 1024, key);
    for (unsigned i = 0; i < 64; i++)
        end_page(i);
    seal();
    drain(1024);
    keys_came(0, KEYS_MAX, 1);
    assert_int_equal(spill_bytes(spill), 0);
}

static void test_spill_bytes__grow_when_buffers_are_full(void **state)
{
    (void)state;
    put_page(0, 0, 100);
    end_page(0);
    assert_int_equal(spill_bytes(spill), 0);
    put_page(0, 100, KEYS_MAX - 100);
    end_page(0);
    assert_in_range(spill_bytes(spill), 1, KEYS_MAX * 17);
    seal();
    assert_in_range(spill_bytes(spill), KEYS_MAX * 16, KEYS_MAX * 17);
    drain(PARTITIONS);
    assert_int_equal(spill_bytes(spill), 0);
    keys_came(0, KEYS_MAX, 1);
}

/* --- threads --- */

static atomic_uint at_work;

static void *write_share(void *arg)
{
    unsigned writer = *(unsigned *)arg, random = writer + 1;
    struct error e;
    enum err code = ERR_OK;
    for (uint64_t key = writer; key < KEYS_MAX; key += WRITERS) {
        put(writer, PARTITIONS, key);
        random = random * 1103515245 + 12345;
        if (random >> 20 == 0 || key + WRITERS >= KEYS_MAX)
            code = spill_page_end(spill_writer(spill, writer), &e);
        if (code != ERR_OK)
            break;
    }
    (void)atomic_fetch_sub(&at_work, 1);
    return code == ERR_OK ? NULL : arg;
}

static void test_spill__loses_no_hash_of_any_thread(void **state)
{
    (void)state;
    pthread_t thread[WRITERS];
    unsigned index[WRITERS];
    atomic_store(&at_work, WRITERS);
    for (unsigned i = 0; i < WRITERS; i++) {
        index[i] = i;
        assert_int_equal(pthread_create(&thread[i], NULL, write_share, &index[i]), 0);
    }
    for (bool last = false; !last;) {
        last = atomic_load(&at_work) == 0;
        seal();
        drain(PARTITIONS);
    }
    for (unsigned i = 0; i < WRITERS; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(thread[i], &failed), 0);
        assert_null(failed);
    }
    keys_came(0, KEYS_MAX, 1);
    assert_int_equal(spill_bytes(spill), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_spill_seal__gives_what_ended_pages_have),
        TEST(test_spill_seal__gives_what_came_since_the_last_time),
        TEST(test_spill_seal__does_not_touch_what_was_not_forgotten),
        TEST(test_spill_read__may_be_done_again),
        TEST(test_spill_seal__can_be_stopped_while_it_waits_for_a_page),
        TEST(test_spill_seal__can_be_stopped_twice_and_is_the_same_seal),
        TEST(test_spill_seal__waits_for_the_end_of_a_page),
        TEST(test_spill__has_room_for_the_most_writers_and_partitions),
        TEST(test_spill_bytes__grow_when_buffers_are_full),
        TEST(test_spill__loses_no_hash_of_any_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
