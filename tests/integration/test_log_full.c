/* SPDX-License-Identifier: MIT */
/* Adds come faster than the folder folds, or while there is no folder: at log_max the lane takes no keys, a
 * process waits before its share of it is full, and a folder looks at its lane earlier. */
#include "tests/integration/log_redis.h"
#include "tests/integration/solo.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "shard/request/log_filter_state.h"

enum { SHARD_BYTES = 32768, ADDED = 20, LOG_MAX = 64 << 10, WAIT_US = 20 * 1000 * 1000 };

static const struct control_options folds_soon = {
    .folds = true, .log_max = LOG_MAX, .fold_interval_us = 10000, .look_interval_us = 20000};
static const struct control_options folds_seldom = {
    .folds = true, .log_max = LOG_MAX, .fold_interval_us = 60 * 1000000, .look_interval_us = 60 * 1000000};
static const struct control_options folds_never = {
    .log_max = LOG_MAX, .fold_interval_us = 10000, .look_interval_us = 20000};

static struct solo solo;
static char lane[KEY_NAME_MAX + 1], why[200];

static int set_up(void **state)
{
    struct key_name key;
    (void)state;
    log_redis_make(100000, 1, SHARD_BYTES);
    lane_key(&key, &on.names, 0, 1);
    (void)snprintf(lane, sizeof(lane), "%.*s", (int)key.length, key.text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    solo_close(&solo);
    return 0;
}

static int64_t number(const char *command)
{
    struct error e = {""};
    int64_t n;
    must(client_integer(&on.client, &n, &e, command, lane), e);
    return n;
}

static void append_as_another(uint64_t sequence)
{
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    size_t length = lanes_entry(bytes, sequence, 3);
    freeReplyObject(client_command(&on.client, "XADD %s * e %b", lane, bytes, length));
}

static void test_a_lane_of_log_max_bytes__takes_no_keys_until_it_is_folded(void **state)
{
    struct solo folder;
    enum err code = ERR_OK;
    const bool never = false;
    uint64_t until = clock_mono_us() + WAIT_US;
    (void)state;
    solo_open(&solo, &on.nodes, &on.names, UINT64_MAX, &folds_never);
    for (unsigned i = 0; i < ADDED; i++)
        assert_int_equal(solo_ask(&solo, true, i), KEY_ADDED);
    for (uint64_t sequence = 1; number("MEMORY USAGE %s") < LOG_MAX; sequence++)
        append_as_another(sequence);
    while (code == ERR_OK && clock_mono_us() < until)
        code = solo_error(&solo, true, ADDED, why);
    assert_int_equal(code, ERR_NOMEM);
    assert_non_null(strstr(why, "65536 bytes"));
    int64_t length = number("XLEN %s");
    assert_int_equal(solo_error(&solo, true, 1000000, why), ERR_NOMEM);
    assert_int_equal(number("XLEN %s"), length);
    assert_int_equal(solo_ask(&solo, false, 0), KEY_PRESENT);
    assert_int_equal(solo_ask(&solo, false, 1000000), KEY_ABSENT);
    struct log_status s;
    control_status(solo.control, &s);
    assert_int_equal(s.adds, ERR_NOMEM);
    assert_non_null(strstr(s.why_adds, "65536 bytes"));
    assert_true(s.lane[0].redis_bytes >= LOG_MAX);
    solo_open(&folder, &on.nodes, &on.names, UINT64_MAX, &folds_soon);
    assert_int_equal(solo_ask(&folder, false, 1000000), KEY_ABSENT);
    do {
        solo_run(&folder, &never, 20);
        solo_run(&solo, &never, 20);
        code = solo_error(&solo, true, 1000000, why);
    } while (code == ERR_NOMEM && clock_mono_us() < until);
    if (code != ERR_OK)
        fail_msg("%s; the folder: %s", why, folder.last.text);
    assert_true(number("MEMORY USAGE %s") < LOG_MAX);
    for (unsigned i = 0; i < ADDED; i++)
        assert_int_equal(solo_ask(&solo, false, i), KEY_PRESENT);
    solo_close(&folder);
}

/* The process keeps its entries until they are folded, and must wait before its log is full; then the waiting
 * add goes on. */
static void test_a_process_with_its_share_of_the_log__waits_for_the_folder(void **state)
{
    struct solo folder;
    struct solo_request r;
    unsigned added = 0, slowed = 0;
    enum err code = ERR_OK;
    const bool never = false;
    (void)state;
    solo_open(&solo, &on.nodes, &on.names, UINT64_MAX, &folds_never);
    for (; code == ERR_OK && added < LOG_MAX; added++) {
        solo_begin(&solo, &r, true, added);
        slowed += !r.told && r.q->state == REQUEST_SLOWED;
        solo_run(&solo, &r.told, 0);
        code = r.code;
    }
    assert_int_equal(code, ERR_NOMEM);
    assert_non_null(strstr(r.why, "faster than it is folded"));
    assert_in_range(slowed, added / 8, added / 2); /* of the second half every other add */
    int64_t length = number("XLEN %s");
    assert_int_equal(solo_error(&solo, true, 1000000, why), ERR_NOMEM);
    assert_int_equal(number("XLEN %s"), length);
    assert_int_equal(solo_ask(&solo, false, 0), KEY_PRESENT);
    assert_int_equal(solo_ask(&solo, false, 1000000), KEY_ABSENT);
    assert_true(number("MEMORY USAGE %s") < LOG_MAX);
    solo_begin(&solo, &r, true, 1000000);
    solo_run(&solo, &never, 20);
    assert_false(r.told);
    solo_open(&folder, &on.nodes, &on.names, UINT64_MAX, &folds_soon);
    for (unsigned i = 0; i < 100 && !r.told; i++) {
        solo_run(&folder, &never, 10);
        solo_run(&solo, &never, 10);
    }
    assert_true(r.told);
    assert_int_equal(r.code, ERR_OK);
    assert_int_equal(r.answer, KEY_ADDED);
    for (unsigned i = 0; i + 1 < added; i++)
        assert_int_equal(solo_ask(&solo, false, i), KEY_PRESENT);
    solo_close(&folder);
}

/* The folder does not wait for its next look or interval: what comes meanwhile would be slowed down. */
static void test_a_process_with_much_of_its_share_of_the_log__folds_at_once(void **state)
{
    const bool never = false;
    unsigned key = 0;
    (void)state;
    solo_open(&solo, &on.nodes, &on.names, UINT64_MAX, &folds_seldom);
    for (unsigned fold = 0; fold < 3; fold++) {
        while (log_filter_fullness(solo.filter) < SHARE_MUCH)
            assert_int_equal(solo_ask(&solo, true, key++), KEY_ADDED);
        assert_int_equal(solo_ask(&solo, true, key++), KEY_ADDED);
        for (unsigned i = 0; i < 200 && log_filter_fullness(solo.filter) >= SHARE_MUCH; i++)
            solo_run(&solo, &never, 10);
        assert_true(log_filter_fullness(solo.filter) < SHARE_MUCH);
    }
    for (unsigned i = 0; i < key; i++)
        assert_int_equal(solo_ask(&solo, false, i), KEY_PRESENT);
}

static void run_until_folds(uint64_t folds)
{
    const bool never = false;
    struct log_status s;
    uint64_t until = clock_mono_us() + WAIT_US;
    for (control_status(solo.control, &s); s.folder.report.folds < folds && clock_mono_us() < until;
         control_status(solo.control, &s))
        solo_run(&solo, &never, 10);
    assert_int_equal(s.folder.report.folds, folds);
}

/* The folder adds nothing, so that only its own looks tell it how much has come. */
static void test_a_folder__looks_earlier_where_another_process_adds_much(void **state)
{
    enum { LITTLE = 30, MUCH = 300 };
    uint64_t sequence = 0;
    (void)state;
    solo_open(&solo, &on.nodes, &on.names, UINT64_MAX, &folds_seldom);
    for (unsigned i = 0; i < MUCH; i++)
        append_as_another(++sequence);
    assert_int_equal(solo_ask(&solo, false, 1), KEY_ABSENT);
    log_filter_look(solo.filter);
    run_until_folds(1); /* now it has the lease */
    for (unsigned i = 0; i < LITTLE; i++)
        append_as_another(++sequence);
    log_filter_look(solo.filter);
    solo_tend(&solo);
    for (unsigned i = 0; i < MUCH; i++)
        append_as_another(++sequence);
    run_until_folds(2);
}

#define FULL_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FULL_TEST(test_a_lane_of_log_max_bytes__takes_no_keys_until_it_is_folded),
        FULL_TEST(test_a_process_with_its_share_of_the_log__waits_for_the_folder),
        FULL_TEST(test_a_process_with_much_of_its_share_of_the_log__folds_at_once),
        FULL_TEST(test_a_folder__looks_earlier_where_another_process_adds_much),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
