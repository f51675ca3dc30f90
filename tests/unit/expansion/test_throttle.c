/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <cmocka.h>

#include "expansion/decide/throttle.h"

/* The bounds are 20 ms and 10 s, both values are well below; 400,000 rows/s; one second has passed. */
static struct throttle_input well(void)
{
    return (struct throttle_input){.redis_p99_ms = 2,
                                   .redis_p99_max_ms = 20,
                                   .replication_lag_s = 0,
                                   .replication_lag_max_s = 10,
                                   .measured_rows_per_second = 400000,
                                   .elapsed_s = 1};
}

static struct throttle_input slow(double p99_ms)
{
    struct throttle_input in = well();
    in.redis_p99_ms = p99_ms;
    return in;
}

static struct throttle_input behind(double lag_s)
{
    struct throttle_input in = well();
    in.replication_lag_s = lag_s;
    return in;
}

static double decide(struct throttle *t, struct throttle_input in)
{
    throttle_decide(t, &in);
    return t->rows_per_second;
}

static void test_throttle_decide__limits_nothing_while_all_is_well(void **state)
{
    (void)state;
    struct throttle t = {0};
    for (int i = 0; i < 10; i++)
        assert_true(decide(&t, well()) == 0);
    assert_string_equal(t.reason, "");
}

static void test_throttle_decide__halves_every_second_and_says_why(void **state)
{
    (void)state;
    struct throttle t = {0};
    (void)decide(&t, well());
    assert_true(decide(&t, slow(34)) == 200000);
    assert_string_equal(t.reason, "Redis p99 34 ms > 20 ms");
    assert_true(decide(&t, slow(35)) == 100000);
    struct throttle_input in = slow(36);
    in.elapsed_s = 0.5;
    assert_true(fabs(decide(&t, in) - 100000 / sqrt(2)) < 1);
    t = (struct throttle){0};
    assert_true(decide(&t, behind(12)) == 200000);
    assert_string_equal(t.reason, "replication lag 12 s > 10 s");
}

static void test_throttle_decide__never_goes_below_the_floor(void **state)
{
    (void)state;
    struct throttle t = {0};
    struct throttle_input in = slow(50);
    double floor = in.measured_rows_per_second / 20;
    for (int i = 0; i < 100; i++) {
        in.redis_p99_ms += 1;
        assert_true(decide(&t, in) >= floor);
    }
    assert_true(t.rows_per_second == floor);
    in.measured_rows_per_second = 0; /* a page takes several seconds */
    in.redis_p99_ms += 1;
    assert_true(decide(&t, in) == floor);
    /* With a low rate the floor is THROTTLE_FLOOR, which is more than a twentieth of the rate. */
    t = (struct throttle){0};
    in.measured_rows_per_second = 2500;
    for (int i = 0; i < 100; i++) {
        in.redis_p99_ms += 1;
        (void)decide(&t, in);
    }
    assert_true(t.rows_per_second == THROTTLE_FLOOR);
}

static void test_throttle_decide__does_not_brake_again_for_what_is_falling_already(void **state)
{
    (void)state;
    struct throttle t = {0};
    assert_true(decide(&t, behind(12)) == 200000);
    assert_true(decide(&t, behind(11.5)) == 200000);
    assert_true(decide(&t, behind(11)) == 200000);
    assert_true(decide(&t, behind(11.5)) == 100000);
}

static void test_throttle_decide__recovers_by_steps_and_forgets(void **state)
{
    (void)state;
    struct throttle t = {0};
    (void)decide(&t, slow(34));
    double last = t.rows_per_second;
    assert_true(decide(&t, slow(18)) == last); /* below the bound, but not far enough */
    assert_string_equal(t.reason, "recovering: Redis p99 34 ms > 20 ms");
    int seconds = 0;
    while (decide(&t, well()) > 0) {
        assert_true(t.rows_per_second > last && t.rows_per_second <= last + 400000 * 0.05 + 1);
        last = t.rows_per_second;
        assert_true(++seconds < 60);
    }
    assert_true(last >= 400000);
    assert_string_equal(t.reason, "");
}

static void test_throttle_decide__switches_a_bound_off_at_0_and_ignores_the_unknown(void **state)
{
    (void)state;
    struct throttle t = {0};
    struct throttle_input in = slow(500);
    in.redis_p99_max_ms = 0;
    assert_true(decide(&t, in) == 0);
    in = behind(500);
    in.replication_lag_max_s = 0;
    assert_true(decide(&t, in) == 0);
    in = well();
    in.redis_p99_ms = in.replication_lag_s = -1;
    assert_true(decide(&t, in) == 0);
    (void)decide(&t, slow(34));
    double before = t.rows_per_second;
    assert_true(decide(&t, in) > before); /* no known value exceeds its bound */
}

static void test_throttle_decide__obeys_the_operator(void **state)
{
    (void)state;
    struct throttle t = {0};
    struct throttle_input in = well();
    in.operator_rows_per_second = 5000;
    assert_true(decide(&t, in) == 5000);
    assert_string_equal(t.reason, "throttled by an operator to 5,000 rows/s");
    in.operator_rows_per_second = 500; /* below the floor */
    assert_true(decide(&t, in) == 500);
    in.operator_rows_per_second = 300000;
    in.redis_p99_ms = 40;
    assert_true(decide(&t, in) == 200000);
    assert_string_equal(t.reason, "Redis p99 40 ms > 20 ms");
    in.operator_rows_per_second = 0;
    in.redis_p99_ms = 2;
    while (decide(&t, in) > 0)
        assert_true(t.limit < 500000);
}

static void test_throttle_decide__leaves_alone_what_reads_nothing(void **state)
{
    (void)state;
    struct throttle t = {0};
    struct throttle_input in = slow(34);
    in.measured_rows_per_second = 0;
    assert_true(decide(&t, in) == 0);
    assert_string_equal(t.reason, "");
}

/* --- a simulated plant --- */

struct plant {
    double fastest;   /* rows/s without a limit */
    double slow_from; /* rows/s at which Redis's p99 is 20 ms */
    double replay;    /* rows/s that the standby can replay */
    double lag_s;
    double done;
    double lowest, highest; /* actual rate in the second half of the run */
    double worst_lag;
};

static void plant_run(struct plant *p, struct throttle *t, int seconds)
{
    p->lowest = p->highest = p->fastest;
    p->done = p->worst_lag = 0;
    double rate = p->fastest;
    for (int i = 0; i < seconds; i++) {
        p->lag_s = fmax(0, p->lag_s + (rate - p->replay) / p->replay);
        struct throttle_input in = well();
        in.redis_p99_ms = 1 + 19 * pow(rate / p->slow_from, 2);
        in.replication_lag_s = p->lag_s;
        in.measured_rows_per_second = rate;
        double allowed = decide(t, in);
        rate = allowed > 0 ? fmin(allowed, p->fastest) : p->fastest;
        p->done += rate;
        if (i >= seconds / 2) {
            p->lowest = fmin(p->lowest, rate);
            p->highest = i == seconds / 2 ? rate : fmax(p->highest, rate);
            p->worst_lag = fmax(p->worst_lag, p->lag_s);
        }
    }
}

static void test_throttle__settles_below_what_redis_can_take(void **state)
{
    (void)state;
    struct throttle t = {0};
    struct plant p = {.fastest = 400000, .slow_from = 150000, .replay = 1e9};
    plant_run(&p, &t, 200);
    assert_true(p.lowest > 150000 * 0.4);
    assert_true(p.highest < 150000 * 1.2);
    assert_true(p.done / 200 > 150000 * 0.6);
    /* When the load of others ends, the limit is lifted. */
    p.slow_from = 1e9;
    plant_run(&p, &t, 100);
    assert_true(t.rows_per_second == 0);
}

static void test_throttle__keeps_a_standby_near_its_bound(void **state)
{
    (void)state;
    struct throttle t = {0};
    struct plant p = {.fastest = 400000, .slow_from = 1e9, .replay = 100000};
    plant_run(&p, &t, 600);
    assert_true(p.worst_lag < 30);
    assert_true(p.lowest >= THROTTLE_FLOOR);
    assert_true(p.done / 600 > 100000 * 0.6);
}

static void test_throttle__goes_on_at_the_floor_where_it_is_not_the_cause(void **state)
{
    (void)state;
    struct throttle t = {0};
    struct plant p = {.fastest = 400000, .slow_from = 1, .replay = 1e9}; /* Redis is always slow */
    plant_run(&p, &t, 100);
    assert_true(p.lowest == 400000 / 20.0);
}

static void test_throttle_decide__is_free_as_soon_as_there_are_no_requests(void **state)
{
    (void)state;
    struct throttle t = {0};
    struct throttle_input none = slow(-1);
    none.idle = true;
    assert_true(decide(&t, slow(34)) > 0);
    assert_true(decide(&t, none) == 0);
    assert_string_equal(t.reason, "");
    /* A limit because of replication lag stays. */
    struct throttle_input late = behind(20);
    late.redis_p99_ms = -1;
    late.idle = true;
    assert_true(decide(&t, late) > 0);
    late.replication_lag_s = 1;
    assert_true(decide(&t, late) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_throttle_decide__limits_nothing_while_all_is_well),
        cmocka_unit_test(test_throttle_decide__halves_every_second_and_says_why),
        cmocka_unit_test(test_throttle_decide__never_goes_below_the_floor),
        cmocka_unit_test(test_throttle_decide__does_not_brake_again_for_what_is_falling_already),
        cmocka_unit_test(test_throttle_decide__recovers_by_steps_and_forgets),
        cmocka_unit_test(test_throttle_decide__switches_a_bound_off_at_0_and_ignores_the_unknown),
        cmocka_unit_test(test_throttle_decide__obeys_the_operator),
        cmocka_unit_test(test_throttle_decide__leaves_alone_what_reads_nothing),
        cmocka_unit_test(test_throttle__settles_below_what_redis_can_take),
        cmocka_unit_test(test_throttle__keeps_a_standby_near_its_bound),
        cmocka_unit_test(test_throttle__goes_on_at_the_floor_where_it_is_not_the_cause),
        cmocka_unit_test(test_throttle_decide__is_free_as_soon_as_there_are_no_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
