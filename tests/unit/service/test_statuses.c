/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "service/metrics/statuses.h"

/* A Redis that answers @patience requests per round. */
struct redis {
    size_t patience, asked;
    enum status_is says;
    unsigned round;
};

static void play_round(struct statuses *kept, const char *const *names, struct redis *r)
{
    struct statuses now = {0};
    bool answered = false;
    for (; *names != NULL; names++)
        assert_true(statuses_add(&now, *names, strlen(*names)));
    r->round++;
    for (r->asked = 0; r->asked < now.count && (r->asked == 0 || r->asked < r->patience); r->asked++) {
        struct status *one = statuses_next(&now, kept, r->asked);
        one->is = r->says;
        if (r->says == STATUS_SAID)
            buffer_printf(&one->reply, "%s@%u", one->name, r->round);
        answered |= r->says != STATUS_UNREACHABLE;
    }
    statuses_end(&now, kept, r->asked, answered);
    assert_int_equal(kept->count, 0);
    *kept = now;
}

static void is(const struct statuses *s, size_t i, enum status_is is, const char *reply)
{
    struct buffer *b = &s->of[i].reply;
    assert_int_equal(s->of[i].is, is);
    assert_int_equal(b->length, strlen(reply));
    if (b->length > 0)
        assert_memory_equal(b->data, reply, b->length);
}

static const char *const three[] = {"c", "a", "b", NULL};

static void test_statuses__goes_on_where_the_time_was_up(void **state)
{
    (void)state;
    struct statuses s = {0};
    struct redis r = {.patience = 2, .says = STATUS_SAID};
    play_round(&s, three, &r);
    is(&s, 0, STATUS_SAID, "c@1");
    is(&s, 1, STATUS_SAID, "a@1");
    is(&s, 2, STATUS_UNKNOWN, "");
    play_round(&s, three, &r);
    is(&s, 0, STATUS_SAID, "c@2");
    is(&s, 1, STATUS_SAID, "a@1");
    is(&s, 2, STATUS_SAID, "b@2");
    r.patience = 100;
    play_round(&s, three, &r);
    assert_int_equal(r.asked, 3);
    is(&s, 1, STATUS_SAID, "a@3");
    statuses_fini(&s);
}

static void test_statuses__follows_names_that_come_and_go(void **state)
{
    (void)state;
    static const char *const others[] = {"d", "b", "c", NULL}, *const none[] = {NULL};
    struct statuses s = {0};
    struct redis r = {.patience = 100, .says = STATUS_SAID};
    play_round(&s, three, &r);
    r.patience = 0; /* at least one filter is asked for */
    play_round(&s, others, &r);
    is(&s, 0, STATUS_SAID, "d@2");
    is(&s, 1, STATUS_SAID, "b@1");
    is(&s, 2, STATUS_SAID, "c@1");
    play_round(&s, none, &r);
    assert_int_equal(r.asked, 0);
    assert_int_equal(s.count, 0);
    play_round(&s, three, &r);
    assert_int_equal(r.asked, 1);
    statuses_fini(&s);
}

static void test_statuses__nothing_can_be_reached_where_nothing_was_answered(void **state)
{
    (void)state;
    struct statuses s = {0};
    struct redis r = {.patience = 100, .says = STATUS_SAID};
    play_round(&s, three, &r);
    r.patience = 1;
    r.says = STATUS_UNREACHABLE;
    play_round(&s, three, &r);
    for (size_t i = 0; i < 3; i++)
        is(&s, i, STATUS_UNREACHABLE, "");
    r.says = STATUS_SAID;
    play_round(&s, three, &r); /* it replies again; the others keep their last status */
    is(&s, 0, STATUS_UNREACHABLE, "");
    is(&s, 1, STATUS_SAID, "a@3");
    is(&s, 2, STATUS_UNREACHABLE, "");
    r.says = STATUS_GONE; /* this is a reply, too */
    play_round(&s, three, &r);
    is(&s, 1, STATUS_SAID, "a@3");
    is(&s, 2, STATUS_GONE, "");
    statuses_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statuses__goes_on_where_the_time_was_up),
        cmocka_unit_test(test_statuses__follows_names_that_come_and_go),
        cmocka_unit_test(test_statuses__nothing_can_be_reached_where_nothing_was_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
