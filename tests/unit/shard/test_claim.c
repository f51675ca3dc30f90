/* SPDX-License-Identifier: MIT */
/* Which lists of nodes are compatible. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "shard/view/claim.h"

static struct nodes ours;

static int setup(void **state)
{
    struct error e;
    (void)state;
    return nodes_parse(&ours, "redis://a:1, redis://b:2, unix:///run/c", &e) == ERR_OK ? 0 : -1;
}

static void is_taken(const char *recorded, bool lacks_wanted)
{
    struct error e = {""};
    bool lacks = !lacks_wanted;
    if (claim_judge(&ours, recorded, &lacks, &e) != ERR_OK)
        fail_msg("%s: %s", recorded, e.text);
    assert_int_equal(lacks, lacks_wanted);
}

static void test_claim_judge__takes_the_same_home(void **state)
{
    (void)state;
    is_taken("a:1, b:2, /run/c", false);
    is_taken("A:1, /run/c, B:2", false); /* the same metadata node, the others in any order */
    is_taken("a:1", false);              /* the configuration has more nodes */
    is_taken("a:1, b:2, d:4", true);     /* the configuration lacks a node */
    is_taken("", false);
}

static void test_claim_judge__refuses_another_home_with_both_lists(void **state)
{
    static const char *const others[] = {"b:2, a:1, /run/c", "b:2", "/run/c, a:1", "d:4, a:1, b:2",
                                         "a:11, b:2"};
    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct error e = {""};
        bool lacks;
        assert_int_equal(claim_judge(&ours, others[i], &lacks, &e), ERR_CONFIG);
        assert_non_null(strstr(e.text, "\"a:1, b:2, /run/c\""));
        assert_non_null(strstr(e.text, others[i]));
    }
}

/* Names of nodes have no database. With another one a coordinator would see none of what lies there. */
static void test_claim_judge__refuses_another_database_of_a_node(void **state)
{
    static const char *const others[] = {"a:1/2, b:2, /run/c", "a:1, b:2/3",         "A:1, B:2/3",
                                         "a:1, /run/c?db=1",   "a:1, b:2/1, /run/c", "a:1, d:4, b:2/1"};
    struct error e = {""};
    bool lacks;
    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (claim_judge(&ours, others[i], &lacks, &e) != ERR_CONFIG)
            fail_msg("%s is taken", others[i]);
    is_taken("a:1, b:22, /run/c1", true); /* other nodes */
    assert_int_equal(nodes_parse(&ours, "redis://a:1/2, redis://b:2/3, unix:///run/c?db=1", &e), ERR_OK);
    is_taken("a:1/2, B:2/3, /run/c?db=1", false);
    assert_int_equal(claim_judge(&ours, "a:1, b:2/3, /run/c?db=1", &lacks, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "\"a:1/2, b:2/3, /run/c?db=1\""));
    assert_int_equal(claim_judge(&ours, "a:1/2, b:2, /run/c?db=1", &lacks, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "b:2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_claim_judge__takes_the_same_home, setup),
        cmocka_unit_test_setup(test_claim_judge__refuses_another_home_with_both_lists, setup),
        cmocka_unit_test_setup(test_claim_judge__refuses_another_database_of_a_node, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
