/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "migrate/source/source.h"

static void expect(const char *bytes, size_t length, const char *text)
{
    struct buffer out = {0};
    source_put_value(&out, bytes, length);
    assert_string_equal(buffer_text(&out), text);
    buffer_fini(&out);
}

static void test_source_put_value__escapes_what_copy_escapes(void **state)
{
    (void)state;
    expect("", 0, "");
    expect("plain", 5, "plain");
    expect("a\tb", 3, "a\\tb");
    expect("\b\f\n\r\t\v\\", 7, "\\b\\f\\n\\r\\t\\v\\\\");
    expect("\\N", 2, "\\\\N");
    expect("\x01\x7f\xc3\xbc ", 5, "\x01\x7f\xc3\xbc ");
    expect("\\end", 4, "\\\\end");
    expect("end\\", 4, "end\\\\");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_source_put_value__escapes_what_copy_escapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
