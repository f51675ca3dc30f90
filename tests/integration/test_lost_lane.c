/* SPDX-License-Identifier: MIT */
/* The lane of a filter whose source was not read yet is lost. */
#include "tests/integration/log_redis.h"

#include <stdlib.h>
#include "base/clock.h"
#include "shard/generations/make.h"
#include "shard/view/view_load.h"

enum { REPLY_MS = 5000, WAIT_US = 10 * 1000 * 1000, KEYS = 20 };

static void make_unbuilt(void)
{
    struct error e = {""};
    struct placement placement;
    must(client_ok(&on.client, &e, "FLUSHALL"), e);
    must(names_init(&on.names, "tb", "f", 1, &e), e);
    must(placement_choose(&placement, &on.nodes, "", &e), e);
    const struct make_options o = {.capacity = 1000,
                                   .expansion = 2,
                                   .error_rate = 0.0001,
                                   .sourced = true,
                                   .lanes = 1,
                                   .placement = &placement,
                                   .shard_bytes = 32768};
    must(log_make(on.link, &on.names, &o, on.view, NULL, &e), e);
}

/* Wait until the view has another stream, and has accepted its era. */
static void wait_for_another(uint64_t number)
{
    struct error e = {""};
    uint64_t until = clock_mono_us() + WAIT_US;
    do {
        clock_sleep_us(5000);
        must(log_view_load(on.link, &on.names, on.view, &e), e);
    } while ((on.view->lane[0].number == number || on.view->lane[0].era == 0) && clock_mono_us() < until);
    assert_true(on.view->lane[0].number != number && on.view->lane[0].era != 0);
}

static void test_a_lane_that_is_lost_before_the_first_build__is_replaced(void **state)
{
    struct error e = {""};
    struct log_member m, late;
    struct key_name key;
    int64_t deleted = 0;
    uint8_t answers[KEYS];
    (void)state;
    make_unbuilt();
    log_members_open(&m, &on.nodes, &on.names, UINT64_MAX, true);
    must(log_member_add(&m, 0, KEYS, answers, &e), e);
    uint64_t number = on.view->lane[0].number;
    lane_key(&key, &on.names, 0, number);
    must(client_integer(&on.client, &deleted, &e, "DEL %b", key.text, (size_t)key.length), e);
    assert_int_equal(deleted, 1);
    must(log_member_add(&m, KEYS, KEYS, answers, &e), e);
    wait_for_another(number);
    log_members_open(&late, &on.nodes, &on.names, UINT64_MAX, false);
    must(log_member_add(&late, 2 * KEYS, KEYS, answers, &e), e);
    assert_int_equal(log_member_count(&late, 0, KEYS, KEY_ABSENT), 0);
    log_member_close(&late);
    log_member_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lane_that_is_lost_before_the_first_build__is_replaced),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
