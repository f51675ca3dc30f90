/* SPDX-License-Identifier: MIT */
/* Which filters this process has seen, where one is deleted and made again under the same name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/clock.h"
#include "service/watch.h"

enum { FIRST = 11, SECOND = 22 };

static int setup(void **state)
{
    static struct service s;
    s.watch = watch_new();
    s.keeper = mailbox_new();
    *state = &s;
    return s.watch == NULL || s.keeper == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    mailbox_free(((struct service *)*state)->keeper);
    watch_free(((struct service *)*state)->watch);
    return 0;
}

static bool seen(struct service *s)
{
    return service_was_seen(s, "f", 1);
}

static void test_service_on_dropped__forgets_what_was_seen(void **state)
{
    struct service *s = *state;
    assert_false(seen(s));
    service_on_dropped(s, "f", 1, FIRST); /* of a filter that nobody here has asked for */
    service_on_seen(s, "f", 1, FIRST);
    assert_true(seen(s));
    assert_false(service_was_seen(s, "g", 1));
    service_on_dropped(s, "f", 1, FIRST);
    assert_false(seen(s));
}

static void test_service_on_dropped__does_not_forget_the_filter_that_came_after(void **state)
{
    struct service *s = *state;
    service_on_seen(s, "f", 1, FIRST);
    service_on_seen(s, "f", 1, SECOND);
    service_on_dropped(s, "f", 1, FIRST); /* a marker that was read before */
    assert_true(seen(s));
}

static void test_service_on_seen__does_not_bring_back_what_is_deleted(void **state)
{
    struct service *s = *state;
    service_on_seen(s, "f", 1, FIRST);
    service_on_dropped(s, "f", 1, FIRST);
    service_on_seen(s, "f", 1, FIRST); /* a view that was read before */
    assert_false(seen(s));
    service_on_seen(s, "f", 1, SECOND);
    service_on_seen(s, "f", 1, FIRST);
    assert_true(seen(s));
}

static bool tell(struct service *s, uint64_t incarnation, uint64_t epoch)
{
    static struct view v;
    v = (struct view){.incarnation = incarnation, .epoch = epoch};
    return service_on_view(s, "f", 1, &v, UINT64_MAX);
}

/* Of an epoch below @epoch. */
static uint64_t later_than(struct service *s, uint64_t incarnation, uint64_t epoch)
{
    static struct view v, out;
    v = (struct view){.incarnation = incarnation, .epoch = epoch};
    return watch_later_view(watch_find(s->watch, "f", 1), &v, &out) ? out.epoch : 0;
}

static void test_service_on_view__remembers_the_latest_of_an_incarnation(void **state)
{
    struct service *s = *state;
    assert_true(tell(s, FIRST, 7));
    assert_true(tell(s, FIRST, 7));
    assert_false(watch_take_doubt(watch_find(s->watch, "f", 1)));
    assert_false(tell(s, FIRST, 6));
    assert_true(watch_take_doubt(watch_find(s->watch, "f", 1)));
    assert_int_equal(later_than(s, FIRST, 6), 7);
    assert_int_equal(later_than(s, FIRST, 7), 0);
    assert_int_equal(later_than(s, SECOND, 1), 0);
    assert_true(tell(s, SECOND, 1)); /* made anew */
    assert_int_equal(later_than(s, FIRST, 6), 0);
    service_on_dropped(s, "f", 1, SECOND);
    assert_int_equal(later_than(s, SECOND, 0), 0);
    assert_true(tell(s, SECOND, 1)); /* who had read it before tells it late */
    assert_int_equal(later_than(s, SECOND, 0), 0);
}

/* A layer was added while the reply was on its way: it tells of the view before. */
static void test_service_on_view__asked_for_before_a_later_one_was_heard_of_did_not_go_back(void **state)
{
    struct service *s = *state;
    static struct view v;
    uint64_t before = clock_mono_us();
    assert_true(tell(s, FIRST, 5));
    v = (struct view){.incarnation = FIRST, .epoch = 4};
    assert_true(service_on_view(s, "f", 1, &v, before));
    assert_false(watch_take_doubt(watch_find(s->watch, "f", 1)));
    assert_int_equal(later_than(s, FIRST, 4), 5);
    assert_false(service_on_view(s, "f", 1, &v, clock_mono_us() + 1));
    assert_true(watch_take_doubt(watch_find(s->watch, "f", 1)));
}

static void test_service_is_loss_sure__for_the_view_that_was_looked_at(void **state)
{
    struct service *s = *state;
    struct watched *w = watch_find(s->watch, "f", 1);
    static struct view v;
    v = (struct view){.incarnation = FIRST, .epoch = 7};
    assert_false(service_is_loss_sure(s, "f", 1, &v));
    assert_true(watch_take_doubt(w));
    watch_note_sure(w, &v);
    assert_true(service_is_loss_sure(s, "f", 1, &v));
    v.epoch = 8;
    assert_false(service_is_loss_sure(s, "f", 1, &v));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_service_on_dropped__forgets_what_was_seen),
        TEST(test_service_on_dropped__does_not_forget_the_filter_that_came_after),
        TEST(test_service_on_seen__does_not_bring_back_what_is_deleted),
        TEST(test_service_on_view__remembers_the_latest_of_an_incarnation),
        TEST(test_service_on_view__asked_for_before_a_later_one_was_heard_of_did_not_go_back),
        TEST(test_service_is_loss_sure__for_the_view_that_was_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
