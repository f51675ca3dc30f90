/* SPDX-License-Identifier: MIT */
/* twinbloom dump and twinbloom restore: files between two installations. */
#include "tests/integration/dumps.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BIG = 1200000, MORE = 400000 };

static struct two two;
static char folder[PATH_MAX];

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    must(process_make_directory(folder, "dump", &e), e);
    return setenv("D", folder, 1) == 0 ? two_start(&two) : -1; /* for the shell commands */
}

static int teardown(void **state)
{
    (void)state;
    process_remove_directory(folder);
    return two_stop(&two);
}

/* Two layers; then a third one, which both filters get at the same count. */
static void test_restore__of_a_million_keys_is_what_was_dumped(void **state)
{
    (void)state;
    two_cli_says(&two.from, "import big --capacity 500k < <(seq -f c%.0f 0 1199999)", 0,
                 "1,200,000 keys are in big");
    assert_int_equal(two_status(&two.from, "big", "layers"), 2);
    mode_t mask = umask(0);
    two_cli_says(&two.from, "dump big --output $D/big", 0, "big dumped: ");
    (void)umask(mask);
    char path[PATH_MAX + 8];
    struct stat made;
    (void)snprintf(path, sizeof(path), "%s/big", folder);
    assert_int_equal(stat(path, &made), 0);
    assert_int_equal(made.st_mode & 0777, 0600); /* the file contains the seed */
    two_cli_says(&two.to, "restore 'big copy' < $D/big", 0, "of ");
    two_all_present(&two.to, "big copy", 0, BIG);
    uint64_t before = two_false_positives(&two.from, "big");
    assert_in_range(before, 1, TWO_ABSENT / 100);
    assert_int_equal(two_false_positives(&two.to, "big copy"), before);
    two_same_info(&two, "big", "big copy");
    static const char more[] = "import 'big%s' < <(seq -f c%%.0f 1200000 1599999)";
    char line[128];
    (void)snprintf(line, sizeof(line), more, "");
    two_cli_says(&two.from, line, 0, " keys are in big");
    (void)snprintf(line, sizeof(line), more, " copy");
    two_cli_says(&two.to, line, 0, " keys are in big copy");
    assert_int_equal(two_status(&two.from, "big", "layers"), 3);
    two_same_info(&two, "big", "big copy");
    two_all_present(&two.to, "big copy", BIG, MORE);
}

/* Make a filter of several pieces. Its dump is in the file `layers`, the dump's first bytes in `cut`. */
static void dump_layers(const char *name)
{
    struct dump d = {0};
    char line[256];
    two_make_layers(&two, name, &d);
    dump_free(&d);
    (void)snprintf(line, sizeof(line), "dump %s > $D/layers; head -c 3000 $D/layers > $D/cut", name);
    two_cli_says(&two.from, line, 0, "dumped");
}

/* The pieces of the file `layers`. */
static void read_layers(struct dump *d)
{
    enum { START_BYTES = 16, SUM_BYTES = 8 };
    char path[PATH_MAX + 8];
    uint64_t head[2]; /* position and length, little-endian */
    (void)snprintf(path, sizeof(path), "%s/layers", folder);
    FILE *file = fopen(path, "rbe");
    assert_non_null(file);
    assert_int_equal(fseek(file, START_BYTES, SEEK_SET), 0);
    while (fread(head, sizeof(head), 1, file) == 1 && head[0] != 0) {
        struct piece *p = &d->piece[d->count++];
        assert_in_range(d->count, 1, DUMP_PIECES_MAX);
        *p = (struct piece){.position = (int64_t)le64toh(head[0]), .length = (size_t)le64toh(head[1])};
        p->data = malloc(p->length);
        assert_non_null(p->data);
        assert_int_equal(fread(p->data, p->length, 1, file), 1);
        assert_int_equal(fseek(file, SUM_BYTES, SEEK_CUR), 0);
    }
    assert_int_equal(fclose(file), 0);
}

static void test_restore__of_a_file_that_was_cut_changes_nothing(void **state)
{
    (void)state;
    dump_layers("cutme");
    two_cli_says(&two.to, "restore cutme < $D/cut", 5, "twinbloom: the dump was cut after ");
    two_cli_says(&two.to, "restore cutme --input $D/cut", 5, "the dump was cut after ");
    assert_int_equal(two_count_keys(&two, "other:{cutme*"), 0);
    /* From a pipe the error is found only at the end: the pieces that were sent stay invisible. */
    two_cli_says(&two.to, "restore cutme < <(cat $D/cut)", 5, "the dump was cut after ");
    two_says(&two.to, "BF.INFO cutme", "ERR not found");
    two_cli_says(&two.to, "restore cutme < <(head -c -1 $D/layers)", 5, "the dump was cut after ");
    two_says(&two.to, "BF.INFO cutme", "ERR not found");
    two_cli_says(&two.to, "restore cutme < <(cat $D/layers)", 0, "cutme restored");
    two_all_present(&two.to, "cutme", 0, 3000);
}

static void test_restore__of_a_file_that_is_damaged_changes_nothing(void **state)
{
    (void)state;
    dump_layers("damaged");
    two_cli_says(&two.to,
                 "help > /dev/null; cp $D/layers $D/damaged; "
                 "printf x | dd of=$D/damaged bs=1 seek=1700 conv=notrunc status=none",
                 0, "");
    two_cli_says(&two.to, "restore damaged < $D/damaged", 5, "the dump is damaged after ");
    two_cli_says(&two.to, "restore damaged < <(cat $D/layers; echo)", 5,
                 "there is data after the end of the dump");
    two_says(&two.to, "BF.INFO damaged", "ERR not found");
    two_cli_says(&two.to, "restore damaged < <(echo no dump at all)", 5, "this is not a dump of a filter");
    two_cli_says(&two.to, "restore damaged --input /nonexistent", 2, "/nonexistent: No such file");
    two_cli_says(&two.to, "restore configured < $D/layers", 4, "the filter configured exists already");
}

static void test_restore__sends_what_the_service_does_not_have(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump d = {0};
    char line[128];
    dump_layers("partly");
    read_layers(&d);
    must(dump_load(&d.piece[0], &two.to, "partly", &e), e);
    must(dump_load(&d.piece[2], &two.to, "partly", &e), e);
    must(dump_load(&d.piece[3], &two.to, "partly", &e), e);
    (void)snprintf(line, sizeof(line), ", %zu of %zu pieces sent", d.count - 2, d.count);
    two_cli_says(&two.to, "restore partly < $D/layers", 0, line);
    two_all_present(&two.to, "partly", 0, 3000);
    two_cli_says(&two.to, "restore partly < $D/layers", 4, "the filter partly exists already");
    dump_free(&d);
}

/* A restore of the first dump was interrupted. Keys were added since, and the second dump has them. */
static void test_restore__of_a_later_dump_uses_nothing_of_an_earlier_one(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump d = {0};
    two_make_layers(&two, "hourly", &d);
    for (size_t i = 0; i + 1 < d.count; i++)
        must(dump_load(&d.piece[i], &two.to, "hourly", &e), e);
    must(client_madd(&two.from, "hourly", fixture_code, 3000, 1000, &e), e);
    two_cli_says(&two.from, "dump hourly > $D/hourly", 0, "dumped");
    char line[64];
    (void)snprintf(line, sizeof(line), ", %zu of %zu pieces sent", d.count, d.count);
    two_cli_says(&two.to, "restore hourly < $D/hourly", 0, line);
    two_all_present(&two.to, "hourly", 0, 4000);
    two_same_info(&two, "hourly", "hourly");
    dump_free(&d);
}

static void test_dump__goes_on_with_a_file_that_was_cut(void **state)
{
    enum { BEFORE_PIECE = 32, SUM_BYTES = 8 };
    struct dump d = {0};
    static const char resume[] = "dump resumed --output $D/again --resume";
    char whole[128], length[256];
    (void)state;
    dump_layers("resumed");
    read_layers(&d);
    size_t header_end = BEFORE_PIECE + d.piece[0].length + SUM_BYTES;
    dump_free(&d);
    (void)snprintf(whole, sizeof(whole), "%s && cmp $D/layers $D/again", resume);
    (void)snprintf(length, sizeof(length), "%s && test $(stat -c %%s $D/layers) = $(stat -c %%s $D/again)",
                   resume);
    for (unsigned cut = 0; cut < 4000; cut += 333) { /* in a header, in a piece, between two pieces */
        char make[128];
        unsigned left = cut == 333 ? 16 : cut;
        (void)snprintf(make, sizeof(make), "help > /dev/null; head -c %u $D/layers > $D/again", left);
        two_cli_says(&two.from, make, 0, "");
        /* Without its header the file begins another dump, whose pieces have other positions. */
        two_cli_says(&two.from, left < header_end ? length : whole, 0, "resumed dumped: ");
    }
    two_cli_says(&two.from, "dump resumed --output $D/again --resume", 0, "was dumped already");
    two_cli_says(&two.from, "add other a", 0, "added");
    two_cli_says(&two.from, "dump other --output $D/again --resume", 4,
                 "again is a whole dump, but not of other as it is now");
    two_cli_says(&two.from, "dump nosuch --output $D/again --resume", 4, "'nosuch' does not exist");
    two_cli_says(&two.from, "help > /dev/null; test $(stat -c %s $D/layers) = $(stat -c %s $D/again)", 0, "");
    two_cli_says(&two.from, "dump resumed --output $D/again", 2, "exists already; --resume");
    two_cli_says(&two.from, "dump resumed --output $D/nosuch --resume", 2, "No such file");
    two_cli_says(&two.from, "dump resumed --resume", 2, "--resume needs --output FILE");
    two_cli_says(&two.from, "dump nosuch | cat", 0, "twinbloom: filter 'nosuch' does not exist");
    two_cli_says(&two.from, "dump nosuch --output $D/new", 4, "twinbloom: filter 'nosuch' does not exist");
    two_cli_says(&two.from, "help > /dev/null; ls $D/new", 2, "No such file");
}

static void test_dump__that_cannot_be_written_says_so(void **state)
{
    (void)state;
    dump_layers("full");
    two_cli_says(&two.from, "dump full > /dev/full", 5, "the dump could not be written: No space left");
    /* The connection must not have the number of standard output: the dump would go to the service. */
    two_cli_says(&two.from, "add closed a", 0, "added");
    two_cli_says(&two.from, "dump closed < /dev/null >&-", 5, "could not be written: Bad file descriptor");
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_restore__of_a_million_keys_is_what_was_dumped),
        TEST(test_restore__of_a_file_that_was_cut_changes_nothing),
        TEST(test_restore__of_a_file_that_is_damaged_changes_nothing),
        TEST(test_restore__sends_what_the_service_does_not_have),
        TEST(test_restore__of_a_later_dump_uses_nothing_of_an_earlier_one),
        TEST(test_dump__goes_on_with_a_file_that_was_cut),
        TEST(test_dump__that_cannot_be_written_says_so),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
