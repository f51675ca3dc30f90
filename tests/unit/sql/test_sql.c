/* SPDX-License-Identifier: MIT */
/* Tests sql_render() with its own statements: sql.c is compiled in with another table of statements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sql/sql.h"

static void expect(const char *statement, const char *rendered)
{
    const struct sql_binding bindings[] = {{"table", "public.\"odd :name\""},
                                           {"id", "odd\"id"},
                                           {"where", "a = ':x' OR b"},
                                           {"limit", "10"},
                                           {"after", "5"},
                                           {"limit", "unused"},
                                           {NULL, NULL}};
    struct sql_values values;
    struct buffer out = {0};
    struct error e = {0};
    buffer_puts(&out, "kept|");
    enum err err = sql_render(statement, bindings, &values, &out, &e);
    if (err != ERR_OK)
        fail_msg("%s: %s", statement, e.text);
    assert_memory_equal(out.data, "kept|", 5);
    assert_string_equal(buffer_text(&out) + 5, rendered);
    assert_int_equal(values.count, strstr(rendered, "$1") == NULL ? 0 : 2);
    if (values.count > 0) {
        assert_string_equal(values.text[0], "5");
        assert_string_equal(values.text[1], "10");
    }
    buffer_fini(&out);
}

static enum err fails(const char *statement, struct error *e)
{
    struct sql_values values;
    struct buffer out = {0};
    enum err err = sql_render(statement, NULL, &values, &out, e);
    buffer_fini(&out);
    return err;
}

static void test_sql_render__binds_identifiers_pieces_and_values(void **state)
{
    (void)state;
    expect("variables", "SELECT t.\"odd\"\"id\"::text FROM public.\"odd :name\" AS t\n"
                        " WHERE t.\"odd\"\"id\" > $1 AND (a = ':x' OR b) LIMIT $2 + $2");
}

static void test_sql_render__leaves_casts_and_quoted_text_alone(void **state)
{
    (void)state;
    expect(
        "quoted",
        "SELECT ':limit', 'it''s :limit', E'\\':limit', \":table\", $$ :limit $$, $a$ :limit $$ :limit $a$, "
        "x::limit, '{1:2}'::text[], 1 : 2, name'?");
}

static void test_sql_render__drops_comments_and_the_last_semicolon(void **state)
{
    (void)state;
    expect("comments", "SELECT 1  + 2,  \n'--', '/* */', 3 - - 4 / 5");
    expect("glued", "SELECT 1 FROM t");
}

static void test_sql_render__puts_literals_into_the_text(void **state)
{
    (void)state;
    const struct sql_binding bindings[] = {{"table", "t"},    {"id", "id"},           {"where", "true"},
                                           {"limit", "'10'"}, {"after", " E'it''s'"}, {NULL, NULL}};
    struct buffer out = {0};
    struct error e = {0};
    assert_int_equal(sql_render("variables", bindings, NULL, &out, &e), ERR_OK);
    assert_string_equal(buffer_text(&out), "SELECT t.\"id\"::text FROM t AS t\n"
                                           " WHERE t.\"id\" >  E'it''s' AND (true) LIMIT '10' + '10'");
    buffer_fini(&out);
}

static void test_sql_render__names_the_variable_that_is_not_bound(void **state)
{
    (void)state;
    struct error e = {0};
    assert_int_equal(fails("variables", &e), ERR_CONFIG);
    assert_string_equal(e.text, "statement variables: variable \"id\" has no binding");
    assert_int_equal(fails("value", &e), ERR_CONFIG);
    assert_string_equal(e.text, "statement value: variable \"limit\" has no parameter");
    assert_int_equal(fails("none", &e), ERR_NOT_FOUND);
    assert_null(sql_text("none"));
}

static void test_sql_render__ends_with_the_text_where_a_quote_is_open(void **state)
{
    (void)state;
    expect("open_quote", "SELECT 'abc");
    expect("open_dollar", "SELECT $x$ abc $y$");
    expect("open_comment", "SELECT 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sql_render__binds_identifiers_pieces_and_values),
        cmocka_unit_test(test_sql_render__leaves_casts_and_quoted_text_alone),
        cmocka_unit_test(test_sql_render__drops_comments_and_the_last_semicolon),
        cmocka_unit_test(test_sql_render__puts_literals_into_the_text),
        cmocka_unit_test(test_sql_render__names_the_variable_that_is_not_bound),
        cmocka_unit_test(test_sql_render__ends_with_the_text_where_a_quote_is_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
