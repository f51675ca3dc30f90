/* SPDX-License-Identifier: MIT */
/* Secrets: `twinbloom hash-password` makes them, and nothing shows them. */
#include "tests/integration/access.h"

#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void holds_no_secret(const char *where, const char *text)
{
    static const char *const secrets[] = {READER_HASH, WRITER_HASH, CHIEF_HASH, TOKEN_HASH,
                                          "hunter2",   "hunter3",   "hunter4"};
    for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++)
        if (strstr(text, secrets[i]) != NULL)
            fail_msg("%s shows %s", where, secrets[i]);
}

static void reply_holds_no_secret(const redisReply *r, const char *where)
{
    if (r->str != NULL)
        holds_no_secret(where, r->str);
    for (size_t i = 0; i < r->elements; i++)
        reply_holds_no_secret(r->element[i], where);
}

static void test_secrets__are_shown_nowhere(void **state)
{
    (void)state;
    static const char *const commands[] = {"CONFIG GET *", "INFO", "INFO everything", "CLIENT INFO",
                                           "TB.STATUS"};
    struct error e = {""};
    struct client c = {0};
    char *output = NULL;
    int status = -1;
    access_reload(SERVICE "password = hunter2\nlog_level = debug\n", FILTERS READER WRITER CHIEF);
    access_open(&c);
    access_gives(&c, "AUTH hunter3", WRONGPASS);
    access_gives(&c, "AUTH hunter4 hunter3", WRONGPASS); /* the password in the place of the name */
    access_gives(&c, "HELLO 3 AUTH reader hunter3", WRONGPASS);
    access_gives(&c, "AUTH hunter2", "OK");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        redisReply *r = client_command(&c, commands[i]);
        assert_non_null(r);
        reply_holds_no_secret(r, commands[i]);
        freeReplyObject(r);
    }
    access_gives(
        &c, "CONFIG SET user.reader.password hunter3",
        "ERR CONFIG SET failed (possibly related to argument 'user.reader.password') - 'password' of a user "
        "must be a hash, not the password itself; make one with twinbloom hash-password");
    const struct daemon_options bad = access_options(SERVICE, FILTERS "[user x]\npassword = hunter4\n");
    must(daemon_rewrite(&access_fixture.daemon[0], &bad, &e), e);
    assert_int_equal(daemon_reload(&access_fixture.daemon[0], &e), ERR_CONFIG);
    must(daemon_run(&access_fixture.daemon[0], "--print-config", &output, &status, &e), e);
    assert_int_equal(status, 2);
    holds_no_secret("--print-config of a faulty file", output);
    free(output);
    access_reload(SERVICE "password = hunter2\n", FILTERS READER WRITER CHIEF);
    must(daemon_run(&access_fixture.daemon[0], "--print-config", &output, &status, &e), e);
    assert_int_equal(status, 0);
    holds_no_secret("--print-config", output);
    assert_non_null(strstr(output, "[user reader]"));
    free(output);
    output = process_log(&access_fixture.daemon[0].process);
    assert_non_null(strstr(output, "event=login_refused"));
    assert_non_null(strstr(output, "event=config_reload_failed"));
    holds_no_secret("the log", output);
    free(output);
    client_close(&c);
}

/* The output of a shell script, without the last newline. The caller frees it. */
static char *output_of(const char *script, int wanted)
{
    struct error e = {""};
    char *output = NULL;
    int status = -1;
    const char *const argv[] = {"sh", "-c", script, NULL};
    must(process_run(argv, 20000, &output, &status, &e), e);
    if (status != wanted)
        fail_msg("%s: status %d: %s", script, status, output);
    output[strcspn(output, "\n")] = '\0';
    return output;
}

static void test_passwd__makes_what_the_configuration_takes(void **state)
{
    (void)state;
    char sections[1024], bearer[128] = "Bearer ", answer[16384];
    struct client c = {0};
    char *hash = output_of("printf 'a \\303\\244 b\\nnext line\\n' | " TWINBLOOM_CLI " hash-password", 0);
    char *other = output_of("printf 'a \\303\\244 b' | " TWINBLOOM_CLI " hash-password", 0);
    char *token = output_of(TWINBLOOM_CLI " hash-password --token --json", 0);
    assert_int_equal(strncmp(hash, "$y$", 3), 0);
    assert_string_not_equal(hash, other); /* the hash has a salt */
    assert_int_equal(strlen(token), strlen("{\"bearer\":\"\",\"token\":\"sha256:\"}") + 64 + 64);
    memcpy(bearer + 7, token + strlen("{\"bearer\":\""), 64);
    (void)snprintf(sections, sizeof(sections), FILTERS "[user made]\npassword = %s\ntoken = %.71s\n", hash,
                   strstr(token, "sha256:"));
    access_reload(SERVICE, sections);
    access_open(&c);
    access_gives(&c, "AUTH made a", WRONGPASS);
    redisReply *r = client_argv(&c, 3, (const char *const[]){"AUTH", "made", "a \303\244 b"}, NULL);
    assert_non_null(r);
    assert_string_equal(r->str, "OK");
    freeReplyObject(r);
    assert_int_equal(access_http_status("GET", "/v1/filters", bearer, answer, sizeof(answer)), 200);
    client_close(&c);
    free(hash);
    free(other);
    free(token);
    free(output_of(TWINBLOOM_CLI " hash-password </dev/null 2>&1", 2));
    free(output_of("echo | " TWINBLOOM_CLI " hash-password 2>&1", 2));
    free(output_of("head -c 512 /dev/zero | tr '\\0' x | " TWINBLOOM_CLI " hash-password 2>&1", 2));
    free(output_of("printf 'a\\000b' | " TWINBLOOM_CLI " hash-password 2>&1", 2));
}

/* Read from a terminal until @part has come; without one, to the end. */
static void read_terminal(int fd, char *out, size_t size, const char *part)
{
    size_t n = strlen(out);
    while (n + 1 < size && (part == NULL || strstr(out, part) == NULL)) {
        ssize_t got = read(fd, out + n, size - 1 - n);
        if (got <= 0)
            break; /* EIO: no process has the terminal open any more */
        n += (size_t)got;
        out[n] = '\0';
    }
    if (part != NULL)
        assert_non_null(strstr(out, part));
}

/* On a terminal the command asks twice and never shows the password. Input that was typed before the prompt
 * is discarded. */
static void test_passwd__shows_nothing_at_a_terminal(void **state)
{
    (void)state;
    static const char typed[] = "hunter2\n";
    char output[4096] = "";
    int fd = -1, status = -1;
    pid_t pid = forkpty(&fd, NULL, NULL, NULL);
    if (pid == 0) {
        (void)execl(TWINBLOOM_CLI, TWINBLOOM_CLI, "hash-password", (char *)NULL);
        _exit(127);
    }
    assert_true(pid > 0);
    read_terminal(fd, output, sizeof(output), "Password: ");
    assert_int_equal(write(fd, typed, strlen(typed)), strlen(typed));
    read_terminal(fd, output, sizeof(output), "Again: ");
    assert_int_equal(write(fd, typed, strlen(typed)), strlen(typed));
    read_terminal(fd, output, sizeof(output), NULL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    (void)close(fd);
    assert_non_null(strstr(output, "$y$"));
    assert_null(strstr(output, "hunter2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ACCESS_TEST(test_secrets__are_shown_nowhere),
        ACCESS_TEST(test_passwd__makes_what_the_configuration_takes),
        ACCESS_TEST(test_passwd__shows_nothing_at_a_terminal),
    };
    return cmocka_run_group_tests(tests, access_setup, access_teardown);
}
