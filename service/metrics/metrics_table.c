/* SPDX-License-Identifier: MIT */
#include "service/metrics/metrics_table.h"

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
