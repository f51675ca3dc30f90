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

enum { SHARDS = 30, KEYS = 3000, FEW = 4 * BUILDS_SHARD_BYTES };

static struct servers servers;
static struct filter f;
static char directory[PATH_MAX];
static struct build *b;

static int start(void **state)
{
    (void)state;
    struct error e = {""};
    must(process_make_directory(directory, "build", &e), e);
    return servers_start(&servers, 2);
}

static int stop(void **state)
{
    (void)state;
    assert_int_equal(rmdir(directory), 0);
    return servers_stop(&servers);
}

static int setup(void **state)
{
    (void)state;
    servers_flush(&servers);
    filter_init(&f, &servers, "f");
    filter_make(&f, SHARDS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    build_free(b);
    b = NULL;
    filter_fini(&f);
    return 0;
}

static void make(struct build_options o)
{
    struct error e = {""};
    build_free(b);
    b = NULL;
    must(build_new(&b, &o, &e), e);
}

/* Hashes are spilled for eight ranges of shards. */
static struct build_options options(void)
{
    struct build_options o = builds_options(&f, directory);
    o.memory = FEW;
    return o;
}

static void flush(void)
{
    struct error e = {""};
    must(build_flush(b, &e), e);
}

static void flush_gives(enum err code)
{
    struct error e = {""};
    gives(code, build_flush(b, &e), e);
}

/* --- a page that is not ended --- */

static enum err stop_twice(void *arg, struct error *e)
{
    return ++*(unsigned *)arg <= 2 ? error_set(e, ERR_CANCELLED, "stop") : ERR_OK;
}

static void test_build_flush__of_spilled_hashes_waits_for_open_pages(void **state)
{
    (void)state;
    struct build_options o = options();
    unsigned calls = 0;
    struct error e = {""};
    o.poll = stop_twice;
    o.poll_arg = &calls;
    o.writers = 2;
    make(o);
    builds_put(&f, b, 0, 0, 100);
    build_put(build_writer(b, 1), builds_hash(&f, 100));
    flush_gives(ERR_CANCELLED);
    must(build_page_end(build_writer(b, 1), &e), e);
    clock_sleep_us(60 * 1000);  /* till it is asked again */
    flush_gives(ERR_CANCELLED); /* in the middle */
    flush();
    builds_all_there(&f, 0, 101);
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
        if (n < 0 || strncmp(target, directory, strlen(directory)) != 0 || pread(fd, &byte, 1, 77) != 1)
            continue;
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, 77), 1);
    }
    (void)closedir(all);
}

static void test_build_flush__says_that_a_file_is_damaged(void **state)
{
    (void)state;
    struct error e = {""};
    make(options());
    builds_put(&f, b, 0, 0, KEYS);
    builds_lose(&f, 1); /* of the first range */
    flush_gives(ERR_LOST);
    builds_find(&f, 1);
    flip_bytes();
    gives(ERR_IO, build_flush(b, &e), e);
    assert_non_null(strstr(e.text, directory));
    gives(ERR_IO, build_flush(b, &e), e);
}

static void test_build_page_end__says_that_the_disk_is_full(void **state)
{
    (void)state;
    struct rlimit old;
    struct build_options o = options();
    struct error e = {""};
    o.writers = 2;
    make(o);
    builds_put(&f, b, 0, 0, KEYS);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    struct rlimit low = {.rlim_cur = 4096, .rlim_max = old.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    enum err code = build_flush(b, &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    gives(ERR_IO, code, e);
    assert_non_null(strstr(e.text, directory));
    assert_non_null(strstr(e.text, "no space"));
    for (unsigned i = 0; i < 2; i++) { /* for good, and for all */
        build_put(build_writer(b, i), builds_hash(&f, 1));
        gives(ERR_IO, build_page_end(build_writer(b, i), &e), e);
        assert_non_null(strstr(e.text, directory));
    }
    gives(ERR_IO, build_flush(b, &e), e);
}

static void test_build_is_full__when_so_much_is_spilled(void **state)
{
    (void)state;
    enum { MANY = 600000, PAGE = 10000 };
    struct build_options o = options();
    struct error e = {""};
    struct build_writer *w;
    unsigned wanted = 0, put = 0;
    o.spill_bytes = 5 << 20;
    make(o);
    w = build_writer(b, 0);
    for (; put < MANY && !build_is_full(b); put += PAGE) {
        for (unsigned i = put; i < put + PAGE; i++)
            build_put(w, builds_hash(&f, i));
        must(build_page_end(w, &e), e);
        if (wanted == 0 && build_wants_flush(b))
            wanted = put;
    }
    assert_true(build_is_full(b) && build_wants_flush(b));
    assert_in_range(wanted, 5 * 32768, 9 * 32768); /* 16 bytes a hash; 2 MiB of them are in buffers */
    assert_in_range(put, 10 * 32768, 15 * 32768);
    assert_in_range(build_spilled_bytes(b), 5 << 20, 6 << 20);
    flush();
    assert_false(build_is_full(b) || build_wants_flush(b));
    assert_int_equal(build_spilled_bytes(b), 0);
    builds_all_there(&f, 0, 8000);
    builds_all_there(&f, put - 4000, 4000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SPILLED(test_build_flush__of_spilled_hashes_waits_for_open_pages),
        SPILLED(test_build_flush__says_that_a_file_is_damaged),
        SPILLED(test_build_page_end__says_that_the_disk_is_full),
        SPILLED(test_build_is_full__when_so_much_is_spilled),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
