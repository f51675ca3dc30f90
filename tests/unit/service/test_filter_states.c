/* SPDX-License-Identifier: MIT */
/* Which filters this process has seen, also if a filter is deleted and created again with the same name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/clock.h"
#include "service/core/service.h"
#include "service/filters/sources.h"
#include "service/filters/filter_states.h"
#include "tests/unit/service/ini.h"

enum { FIRST = 11, SECOND = 22, NAMES = 200000 };

static int setup(void **state)
{
    static struct service s;
    s.watch = filter_states_new();
    s.controller = mailbox_new();
    *state = &s;
    return s.watch == NULL || s.controller == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    mailbox_free(((struct service *)*state)->controller);
    filter_states_free(((struct service *)*state)->watch);
    return 0;
}

static bool seen(struct service *s)
{
    return filter_states_seen(s->watch, "f", 1) != 0;
}

static void test_filter_states_on_dropped__forgets_what_was_seen(void **state)
{
    struct service *s = *state;
    assert_false(seen(s));
    filter_states_on_dropped(s->watch, "f", 1, FIRST); /* this process has not seen the filter */
    filter_states_on_seen(s->watch, "f", 1, FIRST);
    assert_true(seen(s));
    assert_false(filter_states_seen(s->watch, "g", 1) != 0);
    filter_states_on_dropped(s->watch, "f", 1, FIRST);
    assert_false(seen(s));
}

static void test_filter_states_on_dropped__does_not_forget_the_filter_that_came_after(void **state)
{
    struct service *s = *state;
    filter_states_on_seen(s->watch, "f", 1, FIRST);
    filter_states_on_seen(s->watch, "f", 1, SECOND);
    filter_states_on_dropped(s->watch, "f", 1, FIRST); /* a late report of the first filter's deletion */
    assert_true(seen(s));
}

/* The controller has looked at the filter, and says so behind its deletion. Nobody would look again. */
static void test_filter_state_serve__does_not_bring_back_what_is_deleted(void **state)
{
    struct service *s = *state;
    struct filter_state *w = filter_states_find(s->watch, "f", 1);
    filter_states_on_seen(s->watch, "f", 1, FIRST);
    filter_state_serve(w, FIRST, 3);
    assert_int_equal(filter_states_total(s->watch).filters, 1);
    filter_states_on_dropped(s->watch, "f", 1, FIRST);
    filter_state_serve(w, FIRST, 3);
    assert_int_equal(filter_states_total(s->watch).filters, 0);
    filter_state_serve(w, SECOND, 1);
    assert_int_equal(filter_states_total(s->watch).filters, 1);
}

static void test_filter_states_on_seen__does_not_bring_back_what_is_deleted(void **state)
{
    struct service *s = *state;
    filter_states_on_seen(s->watch, "f", 1, FIRST);
    filter_states_on_dropped(s->watch, "f", 1, FIRST);
    filter_states_on_seen(s->watch, "f", 1, FIRST); /* a view that was read before the deletion */
    assert_false(seen(s));
    filter_states_on_seen(s->watch, "f", 1, SECOND);
    filter_states_on_seen(s->watch, "f", 1, FIRST);
    assert_true(seen(s));
}

/* --- dropped names --- */

static size_t name_of(unsigned i, char out[32])
{
    return (size_t)snprintf(out, 32, "short-lived-%u", i);
}

/* Create a filter, which the controller examines in round @round. */
static void make(struct service *s, unsigned i, uint64_t round)
{
    char name[32];
    size_t length = name_of(i, name);
    filter_states_on_seen(s->watch, name, length, FIRST);
    struct filter_state *w = filter_states_find(s->watch, name, length);
    assert_non_null(w);
    w->round = round;
}

static void drop(struct service *s, unsigned i)
{
    char name[32];
    size_t length = name_of(i, name);
    filter_states_on_dropped(s->watch, name, length, FIRST);
}

static bool was_seen(struct service *s, unsigned i)
{
    char name[32];
    size_t length = name_of(i, name);
    return filter_states_seen(s->watch, name, length) != 0;
}

static unsigned count(struct service *s)
{
    unsigned n = 0;
    for (const struct filter_state *w = filter_states_next(s->watch, NULL); w != NULL;
         w = filter_states_next(s->watch, w))
        n++;
    return n;
}

static void test_watch_forget__the_names_of_filters_that_are_deleted(void **state)
{
    struct service *s = *state;
    for (unsigned i = 0; i < NAMES; i++) {
        make(s, i, 1);
        drop(s, i);
    }
    assert_int_equal(count(s), NAMES);
    filter_states_forget(s->watch, 2);
    assert_int_equal(count(s), 0);
}

static void test_watch_forget__none_of_those_that_are_there(void **state)
{
    struct service *s = *state;
    for (unsigned i = 0; i < NAMES; i++)
        make(s, i, 1);
    filter_states_forget(s->watch, 2);
    assert_int_equal(count(s), NAMES);
    for (unsigned i = 0; i < NAMES; i++)
        assert_true(was_seen(s, i));
    assert_false(was_seen(s, NAMES));
}

static void test_watch_forget__none_that_was_looked_at_or_was_made_again(void **state)
{
    struct service *s = *state;
    char name[32];
    make(s, 0, 1); /* the filter does not exist any more, but nobody has deleted it */
    make(s, 1, 1);
    drop(s, 1);
    make(s, 2, 2); /* deleted, but its name is still listed */
    drop(s, 2);
    make(s, 3, 1); /* deleted, and another filter has its name since */
    drop(s, 3);
    size_t length = name_of(3, name);
    filter_states_on_seen(s->watch, name, length, SECOND);
    filter_states_forget(s->watch, 2);
    assert_int_equal(count(s), 3);
    assert_true(was_seen(s, 0) && !was_seen(s, 1) && was_seen(s, 3));
    filter_states_forget(s->watch, 3);
    assert_int_equal(count(s), 2);
}

/* The filter is removed from the configuration while its table is examined. */
static void test_watch_forget__one_whose_source_was_looked_at_in_vain(void **state)
{
    struct service *s = *state;
    struct sources *sources = NULL;
    struct error e;
    struct source_facts found;
    struct config *config = ini_accept("[postgres]\ndsn = host=/nowhere\n[filter f]\ntable = t\nkey = k\n");
    assert_int_equal(sources_start(&sources, s->controller, &e), ERR_OK);
    struct filter_state *w = filter_states_find(s->watch, "f", 1);
    w->round = 1;
    w->look = sources_look(sources, config, &config->filter[0], false);
    assert_non_null(w->look);
    while (!source_look_ended(w->look, &found))
        clock_sleep_us(1000);
    filter_states_forget(s->watch, 2);
    assert_int_equal(count(s), 0);
    sources_stop(sources);
    sources = NULL;
    config_release(config);
}

static size_t sample(struct service *s, unsigned i)
{
    char name[16];
    struct fill out[FILLS_MAX];
    const struct fill one = {.at_s = 1700000000, .items = i, .capacity = 1000};
    size_t length = (size_t)snprintf(name, sizeof(name), "f%u", i);
    filter_states_sample(s->watch, name, length, FIRST, &one);
    return filter_states_samples(s->watch, name, length, out);
}

static void test_samples__of_too_many_filters_wait_for_one_that_is_gone(void **state)
{
    struct service *s = *state;
    char name[16];
    assert_int_equal(sample(s, 0), 0); /* nobody knows it */
    for (unsigned i = 0; i <= STATES_SAMPLED_MAX; i++) {
        size_t length = (size_t)snprintf(name, sizeof(name), "f%u", i);
        filter_states_on_seen(s->watch, name, length, FIRST);
        assert_int_equal(sample(s, i), i < STATES_SAMPLED_MAX);
    }
    filter_states_on_dropped(s->watch, "f7", 2, FIRST);
    filter_states_forget(s->watch, 2);
    assert_int_equal(sample(s, STATES_SAMPLED_MAX), 1);
    assert_int_equal(sample(s, 7), 0);
    assert_int_equal(sample(s, 8), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_filter_states_on_dropped__forgets_what_was_seen),
        TEST(test_filter_states_on_dropped__does_not_forget_the_filter_that_came_after),
        TEST(test_filter_state_serve__does_not_bring_back_what_is_deleted),
        TEST(test_filter_states_on_seen__does_not_bring_back_what_is_deleted),
        TEST(test_watch_forget__the_names_of_filters_that_are_deleted),
        TEST(test_watch_forget__none_of_those_that_are_there),
        TEST(test_watch_forget__none_that_was_looked_at_or_was_made_again),
        TEST(test_watch_forget__one_whose_source_was_looked_at_in_vain),
        TEST(test_samples__of_too_many_filters_wait_for_one_that_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
