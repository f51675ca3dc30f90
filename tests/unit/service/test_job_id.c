/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "service/protocol/job_id.h"

static void test_job_id__is_the_name_and_sixteen_digits(void **state)
{
    (void)state;
    struct buffer id = {0};
    job_id_put(&id, "short-link", 10, 0x6f1c09a2b7d8e3);
    assert_string_equal(buffer_text(&id), "short-link.006f1c09a2b7d8e3");
    buffer_clear(&id);
    job_id_put(&id, "a/b~\xff\0", 6, 1);
    assert_string_equal(buffer_text(&id), "a~2fb~7e~ff~00.0000000000000001");
    buffer_fini(&id);
}

static void test_job_id__comes_back_as_it_was(void **state)
{
    (void)state;
    char all[256];
    for (size_t i = 0; i < sizeof(all); i++)
        all[i] = (char)i;
    struct buffer id = {0}, name = {0};
    uint64_t number = 0;
    job_id_put(&id, all, sizeof(all), UINT64_MAX);
    assert_null(memchr(id.data, '/', id.length));
    assert_null(memchr(id.data, '%', id.length));
    assert_true(job_id_take(&name, &number, id.data, id.length));
    assert_true(number == UINT64_MAX);
    assert_int_equal(name.length, sizeof(all));
    assert_memory_equal(name.data, all, sizeof(all));
    buffer_fini(&id);
    buffer_fini(&name);
}

static void test_job_id__is_not_any_text(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "a",
                                        ".",
                                        "0123456789abcdef",
                                        "a0123456789abcdef",
                                        "a.0123456789abcde",
                                        "a.0123456789abcdeg",
                                        "a.0123456789abcdef0",
                                        "a/b.0123456789abcdef",
                                        "a~2.0123456789abcdef",
                                        "a~zz.0123456789abcdef",
                                        "\xff.0123456789abcdef"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct buffer name = {0};
        uint64_t number;
        if (job_id_take(&name, &number, texts[i], strlen(texts[i])))
            fail_msg("'%s' is an id", texts[i]);
        buffer_fini(&name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job_id__is_the_name_and_sixteen_digits),
        cmocka_unit_test(test_job_id__comes_back_as_it_was),
        cmocka_unit_test(test_job_id__is_not_any_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
