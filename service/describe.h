/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_DESCRIBE_H
#define SERVICE_DESCRIBE_H
/* The reference: each function writes one page of it to @to, made of the tables that the daemon itself runs
 * by. docs/generate keeps the pages of docs/reference with it, and a test compares them. No I/O but @to,
 * whose errors are the caller's to look at (ferror()). */
#include <stdio.h>

/* Markdown. */
void describe_config(FILE *to);   /* config_keys */
void describe_commands(FILE *to); /* command_table */
void describe_errors(FILE *to);   /* error_codes */
void describe_http(FILE *to);     /* http_routes and openapi.json */

/* Pages of the manual, in the macros of man(7): twinbloom.conf(5), and twinbloomd(8) of the table of options.
 */
void describe_config_man(FILE *to);
void describe_daemon_man(FILE *to);

/* --- what the pages share --- */

struct describe_section {
    const char *name;
    const char *about; /* a sentence or two */
};
/* Of each section of the configuration, in the order of enum config_section. */
extern const struct describe_section describe_config_sections[];

/* @text as it stands in a cell of a Markdown table: | and line ends are escaped. */
void describe_cell(FILE *to, const char *text);
/* The same as `code`; a dash where @text is empty or NULL. */
void describe_code(FILE *to, const char *text);
/* @text for roff: backslashes, minus signs, and a leading dot or apostrophe are escaped. */
void describe_roff(FILE *to, const char *text);
/* The heading of a page of the manual. */
void describe_man_title(FILE *to, const char *name, const char *section, const char *summary);
#endif
