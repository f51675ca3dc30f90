/* SPDX-License-Identifier: MIT */
/* What a process keeps of its entries: how long, how much, and which entries are missing under another
 * era. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "shard/log/own.h"

enum { BYTES_MAX = 4 << 20, ERA = 0xe1, NEXT_ERA = 0xe2 };

static struct own *own;
static struct lane lane, next;

static struct lane lane_like(const char *key, uint64_t era)
{
    struct lane out = {.era = era};
    out.key.length = strlen(key);
    memcpy(out.key.text, key, out.key.length);
    return out;
}

static int set_up(void **state)
{
    (void)state;
    own = own_new(BYTES_MAX);
    assert_non_null(own);
    lane = lane_like("tb:{f.0}:1.log1", ERA);
    next = lane_like("tb:{f.0}:1.log1", NEXT_ERA);
    own_enter(own, &lane);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    own_free(own);
    return 0;
}

static enum err meet(const struct lane *in, uint64_t sequence, uint64_t ms)
{
    char bytes[64];
    struct error e = {""};
    int length = snprintf(bytes, sizeof(bytes), "entry %u", (unsigned)sequence);
    return own_met(own, in, sequence, (struct log_id){ms, 0}, bytes, (size_t)length, &e);
}

static enum err there(const struct lane *in, uint64_t sequence, uint64_t ms)
{
    char bytes[64];
    struct error e = {""};
    int length = snprintf(bytes, sizeof(bytes), "entry %u", (unsigned)sequence);
    return own_there(own, in, sequence, (struct log_id){ms, 0}, bytes, (size_t)length, &e);
}

static void folded(const struct lane *in, uint64_t ms)
{
    own_folded(own, in, (struct log_id){ms, 0});
}

/* The sequences of the missing entries, as text. */
static const char *missing(void)
{
    static char text[200];
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    size_t length, at = 0;
    uint64_t sequence = 0;
    text[0] = '\0';
    while (own_missing(own, sequence, &sequence, bytes, &length)) {
        char wanted[64];
        assert_int_equal(length, snprintf(wanted, sizeof(wanted), "entry %u", (unsigned)sequence));
        assert_memory_equal(bytes, wanted, length);
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%u ", (unsigned)sequence++);
    }
    return text;
}

static uint64_t from(void)
{
    struct log_id id = {0};
    return own_from(own, &id) ? id.ms : 0;
}

static void test_own__is_kept_until_it_is_folded(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 300; i++)
        assert_int_equal(meet(&lane, i, 1000 + i), ERR_OK);
    assert_int_equal(own_count(own), 300);
    folded(&lane, 1000);
    assert_int_equal(own_count(own), 300);
    folded(&lane, 1100);
    assert_int_equal(own_count(own), 200);
    folded(&lane, 1100);
    assert_int_equal(own_count(own), 200);
    for (unsigned i = 301; i <= 2000; i++) { /* reuses the memory of the first entries */
        assert_int_equal(meet(&lane, i, 1000 + i), ERR_OK);
        folded(&lane, 1000 + i - 50);
    }
    assert_int_equal(own_count(own), 50);
    assert_string_equal(missing(), "");
    own_enter(own, &next);
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    uint64_t sequence;
    size_t length;
    assert_true(own_missing(own, 0, &sequence, bytes, &length));
    assert_int_equal(sequence, 1951);
    assert_int_equal(from(), 2951);
}

static void test_behind_a_removal__nothing_is_acknowledged_until_a_later_registration(void **state)
{
    (void)state;
    own_register(own, 7);
    assert_int_equal(meet(&lane, 1, 10), ERR_OK);
    own_remove(own, 6); /* an earlier registration */
    assert_int_equal(own_is_removed(own), 0);
    assert_int_equal(meet(&lane, 2, 11), ERR_OK);
    own_remove(own, 7);
    own_remove(own, 6);
    assert_int_equal(own_is_removed(own), 8);
    assert_int_equal(meet(&lane, 3, 12), ERR_FENCED);
    assert_int_equal(own_count(own), 2); /* entries that were acknowledged before are kept */
    own_register(own, 8);
    assert_int_equal(own_is_removed(own), 0);
    assert_int_equal(meet(&lane, 3, 12), ERR_OK);
}

static void test_where_the_history_goes_on__what_was_met_is_there(void **state)
{
    (void)state;
    const struct lane other = lane_like("tb:{f.0}:1.log2", ERA);
    assert_int_equal(meet(&lane, 1, 10), ERR_OK);
    own_go_on(own, &lane, &next);
    assert_string_equal(missing(), "");
    assert_int_equal(meet(&lane, 2, 11), ERR_FENCED);
    assert_int_equal(meet(&next, 2, 11), ERR_OK);
    own_go_on(own, &lane, &other); /* the entries are in `next`, so all are missing here */
    assert_string_equal(missing(), "1 2 ");
}

/* Entries that are sent together may be met in another order than that of their sequences. */
static void test_own__that_was_met_late_is_not_forgotten_early(void **state)
{
    (void)state;
    assert_int_equal(meet(&lane, 2, 20), ERR_OK);
    assert_int_equal(meet(&lane, 1, 30), ERR_OK);
    folded(&lane, 20);
    own_enter(own, &next);
    assert_string_equal(missing(), "1 2 "); /* entry 2 could be dropped, entry 1 must not be */
    own_found(own, &next, 1, (struct log_id){30, 0});
    own_found(own, &next, 2, (struct log_id){20, 0});
    folded(&next, 30);
    assert_int_equal(own_count(own), 0);
}

/* As an entry that was met, but for what the shards have already. */
static void test_what_was_there__is_kept_until_it_is_folded(void **state)
{
    (void)state;
    assert_int_equal(there(&lane, 1, 10), ERR_BUSY); /* it might be kept for ever */
    own_base(own, &next, (struct log_id){10, 0});
    assert_int_equal(there(&lane, 1, 10), ERR_BUSY); /* that is not this lane */
    own_base(own, &lane, (struct log_id){10, 0});
    own_go_on(own, &lane, &lane); /* it is the same */
    assert_int_equal(there(&lane, 1, 10), ERR_OK);
    assert_int_equal(own_count(own), 0);
    assert_int_equal(there(&lane, 2, 11), ERR_OK);
    assert_int_equal(there(&next, 3, 5), ERR_FENCED);
    folded(&lane, 10);
    assert_int_equal(own_count(own), 1);
    own_enter(own, &next);
    assert_string_equal(missing(), "2 ");
    assert_int_equal(there(&lane, 3, 5), ERR_FENCED);
    assert_int_equal(there(&next, 3, 5), ERR_BUSY); /* the former era's folded ids say nothing */
    folded(&next, 4);
    assert_int_equal(there(&next, 3, 5), ERR_OK);
    folded(&next, 5);
    assert_int_equal(own_count(own), 2); /* the second one is missing */
    own_go_on(own, &next, &lane);
    assert_int_equal(there(&lane, 4, 5), ERR_BUSY);
    folded(&lane, 4);
    assert_int_equal(there(&lane, 4, 5), ERR_OK);
    assert_int_equal(own_count(own), 3);
    own_register(own, 7);
    own_remove(own, 7);
    assert_int_equal(there(&lane, 5, 20), ERR_FENCED);
    assert_int_equal(own_count(own), 3);
}

static void test_what_is_met_under_another_era__is_refused(void **state)
{
    (void)state;
    const struct lane other = lane_like("tb:{f.0}:1.log2", ERA), longer = lane_like("tb:{f.0}:1.log11", ERA);
    assert_int_equal(meet(&lane, 1, 10), ERR_OK);
    assert_int_equal(meet(&next, 2, 11), ERR_FENCED);
    assert_int_equal(meet(&other, 2, 11), ERR_FENCED);
    assert_int_equal(meet(&longer, 2, 11), ERR_FENCED);
    own_enter(own, &next);
    assert_int_equal(meet(&lane, 2, 11), ERR_FENCED);
    assert_int_equal(meet(&next, 2, 11), ERR_OK);
    assert_int_equal(own_count(own), 2);
    own_enter(own, &next); /* nothing changes */
    assert_string_equal(missing(), "1 ");
    own_enter(own, &other);
    assert_string_equal(missing(), "1 2 ");
}

/* Ids of another era or stream say nothing about this one. */
static void test_folded_under_another_era__forgets_nothing(void **state)
{
    (void)state;
    assert_int_equal(meet(&lane, 1, 10), ERR_OK);
    folded(&next, 100);
    assert_int_equal(own_count(own), 1);
    own_enter(own, &next);
    folded(&lane, 100);
    folded(&next, 100); /* the entry is missing in `next` */
    assert_int_equal(own_count(own), 1);
    own_found(own, &lane, 1, (struct log_id){10, 0}); /* a late result for the earlier era */
    assert_string_equal(missing(), "1 ");
    own_found(own, &next, 1, (struct log_id){50, 0});
    own_found(own, &next, 1, (struct log_id){60, 0}); /* the first id counts */
    own_found(own, &next, 7, (struct log_id){55, 0}); /* there is no such entry */
    assert_string_equal(missing(), "");
    folded(&next, 49);
    assert_int_equal(own_count(own), 1);
    folded(&next, 50);
    assert_int_equal(own_count(own), 0);
}

static void test_the_look__begins_where_the_first_missing_one_was(void **state)
{
    (void)state;
    assert_int_equal(from(), 0);
    for (unsigned i = 1; i <= 3; i++)
        assert_int_equal(meet(&lane, i, 100 * i), ERR_OK);
    assert_int_equal(from(), 0);
    own_enter(own, &next);
    assert_int_equal(from(), 100);
    own_found(own, &next, 1, (struct log_id){100, 0});
    assert_int_equal(from(), 200);
    own_sent(own, &next, 3, (struct log_id){150, 0}); /* the clock of the new master is behind */
    own_sent(own, &lane, 2, (struct log_id){1, 0});   /* an earlier roll call */
    assert_int_equal(from(), 150);
    assert_string_equal(missing(), "2 3 ");
}

static void test_room__is_bounded_and_says_so(void **state)
{
    (void)state;
    struct error e = {""};
    struct own *small = own_new(1000);
    char bytes[400] = "";
    own_enter(small, &lane);
    assert_int_equal(own_room(small, 1, 900, &e), ERR_OK);
    /* The overhead of keeping an entry counts, too. */
    assert_int_equal(own_room(small, 1, 1000, &e), ERR_NOMEM);
    assert_int_equal(own_met(small, &lane, 1, (struct log_id){1, 0}, bytes, sizeof(bytes), &e), ERR_OK);
    assert_int_equal(own_room(small, 1, 600, &e), ERR_NOMEM);
    assert_non_null(strstr(e.text, "tb:{f.0}:1.log1"));
    assert_non_null(strstr(e.text, "1000"));
    own_folded(small, &lane, (struct log_id){1, 0});
    assert_int_equal(own_room(small, 1, 600, &e), ERR_OK);
    own_free(small);
}

#define OWN_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static void test_all_is_in_a_lane__where_none_is_missing(void **state)
{
    (void)state;
    assert_true(own_is_in(own, &lane) && !own_is_in(own, &next));
    assert_int_equal(meet(&lane, 1, 10), ERR_OK);
    assert_true(own_is_in(own, &lane) && !own_is_in(own, &next));
    own_enter(own, &next);
    assert_true(!own_is_in(own, &lane) && !own_is_in(own, &next));
    assert_int_equal(meet(&next, 2, 20), ERR_OK);
    assert_false(own_is_in(own, &next));
    own_found(own, &next, 1, (struct log_id){30, 0});
    assert_true(own_is_in(own, &next));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OWN_TEST(test_own__is_kept_until_it_is_folded),
        OWN_TEST(test_behind_a_removal__nothing_is_acknowledged_until_a_later_registration),
        OWN_TEST(test_where_the_history_goes_on__what_was_met_is_there),
        OWN_TEST(test_own__that_was_met_late_is_not_forgotten_early),
        OWN_TEST(test_what_was_there__is_kept_until_it_is_folded),
        OWN_TEST(test_what_is_met_under_another_era__is_refused),
        OWN_TEST(test_folded_under_another_era__forgets_nothing),
        OWN_TEST(test_the_look__begins_where_the_first_missing_one_was),
        OWN_TEST(test_all_is_in_a_lane__where_none_is_missing),
        OWN_TEST(test_room__is_bounded_and_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
