/* SPDX-License-Identifier: MIT */
/* Builds by one thread whose hashes are spilled: pages that are not ended, and files. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/integration/builds.h"

enum { KEYS = 3000 };

/* --- a page that is not ended --- */

static enum err stop_twice(void *arg, struct error *e)
{
    return ++*(unsigned *)arg <= 2 ? error_set(e, ERR_CANCELLED, "stop") : ERR_OK;
}

static void test_build_flush__of_spilled_hashes_waits_for_open_pages(void **state)
{
    struct build_options o = builds_options(state);
    unsigned calls = 0;
    struct error e = {""};
    o.poll = (struct work){stop_twice, &calls};
    o.writers = 2;
    builds_make(o);
    builds_put(0, 0, 100);
    build_put(builds_build, 1, log_key(100));
    builds_flush_gives(ERR_CANCELLED);
    must(build_page_end(builds_build, 1, &e), e);
    clock_sleep_us(60 * 1000);         /* until the callback is called again */
    builds_flush_gives(ERR_CANCELLED); /* cancelled in the middle */
    builds_flush();
    builds_all_there(0, 101);
}

/* --- files --- */

static void flip_bytes(void)
{
    char path[PATH_MAX], target[PATH_MAX];
    uint8_t byte;
    DIR *all = opendir("/proc/self/fd");
    assert_non_null(all);
    for (struct dirent *d = readdir(all); d != NULL; d = readdir(all)) {
        int fd = (int)strtol(d->d_name, NULL, 10);
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%s", d->d_name);
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        if (n < 0 || strncmp(target, log_directory, strlen(log_directory)) != 0 ||
            pread(fd, &byte, 1, 77) != 1)
            continue;
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, 77), 1);
    }
    (void)closedir(all);
}

static void test_build_flush__says_that_a_file_is_damaged(void **state)
{
    struct error e = {""};
    builds_make(builds_options(state));
    builds_put(0, 0, KEYS);
    builds_lose(0); /* a shard of the first range */
    builds_flush_gives(ERR_LOST);
    builds_find(0);
    flip_bytes();
    gives(ERR_IO, build_flush(builds_build, &e), e);
    assert_non_null(strstr(e.text, log_directory));
    gives(ERR_IO, build_flush(builds_build, &e), e);
}

static void test_build_page_end__says_that_the_disk_is_full(void **state)
{
    struct rlimit old;
    struct build_options o = builds_options(state);
    struct error e = {""};
    o.writers = 2;
    builds_make(o);
    builds_put(0, 0, KEYS);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    struct rlimit low = {.rlim_cur = 4096, .rlim_max = old.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    enum err code = build_flush(builds_build, &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    gives(ERR_IO, code, e);
    assert_non_null(strstr(e.text, log_directory));
    assert_non_null(strstr(e.text, "no space"));
    for (unsigned i = 0; i < 2; i++) { /* the error stays, for all writers */
        build_put(builds_build, i, log_key(1));
        gives(ERR_IO, build_page_end(builds_build, i, &e), e);
        assert_non_null(strstr(e.text, log_directory));
    }
    gives(ERR_IO, build_flush(builds_build, &e), e);
}

static void test_build_is_full__when_so_much_is_spilled(void **state)
{
    enum { MANY = 600000, PAGE = 10000 };
    struct build_options o = builds_options(state);
    struct error e = {""};
    unsigned wanted = 0, put = 0;
    o.spill_bytes = 5 << 20;
    builds_make(o);
    for (; put < MANY && !build_is_full(builds_build); put += PAGE) {
        for (unsigned i = put; i < put + PAGE; i++)
            build_put(builds_build, 0, log_key(i));
        must(build_page_end(builds_build, 0, &e), e);
        if (wanted == 0 && build_wants_flush(builds_build))
            wanted = put;
    }
    assert_true(build_is_full(builds_build) && build_wants_flush(builds_build));
    assert_in_range(wanted, 5 * 32768, 9 * 32768); /* 16 bytes a hash; 2 MiB of hashes are in buffers */
    assert_in_range(put, 10 * 32768, 15 * 32768);
    assert_in_range(build_spilled_bytes(builds_build), 5 << 20, 7 << 20); /* these hashes were just written */
    builds_flush();
    assert_false(build_is_full(builds_build) || build_wants_flush(builds_build));
    assert_int_equal(build_spilled_bytes(builds_build), 0);
    builds_all_there(0, 8000);
    builds_all_there(put - 4000, 4000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SPILLED(test_build_flush__of_spilled_hashes_waits_for_open_pages),
        SPILLED(test_build_flush__says_that_a_file_is_damaged),
        SPILLED(test_build_page_end__says_that_the_disk_is_full),
        SPILLED(test_build_is_full__when_so_much_is_spilled),
    };
    return cmocka_run_group_tests(tests, log_start, log_stop);
}
