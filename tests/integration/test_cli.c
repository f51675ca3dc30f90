/* SPDX-License-Identifier: MIT */
/* The command line against a responder that answers as the daemon's protocol says: output, exit codes,
 * following a job. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "base/buffer.h"

struct responder {
    int listener;
    unsigned port;
    pthread_t thread;
    const char *_Atomic last_state; /* of the job, once it has run for two polls */
    _Atomic unsigned polls;         /* since a rebuild; 0: there was none */
    _Atomic bool held;              /* the job waits for a word; */
    _Atomic bool switched;          /* it was in use before */
    _Atomic bool away;              /* Postgres is, so dead keys are not known */
};

static void bulk(struct buffer *b, const char *text)
{
    if (text == NULL)
        buffer_puts(b, "$-1\r\n");
    else
        buffer_printf(b, "$%zu\r\n%s\r\n", strlen(text), text);
}

static void flat(struct buffer *b, const char *const *pairs, size_t count)
{
    buffer_printf(b, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++)
        bulk(b, pairs[i]);
}

static void answer_status(struct responder *r, struct buffer *b)
{
    const char *state = r->polls < 2   ? "done"
                        : r->polls < 4 ? "running"
                                       : r->last_state; /* the new job shows up late */
    const char *const pairs[] = {"filter",
                                 "12",
                                 "state",
                                 "serving",
                                 "phase",
                                 "STEADY",
                                 "items",
                                 "1234567",
                                 "capacity",
                                 "2000000",
                                 "fill",
                                 "0.617",
                                 "error_rate",
                                 "0.001",
                                 "expected_error_rate",
                                 "8.1e-05",
                                 "source_rows",
                                 "1000000",
                                 "source_rows_by",
                                 "statistics",
                                 "dead",
                                 r->away ? NULL : "234567",
                                 "dead_ratio",
                                 r->away ? NULL : "0.19",
                                 "expand_at_dead",
                                 "0",
                                 "generation",
                                 "4",
                                 "job_state",
                                 state,
                                 "job_step",
                                 r->held && r->polls >= 4 ? "hold" : "scan",
                                 "job_hold",
                                 r->held ? "1" : "0",
                                 "job_switched_ms",
                                 r->switched ? "2500" : "",
                                 "job_generation",
                                 "5",
                                 "job_paused",
                                 "0",
                                 "job_verified",
                                 "1000",
                                 "job_verify_missing_keys",
                                 "77",
                                 "overflow",
                                 "no",
                                 "verified",
                                 "stale",
                                 "job_rows",
                                 "1200000",
                                 "job_rows_total",
                                 "2500000",
                                 "job_started_ms",
                                 r->polls < 2 ? "1000" : "2000",
                                 "job_token",
                                 r->polls < 2 ? "6" : "7",
                                 "job_error",
                                 strcmp(state, "failed") == 0 ? "the source is \033gone" : "",
                                 "new_field",
                                 "5"};
    r->polls += r->polls != 0;
    flat(b, pairs, sizeof(pairs) / sizeof(pairs[0]));
}

/* Keys that begin with p are present; those with e end the reply with an error. */
static void answer_keys(const redisReply *command, struct buffer *b)
{
    size_t count = 0;
    while (count + 2 < command->elements && (count == 0 || command->element[count + 1]->str[0] != 'e'))
        count++;
    buffer_printf(b, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++) {
        char first = command->element[2 + i]->str[0];
        buffer_puts(b, first == 'e'   ? "-ERR non scaling filter is full\r\n"
                       : first == 'p' ? ":1\r\n"
                                      : ":0\r\n");
    }
}

/* As many as are asked for: a run of a minute, one that failed, one that never came to its end. */
static void answer_history(const redisReply *command, struct buffer *b)
{
    static const char *const done[] = {"started_ms",
                                       "1700000000000",
                                       "finished_ms",
                                       "1700000065000",
                                       "outcome",
                                       "done",
                                       "trigger",
                                       "operator",
                                       "reason",
                                       "asked for",
                                       "rows",
                                       "1200000",
                                       "generation_from",
                                       "4",
                                       "generation",
                                       "5",
                                       "owner",
                                       "12"};
    static const char *const failed[] = {"started_ms",      "1690000000000",
                                         "finished_ms",     "1690000000400",
                                         "outcome",         "failed",
                                         "trigger",         "total",
                                         "reason",          "8 of 10",
                                         "error",           "the source is \033gone",
                                         "generation_from", "4",
                                         "generation",      "5"};
    static const char *const bare[] = {"outcome", "aborted"};
    size_t runs = command->elements == 4 ? strtoul(command->element[3]->str, NULL, 10) : 3;
    if (strcmp(command->element[1]->str, "new") == 0)
        runs = 0;
    buffer_printf(b, "*%zu\r\n", runs);
    if (runs > 0)
        flat(b, done, sizeof(done) / sizeof(done[0]));
    if (runs > 1)
        flat(b, failed, sizeof(failed) / sizeof(failed[0]));
    if (runs > 2)
        flat(b, bare, sizeof(bare) / sizeof(bare[0]));
}

/* All words of a command, so that its sender sees what came. */
static void echo(const redisReply *command, struct buffer *b)
{
    buffer_puts(b, "-ERR got");
    for (size_t i = 0; i < command->elements; i++)
        buffer_printf(b, " %s", command->element[i]->str);
    buffer_puts(b, "\r\n");
}

static void answer_dry_run(struct buffer *b, bool fits)
{
    static const char *const step[] = {"step",        "scan",    "what",         "read the table", "rows",
                                       "2500000",     "seconds", "83.2",         "memory_before",  "1048576",
                                       "memory_peak", "3145728", "memory_after", "2097152"};
    buffer_puts(b, "*8\r\n");
    bulk(b, "capacity");
    bulk(b, "3000000");
    bulk(b, "rate_by");
    bulk(b, "by the last run");
    bulk(b, "steps");
    buffer_puts(b, "*1\r\n");
    flat(b, step, sizeof(step) / sizeof(step[0]));
    bulk(b, "refused");
    bulk(b, fits ? "" : "too little memory");
}

static void answer(struct responder *r, const redisReply *command, struct buffer *b)
{
    static const char *const plan[] = {"filter",     "f",       "capacity", "3000000",
                                       "memory_new", "6291456", "fits",     "no"};
    const char *name = command->element[0]->str;
    if (command->elements > 1 && strcmp(command->element[1]->str, "busy") == 0) {
        buffer_puts(b, "-BUSY host:1 holds the mutex\r\n");
    } else if (strcmp(name, "TB.STATUS") == 0) {
        if (command->elements == 1)
            buffer_puts(b, "*1\r\n");
        answer_status(r, b);
    } else if (strcmp(name, "TB.PLAN") == 0) {
        bool wanted = command->elements == 6 && strcmp(command->element[3]->str, "3000000") == 0 &&
                      strcmp(command->element[4]->str, "ERROR") == 0;
        if (wanted)
            flat(b, plan, 8);
        else
            buffer_puts(b, "-ERR syntax error\r\n");
    } else if (strcmp(name, "TB.HISTORY") == 0) {
        answer_history(command, b);
    } else if (command->elements > 1 && strcmp(command->element[1]->str, "echo") == 0) {
        echo(command, b);
    } else if (strcmp(command->element[command->elements - 1]->str, "DRYRUN") == 0) {
        answer_dry_run(b, strcmp(command->element[1]->str, "large") != 0);
    } else if (strcmp(name, "TB.REBUILD") == 0 || strcmp(name, "TB.VERIFY") == 0) {
        r->polls = 1;
        buffer_puts(b, "+OK\r\n");
    } else if (strncmp(name, "BF.M", 4) == 0) {
        answer_keys(command, b);
    } else {
        buffer_puts(b, "+OK\r\n");
    }
}

static void serve(struct responder *r, int fd)
{
    redisReader *reader = redisReaderCreate();
    char bytes[65536];
    ssize_t n;
    while ((n = read(fd, bytes, sizeof(bytes))) > 0 &&
           redisReaderFeed(reader, bytes, (size_t)n) == REDIS_OK) {
        void *command = NULL;
        while (redisReaderGetReply(reader, &command) == REDIS_OK && command != NULL) {
            struct buffer b = {0};
            answer(r, command, &b);
            if (write(fd, b.data, b.length) != (ssize_t)b.length)
                (void)shutdown(fd, SHUT_RDWR);
            buffer_fini(&b);
            freeReplyObject(command);
        }
    }
    redisReaderFree(reader);
}

static void *run_responder(void *arg)
{
    struct responder *r = arg;
    int fd;
    while ((fd = accept(r->listener, NULL, NULL)) >= 0) {
        serve(r, fd);
        (void)close(fd);
    }
    return NULL;
}

static int start(void **state)
{
    struct responder *r = calloc(1, sizeof(*r));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    assert_non_null(r);
    r->last_state = "done";
    r->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(r->listener >= 0);
    assert_int_equal(bind(r->listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(r->listener, 8), 0);
    assert_int_equal(getsockname(r->listener, (struct sockaddr *)&address, &length), 0);
    r->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&r->thread, NULL, run_responder, r), 0);
    *state = r;
    return 0;
}

static int stop(void **state)
{
    struct responder *r = *state;
    (void)shutdown(r->listener, SHUT_RDWR);
    assert_int_equal(pthread_join(r->thread, NULL), 0);
    (void)close(r->listener);
    free(r);
    return 0;
}

struct result {
    int code;
    char text[65536]; /* both outputs */
};

static struct result twinbloom(const struct responder *r, const char *input, const char *arguments)
{
    static struct result result;
    char line[1024];
    (void)snprintf(line, sizeof(line),
                   "printf '%s' | env -u TWINBLOOM_PASSWORD TWINBLOOM_URL=redis://127.0.0.1:%u %s %s 2>&1",
                   input, r->port, TWINBLOOM_CLI, arguments);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    size_t n = fread(result.text, 1, sizeof(result.text) - 1, pipe);
    result.text[n] = '\0';
    int status = pclose(pipe);
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return result;
}

static void assert_run(const struct responder *r, const char *input, const char *arguments, int code,
                       const char *expected)
{
    struct result result = twinbloom(r, input, arguments);
    if (result.code != code || strcmp(result.text, expected) != 0)
        fail_msg("%s: code %d\n%s", arguments, result.code, result.text);
}

static void assert_says(const struct responder *r, const char *arguments, int code, const char *part)
{
    struct result result = twinbloom(r, "", arguments);
    if (result.code != code || strstr(result.text, part) == NULL)
        fail_msg("%s: code %d\n%s", arguments, result.code, result.text);
}

static void test_status__shows_a_table_a_sheet_and_json(void **state)
{
    assert_run(*state, "", "status", 0,
               "FILTER  STATE    PHASE       ITEMS   CAPACITY  FILL  FPR now/promised  GEN  JOB\n"
               "12      serving  STEADY  1,234,567  2,000,000   62%     8.1e-05/0.001    4  done\n");
    assert_says(*state, "status 12", 0, "  capacity             2,000,000\n");
    assert_says(*state, "--json status 12", 0,
                "{\"filter\":\"12\",\"state\":\"serving\",\"phase\":\"STEADY\",\"items\":1234567,");
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
               "[{\"started_ms\":1700000000000,\"finished_ms\":1700000065000,\"outcome\":\"done\","
               "\"trigger\":\"operator\",\"reason\":\"asked for\",\"rows\":1200000,\"generation_from\":4,"
               "\"generation\":5,\"owner\":\"12\"}]\n");
    assert_says(*state, "history f --count=2", 0, "8 of 10: the source is \\x1bgone\n");
    assert_run(*state, "", "history new", 0, "There were no rebuilds yet.\n");
    assert_run(*state, "", "history new --json", 0, "[]\n");
    assert_says(*state, "history busy", 3, "twinbloom: BUSY host:1 holds the mutex\n");
    assert_says(*state, "history f -n 0", 2, "--count 0: expected N");
    assert_says(*state, "history", 2, "usage: twinbloom history FILTER");
    assert_says(*state, "status f -n 1", 2, "status has no option --count");
    assert_says(*state, "help history", 0, "-n, --count N  how many to show");
}

static void test_plan__passes_its_options_and_fails_where_it_does_not_fit(void **state)
{
    assert_says(*state, "plan f --capacity 3M --error-rate=1e-3", 1, "  for the new one  6.0 MiB\n");
    assert_says(*state, "plan f", 3, "twinbloom: ERR syntax error\n");
}

static void test_check__says_of_each_key_and_exits_1_if_one_is_absent(void **state)
{
    assert_run(*state, "", "check f p1 -- -x", 1, "present\tp1\nabsent\t-x\n");
    assert_run(*state, "p1\\n\\np2", "check f", 0, "present\tp1\npresent\tp2\n");
    assert_run(
        *state, "", "check f p1 --json", 0,
        "{\"filter\":\"f\",\"keys\":[{\"key\":\"p1\",\"present\":true}],\"present\":1,\"absent\":0}\n");
    assert_run(
        *state, "q\\377\\n", "check f --json", 1,
        "{\"filter\":\"f\",\"keys\":[{\"key\":\"q\xef\xbf\xbd\",\"key_hex\":\"71ff\",\"present\":false}],"
        "\"present\":0,\"absent\":1}\n");
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
    assert_run(*state, "", "add f p1 e p2", 3, "added\tp1\ntwinbloom: ERR non scaling filter is full\n");
    assert_run(*state, "", "add f p1 e --json", 3,
               "{\"filter\":\"f\",\"keys\":[{\"key\":\"p1\",\"added\":true}],\"added\":1,\"present\":0,"
               "\"error\":\"ERR non scaling filter is full\"}\ntwinbloom: ERR non scaling filter is full\n");
}

static void test_rebuild__follows_its_job_and_not_the_one_before(void **state)
{
    struct responder *r = *state;
    assert_says(r, "rebuild 12 --wait", 0, "scan  1,200,000/2,500,000 rows  48%\n");
    assert_true(r->polls >= 5); /* "done" of the job before was not taken for its end */
    r->polls = 0;
    r->last_state = "failed";
    assert_says(r, "rebuild 12 --wait", 1, "twinbloom: the rebuild of 12 failed: the source is \\x1bgone\n");
    r->polls = 0;
    r->last_state = "aborted";
    assert_says(r, "rebuild 12 --wait --json", 1, "\"job_state\":\"aborted\"");
    assert_says(r, "rebuild busy", 3, "twinbloom: BUSY host:1 holds the mutex\n");
    assert_says(r, "rebuild f", 0, "The rebuild of f has started");
    assert_says(r, "abort f --json", 0, "{\"filter\":\"f\",\"aborted\":true}\n");
}

static void test_rebuild__hands_its_options_on(void **state)
{
    assert_says(*state, "rebuild echo --capacity 2k --hold --verify=full", 3,
                "ERR got TB.REBUILD echo CAPACITY 2000 HOLD FULL\n");
    assert_says(*state, "rebuild echo --verify sample", 3, "ERR got TB.REBUILD echo\n");
    assert_says(*state, "rebuild echo --verify some", 2, "--verify some: expected MODE");
    assert_says(*state, "rebuild echo --dry-run", 3, "ERR got TB.REBUILD echo DRYRUN\n");
    assert_says(*state, "verify echo --full", 3, "ERR got TB.VERIFY echo FULL\n");
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
        "The rebuild of 12 holds: generation 5 is built and verified, and waits for \"twinbloom cutover "
        "12\".\n");
    assert_true(r->polls >= 5);
    r->polls = 0;
    r->switched = true;
    assert_says(
        r, "rebuild 12 --hold --wait", 1,
        "twinbloom: the rebuild of 12 was rolled back: generation 4 serves; it holds until \"twinbloom "
        "cutover 12\" or \"twinbloom abort 12\"\n");
    /* Somebody else's hold is waited out. */
    r->polls = 0;
    r->switched = false;
    assert_says(r, "rebuild 12 --wait --timeout 1 2>&1 & sleep 4; kill -INT $!; wait $!", 130,
                "  until \"twinbloom cutover\"\n");
}

static void test_verify__is_followed_as_a_rebuild_is(void **state)
{
    struct responder *r = *state;
    assert_says(r, "verify 12 --wait", 0, "The verification of 12 is done, 1,000 keys looked for.\n");
    r->polls = 0;
    r->last_state = "failed";
    assert_says(r, "verify 12 --wait", 1,
                "twinbloom: the verification of 12 failed: the source is \\x1bgone\n");
    assert_says(r, "verify f", 0, "The verification of f has started");
}

static void test_dry_run__shows_each_step(void **state)
{
    assert_run(*state, "", "rebuild f --dry-run", 0,
               "Plan\n"
               "  capacity            3,000,000\n"
               "  that rate is known  by the last run\n\n"
               "STEP       ROWS    TIME  REDIS BEFORE  AT ITS PEAK  AFTERWARDS  WHAT\n"
               "scan  2,500,000  1m 23s       1.0 MiB      3.0 MiB     2.0 MiB  read the table\n\n"
               "Nothing was started.\n");
    assert_says(*state, "rebuild large --dry-run", 1,
                "twinbloom: a rebuild of large would fail: too little memory\n");
    assert_run(*state, "", "rebuild f --dry-run --json", 0,
               "{\"capacity\":3000000,\"rate_by\":\"by the last run\",\"steps\":[{\"step\":\"scan\","
               "\"what\":\"read the table\",\"rows\":2500000,\"seconds\":83.2,\"memory_before\":1048576,"
               "\"memory_peak\":3145728,\"memory_after\":2097152}],\"refused\":\"\"}\n");
}

static void test_control__asks_and_says_what_follows(void **state)
{
    static const struct {
        const char *arguments, *sent, *said, *json;
    } cases[] = {
        {"abort", "TB.ABORT echo", "The job of f is being stopped", "aborted\":true"},
        {"cutover", "TB.CUTOVER echo", "The rebuild of f switches", "cutover\":true"},
        {"rollback", "TB.ROLLBACK echo", "The rebuild of f is being rolled back", "rolled_back\":true"},
        {"finish", "TB.FINISH echo", "The rebuild of f ends its grace time", "finished\":true"},
        {"pause", "TB.PAUSE echo", "The job of f pauses", "paused\":true"},
        {"resume", "TB.RESUME echo", "The job of f goes on", "resumed\":true"},
    };
    char line[128];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)snprintf(line, sizeof(line), "%s echo", cases[i].arguments);
        assert_says(*state, line, 3, cases[i].sent);
        (void)snprintf(line, sizeof(line), "%s f", cases[i].arguments);
        assert_says(*state, line, 0, cases[i].said);
        (void)snprintf(line, sizeof(line), "%s f --json", cases[i].arguments);
        assert_says(*state, line, 0, cases[i].json);
    }
}

static void test_throttle__takes_rows_a_second_or_none(void **state)
{
    assert_says(*state, "throttle echo 5k", 3, "ERR got TB.THROTTLE echo 5000\n");
    assert_says(*state, "throttle echo none", 3, "ERR got TB.THROTTLE echo 0\n");
    assert_run(*state, "", "throttle f 5000", 0,
               "The job of f reads at most 5,000 rows a second from now on.\n");
    assert_run(*state, "", "throttle f 0", 0, "The job of f reads rows without a limit from now on.\n");
    assert_run(*state, "", "throttle f 5000 --json", 0, "{\"filter\":\"f\",\"rows_per_second\":5000}\n");
    assert_says(*state, "throttle f fast", 2, "expected rows a second");
    assert_says(*state, "throttle f", 2, "usage: twinbloom throttle FILTER ROWS");
}

/* What is usual has no line; what looks like a number and is none stays text. */
static void test_status__says_what_is_out_of_the_ordinary(void **state)
{
    struct responder *r = *state;
    struct result result = twinbloom(r, "", "status 12");
    assert_non_null(strstr(result.text, "  verified             stale\n"));
    assert_null(strstr(result.text, "grown by layers"));
    assert_null(strstr(result.text, "paused"));
    assert_null(strstr(result.text, "holds"));
    assert_says(r, "status 12 --json", 0, "\"job_verify_missing_keys\":\"77\"");
    r->held = true;
    assert_says(r, "status 12", 0, "  holds before the cutover  yes\n");
}

static void test_status__says_what_is_not_known(void **state)
{
    struct responder *r = *state;
    struct result result = twinbloom(r, "", "status 12");
    assert_non_null(
        strstr(result.text, "  rows in the source   1,000,000\n  known by             statistics\n"));
    assert_non_null(strstr(result.text, "  dead keys            234,567\n  share of dead keys   19%\n"));
    assert_null(strstr(result.text, "rebuilds at"));
    assert_says(r, "status 12 --json", 0,
                "\"source_rows_by\":\"statistics\",\"dead\":234567,\"dead_ratio\":0.19,");
    r->away = true;
    assert_says(r, "status 12", 0, "  dead keys            unknown\n  share of dead keys   unknown\n");
    assert_says(r, "status 12 --json", 0, "\"dead\":null,\"dead_ratio\":null,");
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
    assert_says(*state, "status -p 1", 3, "cannot reach twinbloomd at 127.0.0.1:1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_status__shows_a_table_a_sheet_and_json, start, stop),
        cmocka_unit_test_setup_teardown(test_history__shows_a_table_and_json, start, stop),
        cmocka_unit_test_setup_teardown(test_plan__passes_its_options_and_fails_where_it_does_not_fit, start,
                                        stop),
        cmocka_unit_test_setup_teardown(test_check__says_of_each_key_and_exits_1_if_one_is_absent, start,
                                        stop),
        cmocka_unit_test_setup_teardown(test_check__asks_in_chunks_and_loses_none, start, stop),
        cmocka_unit_test_setup_teardown(test_add__reports_the_keys_before_an_error, start, stop),
        cmocka_unit_test_setup_teardown(test_rebuild__follows_its_job_and_not_the_one_before, start, stop),
        cmocka_unit_test_setup_teardown(test_rebuild__hands_its_options_on, start, stop),
        cmocka_unit_test_setup_teardown(test_rebuild__ends_where_it_holds_or_was_rolled_back, start, stop),
        cmocka_unit_test_setup_teardown(test_verify__is_followed_as_a_rebuild_is, start, stop),
        cmocka_unit_test_setup_teardown(test_dry_run__shows_each_step, start, stop),
        cmocka_unit_test_setup_teardown(test_control__asks_and_says_what_follows, start, stop),
        cmocka_unit_test_setup_teardown(test_throttle__takes_rows_a_second_or_none, start, stop),
        cmocka_unit_test_setup_teardown(test_status__says_what_is_out_of_the_ordinary, start, stop),
        cmocka_unit_test_setup_teardown(test_status__says_what_is_not_known, start, stop),
        cmocka_unit_test_setup_teardown(test_usage__exits_2_and_suggests, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
