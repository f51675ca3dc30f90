/* SPDX-License-Identifier: MIT */
/* The command line: outputs and exit codes. */
#include "tests/integration/responder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_status__shows_a_table_a_sheet_and_json(void **state)
{
    assert_run(
        *state, "", "status", 0,
        "FILTER       KEYS   CAPACITY  FILL          FP RATE  GEN  PHASE   HEALTH   NEXT REBUILD  JOB\n"
        "12      1,234,567  2,000,000   62%  0.0081% of 0.1%    4  STEADY  healthy  -             done\n");
    assert_says(*state, "status 12", 0, "  capacity                 2,000,000\n");
    assert_says(*state, "status 12", 0, ", 10.0.0.39:6379, 10.0.0.40:6379\n"); /* nothing is cut */
    assert_says(*state, "--json status 12", 0,
                "{\"filter\":\"12\",\"state\":\"serving\",\"phase\":\"STEADY\",\"keys\":1234567,");
    assert_says(*state, "status --json", 0, "[{\"filter\":\"12\",");
    assert_says(*state, "status 12 --json", 0, "\"new_field\":5}\n");
}

static void test_history__shows_a_table_and_json(void **state)
{
    assert_int_equal(setenv("TZ", "UTC0", 1), 0);
    assert_run(
        *state, "", "history f", 0,
        "STARTED                      TOOK  OUTCOME  TRIGGER        ROWS  GENERATION  WHY\n"
        "2023-11-14 22:13:20 +0000  1m 05s  done     operator  1,200,000  4 -> 5      asked for\n"
        "2023-07-22 04:26:40 +0000      0s  failed   total             -  4           8 of 10: the source is "
        "\\x1bgone\n"
        "-                               -  aborted  -                 -  ?\n");
    assert_run(*state, "", "history f --json -n 1", 0,
               "[{\"started_at\":1700000000,\"finished_at\":1700000065,\"outcome\":\"done\","
               "\"trigger\":\"operator\",\"reason\":\"asked for\",\"rows\":1200000,\"generation_from\":4,"
               "\"generation\":5,\"owner\":\"12\"}]\n");
    assert_says(*state, "history f --count=2", 0, "8 of 10: the source is \\x1bgone\n");
    assert_run(*state, "", "history new", 0, "There were no jobs yet.\n");
    assert_run(*state, "", "history new --json", 0, "[]\n");
    assert_says(*state, "history busy", 6, "twinbloom: BUSY host:1 holds the mutex\n");
    assert_says(*state, "history f -n 0", 2, "--count 0: expected N");
    assert_says(*state, "history", 2, "usage: twinbloom history FILTER");
    assert_says(*state, "status ''", 2, "the name of the filter is empty");
    assert_says(*state, "status f -n 1", 2, "status has no option --count");
    assert_says(*state, "help history", 0, "-n, --count N  how many to show");
}

static void test_plan__passes_its_options_and_fails_where_it_does_not_fit(void **state)
{
    assert_says(*state, "plan f --capacity 3M --error-rate=1e-3", 1, "  new generation  6.0 MiB\n");
    assert_says(*state, "plan f", 4, "twinbloom: ERR syntax error\n");
}

static void test_plan__shows_each_node_before_during_and_after(void **state)
{
    assert_says(*state, "plan f --capacity 3M --error-rate=1e-3", 1,
                "NODE  SHARDS   BEFORE   DURING    AFTER  USED NOW  USED THEN  MAXMEMORY\n"
                "a:1        3  1.0 MiB  5.0 MiB  3.0 MiB   2.0 MiB    6.0 MiB    4.0 MiB\n");
    assert_says(*state, "plan f --capacity 3M --error-rate=1e-3 --json", 1,
                "\"per_node\":[{\"node\":\"a:1\",\"used_bytes\":2097152,\"maxmemory_bytes\":4194304,");
}

/* No service: TWINBLOOM_URL names a port on which nothing listens. */
static void test_plan__of_keys_needs_no_service(void **state)
{
    struct responder nobody = {.port = 1};
    (void)state;
    assert_says(&nobody, "plan --keys 30e9 --error-rate 0.001 --node-memory 64GiB", 0,
                "  nodes needed                  2\n");
    assert_says(&nobody, "plan --keys 30G --error-rate 1e-3 --node-memory 64GiB --scan-rate 2M --readers 4",
                0, "  to read the rows              1h 02m\n");
    assert_says(&nobody, "plan --keys 30e9 --error-rate 0.001 --json", 0,
                "{\"keys\":30000000000,\"error_rate\":0.001,\"shards\":52930,");
    assert_says(&nobody, "plan --keys 30e9 --error-rate 0.001 --node-memory 64GiB --nodes 1", 1,
                "  fits                          no\n");
    assert_says(&nobody, "plan --keys 30e9 --error-rate 0.001 --node-memory 64GiB --nodes 1 --json", 1,
                "of which 61,847,529,066 may be used: 2 nodes hold it\"}");
    assert_says(&nobody, "plan --keys 1e12 --error-rate 0.001 --node-memory 8GiB", 1,
                "as many as a filter can have");
    assert_says(&nobody, "plan --keys 30e9 --error-rate 0.001 --build-memory 512MiB --growth 1.5", 0,
                "  hashes written to disk        447.0 GiB\n  at most at a time             64.0 GiB\n");
    assert_says(&nobody, "help plan", 0, "twinbloom plan --keys 30e9 --error-rate 0.001 --node-memory 64GiB");
}

static void test_url__is_refused_once_and_without_its_password(void **state)
{
    struct responder nobody = {.port = 1};
    (void)state;
    const char *said = twinbloom(&nobody, "", "status --url redis://me:secret@host:99999")->text;
    assert_string_equal(said, "twinbloom: URL: the port must be a number from 1 to 65535\n");
}

/* As install.md says it. */
static void test_plan__of_keys_takes_the_error_rate_of_a_new_filter(void **state)
{
    struct responder nobody = {.port = 1};
    (void)state;
    assert_says(&nobody, "plan --keys 1M", 0, "  false positives allowed       0.1%\n");
}

static void test_plan__of_keys_says_what_it_cannot_take(void **state)
{
    struct responder nobody = {.port = 1};
    (void)state;
    assert_says(&nobody, "plan", 2, "a plan needs FILTER, or --keys; see twinbloom help plan");
    assert_says(&nobody, "plan --error-rate 0.1", 2, "a plan needs FILTER, or --keys");
    assert_says(&nobody, "plan --keys 30e9x --error-rate 0.1", 2, "--keys 30e9x: expected N");
    assert_says(&nobody, "plan --keys 1.5 --error-rate 0.1", 2, "--keys 1.5: expected N");
    assert_says(&nobody, "plan --keys 1e6 --error-rate 2", 2, "--error-rate 2: expected P");
    assert_says(&nobody, "plan --keys 1e6 --error-rate 0.1 --node-memory 64XB", 2,
                "--node-memory 64XB: expected BYTES");
    assert_says(&nobody, "plan --keys 1e6 --error-rate 0.1 --nodes 0", 2,
                "--nodes 0: with --keys it is how many there are, 1 to 10000");
    assert_says(&nobody, "plan --keys 1e6 --error-rate 0.1 --growth 0.5", 2, "--growth 0.5: expected FACTOR");
    assert_says(&nobody, "plan --keys 1e6 --error-rate 0.1 --readers 65", 2, "--readers 65: expected N");
    assert_says(&nobody, "plan f --keys 1e6 --error-rate 0.1", 2, "is for a plan without FILTER");
    assert_says(&nobody, "plan --keys 1e6 --error-rate 0.1 --capacity 5", 2,
                "--capacity is for a plan of FILTER");
    assert_says(&nobody, "plan --keys 9e15 --error-rate 0.001", 1,
                "no plan is possible: capacity 9000000000000000 needs");
    assert_says(&nobody, "plan --keys 1e6 --error-rate 1e-30", 1,
                "no plan is possible: error rate 1e-30 is too small");
    assert_says(&nobody, "plan --keys 1e6 --error-rate 0.1 --nodes 65", 1, "65 nodes are more than the 64");
    assert_says(&nobody, "status --keys 5", 2, "status has no option --keys");
}

static void test_check__says_of_each_key_and_exits_1_if_one_is_absent(void **state)
{
    assert_run(*state, "", "check f p1 -- -x", 1, "present\tp1\nabsent\t-x\n");
    assert_run(*state, "p1\\n\\np2", "check f", 0, "present\tp1\npresent\tp2\n");
    assert_run(*state, "", "check f p1 --json", 0,
               "{\"filter\":\"f\",\"keys\":[{\"key\":\"p1\",\"present\":true}],\"present_count\":1,\"absent_"
               "count\":0}\n");
    assert_run(
        *state, "q\\377\\n", "check f --json", 1,
        "{\"filter\":\"f\",\"keys\":[{\"key\":\"q\xef\xbf\xbd\",\"key_hex\":\"71ff\",\"present\":false}],"
        "\"present_count\":0,\"absent_count\":1}\n");
}

static void test_check__asks_in_chunks_and_loses_none(void **state)
{
    struct responder *r = *state;
    char line[512];
    (void)snprintf(line, sizeof(line),
                   "check f < /dev/null; seq -f p%%.0f 2500 | %s -p %u check f | sort -u | wc -l",
                   TWINBLOOM_CLI, r->port);
    assert_run(r, "", line, 0, "2500\n");
}

static void test_add__reports_the_keys_before_an_error(void **state)
{
    assert_run(*state, "", "add f p1 x", 0, "added\tp1\npresent\tx\n");
    assert_run(*state, "", "add f p1 e p2", 4, "added\tp1\ntwinbloom: ERR non scaling filter is full\n");
    assert_run(
        *state, "", "add f p1 e --json", 4,
        "{\"filter\":\"f\",\"keys\":[{\"key\":\"p1\",\"added\":true}],\"added_count\":1,\"present_count\":0,"
        "\"error\":{\"code\":\"full\",\"message\":\"ERR non scaling filter is full\"}}\n"
        "{\"error\":{\"code\":\"full\",\"message\":\"ERR non scaling filter is full\"}}\n");
}

/* Usual states have no line. A text that only looks like a number stays text. */
/* Keys behind one that was refused may be in or not, so the next run begins with the one that was refused. */
static void test_import__goes_on_before_the_first_key_that_was_refused(void **state)
{
    static const char end[] =
        "2 keys were refused.\ntwinbloom: OOM out of memory; to continue after the keys "
        "that were added, give --skip 2\n";
    const struct result *r = twinbloom(*state, "p1\\nx\\no1\\np2\\no2\\n", "import f");
    if (r->code != 5 || strstr(r->text, "2 keys are in f: 1 added") == NULL || strstr(r->text, end) == NULL)
        fail_msg("code %d: %s", r->code, r->text);
}

static void test_status__says_what_is_out_of_the_ordinary(void **state)
{
    struct responder *r = *state;
    const struct result *result = twinbloom(r, "", "status 12");
    assert_non_null(strstr(result->text, "  last verification        stale\n"));
    assert_null(strstr(result->text, "grown by layers"));
    assert_null(strstr(result->text, "paused"));
    assert_null(strstr(result->text, "holds"));
    assert_says(r, "status 12 --json", 0, "\"job_verify_missing_keys\":\"77\"");
    r->held = true;
    assert_says(r, "status 12", 0, "  holds before cutover     yes\n");
}

static void test_status__says_what_is_not_known(void **state)
{
    struct responder *r = *state;
    const struct result *result = twinbloom(r, "", "status 12");
    assert_non_null(strstr(result->text,
                           "  rows                     1,000,000\n  counted by               statistics\n"));
    assert_non_null(
        strstr(result->text, "  dead keys                234,567\n  share of dead keys       19%\n"));
    assert_null(strstr(result->text, "begins at"));
    assert_says(r, "status 12 --json", 0,
                "\"source_rows_by\":\"statistics\",\"dead_keys\":234567,\"dead_ratio\":0.19,");
    r->away = true;
    assert_says(r, "status 12", 0,
                "  dead keys                unknown\n  share of dead keys       unknown\n");
    assert_says(r, "status 12 --json", 0, "\"dead_keys\":null,\"dead_ratio\":null,");
}

/* RedisBloom replies 0 for a filter that does not exist; here that is an error, not "absent". */
static void test_check__of_no_filter_is_an_error(void **state)
{
    assert_run(*state, "", "check gone x y", 4,
               "twinbloom: filter 'gone' does not exist; \"twinbloom status\" lists the filters\n");
    assert_run(*state, "", "check gone x --json", 4,
               "{\"filter\":\"gone\",\"keys\":[],\"present_count\":0,\"absent_count\":0,"
               "\"error\":{\"code\":\"not-found\",\"message\":\"filter 'gone' does not exist; "
               "\\\"twinbloom status\\\" lists the filters\"}}\n"
               "{\"error\":{\"code\":\"not-found\",\"message\":\"filter 'gone' does not exist; "
               "\\\"twinbloom status\\\" lists the filters\"}}\n");
    assert_run(*state, "", "check f x", 1, "absent\tx\n");
}

static void test_exit__says_what_kind_of_failure_it_was(void **state)
{
    static const struct {
        const char *filter;
        int code;
        const char *said;
    } cases[] = {{"no-rights", 4, "NOPERM this user"},
                 {"missing", 4, "filter 'missing' does not exist"},
                 {"conflict", 4, "CONFLICT it is not"},
                 {"damaged", 5, "LOST a shard"},
                 {"no-memory", 5, "OOM out of memory"},
                 {"slow", 6, "TIMEOUT no answer"},
                 {"busy", 6, "BUSY host:1"},
                 {"loading", 6, "LOADING Redis"},
                 {"no-redis", 3, "CLUSTERDOWN no node"},
                 {"moved", 6, "TRYAGAIN the view"}};
    static const char *const commands[] = {"status", "history", "plan", "rebuild", "add", "check", "count"};
    struct responder *r = *state;
    char line[128];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t c = 0; c < sizeof(commands) / sizeof(commands[0]); c++) {
            const char *keys = commands[c][0] == 'a' || strcmp(commands[c], "check") == 0 ? " key" : "";
            (void)snprintf(line, sizeof(line), "%s %s%s", commands[c], cases[i].filter, keys);
            assert_says(r, line, cases[i].code, cases[i].said);
        }
    assert_says(r, "coordinators", 5, "the reply to TB.COORDINATORS has an unexpected form");
    assert_says(r, "status silent --timeout 0.2", 6, "no answer from");
}

static void test_create__passes_its_options(void **state)
{
    assert_run(*state, "", "create f --capacity 1M --error-rate 0.001", 0, "The filter f is created.\n");
    assert_run(*state, "", "create f --capacity 5 --error-rate 0.1 --json", 0,
               "{\"filter\":\"f\",\"created\":true}\n");
    assert_says(*state, "create echo --capacity 1M --error-rate 1e-3", 4,
                "ERR got BF.RESERVE echo 1e-3 1000000\n");
    assert_says(*state, "create echo --capacity 5 --error-rate 0.1 --expansion 4", 4,
                "ERR got BF.RESERVE echo 0.1 5 EXPANSION 4\n");
    assert_says(*state, "create echo --capacity 5 --error-rate 0.1 --nonscaling", 4,
                "ERR got BF.RESERVE echo 0.1 5 NONSCALING\n");
    assert_says(*state, "create f", 2, "create needs --capacity and --error-rate");
    assert_says(*state, "create f --capacity 5 --error-rate 0.1 --nonscaling --expansion 2", 2,
                "--nonscaling and --expansion do not go together");
    assert_says(*state, "create f --capacity 5 --error-rate 0.1 --expansion 40000", 2,
                "--expansion 40000: expected N");
}

/* Errors have the same codes as over HTTP and in logs, for every command. */
static void test_json__has_a_code_for_each_error(void **state)
{
    static const struct {
        const char *arguments;
        int status;
        const char *code;
    } cases[] = {
        {"status missing", 4, "not-found"},
        {"status no-redis", 3, "unreachable"},
        {"status slow", 6, "timeout"},
        {"history no-rights", 4, "refused"},
        {"plan conflict", 4, "conflict"},
        {"rebuild busy", 6, "busy"},
        {"verify damaged", 5, "lost"},
        {"add no-memory x", 5, "no-memory"},
        {"throttle moved 5", 6, "view-changed"},
        {"rebuild large --dry-run", 1, "no"},
        {"delete f", 2, "usage"},
        {"create f", 2, "usage"},
        {"stauts", 2, "usage"},
        {"status --wiat", 2, "usage"},
        {"-h", 2, "usage"},
        {"top", 2, "usage"},
        {"import f --input /nowhere", 2, "usage"},
        {"status -p 1", 3, "unreachable"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char line[128], begin[64];
        (void)snprintf(line, sizeof(line), "--json %s", cases[i].arguments);
        (void)snprintf(begin, sizeof(begin), "{\"error\":{\"code\":\"%s\",\"message\":\"", cases[i].code);
        const struct result *r = twinbloom(*state, "", line);
        const char *last = r->text; /* the error is the last line of the output */
        for (const char *end = strchr(last, '\n'); end != NULL && end[1] != '\0'; end = strchr(last, '\n'))
            last = end + 1;
        if (r->code != cases[i].status || strncmp(last, begin, strlen(begin)) != 0)
            fail_msg("%s: code %d\n%s", line, r->code, r->text);
    }
}

static void test_usage__exits_2_and_suggests(void **state)
{
    assert_says(*state, "stauts", 2, "did you mean \"status\"?");
    assert_says(*state, "rebuild f --wiat", 2, "did you mean \"--wait\"?");
    assert_says(*state, "status f --wait", 2, "status has no option --wait");
    assert_says(*state, "check", 2, "usage: twinbloom check FILTER [KEY...]");
    assert_says(*state, "plan f --capacity 1.5", 2, "--capacity 1.5");
    assert_says(*state, "-h", 2, "for help: --help");
    assert_says(*state, "", 2, "a command is missing");
    assert_says(*state, "help check", 0, "Example:");
    assert_says(*state, "rebuild --help", 0, "usage: twinbloom rebuild FILTER");
    assert_says(*state, "--version", 0, "twinbloom ");
    assert_says(*state, "status -p 1", 3,
                "cannot reach twinbloomd at 127.0.0.1:1 (TWINBLOOM_URL or --url names another): Connection");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_status__shows_a_table_a_sheet_and_json, responder_start,
                                        responder_stop),
        cmocka_unit_test_setup_teardown(test_history__shows_a_table_and_json, responder_start,
                                        responder_stop),
        cmocka_unit_test_setup_teardown(test_plan__passes_its_options_and_fails_where_it_does_not_fit,
                                        responder_start, responder_stop),
        cmocka_unit_test_setup_teardown(test_plan__shows_each_node_before_during_and_after, responder_start,
                                        responder_stop),
        cmocka_unit_test(test_plan__of_keys_needs_no_service),
        cmocka_unit_test(test_url__is_refused_once_and_without_its_password),
        cmocka_unit_test(test_plan__of_keys_takes_the_error_rate_of_a_new_filter),
        cmocka_unit_test(test_plan__of_keys_says_what_it_cannot_take),
        cmocka_unit_test_setup_teardown(test_check__says_of_each_key_and_exits_1_if_one_is_absent,
                                        responder_start, responder_stop),
        cmocka_unit_test_setup_teardown(test_check__asks_in_chunks_and_loses_none, responder_start,
                                        responder_stop),
        cmocka_unit_test_setup_teardown(test_add__reports_the_keys_before_an_error, responder_start,
                                        responder_stop),
        cmocka_unit_test_setup_teardown(test_import__goes_on_before_the_first_key_that_was_refused,
                                        responder_start, responder_stop),
        cmocka_unit_test_setup_teardown(test_status__says_what_is_out_of_the_ordinary, responder_start,
                                        responder_stop),
        cmocka_unit_test_setup_teardown(test_status__says_what_is_not_known, responder_start, responder_stop),
        cmocka_unit_test_setup_teardown(test_check__of_no_filter_is_an_error, responder_start,
                                        responder_stop),
        cmocka_unit_test_setup_teardown(test_exit__says_what_kind_of_failure_it_was, responder_start,
                                        responder_stop),
        cmocka_unit_test_setup_teardown(test_create__passes_its_options, responder_start, responder_stop),
        cmocka_unit_test_setup_teardown(test_json__has_a_code_for_each_error, responder_start,
                                        responder_stop),
        cmocka_unit_test_setup_teardown(test_usage__exits_2_and_suggests, responder_start, responder_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
