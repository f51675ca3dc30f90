/* SPDX-License-Identifier: MIT */
/* twinbloom import: keys from files, in batches. */
#include "tests/integration/dumps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct two two;
static char folder[PATH_MAX];

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    must(process_make_directory(folder, "import", &e), e);
    return setenv("D", folder, 1) == 0 ? two_start(&two) : -1; /* for the shell commands */
}

static int teardown(void **state)
{
    (void)state;
    process_remove_directory(folder);
    return two_stop(&two);
}

static void added(const char *arguments, const char *part)
{
    two_cli_says(&two.from, arguments, 0, part);
}

static void test_import__reads_lines_nuls_and_columns(void **state)
{
    (void)state;
    added("import lines < <(printf 'c0\\nc1\\n\\nc2')",
          "3 keys are in lines: 3 added, 0 may have been present before");
    added("import lines < <(printf 'c0\\nc1\\n\\nc2')", "1 empty keys were skipped.");
    added("import nuls --null < <(printf 'c0\\0c1\\0c2\\0')", "3 keys are in nuls: 3 added");
    added("import nuls -0 < <(printf 'a\\nb\\0')", "1 keys are in nuls: 1 added");
    added("import col --csv 2 < <(printf '1,c0\\r\\n2,\"c1\"\\r\\n3,c2\\r\\n')", "3 keys are in col");
    added("import name --csv code < <(printf 'id,code\\n1,c0\\n2,c1\\n3,c2\\n')", "3 keys are in name");
    static const char *const filters[] = {"lines", "nuls", "col", "name"};
    for (size_t i = 0; i < 4; i++)
        two_all_present(&two.from, filters[i], 0, 3);
    redisReply *r = client_command(&two.from, "BF.EXISTS nuls %b", "a\nb", (size_t)3);
    assert_int_equal(r->integer, 1);
    freeReplyObject(r);
    added("import crlf < <(printf 'a\\r\\n')", "the CR was added as part of each key");
    two_cli_says(&two.from, "import x --csv code < <(printf 'id\\n1\\n')", 5,
                 "the first record has no column \"code\"");
    two_cli_says(&two.from, "import bad --csv 2 < <(printf '1,a\\n2\\n3,b\\n')", 5,
                 "1 records lack the column or are malformed; the first is record 2.");
    two_cli_says(&two.from, "import x --csv 1 -0", 2, "--null and --csv do not go together");
    two_cli_says(&two.from, "import x --csv 0", 2, "--csv 0: expected COLUMN");
    two_cli_says(&two.from, "import x --input /nonexistent", 2, "/nonexistent: No such file");
}

/* More keys than all batches under way contain. */
static void test_import__loses_no_key(void **state)
{
    (void)state;
    added("help > /dev/null; seq -f c%.0f 0 99999 > $D/keys", "");
    added("import many --capacity 200k --error-rate 0.001 --input $D/keys", "100,000 keys are in many: ");
    two_all_present(&two.from, "many", 0, 100000);
    assert_int_equal(two_status(&two.from, "many", "layers"), 1);
    assert_int_equal(two_status(&two.from, "many", "capacity"), 200000);
    added("import many < $D/keys --json",
          "{\"filter\":\"many\",\"key_count\":100000,\"skipped_count\":0,\"added_count\":0,"
          "\"present_count\":100000,\"refused_count\":0,\"empty_count\":0,\"malformed_count\":0,\"duration_"
          "ms\":");
}

static void test_import__takes_keys_of_megabytes(void **state)
{
    (void)state;
    enum { LONG = 5 << 20 };
    added("import long < <(for i in 1 2 3; do head -c 5242880 /dev/zero | tr '\\0' $i; echo; done)",
          "3 keys are in long: 3 added");
    char *key = malloc(LONG);
    memset(key, '2', LONG);
    redisReply *r = client_command(&two.from, "BF.EXISTS long %b", key, (size_t)LONG);
    assert_int_equal(r->integer, 1);
    freeReplyObject(r);
    free(key);
}

static void test_import__makes_no_filter_where_it_must_not(void **state)
{
    (void)state;
    two_cli_says(&two.from, "import nofilter --no-create < <(echo a)", 4,
                 "twinbloom: filter 'nofilter' does not exist; create it, or leave out --no-create\n");
    two_says(&two.from, "BF.INFO nofilter", "ERR not found");
}

/* A full filter ends the import, which reports the position; the next run can continue there. */
static void test_import__says_how_to_go_on(void **state)
{
    (void)state;
    struct error e = {""};
    must(client_ok(&two.from, &e, "BF.RESERVE small 0.0001 100 NONSCALING"), e);
    added("import small < <(seq 1 100)", "100 keys are in small: 100 added");
    two_cli_says(&two.from, "import small < <(seq 1 3000)", 4,
                 "twinbloom: ERR non scaling filter is full; to continue after the keys that were added, "
                 "give --skip 100");
    added("import small --skip 60 < <(seq 1 100) --json",
          "\"key_count\":100,\"skipped_count\":60,\"added_count\":0,\"present_count\":40,");
    added("import small --skip 60 < <(seq 1 20) --json",
          "\"key_count\":20,\"skipped_count\":20,\"added_count\":0,");
}

/* With --foreground, timeout sends one signal, not another to the group: a second interrupt would end the
 * import without a message. */
static void test_import__that_is_interrupted_says_how_far_it_has_come(void **state)
{
    (void)state;
    char *output;
    int code = two_cli(&two.from,
                       "help > /dev/null; (seq -f c%.0f 0 5499; sleep 30) | "
                       "timeout --foreground --preserve-status -s INT 8 $TWINBLOOM import cut --capacity 10k",
                       &output);
    if (code != 130 ||
        strstr(output, "interrupted; to continue after the keys that were added, give --skip 5000") == NULL)
        fail_msg("code %d: %s", code, output);
    free(output);
    two_all_present(&two.from, "cut", 0, 5000);
}

static void test_import__tries_again_where_redis_is_away_for_a_while(void **state)
{
    (void)state;
    struct error e = {""};
    char line[256];
    must(client_ok(&two.from, &e, "CONFIG SET service.timeout 300ms"), e);
    (void)snprintf(line, sizeof(line),
                   "help > /dev/null; (sleep 0.7; redis-cli -p %u DEBUG SLEEP 2 > /dev/null) & "
                   "twinbloom import away --capacity 300k < <(seq -f c%%.0f 0 199999)",
                   two.fixture.redis[0].port);
    two_cli_says(&two.from, line, 0, "200,000 keys are in away: ");
    must(client_ok(&two.from, &e, "CONFIG SET service.timeout 20s"), e);
    two_all_present(&two.from, "away", 0, 200000);
}

/* The coordinator makes the lost shard again from its memory. */
static void test_import__goes_on_where_a_shard_is_lost(void **state)
{
    (void)state;
    struct error e = {""};
    char name[KEY_NAME_MAX];
    must(client_ok(&two.from, &e, "BF.RESERVE degraded 0.0001 1000000"), e);
    added("import degraded < <(seq -f c%.0f 0 9)", "10 keys are in degraded: ");
    char shards[24];
    must(client_status(&two.from, "degraded", "shards", shards, sizeof(shards), &e), e);
    must(client_wait_status(&two.from, "degraded", "resident_shards", shards, 20000, &e), e);
    two_find_key(&two.from_node, "twinbloom:{degraded.1.0.0}:*", name);
    two_tell(&two.from_node, "DEL %s", name);
    added("import degraded < <(seq -f c%.0f 0 2999)", "3,000 keys are in degraded: ");
    two_all_present(&two.from, "degraded", 0, 3000);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_import__reads_lines_nuls_and_columns),
        TEST(test_import__loses_no_key),
        TEST(test_import__takes_keys_of_megabytes),
        TEST(test_import__makes_no_filter_where_it_must_not),
        TEST(test_import__says_how_to_go_on),
        TEST(test_import__that_is_interrupted_says_how_far_it_has_come),
        TEST(test_import__tries_again_where_redis_is_away_for_a_while),
        TEST(test_import__goes_on_where_a_shard_is_lost),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
