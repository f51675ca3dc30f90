/* SPDX-License-Identifier: MIT */
#include "service/metrics/metrics_table.h"

#include <string.h>
#include "service/describe.h"

const struct metric_row metric_rows[METRIC_COUNT] = {
#define ROW(id, type, name, unit, labels, help) {METRIC_##type, name, unit, labels, help},
    METRICS(ROW)
#undef ROW
};

const char *metric_type_name(enum metric_type type)
{
    static const char *const names[] = {"counter", "gauge", "histogram", "info"};
    return names[type];
}

/* "filter,phase" as `filter`, `phase`. */
static void print_labels(const char *labels, FILE *to)
{
    for (const char *at = labels; *at != '\0';) {
        size_t length = strcspn(at, ",");
        (void)fprintf(to, "%s`%.*s`", at == labels ? "" : ", ", (int)length, at);
        at += length + (at[length] == ',');
    }
}

void metrics_describe(FILE *to)
{
    (void)fputs("| metric | type | labels | meaning |\n|---|---|---|---|\n", to);
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        const struct metric_row *row = &metric_rows[i];
        (void)fprintf(to, "| `%s` | %s | ", row->name, metric_type_name(row->type));
        print_labels(row->labels, to);
        (void)fputs(" | ", to);
        describe_cell(to, row->help);
        (void)fputs(" |\n", to);
    }
}
