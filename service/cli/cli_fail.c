/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>

#include "service/cli/cli.h"

int cli_fail(enum cli_exit code, const char *format, ...)
{
    (void)fflush(stdout);
    (void)fputs("twinbloom: ", stderr);
    va_list ap;
    va_start(ap, format);
    (void)vfprintf(stderr, format, ap);
    va_end(ap);
    (void)fputc('\n', stderr);
    return code;
}
