/* SPDX-License-Identifier: MIT */
/* twinbloomd(8). */
#include <stdbool.h>
#include "service/daemon_options.h"
#include "service/describe.h"

static void write_option(FILE *to, const struct daemon_option_row *row)
{
    bool attached = row->argument != NULL && row->argument[0] == '[';
    (void)fputs(".TP\n.B ", to);
    if (row->letter != '\0')
        (void)fprintf(to, "\\-%c, ", row->letter);
    (void)fputs("\\-\\-", to);
    describe_roff(to, row->name);
    if (row->argument != NULL) {
        (void)fputs(attached ? "" : " ", to);
        describe_roff(to, row->argument);
    }
    (void)fputc('\n', to);
    describe_roff(to, row->help);
    (void)fputs(".\n", to);
}

static const char *const description =
    ".SH SYNOPSIS\n"
    ".B twinbloomd\n.RB [ \\-c\n.IR FILE ]\n.RB [ \\-\\-check\\-config \" | \" \\-\\-print\\-config ]\n.br\n"
    ".B twinbloomd\n.BR \\-\\-version \" | \" \\-\\-help \" | \" \\-\\-man\n"
    ".SH DESCRIPTION\n"
    "A coordinator of Twinbloom: it routes each key by its hash to one of the shards of a Bloom filter,\n"
    "which lie as strings in Redis, answers BF.* to any Redis client, and builds a filter's next\n"
    "generation from a Postgres table while the filter serves. Any number of coordinators may run side by\n"
    "side; they have no state of their own.\n"
    ".PP\n"
    "It stays in the foreground and logs to standard error.\n"
    ".SH OPTIONS\n";

static const char *const rest =
    ".SH SIGNALS\n"
    ".TP\n.B SIGHUP\n"
    "Read the file again. A file with an error, or with a change that needs a restart, changes nothing;\n"
    "the log says why.\n"
    ".TP\n.BR SIGTERM \", \" SIGINT\n"
    "End: jobs are handed over, clients are served for\n.I shutdown_delay\nmore, and requests under "
    "way are answered. A second signal ends\n"
    "the delay.\n"
    ".SH EXIT STATUS\n"
    ".TP\n.B 0\nIt ended after a signal, or printed what was asked for; the configuration is valid.\n"
    ".TP\n.B 1\nIt could not start, or its work ended with an error; the log says why.\n"
    ".TP\n.B 2\nThe command line or the configuration is wrong.\n"
    ".SH FILES\n"
    ".TP\n.I /etc/twinbloom/twinbloom.conf\nThe configuration that is read without\n.BR \\-c .\n"
    ".SH SEE ALSO\n"
    ".BR twinbloom.conf (5),\n.BR twinbloom (1),\n.BR redis\\-cli (1)\n";

void describe_daemon_man(FILE *to)
{
    describe_man_title(to, "twinbloomd", "8", "a sharded Bloom-filter service that is expanded online");
    (void)fputs(description, to);
    for (size_t i = 0; i < daemon_option_count; i++)
        write_option(to, &daemon_options[i]);
    (void)fputs(rest, to);
}
