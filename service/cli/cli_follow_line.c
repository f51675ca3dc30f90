/* SPDX-License-Identifier: MIT */
#include "service/cli/cli_follow_line.h"

#include <string.h>

#include "base/number.h"

enum { NARROW = 100, BAR_WIDE = 20, BAR_NARROW = 10 };

bool cli_job_holds(const redisReply *status)
{
    char step[64];
    uint64_t hold;
    return client_text(status, "job_step", step, sizeof(step)) && strcmp(step, "hold") == 0 &&
           client_count(status, "job_hold", &hold) && hold == 1;
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
    if (!client_count(status, "job_rows", &done))
        return;
    if (!client_count(status, "job_rows_total", &total) || total == 0) {
        if (done != 0)
            buffer_printf(line, "  %s rows", count(done, narrow, a));
        return;
    }
    /* The total is an estimate: what is not done is not shown as done. */
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
    if (!client_text(status, field, text, sizeof(text)))
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
    words(line, status, "", client_text(status, "job_step", text, sizeof(text)) ? "job_step" : "job_state");
    rows(line, status, columns);
    bool reads = client_text(status, "job_step", text, sizeof(text)) && strcmp(text, "scan") == 0;
    if (reads && client_decimal(status, "job_rows_per_second", &rate) && rate >= 0.5 && rate < 1e18)
        buffer_printf(line, "  %s rows/s", count((uint64_t)(rate + 0.5), narrow, a));
    if (reads && client_decimal(status, "job_eta_seconds", &left) && left >= 0.5 && left < 1e15)
        buffer_printf(line, "  ETA %s", output_duration((uint64_t)(left + 0.5), a));
    if (client_count(status, "job_paused", &n) && n == 1)
        buffer_puts(line, "  paused");
    words(line, status, "  waiting for ", "job_waiting_for");
    if (!client_text(status, "job_waiting_for", text, sizeof(text)))
        words(line, status, "  ", "job_throttle_reason");
    if (cli_job_holds(status))
        buffer_puts(line, "  until \"twinbloom cutover\"");
    if (client_text(status, "job_state", text, sizeof(text)) && strcmp(text, "running") != 0)
        buffer_printf(line, "  %s", text);
    words(line, status, "  reason: ", "job_reason");
}
