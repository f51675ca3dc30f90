/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_TABLE_H
#define SERVICE_CLI_TABLE_H
/* The commands and the options of the command line as tables, and help, which is made of them. */
#include "service/cli/common/cli.h"

cli_handler cli_completion; /* without a connection, but for the names of filters */

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
    WITH_ESTIMATE = 1 << 22, /* nor does it without an argument: see cli_estimate() */
    GROWTH = WITH_CAPACITY | WITH_ERROR_RATE,
    NEXT = GROWTH | WITH_NODES
};

struct command {
    const char *name;
    const char *arguments;
    size_t least, most; /* arguments */
    unsigned options;   /* of its own */
    const char *summary;
    const char *details;
    const char *example;
    cli_handler *handler; /* NULL: help, which needs no service */
};

/* cli_command_table.c */
extern const struct command cli_command_table[];
extern const size_t cli_command_count;

/* Where an option's value goes. */
struct option_to {
    enum { OPTION_OWN, OPTION_FLAG, OPTION_TEXT, OPTION_COUNT, OPTION_BYTES, OPTION_DECIMAL } kind;
    size_t offset;      /* of the member of struct cli: bool, const char *, uint64_t twice, double */
    double least, most; /* of the number, or of the text's length */
    cli_setter *set;    /* OPTION_OWN */
};

struct option_row {
    const char *letter; /* "": none */
    const char *name;
    const char *value; /* NULL: takes none */
    unsigned command;  /* WITH_...; 0: for all */
    bool early;        /* read before the others, which then override it */
    const char *help;
    struct option_to to;
};

/* cli_option_table.c */
extern const struct option_row cli_option_table[];
extern const size_t cli_option_count;
/* False: the value is none. @value NULL: the option takes none. */
bool cli_option_set(struct cli *cli, const struct option_row *o, const char *value);

/* Whether it is one of a command with these WITH_... bits; 0: one of all commands. */
bool cli_option_belongs(const struct option_row *o, unsigned of_command);

/* cli_completion.c: on standard output, what the last of @words may become, with its meaning behind a tab,
 * one a line; @words are those behind the program's name. */
int cli_complete(struct cli *cli, char *const *words, size_t count);

/* cli_reference.c: help and the reference, made of the tables; on standard output. */
void cli_print_help(void);
void cli_print_command_help(const struct command *c);
void reference_man(void); /* roff: twinbloom.1 */
void reference_markdown(void);
void reference_json(void);
#endif
