/* SPDX-License-Identifier: MIT */
/* BF.*, row by row: replies in both protocols, verbatim error texts, the order of checks. */
#include "tests/integration/contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- for all --- */

static void test_names__are_taken_in_any_case(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"bf.reserve cased 0.01 100 expansion 4", "+OK"},
        {"Bf.InSeRt cased nocreate items a", "*1\r\n:1"},
        {"bf.info cased expansion", "*1\r\n:4"},
        {"BF.EXISTS CASED a", ":0"}, /* keys are case-sensitive */
    };
    RUN(rows);
}

static void test_keys_and_items__may_be_empty_or_hold_any_byte(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.ADD \"\" \"\"", ":1"},
        {"BF.ADD \"\" \"\"", ":0"},
        {"BF.EXISTS \"\" \"\"", ":1"},
        {"BF.CARD \"\"", ":1"},
        {"BF.ADD \"k\\x00\\r\\n\\xff\" \"\\x00\"", ":1"},
        {"BF.EXISTS \"k\\x00\\r\\n\\xff\" \"\\x00\"", ":1"},
        {"BF.EXISTS \"k\" \"\\x00\"", ":0"},
        {"BF.EXISTS \"k\\x00\\r\\n\\xff\" \"\"", ":0"},
        {"BF.ADD \"f{a}b\" x", ":1"},
        {"BF.EXISTS \"f{a}b\" x", ":1"},
        {"BF.EXISTS \"f{a}\" x", ":0"},
        {"BF.EXISTS \"fab\" x", ":0"},
        {"BF.ADD {} x", ":1"},
        {"BF.EXISTS {} x", ":1"},
    };
    RUN(rows);
}

static void test_arity__is_an_error_with_the_lower_case_name(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.ADD", ARITY("bf.add")},
        {"BF.ADD k", ARITY("bf.add")},
        {"BF.ADD k a b", ARITY("bf.add")},
        {"BF.MADD k", ARITY("bf.madd")},
        {"BF.EXISTS k", ARITY("bf.exists")},
        {"BF.EXISTS k a b", ARITY("bf.exists")},
        {"BF.MEXISTS k", ARITY("bf.mexists")},
        {"BF.CARD", ARITY("bf.card")},
        {"BF.CARD k x", ARITY("bf.card")},
        {"BF.INFO", ARITY("bf.info")},
        {"BF.INFO k ITEMS x", ARITY("bf.info")},
        {"BF.RESERVE", ARITY("bf.reserve")},
        {"BF.INSERT k ITEMS", ARITY("bf.insert")},
    };
    RUN(rows);
}

static void test_unknown_commands__are_named_with_their_arguments(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.NOSUCH k", "-ERR unknown command 'BF.NOSUCH', with args beginning with: 'k' "},
        {"bf.nosuch a \"b c\"", "-ERR unknown command 'bf.nosuch', with args beginning with: 'a' 'b c' "},
        {"BF.NOSUCH", "-ERR unknown command 'BF.NOSUCH', with args beginning with: "},
        {"\"BF.NO\\r\\nX\" \"a\\nb\"", "-ERR unknown command 'BF.NO  X', with args beginning with: 'a b' "},
        {"PING", "+PONG"},
    };
    RUN(rows);
}

static void test_option_words__are_not_looked_for_in_the_key(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.INSERT NOCREATE ITEMS a", "*1\r\n:1"},
        {"BF.INSERT ITEMS ITEMS ITEMS", "*1\r\n:1"},
        {"BF.EXISTS ITEMS ITEMS", ":1"},
        {"BF.INSERT CAPACITY CAPACITY 300 ITEMS a", "*1\r\n:1"},
        {"BF.INFO CAPACITY CAPACITY", "*1\r\n:300"},
        {"BF.RESERVE EXPANSION 0.01 100", "+OK"},
        {"BF.RESERVE NONSCALING 0.01 100", "+OK"},
        {"BF.INFO NONSCALING EXPANSION", "*1\r\n:2"},           /* the filter named NONSCALING can grow */
        {"BF.INSERT k ITEMS ITEMS NOCREATE", "*2\r\n:1\r\n:1"}, /* option words after ITEMS are items */
        {"BF.MEXISTS k ITEMS NOCREATE", "*2\r\n:1\r\n:1"},
    };
    RUN(rows);
}

/* --- BF.RESERVE --- */

static void test_bf_reserve__makes_a_filter_once(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.RESERVE r 0.01 1000", "+OK"},
        {"BF.RESERVE r 0.01 1000", "-ERR item exists"},
        {"BF.RESERVE r abc 1000", "-ERR bad error rate"}, /* the rate is checked before the name */
        {"BF.RESERVE r1 1e-2 100 EXPANSION 4", "+OK"},
        {"BF.INFO r1 EXPANSION", "*1\r\n:4"},
        {"BF.RESERVE r2 .01 100 NONSCALING", "+OK"},
        {"BF.INFO r2 EXPANSION", "*1\r\n$-1"},
        {"BF.RESERVE r3 0.01 1", "+OK"},
    };
    RUN(rows);
}

static void test_bf_reserve__validates_in_the_order_of_the_contract(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.RESERVE x 0.01", ARITY("bf.reserve")},
        {"BF.RESERVE x abc 100 EXPANSION 2 NONSCALING x", ARITY("bf.reserve")},
        {"BF.RESERVE x abc def", "-ERR bad error rate"},
        {"BF.RESERVE x \"\" 100", "-ERR bad error rate"},
        {"BF.RESERVE x \" 0.1\" 100", "-ERR bad error rate"},
        {"BF.RESERVE x nan 100", "-ERR bad error rate"},
        {"BF.RESERVE x 0 abc", "-ERR (0 < error rate range < 1) "},
        {"BF.RESERVE x 1 100", "-ERR (0 < error rate range < 1) "},
        {"BF.RESERVE x -0.1 100", "-ERR (0 < error rate range < 1) "},
        {"BF.RESERVE x 0.01 abc EXPANSION", "-ERR bad capacity"},
        {"BF.RESERVE x 0.01 +5", "-ERR bad capacity"},
        {"BF.RESERVE x 0.01 1.5", "-ERR bad capacity"},
        {"BF.RESERVE x 0.01 \" 5\"", "-ERR bad capacity"},
        {"BF.RESERVE x 0.01 99999999999999999999", "-ERR bad capacity"},
        {"BF.RESERVE x 0.01 0 EXPANSION", "-ERR (capacity should be larger than 0)"},
        {"BF.RESERVE x 0.01 -1", "-ERR (capacity should be larger than 0)"},
        {"BF.RESERVE x 0.01 100 EXPANSION", "-ERR no expansion"},
        {"BF.RESERVE x 0.01 100 NONSCALING EXPANSION", "-ERR no expansion"},
        {"BF.RESERVE x 0.01 100 EXPANSION 2 NONSCALING", "-Nonscaling filters cannot expand"},
        {"BF.RESERVE x 0.01 100 NONSCALING EXPANSION abc", "-Nonscaling filters cannot expand"},
        {"BF.RESERVE x 0.01 100 EXPANSION abc", "-ERR bad expansion"},
        {"BF.RESERVE x 0.01 100 EXPANSION 0", "-ERR expansion should be greater or equal to 1"},
        {"BF.RESERVE x 0.01 100 EXPANSION -1", "-ERR expansion should be greater or equal to 1"},
        {"BF.RESERVE x 0.01 100 EXPANSION 32769", "-ERR expansion must be in the range [0, 32768]"},
        {"BF.RESERVE x 0.01 100 EXPANSION 02", "-ERR bad expansion"},
        {"BF.RESERVE x 0.01 0100", "-ERR bad capacity"},
        {"BF.RESERVE x 0.01 +100", "-ERR bad capacity"},
        {"BF.RESERVE x +-0.1 100", "-ERR bad error rate"},
        {"BF.RESERVE plus +0.1 100", "+OK"},
        {"BF.EXISTS x a", ":0"},
        {"BF.RESERVE x 0.01 100", "+OK"}, /* none of the requests above made the filter */
    };
    RUN(rows);
}

/* The limit depends on the available memory, and the error has figures after the contract's text. Nothing
 * crashes or fills up. */
static void test_bf_reserve__refuses_an_absurd_capacity_and_lives_on(void **state)
{
    (void)state;
    static const char begins[] = "-ERR Insufficient memory to create filter";
    static const char *const requests[] = {
        "BF.RESERVE absurd 0.0001 9223372036854775807\r\n", /* beyond any geometry */
        "BF.RESERVE absurd 0.01 1000000000000000000\r\n",
        "BF.RESERVE absurd 0.0000001 100000000000\r\n", /* beyond the machine */
        "BF.INSERT absurd CAPACITY 100000000000 ERROR 0.0000001 ITEMS a\r\n"};
    int fd = contract_open();
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        char reply[1024];
        assert_true(raw_puts(fd, requests[i]));
        assert_true(raw_read_until(fd, "\r\n", reply, sizeof(reply)));
        if (strncmp(reply, begins, sizeof(begins) - 1) != 0)
            fail_msg("%s", reply);
    }
    static const struct exchange rows[] = {{"PING", "+PONG"}, {"BF.INFO absurd", "-ERR not found"}};
    contract_run(fd, rows, 2);
    raw_close(fd);
}

/* --- BF.ADD, BF.MADD --- */

static void test_bf_add__creates_counts_and_remembers(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.ADD added a", ":1"},
        {"BF.ADD added a", ":0"},
        {"BF.EXISTS added a", ":1"},
        {"BF.EXISTS added b", ":0"},
        {"BF.CARD added", ":1"},
        {"BF.INFO added CAPACITY", "*1\r\n:100"},
        {"BF.INFO added EXPANSION", "*1\r\n:2"},
    };
    static const struct exchange three[] = {
        {"BF.ADD added3 a", "#t"}, {"BF.ADD added3 a", "#f"}, {"BF.EXISTS added3 a", "#t"}};
    RUN(rows);
    RUN3(three);
}

static void test_bf_add__to_a_full_filter_that_does_not_scale_is_an_error(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.RESERVE full 0.000001 2 NONSCALING", "+OK"},
        {"BF.ADD full a", ":1"},
        {"BF.ADD full b", ":1"},
        {"BF.ADD full z", "-ERR non scaling filter is full"},
        {"BF.ADD full a", ":0"}, /* the key is present */
        {"BF.EXISTS full z", ":0"},
    };
    RUN(rows);
}

static void test_bf_madd__answers_in_an_array(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.MADD many b c b", "*3\r\n:1\r\n:1\r\n:0"},
        {"BF.MADD many a", "*1\r\n:1"},
        {"BF.CARD many", ":3"},
    };
    static const struct exchange three[] = {{"BF.MADD many a d", "*2\r\n#f\r\n#t"}};
    RUN(rows);
    RUN3(three);
}

static void test_bf_madd__ends_at_the_first_item_that_a_full_filter_refuses(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.RESERVE brim 0.000001 5 NONSCALING", "+OK"},
        {"BF.MADD brim a b c", "*3\r\n:1\r\n:1\r\n:1"},
        {"BF.MADD brim d e f g", "*3\r\n:1\r\n:1\r\n-ERR non scaling filter is full"},
        {"BF.MEXISTS brim a d e f", "*4\r\n:1\r\n:1\r\n:1\r\n:0"}, /* earlier items stay added */
        {"BF.MADD brim a z b", "*2\r\n:0\r\n-ERR non scaling filter is full"},
        {"BF.INSERT brim ITEMS a z", "*2\r\n:0\r\n-ERR non scaling filter is full"},
    };
    static const struct exchange three[] = {
        {"BF.MADD brim a z", "*2\r\n#f\r\n-ERR non scaling filter is full"}};
    RUN(rows);
    RUN3(three);
}

/* --- BF.INSERT --- */

static void test_bf_insert__takes_options_in_any_order_and_the_last_counts(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.INSERT i CAPACITY 1000 ERROR 0.001 ITEMS a b", "*2\r\n:1\r\n:1"},
        {"BF.INFO i CAPACITY", "*1\r\n:1000"},
        {"BF.INSERT i2 NONSCALING ERROR 0.01 CAPACITY 70 ITEMS a", "*1\r\n:1"},
        {"BF.INFO i2 CAPACITY", "*1\r\n:70"},
        {"BF.INFO i2 EXPANSION", "*1\r\n$-1"},
        {"BF.INSERT i3 EXPANSION 3 ITEMS a", "*1\r\n:1"},
        {"BF.INFO i3 EXPANSION", "*1\r\n:3"},
        {"BF.INSERT twice CAPACITY 10 CAPACITY 5000 ITEMS a", "*1\r\n:1"},
        {"BF.INSERT twice CAPACITY 0 ERROR 2 EXPANSION 0 CAPACITY 5000 ERROR 0.01 EXPANSION 2 ITEMS b",
         "*1\r\n:1"},
        {"BF.INFO twice CAPACITY", "*1\r\n:5000"},
        {"BF.INSERT plain ITEMS a", "*1\r\n:1"},
        {"BF.INFO plain CAPACITY", "*1\r\n:100"},
    };
    static const struct exchange three[] = {{"BF.INSERT i ITEMS a e", "*2\r\n#f\r\n#t"}};
    RUN(rows);
    RUN3(three);
}

static void test_bf_insert__with_nocreate_wants_the_filter_to_be_there(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.INSERT nothere NOCREATE ITEMS a", "-ERR not found"},
        {"BF.INSERT nothere NOCREATE CAPACITY 10 ITEMS a", "-ERR not found"},
        {"BF.EXISTS nothere a", ":0"},
        {"BF.ADD there a", ":1"},
        {"BF.INSERT there NOCREATE ITEMS a b", "*2\r\n:0\r\n:1"},
    };
    RUN(rows);
}

static void test_bf_insert__validates_options_even_where_the_filter_is_there(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.ADD v x", ":1"},
        {"BF.INSERT v", ARITY("bf.insert")},
        {"BF.INSERT v ITEMS", ARITY("bf.insert")},
        {"BF.INSERT v CAPACITY 100", ARITY("bf.insert")},
        {"BF.INSERT v NOCREATE ITEMS", ARITY("bf.insert")},
        {"BF.INSERT v NOCREATE CAPACITY", ARITY("bf.insert")},
        {"BF.INSERT v FOO 1 ITEMS a", "-Unknown argument received"},
        {"BF.INSERT v CAPACITY 10 a", "-Unknown argument received"},
        {"BF.INSERT v CAPACITY abc ITEMS a", "-Bad capacity"},
        {"BF.INSERT v CAPACITY ITEMS a", "-Bad capacity"},
        {"BF.INSERT v ERROR abc ITEMS a", "-Bad error rate"},
        {"BF.INSERT v EXPANSION 1.5 ITEMS a", "-Bad expansion"},
        {"BF.INSERT v CAPACITY 0 ITEMS a", "-Bad argument received"},
        {"BF.INSERT v CAPACITY -5 ITEMS a", "-Bad argument received"},
        {"BF.INSERT v ERROR 0 ITEMS a", "-Bad argument received"},
        {"BF.INSERT v ERROR 1 ITEMS a", "-Bad argument received"},
        {"BF.INSERT v EXPANSION 0 ITEMS a", "-Bad argument received"},
        {"BF.INSERT v EXPANSION 32769 ITEMS a", "-Bad expansion"},
        {"BF.INSERT v CAPACITY 01 ITEMS a", "-Bad capacity"},
        {"BF.INSERT v ERROR +0.1 ITEMS", ARITY("bf.insert")},
        {"BF.INSERT v CAPACITY 0 ITEMS",
         ARITY("bf.insert")}, /* first the words are checked, then their number, then the values */
        {"BF.INSERT v CAPACITY 0 FOO ITEMS a", "-Unknown argument received"},
        {"BF.INSERT v ERROR 2 CAPACITY abc ITEMS a", "-Bad capacity"},
        {"BF.INSERT v CAPACITY 10 CAPACITY abc ITEMS a", "-Bad capacity"},
        {"BF.EXISTS v a", ":0"}, /* none of the requests above added a key */
        {"BF.INSERT v CAPACITY 5 ITEMS c",
         "*1\r\n:1"}, /* a valid CAPACITY is ignored, as the filter exists */
        {"BF.INFO v CAPACITY", "*1\r\n:100"},
    };
    RUN(rows);
}

/* --- BF.EXISTS, BF.MEXISTS, BF.CARD, BF.INFO --- */

static void test_bf_exists__says_no_of_a_filter_that_was_never_made(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.EXISTS never a", ":0"},
        {"BF.MEXISTS never a b", "*2\r\n:0\r\n:0"},
        {"BF.INFO never", "-ERR not found"}, /* nor does the check make the filter */
    };
    static const struct exchange three[] = {{"BF.EXISTS never a", "#f"},
                                            {"BF.MEXISTS never a b", "*2\r\n#f\r\n#f"}};
    RUN(rows);
    RUN3(three);
}

static void test_bf_mexists__answers_each_item_in_its_place(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.MADD each a c", "*2\r\n:1\r\n:1"},
        {"BF.MEXISTS each a b c a", "*4\r\n:1\r\n:0\r\n:1\r\n:1"},
    };
    static const struct exchange three[] = {{"BF.MEXISTS each a b", "*2\r\n#t\r\n#f"}};
    RUN(rows);
    RUN3(three);
}

static void test_bf_card__counts_what_was_new(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.CARD counted", ":0"},
        {"BF.MADD counted a b a", "*3\r\n:1\r\n:1\r\n:0"},
        {"BF.CARD counted", ":2"},
    };
    static const struct exchange three[] = {{"BF.CARD counted", ":2"}, {"BF.CARD uncounted", ":0"}};
    RUN(rows);
    RUN3(three);
}

static void test_bf_info__answers_one_field(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"BF.RESERVE info 0.01 500 EXPANSION 3", "+OK"},
        {"BF.MADD info a b", "*2\r\n:1\r\n:1"},
        {"BF.INFO info capacity", "*1\r\n:500"},
        {"BF.INFO info FILTERS", "*1\r\n:1"},
        {"BF.INFO info ITEMS", "*1\r\n:2"},
        {"BF.INFO info EXPANSION", "*1\r\n:3"},
        {"BF.INFO info FOO", "-Invalid information value"},
        {"BF.INFO info \"\"", "-Invalid information value"},
        {"BF.INFO info \"ITEMS\\x00\"", "-Invalid information value"},
        {"BF.INFO nothere FOO", "-ERR not found"},
        {"BF.INFO nothere", "-ERR not found"},
        {"BF.RESERVE fixed 0.01 500 NONSCALING", "+OK"},
        {"BF.INFO fixed EXPANSION", "*1\r\n$-1"},
    };
    static const struct exchange three[] = {
        {"BF.INFO info CAPACITY", "%1\r\n+Capacity\r\n:500"},
        {"BF.INFO info FILTERS", "%1\r\n+Number of filters\r\n:1"},
        {"BF.INFO info ITEMS", "%1\r\n+Number of items inserted\r\n:2"},
        {"BF.INFO info EXPANSION", "%1\r\n+Expansion rate\r\n:3"},
        {"BF.INFO fixed EXPANSION", "%1\r\n+Expansion rate\r\n_"},
        {"BF.INFO nothere", "-ERR not found"},
    };
    RUN(rows);
    RUN3(three);
}

/* "Size" is Twinbloom's: the bytes that the filter takes. */
static void test_bf_info__answers_all_fields_in_their_order(void **state)
{
    (void)state;
    static const struct exchange rows[] = {{"BF.RESERVE whole 0.01 700 NONSCALING", "+OK"},
                                           {"BF.ADD whole a", ":1"}};
    static const char *const heads[] = {"*10\r\n+Capacity\r\n:700\r\n+Size\r\n:",
                                        "%5\r\n+Capacity\r\n:700\r\n+Size\r\n:"};
    static const char *const tails[] = {"+Expansion rate\r\n$-1\r\n", "+Expansion rate\r\n_\r\n"};
    int fd = contract_open();
    contract_run(fd, rows, 2);
    for (size_t i = 0; i < 2; i++) {
        char got[512];
        if (i == 1)
            contract_hello3(fd);
        assert_true(raw_puts(fd, "BF.INFO whole\r\n"));
        assert_true(raw_expect(fd, heads[i]));
        assert_true(raw_read_until(fd, "\r\n", got, sizeof(got)));
        if (strtoul(got, NULL, 10) < 700 * 9 / 8) /* ten bits a key, in bytes */
            fail_msg("Size %s", got);
        assert_true(raw_expect(fd, "+Number of filters\r\n:1\r\n+Number of items inserted\r\n:1\r\n"));
        assert_true(raw_expect(fd, tails[i]));
    }
    raw_close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names__are_taken_in_any_case),
        cmocka_unit_test(test_keys_and_items__may_be_empty_or_hold_any_byte),
        cmocka_unit_test(test_arity__is_an_error_with_the_lower_case_name),
        cmocka_unit_test(test_unknown_commands__are_named_with_their_arguments),
        cmocka_unit_test(test_option_words__are_not_looked_for_in_the_key),
        cmocka_unit_test(test_bf_reserve__makes_a_filter_once),
        cmocka_unit_test(test_bf_reserve__validates_in_the_order_of_the_contract),
        cmocka_unit_test(test_bf_reserve__refuses_an_absurd_capacity_and_lives_on),
        cmocka_unit_test(test_bf_add__creates_counts_and_remembers),
        cmocka_unit_test(test_bf_add__to_a_full_filter_that_does_not_scale_is_an_error),
        cmocka_unit_test(test_bf_madd__answers_in_an_array),
        cmocka_unit_test(test_bf_madd__ends_at_the_first_item_that_a_full_filter_refuses),
        cmocka_unit_test(test_bf_insert__takes_options_in_any_order_and_the_last_counts),
        cmocka_unit_test(test_bf_insert__with_nocreate_wants_the_filter_to_be_there),
        cmocka_unit_test(test_bf_insert__validates_options_even_where_the_filter_is_there),
        cmocka_unit_test(test_bf_exists__says_no_of_a_filter_that_was_never_made),
        cmocka_unit_test(test_bf_mexists__answers_each_item_in_its_place),
        cmocka_unit_test(test_bf_card__counts_what_was_new),
        cmocka_unit_test(test_bf_info__answers_one_field),
        cmocka_unit_test(test_bf_info__answers_all_fields_in_their_order),
    };
    return cmocka_run_group_tests(tests, contract_setup, contract_teardown);
}
