/* SPDX-License-Identifier: MIT */
/* Which filters this process has seen, where one is deleted and made again under the same name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "service/watch.h"

enum { FIRST = 11, SECOND = 22 };

static int setup(void **state)
{
    static struct service s;
    s.watch = watch_new();
    *state = &s;
    return s.watch == NULL ? -1 : 0;
}

static int teardown(void **state)
{
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_service_on_dropped__forgets_what_was_seen),
        TEST(test_service_on_dropped__does_not_forget_the_filter_that_came_after),
        TEST(test_service_on_seen__does_not_bring_back_what_is_deleted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
