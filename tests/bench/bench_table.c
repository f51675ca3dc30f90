/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include "measure.h"

static unsigned missed;

void table_heading(const char *title, const char *columns)
{
    (void)printf("\n%s\n%s%s", title, columns, columns[0] != '\0' ? "\n" : "");
    (void)fflush(stdout);
}

void table_target(const char *what, double value, const char *unit, bool at_most, double limit)
{
    bool ok = at_most ? value <= limit : value >= limit;
    missed += !ok;
    (void)printf("  %-6s  %-66s %9.2f %-9s %s %.2f\n", ok ? "OK" : "MISSED", what, value, unit,
                 at_most ? "at most" : "at least", limit);
}

void table_beside(const char *what, double value, const char *unit)
{
    (void)printf("          %-66s %9.2f %s\n", what, value, unit);
    (void)fflush(stdout);
}

unsigned table_missed(void)
{
    return missed;
}
