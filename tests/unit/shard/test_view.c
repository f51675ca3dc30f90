/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "shard/view.h"

enum { FIELDS = 15, OPTIONAL = 4 };

#define TAIL " seed=00000000000000ab built=1 capacity=10 rate=0.25 nodes=a:1 layers=4:1:512:1:10:0.25:1:1"
#define TWO_LAYERS TAIL ";3:1:512:1:10:0.125:2:2"
#define OPENING                                                                                              \
    "number=3 seed=00000000000000ab built=1 opening=1 capacity=10 rate=0.25 nodes=a:1 "                      \
    "layers=4:1:512:1:10:0.25:1:1;3:1:512:1:10:0.125:2:2"

struct pair {
    const char *name;
    const char *value;
};

static const struct pair good[FIELDS] = {
    {"incarnation", "00000000000000ff"},
    {"epoch", "7"},
    {"fenced_epoch", "6"},
    {"phase", "BUILDING"},
    {"bloom_filter_current_index", "1"},
    {"bloom_filter_size", "7"},
    {"generation0", "number=4" TAIL},
    {"generation1", "number=3" TWO_LAYERS},
    {"last_generation", "4"},
    {"expansion", "2"},
    {"sourced", "1"},
    {"retiring_epoch", "5"},
    {"retiring", "number=2" TAIL},
    {"recovery", "fence"},
    {"unsure", ""},
};

static struct view view; /* large: kept off the stack */

/* Parse @pairs; those without a name are left out. */
static enum err parse(const struct pair *pairs, size_t count, struct error *e)
{
    struct view_field fields[FIELDS + 2];
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (pairs[i].name != NULL)
            fields[used++] = (struct view_field){pairs[i].name, strlen(pairs[i].name), pairs[i].value,
                                                 strlen(pairs[i].value)};
    return view_parse(&view, fields, used, e);
}

static struct pair *find(struct pair *pairs, const char *name)
{
    for (size_t i = 0; i < FIELDS; i++)
        if (strcmp(pairs[i].name, name) == 0)
            return &pairs[i];
    fail_msg("no field %s", name);
    return NULL;
}

static void parse_good(void)
{
    struct error e;
    if (parse(good, FIELDS, &e) != ERR_OK)
        fail_msg("%s", e.text);
}

static void test_view_parse__tells_a_marker_from_a_view_and_from_nothing(void **state)
{
    (void)state;
    struct error e;
    static const struct pair marker[] = {
        {"dropped", "done"}, {"incarnation", "00000000000000ff"}, {"last_generation", "9"}};
    assert_int_equal(parse(marker, 3, &e), ERR_NOT_FOUND);
    assert_int_equal(view.dropped, VIEW_DROP_DONE);
    assert_true(view.incarnation == 255 && view.last_generation == 9);
    assert_int_equal(parse(marker, 2, &e), ERR_PARSE);
    assert_int_equal(parse(marker, 0, &e), ERR_NOT_FOUND);
    assert_int_equal(view.dropped, VIEW_KEPT);
    struct pair pairs[FIELDS + 2];
    memcpy(pairs, good, sizeof(good));
    pairs[FIELDS] = (struct pair){"dropped", "begun"};
    pairs[FIELDS + 1] = (struct pair){"expire_at", "1795272428000"};
    assert_int_equal(parse(pairs, FIELDS + 2, &e), ERR_OK);
    assert_int_equal(view.dropped, VIEW_DROP_BEGUN);
    assert_true(view.epoch == 7 && view.expire_at_ms == 1795272428000);
    pairs[1].name = NULL; /* no marker: a view without an epoch */
    assert_int_equal(parse(pairs, FIELDS + 2, &e), ERR_PARSE);
    pairs[FIELDS].value = "maybe";
    assert_int_equal(parse(pairs, FIELDS + 2, &e), ERR_PARSE);
    parse_good();
    assert_true(view.dropped == VIEW_KEPT && view.expire_at_ms == 0);
}

static void test_view_parse__reads_all_fields(void **state)
{
    (void)state;
    parse_good();
    assert_true(view.incarnation == 255 && view.epoch == 7 && view.fenced_epoch == 6);
    assert_int_equal(view.phase, PHASE_BUILDING);
    assert_int_equal(view.current, 1);
    assert_true(view.last_generation == 4 && view.expansion == 2 && view.sourced);
    assert_true(view.retiring_epoch == 5 && view.retiring.number == 2);
    assert_ptr_equal(view_current(&view), &view.slot[1]);
    assert_ptr_equal(view_alternate(&view), &view.slot[0]);
    assert_true(view.slot[0].number == 4 && view.slot[1].number == 3);
    assert_true(view_unfenced(&view));
    view.fenced_epoch = 7;
    assert_false(view_unfenced(&view));
}

static unsigned formatted;

static void compare(void *arg, const char *name, const char *value)
{
    if (strcmp(name, "format") == 0) {
        assert_string_equal(value, "1");
        return;
    }
    const struct pair *expected = (const struct pair *)arg + formatted++;
    assert_string_equal(name, expected->name);
    assert_string_equal(value, expected->value);
}

static void test_view_format__gives_what_was_read(void **state)
{
    (void)state;
    parse_good();
    struct pair expected[FIELDS];
    memcpy(expected, good, sizeof(good));
    formatted = 0;
    view_format(&view, compare, expected);
    assert_int_equal(formatted, FIELDS);

    view.slot[0].number = 0;
    view.retiring.number = 0;
    view.retiring_epoch = 0;
    view.recovery = RECOVERY_NONE;
    find(expected, "recovery")->value = "";
    find(expected, "generation0")->value = "";
    find(expected, "retiring")->value = "";
    find(expected, "retiring_epoch")->value = "0";
    formatted = 0;
    view_format(&view, compare, expected);
    assert_int_equal(formatted, FIELDS);
}

static void test_view_parse__names_each_field_that_is_missing(void **state)
{
    (void)state;
    for (size_t i = 0; i < FIELDS - OPTIONAL; i++) {
        struct pair pairs[FIELDS];
        memcpy(pairs, good, sizeof(good));
        pairs[i].name = NULL;
        struct error e;
        assert_int_equal(parse(pairs, FIELDS, &e), ERR_PARSE);
        assert_non_null(strstr(e.text, good[i].name));
    }
    struct error e;
    assert_int_equal(view_parse(&view, NULL, 0, &e), ERR_NOT_FOUND);
    memset(&view, 0xff, sizeof(view));
    assert_int_equal(parse(good, FIELDS - OPTIONAL, &e), ERR_OK); /* without a record of what retires */
    assert_true(view.retiring_epoch == 0 && view.retiring.number == 0);
    assert_int_equal(parse(good, FIELDS - OPTIONAL + 1, &e), ERR_PARSE); /* half of the record */
}

static void test_view_parse__skips_unknown_fields_and_refuses_doubled_ones(void **state)
{
    (void)state;
    struct pair pairs[FIELDS + 1];
    memcpy(pairs, good, sizeof(good));
    pairs[FIELDS] = (struct pair){"epoch_of_the_future", "whatever"};
    assert_int_equal(parse(pairs, FIELDS + 1, NULL), ERR_OK);
    pairs[FIELDS] = (struct pair){"epoch", "7"};
    assert_int_equal(parse(pairs, FIELDS + 1, NULL), ERR_PARSE);
}

static void test_view_parse__leaves_what_a_later_format_says_alone(void **state)
{
    (void)state;
    struct pair pairs[FIELDS + 1];
    struct error e = {""};
    memcpy(pairs, good, sizeof(good));
    pairs[FIELDS] = (struct pair){"format", "1"};
    assert_int_equal(parse(pairs, FIELDS + 1, &e), ERR_OK);
    static const char *const damage[] = {"0", "", "x", "-1"};
    for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
        pairs[FIELDS].value = damage[i];
        assert_int_equal(parse(pairs, FIELDS + 1, &e), ERR_PARSE);
    }
    pairs[FIELDS].value = "2";
    assert_int_equal(parse(pairs, FIELDS + 1, &e), ERR_OK);
    pairs[FIELDS].value = "4";
    assert_int_equal(parse(pairs, FIELDS + 1, &e), ERR_FORMAT);
    assert_non_null(strstr(e.text, "format 4"));
    assert_non_null(strstr(e.text, "upgrade"));
    /* Whatever else it says, and wherever the field stands: nothing of it is known. */
    for (size_t i = 0; i < FIELDS; i++) {
        memcpy(pairs, good, sizeof(good));
        pairs[i].value = "of the future";
        assert_int_equal(parse(pairs, FIELDS + 1, &e), ERR_FORMAT);
        pairs[i].name = NULL;
        assert_int_equal(parse(pairs, FIELDS + 1, &e), ERR_FORMAT);
    }
    memcpy(pairs, good, sizeof(good));
    pairs[FIELDS] = pairs[0];
    pairs[0] = (struct pair){"format", "18446744073709551615"};
    assert_int_equal(parse(pairs, FIELDS + 1, &e), ERR_FORMAT);
    const struct pair marker[] = {{"dropped", "done"}, {"format", "4"}};
    assert_int_equal(parse(marker, 2, &e), ERR_FORMAT);
}

static void test_view_parse__refuses_damage_and_names_the_field(void **state)
{
    (void)state;
    static const struct pair damage[] = {
        {"incarnation", ""},
        {"incarnation", "ff"},
        {"incarnation", "00000000000000fg"},
        {"epoch", "0"},
        {"epoch", "-1"},
        {"epoch", "5"}, /* below fenced_epoch */
        {"fenced_epoch", "8"},
        {"fenced_epoch", "x"},
        {"phase", "building"},
        {"phase", "OVERFLOW_OPEN "},
        {"bloom_filter_current_index", "2"},
        {"bloom_filter_current_index", ""},
        {"bloom_filter_size", "many"},
        {"generation0", "number=5" TAIL},
        {"generation0", "number=4"},
        {"generation1", "number=2" TAIL},
        {"last_generation", "3"},
        {"last_generation", ""},
        {"expansion", "4294967296"},
        {"sourced", "yes"},
        {"retiring_epoch", "8"},
        {"retiring_epoch", "0"},
        {"retiring", ""},
        {"retiring", "number=2"},
    };
    for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
        struct pair pairs[FIELDS];
        memcpy(pairs, good, sizeof(good));
        find(pairs, damage[i].name)->value = damage[i].value;
        struct error e;
        if (parse(pairs, FIELDS, &e) != ERR_PARSE)
            fail_msg("accepted %s=%s", damage[i].name, damage[i].value);
        assert_non_null(strstr(e.text, damage[i].name));
    }
}

static void test_view_parse__refuses_phases_that_the_generations_do_not_allow(void **state)
{
    (void)state;
    struct pair pairs[FIELDS];
    memcpy(pairs, good, sizeof(good));
    find(pairs, "generation0")->value = "";
    assert_int_equal(parse(pairs, FIELDS, NULL), ERR_PARSE); /* BUILDING with nothing to build */
    find(pairs, "phase")->value = "SWITCHED";
    assert_int_equal(parse(pairs, FIELDS, NULL), ERR_PARSE);
    find(pairs, "phase")->value = "STEADY";
    assert_int_equal(parse(pairs, FIELDS, NULL), ERR_OK);
    assert_null(view_alternate(&view));
    find(pairs, "phase")->value = "OVERFLOW_OPEN";
    assert_int_equal(parse(pairs, FIELDS, NULL), ERR_PARSE); /* nothing is opening */
    find(pairs, "generation1")->value = OPENING;
    assert_int_equal(parse(pairs, FIELDS, NULL), ERR_OK);
    find(pairs, "phase")->value = "OVERFLOW";
    assert_int_equal(parse(pairs, FIELDS, NULL), ERR_PARSE); /* something is */
    find(pairs, "phase")->value = "STEADY";
    assert_int_equal(parse(pairs, FIELDS, NULL), ERR_PARSE);
    find(pairs, "generation0")->value = "number=4" TAIL;
    find(pairs, "phase")->value = "BUILDING";
    assert_int_equal(parse(pairs, FIELDS, NULL), ERR_OK);
    find(pairs, "generation0")->value = "";
    find(pairs, "phase")->value = "STEADY";
    find(pairs, "generation1")->value = "";
    assert_int_equal(parse(pairs, FIELDS, NULL), ERR_PARSE); /* an empty current slot */
}

static void test_view_parse__reads_whom_the_filter_trusts(void **state)
{
    (void)state;
    struct pair pairs[FIELDS + 2];
    struct error e;
    memcpy(pairs, good, sizeof(good));
    pairs[FIELDS] = (struct pair){"trusted", "00000000000000ab 00000000000000cd"};
    pairs[FIELDS + 1] = (struct pair){"trusted_ms", "17"};
    assert_int_equal(parse(pairs, FIELDS + 2, &e), ERR_OK);
    assert_true(view.trusted.known && view.trusted.count == 2 && view.trusted_ms == 17);
    assert_true(trusted_contains(&view.trusted, 0xcd) && !trusted_contains(&view.trusted, 1));
    parse_good(); /* of an older version: nothing is left of the one before */
    assert_true(!view.trusted.known && view.trusted.count == 0 && view.trusted_ms == 0);
    static const char *const bad[] = {"", "x", "00000000000000ab ", "00000000000000ab,00000000000000cd"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        pairs[FIELDS].value = bad[i];
        assert_int_equal(parse(pairs, FIELDS + 2, &e), ERR_PARSE);
        assert_non_null(strstr(e.text, "trusted"));
    }
}

static const char *format_of;

static void take_format(void *arg, const char *name, const char *value)
{
    if (strcmp(name, "format") == 0)
        format_of = strcmp(value, "1") == 0 ? "1" : strcmp(value, "2") == 0 ? "2" : "?";
    if (strcmp(name, "unsure") == 0)
        assert_string_equal(value, arg);
}

/* A coordinator that knows nothing of them would say "no" by them: it must not take such a view. */
static void test_view__with_unsure_shards_is_of_another_format(void **state)
{
    (void)state;
    struct pair pairs[FIELDS];
    struct error e;
    char text[] = "3:7:99:4:6"; /* shards 1 and 2 of generation 3 */
    memcpy(pairs, good, sizeof(good));
    find(pairs, "unsure")->value = text;
    assert_int_equal(parse(pairs, FIELDS, &e), ERR_OK);
    assert_int_equal(view_unsure(&view), 2);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(view_is_anew(&view, &view.slot[1], 0, i), i == 1 || i == 2);
        assert_false(view_is_anew(&view, &view.slot[1], 1, i)); /* a layer that came later */
        assert_false(view_is_anew(&view, &view.slot[0], 0, i));
    }
    view_format(&view, take_format, text);
    assert_string_equal(format_of, "2");
    view.epoch++; /* from now on they move as all do */
    assert_false(view_is_anew(&view, &view.slot[1], 0, 1));
    view.current = 0;
    assert_int_equal(view_unsure(&view), 0);
    view_trim_unsure(&view);
    assert_int_equal(view.unsure.generation, 3); /* it is in the view, and may be rolled back to */
    view.slot[1].number = 0;
    view_trim_unsure(&view);
    assert_int_equal(view.unsure.generation, 0);
    parse_good();
    assert_int_equal(view.unsure.generation, 0);
    char none[] = "";
    view_format(&view, take_format, none);
    assert_string_equal(format_of, "1");
}

static void test_view_parse__refuses_unsure_shards_of_another_view(void **state)
{
    (void)state;
    static const char *const bad[] = {"5:7:99:4:6", "3:8:99:4:6", "3:7:99:3:6", "3:7:99:5:06", "x"};
    struct pair pairs[FIELDS];
    struct error e;
    memcpy(pairs, good, sizeof(good));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        find(pairs, "unsure")->value = bad[i];
        assert_int_equal(parse(pairs, FIELDS, &e), ERR_PARSE);
        assert_non_null(strstr(e.text, "unsure"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_view_parse__reads_all_fields),
        cmocka_unit_test(test_view_parse__reads_whom_the_filter_trusts),
        cmocka_unit_test(test_view_parse__tells_a_marker_from_a_view_and_from_nothing),
        cmocka_unit_test(test_view_format__gives_what_was_read),
        cmocka_unit_test(test_view__with_unsure_shards_is_of_another_format),
        cmocka_unit_test(test_view_parse__refuses_unsure_shards_of_another_view),
        cmocka_unit_test(test_view_parse__names_each_field_that_is_missing),
        cmocka_unit_test(test_view_parse__skips_unknown_fields_and_refuses_doubled_ones),
        cmocka_unit_test(test_view_parse__leaves_what_a_later_format_says_alone),
        cmocka_unit_test(test_view_parse__refuses_damage_and_names_the_field),
        cmocka_unit_test(test_view_parse__refuses_phases_that_the_generations_do_not_allow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
