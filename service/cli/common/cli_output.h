/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_COMMON_CLI_OUTPUT_H
#define SERVICE_CLI_COMMON_CLI_OUTPUT_H
/* Output of the command line: numbers for people, tables, JSON for programs. Pure except table_print(). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "base/buffer.h"

enum { OUTPUT_TEXT_SIZE = 64 };

/* Each function writes to @out and returns it. */
const char *output_bytes(uint64_t bytes, char out[OUTPUT_TEXT_SIZE]);      /* 512 B, 1.5 KiB, 12.0 MiB */
const char *output_duration(uint64_t seconds, char out[OUTPUT_TEXT_SIZE]); /* 42s, 3m 05s, 2h 07m, 3d 04h */
const char *output_latency(uint64_t us, char out[OUTPUT_TEXT_SIZE]);       /* 850us, 1.23ms, 2.1s */
const char *output_percent(double ratio, char out[OUTPUT_TEXT_SIZE]);      /* 52%, 0.3% */
const char *output_rate(double rate, char out[OUTPUT_TEXT_SIZE]);          /* a share as 0.1%, 0.0087% */
const char *output_time(uint64_t unix_seconds,
                        char out[OUTPUT_TEXT_SIZE]); /* local: 2026-03-29 03:30:00 +0200 */
/* "now"; "03:00, in 1h 43m"; "Nov 25 03:00, in 3d 04h"; "2027-02-01, in 98d 01h": local. */
const char *output_when(uint64_t unix_seconds, uint64_t now, char out[OUTPUT_TEXT_SIZE]);
const char *output_count(uint64_t n, char out[OUTPUT_TEXT_SIZE]); /* 999, 1.2K, 196K, 30.0G */
const char *output_bar(double ratio, unsigned width,
                       char out[OUTPUT_TEXT_SIZE]); /* [#####.....], at most 60 wide */

/* The width of the terminal on standard output; 80 if unknown. */
unsigned output_columns(void);

/* Convert "1000000", "1e6", "1.5M" (K, M, G, T: powers of 1000) to a whole number of at least 1; false:
 * invalid. */
bool output_parse_count(const char *text, uint64_t *out);
/* Convert "1048576", "64GiB", "1.5T" (K to P, with or without iB: powers of 1024) to whole bytes, at least 1;
 * false: invalid. */
bool output_parse_bytes(const char *text, uint64_t *out);

/* Append bytes from outside so that a terminal shows them and interprets none: control characters, backslash
 * and invalid UTF-8 become \n, \t, \\ or \xNN. */
void output_escape(struct buffer *b, const char *bytes, size_t length);

enum output_color { COLOR_NONE, COLOR_GOOD, COLOR_WARN, COLOR_BAD, COLOR_QUIET };
const char *output_color_on(enum output_color color, bool colored); /* "" if no color is needed */
const char *output_color_off(enum output_color color, bool colored);

/* --- JSON: compact, on one line. The caller opens and closes objects and arrays. --- */

struct json {
    struct buffer *out;
    bool comma;
};

void json_open(struct json *j, char bracket);
void json_close(struct json *j, char bracket);
void json_name(struct json *j, const char *name);
/* Write a string; invalid UTF-8 becomes U+FFFD. */
void json_string(struct json *j, const char *bytes, size_t length);
/* Write a member with its value. */
void json_text(struct json *j, const char *name, const char *text);
void json_count(struct json *j, const char *name, uint64_t n);
void json_null(struct json *j);
void json_bool(struct json *j, bool value);
void json_integer(struct json *j, int64_t value);
/* Write a number if @text, which a NUL ends, is a valid JSON number (not .5, 05, 1. or nan), else a string.
 */
void json_number_or_string(struct json *j, const char *text, size_t length);

/* --- tables --- */

struct table_column {
    const char *title;
    bool right; /* right-aligned */
};

enum { TABLE_COLUMNS_MAX = 12 };

struct table {
    const struct table_column *column;
    size_t columns;
    size_t cells;
    struct buffer text;                         /* all cells: one byte of color, the text, NUL */
    unsigned bar;                               /* width of bars in cells; 0: no bars */
    const void *context;                        /* of cells that know it */
    struct table_column own[TABLE_COLUMNS_MAX]; /* of sheet_rows() */
};

void table_init(struct table *t, const struct table_column *column, size_t columns);
void table_fini(struct table *t);
/* Add the next cell, row by row; @text is escaped already. */
void table_cell(struct table *t, enum output_color color, const char *text);
/* Print titles (if any) and rows, columns separated by two blanks, without blanks at the end of a line. */
void table_print(const struct table *t, FILE *to, bool colored);
#endif
