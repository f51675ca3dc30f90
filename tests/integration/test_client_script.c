/* SPDX-License-Identifier: MIT */
/* usage: test_client_script [--tls] PROGRAM ARGUMENT...
 * Runs a script of tests/clients against a coordinator without and one with a password, named by TWINBLOOM_*
 * in its environment; with --tls through their TLS listeners. It writes TAP; where it writes the line
 * "restart" the first coordinator is started again. A script that ends with status 77 could not run here (a
 * library is not installed). */
#include "tests/integration/fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { DEADLINE_MS = 100000, SKIPPED = 77 };

static const char *const *program;
static bool tls;
static struct fixture fixture;
static struct daemon guarded;
static char directory[PATH_MAX];
static uint16_t ports[2]; /* that the script is told, the guarded one's second */

/* The lines of a coordinator's section, in memory that the next call reuses. */
static const char *service_lines(unsigned i, const char *more)
{
    static char lines[3 * PATH_MAX];
    (void)snprintf(lines, sizeof(lines), "%s", more);
    if (tls) {
        ports[i] = process_free_port();
        (void)snprintf(lines, sizeof(lines),
                       "%slisten_tls = 127.0.0.1:%u\ntls_cert = %s/server.crt\ntls_key = %s/server.key\n",
                       more, ports[i], directory, directory);
    }
    return lines;
}

/* A certificate of its own authority, for localhost. */
static void make_certificate(void)
{
    static const char script[] = "cd \"$0\" && exec openssl req -x509 -newkey ec -pkeyopt "
                                 "ec_paramgen_curve:P-256 -nodes -days 2 -subj "
                                 "/CN=localhost -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1' -keyout "
                                 "server.key -out server.crt";
    struct error e = {""};
    char *output = NULL, path[PATH_MAX + 16];
    int status = -1;
    const char *const argv[] = {"sh", "-c", script, directory, NULL};
    must(process_run(argv, 60000, &output, &status, &e), e);
    if (status != 0)
        fail_msg("openssl: %s", output);
    free(output);
    (void)snprintf(path, sizeof(path), "%s/server.crt", directory);
    assert_int_equal(setenv("TWINBLOOM_CA", path, 1), 0);
}

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    must(process_make_directory(directory, "client", &e), e);
    if (tls)
        make_certificate();
    if (fixture_start(&fixture, &(struct fixture_options){
                                    .nodes = 2, .daemons = 1, .service = service_lines(0, "")}) != 0)
        return -1;
    const struct daemon_options options = {.nodes = fixture.node_list,
                                           .service = service_lines(1, "password = s3cret\n")};
    must(daemon_start(&guarded, &options, &e), e);
    if (!tls) {
        ports[0] = fixture.daemon[0].port;
        ports[1] = guarded.port;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bool clean = daemon_fini(&guarded);
    process_remove_directory(directory);
    return fixture_stop(&fixture) == 0 && clean ? 0 : -1;
}

static void set_port(const char *name, uint16_t port)
{
    char text[8];
    (void)snprintf(text, sizeof(text), "%u", port);
    assert_int_equal(setenv(name, text, 1), 0);
}

static size_t count_lines(const char *text, const char *begins)
{
    size_t count = 0;
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        count += strncmp(line, begins, strlen(begins)) == 0;
    }
    return count;
}

static void start_again(void)
{
    struct error e = {""};
    assert_true(daemon_stop(&fixture.daemon[0], 20000));
    must(daemon_launch(&fixture.daemon[0], &e), e);
}

/* Until the script ends, do what it asks for; its output, which the caller frees. */
static char *attend(struct process *script)
{
    size_t restarts = 0;
    uint64_t until = clock_mono_us() + (uint64_t)DEADLINE_MS * 1000;
    while (process_running(script) && clock_mono_us() < until) {
        char *log = process_log(script);
        bool wanted = count_lines(log, "restart\n") > restarts;
        free(log);
        if (wanted) {
            restarts++;
            start_again();
        }
        clock_sleep_us(20000);
    }
    return process_log(script);
}

static void test_client__passes_its_own_checks(void **state)
{
    (void)state;
    struct error e = {""};
    struct process script = {0};
    char log[PATH_MAX + 32], plan[32];
    (void)snprintf(log, sizeof(log), "%s/script.log", fixture.daemon[0].directory);
    set_port("TWINBLOOM_PORT", ports[0]);
    set_port("TWINBLOOM_GUARDED_PORT", ports[1]);
    assert_int_equal(setenv("TWINBLOOM_PASSWORD", "s3cret", 1), 0);
    must(process_start(&script, program, log, &e), e);
    char *output = attend(&script);
    bool ended = !process_running(&script);
    process_kill(&script);
    (void)fputs(output, stdout);
    size_t good = count_lines(output, "ok ");
    (void)snprintf(plan, sizeof(plan), "1..%zu\n", good);
    bool whole = good > 0 && strstr(output, plan) != NULL;
    free(output);
    if (!ended)
        fail_msg("it did not end within %d ms", DEADLINE_MS);
    if (process_exit_status(&script) == SKIPPED)
        skip();
    assert_int_equal(process_exit_status(&script), 0);
    assert_true(whole); /* as many as it announced */
}

int main(int argc, char **argv)
{
    tls = argc > 1 && strcmp(argv[1], "--tls") == 0;
    program = (const char *const *)argv + 1 + tls;
    if (program[0] == NULL) {
        (void)fputs("usage: test_client_script [--tls] PROGRAM ARGUMENT...\n", stderr);
        return 2;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_client__passes_its_own_checks)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
