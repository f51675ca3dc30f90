/* SPDX-License-Identifier: MIT */
/* Connections go to the worker that has the fewest. If all connections of one worker have closed, it gets the
 * next ones. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/scrape.h"
#include "tests/lib/raw.h"

enum { CLIENTS = 40, PINGS = 100 };

static struct fixture fixture;

static int setup(void **state)
{
    (void)state;
    (void)fixture_start(&fixture,
                        &(struct fixture_options){.nodes = 1, .daemons = 1, .service = "threads = 2\n"});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

/* Return how often the thread @name of the coordinator ran. */
static unsigned long turns_of(const char *name)
{
    char path[320], text[64] = "";
    unsigned long turns = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)fixture.daemon[0].process.pid);
    DIR *tasks = opendir(path);
    assert_non_null(tasks);
    for (const struct dirent *task; (task = readdir(tasks)) != NULL && turns == 0;) {
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%.20s/comm", (int)fixture.daemon[0].process.pid,
                       task->d_name);
        FILE *f = fopen(path, "re");
        bool is_it = f != NULL && fgets(text, sizeof(text), f) != NULL && strncmp(text, name, 8) == 0;
        if (f != NULL)
            (void)fclose(f);
        if (!is_it)
            continue;
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%.20s/schedstat",
                       (int)fixture.daemon[0].process.pid, task->d_name);
        f = fopen(path, "re");
        assert_non_null(f);
        assert_non_null(fgets(text, sizeof(text), f)); /* two times, then the number of runs */
        turns = strtoul(strrchr(text, ' ') + 1, NULL, 10);
        (void)fclose(f);
    }
    (void)closedir(tasks);
    return turns;
}

static int open_one(void)
{
    int fd = raw_open(fixture.daemon[0].port);
    assert_true(fd >= 0 && raw_puts(fd, "PING\r\n") && raw_expect(fd, "+PONG\r\n"));
    return fd;
}

static void test_connections__go_to_the_worker_that_has_the_fewest(void **state)
{
    (void)state;
    int fds[CLIENTS];
    for (unsigned i = 0; i < CLIENTS; i++)
        fds[i] = open_one();
    double before = scraped(&fixture.daemon[0], "twinbloom_clients");
    for (unsigned i = 0; i < CLIENTS; i += 2)
        raw_close(fds[i]);
    scrape_wait(&fixture.daemon[0], "twinbloom_clients", before - CLIENTS / 2.0);
    for (unsigned i = 0; i < CLIENTS; i += 2)
        fds[i] = open_one();
    unsigned long turns[] = {turns_of("worker-0"), turns_of("worker-1")};
    for (unsigned n = 0; n < PINGS; n++)
        for (unsigned i = 0; i < CLIENTS; i += 2)
            assert_true(raw_puts(fds[i], "PING\r\n") && raw_expect(fds[i], "+PONG\r\n"));
    unsigned long first = turns_of("worker-0") - turns[0], second = turns_of("worker-1") - turns[1];
    unsigned long most = first > second ? first : second, least = first > second ? second : first;
    assert_true(most >= PINGS && least < most / 4); /* one worker has them all */
    for (unsigned i = 0; i < CLIENTS; i++)
        raw_close(fds[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connections__go_to_the_worker_that_has_the_fewest),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
