/* SPDX-License-Identifier: MIT */
/* twinbloom, the command line: options, the table of commands, help. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "service/cli.h"

/* --- commands --- */

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
    WITH_RESTART = 1 << 19,
    WITH_TOKEN = 1 << 20,
    OFFLINE = 1 << 21, /* needs no service */
    GROWTH = WITH_CAPACITY | WITH_ERROR_RATE
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

static const struct command commands[] = {
    {"status", "[FILTER]", 0, 1, 0, "show all filters, or everything about one",
     "GEN is the generation that serves; FPR the expected rate of false positives now, and the promised one.",
     "twinbloom status short-link", cli_status},
    {"history", "FILTER", 1, 1, WITH_COUNT, "show the last rebuilds of a filter, the newest first",
     "TOOK is from start to end, with the grace time; GENERATION the one that served before, and the new one "
     "if "
     "it came\ninto use. The last 100 are kept; --json says more of each.",
     "twinbloom history short-link -n 5", cli_history},
    {"plan", "FILTER", 1, 1, GROWTH, "show what a rebuild would make, without making it",
     "The exit code is 1 if the plan does not fit into memory or would be refused.",
     "twinbloom plan short-link --capacity 5M", cli_plan},
    {"rebuild", "FILTER", 1, 1, GROWTH | WITH_HOLD | WITH_VERIFY | WITH_WAIT | WITH_DRY_RUN | WITH_RESTART,
     "build the other generation from the source and switch to it",
     "With --wait, follow the job to its end; the exit code is 1 if it failed, was aborted or rolled back. "
     "Ctrl-C leaves\n"
     "it running. With --hold it builds and verifies, and switches when \"twinbloom cutover\" says so; "
     "--wait "
     "then ends,\n"
     "with 0, when it has come so far. --dry-run starts nothing: it shows each step and what it costs; the "
     "exit code is 1\n"
     "if the rebuild would be refused.",
     "twinbloom rebuild short-link --hold --wait", cli_rebuild},
    {"cutover", "FILTER", 1, 1, 0, "let a rebuild that holds switch to what it has built",
     "Rows that came meanwhile are read first, and the generation is verified again. A rebuild that has not "
     "come so far\n"
     "will not hold.",
     "twinbloom cutover short-link", cli_control},
    {"rollback", "FILTER", 1, 1, 0, "go back to the generation before, within the grace time",
     "Both generations have taken every key since the build began, so nothing is lost. The rebuild holds "
     "afterwards:\n"
     "\"twinbloom cutover\" switches again, \"twinbloom abort\" ends it.",
     "twinbloom rollback short-link", cli_control},
    {"finish", "FILTER", 1, 1, 0, "end the grace time now: the old generation leaves",
     "After that a rollback is no longer possible.", "twinbloom finish short-link", cli_control},
    {"abort", "FILTER", 1, 1, 0, "stop the running job; the filter serves on as before",
     "After the cutover it is too late: see \"twinbloom help rollback\".", "twinbloom abort short-link",
     cli_control},
    {"pause", "FILTER", 1, 1, 0, "let the running job rest: no rows are read, nothing is switched",
     "Keys are added to both generations all the while. The grace time does not end before \"twinbloom "
     "resume\".",
     "twinbloom pause short-link", cli_control},
    {"resume", "FILTER", 1, 1, 0, "let a job that was paused go on", "", "twinbloom resume short-link",
     cli_control},
    {"throttle", "FILTER ROWS", 2, 2, 0, "limit the rows a second that the running job reads",
     "ROWS is a number such as 5000 or 5k; 0 or none lifts the limit. The next job begins without one.",
     "twinbloom throttle short-link 5k", cli_control},
    {"verify", "FILTER", 1, 1, WITH_FULL | WITH_WAIT,
     "look whether the keys of the source are in the filter, and how many others seem to be",
     "Keys that are missing are added. With --wait, follow it to its end; the exit code is 1 if it failed or "
     "was aborted.\n"
     "\"twinbloom status\" says what the last verification found.",
     "twinbloom verify short-link --full --wait", cli_verify},
    {"check", "FILTER [KEY...]", 1, SIZE_MAX, 0, "ask whether keys may be present",
     "Without keys they are read from standard input, one a line; blank lines are skipped. \"present\" may "
     "be wrong at\n"
     "the filter's error rate, \"absent\" is certain. The exit code is 1 if any key is absent.",
     "twinbloom check short-link a1b2c3", cli_check},
    {"add", "FILTER [KEY...]", 1, SIZE_MAX, 0, "add keys",
     "Without keys they are read from standard input, one a line; blank lines are skipped. \"present\" says "
     "that the key\n"
     "may have been there before.",
     "twinbloom add short-link < keys.txt", cli_add},
    {"import", "FILTER", 1, 1, WITH_KEYS | WITH_INPUT | GROWTH, "add many keys from a file or standard input",
     "Keys are read one a line, up to NULs, or from a column of CSV; empty ones are skipped. Keys that are "
     "refused are\n"
     "counted and the first few shown; the exit code is then 3. Ctrl-C says how to go on. --capacity and "
     "--error-rate are\n"
     "for a filter that is not there yet.",
     "twinbloom import short-link --csv code < links.csv", cli_import},
    {"dump", "FILTER", 1, 1, WITH_OUTPUT, "write a filter to a file or standard output",
     "It holds every key that was added before it began. Who has it can ask it for keys: keep it like the "
     "keys themselves.",
     "twinbloom dump short-link --output short-link.dump", cli_dump},
    {"restore", "FILTER", 1, 1, WITH_INPUT, "make a filter from a dump, under a name that is free",
     "It can be used when it is whole. A restore that was cut goes on where it stopped, within a day.",
     "twinbloom restore copy < short-link.dump", cli_restore},
    {"count", "FILTER", 1, 1, 0, "estimate from its bits how many keys a filter holds",
     "Keys that were added to more than one layer count in each; of a large filter a sample is looked at.",
     "twinbloom count short-link", cli_count},
    {"drop", "FILTER", 1, 1, WITH_YES, "delete a filter and all its keys",
     "One that is configured is refused: remove its section first. The exit code is 1 if there was none.",
     "twinbloom drop old-links --yes", cli_drop},
    {"passwd", "", 0, 0, WITH_TOKEN | OFFLINE, "make the hash of a password, for the configuration",
     "The password is asked for, or read from standard input. Put the hash into [user NAME] as password = "
     "..., or into\n"
     "[service] for the default user. With --token a new bearer token is made: its hash goes into [user "
     "NAME] as\n"
     "token = ...; the token itself is shown this once.",
     "twinbloom passwd", cli_passwd},
    {"help", "[COMMAND]", 0, 1, 0, "explain a command", "", "twinbloom help rebuild", NULL},
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

/* --- options --- */

static bool set_timeout(struct cli *cli, const char *value)
{
    double seconds;
    if (!number_double(value, strlen(value), &seconds) || !(seconds >= 0.001 && seconds <= 86400))
        return false;
    cli->timeout_ms = (unsigned)(seconds * 1000);
    return true;
}

static bool set_capacity(struct cli *cli, const char *value)
{
    return output_parse_count(value, &cli->capacity);
}

static bool set_count(struct cli *cli, const char *value)
{
    return output_parse_count(value, &cli->entries);
}

static bool set_error_rate(struct cli *cli, const char *value)
{
    double rate;
    cli->error_rate = value;
    return number_double(value, strlen(value), &rate) && rate > 0 && rate < 1;
}

static bool set_json(struct cli *cli, const char *value)
{
    (void)value;
    return cli->json = true;
}

static bool set_wait(struct cli *cli, const char *value)
{
    (void)value;
    return cli->wait = true;
}

static bool set_hold(struct cli *cli, const char *value)
{
    (void)value;
    return cli->hold = true;
}

static bool set_restart(struct cli *cli, const char *value)
{
    (void)value;
    return cli->restart = true;
}

static bool set_verify(struct cli *cli, const char *value)
{
    cli->full = strcmp(value, "full") == 0;
    return cli->full || strcmp(value, "sample") == 0;
}

static bool set_full(struct cli *cli, const char *value)
{
    (void)value;
    return cli->full = true;
}

static bool set_dry_run(struct cli *cli, const char *value)
{
    (void)value;
    return cli->dry_run = true;
}

static bool set_yes(struct cli *cli, const char *value)
{
    (void)value;
    return cli->yes = true;
}

static bool set_input(struct cli *cli, const char *value)
{
    cli->input = value;
    return value[0] != '\0';
}

static bool set_output(struct cli *cli, const char *value)
{
    cli->output = value;
    return value[0] != '\0';
}

static bool set_resume(struct cli *cli, const char *value)
{
    (void)value;
    return cli->resume = true;
}

static bool set_null(struct cli *cli, const char *value)
{
    (void)value;
    return cli->null = true;
}

static bool set_csv(struct cli *cli, const char *value)
{
    cli->csv = value;
    return value[0] != '\0' && strcmp(value, "0") != 0;
}

static bool set_skip(struct cli *cli, const char *value)
{
    return strcmp(value, "0") == 0 || output_parse_count(value, &cli->skip);
}

static bool set_no_create(struct cli *cli, const char *value)
{
    (void)value;
    return cli->no_create = true;
}

static bool set_help(struct cli *cli, const char *value)
{
    (void)value;
    return cli->help = true;
}

static bool set_version(struct cli *cli, const char *value)
{
    (void)value;
    return cli->version = true;
}

struct option_row {
    const char *letter; /* "": none */
    const char *name;
    const char *value; /* NULL: takes none */
    unsigned command;  /* WITH_...; 0: for all */
    bool early;        /* read before the others, which then override it */
    const char *help;
    bool (*set)(struct cli *cli, const char *value);
};

static const struct option_row options[] = {
    {"-h", "--host", "HOST", 0, false, "where twinbloomd listens (127.0.0.1)", cli_set_host},
    {"-p", "--port", "PORT", 0, false, "its port (6479)", cli_set_port},
    {"-u", "--url", "URL", 0, true,
     "both: redis://[user:password@]host:port, rediss:// with TLS, unix:///path (or TWINBLOOM_URL)",
     cli_set_url},
    {"-s", "--socket", "PATH", 0, false, "the service's socket in the file system instead", cli_set_socket},
    {"", "--user", "NAME", 0, false, "log in as this user; the password as below", cli_set_user},
    {"-a", "--password", "PASSWORD", 0, false, "others may see it in ps; TWINBLOOM_PASSWORD is safer",
     cli_set_password},
    {"", "--tls", NULL, 0, false, "speak TLS", cli_set_tls},
    {"", "--cacert", "FILE", 0, false, "authorities to trust, PEM; otherwise the system's", cli_set_ca},
    {"", "--cert", "FILE", 0, false, "a certificate to show, PEM", cli_set_cert},
    {"", "--key", "FILE", 0, false, "its private key, PEM", cli_set_key},
    {"", "--timeout", "SECONDS", 0, false, "how long to wait for an answer (10)", set_timeout},
    {"", "--json", NULL, 0, false, "print JSON", set_json},
    {"", "--capacity", "N", WITH_CAPACITY, false, "keys to make room for: 1000000, 1e6, 1M", set_capacity},
    {"", "--error-rate", "P", WITH_ERROR_RATE, false, "rate of false positives: 0.001, 1e-3", set_error_rate},
    {"-n", "--count", "N", WITH_COUNT, false, "how many to show (100)", set_count},
    {"", "--wait", NULL, WITH_WAIT, false, "stay until the job ends", set_wait},
    {"", "--hold", NULL, WITH_HOLD, false, "build, then wait for \"twinbloom cutover\"", set_hold},
    {"", "--restart", NULL, WITH_RESTART, false, "throw away what an unfinished job has built", set_restart},
    {"", "--verify", "MODE", WITH_VERIFY, false, "sample: some keys of the source; full: each of them",
     set_verify},
    {"", "--full", NULL, WITH_FULL, false, "look for every key of the source, not for a sample", set_full},
    {"", "--dry-run", NULL, WITH_DRY_RUN, false, "show what would be done, and do nothing", set_dry_run},
    {"-y", "--yes", NULL, WITH_YES, false, "do not ask", set_yes},
    {"", "--input", "FILE", WITH_INPUT, false, "read it instead of standard input", set_input},
    {"", "--output", "FILE", WITH_OUTPUT, false, "write it instead of standard output", set_output},
    {"", "--resume", NULL, WITH_OUTPUT, false, "go on with FILE, a dump that was cut", set_resume},
    {"-0", "--null", NULL, WITH_KEYS, false, "keys are separated by NUL", set_null},
    {"", "--csv", "COLUMN", WITH_KEYS, false,
     "keys are a column: its number from 1, or its name in the first record", set_csv},
    {"", "--skip", "N", WITH_KEYS, false, "pass over the first N keys", set_skip},
    {"", "--no-create", NULL, WITH_KEYS, false, "fail where the filter is not there", set_no_create},
    {"", "--token", NULL, WITH_TOKEN, false, "make a bearer token for HTTP instead", cli_set_token},
    {"", "--help", NULL, 0, false, "show help", set_help},
    {"", "--version", NULL, 0, false, "show the version", set_version},
};
enum { OPTIONS = sizeof(options) / sizeof(options[0]) };

/* --- help --- */

static void print_options(unsigned of_command, const char *title)
{
    static const struct table_column columns[] = {{NULL, false}, {NULL, false}};
    struct table t;
    table_init(&t, columns, 2);
    for (size_t i = 0; i < OPTIONS; i++) {
        const struct option_row *o = &options[i];
        if (of_command == 0 ? o->command != 0 : (o->command & of_command) == 0)
            continue;
        char left[64];
        (void)snprintf(left, sizeof(left), "  %s%s%s%s%s", o->letter, o->letter[0] == '\0' ? "" : ", ",
                       o->name, o->value == NULL ? "" : " ", o->value == NULL ? "" : o->value);
        table_cell(&t, COLOR_NONE, left);
        table_cell(&t, COLOR_NONE, o->help);
    }
    if (t.cells != 0)
        (void)printf("\n%s:\n", title);
    table_print(&t, stdout, false);
    table_fini(&t);
}

static void print_help(void)
{
    static const struct table_column columns[] = {{NULL, false}, {NULL, false}};
    (void)puts("usage: twinbloom COMMAND [ARGUMENTS] [OPTIONS]\n\nCommands:");
    struct table t;
    table_init(&t, columns, 2);
    for (size_t i = 0; i < COMMANDS; i++) {
        char left[64];
        (void)snprintf(left, sizeof(left), "  %s %s", commands[i].name, commands[i].arguments);
        table_cell(&t, COLOR_NONE, left);
        table_cell(&t, COLOR_NONE, commands[i].summary);
    }
    table_print(&t, stdout, false);
    table_fini(&t);
    print_options(0, "Options, anywhere (after -- all is taken as it is)");
    (void)puts(
        "\nExit codes:\n"
        "  0    all is well\n"
        "  1    the answer is no: a key is absent, a plan does not fit, a job failed, was aborted or rolled "
        "back,\n"
        "       a dump was cut or damaged\n"
        "  2    the command line is wrong\n"
        "  3    the service cannot be reached, or it answered with an error\n"
        "  130  interrupted\n\n"
        "NO_COLOR turns colours off. \"twinbloom help COMMAND\" says more about one.");
}

static void print_command_help(const struct command *c)
{
    (void)printf("usage: twinbloom %s %s%s\n\n%s\n", c->name, c->arguments,
                 (c->options & ~(unsigned)OFFLINE) == 0 ? "" : " [OPTIONS]", c->summary);
    if (c->details[0] != '\0')
        (void)printf("\n%s\n", c->details);
    if (c->options != 0)
        print_options(c->options, "Options");
    (void)printf("\nExample:\n  %s\n", c->example);
}

/* --- understanding the command line --- */

int cli_fail(enum cli_exit code, const char *format, ...)
{
    (void)fflush(stdout);
    (void)fputs("twinbloom: ", stderr);
    va_list ap;
    va_start(ap, format);
    (void)vfprintf(stderr, format, ap);
    va_end(ap);
    (void)fputc('\n', stderr);
    return code;
}

struct suggestion {
    const char *word;
    size_t distance;
};

static void consider(struct suggestion *best, const char *typed, const char *word)
{
    size_t distance = output_distance(typed, word);
    if (distance <= 2 && distance < strlen(word) / 2 + 1 && (best->word == NULL || distance < best->distance))
        *best = (struct suggestion){word, distance};
}

static int unknown(const char *what, const char *typed, struct suggestion s)
{
    struct buffer b = {0};
    output_escape(&b, typed, strlen(typed));
    (void)cli_fail(CLI_USAGE, "unknown %s \"%s\"%s%s%s", what, buffer_text(&b),
                   s.word == NULL ? "" : "; did you mean \"",
                   s.word == NULL ? "; see twinbloom --help" : s.word, s.word == NULL ? "" : "\"?");
    buffer_fini(&b);
    return CLI_USAGE;
}

static const struct command *find_command(const char *name)
{
    struct suggestion s = {NULL, 0};
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
        consider(&s, name, commands[i].name);
    }
    (void)unknown("command", name, s);
    return NULL;
}

/* --name=value too; @value gets what follows the =, or NULL. */
static const struct option_row *find_option(const char *word, const char **value)
{
    struct suggestion s = {NULL, 0};
    char name[64];
    size_t length = strcspn(word, "=");
    *value = word[length] == '=' && word[1] == '-' ? word + length + 1 : NULL;
    (void)snprintf(name, sizeof(name), "%.*s", (int)(*value == NULL ? strlen(word) : length), word);
    for (size_t i = 0; i < OPTIONS; i++) {
        if (strcmp(options[i].name, name) == 0 || strcmp(options[i].letter, name) == 0)
            return &options[i];
        consider(&s, name, options[i].name);
    }
    (void)unknown("option", word, s);
    if (word[1] != '-')
        (void)cli_fail(CLI_USAGE, "put -- before keys that begin with a dash");
    return NULL;
}

struct given { /* an option of this command line */
    const struct option_row *row;
    const char *value;
};

static bool apply(struct cli *cli, const struct given *given, size_t count, bool early)
{
    for (size_t i = 0; i < count; i++) {
        const struct option_row *o = given[i].row;
        if (o->early != early || o->set(cli, given[i].value))
            continue;
        (void)cli_fail(CLI_USAGE, "%s %s: expected %s: %s", o->name,
                       o->set == cli_set_password ? "***" : given[i].value, o->value, o->help);
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

/* Sort @argv into options (@given) and words (moved to the front of @argv); -1 if something is wrong. */
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
        (void)cli_fail(CLI_USAGE, "usage: twinbloom %s %s; see twinbloom help %s", c->name, c->arguments,
                       c->name);
        return false;
    }
    return true;
}

static int run_help(const char *topic)
{
    if (topic == NULL) {
        print_help();
        return CLI_OK;
    }
    const struct command *c = find_command(topic);
    if (c == NULL)
        return CLI_USAGE;
    print_command_help(c);
    return CLI_OK;
}

static int run(struct cli *cli, const char *name, const struct given *given, size_t given_count)
{
    if (cli->version) {
        (void)puts("twinbloom " TWINBLOOM_VERSION);
        return CLI_OK;
    }
    if (cli->help)
        return run_help(name);
    if (name == NULL)
        return cli_fail(CLI_USAGE, "a command is missing; see twinbloom --help");
    const struct command *c = find_command(name);
    if (c == NULL || !fits_command(c, cli, given, given_count))
        return CLI_USAGE;
    if (c->handler == NULL)
        return run_help(cli->count == 0 ? NULL : cli->arguments[0]);

    cli->command = c->name;
    if ((c->options & OFFLINE) != 0)
        return c->handler(cli);
    struct error e = {""};
    if (client_open(&cli->client, &cli->address, cli->timeout_ms, &e) != ERR_OK)
        return cli_fail(CLI_UNAVAILABLE, "%s", e.text);
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
    struct cli cli = {.address = {.host = "127.0.0.1", .port = CLIENT_PORT}, .timeout_ms = 10000};
    cli.terminal = isatty(STDOUT_FILENO) == 1;
    cli.color = wants_color(cli.terminal);

    struct given *given = calloc((size_t)argc + 1, sizeof(*given));
    if (given == NULL)
        return cli_fail(CLI_UNAVAILABLE, "no memory");
    size_t given_count = 0;
    int code = CLI_USAGE;
    int words = sort_arguments(argc, argv, given, &given_count);
    if (words >= 0 && apply_environment(&cli) && apply(&cli, given, given_count, true) &&
        apply(&cli, given, given_count, false)) {
        cli.arguments = argv + 1;
        cli.count = words > 0 ? (size_t)words - 1 : 0;
        code = run(&cli, words > 0 ? argv[0] : NULL, given, given_count);
    }
    free(given);
    if (fflush(stdout) != 0 && code == CLI_OK)
        code = cli_fail(CLI_UNAVAILABLE, "standard output could not be written");
    return code;
}
