/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_COMPLETION_H
#define SERVICE_CLI_COMPLETION_H
/* Completion scripts, and what of the tables they need. */
#include "service/cli/cli_table.h"

enum completion_value {
    COMPLETION_NONE,
    COMPLETION_OTHER, /* only whoever types knows it */
    COMPLETION_FILES,
    COMPLETION_WORDS, /* a|b */
    COMPLETION_FILTERS,
    COMPLETION_COMMANDS
};

enum completion_value completion_value_of(const char *value); /* of an option */
/* Of a command's first argument; of several words only the first has any. */
enum completion_value completion_argument_of(const struct command *c);

/* "a|b", or "[a|b] ...", as "a b". */
void completion_put_words(const char *text);

/* On standard output. */
void completion_bash(void);
void completion_zsh(void);
void completion_fish(void);
#endif
