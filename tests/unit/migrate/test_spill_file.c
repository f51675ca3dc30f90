/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tests/lib/process.h"
#include "migrate/build/spill_file.h"

#define must(expression, e)                                                                                  \
    do {                                                                                                     \
        if ((expression) != ERR_OK)                                                                          \
            fail_msg("%s: %s", #expression, (e).text);                                                       \
    } while (0)

enum { PARTITIONS = 7, ROOM = 100 };

/* --- a disk that fails --- */

static struct {
    int open_errno;     /* error of opening a file without a name; 0: none */
    int write_errno;    /* error of writing; 0: none */
    unsigned writes;    /* number of writes that succeed before it */
    size_t at_once;     /* most bytes that one call reads or writes; 0: all */
    unsigned interrupt; /* number of calls that are interrupted */
} disk;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
ssize_t __real_pwrite(int fd, const void *from, size_t n, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *from, size_t n, off_t offset);
ssize_t __real_pread(int fd, void *to, size_t n, off_t offset);
ssize_t __wrap_pread(int fd, void *to, size_t n, off_t offset);

int __wrap_open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    if ((flags & O_TMPFILE) != O_TMPFILE || disk.open_errno == 0)
        return __real_open(path, flags, mode);
    errno = disk.open_errno;
    return -1;
}

static bool interrupted(void)
{
    if (disk.interrupt == 0)
        return false;
    disk.interrupt--;
    errno = EINTR;
    return true;
}

ssize_t __wrap_pwrite(int fd, const void *from, size_t n, off_t offset)
{
    if (interrupted())
        return -1;
    if (disk.write_errno != 0 && disk.writes-- == 0) {
        disk.writes = 0;
        errno = disk.write_errno;
        return -1;
    }
    return __real_pwrite(fd, from, disk.at_once != 0 && n > disk.at_once ? disk.at_once : n, offset);
}

ssize_t __wrap_pread(int fd, void *to, size_t n, off_t offset)
{
    if (interrupted())
        return -1;
    return __real_pread(fd, to, disk.at_once != 0 && n > disk.at_once ? disk.at_once : n, offset);
}

/* With large file support, some libraries call these functions by other names. */
int __wrap_open64(const char *path, int flags, ...) __attribute__((alias("__wrap_open")));
ssize_t __wrap_pwrite64(int fd, const void *from, size_t n, off_t offset)
    __attribute__((alias("__wrap_pwrite")));
ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t offset) __attribute__((alias("__wrap_pread")));

/* --- files --- */

static char directory[PATH_MAX];
static struct spill_file *file;
static struct spill_chunk *chunk; /* has room for ROOM hashes */

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    memset(&disk, 0, sizeof(disk));
    must(process_make_directory(directory, "spill", &e), e);
    chunk = calloc(1, sizeof(*chunk) + ROOM * sizeof(chunk->hashes[0]));
    assert_non_null(chunk);
    must(spill_file_new(&file, directory, PARTITIONS, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    spill_file_free(file);
    file = NULL;
    free(chunk);
    assert_int_equal(rmdir(directory), 0); /* the directory must be empty */
    return 0;
}

static struct key_hash hash_of(uint64_t key)
{
    return hash_key(9, &key, sizeof(key));
}

/* Chunk @number of a partition has number % ROOM + 1 hashes. */
static enum err append(uint32_t partition, uint32_t number, struct error *e)
{
    chunk->count = number % ROOM + 1;
    for (uint32_t i = 0; i < chunk->count; i++)
        chunk->hashes[i] = hash_of((uint64_t)partition << 40 | (uint64_t)number << 20 | i);
    return spill_file_append(file, partition, chunk, e);
}

static void append_ok(uint32_t partition, uint32_t first, uint32_t count)
{
    struct error e = {""};
    for (uint32_t i = first; i < first + count; i++)
        must(append(partition, i, &e), e);
}

struct reading {
    uint32_t partition, number;
};

static enum err take(void *arg, const struct key_hash *hashes, uint32_t count, struct error *e)
{
    (void)e;
    struct reading *r = arg;
    assert_int_equal(count, r->number % ROOM + 1);
    for (uint32_t i = 0; i < count; i++) {
        struct key_hash h = hash_of((uint64_t)r->partition << 40 | (uint64_t)r->number << 20 | i);
        assert_int_equal(hashes[i].high, h.high);
        assert_int_equal(hashes[i].low, h.low);
    }
    r->number++;
    return ERR_OK;
}

static void holds(uint32_t partition, uint32_t chunks)
{
    struct reading r = {.partition = partition};
    struct error e = {""};
    assert_int_equal(spill_file_holds(file, partition), chunks > 0);
    must(spill_file_read(file, partition, take, &r, &e), e);
    assert_int_equal(r.number, chunks);
}

/* The descriptor of the spill file, which is the one whose link leads into the directory. */
static int descriptor(void)
{
    char path[PATH_MAX], target[PATH_MAX];
    DIR *all = opendir("/proc/self/fd");
    int found = -1;
    assert_non_null(all);
    for (struct dirent *d = readdir(all); d != NULL; d = readdir(all)) {
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%s", d->d_name);
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        if (n > 0 && strncmp(target, directory, strlen(directory)) == 0)
            found = (int)strtol(d->d_name, NULL, 10);
    }
    (void)closedir(all);
    assert_true(found >= 0);
    return found;
}

static void fails_to_read(uint32_t partition, const char *why)
{
    struct reading r = {.partition = partition};
    struct error e = {""};
    assert_int_equal(spill_file_read(file, partition, take, &r, &e), ERR_IO);
    assert_non_null(strstr(e.text, "spill_dir"));
    assert_non_null(strstr(e.text, directory));
    if (strstr(e.text, why) == NULL)
        fail_msg("%s", e.text);
}

/* --- writing and reading --- */

static void test_spill_file_read__gives_each_partition_its_own_in_order(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 300; i++)
        for (uint32_t p = 0; p + 1 < PARTITIONS; p++)
            if (i < 50 * p)
                append_ok(p, i, 1);
    for (uint32_t p = 0; p + 1 < PARTITIONS; p++)
        holds(p, 50 * p);
    holds(PARTITIONS - 1, 0);
    holds(3, 150); /* a second read gives the same */
}

static void test_spill_file_read__goes_over_many_extents(void **state)
{
    (void)state;
    enum { CHUNKS = 4000 }; /* of 840 bytes on average */
    append_ok(1, 0, CHUNKS / 2);
    append_ok(2, 0, CHUNKS);
    append_ok(1, CHUNKS / 2, CHUNKS / 2);
    assert_true(spill_file_bytes(file) > 2 * (uint64_t)SPILL_EXTENT_BYTES);
    holds(1, CHUNKS);
    holds(2, CHUNKS);
}

static void test_spill_file_append__takes_the_largest_chunk(void **state)
{
    (void)state;
    struct error e = {""};
    uint32_t count = (SPILL_CHUNK_BYTES_MAX - sizeof(*chunk)) / sizeof(chunk->hashes[0]);
    struct spill_chunk *large = calloc(1, SPILL_CHUNK_BYTES_MAX);
    assert_non_null(large);
    for (unsigned i = 0; i < 9; i++) {
        large->count = count;
        must(spill_file_append(file, 0, large, &e), e);
    }
    free(large);
    assert_int_equal(spill_file_bytes(file), 9 * (sizeof(*chunk) + count * sizeof(chunk->hashes[0])));
}

static enum err refuse(void *arg, const struct key_hash *hashes, uint32_t count, struct error *e)
{
    (void)hashes;
    (void)count;
    ++*(unsigned *)arg;
    return error_set(e, ERR_CANCELLED, "enough");
}

static void test_spill_file_read__ends_where_the_reader_wants(void **state)
{
    (void)state;
    struct error e = {""};
    unsigned calls = 0;
    append_ok(0, 0, 10);
    assert_int_equal(spill_file_read(file, 0, refuse, &calls, &e), ERR_CANCELLED);
    assert_int_equal(calls, 1);
    holds(0, 10);
}

static void test_spill_file__reads_and_writes_bit_by_bit_where_it_must(void **state)
{
    (void)state;
    disk.at_once = 13;
    disk.interrupt = 3;
    append_ok(4, 0, 30);
    disk.interrupt = 5;
    holds(4, 30);
}

/* --- damage and errors --- */

static void flip(off_t at)
{
    uint8_t byte;
    int fd = descriptor();
    assert_int_equal(__real_pread(fd, &byte, 1, at), 1);
    byte ^= 4;
    assert_int_equal(__real_pwrite(fd, &byte, 1, at), 1);
}

static void test_spill_file_read__sees_every_byte_that_was_changed(void **state)
{
    (void)state;
    append_ok(0, 0, 3);
    append_ok(1, 0, 3);
    off_t bytes = 3 * sizeof(*chunk) + (1 + 2 + 3) * sizeof(chunk->hashes[0]);
    for (off_t at = 0; at < bytes; at++) {
        flip(at);
        /* Chunks before the damaged one are delivered, because they are intact. */
        fails_to_read(0, "is not what was written");
        holds(1, 3);
        flip(at);
        holds(0, 3);
    }
}

static void test_spill_file_read__sees_that_the_file_was_cut(void **state)
{
    (void)state;
    append_ok(0, 0, 5);
    assert_int_equal(ftruncate(descriptor(), 100), 0);
    fails_to_read(0, "shorter");
}

/* A hole in place of a chunk, as after a lost write of the disk. */
static void test_spill_file_read__sees_zeros(void **state)
{
    (void)state;
    append_ok(0, 0, 5);
    assert_int_equal(ftruncate(descriptor(), 0), 0);
    assert_int_equal(ftruncate(descriptor(), 4096), 0);
    fails_to_read(0, "is not what was written");
}

/* An intact chunk in the place of another one. */
static void test_spill_file_read__sees_that_chunks_changed_places(void **state)
{
    (void)state;
    enum { SIZE = sizeof(*chunk) + sizeof(chunk->hashes[0]) }; /* a chunk of one hash */
    uint8_t first[SIZE], second[SIZE];
    append_ok(0, 0, 1);
    append_ok(0, ROOM, 1);
    int fd = descriptor();
    assert_int_equal(__real_pread(fd, first, SIZE, 0), SIZE);
    assert_int_equal(__real_pread(fd, second, SIZE, SIZE), SIZE);
    assert_int_equal(__real_pwrite(fd, second, SIZE, 0), SIZE);
    assert_int_equal(__real_pwrite(fd, first, SIZE, SIZE), SIZE);
    fails_to_read(0, "is not what was written");
}

static void test_spill_file_append__says_that_the_disk_is_full(void **state)
{
    (void)state;
    static const int errors[] = {ENOSPC, EDQUOT, EFBIG};
    for (unsigned i = 0; i < 3; i++) {
        struct error e = {""};
        disk.write_errno = errors[i];
        disk.writes = 2;
        append_ok(0, 3 * i, 2);
        assert_int_equal(append(0, 3 * i + 2, &e), ERR_IO);
        char text[PATH_MAX + 32];
        (void)snprintf(text, sizeof(text), "spill_dir %s: no space", directory);
        if (strstr(e.text, text) == NULL)
            fail_msg("%s", e.text);
    }
    struct error e = {""};
    disk.write_errno = EIO;
    disk.writes = 0;
    assert_int_equal(append(0, 0, &e), ERR_IO);
    assert_null(strstr(e.text, "no space"));
    assert_non_null(strstr(e.text, directory));
}

/* The limit of the kernel for the size of a file. Nothing is simulated. */
static void test_spill_file_append__says_that_a_limit_is_reached(void **state)
{
    (void)state;
    struct rlimit old;
    struct error e = {""};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    struct rlimit low = {.rlim_cur = 10000, .rlim_max = old.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    enum err code = ERR_OK;
    for (uint32_t i = 0; i < 1000 && code == ERR_OK; i++)
        code = append(0, i, &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(code, ERR_IO);
    if (strstr(e.text, "no space") == NULL || strstr(e.text, directory) == NULL)
        fail_msg("%s", e.text);
}

/* --- space --- */

static uint64_t on_disk(void)
{
    struct stat s;
    assert_int_equal(fstat(descriptor(), &s), 0);
    return (uint64_t)s.st_blocks * 512;
}

static void test_spill_file_forget__gives_the_space_back(void **state)
{
    (void)state;
    append_ok(0, 0, 4000);
    append_ok(1, 0, 4000);
    append_ok(0, 4000, 10);
    uint64_t both = spill_file_bytes(file);
    assert_int_equal(spill_file_live(file), both);
    assert_in_range(on_disk(), both, both + both / 8);
    spill_file_forget(file, 0);
    holds(0, 0);
    holds(1, 4000);
    assert_in_range(spill_file_live(file), both / 3, both * 2 / 3);
    assert_int_equal(spill_file_bytes(file), spill_file_live(file));
    assert_in_range(on_disk(), both / 3, both * 2 / 3);
    append_ok(0, 0, 200);
    holds(0, 200);
    spill_file_forget(file, 1);
    spill_file_forget(file, 0);
    assert_int_equal(spill_file_live(file), 0);
    assert_int_equal(spill_file_bytes(file), 0);
    assert_int_equal(on_disk(), 0);
    append_ok(1, 0, 100); /* the file can be used again */
    holds(1, 100);
}

/* --- the directory --- */

static unsigned names_in_directory(void)
{
    unsigned count = 0;
    DIR *d = opendir(directory);
    assert_non_null(d);
    while (readdir(d) != NULL)
        count++;
    (void)closedir(d);
    return count - 2;
}

static void is_private_and_nameless(void)
{
    struct stat s;
    append_ok(0, 0, 3);
    holds(0, 3);
    assert_int_equal(names_in_directory(), 0);
    assert_int_equal(fstat(descriptor(), &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    assert_int_equal(s.st_nlink, 0);
    assert_int_equal(fcntl(descriptor(), F_GETFD), FD_CLOEXEC);
}

static void test_spill_file__is_private_and_has_no_name(void **state)
{
    (void)state;
    is_private_and_nameless();
}

static void test_spill_file__is_so_too_where_the_file_system_has_no_nameless_files(void **state)
{
    (void)state;
    static const int errors[] = {EOPNOTSUPP, EISDIR, EINVAL};
    for (unsigned i = 0; i < 3; i++) {
        struct error e = {""};
        spill_file_free(file);
        disk.open_errno = errors[i];
        must(spill_file_new(&file, directory, PARTITIONS, &e), e);
        is_private_and_nameless();
    }
}

static void test_spill_file_new__says_why_a_directory_will_not_do(void **state)
{
    (void)state;
    struct spill_file *other = NULL;
    struct error e = {""};
    assert_int_equal(spill_file_new(&other, "/nowhere/at all", 1, &e), ERR_CONFIG);
    assert_string_equal(e.text, "spill_dir /nowhere/at all: No such file or directory");
    assert_int_equal(spill_file_new(&other, "/dev/null", 1, &e), ERR_CONFIG);
    assert_string_equal(e.text, "spill_dir /dev/null: Not a directory");
    disk.open_errno = EACCES;
    assert_int_equal(spill_file_new(&other, directory, 1, &e), ERR_CONFIG);
    disk.open_errno = EMFILE;
    assert_int_equal(spill_file_new(&other, directory, 1, &e), ERR_IO);
    assert_null(other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_spill_file_read__gives_each_partition_its_own_in_order),
        TEST(test_spill_file_read__goes_over_many_extents),
        TEST(test_spill_file_append__takes_the_largest_chunk),
        TEST(test_spill_file_read__ends_where_the_reader_wants),
        TEST(test_spill_file__reads_and_writes_bit_by_bit_where_it_must),
        TEST(test_spill_file_read__sees_every_byte_that_was_changed),
        TEST(test_spill_file_read__sees_that_the_file_was_cut),
        TEST(test_spill_file_read__sees_zeros),
        TEST(test_spill_file_read__sees_that_chunks_changed_places),
        TEST(test_spill_file_append__says_that_the_disk_is_full),
        TEST(test_spill_file_append__says_that_a_limit_is_reached),
        TEST(test_spill_file_forget__gives_the_space_back),
        TEST(test_spill_file__is_private_and_has_no_name),
        TEST(test_spill_file__is_so_too_where_the_file_system_has_no_nameless_files),
        TEST(test_spill_file_new__says_why_a_directory_will_not_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
