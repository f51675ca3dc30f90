/* SPDX-License-Identifier: MIT */
#include "service/daemon/daemon_options.h"

#include <getopt.h>
#include <stdbool.h>
#include <string.h>
#include "service/http/http_dashboard.h"

/* In the order in which they are listed. */
const struct daemon_option_row daemon_options[] = {
    {"config", "FILE", "read the configuration (INI) from FILE (" DAEMON_CONFIG_FILE ")", DAEMON_CONFIG, 'c'},
    {"check-config", NULL,
     "check the file and the tables that it names, say what was chosen, then exit (0: valid)",
     DAEMON_CHECK_CONFIG, 0},
    {"doctor", NULL,
     "look at everything that the service needs, say what to do, then exit (0: no problem, 1: a problem)",
     DAEMON_DOCTOR, 0},
    {"print-config", NULL, "print every key with its value and meaning, then exit", DAEMON_PRINT_CONFIG, 0},
    {"describe-commands", NULL, "print the reference of the commands (Markdown), then exit",
     DAEMON_DESCRIBE_COMMANDS, 0},
    {"describe-config", "[=FORM]",
     "print the reference of the configuration, then exit; FORM is markdown, or man for twinbloom.conf(5)",
     DAEMON_DESCRIBE_CONFIG, 0},
    {"describe-errors", NULL, "print the reference of the errors (Markdown), then exit",
     DAEMON_DESCRIBE_ERRORS, 0},
    {"describe-http", NULL, "print the reference of HTTP (Markdown), then exit", DAEMON_DESCRIBE_HTTP, 0},
    {"describe-metrics", NULL, "print the reference of the metrics (Markdown), then exit",
     DAEMON_DESCRIBE_METRICS, 0},
    {"man", NULL, "print the page twinbloomd(8) of the manual, then exit", DAEMON_MAN, 0},
    {"version", NULL, "print the version, then exit", DAEMON_VERSION, 'v'},
    {"help", NULL, "print this, then exit", DAEMON_HELP, 'h'},
};
const size_t daemon_option_count = sizeof(daemon_options) / sizeof(daemon_options[0]);

enum { LONG_BASE = 256, ROWS = sizeof(daemon_options) / sizeof(daemon_options[0]) };

int daemon_options_read(int argc, char **argv, struct daemon_wish *out)
{
    struct option options[ROWS + 1] = {{0}};
    char letters[2 * ROWS + 1];
    size_t n = 0;
    for (size_t i = 0; i < ROWS; i++) {
        const struct daemon_option_row *row = &daemon_options[i];
        bool optional = row->argument != NULL && row->argument[0] == '[';
        options[i] = (struct option){.name = row->name,
                                     .has_arg = row->argument == NULL
                                                    ? no_argument
                                                    : (optional ? optional_argument : required_argument),
                                     .val = row->letter != '\0' ? row->letter : LONG_BASE + (int)i};
        if (row->letter == '\0')
            continue;
        letters[n++] = row->letter;
        if (row->argument != NULL)
            letters[n++] = ':';
    }
    letters[n] = '\0';
    *out = (struct daemon_wish){.wish = DAEMON_NONE};
    int option;
    optind = 0; /* glibc: from the beginning */
    while ((option = getopt_long(argc, argv, letters, options, NULL)) != -1) {
        size_t i = 0;
        while (i < ROWS && options[i].val != option)
            i++;
        if (i == ROWS)
            return -1;
        const struct daemon_option_row *row = &daemon_options[i];
        if (row->option == DAEMON_CONFIG)
            out->config = optarg;
        else
            out->wish = row->option;
        if (row->option == DAEMON_DESCRIBE_CONFIG)
            out->form = optarg;
        if (row->option == DAEMON_HELP || row->option == DAEMON_VERSION)
            return 0; /* whatever else is there */
    }
    if (optind < argc)
        (void)fprintf(stderr, "%s: '%s' is no option; -c FILE names the configuration\n", argv[0],
                      argv[optind]);
    return optind == argc ? 0 : -1;
}

void daemon_options_help(FILE *to)
{
    (void)fputs("usage: twinbloomd [-c FILE] [--check-config | --doctor | --print-config]\n"
                "       twinbloomd --version | --help | --man | --describe-commands | ...\n\n",
                to);
    for (size_t i = 0; i < ROWS; i++) {
        const struct daemon_option_row *row = &daemon_options[i];
        char left[48];
        char letter[8] = "";
        if (row->letter != '\0')
            (void)snprintf(letter, sizeof(letter), "-%c, ", row->letter);
        bool attached = row->argument != NULL && row->argument[0] == '[';
        (void)snprintf(left, sizeof(left), "%s--%s%s%s", letter, row->name,
                       row->argument != NULL && !attached ? " " : "",
                       row->argument != NULL ? row->argument : "");
        (void)fprintf(to, "  %-24s %s\n", left, row->help);
    }
    (void)fputs(
        "\nSIGHUP: read FILE again. A file with an error, or with a change that needs a restart, changes\n"
        "nothing; the log says why. CONFIG SET changes keys without the file, until the next SIGHUP or\n"
        "restart. CONFIG HELP says more.\n",
        to);
}

void describe_page(FILE *to, const char *name, const char *from)
{
    for (size_t i = 0; i < dashboard_file_count; i++) {
        const struct dashboard_file *f = &dashboard_files[i];
        const unsigned char *at =
            strcmp(f->name, name) == 0 ? memmem(f->bytes, f->length, from, strlen(from)) : NULL;
        if (at != NULL)
            (void)fwrite(at, 1, f->length - (size_t)(at - f->bytes), to);
    }
}
