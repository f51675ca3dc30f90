/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_SHEET_H
#define SERVICE_CLI_SHEET_H
/* Sheets of named values, made of a flat list name, value, name, value as the daemon's replies are. */
#include "service/cli/common/cli.h"

/* The members of a shape of outputs.txt that @list has a value for, under their headings. Members that are
 * missing, or that say nothing, are left out; --json shows the latter. */
void sheet_print(const struct cli *cli, const char *shape, const redisReply *list);

/* A table with a row for each of @all, whose cells @cells adds. */
void sheet_table(const struct cli *cli, const struct table_column *columns, size_t count,
                 const redisReply *all, void (*cells)(struct table *t, const redisReply *one));

/* --- parts, for tables too --- */

enum output_color sheet_color(const char *state);
/* A value of bytes from outside, as the next cell. */
void sheet_word_cell(struct table *t, enum output_color color, const char *text);
/* A value of @list as the next cell, "-" where it is missing. */
void sheet_text_cell(struct table *t, const redisReply *list, const char *field);
void sheet_count_cell(struct table *t, const redisReply *list, const char *field);
/* A number of bytes, or an empty cell where it is missing. */
void sheet_bytes_cell(struct table *t, const redisReply *list, const char *field);
/* Seconds with fractions: "< 1s" where there is less than one. */
const char *sheet_seconds(double seconds, char out[OUTPUT_TEXT_SIZE]);
#endif
