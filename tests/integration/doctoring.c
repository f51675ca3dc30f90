/* SPDX-License-Identifier: MIT */
#include "tests/integration/doctoring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture fixture;
struct client redis;

const struct cli_result *by_command(const char *options)
{
    char arguments[1024];
    (void)snprintf(arguments, sizeof(arguments), "doctor %s", options);
    return fixture_cli(fixture.client[0].port, arguments);
}

const struct cli_result *alone_by(const struct daemon_options *o)
{
    static struct cli_result result;
    struct daemon d = {0};
    struct error e = {""};
    char *output = NULL;
    must(daemon_prepare(&d, o, &e), e);
    must(daemon_run(&d, "--doctor", &output, &result.code, &e), e);
    (void)snprintf(result.text, sizeof(result.text), "%s", output);
    free(output);
    assert_true(daemon_fini(&d));
    return &result;
}

const struct cli_result *alone(const char *nodes, const char *dsn, const char *lines, const char *filters)
{
    return alone_by(&(struct daemon_options){.nodes = nodes, .dsn = dsn, .redis = lines, .filters = filters});
}

void says(const struct cli_result *r, const char *state, const char *probe, const char *part,
          const char *remedy)
{
    char begin[64];
    (void)snprintf(begin, sizeof(begin), "%-8s %-13s ", state, probe);
    for (const char *line = r->text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *end = strchr(line, '\n'), *found = strstr(line, part);
        if (strncmp(line, begin, strlen(begin)) != 0 || end == NULL || found == NULL || found > end)
            continue;
        if (remedy == NULL)
            return;
        const char *next_end = strchr(end + 1, '\n'), *what = strstr(end + 1, remedy);
        if (next_end != NULL && what != NULL && what < next_end)
            return;
    }
    fail_msg("no line \"%s\" with \"%s\" and \"%s\" in:\n%s", begin, part, remedy != NULL ? remedy : "",
             r->text);
}

void is_problem(const char *probe, const char *part, const char *remedy)
{
    const struct cli_result *r = by_command("");
    says(r, "problem", probe, part, remedy);
    assert_int_equal(r->code, 1);
    r = alone(fixture.node_list, fixture.postgres.dsn, "", "");
    says(r, "problem", probe, part, remedy);
    assert_int_equal(r->code, 1);
}

void ask_redis(const char *command)
{
    struct error e = {""};
    must(client_ok(&redis, &e, command), e);
}

int doctoring_start(void **state)
{
    (void)state;
    static const char *const arguments[] = {"--appendonly", "yes", NULL};
    const struct fixture_options o = {.nodes = 1,
                                      .daemons = 1,
                                      .postgres = true,
                                      .rows = DOCTORING_ROWS,
                                      .capacity = 2 * DOCTORING_ROWS,
                                      .rate = "0.01",
                                      .settings = "wal_level = replica\n",
                                      .redis = arguments};
    struct error e = {""};
    if (fixture_start(&fixture, &o) != 0)
        return -1;
    must(client_open(&redis, fixture.redis[0].port, 5000, &e), e);
    return 0;
}

int doctoring_stop(void **state)
{
    (void)state;
    client_close(&redis);
    return fixture_stop(&fixture);
}

void all_is_well(const struct cli_result *r)
{
    /* Redis 6 itself is a reason for a warning. */
    const char *end = temp_redis_is_before_7() ? " 1 warning, 0 problems\n" : " 0 warnings, 0 problems\n";
    if (r->code != 0 || strstr(r->text, end) == NULL)
        fail_msg("exit status %d:\n%s", r->code, r->text);
}
