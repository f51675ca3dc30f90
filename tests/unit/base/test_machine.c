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
#include <string.h>
#include "base/machine.h"

static char root[] = "/tmp/twinbloom-machine-XXXXXX";

static void grant(const char *group, const char *file, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s%s/%s", root, group, file);
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

static uint64_t processors(const char *path)
{
    return machine_granted(root, path, "cpu.max", machine_read_processors);
}

static uint64_t memory(const char *path)
{
    return machine_granted(root, path, "memory.max", machine_read_memory);
}

static void test_machine_granted__is_the_least_of_the_groups_above(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(root));
    make("/a");
    make("/a/b");
    assert_true(processors("/a/b") == UINT64_MAX && memory("/a/b") == UINT64_MAX);
    grant("/a/b", "cpu.max", "max 100000\n");
    assert_true(processors("/a/b") == UINT64_MAX);
    grant("/a", "cpu.max", "250000 100000\n");
    assert_int_equal(processors("/a/b"), 3); /* 2.5 is rounded up */
    grant("/a/b", "cpu.max", "100000 100000\n");
    assert_int_equal(processors("/a/b"), 1);
    assert_int_equal(processors("/a"), 3);
    assert_true(processors("/") == UINT64_MAX);
    grant("", "cpu.max", "200000 100000\n");
    assert_int_equal(processors("/"), 2);
    assert_int_equal(processors("/a"), 2);
    grant("", "cpu.max", "nonsense\n");
    assert_true(processors("/") == UINT64_MAX);
    grant("", "memory.max", "7000\n");
    grant("/a", "memory.max", "5000\n");
    grant("/a/b", "memory.max", "max\n");
    assert_int_equal(memory("/a/b"), 5000);
    assert_int_equal(memory("/"), 7000);
    assert_int_equal(memory("/outside"), 7000);
    static const char *const names[] = {
        "/a/b/cpu.max", "/a/cpu.max", "/cpu.max", "/a/b/memory.max", "/a/memory.max", "/memory.max",
        "/a/b",         "/a",         ""};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        forget(names[i]);
}

static void test_machine_read__knows_both_versions(void **state)
{
    (void)state;
    assert_true(machine_read_memory("1073741824\n") == UINT64_C(1) << 30);
    assert_true(machine_read_memory("max\n") == UINT64_MAX);
    /* Version 1 without a limit. */
    assert_true(machine_read_memory("9223372036854771712\n") == UINT64_C(9223372036854771712));
    static const char *const none[] = {"", "-1\n", "12 3"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_true(machine_read_memory(none[i]) == UINT64_MAX);
    assert_true(machine_read_processors("1 0\n") == UINT64_MAX && machine_read_processors("1") == UINT64_MAX);
}

static void is_group(const char *text, const char *controller, const char *expected)
{
    int n = 0;
    const char *found = machine_group(text, controller, &n);
    if (expected == NULL) {
        assert_null(found);
        return;
    }
    assert_non_null(found);
    assert_int_equal(n, strlen(expected));
    assert_memory_equal(found, expected, (size_t)n);
}

static void test_machine_group__finds_the_group_of_each_version(void **state)
{
    (void)state;
    is_group("0::/\n", "", "/");
    is_group("0::/system.slice/a:b\n", "", "/system.slice/a:b");
    is_group("12:cpu,memory:/docker/1\n0::/x\n", "memory", "/docker/1");
    is_group("12:cpu,memory:/docker/1\n0::/x", "", "/x");
    is_group("12:memory,cpu:/docker/1\n", "memory", "/docker/1");
    is_group("3:memoryless:/y\n2:cpu:/memory\n", "memory", NULL);
    is_group("1:name=systemd:/\n", "", NULL);
    is_group("", "", NULL);
    is_group(":", "", NULL);
    is_group("0::", "", NULL);
    is_group("\n0::/z", "", "/z");
}

static void test_machine_memory__is_at_most_that_of_the_machine(void **state)
{
    (void)state;
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    assert_true(machine_memory() > 0 && machine_memory() <= all);
}

static void test_machine_processors__keeps_to_the_affinity(void **state)
{
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    assert_in_range(machine_processors(), 1, CPU_COUNT(&all));
    CPU_ZERO(&one);
    int first = 0;
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(machine_processors(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine_granted__is_the_least_of_the_groups_above),
        cmocka_unit_test(test_machine_read__knows_both_versions),
        cmocka_unit_test(test_machine_group__finds_the_group_of_each_version),
        cmocka_unit_test(test_machine_memory__is_at_most_that_of_the_machine),
        cmocka_unit_test(test_machine_processors__keeps_to_the_affinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
