/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_DAEMON_DESCRIBE_H
#define SERVICE_DAEMON_DESCRIBE_H
/* The reference: pages of docs/reference and docs/man, which docs/generate makes of the tables that the
 * programs run by, and the build puts into them. A test compares pages and tables. No I/O but @to, whose
 * errors are the caller's to look at (ferror()). */
#include <stdio.h>

/* The page of docs/reference of that name, from the first @from in it on. */
void describe_page(FILE *to, const char *name, const char *from);
/* Pages of the manual: twinbloom.conf(5), twinbloomd(8). */
void describe_config_man(FILE *to);
void describe_daemon_man(FILE *to);
#endif
