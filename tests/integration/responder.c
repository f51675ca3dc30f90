/* SPDX-License-Identifier: MIT */
#include "tests/integration/responder.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "base/buffer.h"

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
    char nodes[1024] = "10.0.0.1:6379"; /* more than most lines hold */
    for (unsigned i = 2; i <= 40; i++)
        (void)snprintf(nodes + strlen(nodes), sizeof(nodes) - strlen(nodes), ", 10.0.0.%u:6379", i);
    const char *state = r->polls < 2   ? "done"
                        : r->polls < 4 ? "running"
                                       : r->last_state; /* the new job shows up late */
    const char *const pairs[] = {"filter",
                                 "12",
                                 "state",
                                 "serving",
                                 "phase",
                                 "STEADY",
                                 "keys",
                                 "1234567",
                                 "capacity",
                                 "2000000",
                                 "fill_ratio",
                                 "0.617",
                                 "error_rate",
                                 "0.001",
                                 "expected_error_rate",
                                 "8.1e-05",
                                 "source_rows",
                                 "1000000",
                                 "source_rows_by",
                                 "statistics",
                                 "dead_keys",
                                 r->away ? NULL : "234567",
                                 "dead_ratio",
                                 r->away ? NULL : "0.19",
                                 "expand_at_dead_ratio",
                                 "0",
                                 "generation",
                                 "4",
                                 "job_state",
                                 state,
                                 "job_step",
                                 r->held && r->polls >= 4 ? "hold" : "scan",
                                 "job_hold",
                                 r->held ? "1" : "0",
                                 "job_switched_at",
                                 r->switched ? "2.5" : "",
                                 "job_grace_ends_at",
                                 r->grace && r->polls >= 4 ? "1700000000" : "",
                                 "job_generation",
                                 "5",
                                 "job_paused",
                                 "0",
                                 "job_verified_keys",
                                 "1000",
                                 "job_verify_missing_keys",
                                 "77",
                                 "has_layers",
                                 "0",
                                 "verification",
                                 "stale",
                                 "job_rows",
                                 "1200000",
                                 "job_rows_total",
                                 "2500000",
                                 "job_started_at",
                                 r->polls < 2 ? "1" : "2",
                                 "job_token",
                                 r->polls < 2 ? "6" : "7",
                                 "job_error",
                                 strcmp(state, "failed") == 0 ? "the source is \033gone" : "",
                                 "nodes",
                                 nodes,
                                 "new_field",
                                 "5"};
    r->polls += r->polls != 0;
    flat(b, pairs, sizeof(pairs) / sizeof(pairs[0]));
}

/* Keys that begin with p are present; those with e end the reply with an error, those with o are errors. */
static void answer_keys(const redisReply *command, struct buffer *b)
{
    size_t count = 0;
    while (count + 2 < command->elements && (count == 0 || command->element[count + 1]->str[0] != 'e'))
        count++;
    buffer_printf(b, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++) {
        char first = command->element[2 + i]->str[0];
        buffer_puts(b, first == 'e'   ? "-ERR non scaling filter is full\r\n"
                       : first == 'o' ? "-OOM out of memory\r\n"
                       : first == 'p' ? ":1\r\n"
                                      : ":0\r\n");
    }
}

/* Reply with as many runs as requested, and at most three: one of a minute, one that failed, one that never
 * ended. */
static void answer_history(const redisReply *command, struct buffer *b)
{
    static const char *const done[] = {
        "started_at",      "1700000000", "finished_at", "1700000065", "outcome", "done",
        "trigger",         "operator",   "reason",      "asked for",  "rows",    "1200000",
        "generation_from", "4",          "generation",  "5",          "owner",   "12"};
    static const char *const failed[] = {
        "started_at",      "1690000000", "finished_at", "1690000000.400",
        "outcome",         "failed",     "trigger",     "total",
        "reason",          "8 of 10",    "error",       "the source is \033gone",
        "generation_from", "4",          "generation",  "5"};
    static const char *const bare[] = {"outcome", "aborted"};
    size_t runs = command->elements == 4 ? strtoul(command->element[3]->str, NULL, 10) : 3;
    if (runs > 3)
        runs = 3;
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

/* Reply with all words of a command, so that the test sees what arrived. */
static void echo(const redisReply *command, struct buffer *b)
{
    buffer_puts(b, "-ERR got");
    for (size_t i = 0; i < command->elements; i++)
        buffer_printf(b, " %s", command->element[i]->str);
    buffer_puts(b, "\r\n");
}

static void answer_dry_run(struct buffer *b, bool fits)
{
    static const char *const step[] = {"step",
                                       "scan",
                                       "what",
                                       "read the table",
                                       "rows",
                                       "2500000",
                                       "duration_seconds",
                                       "83.2",
                                       "memory_before_bytes",
                                       "1048576",
                                       "memory_peak_bytes",
                                       "3145728",
                                       "memory_after_bytes",
                                       "2097152"};
    buffer_puts(b, "*8\r\n");
    bulk(b, "capacity");
    bulk(b, "3000000");
    bulk(b, "rows_per_second_by");
    bulk(b, "by the last run");
    bulk(b, "steps");
    buffer_puts(b, "*1\r\n");
    flat(b, step, sizeof(step) / sizeof(step[0]));
    bulk(b, "refused");
    bulk(b, fits ? "" : "too little memory");
}

/* The error that a filter of this name stands for; NULL: none. */
static const char *error_of(const redisReply *command)
{
    static const struct {
        const char *filter, *error;
    } errors[] = {{"busy", "BUSY host:1 holds the mutex"},
                  {"no-rights", "NOPERM this user may not"},
                  {"missing", "ERR not found"},
                  {"conflict", "CONFLICT it is not built yet"},
                  {"damaged", "LOST a shard is lost"},
                  {"no-memory", "OOM out of memory"},
                  {"slow", "TIMEOUT no answer from Redis"},
                  {"loading", "LOADING Redis is loading the dataset in memory"},
                  {"no-redis", "CLUSTERDOWN no node answers"},
                  {"moved", "TRYAGAIN the view has changed"}};
    for (size_t i = 0; command->elements > 1 && i < sizeof(errors) / sizeof(errors[0]); i++)
        if (strcmp(command->element[1]->str, errors[i].filter) == 0)
            return errors[i].error;
    return NULL;
}

static void answer(struct responder *r, const redisReply *command, struct buffer *b)
{
    static const char *const plan[] = {"filter", "f", "capacity", "3000000", "memory_new_bytes", "6291456"};
    static const char *const node[] = {
        "node",         "a:1",     "used_bytes",  "2097152", "maxmemory_bytes",   "4194304",
        "limit_bytes",  "4194304", "shards",      "3",       "before_bytes",      "1048576",
        "during_bytes", "5242880", "after_bytes", "3145728", "used_during_bytes", "6291456"};
    const char *name = command->element[0]->str;
    if (command->elements > 1 && strcmp(command->element[1]->str, "silent") == 0) {
        return;
    } else if (error_of(command) != NULL) {
        buffer_printf(b, "-%s\r\n", error_of(command));
    } else if (strcmp(name, "EXISTS") == 0) {
        buffer_puts(b, strcmp(command->element[1]->str, "gone") == 0 ? ":0\r\n" : ":1\r\n");
    } else if (strcmp(name, "TB.STATUS") == 0) {
        if (command->elements == 1)
            buffer_puts(b, "*1\r\n");
        answer_status(r, b);
    } else if (strcmp(name, "TB.PLAN") == 0) {
        bool wanted = command->elements == 6 && strcmp(command->element[3]->str, "3000000") == 0 &&
                      strcmp(command->element[4]->str, "ERROR") == 0;
        if (wanted) {
            buffer_puts(b, "*10\r\n");
            for (size_t i = 0; i < 6; i++)
                bulk(b, plan[i]);
            bulk(b, "fits");
            buffer_puts(b, ":0\r\n");
            bulk(b, "per_node");
            buffer_puts(b, "*1\r\n");
            flat(b, node, sizeof(node) / sizeof(node[0]));
        } else
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
            if (b.length > 0 && write(fd, b.data, b.length) != (ssize_t)b.length)
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

int responder_start(void **state)
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

int responder_stop(void **state)
{
    struct responder *r = *state;
    (void)shutdown(r->listener, SHUT_RDWR);
    assert_int_equal(pthread_join(r->thread, NULL), 0);
    (void)close(r->listener);
    free(r);
    return 0;
}

/* Run a shell command and return its result. */
static const struct result *run(const char *line)
{
    static struct result result;
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    size_t n = fread(result.text, 1, sizeof(result.text) - 1, pipe);
    result.text[n] = '\0';
    int status = pclose(pipe);
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return &result;
}

const struct result *twinbloom(const struct responder *r, const char *input, const char *arguments)
{
    char line[1024];
    (void)snprintf(line, sizeof(line),
                   "printf '%s' | env -u TWINBLOOM_PASSWORD TWINBLOOM_URL=redis://127.0.0.1:%u %s %s 2>&1",
                   input, r->port, TWINBLOOM_CLI, arguments);
    return run(line);
}

const struct result *twinbloom_on_terminal(const struct responder *r, const char *input,
                                           const char *arguments)
{
    char line[1024];
    (void)snprintf(line, sizeof(line),
                   "printf '%s' | env -u TWINBLOOM_PASSWORD -u NO_COLOR TERM=xterm "
                   "TWINBLOOM_URL=redis://127.0.0.1:%u script -qec \"%s %s\" /dev/null 2>&1",
                   input, r->port, TWINBLOOM_CLI, arguments);
    return run(line);
}

void assert_run(const struct responder *r, const char *input, const char *arguments, int code,
                const char *expected)
{
    const struct result *result = twinbloom(r, input, arguments);
    if (result->code != code || strcmp(result->text, expected) != 0)
        fail_msg("%s: code %d\n%s", arguments, result->code, result->text);
}

void assert_says(const struct responder *r, const char *arguments, int code, const char *part)
{
    const struct result *result = twinbloom(r, "", arguments);
    if (result->code != code || strstr(result->text, part) == NULL)
        fail_msg("%s: code %d\n%s", arguments, result->code, result->text);
}
