/* SPDX-License-Identifier: MIT */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/processors.h"

static char root[] = "/tmp/twinbloom-processors-XXXXXX";

static void grant(const char *group, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s%s/cpu.max", root, group);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void make(const char *group)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s%s", root, group);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void forget(const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s%s", root, name);
    assert_int_equal(remove(path), 0);
}

static void test_processors_granted__is_the_least_of_the_groups_above(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(root));
    make("/a");
    make("/a/b");
    assert_int_equal(processors_granted(root, "/a/b"), 0);
    grant("/a/b", "max 100000\n");
    assert_int_equal(processors_granted(root, "/a/b"), 0);
    grant("/a", "250000 100000\n");
    assert_int_equal(processors_granted(root, "/a/b"), 3); /* 2.5 is rounded up */
    grant("/a/b", "100000 100000\n");
    assert_int_equal(processors_granted(root, "/a/b"), 1);
    assert_int_equal(processors_granted(root, "/a"), 3);
    assert_int_equal(processors_granted(root, "/"), 0);
    grant("", "200000 100000\n");
    assert_int_equal(processors_granted(root, "/"), 2);
    assert_int_equal(processors_granted(root, "/a"), 2);
    grant("", "nonsense\n");
    assert_int_equal(processors_granted(root, "/"), 0);
    static const char *const names[] = {"/a/b/cpu.max", "/a/cpu.max", "/cpu.max", "/a/b", "/a", ""};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        forget(names[i]);
}

static void test_processors_usable__keeps_to_the_affinity(void **state)
{
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    assert_in_range(processors_usable(), 1, CPU_COUNT(&all));
    CPU_ZERO(&one);
    int first = 0;
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(processors_usable(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processors_granted__is_the_least_of_the_groups_above),
        cmocka_unit_test(test_processors_usable__keeps_to_the_affinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
