/* SPDX-License-Identifier: MIT */
/* Compares the pages of docs/reference and docs/man with the tables in the code. Each row of a table has an
 * entry, and the daemon writes the same pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/commands/command.h"
#include "service/config/config_keys.h"
#include "service/daemon/daemon_options.h"
#include "service/http/http_route.h"
#include "service/metrics/metrics_table.h"

/* Returns what @write writes; the caller frees the text. */
static char *text_of(void (*write)(FILE *to))
{
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    assert_non_null(to);
    write(to);
    assert_int_equal(fclose(to), 0);
    return text;
}

/* Read a page of the tree; the caller frees the text. */
static char *page(const char *name)
{
    char path[1024];
    (void)snprintf(path, sizeof(path), "%s/%s", DOCS_REFERENCE, name);
    FILE *from = fopen(path, "r");
    if (from == NULL)
        fail_msg("there is no %s", path);
    assert_non_null(from);
    char *text = NULL;
    size_t room = 0;
    assert_true(getdelim(&text, &room, '\0', from) > 0);
    (void)fclose(from);
    return text;
}

/* The section of @text from @heading to the next heading. @text ends there afterwards. */
static const char *section_of(char *text, const char *heading)
{
    char *at = strstr(text, heading);
    if (at == NULL) {
        fail_msg("there is no %s", heading);
        abort();
    }
    char *next = strstr(at + 1, "\n## ");
    if (next != NULL)
        *next = '\0';
    return at;
}

static void test_configuration__has_every_key_in_its_section(void **state)
{
    (void)state;
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        char *text = page("configuration.md"), heading[64], row[64];
        (void)snprintf(heading, sizeof(heading), "## [%s", config_section_name(k->section));
        (void)snprintf(row, sizeof(row), "\n| `%s` |", k->name);
        if (strstr(section_of(text, heading), row) == NULL)
            fail_msg("%s lacks %s: run docs/generate", heading, k->name);
        free(text);
    }
}

static void test_commands__has_every_command_with_its_arguments(void **state)
{
    (void)state;
    char *text = page("commands.md");
    for (size_t i = 0; i < command_count; i++) {
        char row[64];
        (void)snprintf(row, sizeof(row), "\n| `%s%s", command_table[i].name,
                       *command_table[i].arguments != '\0' ? " " : "`");
        if (strstr(text, row) == NULL)
            fail_msg("commands.md lacks %s: run docs/generate", command_table[i].name);
    }
    free(text);
}

static void test_commands__has_no_subcommand_that_does_not_run(void **state)
{
    (void)state;
    for (size_t i = 0; i < command_subcommand_count; i++)
        if (command_subcommands[i].word[0] != '\0' && command_subcommands[i].run == NULL)
            fail_msg("%s does not run", command_subcommands[i].name);
}

static void test_http__has_every_route_and_its_operation(void **state)
{
    (void)state;
    char *text = page("http.md");
    for (size_t i = 0; i < http_route_count; i++) {
        char row[128];
        if (http_routes[i].run == http_dashboard)
            continue; /* a page, not part of the interface */
        (void)snprintf(row, sizeof(row), "\n| `%s %s` |", http_routes[i].method, http_routes[i].pattern);
        char *at = strstr(text, row);
        if (at == NULL) {
            fail_msg("http.md lacks %s %s: run docs/generate", http_routes[i].method, http_routes[i].pattern);
            abort();
        }
        /* Without an operation in openapi.json, the row would have no status codes. */
        assert_non_null(memmem(at, strcspn(at + 1, "\n"), " 20", 3));
    }
    free(text);
}

static void write_commands(FILE *to)
{
    describe_page(to, "commands.md", "# ");
}

static void write_metrics(FILE *to)
{
    describe_page(to, "metrics.md", "| metric");
}

static void write_config_man(FILE *to)
{
    (void)fputs(embedded_twinbloom, to);
}

static void write_daemon_man(FILE *to)
{
    (void)fputs(embedded_twinbloomd, to);
}

/* Each page is compared from its first generated line on. */
static void test_describe__writes_the_pages_of_the_tree(void **state)
{
    (void)state;
    char *written[] = {text_of(write_commands), text_of(write_metrics), text_of(write_config_man),
                       text_of(write_daemon_man)};
    char *pages[] = {page("commands.md"), page("metrics.md"), page("../man/twinbloom.conf.5"),
                     page("../man/twinbloomd.8")};
    const char *const from[] = {"# Commands\n", "| metric | type |", ".\\\"", ".\\\""};
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        const char *at = strstr(pages[i], from[i]);
        assert_non_null(at);
        assert_string_equal(written[i], at);
        free(written[i]);
        free(pages[i]);
    }
}

/* True if a row of the table in @text names @key. @refused: it must be the row of the keys that need a
 * restart; otherwise another row. */
static bool is_named(const char *text, const char *key, bool refused)
{
    char alone[64], dotted[64];
    (void)snprintf(alone, sizeof(alone), "`%s`", key);
    (void)snprintf(dotted, sizeof(dotted), ".%s`", key);
    for (const char *row = strstr(text, "\n| `"); row != NULL; row = strstr(row + 1, "\n| `")) {
        size_t length = strcspn(row + 1, "\n") + 1;
        bool named = memmem(row, length, alone, strlen(alone)) != NULL ||
                     memmem(row, length, dotted, strlen(dotted)) != NULL;
        static const char last[] = "a reload that changes one fails |";
        if (named && (memmem(row, length, last, sizeof(last) - 1) != NULL) == refused)
            return true;
    }
    return false;
}

static void test_howto__says_when_each_key_takes_effect(void **state)
{
    (void)state;
    char *text = page("../howto/change-the-configuration.md");
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        bool reloadable = (k->flags & CONFIG_RELOADABLE) != 0;
        if (!is_named(text, k->name, !reloadable))
            fail_msg("change-the-configuration.md lacks %s.%s, which %s", config_section_name(k->section),
                     k->name, reloadable ? "may be reloaded" : "needs a restart");
    }
    free(text);
}

static void test_metrics__has_every_metric(void **state)
{
    (void)state;
    static const char *const names[] = {
#define X(id, type, name, ...) name,
        METRICS(X)
#undef X
    };
    char *text = page("metrics.md");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char row[96];
        (void)snprintf(row, sizeof(row), "\n| `%s` |", names[i]);
        if (strstr(text, row) == NULL)
            fail_msg("metrics.md lacks %s: run docs/generate", names[i]);
    }
    free(text);
}

static void test_manual__has_every_key_and_option(void **state)
{
    (void)state;
    char *keys = text_of(write_config_man), *options = text_of(write_daemon_man);
    for (size_t i = 0; i < config_key_count; i++) {
        char row[64];
        (void)snprintf(row, sizeof(row), "\n.B %s\n", config_keys[i].name);
        if (strstr(keys, row) == NULL)
            fail_msg("twinbloom.conf(5) lacks %s", config_keys[i].name);
    }
    for (size_t i = 0; i < daemon_option_count; i++) {
        char name[64];
        size_t n = 0;
        for (const char *p = daemon_options[i].name; *p != '\0' && n + 3 < sizeof(name); p++) {
            if (*p == '-')
                name[n++] = '\\';
            name[n++] = *p;
        }
        name[n] = '\0';
        if (strstr(options, name) == NULL)
            fail_msg("twinbloomd(8) lacks --%s", daemon_options[i].name);
    }
    free(keys);
    free(options);
}

/* Each row has four cells, whatever the help texts contain. */
static void test_metrics__is_a_table(void **state)
{
    (void)state;
    char *text = text_of(write_metrics);
    size_t lines = 0;
    for (char *rest = NULL, *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest), lines++) {
        size_t bars = 0;
        for (const char *p = line; *p != '\0'; p++)
            bars += *p == '|' && (p == line || p[-1] != '\\');
        assert_int_equal(bars, 5);
    }
    assert_int_equal(lines, METRIC_COUNT + 2);
    free(text);
}

static void test_options__are_read_and_refused(void **state)
{
    (void)state;
    struct daemon_wish wish;
    char name[] = "twinbloomd", c[] = "-c", file[] = "x.conf", check[] = "--check-config", more[] = "more",
         man[] = "--describe-config=man";
    char *serve[] = {name, c, file, NULL}, *checks[] = {name, check, c, file, NULL},
         *wrong[] = {name, c, file, more, NULL}, *form[] = {name, man, NULL};
    assert_int_equal(daemon_options_read(3, serve, &wish), 0);
    assert_string_equal(wish.config, "x.conf");
    assert_int_equal(wish.wish, DAEMON_NONE);
    assert_int_equal(daemon_options_read(4, checks, &wish), 0);
    assert_int_equal(wish.wish, DAEMON_CHECK_CONFIG);
    assert_int_equal(daemon_options_read(2, form, &wish), 0);
    assert_int_equal(wish.wish, DAEMON_DESCRIBE_CONFIG);
    assert_string_equal(wish.form, "man");
    assert_int_equal(daemon_options_read(4, wrong, &wish), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_configuration__has_every_key_in_its_section),
        cmocka_unit_test(test_commands__has_every_command_with_its_arguments),
        cmocka_unit_test(test_commands__has_no_subcommand_that_does_not_run),
        cmocka_unit_test(test_http__has_every_route_and_its_operation),
        cmocka_unit_test(test_describe__writes_the_pages_of_the_tree),
        cmocka_unit_test(test_howto__says_when_each_key_takes_effect),
        cmocka_unit_test(test_metrics__has_every_metric),
        cmocka_unit_test(test_metrics__is_a_table),
        cmocka_unit_test(test_manual__has_every_key_and_option),
        cmocka_unit_test(test_options__are_read_and_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
