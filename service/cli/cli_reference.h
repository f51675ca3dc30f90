/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_REFERENCE_H
#define SERVICE_CLI_REFERENCE_H
/* The reference, made of the tables of commands, options and JSON shapes. Each prints on standard output. */
#include "service/cli/cli_table.h"

void reference_man(void); /* roff: twinbloom.1 */
void reference_markdown(void);
void reference_json(void);

/* Exit codes, and what of the environment counts. */
struct reference_row {
    const char *name, *meaning;
};
extern const struct reference_row reference_exits[], reference_environment[];
extern const size_t reference_exit_count, reference_environment_count;
#endif
