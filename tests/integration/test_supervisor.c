/* SPDX-License-Identifier: MIT */
/* The messages to systemd, received at a NOTIFY_SOCKET of the test. ptrace(2) stops single threads of the
 * daemon, which looks like a hang: the process and all other threads go on. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "tests/integration/fixture.h"

enum { WAIT_MS = 60000, WATCHDOG_MS = 400, HEARD_MAX = 65536, QUIET_US = 5 * WATCHDOG_MS * 1000 };

/* All messages since the last forget(), each followed by a newline. A thread reads all the time, because a
 * sender waits for room. */
static struct {
    int fd;
    pthread_t thread;
    atomic_bool stop;
    pthread_mutex_t lock;
    char text[HEARD_MAX];
} heard = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {
    struct temp_redis redis;
    struct daemon daemon;
    char directory[PATH_MAX];
    char socket_word[PATH_MAX + 32], watchdog_word[64];
    const char *wrapper[5];
} world;

static void *hear(void *arg)
{
    (void)arg;
    while (!atomic_load(&heard.stop)) {
        struct pollfd p = {.fd = heard.fd, .events = POLLIN};
        char message[4096];
        if (poll(&p, 1, 50) <= 0)
            continue;
        ssize_t n = recv(heard.fd, message, sizeof(message) - 1, 0);
        if (n < 0)
            continue;
        message[n] = '\0';
        (void)pthread_mutex_lock(&heard.lock);
        size_t length = strlen(heard.text);
        (void)snprintf(heard.text + length, sizeof(heard.text) - length, "%s\n", message);
        (void)pthread_mutex_unlock(&heard.lock);
    }
    return NULL;
}

static void forget(void)
{
    (void)pthread_mutex_lock(&heard.lock);
    heard.text[0] = '\0';
    (void)pthread_mutex_unlock(&heard.lock);
}

/* Return how many lines begin with @line. *@last is the rest of the last one. */
static unsigned count(const char *line, char last[256])
{
    unsigned n = 0;
    size_t length = strlen(line);
    (void)pthread_mutex_lock(&heard.lock);
    for (const char *p = heard.text; p != NULL && *p != '\0';) {
        if (strncmp(p, line, length) == 0) {
            n++;
            if (last != NULL)
                (void)snprintf(last, 256, "%.*s", (int)strcspn(p + length, "\n"), p + length);
        }
        p = strchr(p, '\n');
        p = p == NULL ? NULL : p + 1;
    }
    (void)pthread_mutex_unlock(&heard.lock);
    return n;
}

static void expect(const char *line)
{
    uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
    while (count(line, NULL) == 0 && clock_mono_us() < until)
        clock_sleep_us(10000);
    if (count(line, NULL) == 0)
        fail_msg("not heard: %s; but: %s", line, heard.text);
}

static void expect_status(const char *part)
{
    char last[256] = "";
    uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
    while ((count("STATUS=", last) == 0 || strstr(last, part) == NULL) && clock_mono_us() < until)
        clock_sleep_us(10000);
    if (strstr(last, part) == NULL)
        fail_msg("no %s in the status: %s", part, last);
}

static void expect_log(const char *part)
{
    uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
    bool found = false;
    while (!found && clock_mono_us() < until) {
        char *log = process_log(&world.daemon.process);
        found = strstr(log, part) != NULL;
        free(log);
        clock_sleep_us(10000);
    }
    if (!found)
        fail_msg("not in the log: %s", part);
}

static void open_socket(void)
{
    struct error e = {""};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    must(process_make_directory(world.directory, "notify", &e), e);
    assert_true((size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%.90s/socket",
                                 world.directory) < sizeof(address.sun_path));
    heard.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(heard.fd >= 0);
    assert_int_equal(bind(heard.fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(pthread_create(&heard.thread, NULL, hear, NULL), 0);
    (void)snprintf(world.socket_word, sizeof(world.socket_word), "NOTIFY_SOCKET=%s", address.sun_path);
    (void)snprintf(world.watchdog_word, sizeof(world.watchdog_word), "WATCHDOG_USEC=%d", WATCHDOG_MS * 1000);
}

static void launch(bool watchdog)
{
    struct error e = {""};
    size_t n = 0;
    world.wrapper[n++] = "env";
    world.wrapper[n++] = world.socket_word;
    if (watchdog)
        world.wrapper[n++] = world.watchdog_word;
    world.wrapper[n] = NULL;
    world.daemon.wrapper = world.wrapper;
    forget();
    must(daemon_launch(&world.daemon, &e), e);
}

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    open_socket();
    must(temp_redis_start(&world.redis, NULL, &e), e);
    must(daemon_prepare(&world.daemon, &(struct daemon_options){.nodes = world.redis.url}, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bool clean = daemon_fini(&world.daemon);
    temp_redis_fini(&world.redis);
    atomic_store(&heard.stop, true);
    (void)pthread_join(heard.thread, NULL);
    (void)close(heard.fd);
    process_remove_directory(world.directory);
    return clean ? 0 : -1;
}

static void stop(void)
{
    assert_true(daemon_stop(&world.daemon, WAIT_MS));
}

static void test_supervisor__is_told_of_readiness_and_of_the_end(void **state)
{
    (void)state;
    launch(false);
    expect("READY=1");
    expect_status("0 filters, 0 clients");
    assert_int_equal(count("STOPPING=1", NULL), 0);
    stop();
    expect("STOPPING=1");
    expect("EXTEND_TIMEOUT_USEC=");
    assert_int_equal(count("WATCHDOG=1", NULL), 0); /* no watchdog was requested */
    assert_int_equal(count("READY=1", NULL), 1);
}

static void test_supervisor__gets_as_much_time_as_the_delay_needs(void **state)
{
    (void)state;
    struct error e = {""};
    struct client client = {0};
    char us[256];
    launch(false);
    expect("READY=1");
    must(client_open(&client, world.daemon.port, WAIT_MS, &e), e);
    must(client_ok(&client, &e, "CONFIG SET shutdown_delay 10m"), e);
    process_signal(&world.daemon.process, SIGTERM);
    expect("STOPPING=1");
    assert_true(count("EXTEND_TIMEOUT_USEC=", us) > 0);
    assert_true(strtoull(us, NULL, 10) > 600000000);
    expect_status("stopping"); /* clients are still served */
    must(client_ok(&client, &e, "CONFIG SET shutdown_delay 0s"), e);
    client_close(&client);
    stop();
}

static void test_supervisor__is_told_of_a_reload_whether_or_not_it_is_refused(void **state)
{
    (void)state;
    struct error e = {""};
    char us[256];
    const struct daemon_options good = {.nodes = world.redis.url},
                                bad = {.nodes = world.redis.url, .service = "threads = none\n"};
    launch(false);
    expect("READY=1");
    forget();
    uint64_t before = clock_mono_us();
    must(daemon_reload(&world.daemon, &e), e);
    expect("READY=1");
    assert_int_equal(count("RELOADING=1", NULL), 1);
    assert_int_equal(count("MONOTONIC_USEC=", us), 1);
    assert_in_range(strtoull(us, NULL, 10), before, clock_mono_us());
    forget();
    must(daemon_rewrite(&world.daemon, &bad, &e), e);
    assert_int_equal(daemon_reload(&world.daemon, &e), ERR_CONFIG);
    expect("READY=1");
    assert_int_equal(count("RELOADING=1", NULL), 1);
    must(daemon_rewrite(&world.daemon, &good, &e), e);
    stop();
}

static void test_supervisor__status_names_nodes_that_are_down(void **state)
{
    (void)state;
    struct error e = {""};
    struct client client = {0};
    int64_t n;
    launch(true);
    must(client_open(&client, world.daemon.port, WAIT_MS, &e), e);
    must(client_integer(&client, &n, &e, "BF.ADD seen key"), e);
    expect_status("1 filters, 1 clients");
    temp_redis_stop(&world.redis);
    expect_status("is down");
    unsigned beats = count("WATCHDOG=1", NULL);
    clock_sleep_us(QUIET_US); /* time in which heartbeats could wrongly end */
    forget();
    expect("WATCHDOG=1"); /* the node is down, and this process is healthy */
    assert_true(beats > 0);
    must(temp_redis_restart(&world.redis, true, &e), e);
    client_close(&client);
    stop();
}

/* --- threads that hang --- */

static pid_t thread_named(const char *name)
{
    char path[PATH_MAX], found[64] = "";
    pid_t thread = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)world.daemon.process.pid);
    DIR *tasks = opendir(path);
    assert_non_null(tasks);
    for (struct dirent *t = readdir(tasks); t != NULL && thread == 0; t = readdir(tasks)) {
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", (int)world.daemon.process.pid, t->d_name);
        FILE *f = fopen(path, "re");
        if (f == NULL)
            continue;
        if (fgets(found, sizeof(found), f) != NULL && strncmp(found, name, strlen(name)) == 0 &&
            found[strlen(name)] == '\n')
            thread = (pid_t)strtol(t->d_name, NULL, 10);
        (void)fclose(f);
    }
    (void)closedir(tasks);
    return thread;
}

static void hang(pid_t thread)
{
    int status;
    assert_int_equal(ptrace(PTRACE_SEIZE, thread, NULL, NULL), 0);
    assert_int_equal(ptrace(PTRACE_INTERRUPT, thread, NULL, NULL), 0);
    assert_int_equal(waitpid(thread, &status, __WALL), thread);
}

static void go_on(pid_t thread)
{
    assert_int_equal(ptrace(PTRACE_DETACH, thread, NULL, NULL), 0);
}

static void expect_silence(const char *name)
{
    char line[128];
    pid_t thread = thread_named(name);
    assert_true(thread > 0);
    hang(thread);
    (void)snprintf(line, sizeof(line), "thread=%s", name);
    expect_log(line); /* by now all earlier messages have been sent */
    clock_sleep_us(100000);
    forget();
    clock_sleep_us(QUIET_US);
    unsigned beats = count("WATCHDOG=1", NULL);
    go_on(thread);
    assert_int_equal(beats, 0);
    expect("WATCHDOG=1");
}

static void test_supervisor__hears_nothing_while_a_single_loop_hangs(void **state)
{
    (void)state;
    launch(true);
    expect("WATCHDOG=1");
    expect_silence("worker-0");
    expect_silence("worker-1");
    expect_silence("http");
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_supervisor__is_told_of_readiness_and_of_the_end),
        cmocka_unit_test(test_supervisor__gets_as_much_time_as_the_delay_needs),
        cmocka_unit_test(test_supervisor__is_told_of_a_reload_whether_or_not_it_is_refused),
        cmocka_unit_test(test_supervisor__status_names_nodes_that_are_down),
        cmocka_unit_test(test_supervisor__hears_nothing_while_a_single_loop_hangs),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
