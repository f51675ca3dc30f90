/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_TABLE_H
#define SERVICE_CLI_TABLE_H
/* The tables of commands and options, and help, which is generated from them. */
#include "service/cli/common/cli.h"

cli_handler cli_completion; /* without a connection, except for filters' names */

/* Setters of options that say where the service is, and who asks. */
cli_setter cli_set_url, cli_set_password;

enum {
    WITH_CAPACITY = 1,
    WITH_ERROR_RATE = 2,
    WITH_WAIT = 4,
    WITH_COUNT = 8,
    WITH_HOLD = 16,
    WITH_VERIFY = 32,
    WITH_FULL = 64,
    WITH_DRY_RUN = 128,
    WITH_INPUT = 256,
    WITH_OUTPUT = 512,
    WITH_KEYS = 1024,
    WITH_YES = 2048,
    WITH_FORM = 4096,
    WITH_BENCH = 8192,
    WITH_INTERVAL = 16384,
    WITH_GROWING = 32768,
    WITH_NODES = 1 << 18,
    WITH_RESTART = 1 << 19,
    WITH_TOKEN = 1 << 20,
    OFFLINE = 1 << 21,       /* needs no service */
    WITH_ESTIMATE = 1 << 22, /* needs none without an argument: see cli_estimate() */
    GROWTH = WITH_CAPACITY | WITH_ERROR_RATE,
    NEXT = GROWTH | WITH_NODES
};

struct command {
    const char *name;
    const char *arguments;
    size_t least, most; /* number of arguments */
    unsigned options;   /* WITH_... bits */
    const char *summary;
    const char *details;
    const char *example;
    cli_handler *handler; /* NULL: help, which needs no service */
};

/* cli_command_table.c */
extern const struct command cli_command_table[];
extern const size_t cli_command_count;

/* Where an option's value is stored. */
struct option_to {
    enum {
        OPTION_OWN,
        OPTION_FLAG,
        OPTION_COPY,
        OPTION_TEXT,
        OPTION_COUNT,
        OPTION_BYTES,
        OPTION_DECIMAL
    } kind;
    size_t offset;      /* in struct cli: of a bool, char[], const char *, uint64_t (two kinds) or double */
    double least, most; /* bounds of the number, or of the text's length */
    cli_setter *set;    /* for OPTION_OWN */
};

struct option_row {
    const char *letter; /* "": none */
    const char *name;
    const char *value; /* in help; NULL: the option has no value */
    unsigned command;  /* WITH_... of the commands that have it; 0: all */
    bool early;        /* read before the others, which override it */
    const char *help;
    struct option_to to;
};

/* cli_option_table.c */
extern const struct option_row cli_option_table[];
extern const size_t cli_option_count;
/* False: the value is invalid. @value NULL: the option has no value. */
bool cli_option_set(struct cli *cli, const struct option_row *o, const char *value);

/* True if commands with these WITH_... bits have the option; 0: if all commands have it. */
bool cli_option_belongs(const struct option_row *o, unsigned of_command);

/* cli_completion.c: print candidates for the last of @words with their meaning behind a tab, one per line;
 * @words are those behind the program's name. */
int cli_complete(struct cli *cli, char *const *words, size_t count);

/* cli_reference.c: print help and the reference, generated from the tables. */
void cli_print_help(void);
void cli_print_command_help(const struct command *c);
void reference_json(void);
/* docs/man/twinbloom.1 and docs/reference/cli.md. */
extern const char embedded_twinbloom[], embedded_cli[];
#endif
