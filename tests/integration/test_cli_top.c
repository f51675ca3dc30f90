/* SPDX-License-Identifier: MIT */
/* twinbloom top must end completely and at once when its terminal is closed. */
#include "tests/integration/fixture.h"

#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { PATIENCE_S = 30, ROUNDS = 5, INTERRUPTED = 130 };

static struct fixture fixture;

/* A process group with a terminal. */
static struct session {
    pid_t leader; /* 0: none */
    int terminal; /* -1: closed */
} session = {.terminal = -1};

/* Runs in the child. If the terminal is not its @own, its session's, no signal reports the terminal's end. */
static void become(int terminal, bool own, const char *line)
{
    char port[16];
    (void)snprintf(port, sizeof(port), "%u", fixture.client[0].port);
    bool ready = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
                 (own ? setsid() >= 0 && ioctl(terminal, TIOCSCTTY, 0) == 0 : setpgid(0, 0) == 0) &&
                 dup2(terminal, STDIN_FILENO) >= 0 && dup2(terminal, STDOUT_FILENO) >= 0 &&
                 dup2(terminal, STDERR_FILENO) >= 0 && unsetenv("TWINBLOOM_URL") == 0 &&
                 unsetenv("TWINBLOOM_PASSWORD") == 0 && setenv("P", port, 1) == 0 &&
                 setenv("T", TWINBLOOM_CLI, 1) == 0;
    if (ready) {
        (void)close(session.terminal);
        (void)close(terminal);
        (void)execlp("bash", "bash", "-c", line, (char *)NULL);
    }
    _exit(127);
}

static void start(bool own, const char *line)
{
    int theirs = -1;
    assert_int_equal(openpty(&session.terminal, &theirs, NULL, NULL, NULL), 0);
    session.leader = fork();
    if (session.leader == 0)
        become(theirs, own, line);
    (void)close(theirs);
    assert_true(session.leader > 0);
}

static void wait_for_screen(const char *wanted)
{
    static char text[1 << 16];
    size_t n = 0;
    uint64_t until = clock_mono_us() + PATIENCE_S * UINT64_C(1000000);
    text[0] = '\0';
    while (strstr(text, wanted) == NULL) {
        struct pollfd p = {.fd = session.terminal, .events = POLLIN};
        ssize_t got = poll(&p, 1, 1000) > 0 ? read(p.fd, text + n, sizeof(text) - 1 - n) : 0;
        if (got < 0 || clock_mono_us() > until || n + 1 == sizeof(text))
            fail_msg("no \"%s\" on the screen:\n%s", wanted, text);
        n += (size_t)got;
        text[n] = '\0';
    }
}

static void close_terminal(void)
{
    (void)close(session.terminal);
    session.terminal = -1;
}

/* Kill the processes that are left. Returns the processor seconds that they all used. */
static double kill_session(void)
{
    struct rusage used;
    double seconds = 0;
    (void)kill(-session.leader, SIGKILL);
    while (wait4(-session.leader, NULL, 0, &used) > 0)
        seconds += (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec);
    session.leader = 0;
    return seconds;
}

/* Wait until all processes of the session are gone. Returns the status of the last one. This process adopts
 * orphans. */
static int end_of_session(void)
{
    uint64_t until = clock_mono_us() + PATIENCE_S * UINT64_C(1000000);
    int status = -1;
    pid_t got;
    while ((got = waitpid(-session.leader, &status, WNOHANG)) >= 0) {
        if (got == 0 && clock_mono_us() > until)
            fail_msg("not gone after %d s, of which the processor worked for %.0f", PATIENCE_S,
                     kill_session());
        if (got == 0)
            clock_sleep_us(10000);
    }
    assert_int_equal(errno, ECHILD);
    session.leader = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void test_top__ends_with_its_terminal(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        start(true, "exec $T -p $P top --interval 0.3");
        wait_for_screen("q: quit");
        close_terminal();
        assert_int_equal(end_of_session(), INTERRUPTED);
    }
}

/* When the shell ends, a second SIGHUP and a SIGCONT arrive. If they arrive while LeakSanitizer stops the
 * process in its exit(), they cancel the SIGSTOP of PTRACE_ATTACH, and both processes wait forever. */
static void test_top__ends_with_its_shell(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        start(true, "$T -p $P top --interval 0.3; exit 0");
        wait_for_screen("q: quit");
        close_terminal();
        (void)end_of_session();
    }
}

static void test_top__ends_with_a_terminal_of_which_no_signal_comes(void **state)
{
    (void)state;
    start(false, "exec $T -p $P top --interval 60");
    wait_for_screen("q: quit");
    close_terminal();
    assert_int_equal(end_of_session(), INTERRUPTED);
}

static void test_top__ends_with_its_terminal_while_the_service_is_silent(void **state)
{
    (void)state;
    start(true, "exec $T -p $P top --interval 0.1");
    wait_for_screen("q: quit");
    daemon_pause(&fixture.daemon[0]);
    clock_sleep_us(500000); /* top has sent a request and waits */
    close_terminal();
    int status = end_of_session();
    daemon_resume(&fixture.daemon[0]);
    assert_int_equal(status, INTERRUPTED);
}

/* --- the fixture --- */

static int setup(void **state)
{
    (void)state;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || setenv("LC_ALL", "C.UTF-8", 1) != 0)
        return -1;
    return fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .daemons = 1});
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

static int clean_up(void **state)
{
    (void)state;
    daemon_resume(&fixture.daemon[0]);
    if (session.leader > 0)
        (void)kill_session();
    if (session.terminal >= 0)
        close_terminal();
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, clean_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_top__ends_with_its_terminal),
        TEST(test_top__ends_with_its_shell),
        TEST(test_top__ends_with_a_terminal_of_which_no_signal_comes),
        TEST(test_top__ends_with_its_terminal_while_the_service_is_silent),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
