/* SPDX-License-Identifier: MIT */
/* twinbloom, the command line: parses commands and options by their tables, and calls a handler. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/glob.h"
#include "base/standard_files.h"
#include "service/cli/cli_table.h"

enum { COMPLETE_MS = 1000 /* the shell and its user wait */ };

struct suggestion {
    const char *word;
    size_t distance;
};

static void consider(struct suggestion *best, const char *typed, const char *word)
{
    size_t distance = glob_distance(typed, word);
    if (distance <= 2 && distance < strlen(word) / 2 + 1 && (best->word == NULL || distance < best->distance))
        *best = (struct suggestion){word, distance};
}

static int unknown(const char *what, const char *typed, struct suggestion s)
{
    SCOPED(buffer_fini) struct buffer b = {0};
    output_escape(&b, typed, strlen(typed));
    return cli_fail(CLI_USAGE, "unknown %s \"%s\"%s%s%s", what, buffer_text(&b),
                    s.word == NULL ? "" : "; did you mean \"",
                    s.word == NULL ? "; see twinbloom --help" : s.word, s.word == NULL ? "" : "\"?");
}

static const struct command *find_command(const char *name)
{
    struct suggestion s = {NULL, 0};
    for (size_t i = 0; i < cli_command_count; i++) {
        if (strcmp(cli_command_table[i].name, name) == 0)
            return &cli_command_table[i];
        consider(&s, name, cli_command_table[i].name);
    }
    (void)unknown("command", name, s);
    return NULL;
}

/* Also finds --name=value; @value gets the text behind the '=', or NULL. */
static const struct option_row *find_option(const char *word, const char **value)
{
    struct suggestion s = {NULL, 0};
    char name[64];
    size_t length = strcspn(word, "=");
    *value = word[length] == '=' && word[1] == '-' ? word + length + 1 : NULL;
    (void)snprintf(name, sizeof(name), "%.*s", (int)(*value == NULL ? strlen(word) : length), word);
    for (size_t i = 0; i < cli_option_count; i++) {
        if (strcmp(cli_option_table[i].name, name) == 0 || strcmp(cli_option_table[i].letter, name) == 0)
            return &cli_option_table[i];
        consider(&s, name, cli_option_table[i].name);
    }
    (void)unknown(word[1] == '-' ? "option" : "option (put -- before keys that begin with a dash)", word, s);
    return NULL;
}

struct given { /* an option that was given */
    const struct option_row *row;
    const char *value;
};

static bool apply(struct cli *cli, const struct given *given, size_t count, bool early)
{
    for (size_t i = 0; i < count; i++) {
        const struct option_row *o = given[i].row;
        if (o->early != early || cli_option_set(cli, o, given[i].value))
            continue;
        if (o->to.set != cli_set_url) /* which has said it, without the password */
            (void)cli_fail(CLI_USAGE, "%s %s: expected %s: %s", o->name,
                           o->to.set == cli_set_password ? "***" : given[i].value, o->value, o->help);
        return false;
    }
    return true;
}

static bool apply_environment(struct cli *cli)
{
    const char *url = getenv("TWINBLOOM_URL");
    const char *password = getenv("TWINBLOOM_PASSWORD");
    if (url != NULL && url[0] != '\0' && !cli_set_url(cli, url))
        return false;
    return password == NULL || cli_set_password(cli, password);
}

/* Split @argv into options (@given) and words (moved to the front of @argv); -1: an option is invalid. */
static int sort_arguments(int argc, char **argv, struct given *given, size_t *given_count)
{
    int words = 0;
    bool all_words = false;
    for (int i = 1; i < argc; i++) {
        if (all_words || argv[i][0] != '-' || argv[i][1] == '\0') {
            argv[words++] = argv[i];
            continue;
        }
        if (strcmp(argv[i], "--") == 0) {
            all_words = true;
            continue;
        }
        const char *value;
        const struct option_row *o = find_option(argv[i], &value);
        if (o == NULL)
            return -1;
        if (o->value == NULL && value != NULL)
            return -cli_fail(CLI_USAGE, "%s takes no value", o->name);
        if (o->value != NULL && value == NULL && i + 1 == argc)
            return -cli_fail(CLI_USAGE, "%s needs %s%s", argv[i], o->value,
                             strcmp(argv[i], "-h") == 0 ? " (for help: --help)" : "");
        if (o->value != NULL && value == NULL)
            value = argv[++i];
        given[(*given_count)++] = (struct given){o, value};
    }
    return words;
}

static bool fits_command(const struct command *c, const struct cli *cli, const struct given *given,
                         size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (given[i].row->command != 0 && (given[i].row->command & c->options) == 0) {
            (void)cli_fail(CLI_USAGE, "%s has no option %s", c->name, given[i].row->name);
            return false;
        }
    if (cli->count < c->least || cli->count > c->most) {
        (void)cli_fail(CLI_USAGE, "usage: twinbloom %s%s%s; see twinbloom help %s", c->name,
                       c->arguments[0] == '\0' ? "" : " ", c->arguments, c->name);
        return false;
    }
    if (cli->count > 0 && cli->arguments[0][0] == '\0' && strstr(c->arguments, "FILTER") != NULL) {
        (void)cli_fail(CLI_USAGE, "the name of the filter is empty");
        return false;
    }
    return true;
}

static int run_help(const struct cli *cli, const char *topic)
{
    const struct command *c = NULL;
    if (cli->man)
        (void)fputs(embedded_twinbloom, stdout);
    else if (cli->markdown)
        (void)fputs(strchr(embedded_cli, '\n') + 1, stdout); /* without the "generated" line */
    else if (topic == NULL)
        cli->json ? reference_json() : cli_print_help();
    else if ((c = find_command(topic)) != NULL)
        cli_print_command_help(c);
    else
        return CLI_USAGE;
    return CLI_OK;
}

static int run(struct cli *cli, const char *name, const struct given *given, size_t given_count)
{
    if (cli->version) {
        (void)puts("twinbloom " TWINBLOOM_VERSION);
        return CLI_OK;
    }
    if (cli->help)
        return run_help(cli, name);
    if (name == NULL)
        return cli_fail(CLI_USAGE, "a command is missing; see twinbloom --help");
    const struct command *c = find_command(name);
    if (c == NULL || !fits_command(c, cli, given, given_count))
        return CLI_USAGE;
    if (c->handler == NULL)
        return run_help(cli, cli->count == 0 ? NULL : cli->arguments[0]);

    cli->command = c->name;
    bool estimate = (c->options & WITH_ESTIMATE) != 0 && (cli->count == 0 || cli->estimate.given != NULL);
    if ((c->options & OFFLINE) != 0 || estimate)
        return c->handler(cli);
    struct error e = {""};
    enum err opened = client_open(&cli->client, &cli->address, cli->timeout_ms, &e);
    if (opened != ERR_OK)
        return cli_fail_with(opened, "%s", e.text);
    int code = c->handler(cli);
    client_close(cli->client);
    return code;
}

static bool wants_color(bool terminal)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return terminal && (no_color == NULL || no_color[0] == '\0') && term != NULL && strcmp(term, "dumb") != 0;
}

int main(int argc, char **argv)
{
    struct cli cli = {.address = {.host = "127.0.0.1", .port = CLIENT_PORT},
                      .timeout_ms = 10000,
                      .interval = 2,
                      .bench = {.adds = 0.1, .batch = 1, .pipeline = 1, .connections = 8, .key_size = 16}};
    standard_files_fill();
    cli.terminal = isatty(STDOUT_FILENO) == 1;
    cli.color = wants_color(cli.terminal);

    if (argc > 1 && strcmp(argv[1], "__complete") == 0) {
        cli.timeout_ms = COMPLETE_MS;
        return apply_environment(&cli) ? cli_complete(&cli, argv + 2, (size_t)argc - 2) : CLI_USAGE;
    }
    struct given *given = calloc((size_t)argc + 1, sizeof(*given));
    if (given == NULL)
        return cli_fail_with(ERR_NOMEM, "out of memory");
    size_t given_count = 0;
    int code = CLI_USAGE;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0;
         i++) /* first, so that errors of other options have the right form */
        if (strcmp(argv[i], "--json") == 0)
            cli_errors_as_json();
    int words = sort_arguments(argc, argv, given, &given_count);
    if (words >= 0 && apply_environment(&cli) && apply(&cli, given, given_count, true) &&
        apply(&cli, given, given_count, false)) {
        cli.arguments = argv + 1;
        cli.count = words > 0 ? (size_t)words - 1 : 0;
        code = run(&cli, words > 0 ? argv[0] : NULL, given, given_count);
    }
    free(given);
    if ((fflush(stdout) != 0 || ferror(stdout) != 0) && code == CLI_OK)
        code = cli_fail_with(ERR_IO, "standard output could not be written");
    return code;
}
