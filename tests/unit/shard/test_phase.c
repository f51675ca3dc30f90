/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "shard/phase.h"

/* DESIGN: the table of phases. A finished switch and an abort both lead to STEADY, or to OVERFLOW where the
 * generation that stays has several layers; where two generations are alive a layer is added within the
 * phase. */
static void test_phase_may_follow__allows_the_edges_of_the_design_and_no_other(void **state)
{
    (void)state;
    static const char *const edges[PHASE_COUNT] = {
        /* to:                  S B W O F  (W: switched, O: overflow open, F: overflow) */
        [PHASE_STEADY] = "xx.x.",        [PHASE_BUILDING] = "xxx.x", [PHASE_SWITCHED] = "xxx.x",
        [PHASE_OVERFLOW_OPEN] = "....x", [PHASE_OVERFLOW] = ".x.x.",
    };
    for (unsigned from = 0; from < PHASE_COUNT; from++)
        for (unsigned to = 0; to < PHASE_COUNT; to++)
            assert_int_equal(phase_may_follow((enum phase)from, (enum phase)to), edges[from][to] == 'x');
}

static void test_phase_row__writes_both_generations_while_two_are_alive(void **state)
{
    (void)state;
    for (unsigned i = 0; i < PHASE_COUNT; i++) {
        const struct phase_row *row = phase_row((enum phase)i);
        assert_int_equal(row->writes_alternate, i == PHASE_BUILDING || i == PHASE_SWITCHED);
        assert_true(strlen(row->summary) > 0);
    }
}

static void test_phase_row__opens_a_layer_within_a_phase_only_where_two_generations_are_alive(void **state)
{
    (void)state;
    for (unsigned i = 0; i < PHASE_COUNT; i++) {
        const struct phase_row *row = phase_row((enum phase)i);
        assert_int_equal(row->opening == OPENING_EITHER, row->writes_alternate);
        assert_int_equal(row->opening == OPENING_ALWAYS, i == PHASE_OVERFLOW_OPEN);
        assert_int_equal(phase_may_follow((enum phase)i, (enum phase)i),
                         row->opening == OPENING_EITHER || i == PHASE_STEADY);
    }
}

static void test_phase_alone__is_overflow_where_there_are_several_layers(void **state)
{
    (void)state;
    assert_int_equal(phase_alone(1), PHASE_STEADY);
    assert_int_equal(phase_alone(2), PHASE_OVERFLOW);
    assert_int_equal(phase_alone(24), PHASE_OVERFLOW);
}

static void test_phase_parse__reads_its_own_names_and_nothing_else(void **state)
{
    (void)state;
    enum phase phase = PHASE_COUNT;
    for (unsigned i = 0; i < PHASE_COUNT; i++) {
        const char *name = phase_row((enum phase)i)->name;
        assert_true(phase_parse(name, strlen(name), &phase));
        assert_int_equal(phase, i);
        assert_false(phase_parse(name, strlen(name) - 1, &phase) && phase == i);
    }
    static const char *const bad[] = {"", "steady", "STEADY ", "OVERFLOW_", "STEADYX"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(phase_parse(bad[i], strlen(bad[i]), &phase));
    assert_false(phase_parse("STEADY\0", 7, &phase));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_phase_may_follow__allows_the_edges_of_the_design_and_no_other),
        cmocka_unit_test(test_phase_row__writes_both_generations_while_two_are_alive),
        cmocka_unit_test(test_phase_row__opens_a_layer_within_a_phase_only_where_two_generations_are_alive),
        cmocka_unit_test(test_phase_alone__is_overflow_where_there_are_several_layers),
        cmocka_unit_test(test_phase_parse__reads_its_own_names_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
