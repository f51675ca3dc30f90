/* SPDX-License-Identifier: MIT */
#include "service/metrics/samples.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/utf8.h"

/* --- choice of the format --- */

static const char *const types[] = {[EXPOSITION_PROMETHEUS] = "text/plain; version=0.0.4; charset=utf-8",
                                    [EXPOSITION_OPENMETRICS] =
                                        "application/openmetrics-text; version=1.0.0; charset=utf-8"};

const char *exposition_type(enum exposition format)
{
    return types[format];
}

static size_t skip_blanks(const char *text)
{
    return strspn(text, " \t");
}

/* The weight of a type, from its parameters up to a comma; *@known: whether its version is supported. */
static double weight_of(const char *parameters, size_t length, bool *known)
{
    double weight = 1;
    *known = true;
    for (const char *p = parameters, *end = parameters + length; p < end;) {
        p++; /* the semicolon */
        p += skip_blanks(p);
        if (strncasecmp(p, "q=", 2) == 0)
            weight = strtod(p + 2, NULL);
        else if (strncasecmp(p, "version=", 8) == 0)
            *known = strncmp(p + 8, "1.0.0", 5) == 0 || strncmp(p + 8, "0.0.", 4) == 0;
        p += strcspn(p, ";,");
    }
    return weight > 0 ? weight : 0;
}

static bool is_type(const char *given, size_t length, const char *type)
{
    return length == strlen(type) && strncasecmp(given, type, length) == 0;
}

enum exposition exposition_negotiate(const char *accept)
{
    double open = 0, plain = 0;
    for (const char *at = accept; at != NULL && *at != '\0';) {
        bool known;
        at += skip_blanks(at);
        size_t all = strcspn(at, ","), type = strcspn(at, ";, \t");
        size_t rest = type < all ? strcspn(at, ";,") : all;
        double weight = weight_of(at + rest, all - rest, &known);
        if (is_type(at, type, "application/openmetrics-text") && known && weight > open)
            open = weight;
        else if (is_type(at, type, "text/plain") && weight > plain)
            plain = weight;
        at += all;
        at += *at == ',';
    }
    return open > 0 && open >= plain ? EXPOSITION_OPENMETRICS : EXPOSITION_PROMETHEUS;
}

/* --- one sample --- */

void samples_fini(struct samples *s)
{
    for (size_t i = 0; i < METRIC_COUNT; i++)
        buffer_fini(&s->of[i]);
}

struct label label(const char *text)
{
    return (struct label){.bytes = text, .length = strlen(text)};
}

static void put_escaped(struct buffer *out, const struct label *value)
{
    const char *bytes = value->bytes;
    for (size_t i = 0; i < value->length;) {
        size_t n = utf8_sequence(bytes + i, value->length - i);
        if (bytes[i] == '\n')
            buffer_puts(out, "\\n");
        else if (bytes[i] == '"' || bytes[i] == '\\')
            buffer_printf(out, "\\%c", bytes[i]);
        else if (n == 0 || bytes[i] == '\r' || bytes[i] == '\0')
            buffer_puts(out, "\xef\xbf\xbd");
        else
            buffer_append(out, bytes + i, n);
        i += n == 0 ? 1 : n;
    }
}

/* Write {a="x",b="y"@more} if there are labels, otherwise @more. */
static void put_labels(struct buffer *out, enum metric m, const struct label *labels, const char *more)
{
    const char *at = metric_rows[m].labels;
    if (*at == '\0' && *more == '\0')
        return;
    buffer_puts(out, "{");
    for (size_t i = 0; *at != '\0'; i++) {
        size_t length = strcspn(at, ",");
        buffer_printf(out, "%s%.*s=\"", i == 0 ? "" : ",", (int)length, at);
        put_escaped(out, &labels[i]);
        buffer_puts(out, "\"");
        at += length + (at[length] == ',');
    }
    buffer_printf(out, "%s%s}", *more != '\0' && metric_rows[m].labels[0] != '\0' ? "," : "", more);
}

static void put_value(struct buffer *out, double value)
{
    if (isnan(value))
        buffer_puts(out, " NaN\n");
    else if (isinf(value))
        buffer_puts(out, value > 0 ? " +Inf\n" : " -Inf\n");
    else
        buffer_printf(out, " %.15g\n", value);
}

/* Write the name and the labels. Returns where the value goes. */
static struct buffer *begin(struct samples *s, enum metric m, const struct label *labels)
{
    buffer_puts(&s->of[m], metric_rows[m].name);
    put_labels(&s->of[m], m, labels, "");
    return &s->of[m];
}

void sample(struct samples *s, enum metric m, const struct label *labels, double value)
{
    put_value(begin(s, m, labels), value);
}

void sample_count(struct samples *s, enum metric m, const struct label *labels, uint64_t value)
{
    buffer_printf(begin(s, m, labels), " %" PRIu64 "\n", value);
}

void sample_timing(struct samples *s, enum metric m, const struct label *labels,
                   const struct timing_figures *t)
{
    struct buffer *out = &s->of[m];
    const char *name = metric_rows[m].name;
    uint64_t below = 0;
    for (unsigned i = 0; i < TIMING_BUCKETS; i++) {
        char bound[32] = "le=\"+Inf\"";
        below += t->bucket[i];
        if (i < TIMING_BOUNDS)
            (void)snprintf(bound, sizeof(bound), "le=\"%g\"", (double)timing_bound_us(i) / 1e6);
        buffer_printf(out, "%s_bucket", name);
        put_labels(out, m, labels, bound);
        buffer_printf(out, " %" PRIu64 "\n", below);
    }
    buffer_printf(out, "%s_sum", name);
    put_labels(out, m, labels, "");
    put_value(out, (double)t->sum_us / 1e6);
    buffer_printf(out, "%s_count", name);
    put_labels(out, m, labels, "");
    buffer_printf(out, " %" PRIu64 "\n", below);
}

/* --- all samples --- */

static void put_head(struct buffer *out, const struct metric_row *row, enum exposition format)
{
    bool open = format == EXPOSITION_OPENMETRICS;
    int length = (int)strlen(row->name); /* of the family: in OpenMetrics without the samples' suffix */
    if (open && row->type == METRIC_COUNTER)
        length -= (int)strlen("_total");
    if (open && row->type == METRIC_INFO)
        length -= (int)strlen("_info");
    const char *type =
        row->type == METRIC_INFO && !open ? metric_type_name(METRIC_GAUGE) : metric_type_name(row->type);
    buffer_printf(out, "# HELP %.*s %s\n# TYPE %.*s %s\n", length, row->name, row->help, length, row->name,
                  type);
    if (open && row->unit[0] != '\0')
        buffer_printf(out, "# UNIT %.*s %s\n", length, row->name, row->unit);
}

void samples_write(struct buffer *out, enum exposition format, const struct samples *const *parts,
                   size_t count)
{
    for (size_t m = 0; m < METRIC_COUNT; m++) {
        bool begun = false;
        for (size_t i = 0; i < count; i++) {
            const struct buffer *lines = parts[i] == NULL ? NULL : &parts[i]->of[m];
            if (lines == NULL || lines->length == 0)
                continue;
            if (lines->failed)
                out->failed = true;
            if (!begun)
                put_head(out, &metric_rows[m], format);
            begun = true;
            buffer_append(out, lines->data, lines->length);
        }
    }
    if (format == EXPOSITION_OPENMETRICS)
        buffer_puts(out, "# EOF\n");
}

const struct metric_row metric_rows[METRIC_COUNT] = {
#define ROW(id, type, ...) {METRIC_##type, __VA_ARGS__},
    METRICS(ROW)
#undef ROW
};

const char *metric_type_name(enum metric_type type)
{
    static const char *const names[] = {"counter", "gauge", "histogram", "info"};
    return names[type];
}
