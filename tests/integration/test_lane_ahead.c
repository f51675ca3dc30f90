/* SPDX-License-Identifier: MIT */
/* Two turns of a lane's reader: the second one is sent while the replies to the first one are under way. */
#include "tests/integration/readers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

enum { DELAY_MS = 200 };

static void turn_loops(void)
{
    for (unsigned i = 0; i < 20; i++)
        readers_turn_loops();
}

static void pause_writes(bool pauses)
{
    struct error e = {""};
    must(client_ok(&readers_w.client, &e, pauses ? "CLIENT PAUSE 10000 WRITE" : "CLIENT UNPAUSE"), e);
}

static struct own *keeps(size_t bytes_max)
{
    struct own *own = own_new(bytes_max);
    own_enter(own, &readers_w.lane);
    lane_reader_keep(readers_w.reader, own);
    return own;
}

static void keeps_no_more(struct own *own)
{
    lane_reader_keep(readers_w.reader, NULL);
    own_free(own);
}

static uint64_t length_of_lane(void)
{
    return (uint64_t)lanes_number(&readers_w.client, "XLEN", &readers_w.lane);
}

static void wait_for(struct readers_asked *a, struct readers_asked *b)
{
    while (a->told == 0 || b->told == 0)
        readers_turn_loops();
}

/* Two adds with a key in common, whose turns are both under way. */
struct both {
    struct readers_asked *first, *second;
};

static struct both adds_of_two_turns(void)
{
    struct both b = {.first = readers_add_by(0, 3, 2)};
    turn_loops();
    b.second = readers_add_by(0, 4, 2);
    turn_loops();
    assert_int_equal(b.first->told + b.second->told, 0);
    return b;
}

/* Each key is new once, and each entry is kept. */
static void each_is_met_once(struct both b, struct own *own, uint64_t length)
{
    wait_for(b.first, b.second);
    assert_true(b.first->fresh[0] == 1 && b.first->fresh[1] == 1);
    assert_true(b.second->fresh[0] == 0 && b.second->fresh[1] == 1);
    readers_ends_as(b.first, ERR_OK);
    readers_ends_as(b.second, ERR_OK);
    assert_int_equal(length_of_lane(), length);
    assert_int_equal(own_count(own), 2);
}

static void test_what_comes_while_a_read_is_under_way__has_a_round_of_its_own(void **state)
{
    (void)state;
    struct own *own = keeps(1 << 20);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = DELAY_MS});
    struct readers_asked *check = readers_ask_by(0);
    turn_loops();
    readers_add_from_outside(7);
    readers_reset_calls(); /* the check's read is executed */
    struct readers_asked *add = readers_add_by(0, 3, 1);
    for (unsigned i = 0; i < 1000 && readers_calls_of("xrange") == 0; i++)
        turn_loops();
    assert_int_equal(check->told + add->told, 0);
    assert_int_equal(readers_calls_of("xadd"), 1);
    wait_for(check, add);
    assert_true(add->fresh[0] == 1 && readers_bits[7] == 1);
    readers_ends_as(check, ERR_OK);
    readers_ends_as(add, ERR_OK);
    assert_int_equal(readers_calls_of("xrange"), 1);
    assert_int_equal(own_count(own), 1);
    keeps_no_more(own);
}

static void test_fewer_than_half__wait_for_the_turn_before(void **state)
{
    struct readers_asked *a[3];
    (void)state;
    readers_ends_as(readers_ask_by(0), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = DELAY_MS});
    for (unsigned i = 0; i < 3; i++)
        a[i] = readers_ask_by(0);
    turn_loops();
    readers_reset_calls();
    struct readers_asked *waits = readers_ask_by(0);
    while (a[0]->told == 0) {
        assert_int_equal(readers_calls_of("xrange"), 0);
        readers_turn_loops();
    }
    for (unsigned i = 0; i < 3; i++)
        readers_ends_as(a[i], ERR_OK);
    readers_ends_as(waits, ERR_OK);
    assert_int_equal(readers_calls_of("xrange"), 1);
}

static void test_two_turns__apply_each_entry_once_and_in_order(void **state)
{
    (void)state;
    struct own *own = keeps(1 << 20);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = DELAY_MS});
    each_is_met_once(adds_of_two_turns(), own, 3);
    assert_int_equal(atomic_load(&readers_applied), 2);
    keeps_no_more(own);
}

/* The first turn reads again, and meets the entries of both. */
static void test_a_connection_that_breaks__has_both_entries_found_not_sent_again(void **state)
{
    (void)state;
    struct own *own = keeps(1 << 20);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = DELAY_MS});
    struct both b = adds_of_two_turns();
    for (unsigned i = 0; i < 1000 && length_of_lane() < 3; i++)
        turn_loops();
    (void)proxy_reset(readers_w.proxy, readers_w.route, NULL, false);
    each_is_met_once(b, own, 3);
    keeps_no_more(own);
}

/* Neither has arrived when its connection is given up; both are executed behind those that are sent again. */
static void test_bytes_of_both_that_are_executed_later__change_nothing(void **state)
{
    (void)state;
    struct own *own = keeps(1 << 20);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.request_delay_ms = 1500});
    struct both b = adds_of_two_turns();
    uint64_t until = clock_mono_us() + (STORE_MS + 300) * 1000ull;
    while (clock_mono_us() < until)
        readers_turn_loops();
    proxy_lift(readers_w.proxy); /* the client has given that connection up */
    each_is_met_once(b, own, 3);
    until = clock_mono_us() + GUARD_MS * 1000ull;
    while (length_of_lane() < 5 && clock_mono_us() < until)
        clock_sleep_us(10000);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    assert_int_equal(atomic_load(&readers_applied), 4);
    assert_int_equal(own_count(own), 2);
    keeps_no_more(own);
}

static void replace_lane(void)
{
    struct error e = {""};
    must(lane_make(readers_w.link, &readers_w.lane, lanes_writer, 1, &readers_w.anchor, &e), e);
    lane_reader_move(readers_w.reader, &readers_w.lane, &readers_w.anchor);
}

/* Which keys were new is unknown. */
static void is_sent_again(struct readers_asked *a)
{
    while (a->told == 0)
        readers_turn_loops();
    assert_true(a->fresh[0] == LANE_FRESH_UNKNOWN && a->fresh[1] == LANE_FRESH_UNKNOWN);
    readers_ends_as(a, ERR_OK);
}

/* The lane was lost before the entries of both turns arrived, and the replies to both have come. */
static struct both stalls_with_two_turns(void)
{
    readers_ends_as(readers_ask_by(0), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.request_delay_ms = DELAY_MS});
    readers_reset_calls();
    struct both b = adds_of_two_turns();
    assert_int_equal(lanes_number(&readers_w.client, "DEL", &readers_w.lane), 1);
    for (unsigned i = 0; i < 1000 && readers_calls_of("xrange") < 2; i++)
        turn_loops();
    turn_loops();
    assert_int_equal(readers_w.stalls, 1);
    assert_int_equal(readers_w.stalled, TAIL_LOST);
    proxy_lift(readers_w.proxy);
    return b;
}

static void test_a_lane_that_is_lost__is_told_to_both(void **state)
{
    (void)state;
    struct both b = stalls_with_two_turns();
    readers_ends_as(b.first, ERR_CONFLICT);
    readers_ends_as(b.second, ERR_CONFLICT);
}

static void test_a_lane_that_is_replaced__gets_the_entries_of_both(void **state)
{
    (void)state;
    struct own *own = keeps(1 << 20);
    readers_w.waits = true;
    struct both b = stalls_with_two_turns();
    replace_lane();
    is_sent_again(b.first);
    is_sent_again(b.second);
    assert_int_equal(readers_w.stalls, 1);
    assert_true(readers_bits[3] == 1 && readers_bits[4] == 1 && readers_bits[5] == 1);
    assert_int_equal(own_count(own), 2);
    keeps_no_more(own);
}

static void test_a_turn_that_nobody_waits_for__ends_before_the_turn_ahead(void **state)
{
    (void)state;
    readers_w.waits = true;
    struct both b = stalls_with_two_turns();
    lane_cancel(&b.first->request);
    free(b.first);
    replace_lane();
    is_sent_again(b.second);
    assert_int_equal(length_of_lane(), 2);
}

static void fill_pages(unsigned pages)
{
    for (unsigned i = 0; i < pages * LANE_RANGE_COUNT; i++)
        readers_add_from_outside(1000 + i);
}

/* The first turn has met the entries of both, on the first page of two, when the reader is moved. */
static void test_what_both_have_met_before_a_move__is_met_again(void **state)
{
    (void)state;
    struct own *own = keeps(1 << 20);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = 5 * DELAY_MS});
    struct both b = adds_of_two_turns();
    for (unsigned i = 0; i < 1000 && length_of_lane() < 3; i++)
        turn_loops();
    fill_pages(1);
    proxy_lift(readers_w.proxy);
    (void)proxy_reset(readers_w.proxy, readers_w.route, NULL, false);
    while (atomic_load(&readers_applied) == 0)
        (void)event_base_loop(readers_w.base[0], EVLOOP_ONCE);
    lane_reader_stop(readers_w.reader);
    assert_int_equal(own_count(own), 2);
    assert_int_equal(b.first->told + b.second->told, 0);
    assert_int_equal(lanes_number(&readers_w.client, "DEL", &readers_w.lane), 1);
    replace_lane();
    is_sent_again(b.first);
    is_sent_again(b.second);
    assert_int_equal(length_of_lane(), 3);
    keeps_no_more(own);
}

/* The first turn has a second page to read when the reply to the second turn comes. */
static void test_a_turn_of_many_pages__leaves_the_round_of_the_turn_ahead(void **state)
{
    (void)state;
    struct own *own = keeps(1 << 20);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    fill_pages(3);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = DELAY_MS});
    each_is_met_once(adds_of_two_turns(), own, 3 * LANE_RANGE_COUNT + 3);
    assert_int_equal(atomic_load(&readers_applied), 3 * LANE_RANGE_COUNT + 2);
    keeps_no_more(own);
}

static void test_a_reader_that_is_stopped__begins_no_turn_ahead(void **state)
{
    struct log_position at;
    (void)state;
    readers_ends_as(readers_ask_by(0), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = DELAY_MS});
    struct readers_asked *a = readers_ask_by(0);
    turn_loops();
    struct readers_asked *b = readers_add_by(0, 3, 1);
    lane_reader_stop(readers_w.reader);
    uint64_t until = clock_mono_us() + 2 * DELAY_MS * 1000ull;
    while (clock_mono_us() < until)
        readers_turn_loops();
    assert_int_equal(a->told + b->told, 0);
    assert_int_equal(length_of_lane(), 1);
    lane_reader_position(readers_w.reader, &at);
    lane_reader_go_back(readers_w.reader, &readers_w.lane, &at);
    readers_ends_as(a, ERR_OK);
    readers_ends_as(b, ERR_OK);
}

/* What comes while two reads are under way leaves when the first one has ended. */
static void test_what_comes_while_two_reads_are_under_way__leaves_behind_the_first(void **state)
{
    (void)state;
    readers_ends_as(readers_ask_by(0), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = DELAY_MS / 2});
    struct readers_asked *first = readers_ask_by(0);
    turn_loops(); /* it is executed */
    pause_writes(true);
    struct readers_asked *second = readers_add_by(0, 3, 1);
    turn_loops();
    struct readers_asked *third = readers_add_by(0, 4, 1);
    readers_ends_as(first, ERR_OK);
    turn_loops();
    pause_writes(false);
    while (readers_bits[3] == 0)
        (void)event_base_loop(readers_w.base[0], EVLOOP_ONCE);
    assert_int_equal(length_of_lane(), 3); /* the third one's was sent, too */
    readers_ends_as(second, ERR_OK);
    readers_ends_as(third, ERR_OK);
}

/* What the first turn has applied is no longer in the lane when the second one reads. */
static void test_a_lane_that_is_trimmed_between_two_turns__stalls(void **state)
{
    (void)state;
    readers_ends_as(readers_ask_by(0), ERR_OK);
    readers_w.waits = true;
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = DELAY_MS});
    struct readers_asked *first = readers_add_by(0, 3, 1);
    turn_loops();
    for (unsigned i = 0; i < 1000 && length_of_lane() < 2; i++)
        turn_loops();
    freeReplyObject(client_command(&readers_w.client, "XTRIM %b MAXLEN 0", readers_w.lane.key.text,
                                   readers_w.lane.key.length));
    readers_add_from_outside(7);
    struct readers_asked *second = readers_ask_by(0);
    readers_ends_as(first, ERR_OK);
    while (readers_w.stalls == 0)
        readers_turn_loops();
    assert_int_equal(readers_w.stalled, TAIL_GAP);
    assert_int_equal(second->told + readers_bits[7], 0);
    lane_reader_end(readers_w.reader, ERR_CONFLICT, "ends");
    readers_ends_as(second, ERR_CONFLICT);
}

/* The first port has two turns under way, and the second one of them has a request of the second port, too.
 */
static void begin_for_two_ports(struct readers_asked **a, struct readers_asked **b, struct readers_asked **c)
{
    readers_ends_as(readers_ask_by(0), ERR_OK);
    readers_ends_as(readers_ask_by(1), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = DELAY_MS});
    *a = readers_add_by(0, 1, 1);
    turn_loops();
    *b = readers_add_by(1, 2, 1);
    *c = readers_add_by(0, 3, 1);
    turn_loops();
}

static void test_a_worker_that_goes__leaves_both_turns_to_another(void **state)
{
    struct readers_asked *a, *b, *c;
    (void)state;
    readers_open_port(1);
    begin_for_two_ports(&a, &b, &c);
    readers_close_port(0);
    readers_ends_as(a, ERR_CANCELLED);
    readers_ends_as(c, ERR_CANCELLED);
    while (b->told == 0)
        readers_turn_loops();
    assert_int_equal(b->fresh[0], 1);
    readers_ends_as(b, ERR_OK);
    assert_int_equal(length_of_lane(), 3); /* its own, and one of both */
}

/* The second port reaches Redis by another way. */
static void test_a_worker_whose_connection_is_gone__leaves_both_turns_to_another(void **state)
{
    struct readers_asked *a, *b, *c;
    (void)state;
    readers_w.base[1] = event_base_new();
    readers_w.store[1] = async_client_new(readers_w.base[1], &readers_w.direct, STORE_MS, NULL);
    readers_w.port[1] = lane_port_new(readers_w.base[1], readers_w.store[1], PORT_MS);
    begin_for_two_ports(&a, &b, &c);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.refuse = true});
    readers_ends_as(a, ERR_OK);
    readers_ends_as(b, ERR_OK);
    readers_ends_as(c, ERR_OK);
    assert_true(readers_bits[1] == 1 && readers_bits[2] == 1 && readers_bits[3] == 1);
}

/* The second port reads for @a, an add of the first one waits, and the second one takes another request back.
 */
static struct readers_asked *waits_for_another_port(struct readers_asked **a, unsigned sleep_ms)
{
    struct lane_request taken_back;
    readers_open_port(1);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    readers_ends_as(readers_ask_by(1), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = DELAY_MS / 2});
    *a = readers_ask_by(1);
    turn_loops();
    pause_writes(true);
    clock_sleep_us(sleep_ms * 1000ull);
    struct readers_asked *b = readers_add_by(0, 3, 1);
    lane_ask(readers_w.port[1], readers_w.reader, &taken_back, NULL, NULL);
    lane_cancel(&taken_back);
    return b;
}

/* A loop that runs only until its own request ends takes no other request ahead. */
static void test_a_port_without_a_request__begins_no_turn_ahead(void **state)
{
    struct readers_asked *a, *b = waits_for_another_port(&a, 0);
    (void)state;
    while (a->told == 0)
        (void)event_base_loop(readers_w.base[1], EVLOOP_ONCE);
    readers_ends_as(a, ERR_OK);
    pause_writes(false);
    while (b->told == 0)
        (void)event_base_loop(readers_w.base[0], EVLOOP_ONCE);
    readers_ends_as(b, ERR_OK);
}

/* The reply is there before the turn ahead could begin, and the reader goes to another port. */
static void test_a_port_that_has_the_reader_no_more__leaves_it_alone(void **state)
{
    struct readers_asked *a, *b = waits_for_another_port(&a, DELAY_MS);
    (void)state;
    readers_reset_calls();
    pause_writes(false);
    while (a->told == 0)
        (void)event_base_loop(readers_w.base[1], EVLOOP_ONCE);
    for (unsigned i = 0; i < 20; i++) {
        (void)event_base_loop(readers_w.base[1], EVLOOP_NONBLOCK);
        clock_sleep_us(1000);
    }
    assert_int_equal(readers_calls_of("xrange"), 0);
    readers_ends_as(a, ERR_OK);
    readers_ends_as(b, ERR_OK);
}

static void test_requests_that_are_taken_back__leave_both_turns(void **state)
{
    (void)state;
    readers_ends_as(readers_ask_by(0), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = DELAY_MS});
    struct both b = adds_of_two_turns();
    lane_cancel(&b.first->request);
    lane_cancel(&b.second->request);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    assert_int_equal(b.first->told + b.second->told, 0);
    assert_int_equal(atomic_load(&readers_applied), 2);
    free(b.first);
    free(b.second);
}

static void test_what_cannot_be_applied__is_told_to_both(void **state)
{
    (void)state;
    readers_ends_as(readers_ask_by(0), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = DELAY_MS});
    struct both b = adds_of_two_turns();
    readers_refuses = true;
    wait_for(b.first, b.second);
    readers_ends_as(b.first, ERR_NOMEM);
    readers_ends_as(b.second, ERR_NOMEM);
    readers_refuses = false;
    readers_ends_as(readers_ask_by(0), ERR_OK);
    assert_true(readers_bits[3] == 1 && readers_bits[5] == 1);
}

/* Entries that are under way will be kept, too. */
static void test_more_than_may_be_kept_of_both__is_not_sent(void **state)
{
    (void)state;
    struct own *own = keeps(4096);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = DELAY_MS});
    struct readers_asked *a = readers_add_by(0, 0, LOG_KEYS_MAX);
    turn_loops();
    struct readers_asked *b = readers_add_by(0, LOG_KEYS_MAX, LOG_KEYS_MAX);
    turn_loops();
    readers_ends_as(a, ERR_OK);
    readers_ends_as(b, ERR_NOMEM);
    assert_int_equal(length_of_lane(), 2);
    keeps_no_more(own);
}

#define READER_TEST(name) cmocka_unit_test_setup_teardown(name, readers_set_up, readers_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        READER_TEST(test_what_comes_while_a_read_is_under_way__has_a_round_of_its_own),
        READER_TEST(test_fewer_than_half__wait_for_the_turn_before),
        READER_TEST(test_two_turns__apply_each_entry_once_and_in_order),
        READER_TEST(test_a_connection_that_breaks__has_both_entries_found_not_sent_again),
        READER_TEST(test_bytes_of_both_that_are_executed_later__change_nothing),
        READER_TEST(test_a_lane_that_is_lost__is_told_to_both),
        READER_TEST(test_a_lane_that_is_replaced__gets_the_entries_of_both),
        READER_TEST(test_a_turn_that_nobody_waits_for__ends_before_the_turn_ahead),
        READER_TEST(test_what_both_have_met_before_a_move__is_met_again),
        READER_TEST(test_a_turn_of_many_pages__leaves_the_round_of_the_turn_ahead),
        READER_TEST(test_a_reader_that_is_stopped__begins_no_turn_ahead),
        READER_TEST(test_what_comes_while_two_reads_are_under_way__leaves_behind_the_first),
        READER_TEST(test_a_lane_that_is_trimmed_between_two_turns__stalls),
        READER_TEST(test_a_worker_that_goes__leaves_both_turns_to_another),
        READER_TEST(test_a_port_without_a_request__begins_no_turn_ahead),
        READER_TEST(test_a_port_that_has_the_reader_no_more__leaves_it_alone),
        READER_TEST(test_a_worker_whose_connection_is_gone__leaves_both_turns_to_another),
        READER_TEST(test_requests_that_are_taken_back__leave_both_turns),
        READER_TEST(test_what_cannot_be_applied__is_told_to_both),
        READER_TEST(test_more_than_may_be_kept_of_both__is_not_sent),
    };
    return cmocka_run_group_tests(tests, readers_start, readers_stop);
}
