/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "service/http/http_states.h"

enum { MANY = 20000, SECONDS = 1 };

/* A look that found filters @from to @to - 1 with this reply; "": none was looked at now. */
static void look(struct http_states *s, unsigned from, unsigned to, const char *reply)
{
    struct statuses found = {0};
    for (unsigned i = from; i <= to; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "f%u", i);
        struct status *one = i < to ? statuses_add(&found, STATUS_OF_FILTER, name, strlen(name))
                                    : statuses_add(&found, STATUS_OF_NODES, "", 0);
        assert_non_null(one);
        buffer_puts(&one->reply, reply);
        one->is = reply[0] != '\0' ? STATUS_SAID : STATUS_UNKNOWN;
    }
    http_states_take(s, &found, true);
}

static size_t changed(const struct http_states *s, uint64_t since)
{
    size_t n = 0;
    for (size_t i = 0; i < s->of.count; i++)
        n += s->of.of[i].version > since;
    return n;
}

static void test_states__change_where_a_look_found_something_else(void **state)
{
    (void)state;
    struct http_states s = {.complete = false};
    look(&s, 0, 20, "");
    assert_int_equal(changed(&s, 0), 0);
    look(&s, 0, 20, "{\"job_state\":\"running\"}");
    assert_int_equal(changed(&s, 0), 21); /* and the nodes */
    assert_true(s.complete && s.busy);
    uint64_t before = s.of.version;
    look(&s, 0, 20, "{\"job_state\":\"running\"}");
    assert_int_equal(changed(&s, before), 0);
    look(&s, 5, 20, "{\"job_state\":\"done\"}");
    assert_int_equal(changed(&s, before), 21); /* five are gone */
    assert_false(s.busy);
    statuses_forget_gone(&s.of, s.of.version);
    assert_int_equal(changed(&s, 0), 16);
    before = s.of.version;
    look(&s, 0, 20, "{\"job_state\":\"done\"}");
    assert_int_equal(changed(&s, before), 5); /* they are there again */
    http_states_clear(&s);
    assert_int_equal(s.of.count, 0);
    look(&s, 0, 1, "{}");
    assert_int_equal(changed(&s, 0), 2);
    http_states_clear(&s);
}

/* The event loop does nothing else meanwhile. */
static void test_states__of_many_filters_cost_little(void **state)
{
    (void)state;
    struct http_states s = {.complete = false};
    look(&s, 0, MANY, "{}");
    clock_t before = clock();
    look(&s, 0, MANY, "{}");
    assert_true(clock() - before < SECONDS * CLOCKS_PER_SEC);
    assert_int_equal(changed(&s, 0), MANY + 1);
    http_states_clear(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states__change_where_a_look_found_something_else),
        cmocka_unit_test(test_states__of_many_filters_cost_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
