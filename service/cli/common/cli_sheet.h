/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_COMMON_CLI_SHEET_H
#define SERVICE_CLI_COMMON_CLI_SHEET_H
/* Sheets of named values, from a flat list name, value, name, value such as the daemon's replies. */
#include "service/cli/common/cli.h"

/* Print the members of a shape of outputs.txt for which @list has a value, under their headings. Members with
 * their usual value are omitted; --json shows them. */
void sheet_print(const struct cli *cli, const char *shape, const redisReply *list);

/* Print a table with a row for each of @all; @cells adds the cells of a row. */
void sheet_table(const struct cli *cli, const struct table_column *columns, size_t count,
                 const redisReply *all, void (*cells)(struct table *t, const redisReply *one));

/* --- parts, also for tables --- */

enum output_color sheet_color(const char *state);
/* Add a value with bytes from outside as the next cell. */
void sheet_word_cell(struct table *t, enum output_color color, const char *text);
/* Add a value of @list as the next cell; "-" if it is missing. */
void sheet_text_cell(struct table *t, const redisReply *list, const char *field);
void sheet_count_cell(struct table *t, const redisReply *list, const char *field);
/* Add a number of bytes; an empty cell if it is missing. */
void sheet_bytes_cell(struct table *t, const redisReply *list, const char *field);
/* Format seconds with a fraction: "< 1s" below one. */
const char *sheet_seconds(double seconds, char out[OUTPUT_TEXT_SIZE]);
#endif
