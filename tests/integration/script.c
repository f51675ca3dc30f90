/* SPDX-License-Identifier: MIT */
#include "tests/integration/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { SKIPPED = 77, PAUSE_US = 20000 };

void script_set_port(const char *name, uint16_t port)
{
    char text[8];
    (void)snprintf(text, sizeof(text), "%u", port);
    assert_int_equal(setenv(name, text, 1), 0);
}

size_t script_count_lines(const char *text, const char *begins)
{
    size_t count = 0;
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        count += strncmp(line, begins, strlen(begins)) == 0;
    }
    return count;
}

/* Wait until the script ends or its time is over. True: it ended. */
static bool wait_for(struct process *script, unsigned deadline_ms, script_attend_fn *attend, void *arg)
{
    uint64_t until = clock_mono_us() + (uint64_t)deadline_ms * 1000;
    while (process_running(script) && clock_mono_us() < until) {
        if (attend != NULL) {
            char *output = process_log(script);
            attend(output, arg);
            free(output);
        }
        clock_sleep_us(PAUSE_US);
    }
    return !process_running(script);
}

/* True: as many checks passed as the script's plan announced. */
static bool is_whole(const char *output)
{
    char plan[32];
    size_t good = script_count_lines(output, "ok ");
    (void)snprintf(plan, sizeof(plan), "1..%zu\n", good);
    return good > 0 && strstr(output, plan) != NULL;
}

void script_run(const char *const *argv, const char *directory, unsigned deadline_ms,
                script_attend_fn *attend, void *arg)
{
    struct error e = {""};
    struct process script = {0};
    char log[PATH_MAX + 32];
    (void)snprintf(log, sizeof(log), "%s/script.log", directory);
    must(process_start(&script, argv, log, &e), e);
    bool ended = wait_for(&script, deadline_ms, attend, arg);
    process_kill(&script);
    char *output = process_log(&script);
    (void)fputs(output, stdout);
    bool whole = is_whole(output);
    free(output);
    if (!ended)
        fail_msg("it did not end within %u ms", deadline_ms);
    if (process_exit_status(&script) == SKIPPED)
        skip();
    assert_int_equal(process_exit_status(&script), 0);
    assert_true(whole);
}
