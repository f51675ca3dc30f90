/* SPDX-License-Identifier: MIT */
/* The documents that the command line makes from its tables: help, a manual page, Markdown, JSON,
 * completion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { TEXT_MAX = 262144 };

/* The output of a line of bash, which must exit with @code. The caller frees it. */
static char *output_of(const char *line, int code)
{
    char *text = calloc(1, TEXT_MAX), *command = calloc(1, 4096);
    assert_non_null(text);
    assert_non_null(command);
    (void)snprintf(command, 4096, "T='%s'; %s", TWINBLOOM_CLI, line);
    assert_int_equal(setenv("LINE", command, 1), 0);
    FILE *pipe = popen("env -u TWINBLOOM_URL -u TWINBLOOM_PASSWORD bash -c \"$LINE\" 2>&1 </dev/null", "r");
    assert_non_null(pipe);
    size_t n = fread(text, 1, TEXT_MAX - 1, pipe);
    text[n] = '\0';
    int status = pclose(pipe);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code)
        fail_msg("%s: %s", line, text);
    free(command);
    return text;
}

static void expect(const char *line, const char *expected)
{
    char *text = output_of(line, 0);
    assert_string_equal(text, expected);
    free(text);
}

static json_t *reference(void)
{
    char *text = output_of("$T help --json", 0);
    json_error_t error;
    json_t *all = json_loads(text, 0, &error);
    if (all == NULL)
        fail_msg("%s at %d", error.text, error.position);
    free(text);
    return all;
}

static const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static void test_help__has_an_example_and_all_options_of_each_command(void **state)
{
    (void)state;
    json_t *all = reference(), *command, *option;
    size_t i, k;
    char line[256], example[128];
    json_array_foreach(json_object_get(all, "commands"), i, command)
    {
        (void)snprintf(line, sizeof(line), "$T help %s", text_of(command, "name"));
        (void)snprintf(example, sizeof(example), "twinbloom %s", text_of(command, "name"));
        char *help = output_of(line, 0);
        const char *examples = strstr(help, "\nExample");
        if (examples == NULL ||
            (strstr(examples, example) == NULL && strcmp(text_of(command, "name"), "completion") != 0))
            fail_msg("no example:\n%s", help);
        json_array_foreach(json_object_get(command, "options"), k, option)
            assert_non_null(strstr(help, text_of(option, "name")));
        assert_true(json_array_size(json_object_get(command, "examples")) > 0);
        free(help);
    }
    json_decref(all);
}

/* Markdown and the manual page contain everything. */
static void test_reference__leaves_nothing_out(void **state)
{
    (void)state;
    json_t *all = reference(), *command, *option;
    size_t i, k;
    char heading[128];
    char *markdown = output_of("$T help --markdown", 0), *page = output_of("$T help --man", 0);
    char *plain = output_of("$T help --man | MANWIDTH=80 man -l - | col -bx", 0);
    json_array_foreach(json_object_get(all, "commands"), i, command)
    {
        (void)snprintf(heading, sizeof(heading), "\n### %s\n", text_of(command, "name"));
        assert_non_null(strstr(markdown, heading));
        (void)snprintf(heading, sizeof(heading), "twinbloom %s", text_of(command, "name"));
        assert_non_null(strstr(plain, heading));
        json_array_foreach(json_object_get(command, "options"), k, option)
        {
            assert_non_null(strstr(markdown, text_of(option, "name")));
            assert_non_null(strstr(plain, text_of(option, "name")));
        }
    }
    assert_non_null(strstr(markdown, "## Exit codes"));
    assert_non_null(strstr(markdown, "`rebuild_expected_at` | number or null"));
    free(markdown);
    free(page);
    free(plain);
    json_decref(all);
}

static void test_page__is_clean(void **state)
{
    (void)state;
    expect("$T help --man | mandoc -T lint -W style", "");
    expect("$T help --man | LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z - "
           "2>&1 "
           ">/dev/null",
           "");
}

/* The words that bash would offer at the end of a line. */
#define COMPLETE(words)                                                                                      \
    "source <($T completion bash); twinbloom() { $T \"$@\"; }; COMP_WORDS=(" words                           \
    "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _twinbloom; printf '%s\\n' \"${COMPREPLY[@]}\""

static void test_completion_bash__offers_what_the_tables_have(void **state)
{
    (void)state;
    expect(COMPLETE("twinbloom reb"), "rebuild\n");
    expect(COMPLETE("twinbloom re"), "rebuild\nresume\nrestore\n");
    expect(COMPLETE("twinbloom -p 7 --tls help has"), "hash-password\n"); /* 7 is not taken for a command */
    expect(COMPLETE("twinbloom rebuild f --w"), "--wait\n");
    expect(COMPLETE("twinbloom status f --w"), "\n");
    expect(COMPLETE("twinbloom rebuild f --verify ''"), "sample\nfull\n");
    expect(COMPLETE("twinbloom completion ''"), "bash\nzsh\nfish\n");
    expect(COMPLETE("twinbloom config s"), "show\nset\n");
    expect(COMPLETE("twinbloom -p 1 status ''"), "\n"); /* no coordinator answers */
    expect("cd /; " COMPLETE("twinbloom import f -i us"), "usr\n");
}

/* The words that fish would offer at the end of @line. */
#define FISH(line)                                                                                           \
    "PATH=$(dirname $T):$PATH fish -Nc \"twinbloom completion fish | source; complete -C '" line             \
    "'\" | cut -f1"

static void test_completion__is_sound_for_its_shell(void **state)
{
    (void)state;
    expect("$T completion bash | bash -n", "");
    expect("$T completion zsh > /dev/null && zsh -nf <($T completion zsh)", "");
    /* The words that zsh's completion offers, as the shell would get them. */
    expect("zsh -fc 'compdef() { : }; compadd() { : }; _describe() { print -l $found }; source =('$T' "
           "completion "
           "zsh); words=('$T' \"\"); CURRENT=2; _twinbloom' | grep -c '^rebuild:'",
           "1\n");
    expect("zsh -fc 'compdef() { : }; _files() { print files }; source =('$T' completion zsh); "
           "words=('$T' import f -i us); CURRENT=5; _twinbloom'",
           "files\n");
    expect("$T completion fish > /dev/null && fish -n <($T completion fish)", "");
    expect(FISH("twinbloom reb"), "rebuild\n");
    expect(FISH("twinbloom rebuild f --verify "), "full\nsample\n");
    expect(FISH("twinbloom rebuild f --w"), "--wait\n");
    expect("cd /; " FISH("twinbloom import f -i us"), "usr/\n");
    char *text = output_of("$T completion tcsh", 2);
    assert_non_null(strstr(text, "give bash, zsh or fish"));
    free(text);
}

static void test_color__is_for_terminals(void **state)
{
    (void)state;
    static const char plan[] = "$T plan --keys 1e6 --error-rate 0.01 --node-memory 1GiB";
    char line[512];
    (void)snprintf(line, sizeof(line), "%s | grep -c $'\\033'; true", plan);
    expect(line, "0\n");
    (void)snprintf(line, sizeof(line),
                   "TERM=xterm script -qec \"%s\" /dev/null | grep -c $'\\033' | grep -v '^0'; true", plan);
    char *text = output_of(line, 0);
    assert_true(strlen(text) > 1);
    free(text);
    (void)snprintf(line, sizeof(line),
                   "NO_COLOR=1 TERM=xterm script -qec \"%s\" /dev/null | grep -c $'\\033'; true", plan);
    expect(line, "0\n");
    (void)snprintf(line, sizeof(line), "TERM=dumb script -qec \"%s\" /dev/null | grep -c $'\\033'; true",
                   plan);
    expect(line, "0\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help__has_an_example_and_all_options_of_each_command),
        cmocka_unit_test(test_reference__leaves_nothing_out),
        cmocka_unit_test(test_page__is_clean),
        cmocka_unit_test(test_completion_bash__offers_what_the_tables_have),
        cmocka_unit_test(test_completion__is_sound_for_its_shell),
        cmocka_unit_test(test_color__is_for_terminals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
