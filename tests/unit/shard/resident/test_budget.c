/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "shard/resident/budget.h"

static uint64_t group(const char *text)
{
    return budget_parse_group(text, strlen(text));
}

static void test_budget_parse_group__reads_both_versions(void **state)
{
    (void)state;
    assert_true(group("1073741824\n") == UINT64_C(1) << 30);
    assert_true(group("max\n") == UINT64_MAX);
    /* Cgroup version 1 without a limit. */
    assert_true(group("9223372036854771712\n") == UINT64_C(9223372036854771712));
    assert_true(group("") == UINT64_MAX && group("-1\n") == UINT64_MAX && group("12 3") == UINT64_MAX);
}

static void is_path(const char *text, unsigned version, const char *expected)
{
    size_t n = 0;
    const char *found = budget_parse_path(text, strlen(text), version, &n);
    if (expected == NULL) {
        assert_null(found);
        return;
    }
    assert_non_null(found);
    assert_int_equal(n, strlen(expected));
    assert_memory_equal(found, expected, n);
}

static void test_budget_parse_path__finds_the_group_of_each_version(void **state)
{
    (void)state;
    is_path("0::/\n", 2, "/");
    is_path("0::/system.slice/a:b\n", 2, "/system.slice/a:b");
    is_path("12:cpu,memory:/docker/1\n0::/x\n", 1, "/docker/1");
    is_path("12:cpu,memory:/docker/1\n0::/x", 2, "/x");
    is_path("3:memoryless:/y\n2:cpu:/memory\n", 1, NULL);
    is_path("1:name=systemd:/\n", 2, NULL);
    is_path("", 2, NULL);
    is_path(":", 2, NULL);
    is_path("0::", 2, NULL);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void test_budget_granted__takes_the_least_of_the_groups_above(void **state)
{
    (void)state;
    char root[] = "/tmp/test_budget_XXXXXX", path[3][64];
    assert_non_null(mkdtemp(root));
    assert_true(budget_granted(root, "/a/b", "memory.max") == UINT64_MAX);
    static const char *const group_of[] = {"", "/a", "/a/b"};
    static const char *const text[] = {"7000\n", "5000\n", "max\n"};
    for (int i = 0; i < 3; i++) {
        char directory[48];
        (void)snprintf(directory, sizeof(directory), "%s%s", root, group_of[i]);
        assert_true(i == 0 || mkdir(directory, 0700) == 0);
        (void)snprintf(path[i], sizeof(path[i]), "%s/memory.max", directory);
        write_file(path[i], text[i]);
    }
    assert_int_equal(budget_granted(root, "/a/b", "memory.max"), 5000);
    assert_int_equal(budget_granted(root, "/", "memory.max"), 7000);
    assert_int_equal(budget_granted(root, "/outside", "memory.max"), 7000);
    for (int i = 3; i-- > 0;) {
        assert_int_equal(unlink(path[i]), 0);
        path[i][strlen(path[i]) - strlen("/memory.max")] = '\0';
        assert_int_equal(rmdir(path[i]), 0);
    }
}

static void test_budget_default__is_at_most_half_of_the_machine(void **state)
{
    (void)state;
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    assert_true(budget_default() > 0 && budget_default() <= all);
}

static void test_budget_take__never_passes_the_limit(void **state)
{
    (void)state;
    struct budget b;
    budget_init(&b, 100);
    assert_true(budget_take(&b, 60));
    assert_false(budget_take(&b, 41));
    assert_false(budget_take(&b, UINT64_MAX));
    assert_true(budget_take(&b, 40));
    b.limit = 50;
    budget_give(&b, 60);
    assert_false(budget_take(&b, 11));
    assert_true(budget_take(&b, 10));
    budget_init(&b, 0);
    assert_false(budget_take(&b, 1));
}

/* Returns how many bytes loads request within @us from @from on, if each load begins as early as it may. */
static uint64_t asked_in(struct budget *b, uint64_t from, uint64_t us)
{
    uint64_t asked = 0, now = from;
    while ((now = budget_load_at(b, now, 1000)) < from + us)
        asked += 1000;
    return asked;
}

static void test_budget_load_at__keeps_to_the_rate(void **state)
{
    (void)state;
    struct budget b;
    budget_init(&b, 100);
    assert_int_equal(b.load_rate, BUDGET_LOAD_RATE);
    b.load_rate = 1000000;
    assert_in_range(asked_in(&b, 1000000, 1000000), 1000000, 1000000 + BUDGET_LOAD_LATE_US + 1000);
    /* After a pause, no more is made up for. */
    assert_in_range(asked_in(&b, 9000000, 1000000), 1000000, 1000000 + BUDGET_LOAD_LATE_US + 1000);
    b.load_rate = 0;
    assert_true(budget_load_at(&b, 5, UINT32_MAX) == 5 && budget_load_at(&b, 5, UINT32_MAX) == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budget_parse_group__reads_both_versions),
        cmocka_unit_test(test_budget_parse_path__finds_the_group_of_each_version),
        cmocka_unit_test(test_budget_granted__takes_the_least_of_the_groups_above),
        cmocka_unit_test(test_budget_default__is_at_most_half_of_the_machine),
        cmocka_unit_test(test_budget_take__never_passes_the_limit),
        cmocka_unit_test(test_budget_load_at__keeps_to_the_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
