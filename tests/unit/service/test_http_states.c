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
    struct admin_call call = {.status = ERR_OK};
    struct buffer b = {0};
    buffer_puts(&b, reply);
    for (unsigned i = from; i < to; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "f%u", i);
        watching_put(&call, WATCHING_FILTER, name, strlen(name), &b);
    }
    watching_put(&call, WATCHING_NODES, "", 0, &b);
    http_states_take(s, &call, true);
    buffer_fini(&call.reply);
    buffer_fini(&b);
}

static size_t changed(const struct http_states *s, uint64_t since)
{
    const struct http_state *e;
    size_t n = 0;
    TAILQ_FOREACH(e, &s->list, link)
    n += e->version > since;
    return n;
}

static void test_states__change_where_a_look_found_something_else(void **state)
{
    (void)state;
    struct http_states s;
    http_states_init(&s);
    look(&s, 0, 20, "");
    assert_int_equal(changed(&s, 0), 0);
    look(&s, 0, 20, "{\"job_state\":\"running\"}");
    assert_int_equal(changed(&s, 0), 21); /* and the nodes */
    assert_true(s.complete && http_states_busy(&s));
    uint64_t before = s.version;
    look(&s, 0, 20, "{\"job_state\":\"running\"}");
    assert_int_equal(changed(&s, before), 0);
    look(&s, 5, 20, "{\"job_state\":\"done\"}");
    assert_int_equal(changed(&s, before), 21); /* five are gone */
    assert_false(http_states_busy(&s));
    http_states_told(&s, s.version);
    assert_int_equal(changed(&s, 0), 16);
    before = s.version;
    look(&s, 0, 20, "{\"job_state\":\"done\"}");
    assert_int_equal(changed(&s, before), 5); /* they are there again */
    http_states_clear(&s);
    assert_true(TAILQ_EMPTY(&s.list));
    look(&s, 0, 1, "{}");
    assert_int_equal(changed(&s, 0), 2);
    http_states_clear(&s);
}

/* The event loop does nothing else meanwhile. */
static void test_states__of_many_filters_cost_little(void **state)
{
    (void)state;
    struct http_states s;
    http_states_init(&s);
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
