/* SPDX-License-Identifier: MIT */
/* The listener on a Unix socket, and several addresses. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct fixture fixture;
static char directory[PATH_MAX], path[PATH_MAX + 8], lines[2 * PATH_MAX];
static unsigned second_port;

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1});
    must(process_make_directory(directory, "socket", &e), e);
    (void)snprintf(path, sizeof(path), "%s/s", directory);
    (void)snprintf(lines, sizeof(lines), "unix_socket = %s\nunix_socket_mode = 770\n", path);
    const struct daemon_options o = {.nodes = fixture.node_list, .service = lines};
    must(daemon_start(&fixture.daemon[0], &o, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    process_remove_directory(directory);
    return fixture_stop(&fixture);
}

static void says(const char *script, bool succeeds, const char *wanted)
{
    struct error e = {""};
    char *output = NULL;
    int status = -1;
    const char *const argv[] = {"sh", "-c", script, path, NULL};
    must(process_run(argv, 30000, &output, &status, &e), e);
    bool good = (status == 0) == succeeds && strstr(output, wanted) != NULL;
    if (!good)
        (void)fprintf(stderr, "%s\nstatus %d, output: %s\nwanted: %s\n", script, status, output, wanted);
    free(output);
    assert_true(good);
}

static void test_socket__serves_clients(void **state)
{
    (void)state;
    says("redis-cli --no-raw -s \"$0\" BF.ADD f x 2>&1", true, "(integer) 1");
    says("redis-cli -s \"$0\" CLIENT INFO 2>&1", true, "/s:0 ");
    says(TWINBLOOM_CLI " status f -s \"$0\" 2>&1", true, "serving");
    says("TWINBLOOM_URL=unix://$0 " TWINBLOOM_CLI " check f x 2>&1", true, "present");
    says(TWINBLOOM_CLI " status -s \"$0-none\" 2>&1", false, "No such file");
    says("/usr/bin/python3 -c \"import redis, sys; print(redis.Redis(unix_socket_path=sys.argv[1]).ping())\" "
         "\"$0\"",
         true, "True");
}

static void test_socket__has_the_mode_that_is_said(void **state)
{
    (void)state;
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    assert_true(S_ISSOCK(s.st_mode));
    assert_int_equal(s.st_mode & 0777, 0770);
}

/* Start another daemon with the same socket. It must end by itself, and print @why. */
static void another_is_refused(const char *why)
{
    struct daemon d;
    struct error e = {""};
    char *output = NULL;
    int status = -1;
    const struct daemon_options o = {.nodes = fixture.node_list, .service = lines};
    must(daemon_prepare(&d, &o, &e), e);
    const char *const argv[] = {TWINBLOOMD, "-c", d.config, NULL};
    must(process_run(argv, 20000, &output, &status, &e), e);
    if (status != 1 || strstr(output, why) == NULL)
        fail_msg("status %d: %s", status, output);
    free(output);
    (void)daemon_fini(&d);
}

static void test_socket__is_not_taken_from_one_who_listens(void **state)
{
    (void)state;
    another_is_refused("another process listens there");
    says("redis-cli -s \"$0\" PING 2>&1", true, "PONG");
}

static void test_socket__goes_with_the_daemon_and_replaces_one_that_was_left(void **state)
{
    (void)state;
    struct error e = {""};
    struct stat s;
    assert_true(daemon_stop(&fixture.daemon[0], 20000));
    assert_int_not_equal(stat(path, &s), 0);
    must(daemon_launch(&fixture.daemon[0], &e), e);
    daemon_kill(&fixture.daemon[0]);
    assert_int_equal(stat(path, &s), 0); /* the socket was left */
    must(daemon_launch(&fixture.daemon[0], &e), e);
    says("redis-cli -s \"$0\" PING 2>&1", true, "PONG");
}

static void test_socket__never_replaces_another_file(void **state)
{
    (void)state;
    struct error e = {""};
    struct stat s;
    assert_true(daemon_stop(&fixture.daemon[0], 20000));
    says("echo precious > \"$0\"", true, "");
    another_is_refused("something else is at this path");
    says("cat \"$0\"", true, "precious");
    assert_int_equal(unlink(path), 0);
    must(daemon_launch(&fixture.daemon[0], &e), e);
    /* At its end, the daemon does not remove what another process has put in the socket's place. */
    says("rm \"$0\" && echo precious > \"$0\"", true, "");
    assert_true(daemon_stop(&fixture.daemon[0], 20000));
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(unlink(path), 0);
    must(daemon_launch(&fixture.daemon[0], &e), e);
}

/* Start a daemon with its configuration changed by the commands @sed. */
static void start_with(struct daemon *d, const char *sed)
{
    struct error e = {""};
    const char *const argv[] = {"sed", "-i", sed, d->config, NULL};
    char *output = NULL;
    int status = -1;
    must(process_run(argv, 10000, &output, &status, &e), e);
    free(output);
    must(daemon_launch(d, &e), e);
}

static void test_listen__takes_several_addresses(void **state)
{
    (void)state;
    struct error e = {""};
    struct daemon d;
    struct client c = {0};
    char text[256];
    second_port = process_free_port();
    must(daemon_prepare(&d, &(struct daemon_options){.nodes = fixture.node_list}, &e), e);
    (void)snprintf(text, sizeof(text), "s/^listen = .*/listen = 127.0.0.1:%u, 127.0.0.1:%u/", d.port,
                   second_port);
    start_with(&d, text);
    must(client_open(&c, (uint16_t)second_port, 10000, &e), e);
    redisReply *r = client_command(&c, "PING");
    assert_non_null(r);
    freeReplyObject(r);
    client_close(&c);
    assert_true(daemon_fini(&d));
}

static bool has_ipv6(void)
{
    FILE *f = fopen("/proc/net/if_inet6", "re");
    bool some = f != NULL && fgetc(f) != EOF;
    if (f != NULL)
        (void)fclose(f);
    return some;
}

static void test_listen__at_all_addresses_means_both_families(void **state)
{
    (void)state;
    static const char *const hosts[] = {"127.0.0.1", "::1"}, *const urls[] = {"127.0.0.1", "[::1]"};
    struct error e = {""};
    struct daemon d;
    char script[512];
    const struct daemon_options o = {.nodes = fixture.node_list, .service = "password = secret\n"};
    must(daemon_prepare(&d, &o, &e), e);
    start_with(&d, "s/^listen = 127.0.0.1/listen = /; s/^http = 127.0.0.1/http = /");
    for (size_t i = 0; i < (has_ipv6() ? 2 : 1); i++) {
        (void)snprintf(script, sizeof(script), "redis-cli --no-auth-warning -a secret -h %s -p %u PING 2>&1",
                       hosts[i], d.port);
        says(script, true, "PONG");
        (void)snprintf(script, sizeof(script),
                       "/usr/bin/python3 -c 'import urllib.request as u; "
                       "print(u.urlopen(\"http://%s:%u/livez\").status)' 2>&1",
                       urls[i], d.http_port);
        says(script, true, "200");
    }
    assert_true(daemon_fini(&d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_socket__serves_clients),
        cmocka_unit_test(test_socket__has_the_mode_that_is_said),
        cmocka_unit_test(test_socket__is_not_taken_from_one_who_listens),
        cmocka_unit_test(test_socket__goes_with_the_daemon_and_replaces_one_that_was_left),
        cmocka_unit_test(test_socket__never_replaces_another_file),
        cmocka_unit_test(test_listen__takes_several_addresses),
        cmocka_unit_test(test_listen__at_all_addresses_means_both_families),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
