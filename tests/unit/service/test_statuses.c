/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "service/admin/statuses.h"

/* A Redis that answers @patience requests per round. */
struct redis {
    size_t patience, asked;
    enum status_is says;
    unsigned round;
};

static void play_round(struct statuses *kept, const char *const *names, struct redis *r)
{
    struct statuses now = {.cursor = kept->cursor};
    bool answered = false;
    for (; *names != NULL; names++)
        assert_non_null(statuses_add(&now, STATUS_OF_FILTER, *names, strlen(*names)));
    r->round++;
    for (r->asked = 0; r->asked < now.count && (r->asked == 0 || r->asked < r->patience); r->asked++) {
        struct status *one = statuses_next(&now, r->asked);
        one->is = r->says;
        if (r->says == STATUS_SAID)
            buffer_printf(&one->reply, "%s@%u", one->name, r->round);
        answered |= r->says != STATUS_UNREACHABLE;
    }
    statuses_end(&now, r->asked, answered);
    statuses_take(kept, &now, UNNAMED_DROP);
    assert_int_equal(now.count, 0);
    assert_int_equal(now.cursor, kept->cursor);
}

static void is(const struct statuses *s, const char *name, enum status_is is, const char *reply)
{
    for (size_t i = 0; i < s->count; i++) {
        struct buffer *b = &s->of[i].reply;
        if (strcmp(s->of[i].name, name) != 0)
            continue;
        assert_int_equal(s->of[i].is, is);
        assert_int_equal(b->length, strlen(reply));
        if (b->length > 0)
            assert_memory_equal(b->data, reply, b->length);
        return;
    }
    fail_msg("%s is missing", name);
}

static const char *const three[] = {"c", "a", "b", NULL};

static void test_statuses__goes_on_where_the_time_was_up(void **state)
{
    (void)state;
    struct statuses s = {0};
    struct redis r = {.patience = 2, .says = STATUS_SAID};
    play_round(&s, three, &r);
    is(&s, "c", STATUS_SAID, "c@1");
    is(&s, "a", STATUS_SAID, "a@1");
    is(&s, "b", STATUS_UNKNOWN, "");
    play_round(&s, three, &r);
    is(&s, "c", STATUS_SAID, "c@2");
    is(&s, "a", STATUS_SAID, "a@1");
    is(&s, "b", STATUS_SAID, "b@2");
    r.patience = 100;
    play_round(&s, three, &r);
    assert_int_equal(r.asked, 3);
    is(&s, "a", STATUS_SAID, "a@3");
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
    is(&s, "d", STATUS_SAID, "d@2");
    is(&s, "b", STATUS_SAID, "b@1");
    is(&s, "c", STATUS_SAID, "c@1");
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
        is(&s, three[i], STATUS_UNREACHABLE, "");
    r.says = STATUS_SAID;
    play_round(&s, three, &r); /* it replies again; the others keep their last status */
    is(&s, "c", STATUS_UNREACHABLE, "");
    is(&s, "a", STATUS_SAID, "a@3");
    is(&s, "b", STATUS_UNREACHABLE, "");
    r.says = STATUS_GONE; /* this is a reply, too */
    play_round(&s, three, &r);
    is(&s, "a", STATUS_SAID, "a@3");
    is(&s, "b", STATUS_GONE, "");
    statuses_fini(&s);
}

static void add(struct statuses *s, enum status_of of, const char *name, enum status_is is)
{
    struct status *one = statuses_add(s, of, name, strlen(name));
    assert_non_null(one);
    one->is = is;
    buffer_puts(&one->reply, is == STATUS_SAID ? "x" : "");
}

static void test_statuses__that_a_round_does_not_name_are_kept_or_gone(void **state)
{
    (void)state;
    struct statuses s = {0}, now = {0};
    add(&now, STATUS_OF_FILTER, "a", STATUS_SAID);
    add(&now, STATUS_OF_FILTER, "b", STATUS_UNKNOWN);
    add(&now, STATUS_OF_FILTER, "never", STATUS_GONE);
    add(&now, STATUS_OF_NODES, "nodes", STATUS_SAID);
    statuses_take(&s, &now, UNNAMED_GONE);
    assert_int_equal(s.version, 2);
    statuses_forget_gone(&s, s.version); /* of whom nobody was told anything */
    assert_int_equal(s.count, 3);
    add(&now, STATUS_OF_FILTER, "b", STATUS_GONE); /* nor of this one */
    statuses_take(&s, &now, UNNAMED_KEEP);
    assert_int_equal(s.version, 2);
    assert_int_equal(s.count, 3);
    statuses_forget_gone(&s, 0);
    assert_int_equal(s.count, 2);
    is(&s, "a", STATUS_SAID, "x");
    is(&s, "nodes", STATUS_SAID, "x");
    for (unsigned i = 0; i < 2; i++) { /* the second time it is no news */
        statuses_take(&s, &now, UNNAMED_GONE);
        assert_int_equal(s.version, 3);
        is(&s, "a", STATUS_GONE, "");
        is(&s, "nodes", STATUS_SAID, "x");
    }
    statuses_forget_gone(&s, 2);
    assert_int_equal(s.count, 2);
    statuses_forget_gone(&s, 3);
    assert_int_equal(s.count, 1);
    add(&now, STATUS_OF_FILTER, "a", STATUS_SAID);
    add(&now, STATUS_OF_FILTER, "b", STATUS_SAID);
    statuses_take(&s, &now, UNNAMED_DROP);
    assert_int_equal(s.count, 2);
    add(&now, STATUS_OF_FILTER, "a", STATUS_GONE); /* it was said, and is not there any more */
    statuses_take(&s, &now, UNNAMED_DROP);
    assert_int_equal(s.of[0].version, s.version);
    assert_int_equal(s.version, 6);
    statuses_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statuses__goes_on_where_the_time_was_up),
        cmocka_unit_test(test_statuses__follows_names_that_come_and_go),
        cmocka_unit_test(test_statuses__nothing_can_be_reached_where_nothing_was_answered),
        cmocka_unit_test(test_statuses__that_a_round_does_not_name_are_kept_or_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
