/* SPDX-License-Identifier: MIT */
/* The tables that the daemon runs by, as JSON on standard output: docs/generate makes pages of them. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "service/cli/common/cli_codes.h"
#include "service/commands/command.h"
#include "service/config/config_keys.h"
#include "service/daemon/daemon_options.h"
#include "service/http/message/http_problem.h"
#include "service/http/http_route.h"
#include "service/metrics/metrics_table.h"
#include "service/config/users.h"

static json_t *options(void)
{
    json_t *all = json_array();
    for (size_t i = 0; i < daemon_option_count; i++) {
        const struct daemon_option_row *o = &daemon_options[i];
        const char letter[2] = {(char)o->letter, '\0'};
        json_array_append_new(all, json_pack("{s:s, s:s, s:s?, s:s}", "letter", letter, "name", o->name,
                                             "argument", o->argument, "help", o->help));
    }
    return all;
}

static json_t *keys(void)
{
    json_t *all = json_array();
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        struct buffer bounds = {0};
        config_key_bounds(k, &bounds);
        bool live = (k->flags & CONFIG_RELOADABLE) != 0, by_file = (k->flags & CONFIG_FILE_ONLY) != 0;
        json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b}", "section",
                                             config_section_name(k->section), "name", k->name, "expected",
                                             config_type_expected(k->type), "default", k->standard, "bounds",
                                             buffer_text(&bounds), "running",
                                             !live     ? "no"
                                             : by_file ? "file"
                                                       : "yes",
                                             "help", k->help, "secret", (k->flags & CONFIG_SECRET) != 0));
        buffer_fini(&bounds);
    }
    return all;
}

static const char *role_of(unsigned flags)
{
    unsigned role = command_role_of(flags);
    if ((flags & COMMAND_NO_AUTH) != 0)
        return "none";
    return role == ROLE_ADMIN ? "admin" : role == ROLE_WRITE ? "write" : role == ROLE_READ ? "read" : "any";
}

/* With those of a command's subcommands that are for others than it. */
static json_t *commands(void)
{
    json_t *all = json_array();
    for (size_t i = 0; i < command_count; i++) {
        const struct command *c = &command_table[i];
        json_t *others = json_array();
        for (size_t k = 0; k < command_subcommand_count; k++) {
            const struct subcommand *s = &command_subcommands[k];
            if (strcmp(s->command, c->name) == 0 && command_role_of(s->flag) != command_role_of(c->flags))
                json_array_append_new(others, json_pack("[ss]", s->word, role_of(s->flag)));
        }
        json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "name", c->name, "usage",
                                             c->arguments, "group", c->group, "role", role_of(c->flags),
                                             "summary", c->summary, "others", others));
    }
    return all;
}

static json_t *error(const char *name, const char *reply, int http, int status, const char *meaning,
                     const char *remedy)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:s, s:s}", "name", name, "reply", reply, "http", http, "exit",
                     status, "meaning", meaning, "remedy", remedy);
}

static json_t *errors(void)
{
    size_t count;
    const struct error_code *row = error_codes(&count);
    json_t *all = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(all, error(row[i].name, row[i].reply, row[i].http_status, row[i].exit_status,
                                         row[i].meaning, row[i].remedy));
    return all;
}

static json_t *errors_of_cli(void)
{
    json_t *all = json_array();
#define X(status, name, meaning, remedy)                                                                     \
    json_array_append_new(all, error(name, "", 0, status, meaning, remedy));
    CLI_CODES(X)
#undef X
    return all;
}

static json_t *errors_of_http(void)
{
    json_t *all = json_array();
    for (enum http_code code = 0; code < HTTP_CODE_COUNT; code++) {
        const struct http_code_row *row = http_code_row(code);
        json_array_append_new(all, error(row->name, "", row->status, 0, row->meaning, row->remedy));
    }
    return all;
}

static json_t *routes(void)
{
    static const char *const roles[] = {
        [HTTP_ROLE_NONE] = "none",   [HTTP_ROLE_SCRAPE] = "read, all filters, or none: see `http_metrics`",
        [HTTP_ROLE_READ] = "read",   [HTTP_ROLE_READ_ALL] = "read, all filters",
        [HTTP_ROLE_WRITE] = "write", [HTTP_ROLE_ADMIN] = "admin"};
    json_t *all = json_array();
    for (size_t i = 0; i < http_route_count; i++) {
        const struct http_route *r = &http_routes[i];
        json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:s}", "method", r->method, "pattern",
                                             r->pattern, "role", roles[r->role], "summary", r->summary));
    }
    return all;
}

static json_t *metrics(void)
{
    json_t *all = json_array();
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        const struct metric_row *m = &metric_rows[i];
        json_array_append_new(all,
                              json_pack("{s:s, s:s, s:s, s:s}", "name", m->name, "type",
                                        metric_type_name(m->type), "labels", m->labels, "help", m->help));
    }
    return all;
}

int main(void)
{
    json_t *all = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "version", TWINBLOOM_VERSION,
                            "options", options(), "keys", keys(), "commands", commands(), "errors", errors(),
                            "errors_of_cli", errors_of_cli(), "errors_of_http", errors_of_http(), "routes",
                            routes(), "metrics", metrics());
    int status = all == NULL || json_dumpf(all, stdout, JSON_INDENT(1)) != 0;
    json_decref(all);
    return status;
}
