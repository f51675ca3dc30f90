/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_DAEMON_DAEMON_OPTIONS_H
#define SERVICE_DAEMON_DAEMON_OPTIONS_H
/* The options of twinbloomd: one table for the command line, --help and the page of the manual. Pure but for
 * what is printed. To add one: a row, and what it does in daemon.c. */
#include <stdio.h>
#include <stddef.h>

enum daemon_option {
    DAEMON_NONE, /* serve */
    DAEMON_CONFIG,
    DAEMON_CHECK_CONFIG,
    DAEMON_DOCTOR,
    DAEMON_PRINT_CONFIG,
    DAEMON_DESCRIBE_COMMANDS,
    DAEMON_DESCRIBE_CONFIG,
    DAEMON_DESCRIBE_ERRORS,
    DAEMON_DESCRIBE_HTTP,
    DAEMON_DESCRIBE_METRICS,
    DAEMON_MAN,
    DAEMON_HELP,
    DAEMON_VERSION
};

struct daemon_option_row {
    const char *name;
    const char *argument; /* NULL: it takes none; "[=X]": it may */
    const char *help;
    enum daemon_option option;
    char letter; /* '\0': it has none */
};

extern const struct daemon_option_row daemon_options[];
extern const size_t daemon_option_count;

/* Where packages put the configuration. */
#define DAEMON_CONFIG_FILE "/etc/twinbloom/twinbloom.conf"

/* What somebody asked for. */
struct daemon_wish {
    const char *config; /* NULL: none was named, so DAEMON_CONFIG_FILE is read */
    enum daemon_option wish;
    const char *form; /* of DAEMON_DESCRIBE_CONFIG; NULL: none was given */
};

/* Read the command line. 0: well; -1: it is wrong, and getopt said why. */
int daemon_options_read(int argc, char **argv, struct daemon_wish *out);

void daemon_options_help(FILE *to);

/* Write the page of docs/reference of that name, from the first @from in it on: docs/generate makes these
 * pages of the tables that the programs run by, and the build puts them into the program. Errors of @to are
 * the caller's to look at (ferror()). */
void describe_page(FILE *to, const char *name, const char *from);
/* Pages of docs/man: twinbloom.conf(5), twinbloomd(8). */
extern const char embedded_twinbloom[], embedded_twinbloomd[];
#endif
