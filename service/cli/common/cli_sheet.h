/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_COMMON_CLI_SHEET_H
#define SERVICE_CLI_COMMON_CLI_SHEET_H
/* Sheets of named values, from a flat list name, value, name, value such as the daemon's replies. */
#include "service/cli/common/cli.h"

/* Print the members of a shape of outputs.txt for which @list has a value, under their headings. Members with
 * their usual value are omitted; --json shows them. */
void sheet_print(const struct cli *cli, const char *shape, const redisReply *list);

/* A column of a table, and the cell that it has for a row: @cell with @field, or @own. A column with neither
 * gets its cell from the @own of a column before it. */
struct sheet_column {
    const char *title;
    bool right;  /* right-aligned */
    unsigned on; /* layouts that have the column; 0: all */
    void (*own)(struct table *t, const redisReply *row);
    void (*cell)(struct table *t, const redisReply *row, const char *field);
    const char *field;
};

/* Print a table with a row for each of @rows, or @none if there are no rows. A row without a title ends
 * @columns. */
void sheet_table(const struct cli *cli, const struct sheet_column *columns, unsigned layout,
                 const redisReply *rows, const char *none);
/* As sheet_table(), into @t, which is zeroed except for its bar and context; table_fini() frees it. */
void sheet_rows(struct table *t, const struct sheet_column *columns, unsigned layout, const redisReply *rows);

/* Send @verb, whose reply is an array of lists, and print the reply. Returns CLI_NO if it was printed and
 * @judge, which may be NULL, says false. */
int sheet_show(struct cli *cli, const char *verb, const char *shape,
               void (*print)(const struct cli *cli, const redisReply *all),
               bool (*judge)(const struct cli *cli, const redisReply *all));

/* --- parts, also for tables --- */

enum output_color sheet_color(const char *state);
/* Add a value with bytes from outside as the next cell. */
void sheet_word_cell(struct table *t, enum output_color color, const char *text);
/* Add a value of @list as the next cell; "-" if it is missing, but nothing for a name. */
void sheet_name_cell(struct table *t, const redisReply *list, const char *field);
void sheet_text_cell(struct table *t, const redisReply *list, const char *field);
void sheet_count_cell(struct table *t, const redisReply *list, const char *field);
/* Add a number of bytes; an empty cell if it is missing. */
void sheet_bytes_cell(struct table *t, const redisReply *list, const char *field);
/* Format seconds with a fraction: "< 1s" below one. */
const char *sheet_seconds(double seconds, char out[OUTPUT_TEXT_SIZE]);
#endif
