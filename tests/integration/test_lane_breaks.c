/* SPDX-License-Identifier: MIT */
/* A lane's reader when replies, connections, entries, the lane itself or its era are lost. */
#include "tests/integration/readers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

/* --- what can go wrong --- */

static void test_a_lost_reply__has_the_entry_found_not_sent_again(void **state)
{
    (void)state;
    readers_ends_as(readers_ask_by(0), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.resets = 1});
    struct readers_asked *a = readers_add_by(0, 3, 2);
    while (a->told == 0)
        readers_turn_loops();
    assert_true(a->fresh[0] == 1 && a->fresh[1] == 1);
    readers_ends_as(a, ERR_OK);
    assert_int_equal(lanes_number(&readers_w.client, "XLEN", &readers_w.lane), 2);
}

static void test_bytes_that_are_executed_later__change_nothing(void **state)
{
    (void)state;
    readers_ends_as(readers_ask_by(0), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.request_delay_ms = 1500});
    struct readers_asked *a = readers_add_by(0, 3, 2);
    uint64_t until = clock_mono_us() + (STORE_MS + 300) * 1000ull;
    while (clock_mono_us() < until)
        readers_turn_loops();
    proxy_lift(readers_w.proxy); /* the client has given that connection up */
    while (a->told == 0)
        readers_turn_loops();
    assert_true(a->fresh[0] == 1 && a->fresh[1] == 1);
    readers_ends_as(a, ERR_OK);
    until = clock_mono_us() + GUARD_MS * 1000ull;
    while (lanes_number(&readers_w.client, "XLEN", &readers_w.lane) < 3 && clock_mono_us() < until)
        clock_sleep_us(10000);
    a = readers_add_by(0, 3, 2);
    while (a->told == 0)
        readers_turn_loops();
    assert_true(a->fresh[0] == 0 && a->fresh[1] == 0);
    readers_ends_as(a, ERR_OK);
    assert_int_equal(lanes_number(&readers_w.client, "XLEN", &readers_w.lane), 4);
}

static void test_the_first_of_two_same_entries__decides(void **state)
{
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    const struct key_hash hash = {.high = 1, .low = 77};
    (void)state;
    /* The reader's first entry, as if it had been sent before. */
    size_t length = log_entry_encode(bytes, (const uint8_t *)"of this process", 1, &hash, 1);
    freeReplyObject(client_command(&readers_w.client, "XADD %b * e %b", readers_w.lane.key.text,
                                   readers_w.lane.key.length, bytes, length));
    struct readers_asked *a = readers_add_by(0, 77, 1);
    while (a->told == 0)
        readers_turn_loops();
    assert_int_equal(a->fresh[0], 1);
    readers_ends_as(a, ERR_OK);
    assert_int_equal(lanes_number(&readers_w.client, "XLEN", &readers_w.lane), 3);
}

static void test_a_silent_server__costs_no_more_than_the_deadline(void **state)
{
    (void)state;
    readers_ends_as(readers_ask_by(0), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.swallow = true});
    struct readers_asked *a = readers_ask_by(0), *b = readers_add_by(0, 1, 1);
    while (a->told == 0 || b->told == 0)
        readers_turn_loops();
    assert_true(a->took_us >= PORT_MS * 1000 && a->took_us < (PORT_MS + 1000) * 1000);
    assert_true(a->result.code == ERR_UNREACHABLE || a->result.code == ERR_TIMEOUT);
    assert_true(b->result.code == a->result.code && a->text[0] != '\0');
    (void)readers_end_of(a);
    (void)readers_end_of(b);
    proxy_lift(readers_w.proxy);
    readers_ends_as(readers_ask_by(0), ERR_OK);
}

static void test_a_lane_that_is_lost__is_told_to_all_and_not_made_again(void **state)
{
    (void)state;
    assert_int_equal(lanes_number(&readers_w.client, "DEL", &readers_w.lane), 1);
    struct readers_asked *a = readers_ask_by(0), *b = readers_add_by(0, 1, 200);
    readers_stalls_as(a, TAIL_LOST);
    readers_stalls_as(b, TAIL_LOST);
    assert_int_equal(lanes_number(&readers_w.client, "EXISTS", &readers_w.lane), 0);
    assert_int_equal(atomic_load(&readers_applied), 0);
}

static void test_a_gap__is_told_until_the_reader_is_moved(void **state)
{
    struct error e = {""};
    struct lane_trimmed trimmed;
    struct log_position at = readers_w.anchor;
    struct lanes_met met = {0};
    enum tail_state got = TAIL_EMPTY;
    (void)state;
    for (unsigned i = 0; i < 300; i++)
        readers_add_from_outside(i);
    must(lane_read(readers_w.link, &readers_w.lane, &at, lanes_apply, &met, &got, &e), e);
    struct log_mark mark = log_mark_of(&at);
    must(lane_trim(readers_w.link, &readers_w.lane, &mark, &trimmed, &e), e);
    readers_stalls_as(readers_ask_by(0), TAIL_GAP);
    readers_stalls_as(readers_add_by(0, 1, 1), TAIL_GAP);
    assert_int_equal(atomic_load(&readers_applied), 0);
    lane_reader_move(readers_w.reader, &readers_w.lane, &at); /* its shards were loaded again */
    readers_ends_as(readers_ask_by(0), ERR_OK);
    assert_int_equal(atomic_load(&readers_applied),
                     0); /* the second add came after the end, and sent nothing */
}

static void test_another_era__is_told_until_it_is_accepted(void **state)
{
    (void)state;
    struct lane lane = readers_w.lane;
    lane.era ^= 1;
    lane_reader_move(readers_w.reader, &lane, &readers_w.anchor);
    struct readers_asked *a = readers_add_by(0, 9, 1), *b = readers_ask_by(0);
    readers_stalls_as(a, TAIL_ERA);
    readers_stalls_as(b, TAIL_ERA);
    assert_int_equal(atomic_load(&readers_applied), 0);
    assert_int_equal(readers_bits[9], 0);
    lane_reader_move(readers_w.reader, &readers_w.lane, &readers_w.anchor);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    assert_int_equal(readers_bits[9], 1);
}

/* The address may lead to another server than before, or back to an earlier one. */
static void test_a_new_connection__counts_when_its_owner_has_looked_since(void **state)
{
    struct log_position at;
    (void)state;
    readers_ends_as(readers_ask_by(0), ERR_OK);
    readers_w.looked = clock_mono_us();
    readers_ends_as(readers_ask_by(0), ERR_OK); /* the connection is older */
    readers_w.waits = true;
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.resets = 1});
    struct readers_asked *a = readers_add_by(0, 9, 1), *b = readers_ask_by(0);
    while (readers_w.stalls == 0)
        readers_turn_loops();
    assert_int_equal(readers_w.stalled, TAIL_NEW);
    assert_int_equal(a->told + b->told + atomic_load(&readers_applied), 0);
    readers_w.looked = clock_mono_us();
    lane_reader_position(readers_w.reader, &at);
    lane_reader_go_back(readers_w.reader, &readers_w.lane, &at);
    while (a->told == 0)
        readers_turn_loops();
    assert_int_equal(a->fresh[0], 1);
    readers_ends_as(a, ERR_OK);
    readers_ends_as(b, ERR_OK);
    assert_int_equal(readers_w.stalls, 1);
    assert_int_equal(lanes_number(&readers_w.client, "XLEN", &readers_w.lane), 2);
}

/* The same lane in another era: an entry that was sent is found there, or sent again. */
static void waits_and_is_met(bool is_missing)
{
    struct lane lane = readers_w.lane;
    readers_w.waits = true;
    lane.era ^= 1;
    lane_reader_move(readers_w.reader, &lane, &readers_w.anchor);
    struct readers_asked *a = readers_add_by(0, 9, 2);
    while (readers_w.stalls == 0)
        readers_turn_loops();
    assert_int_equal(lanes_number(&readers_w.client, "XLEN", &readers_w.lane), 2);
    if (is_missing) { /* the entry was lost with the era */
        freeReplyObject(client_command(&readers_w.client, "XTRIM %b MAXLEN 0", readers_w.lane.key.text,
                                       readers_w.lane.key.length));
        freeReplyObject(client_command(&readers_w.client, "XADD %b %llu-%llu e %b", readers_w.lane.key.text,
                                       readers_w.lane.key.length, readers_w.anchor.id.ms + 1000000,
                                       readers_w.anchor.id.number, readers_w.anchor.bytes,
                                       (size_t)readers_w.anchor.length));
        readers_w.anchor.id.ms += 1000000;
    }
    struct readers_asked *late = readers_ask_by(0);
    for (unsigned i = 0; i < 20; i++)
        readers_turn_loops();
    assert_int_equal(a->told + late->told, 0);
    lane_reader_move(readers_w.reader, &readers_w.lane, &readers_w.anchor);
    while (a->told == 0)
        readers_turn_loops();
    assert_int_equal(a->fresh[0], LANE_FRESH_UNKNOWN);
    assert_int_equal(a->fresh[1], LANE_FRESH_UNKNOWN);
    readers_ends_as(a, ERR_OK);
    readers_ends_as(late, ERR_OK);
    assert_int_equal(readers_w.stalls, 1);
    assert_int_equal(lanes_number(&readers_w.client, "XLEN", &readers_w.lane), 2);
    assert_int_equal(atomic_load(&readers_applied), 1);
}

static void test_who_waits_for_a_new_era__has_its_entry_met_once(void **state)
{
    (void)state;
    waits_and_is_met(false);
}

static void test_who_waits_for_a_new_era__has_its_entry_sent_again(void **state)
{
    (void)state;
    waits_and_is_met(true);
}

/* The first of the add's two entries is the last one of a page, and was applied before the reader is
 * moved. */
static void moves_in_the_middle(bool goes_back, unsigned fresh)
{
    enum { BEFORE = LANE_RANGE_COUNT - 2 };
    for (unsigned i = 0; i < BEFORE; i++)
        readers_add_from_outside(1000 + i);
    struct readers_asked *a = readers_add_by(0, 200, 200);
    while (atomic_load(&readers_applied) == 0)
        (void)event_base_loop(readers_w.base[0], EVLOOP_ONCE);
    lane_reader_stop(readers_w.reader);
    assert_int_equal(atomic_load(&readers_applied), BEFORE + 1);
    for (unsigned i = 0; i < 20; i++)
        readers_turn_loops();
    assert_int_equal(atomic_load(&readers_applied), BEFORE + 1);
    assert_int_equal(a->told, 0);
    if (goes_back)
        lane_reader_go_back(readers_w.reader, &readers_w.lane, &readers_w.anchor);
    else
        lane_reader_move(readers_w.reader, &readers_w.lane, &readers_w.anchor);
    while (a->told == 0)
        readers_turn_loops();
    for (unsigned i = 0; i < 200; i++)
        assert_int_equal(a->fresh[i], fresh);
    readers_ends_as(a, ERR_OK);
    assert_int_equal(lanes_number(&readers_w.client, "XLEN", &readers_w.lane), 1 + BEFORE + 2);
}

static void test_what_was_met_before_a_move__is_met_again(void **state)
{
    (void)state;
    moves_in_the_middle(false, LANE_FRESH_UNKNOWN);
}

static void test_who_goes_back__knows_what_was_new(void **state)
{
    (void)state;
    moves_in_the_middle(true, 1);
}

static void test_what_cannot_be_applied__is_told_and_applied_later(void **state)
{
    (void)state;
    readers_refuses = true;
    struct lane_result got = readers_end_of(readers_add_by(0, 7, 1));
    assert_int_equal(got.code, ERR_NOMEM);
    assert_string_equal(got.text, "no memory to apply");
    assert_int_equal(readers_bits[7], 0);
    readers_refuses = false;
    readers_ends_as(readers_ask_by(0), ERR_OK);
    assert_int_equal(readers_bits[7], 1);
}

/* Acknowledged entries of this process are kept; entries of others are not. */
static void test_what_is_acknowledged__is_kept_until_it_is_folded(void **state)
{
    struct log_position at;
    (void)state;
    struct own *own = own_new(1 << 20);
    own_enter(own, &readers_w.lane);
    lane_reader_keep(readers_w.reader, own);
    readers_add_from_outside(7);
    readers_ends_as(readers_add_by(0, 0, 3 * LOG_KEYS_MAX + 1), ERR_OK);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    assert_int_equal(own_count(own), 4);
    lane_reader_position(readers_w.reader, &at);
    own_folded(own, &readers_w.lane, (struct log_id){1, 1});
    assert_int_equal(own_count(own), 4);
    own_folded(own, &readers_w.lane, at.id);
    assert_int_equal(own_count(own), 0);
    lane_reader_keep(readers_w.reader, NULL);
    own_free(own);
}

static void test_more_than_may_be_kept__is_not_sent(void **state)
{
    (void)state;
    struct own *own = own_new(4096);
    own_enter(own, &readers_w.lane);
    lane_reader_keep(readers_w.reader, own);
    readers_ends_as(readers_add_by(0, 0, LOG_KEYS_MAX), ERR_OK);
    struct readers_asked *a = readers_add_by(0, LOG_KEYS_MAX, LOG_KEYS_MAX), *b = readers_ask_by(0);
    struct lane_result got = readers_end_of(a);
    assert_int_equal(got.code, ERR_NOMEM);
    assert_non_null(strstr(got.text, "not in the shards yet"));
    readers_ends_as(b, ERR_OK); /* checks still work */
    assert_int_equal(lanes_number(&readers_w.client, "XLEN", &readers_w.lane), 2);
    struct log_position at;
    lane_reader_position(readers_w.reader, &at);
    own_folded(own, &readers_w.lane, at.id);
    readers_ends_as(readers_add_by(0, LOG_KEYS_MAX, LOG_KEYS_MAX), ERR_OK);
    lane_reader_keep(readers_w.reader, NULL);
    own_free(own);
}

/* A roll call has begun in this process: entries that are found under the era before it are not
 * acknowledged. */
static void test_an_era_that_the_process_has_left__stalls(void **state)
{
    (void)state;
    struct own *own = own_new(1 << 20);
    struct lane next = readers_w.lane;
    next.era ^= 1;
    own_enter(own, &next);
    lane_reader_keep(readers_w.reader, own);
    readers_w.waits = true;
    readers_ends_as(readers_ask_by(0), ERR_OK);
    struct readers_asked *a = readers_add_by(0, 9, 1);
    while (readers_w.stalls == 0)
        readers_turn_loops();
    assert_int_equal(own_count(own), 0);
    assert_int_equal(a->told, 0);
    own_enter(own, &readers_w.lane);
    lane_reader_move(readers_w.reader, &readers_w.lane, &readers_w.anchor);
    readers_ends_as(a, ERR_OK);
    assert_int_equal(own_count(own), 1);
    assert_int_equal(lanes_number(&readers_w.client, "XLEN", &readers_w.lane),
                     2); /* the entry was found, and not sent again */
    lane_reader_keep(readers_w.reader, NULL);
    own_free(own);
}

static void remove_from_outside(const uint8_t writer[LOG_WRITER_BYTES], uint64_t registration)
{
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    readers_append_from_outside(bytes, log_entry_encode_removal(bytes, writer, registration));
}

/* Others take this process for dead: entries after the removal are not acknowledged until it has registered
 * again. */
static void test_behind_a_removal__an_add_waits_for_another_registration(void **state)
{
    (void)state;
    struct own *own = own_new(1 << 20);
    own_enter(own, &readers_w.lane);
    own_register(own, 4);
    lane_reader_keep(readers_w.reader, own);
    readers_w.waits = true;
    remove_from_outside(lanes_writer, 4);
    readers_ends_as(readers_add_by(0, 8, 1), ERR_OK);           /* another process was removed */
    remove_from_outside((const uint8_t *)"of this process", 3); /* an earlier registration was removed */
    readers_ends_as(readers_add_by(0, 7, 1), ERR_OK);
    remove_from_outside((const uint8_t *)"of this process", 4);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    assert_int_equal(own_is_removed(own), 5);
    struct readers_asked *a = readers_add_by(0, 9, 1);
    while (readers_w.stalls == 0)
        readers_turn_loops();
    assert_int_equal(own_count(own), 2);
    assert_int_equal(a->told, 0);
    own_register(own, 5);
    struct log_position at;
    lane_reader_position(readers_w.reader, &at);
    lane_reader_go_back(readers_w.reader, &readers_w.lane, &at);
    readers_ends_as(a, ERR_OK);
    assert_int_equal(own_count(own), 3);
    assert_int_equal(lanes_number(&readers_w.client, "XLEN", &readers_w.lane),
                     7); /* the entry was found, and not sent again */
    lane_reader_keep(readers_w.reader, NULL);
    own_free(own);
}

static void test_a_list__is_refused_by_name(void **state)
{
    char key[KEY_NAME_MAX + 1];
    (void)state;
    (void)snprintf(key, sizeof(key), "%.*s", (int)readers_w.lane.key.length, readers_w.lane.key.text);
    assert_int_equal(lanes_number(&readers_w.client, "DEL", &readers_w.lane), 1);
    freeReplyObject(client_command(&readers_w.client, "RPUSH %s a", key));
    struct lane_result got = readers_end_of(readers_add_by(0, 1, 1));
    assert_int_equal(got.code, ERR_WRONG_TYPE);
    assert_non_null(strstr(got.text, key));
    readers_ends_as(readers_ask_by(0), ERR_WRONG_TYPE);
    assert_int_equal(lanes_number(&readers_w.client, "LLEN", &readers_w.lane), 1);
}

static void test_a_server_without_memory__refuses_adds_and_serves_reads(void **state)
{
    struct error e = {""};
    (void)state;
    readers_ends_as(readers_ask_by(0), ERR_OK);
    must(client_ok(&readers_w.client, &e, "CONFIG SET maxmemory 1"), e);
    struct readers_asked *a = readers_add_by(0, 1, 1), *b = readers_ask_by(0);
    readers_ends_as(a, ERR_NOMEM);
    readers_ends_as(b, ERR_OK);
    must(client_ok(&readers_w.client, &e, "CONFIG SET maxmemory 0"), e);
    readers_ends_as(readers_add_by(0, 1, 1), ERR_OK);
}

#define READER_TEST(name) cmocka_unit_test_setup_teardown(name, readers_set_up, readers_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        READER_TEST(test_a_lost_reply__has_the_entry_found_not_sent_again),
        READER_TEST(test_bytes_that_are_executed_later__change_nothing),
        READER_TEST(test_the_first_of_two_same_entries__decides),
        READER_TEST(test_a_silent_server__costs_no_more_than_the_deadline),
        READER_TEST(test_a_lane_that_is_lost__is_told_to_all_and_not_made_again),
        READER_TEST(test_a_gap__is_told_until_the_reader_is_moved),
        READER_TEST(test_another_era__is_told_until_it_is_accepted),
        READER_TEST(test_a_new_connection__counts_when_its_owner_has_looked_since),
        READER_TEST(test_who_waits_for_a_new_era__has_its_entry_met_once),
        READER_TEST(test_who_waits_for_a_new_era__has_its_entry_sent_again),
        READER_TEST(test_what_was_met_before_a_move__is_met_again),
        READER_TEST(test_who_goes_back__knows_what_was_new),
        READER_TEST(test_what_cannot_be_applied__is_told_and_applied_later),
        READER_TEST(test_what_is_acknowledged__is_kept_until_it_is_folded),
        READER_TEST(test_more_than_may_be_kept__is_not_sent),
        READER_TEST(test_an_era_that_the_process_has_left__stalls),
        READER_TEST(test_behind_a_removal__an_add_waits_for_another_registration),
        READER_TEST(test_a_list__is_refused_by_name),
        READER_TEST(test_a_server_without_memory__refuses_adds_and_serves_reads),
    };
    return cmocka_run_group_tests(tests, readers_start, readers_stop);
}
