/* SPDX-License-Identifier: MIT */
/* rebuild --wait, verify --wait. The happy path is: a job appears that is not the previous one, its progress
 * is shown, and it ends as done, or its grace time begins, or it holds if that was requested. Possible
 * failure modes are: no job appears; the connection breaks (the job goes on, so retry for some time); the job
 * fails, is aborted or rolled back, or is replaced by another one; Ctrl-C (the job goes on). */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/number.h"
#include "base/utf8.h"
#include "service/cli/common/cli_progress.h"
#include "service/cli/operate/cli_operate.h"
#include "service/cli/operate/cli_status.h"

/* --- progress in one line --- */

enum { NARROW = 100, BAR_WIDE = 20, BAR_NARROW = 10 };

bool cli_job_holds(const redisReply *status)
{
    char step[64];
    uint64_t hold;
    return list_text(status, "job_step", step, sizeof(step)) && strcmp(step, "hold") == 0 &&
           list_count(status, "job_hold", &hold) && hold == 1;
}

static const char *count(uint64_t n, bool narrow, char out[OUTPUT_TEXT_SIZE])
{
    return narrow ? output_count(n, out) : number_grouped(n, out);
}

static void rows(struct buffer *line, const redisReply *status, unsigned columns)
{
    char a[OUTPUT_TEXT_SIZE], b[OUTPUT_TEXT_SIZE], c[OUTPUT_TEXT_SIZE];
    bool narrow = columns != 0 && columns < NARROW;
    uint64_t done, total;
    if (!list_count(status, "job_rows", &done))
        return;
    if (!list_count(status, "job_rows_total", &total) || total == 0) {
        if (done != 0)
            buffer_printf(line, "  %s rows", count(done, narrow, a));
        return;
    }
    /* The total is an estimate: an unfinished scan must not be shown as finished. */
    double ratio = done < total ? (double)done / (double)total : 1;
    if (columns != 0)
        buffer_printf(line, "  %s %s", output_bar(ratio, narrow ? BAR_NARROW : BAR_WIDE, a),
                      output_percent(ratio, c));
    buffer_printf(line, "  %s/%s rows", count(done, narrow, a), count(total, narrow, b));
    if (columns == 0)
        buffer_printf(line, "  %s", output_percent(ratio, c));
}

static void words(struct buffer *line, const redisReply *status, const char *before, const char *field)
{
    char text[512];
    if (!list_text(status, field, text, sizeof(text)))
        return;
    buffer_puts(line, before);
    output_escape(line, text, strlen(text));
}

void follow_line(struct buffer *line, const redisReply *status, unsigned columns)
{
    char text[64], a[OUTPUT_TEXT_SIZE];
    bool narrow = columns != 0 && columns < NARROW;
    uint64_t n = 0;
    double rate, left;
    words(line, status, "", list_text(status, "job_step", text, sizeof(text)) ? "job_step" : "job_state");
    rows(line, status, columns);
    bool waits = list_text(status, "job_waiting_for", text, sizeof(text));
    bool reads = !waits && list_text(status, "job_step", text, sizeof(text)) && strcmp(text, "scan") == 0;
    if (reads && list_decimal(status, "job_rows_per_second", &rate) && rate >= 0.5 && rate < 1e18)
        buffer_printf(line, "  %s rows/s", count((uint64_t)(rate + 0.5), narrow, a));
    if (reads && list_decimal(status, "job_eta_seconds", &left) && left >= 0.5 && left < 1e15)
        buffer_printf(line, "  ETA %s", output_duration((uint64_t)(left + 0.5), a));
    if (list_count(status, "job_paused", &n) && n == 1)
        buffer_puts(line, "  paused");
    words(line, status, "  waiting for ", "job_waiting_for");
    if (!waits)
        words(line, status, "  ", "job_throttle_reason");
    if (cli_job_holds(status))
        buffer_puts(line, "  until \"twinbloom cutover\"");
    if (list_text(status, "job_state", text, sizeof(text)) && strcmp(text, "running") != 0)
        buffer_printf(line, "  %s", text);
    words(line, status, "  reason: ", "job_reason");
}

/* --- following a job to its end --- */

enum {
    POLL_US = 500000,
    LINE_US = 2000000,
    SAME_LINE_US = 60000000,
    PATIENCE_US = 30000000,
    LINE_MAX = 1024
};

struct job_id {
    char token[64];
    char started[64];
};

struct follow {
    struct cli *cli;
    const char *job; /* name of the kind of job */
    struct job_id before, ours;
    bool ours_known;
    bool line_open; /* a live line is on the terminal */
    char last_step[64];
    char last_line[LINE_MAX]; /* not on a terminal */
    uint64_t last_line_us;
    uint64_t quiet_since_us; /* since when there is no connection or no job */
};

static struct job_id id_of(const redisReply *status)
{
    struct job_id id = {"", ""};
    (void)list_text(status, "job_token", id.token, sizeof(id.token));
    (void)list_text(status, "job_started_at", id.started, sizeof(id.started));
    return id;
}

/* The token is not enough: if another coordinator takes the job over, it gets a new token but keeps its
 * start. */
static bool same_job(const struct job_id *a, const struct job_id *b)
{
    if (a->started[0] != '\0' && b->started[0] != '\0')
        return strcmp(a->started, b->started) == 0;
    return strcmp(a->token, b->token) == 0;
}

/* In a file a line is repeated seldom: a job may wait for hours, and that says that the command still does.
 */
static void show_text(struct follow *f, const char *text, bool now)
{
    uint64_t time = clock_mono_us();
    bool same = strncmp(text, f->last_line, sizeof(f->last_line) - 1) == 0;
    if (f->cli->json)
        return;
    if (f->cli->terminal) {
        /* A line that is longer than the terminal's would wrap, and \r would not return to its beginning. */
        size_t fits = 0, length = strlen(text), columns = output_columns();
        for (size_t used = 1; fits < length && used < columns; used++)
            fits += utf8_sequence(text + fits, length - fits);
        (void)printf("\r%.*s\033[K", (int)fits, text);
        f->line_open = true;
    } else if (now || time - f->last_line_us >= (same ? SAME_LINE_US : LINE_US)) {
        (void)puts(text);
        (void)snprintf(f->last_line, sizeof(f->last_line), "%s", text);
        f->last_line_us = time;
    }
    (void)fflush(stdout);
}

static void show_progress(struct follow *f, const redisReply *status)
{
    char step[64] = "";
    SCOPED(buffer_fini) struct buffer line = {0};
    (void)list_text(status, "job_step", step, sizeof(step));
    bool changed = strcmp(step, f->last_step) != 0;
    memcpy(f->last_step, step, sizeof(step));
    follow_line(&line, status, f->cli->terminal ? output_columns() : 0);
    show_text(f, buffer_text(&line), changed);
}

static void end_line(struct follow *f)
{
    if (f->line_open)
        (void)fputs("\r\033[K", stdout);
    f->line_open = false;
}

/* @what: e.g. "is done"; @end: the field with the time of the end. */
static void print_end(const struct follow *f, const redisReply *status, const char *what, const char *end)
{
    char a[OUTPUT_TEXT_SIZE];
    uint64_t from, to, n;
    double rate;
    SCOPED(buffer_fini) struct buffer b = {0};
    bool rebuilt = strcmp(f->job, "rebuild") == 0;
    if (list_time(status, "job_started_at", &from) && list_time(status, end, &to) && to >= from)
        buffer_printf(&b, " after %s", output_duration((to - from) / 1000, a));
    if (!rebuilt && list_count(status, "job_verified_keys", &n))
        buffer_printf(&b, ", %s keys looked up", number_grouped(n, a));
    if (list_count(status, "job_verify_added", &n) && (!rebuilt || n > 0))
        buffer_printf(&b, ", %s missing and added", number_grouped(n, a));
    if (rebuilt && list_count(status, "job_rows", &n))
        buffer_printf(&b, ", %s rows", number_grouped(n, a));
    if (rebuilt && list_count(status, "generation", &n))
        buffer_printf(&b, ", generation %llu serves", (unsigned long long)n);
    if (list_decimal(status, "job_false_positive_rate", &rate))
        buffer_printf(&b, ", %s false positives", output_rate(rate, a));
    (void)printf("The %s of %s %s%s.\n", f->job, f->cli->arguments[0], what, buffer_text(&b));
}

/* The new generation is in use and confirmed; only the grace time is left. */
static int serves(struct follow *f, const redisReply *status, uint64_t until)
{
    char a[OUTPUT_TEXT_SIZE];
    end_line(f);
    if (f->cli->json) {
        cli_print_json(status, "filter");
        return CLI_OK;
    }
    print_end(f, status, "has switched", "job_switched_at");
    (void)printf("The old generation is kept until %s for \"twinbloom rollback %s\".\n",
                 output_time(until / 1000, a), f->cli->arguments[0]);
    return CLI_OK;
}

static int finish(struct follow *f, const redisReply *status, const char *state)
{
    char why[512] = "", code[64];
    SCOPED(buffer_fini) struct buffer b = {0};
    end_line(f);
    if (f->cli->json)
        cli_print_json(status, "filter");
    if (strcmp(state, "done") == 0 || strcmp(state, "healed") == 0) {
        if (!f->cli->json)
            print_end(f, status, strcmp(state, "done") == 0 ? "is done" : "is healed", "job_finished_at");
        return CLI_OK;
    }
    (void)list_text(status, "job_error", why, sizeof(why));
    output_escape(&b, why, strlen(why));
    return cli_fail_as(CLI_FAILED, list_text(status, "job_error_code", code, sizeof(code)) ? code : "failed",
                       "the %s of %s %s%s%s", f->job, f->cli->arguments[0],
                       strcmp(state, "failed") == 0 ? "failed" : "was aborted", why[0] == '\0' ? "" : ": ",
                       buffer_text(&b));
}

/* The exit code for a job that holds, or -1 to go on. If it was switched before, its generation was in
 * use. */
static int judge_hold(struct follow *f, const redisReply *status)
{
    const char *filter = f->cli->arguments[0];
    uint64_t switched = 0, built = 0, serving = 0;
    (void)list_time(status, "job_switched_at", &switched);
    (void)list_count(status, "job_generation", &built);
    (void)list_count(status, "generation", &serving);
    if (switched == 0 && !f->cli->hold)
        return -1;
    end_line(f);
    if (f->cli->json)
        cli_print_json(status, "filter");
    if (switched != 0)
        return cli_fail(CLI_FAILED,
                        "the %s of %s was rolled back: generation %llu is in use; the rebuild waits for "
                        "\"twinbloom cutover %s\" or \"twinbloom abort %s\"",
                        f->job, filter, (unsigned long long)serving, filter, filter);
    if (!f->cli->json)
        (void)printf("The %s of %s holds: generation %llu is built and verified. It waits for \"twinbloom "
                     "cutover %s\".\n",
                     f->job, filter, (unsigned long long)built, filter);
    return CLI_OK;
}

/* The exit code, or -1 to go on. */
static int judge(struct follow *f, const redisReply *status)
{
    struct job_id id = id_of(status);
    char state[32] = "none";
    (void)list_text(status, "job_state", state, sizeof(state));
    if (!f->ours_known) {
        bool same = strcmp(id.token, f->before.token) == 0 && strcmp(id.started, f->before.started) == 0;
        if (same || (id.token[0] == '\0' && id.started[0] == '\0')) {
            if (clock_mono_us() - f->quiet_since_us < PATIENCE_US)
                return -1;
            end_line(f);
            return cli_fail_with(ERR_TIMEOUT, "the service accepted the %s, but no new job appeared", f->job);
        }
        f->ours_known = true;
        f->ours = id;
    }
    if (!same_job(&id, &f->ours)) {
        end_line(f);
        return cli_fail(CLI_FAILED, "another job has replaced this one; see \"twinbloom status %s\"",
                        f->cli->arguments[0]);
    }
    if (strcmp(state, "done") == 0 || strcmp(state, "healed") == 0 || strcmp(state, "failed") == 0 ||
        strcmp(state, "aborted") == 0)
        return finish(f, status, state);
    uint64_t until;
    if (list_time(status, "job_grace_ends_at", &until))
        return serves(f, status, until);
    f->quiet_since_us = clock_mono_us();
    int code = cli_job_holds(status) ? judge_hold(f, status) : -1;
    if (code < 0)
        show_progress(f, status);
    return code;
}

/* Request the status, over a new connection if the old one broke; NULL with the reason in @e. */
static redisReply *ask(struct follow *f, enum err *why, struct error *e)
{
    struct cli *cli = f->cli;
    const char *argv[] = {"TB.STATUS", cli->arguments[0]};
    redisReply *reply = NULL;
    if (cli->client == NULL &&
        (*why = client_open(&cli->client, &cli->address, cli->timeout_ms, e)) != ERR_OK)
        return NULL;
    enum err rc = *why = client_call(cli->client, &reply, 2, argv, NULL, e);
    if (rc != ERR_OK && !client_refused(cli->client)) {
        client_close(cli->client);
        cli->client = NULL;
    }
    return reply;
}

static int poll_once(struct follow *f)
{
    struct error e = {""};
    enum err why = ERR_OK;
    SCOPED(scope_reply) redisReply *status = ask(f, &why, &e);
    if (status != NULL)
        return judge(f, status);
    if (clock_mono_us() - f->quiet_since_us >= PATIENCE_US) {
        end_line(f);
        return cli_fail_with(why, "%s; the job may continue without this command", e.text);
    }
    show_text(f, e.text, false);
    return -1;
}

int cli_follow(struct cli *cli, const char *job, const redisReply *before)
{
    struct follow f = {.cli = cli, .job = job, .before = id_of(before), .quiet_since_us = clock_mono_us()};
    progress_catch_interrupt(false);
    int code = -1;
    while (code < 0 && !progress_interrupted()) {
        code = poll_once(&f);
        if (code < 0 && !progress_interrupted())
            clock_sleep_us(POLL_US);
    }
    if (code >= 0)
        return code;
    end_line(&f);
    return cli_fail(CLI_INTERRUPTED, "the %s continues; \"twinbloom abort %s\" stops it", job,
                    cli->arguments[0]);
}
