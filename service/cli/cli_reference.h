/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_REFERENCE_H
#define SERVICE_CLI_REFERENCE_H
/* The reference, made of the tables of commands, options and JSON shapes. Each prints on standard output. */
#include "service/cli/cli_table.h"

enum reference_form { REFERENCE_NONE, REFERENCE_MAN, REFERENCE_MARKDOWN };

void reference_man(void); /* roff: twinbloom.1 */
void reference_markdown(void);
void reference_json(void);

/* Exit codes, and what of the environment counts. */
struct reference_row {
    const char *name, *meaning;
};
extern const struct reference_row reference_exits[], reference_environment[];
extern const size_t reference_exit_count, reference_environment_count;

/* The next line of a command's examples, without blanks at its ends; false at the end. Its length is
 * *@length. */
bool reference_example(const char **at, const char **line, size_t *length);
#endif
