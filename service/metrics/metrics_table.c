/* SPDX-License-Identifier: MIT */
#include "service/metrics/metrics_table.h"

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
