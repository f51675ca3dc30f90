/* SPDX-License-Identifier: MIT */
/* Which entries of a lane are kept: by time, by bytes, and all that somebody needs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "shard/fold/due.h"
#include "shard/fold/retain.h"

enum { S = 1000 * 1000, KEPT_US = 60 * S, KEPT_BYTES = 10000 };

static struct retain r;

/* Note the position @id, whose entry has the sequence @id. */
static void note(uint64_t second, uint64_t bytes, uint64_t id)
{
    uint8_t entry[LOG_ENTRY_BYTES_MAX], writer[LOG_WRITER_BYTES] = {7};
    struct log_position *p = calloc(1, sizeof(*p));
    log_position_set(p, (struct log_id){id, 0}, entry, log_entry_encode(entry, writer, id, NULL, 0));
    retain_note(&r, second * S, bytes, p);
    free(p);
}

/* Returns the id of the bound; 0: there is none. */
static uint64_t bound(uint64_t second, uint64_t bytes, uint64_t folded)
{
    const struct fold_bound b = {.some = folded != 0, .id = {folded, 0}};
    const struct log_mark *m = retain_bound(&r, second * S, bytes, &b);
    return m == NULL ? 0 : m->id.ms;
}

static void trimmed(uint64_t id)
{
    retain_trimmed(&r, &(struct log_mark){.id = {id, 0}});
}

static void test_retain__keeps_what_is_young(void **state)
{
    (void)state;
    retain_init(&r, KEPT_US, KEPT_BYTES, 0);
    assert_int_equal(bound(1000, 0, 5), 0); /* a new folder knows no times yet */
    for (uint64_t s = 0; s < 100; s++)
        note(1000 + s, s, 10 + s);
    assert_int_equal(bound(1059, 100, 200), 0);
    assert_int_equal(bound(1060, 100, 200), 10);
    uint64_t id = bound(1099, 100, 200);
    assert_true(id > 45 && id <= 49); /* noted at 1039, or a little before */
    trimmed(id);
    assert_int_equal(bound(1099, 100, 200), 0);
    assert_true(bound(1110, 100, 200) > id);
}

static void test_retain__keeps_what_somebody_needs(void **state)
{
    (void)state;
    retain_init(&r, KEPT_US, KEPT_BYTES, 0);
    for (uint64_t s = 0; s < 100; s += 10)
        note(1000 + s, s, 10 + s);
    assert_int_equal(bound(2000, 100, 0), 0);
    assert_int_equal(bound(2000, 100, 9), 0);
    assert_int_equal(bound(2000, 100, 30), 30);
    assert_int_equal(bound(2000, 100, 39), 30);
    assert_int_equal(bound(2000, 100, 300), 100);
}

static void test_retain__keeps_no_more_than_its_bytes(void **state)
{
    (void)state;
    retain_init(&r, KEPT_US, KEPT_BYTES, 500000); /* counted by the caller before */
    for (uint64_t s = 1; s <= 20; s++)
        note(1000 + s, 500000 + s * 1000, s);
    assert_int_equal(bound(1020, 509000, 100), 0);
    assert_int_equal(bound(1020, 510000, 100), 0);
    assert_int_equal(bound(1020, 510001, 100), 1);
    assert_int_equal(bound(1020, 520000, 100), 10); /* 10,000 bytes come after it */
    trimmed(10);
    assert_int_equal(bound(1020, 520000, 100), 0);
    assert_int_equal(bound(1020, 521001, 100), 12);
    assert_int_equal(bound(1020, 521001, 11), 11); /* not beyond the folded position */
}

/* The bound has the bytes of the entry, too, because another lane may have the same id. */
static void test_retain__tells_the_entry(void **state)
{
    uint8_t entry[LOG_ENTRY_BYTES_MAX], writer[LOG_WRITER_BYTES] = {7};
    (void)state;
    retain_init(&r, KEPT_US, KEPT_BYTES, 0);
    note(1000, 0, 77);
    const struct log_mark *m = retain_bound(&r, UINT64_C(2000) * S, 0, &(struct fold_bound){true, {100, 0}});
    assert_non_null(m);
    assert_int_equal(log_entry_encode(entry, writer, 77, NULL, 0), LOG_ENTRY_BYTES_MIN);
    assert_memory_equal(m->head, entry, LOG_ENTRY_BYTES_MIN);
}

/* A build may hold the lane for hours. When the hold ends, the entries after it can be trimmed at once. */
static void test_retain__remembers_old_positions_while_it_must_wait(void **state)
{
    (void)state;
    retain_init(&r, KEPT_US, KEPT_BYTES, 0);
    for (uint64_t s = 1; s <= 20000; s++) {
        note(s, s, s);
        assert_true(r.count <= RETAIN_MARKS);
    }
    note(20000, 20000, 19000); /* not after the last position */
    for (uint64_t hold = 5; hold < 20000; hold += 500) {
        uint64_t id = bound(20000, 20000, hold);
        assert_true(id > 0 && id <= hold);
        assert_true(hold - id < (20000 - hold) / 2 + 10);
    }
    assert_int_equal(bound(20000, 20000, 1), 1);
    uint64_t id = bound(20000, 20000, 30000);
    assert_true(id >= 19900 && id <= 19940);
    trimmed(id);
    assert_true(r.count > 0 && r.count < RETAIN_MARKS);
}

static void test_retain_is_long__from_half_of_the_most_on(void **state)
{
    (void)state;
    const uint64_t readers = 2 * log_retain_bytes(LOG_MAX_DEFAULT); /* kept only for readers */
    assert_false(retain_is_long(50, 100));
    assert_true(retain_is_long(51, 100));
    assert_false(retain_is_long(readers, LOG_MAX_DEFAULT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retain__keeps_what_is_young),
        cmocka_unit_test(test_retain__keeps_what_somebody_needs),
        cmocka_unit_test(test_retain__keeps_no_more_than_its_bytes),
        cmocka_unit_test(test_retain__tells_the_entry),
        cmocka_unit_test(test_retain__remembers_old_positions_while_it_must_wait),
        cmocka_unit_test(test_retain_is_long__from_half_of_the_most_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
