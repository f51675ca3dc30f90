/* SPDX-License-Identifier: MIT */
/* The view as a summary. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "shard/filter/view.h"

enum { FIELDS = 15, OPTIONAL = 4 /* the last fields */ };

#define TAIL " seed=00000000000000ab built=1 capacity=10 rate=0.25 nodes=a:1 layers=4:1:512:1:10:0.25:1"
#define TWO_LAYERS TAIL ";3:1:512:1:10:0.125:2"

struct pair {
    const char *name;
    const char *value;
};

static const struct pair good[FIELDS] = {
    {"format", "3"},
    {"incarnation", "00000000000000ff"},
    {"version", "7"},
    {"bloom_filter_current_index", "1"},
    {"generation0", "number=4" TAIL},
    {"generation1", "number=3" TWO_LAYERS},
    {"last_generation", "4"},
    {"expansion", "2"},
    {"sourced", "1"},
    {"degraded", "0"},
    {"deleting", "0"},
    {"keys0", "4 70 1:00000000000000e1 5-1"},
    {"keys1", "3 60"},
    {"expire_at", "1795272428000"},
    {"healthy_ms", "1795272427000"},
};

static struct view view; /* too large for the stack */

/* Parse @pairs; those without a name are left out. */
static enum err parse(const struct pair *pairs, size_t count, struct error *e)
{
    struct view_field fields[FIELDS + 1];
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

/* Parse the valid fields with another value of @name. */
static enum err parse_with(const char *name, const char *value, struct error *e)
{
    struct pair pairs[FIELDS];
    memcpy(pairs, good, sizeof(good));
    find(pairs, name)->value = value;
    return parse(pairs, FIELDS, e);
}

static void test_view_parse__reads_all_fields(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(parse(good, FIELDS, &e), ERR_OK);
    assert_true(view.incarnation == 255 && view.epoch == 7 && view.current);
    assert_true(view.last_generation == 4 && view.expansion == 2 && view.sourced && !view.degraded);
    assert_ptr_equal(view_current(&view), &view.slot[1]);
    assert_ptr_equal(view_alternate(&view), &view.slot[0]);
    assert_true(view.slot[0].number == 4 && view.slot[1].number == 3);
    assert_true(view.keys[0] == 70 && view.keys[1] == 60);
    assert_true(view.expire_at_ms == 1795272428000 && view.healthy_ms == 1795272427000);
    assert_false(view.deleting);
}

static void test_view_parse__tells_what_the_filter_is_doing(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(parse(good, FIELDS, &e), ERR_OK);
    assert_int_equal(view.phase, PHASE_BUILDING);
    assert_int_equal(parse_with("bloom_filter_current_index", "0", &e), ERR_OK);
    assert_int_equal(view.phase, PHASE_SWITCHED);
    assert_int_equal(parse_with("generation0", "", &e), ERR_OK);
    assert_int_equal(view.phase, PHASE_OVERFLOW);
    assert_null(view_alternate(&view));
    assert_int_equal(view.keys[0], 0); /* the keys were those of another generation */
    assert_int_equal(parse_with("deleting", "1", &e), ERR_OK);
    assert_true(view.deleting);
    assert_int_equal(parse_with("degraded", "1", &e), ERR_OK);
    assert_true(view.degraded && !view.deleting);
}

static void test_view_parse__names_the_field_that_is_missing_or_damaged(void **state)
{
    static const struct pair damaged[] = {{"incarnation", "ff"},     {"version", "0"},
                                          {"version", "x"},          {"bloom_filter_current_index", "2"},
                                          {"generation0", "number"}, {"generation1", ""},
                                          {"last_generation", "-1"}, {"expansion", "4294967296"},
                                          {"sourced", "yes"},        {"degraded", ""},
                                          {"deleting", "2"},         {"keys0", "4"},
                                          {"expire_at", "tomorrow"}, {"format", "three"}};
    (void)state;
    for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
        struct error e = {""};
        if (parse_with(damaged[i].name, damaged[i].value, &e) != ERR_PARSE)
            fail_msg("%s=\"%s\" was taken", damaged[i].name, damaged[i].value);
        const char *named = *damaged[i].value == '\0' && strcmp(damaged[i].name, "generation1") == 0
                                ? "bloom_filter_current_index"
                                : damaged[i].name;
        if (strstr(e.text, named) == NULL)
            fail_msg("%s: %s", named, e.text);
    }
    for (size_t i = 1; i < FIELDS; i++) {
        struct error e = {""};
        struct pair pairs[FIELDS];
        memcpy(pairs, good, sizeof(good));
        pairs[i].name = NULL;
        assert_int_equal(parse(pairs, FIELDS, &e), i < FIELDS - OPTIONAL ? ERR_PARSE : ERR_OK);
        if (i < FIELDS - OPTIONAL)
            assert_non_null(strstr(e.text, good[i].name));
    }
}

static void test_view_parse__takes_a_field_once_and_skips_what_it_does_not_know(void **state)
{
    (void)state;
    struct error e = {""};
    struct pair pairs[FIELDS + 1];
    memcpy(pairs, good, sizeof(good));
    pairs[FIELDS] = (struct pair){"of a later version", "1"};
    assert_int_equal(parse(pairs, FIELDS + 1, &e), ERR_OK);
    pairs[FIELDS] = (struct pair){"version", "8"};
    assert_int_equal(parse(pairs, FIELDS + 1, &e), ERR_PARSE);
    assert_non_null(strstr(e.text, "version occurs twice"));
}

/* No other field is read. */
static void test_view_parse__says_what_to_do_with_another_format(void **state)
{
    static const struct pair old[] = {{"incarnation", "x"}, {"epoch", "7"}};
    (void)state;
    struct error e = {""};
    assert_int_equal(parse(NULL, 0, &e), ERR_NOT_FOUND);
    assert_int_equal(parse(old, 2, &e), ERR_FORMAT);
    assert_non_null(strstr(e.text, "delete it, and have it built from its table"));
    assert_int_equal(parse_with("format", "2", &e), ERR_FORMAT);
    assert_non_null(strstr(e.text, "delete it"));
    assert_int_equal(parse_with("format", "4", &e), ERR_FORMAT);
    assert_non_null(strstr(e.text, "upgrade it"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_view_parse__reads_all_fields),
        cmocka_unit_test(test_view_parse__tells_what_the_filter_is_doing),
        cmocka_unit_test(test_view_parse__names_the_field_that_is_missing_or_damaged),
        cmocka_unit_test(test_view_parse__takes_a_field_once_and_skips_what_it_does_not_know),
        cmocka_unit_test(test_view_parse__says_what_to_do_with_another_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
