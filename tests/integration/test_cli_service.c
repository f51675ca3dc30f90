/* SPDX-License-Identifier: MIT */
/* The command line against a real service: the output of each command with --json matches the reference;
 * config, bench, the names of filters for completion, and top in a terminal. */
#include "tests/integration/fixture.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { ROWS = 5000, CAPACITY = 10000, TEXT_MAX = 262144, PATIENCE_S = 60 };

static struct fixture fixture;

/* The output of a line of the shell, in which $T is the command line. The caller frees it. */
static char *run(const char *line, int *code)
{
    char *text = calloc(1, TEXT_MAX), command[2048];
    assert_non_null(text);
    (void)snprintf(
        command, sizeof(command),
        "unset TWINBLOOM_PASSWORD; export P=%u T='%s'; export TWINBLOOM_URL=redis://127.0.0.1:$P; %s",
        fixture.client[0].port, TWINBLOOM_CLI, line);
    assert_int_equal(setenv("LINE", command, 1), 0);
    FILE *pipe = popen("bash -c \"$LINE\" </dev/null", "r");
    assert_non_null(pipe);
    size_t n = fread(text, 1, TEXT_MAX - 1, pipe);
    text[n] = '\0';
    int status = pclose(pipe);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return text;
}

static char *output_of(const char *line, int wanted)
{
    int code;
    char *text = run(line, &code);
    if (code != wanted)
        fail_msg("%s: code %d\n%s", line, code, text);
    return text;
}

static void assert_says(const char *line, int code, const char *part)
{
    char *text = output_of(line, code);
    if (strstr(text, part) == NULL)
        fail_msg("%s:\n%s", line, text);
    free(text);
}

/* Wait until no job is left. */
static void quiet(void)
{
    fixture_wait(&fixture, 0, "phase", "STEADY");
    fixture_wait(&fixture, 0, "mutex_owner", "");
}

/* --- what the reference says of JSON --- */

static const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static bool has_type(const json_t *value, const char *types)
{
    if (json_is_null(value))
        return strstr(types, "null") != NULL;
    if (json_is_string(value))
        return strncmp(types, "string", 6) == 0;
    if (json_is_integer(value))
        return strstr(types, "integer") != NULL || strstr(types, "number") != NULL;
    if (json_is_real(value))
        return strstr(types, "number") != NULL;
    if (json_is_boolean(value))
        return strstr(types, "boolean") != NULL;
    return json_is_array(value) && strncmp(types, "array", 5) == 0;
}

static const json_t *member_of(const json_t *shape, const char *name)
{
    size_t i;
    json_t *m;
    json_array_foreach(json_object_get(shape, "members"), i, m)
    {
        if (strcmp(text_of(m, "name"), name) == 0)
            return m;
    }
    return NULL;
}

static void check_object(const char *what, json_t *object, const json_t *shape)
{
    const char *name;
    json_t *value, *m;
    size_t i;
    if (!json_is_object(object))
        fail_msg("%s: no object", what);
    json_object_foreach(object, name, value)
    {
        const json_t *member = member_of(shape, name);
        if (member == NULL)
            fail_msg("%s: %s is not in the reference", what, name);
        if (!has_type(value, text_of(member, "type")))
            fail_msg("%s: %s is no %s: %s", what, name, text_of(member, "type"),
                     json_dumps(value, JSON_ENCODE_ANY));
        json_t *inner = json_object_get(member, "shape");
        for (i = 0; inner != NULL && i < json_array_size(value); i++)
            check_object(name, json_array_get(value, i), inner);
    }
    json_array_foreach(json_object_get(shape, "members"), i, m)
    {
        if (json_is_true(json_object_get(m, "always")) && json_object_get(object, text_of(m, "name")) == NULL)
            fail_msg("%s: %s is missing", what, text_of(m, "name"));
    }
}

static json_t *parsed(const char *what, const char *text)
{
    json_error_t error;
    json_t *value = json_loads(text, 0, &error);
    if (value == NULL)
        fail_msg("%s: %s: %s", what, error.text, text);
    return value;
}

static json_t *reference; /* the output of help --json */

static const json_t *command_of(const char *name)
{
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(reference, "commands"), i, c)
    {
        if (strcmp(text_of(c, "name"), name) == 0)
            return c;
    }
    fail_msg("no command %s", name);
    return NULL;
}

/* The output of @line must match the @form-th output of @command in the reference. */
static void check_output(const char *line, const char *command, size_t form, int code)
{
    char *text = output_of(line, code);
    json_t *value = parsed(line, text);
    json_t *output = json_array_get(json_object_get(command_of(command), "json"), form);
    assert_non_null(output);
    if (json_is_true(json_object_get(output, "array"))) {
        assert_true(json_is_array(value));
        assert_true(json_array_size(value) > 0);
        for (size_t i = 0; i < json_array_size(value); i++)
            check_object(line, json_array_get(value, i), output);
    } else {
        check_object(line, value, output);
    }
    json_decref(value);
    free(text);
}

static void test_json__is_what_the_reference_says(void **state)
{
    (void)state;
    static const struct {
        const char *line, *command;
        size_t form;
        int code;
    } cases[] = {
        {"$T status --json", "status", 0, 0},
        {"$T status short-link --json", "status", 1, 0},
        {"$T history short-link --json", "history", 0, 0},
        {"$T coordinators --json", "coordinators", 0, 0},
        {"$T nodes --json", "nodes", 0, 0},
        {"$T create made --capacity 1000 --error-rate 0.01 --json", "create", 0, 0},
        {"$T delete made --yes --json", "delete", 0, 0},
        /* Its view may be read a moment later. */
        {"until $T coordinators short-link > /dev/null; do sleep 0.1; done; $T coordinators short-link "
         "--json",
         "coordinators", 0, 0},
        {"$T plan short-link --json", "plan", 0, 0},
        {"$T plan --keys 1e9 --error-rate 0.01 --node-memory 8GiB --build-memory 1GiB --json", "plan", 1, 0},
        {"$T rebuild short-link --dry-run --json", "rebuild", 2, 0},
        {"$T rebuild short-link --hold --json", "rebuild", 0, 0},
        {"$T throttle short-link 5k --json", "throttle", 0, 0},
        {"$T pause short-link --json", "pause", 0, 0},
        {"$T status --json", "status", 0, 0}, /* during a job */
        {"$T resume short-link --json", "resume", 0, 0},
        {"$T abort short-link --yes --json", "abort", 0, 0},
        {"$T add seen a b --json", "add", 0, 0},
        {"$T add seen $'q\\xff' --json", "add", 0, 0},
        {"$T check seen a nothing --json", "check", 0, 1},
        {"printf 'x\\ny\\n\\n' | $T import seen --json", "import", 0, 0},
        {"$T count seen --json", "count", 0, 0},
        {"$T dump seen | $T restore copy --json", "restore", 0, 0},
        {"$T delete copy --yes --json", "delete", 0, 0},
        {"$T config show --json", "config", 0, 0},
        {"$T config get filter.short-link.growth --json", "config", 0, 0},
        {"$T config set filter.short-link.growth 1.5 --json", "config", 0, 0},
        {"$T hash-password --json <<< secret", "hash-password", 0, 0},
        {"$T hash-password --token --json", "hash-password", 1, 0},
        {"$T bench --requests 200 --keys 100 --json", "bench", 0, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check_output(cases[i].line, cases[i].command, cases[i].form, cases[i].code);
        if (strcmp(cases[i].command, "rebuild") == 0 && cases[i].form == 0)
            fixture_wait(&fixture, 0, "job_step", "hold");
        if (strcmp(cases[i].command, "abort") == 0)
            quiet();
    }
    quiet();
    check_output("$T verify short-link --wait --json", "verify", 1, 0);
    quiet();
    check_output("$T rebuild short-link --wait --json", "rebuild", 1, 0);
}

/* --- commands --- */

static void test_config__shows_gets_and_sets(void **state)
{
    (void)state;
    assert_says("$T config", 0, "\nfilter.short-link.capacity");
    assert_says("$T config set filter.short-link.growth 1.7", 0, "filter.short-link.growth  1.7\n");
    assert_says("$T config get 'filter.short-link.gr*'", 0, "KEY                       VALUE\n");
    assert_says("$T config get listen", 0, "listen  127.0.0.1:");
    assert_says("$T config get nothing 2>&1", 4,
                "no key of the configuration matches; \"twinbloom config\" lists");
    assert_says("$T config set filter.short-link.growth many 2>&1", 4, "CONFIG SET failed");
    assert_says("$T config set 'filter.odd*[\\.add_acks' 1", 0, "filter.odd*[\\\\.add_acks  1\n");
    assert_says("$T config set 'filter.odd*[\\.add_acks' 0", 0, ".add_acks  0\n");
    assert_says("$T config set a 2>&1", 2, "needs KEY VALUE");
    assert_says("$T config get 2>&1", 2, "needs KEY");
    assert_says("$T config reset 2>&1", 2, "expected show, get or set");
    assert_says("$T config set filter.short-link.growth 1.5", 0, "1.5");
}

/* The schedule gives a time at once; the fill gives one only after it has grown for a minute. */
static void test_status__says_when_the_next_expansion_is_expected(void **state)
{
    (void)state;
    assert_says("$T status short-link", 0, "  expected                  unknown\n");
    assert_says("$T status short-link --json", 0,
                "\"rebuild_expected_at\":null,\"rebuild_expected_by\":\"\"");
    free(output_of("$T config set filter.short-link.schedule '0 3 * * *'", 0));
    fixture_wait(&fixture, 0, "rebuild_expected_by", "schedule");
    assert_says("TZ=UTC $T status", 0, "03:00, in ");
    assert_says("TZ=UTC $T status short-link", 0, " 03:00:00 +0000\n  expected by               schedule\n");
    free(output_of("$T config set filter.short-link.schedule ''", 0));
    fixture_wait(&fixture, 0, "rebuild_expected_by", "");
}

/* The status has nothing about Postgres for a filter that does not need it. */
static void test_status__of_a_filter_without_a_source_has_no_postgres(void **state)
{
    (void)state;
    free(output_of("$T add alone a", 0));
    assert_says("$T status alone", 0, "  Postgres                 none\n");
    assert_says("$T status alone --json", 0, "\"postgres\":\"none\",\"ready\":true");
    assert_says("$T status short-link", 0, "  Postgres                  ok\n");
    free(output_of("$T delete alone -y", 0));
}

static void test_nodes__says_version_and_memory_of_each(void **state)
{
    (void)state;
    char node[64];
    (void)snprintf(node, sizeof(node), "\n127.0.0.1:%u  up     ", fixture.redis[0].port);
    assert_says("$T nodes", 0, "NODE             STATE  VERSION");
    assert_says("$T nodes", 0, node);
    char *text = output_of("$T nodes --json", 0);
    json_t *nodes = parsed("nodes", text);
    json_t *one = json_array_get(nodes, 0);
    assert_true(strcmp(text_of(one, "server"), "redis") == 0 ||
                strcmp(text_of(one, "server"), "valkey") == 0);
    assert_true(strchr(text_of(one, "version"), '.') != NULL);
    assert_true(json_integer_value(json_object_get(one, "used_bytes")) > 100000);
    json_decref(nodes);
    free(text);
}

static void test_create__makes_a_filter_once(void **state)
{
    (void)state;
    assert_says("$T check made a 2>&1", 4, "filter 'made' does not exist");
    assert_says("$T create made --capacity 1000 --error-rate 0.01 --nonscaling", 0,
                "The filter made is created.");
    assert_says("$T create made --capacity 1000 --error-rate 0.01 2>&1", 4, "filter 'made' exists already");
    assert_says("$T check made a", 1, "absent\ta\n");
    assert_says("$T delete made --yes", 0, "The filter made is deleted.");
    assert_says("$T delete made --yes 2>&1", 4, "filter 'made' does not exist");
    assert_says("$T delete short-link --yes 2>&1", 4, "is configured");
    assert_says("TWINBLOOM_URL=redis://127.0.0.1:1 $T status 2>&1", 3, "cannot reach");
}

static void test_bench__touches_no_filter_but_its_own(void **state)
{
    (void)state;
    free(output_of("$T add mine a >/dev/null", 0));
    char *before = output_of("$T status --json | tr , '\\n' | grep '\"filter\"' | sort", 0);
    assert_says("$T bench --filter mine --requests 10 --keys 10 2>&1", 2,
                "bench creates a filter of its own");
    assert_says("$T check mine a", 0, "present");
    assert_says(
        "$T bench --filter other --requests 500 --keys 1k --batch 7 --pipeline 3 --connections 3 --adds 0.5",
        0, "BF.MEXISTS");
    assert_says("$T bench --requests 100 --keys 50 --adds 1 --rate 1000 --key-size 8", 0, "BF.ADD ");
    assert_says("$T bench --requests 100 --keys 50 --adds 0", 0, "0 of ");
    char *after = output_of("$T status --json | tr , '\\n' | grep '\"filter\"' | sort", 0);
    assert_string_equal(before, after);
    free(before);
    free(after);
    assert_says("$T bench --keys 0 2>&1", 2, "--keys 0: expected N");
    assert_says("$T bench --adds 1.5 2>&1", 2, "--adds 1.5: expected SHARE");
    assert_says("$T bench --key-size 7 2>&1", 2, "--key-size 7: expected BYTES");
}

/* Ctrl-C ends bench with the results so far, and the filter is deleted. */
static void test_bench__cleans_up_when_it_is_interrupted(void **state)
{
    (void)state;
    assert_says("timeout -s INT 3 $T bench --seconds 600 --keys 100 --filter cut 2>&1; code=$?; "
                "$T status --json | grep -c '\"cut\"'; exit $code",
                124, "\n0\n");
}

/* A server without BF.* gives an error, and nothing is measured. */
static void test_bench__needs_a_server_of_filters(void **state)
{
    (void)state;
    char line[128];
    (void)snprintf(line, sizeof(line), "TWINBLOOM_URL= $T bench -p %u --keys 10 2>&1", fixture.redis[0].port);
    assert_says(line, 4, "BF.RESERVE");
}

/* The port of a Redis node, or the one for HTTP, was given by mistake. */
static void test_cli__says_that_another_server_answers(void **state)
{
    (void)state;
    char line[160], name[32];
    (void)snprintf(name, sizeof(name), "127.0.0.1:%u", fixture.redis[0].port);
    (void)snprintf(line, sizeof(line), "TWINBLOOM_URL= $T status -p %u 2>&1", fixture.redis[0].port);
    char expected[96];
    (void)snprintf(expected, sizeof(expected), "; is it twinbloomd at %s", name);
    assert_says(line, 4, expected);
    (void)snprintf(line, sizeof(line), "TWINBLOOM_URL= $T status -p %u 2>&1", fixture.daemon[0].http_port);
    assert_says(line, 3, "does not speak the Redis protocol");
}

static void test_completion__knows_the_filters(void **state)
{
    (void)state;
    assert_says("$T completion filters", 0, "short-link\n");
    assert_says(
        "source <($T completion bash); unset TWINBLOOM_URL; PATH=$(dirname $T):$PATH; "
        "COMP_WORDS=(twinbloom -p $P status short); COMP_CWORD=4; _twinbloom; echo \"${COMPREPLY[@]}\"",
        0, "short-link\n");
}

/* Bash puts a name into the line as it is: one with a semicolon would be a command of whoever made it. */
static void test_completion__offers_no_name_that_is_more_than_a_word(void **state)
{
    static const char *const names[] = {"s;reboot", "s&reboot", "s|reboot", "s>f",
                                        "s(f)",     "s*",       "s!x",      "--yes"};
    char line[256];
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(line, sizeof(line),
                       "$T add -- '%s' x > /dev/null && $T completion filters | grep -cFx -- '%s'; "
                       "$T delete --yes -- '%s' > /dev/null",
                       names[i], names[i], names[i]);
        assert_says(line, 0, "0\n");
    }
}

/* --- top, in a terminal --- */

static char screen[TEXT_MAX];

/* Read the screen of tmux until @wanted is on it, and @unwanted (NULL: none) is not. */
static void wait_for_screen(const char *wanted, const char *unwanted)
{
    uint64_t until = clock_mono_us() + PATIENCE_S * UINT64_C(1000000);
    for (;;) {
        char *text = output_of("tmux -L \"$SOCKET\" capture-pane -p", 0);
        (void)snprintf(screen, sizeof(screen), "%s", text);
        free(text);
        if (strstr(screen, wanted) != NULL && (unwanted == NULL || strstr(screen, unwanted) == NULL))
            return;
        if (clock_mono_us() > until)
            fail_msg("no \"%s\" on the screen:\n%s", wanted, screen);
        clock_sleep_us(100000);
    }
}

static void assert_width(size_t columns)
{
    for (const char *line = screen; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        assert_true(n <= columns);
        line += n + (line[n] == '\n');
    }
}

static void tmux(const char *arguments)
{
    char line[512];
    (void)snprintf(line, sizeof(line), "tmux -L \"$SOCKET\" %s", arguments);
    free(output_of(line, 0));
}

static int end_tmux(void **state)
{
    (void)state;
    int code;
    free(run("tmux -L \"$SOCKET\" kill-server 2>/dev/null", &code));
    return 0;
}

static int begin_tmux(void **state)
{
    (void)state;
    static unsigned servers; /* a name for each server, as the last one may still be ending */
    char socket[64];
    (void)snprintf(socket, sizeof(socket), "twinbloom-test-%d-%u", (int)getpid(), servers++);
    assert_int_equal(setenv("SOCKET", socket, 1), 0);
    assert_int_equal(setenv("LC_ALL", "C.UTF-8", 1), 0);
    tmux("-f /dev/null new-session -d -x 80 -y 24 \"bash -c 'echo before; $T top --interval 0.3; echo left "
         "\\$?; "
         "stty -a | grep -wo -e -echo -e -icanon; echo end; cat'\"");
    return 0;
}

static void test_top__lives_in_a_terminal_and_leaves_it_as_it_was(void **state)
{
    (void)state;
    wait_for_screen("q: quit", "before");
    assert_non_null(strstr(screen, "FILTER"));
    assert_non_null(strstr(screen, "short-link"));
    assert_non_null(strstr(screen, "requests "));
    assert_non_null(strstr(screen, "COORDINATOR"));
    assert_width(80);
    tmux("resize-window -x 40 -y 12");
    wait_for_screen("q: quit", "KEYS/S");
    assert_width(40);
    tmux("resize-window -x 140 -y 40");
    wait_for_screen("NEXT REBUILD", NULL);
    tmux("send-keys q");
    wait_for_screen("left 0", "q: quit");
    wait_for_screen("end", "-echo");
    assert_non_null(strstr(screen, "before")); /* the alternate screen is closed */
    assert_null(strstr(screen, "-icanon"));
}

static void test_top__shows_a_job_and_ends_by_ctrl_c(void **state)
{
    (void)state;
    quiet();
    free(output_of("$T rebuild short-link --hold >/dev/null", 0));
    tmux("resize-window -x 140 -y 30");
    wait_for_screen("ready to switch", NULL);
    assert_non_null(strstr(screen, "until \"twinbloom cutover\""));
    free(output_of("$T abort short-link --yes >/dev/null", 0));
    quiet();
    tmux("send-keys C-c");
    wait_for_screen("left 0", "q: quit");
    wait_for_screen("end", "-echo");
}

static void test_top__is_for_terminals(void **state)
{
    (void)state;
    assert_says("$T top 2>&1", 2, "top needs a terminal");
    assert_says("$T top --json 2>&1", 2, "top needs a terminal");
}

/* The progress bar of a rebuild on a terminal; at the end only the result is left. */
static void test_rebuild__has_one_live_line_on_a_terminal(void **state)
{
    (void)state;
    quiet();
    /* Slow down the rebuild: else it may end before the first poll. */
    assert_says("$T config set rows_per_second 2500", 0, "rows_per_second  2500\n");
    char *text = output_of("TERM=xterm script -qec \"$T rebuild short-link --wait\" /dev/null", 0);
    assert_non_null(strstr(text, "[##"));
    assert_non_null(strstr(text, "/5.0K rows"));
    assert_non_null(strstr(text, "\r\033[KThe rebuild of short-link "));
    free(text);
    assert_says("$T config set rows_per_second 0", 0, "rows_per_second  0\n");
}

/* --- the fixture --- */

static int start(void **state)
{
    (void)state;
    static const struct fixture_options options = {
        .nodes = 1,
        .daemons = 1,
        .postgres = true,
        .rows = ROWS,
        .capacity = CAPACITY,
        .rate = "0.01",
        .filter = "[filter odd*[\\]\ncapacity = 1000\nerror_rate = 0.01\n"};
    if (fixture_start(&fixture, &options) != 0)
        return 1;
    char *text = output_of("$T help --json", 0);
    reference = parsed("help --json", text);
    free(text);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    json_decref(reference);
    return fixture_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json__is_what_the_reference_says),
        cmocka_unit_test(test_config__shows_gets_and_sets),
        cmocka_unit_test(test_status__says_when_the_next_expansion_is_expected),
        cmocka_unit_test(test_bench__touches_no_filter_but_its_own),
        cmocka_unit_test(test_bench__cleans_up_when_it_is_interrupted),
        cmocka_unit_test(test_status__of_a_filter_without_a_source_has_no_postgres),
        cmocka_unit_test(test_nodes__says_version_and_memory_of_each),
        cmocka_unit_test(test_create__makes_a_filter_once),
        cmocka_unit_test(test_bench__needs_a_server_of_filters),
        cmocka_unit_test(test_cli__says_that_another_server_answers),
        cmocka_unit_test(test_completion__knows_the_filters),
        cmocka_unit_test(test_completion__offers_no_name_that_is_more_than_a_word),
        cmocka_unit_test_setup_teardown(test_top__lives_in_a_terminal_and_leaves_it_as_it_was, begin_tmux,
                                        end_tmux),
        cmocka_unit_test_setup_teardown(test_top__shows_a_job_and_ends_by_ctrl_c, begin_tmux, end_tmux),
        cmocka_unit_test(test_top__is_for_terminals),
        cmocka_unit_test(test_rebuild__has_one_live_line_on_a_terminal),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
