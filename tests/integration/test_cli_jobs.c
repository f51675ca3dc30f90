/* SPDX-License-Identifier: MIT */
/* The command line: jobs are started, followed and controlled. */
#include "tests/integration/responder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_rebuild__follows_its_job_and_not_the_one_before(void **state)
{
    struct responder *r = *state;
    assert_says(r, "rebuild 12 --wait", 0, "scan  1,200,000/2,500,000 rows  48%\n");
    assert_true(r->polls >= 5); /* the state "done" of the job before was not taken for this job's end */
    r->polls = 0;
    r->last_state = "failed";
    assert_says(r, "rebuild 12 --wait", 5, "twinbloom: the rebuild of 12 failed: the source is \\x1bgone\n");
    r->polls = 0;
    r->last_state = "aborted";
    assert_says(r, "rebuild 12 --wait --json", 5, "\"job_state\":\"aborted\"");
    r->polls = 0;
    assert_says(r, "rebuild 12 --wait --json", 5,
                "{\"error\":{\"code\":\"failed\",\"message\":\"the rebuild of 12 was aborted\"}}\n");
    assert_says(r, "rebuild busy", 6, "twinbloom: BUSY host:1 holds the mutex\n");
    assert_says(r, "rebuild f", 0, "The rebuild of f has started");
    assert_says(r, "abort f --json --yes", 0, "{\"filter\":\"f\",\"aborted\":true}\n");
}

static void test_rebuild__hands_its_options_on(void **state)
{
    assert_says(*state, "rebuild echo --capacity 2k --hold --verify=full", 4,
                "ERR got TB.REBUILD echo CAPACITY 2000 HOLD FULL\n");
    assert_says(*state, "rebuild echo --verify sample", 4, "ERR got TB.REBUILD echo\n");
    assert_says(*state, "rebuild echo --verify some", 2, "--verify some: expected sample|full");
    assert_says(*state, "rebuild echo --dry-run", 4, "ERR got TB.REBUILD echo DRYRUN\n");
    assert_says(*state, "verify echo --full", 4, "ERR got TB.VERIFY echo FULL\n");
    assert_says(*state, "rebuild f --full", 2, "rebuild has no option --full");
    assert_says(*state, "rebuild f --dry-run --wait", 2, "--dry-run starts nothing");
}

static void test_rebuild__ends_where_it_holds_or_was_rolled_back(void **state)
{
    struct responder *r = *state;
    r->held = true;
    r->last_state = "running";
    assert_says(
        r, "rebuild 12 --hold --wait", 0,
        "The rebuild of 12 holds: generation 5 is built and verified. It waits for \"twinbloom cutover "
        "12\".\n");
    assert_true(r->polls >= 5);
    r->polls = 0;
    r->switched = true;
    assert_says(r, "rebuild 12 --hold --wait", 5,
                "twinbloom: the rebuild of 12 was rolled back: generation 4 is in use; the rebuild waits for "
                "\"twinbloom "
                "cutover 12\" or \"twinbloom abort 12\"\n");
    /* A hold by somebody else is waited for. What does not change is not said again and again. */
    r->polls = 0;
    r->switched = false;
    static const char wait[] = "rebuild 12 --wait --timeout 1 2>&1 & sleep 6; kill -INT $!; wait $!";
    static const char line[] = "  until \"twinbloom cutover\"\n";
    assert_says(r, wait, 130, line);
    r->polls = 0;
    const char *once = strstr(twinbloom(r, "", wait)->text, line);
    assert_non_null(once);
    assert_null(strstr(once + 1, line));
}

static void test_rebuild__ends_where_the_grace_time_begins(void **state)
{
    struct responder *r = *state;
    r->grace = r->switched = true;
    r->last_state = "running";
    assert_says(r, "rebuild 12 --wait", 0,
                "The rebuild of 12 has switched after 0s, 1,200,000 rows, generation 4 serves.\n"
                "The old generation is kept until 2023-11-1");
    assert_true(r->polls >= 5);
    r->polls = 0;
    assert_says(r, "rebuild 12 --wait --json", 0, "\"job_grace_ends_at\":1700000000,");
}

static void test_verify__is_followed_as_a_rebuild_is(void **state)
{
    struct responder *r = *state;
    assert_says(r, "verify 12 --wait", 0, "The verification of 12 is done, 1,000 keys looked up.\n");
    r->polls = 0;
    r->last_state = "failed";
    assert_says(r, "verify 12 --wait", 5,
                "twinbloom: the verification of 12 failed: the source is \\x1bgone\n");
    assert_says(r, "verify f", 0, "The verification of f has started");
}

static void test_dry_run__shows_each_step(void **state)
{
    assert_run(*state, "", "rebuild f --dry-run", 0,
               "Plan\n"
               "  capacity            3,000,000\n"
               "  this rate is known  by the last run\n\n"
               "STEP       ROWS    TIME  REDIS BEFORE  AT ITS PEAK  AFTERWARDS  WHAT\n"
               "scan  2,500,000  1m 23s       1.0 MiB      3.0 MiB     2.0 MiB  read the table\n\n"
               "Nothing was started.\n");
    assert_says(*state, "rebuild large --dry-run", 1,
                "twinbloom: a rebuild of large would fail: too little memory\n");
    assert_run(
        *state, "", "rebuild f --dry-run --json", 0,
        "{\"capacity\":3000000,\"rows_per_second_by\":\"by the last run\",\"steps\":[{\"step\":\"scan\","
        "\"what\":\"read the "
        "table\",\"rows\":2500000,\"duration_seconds\":83.2,\"memory_before_bytes\":1048576,"
        "\"memory_peak_bytes\":3145728,\"memory_after_bytes\":2097152}],\"refused\":\"\"}\n");
}

static void test_control__asks_and_says_what_follows(void **state)
{
    static const struct {
        const char *arguments, *sent, *said, *json;
    } cases[] = {
        {"abort --yes", "TB.ABORT echo", "The job of f is being stopped", "aborted\":true"},
        {"cutover", "TB.CUTOVER echo", "The rebuild of f switches", "cutover\":true"},
        {"rollback", "TB.ROLLBACK echo", "The rebuild of f is being rolled back", "rolled_back\":true"},
        {"finish -y", "TB.FINISH echo", "The rebuild of f ends its grace time", "finished\":true"},
        {"pause", "TB.PAUSE echo", "The job of f pauses", "paused\":true"},
        {"resume", "TB.RESUME echo", "The job of f continues", "resumed\":true"},
    };
    char line[128];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)snprintf(line, sizeof(line), "%s echo", cases[i].arguments);
        assert_says(*state, line, 4, cases[i].sent);
        (void)snprintf(line, sizeof(line), "%s f", cases[i].arguments);
        assert_says(*state, line, 0, cases[i].said);
        (void)snprintf(line, sizeof(line), "%s f --json", cases[i].arguments);
        assert_says(*state, line, 0, cases[i].json);
    }
}

/* Commands that discard work ask on a terminal; elsewhere they need --yes. */
static void test_confirmation__is_asked_for_before_work_is_lost(void **state)
{
    static const char *const commands[] = {"abort", "finish", "delete", "trust", "rebuild --restart"};
    struct responder *r = *state;
    char line[128];
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        r->last_state = "running";
        r->polls = 4;
        (void)snprintf(line, sizeof(line), "%s 12", commands[i]);
        assert_says(r, line, 2, "standard input is not a terminal; confirm with --yes");
        const struct result *no = twinbloom_on_terminal(r, "n\\n", line);
        if (no->code != 1 || strstr(no->text, " 12") == NULL || strstr(no->text, "? [y/N] ") == NULL ||
            strstr(no->text, "nothing was changed") == NULL)
            fail_msg("%s: code %d\n%s", line, no->code, no->text);
    }
    const struct result *yes = twinbloom_on_terminal(r, "y\\n", "abort f");
    if (yes->code != 0 || strstr(yes->text, "is being stopped") == NULL)
        fail_msg("code %d\n%s", yes->code, yes->text);
}

static void test_throttle__takes_rows_a_second_or_none(void **state)
{
    assert_says(*state, "throttle echo 5k", 4, "ERR got TB.THROTTLE echo 5000\n");
    assert_says(*state, "throttle echo none", 4, "ERR got TB.THROTTLE echo 0\n");
    assert_run(*state, "", "throttle f 5000", 0, "The job of f now reads at most 5,000 rows a second.\n");
    assert_run(*state, "", "throttle f 0", 0, "The job of f now reads rows without a limit.\n");
    assert_run(*state, "", "throttle f 5000 --json", 0,
               "{\"filter\":\"f\",\"rows_per_second_limit\":5000}\n");
    assert_says(*state, "throttle f fast", 2, "expected rows a second");
    assert_says(*state, "throttle f", 2, "usage: twinbloom throttle FILTER ROWS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rebuild__follows_its_job_and_not_the_one_before, responder_start,
                                        responder_stop),
        cmocka_unit_test_setup_teardown(test_rebuild__hands_its_options_on, responder_start, responder_stop),
        cmocka_unit_test_setup_teardown(test_rebuild__ends_where_it_holds_or_was_rolled_back, responder_start,
                                        responder_stop),
        cmocka_unit_test_setup_teardown(test_rebuild__ends_where_the_grace_time_begins, responder_start,
                                        responder_stop),
        cmocka_unit_test_setup_teardown(test_verify__is_followed_as_a_rebuild_is, responder_start,
                                        responder_stop),
        cmocka_unit_test_setup_teardown(test_dry_run__shows_each_step, responder_start, responder_stop),
        cmocka_unit_test_setup_teardown(test_control__asks_and_says_what_follows, responder_start,
                                        responder_stop),
        cmocka_unit_test_setup_teardown(test_confirmation__is_asked_for_before_work_is_lost, responder_start,
                                        responder_stop),
        cmocka_unit_test_setup_teardown(test_throttle__takes_rows_a_second_or_none, responder_start,
                                        responder_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
