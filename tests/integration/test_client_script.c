/* SPDX-License-Identifier: MIT */
/* usage: test_client_script [--tls] PROGRAM ARGUMENT... Runs a script of tests/clients against a coordinator
 * without and one with a password, whose addresses are in TWINBLOOM_* in its environment; with --tls through
 * their TLS listeners. The script writes TAP. When it writes the line "restart", the first coordinator is
 * restarted. Exit status 77: the script could not run here (a library is not installed). */
#include "tests/integration/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEADLINE_MS = 100000 };

#define PATIENT "timeout = 10s\n" /* for a hundred connections on a busy machine */

static const char *const *program;
static bool tls;
static struct fixture fixture;
static struct daemon guarded;
static char directory[PATH_MAX];
static uint16_t ports[2]; /* the ports for the script; the second one is the guarded coordinator's */

/* The lines of [service] of a coordinator, in memory that the next call reuses. */
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

/* Make a self-signed certificate for localhost. */
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
                                    .nodes = 2, .daemons = 1, .service = service_lines(0, PATIENT)}) != 0)
        return -1;
    const struct daemon_options options = {.nodes = fixture.node_list,
                                           .service = service_lines(1, PATIENT "password = s3cret\n")};
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

static void start_again(void)
{
    struct error e = {""};
    assert_true(daemon_stop(&fixture.daemon[0], 20000));
    must(daemon_launch(&fixture.daemon[0], &e), e);
}

/* Restart the coordinator once for each line "restart"; @arg counts them. */
static void attend(const char *output, void *arg)
{
    size_t *restarts = arg;
    if (script_count_lines(output, "restart\n") > *restarts) {
        ++*restarts;
        start_again();
    }
}

static void test_client__passes_its_own_checks(void **state)
{
    (void)state;
    size_t restarts = 0;
    script_set_port("TWINBLOOM_PORT", ports[0]);
    script_set_port("TWINBLOOM_GUARDED_PORT", ports[1]);
    assert_int_equal(setenv("TWINBLOOM_PASSWORD", "s3cret", 1), 0);
    script_run(program, fixture.daemon[0].directory, DEADLINE_MS, attend, &restarts);
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
