/* SPDX-License-Identifier: MIT */
/* The commands, of the table that the dispatcher goes by. */
#include <string.h>
#include "service/command.h"
#include "service/command_docs.h"
#include "service/describe.h"
#include "service/users.h"

static const struct group {
    const char *name, *title, *about;
} groups[] = {
    {"bf", "BF: Bloom filters",
     "Names, arguments, replies and errors are those of RedisBloom; what RedisBloom calls key and item is "
     "called "
     "filter and key here. `BF.SCANDUMP` and `BF.LOADCHUNK` carry a dump of Twinbloom: neither can load the "
     "other's dumps.\n\n"
     "Limits: a filter's name has at most 512 bytes, of which each of `{`, `}`, `%`, NUL, CR and LF counts "
     "as three; an "
     "expansion is at most 32768; the iterators of a dump are below 2^31, so a dump has at most 65,534 "
     "pieces of 4 MiB "
     "(255 GiB), and a larger filter cannot be dumped."},
    {"twinbloom", "TB: filters and rebuilds",
     "What RedisBloom does not have. `twinbloom` on the command line sends these."},
    {"keyspace", "Filters as keys",
     "As in Redis; the only keys are filters. A filter that the configuration names can be neither deleted "
     "nor "
     "given an expiry."},
    {"connection", "Connections", "As in Redis."},
    {"server", "Server",
     "As in Redis, as far as clients ask for it. `SUBSCRIBE` and `CLIENT TRACKING ON` are errors: no "
     "messages are "
     "sent, and a client that kept an answer would not hear of keys that are added. Do not use these options "
     "of "
     "client libraries:\n\n"
     "| library | option | what happens with it |\n|---|---|---|\n"
     "| node-redis 5 and later | `clientSideCache`, `emitInvalidate` | It reconnects without end, up to two "
     "seconds "
     "apart; each time its `error` event has the reason. A `reconnectStrategy` that returns `false` for such "
     "an error "
     "ends it. |\n"
     "| Valkey GLIDE | `clientSideCache` with `serverAssisted` | The client is not created: `timed out`. |\n"
     "| Valkey GLIDE | `pubsubSubscriptions` | It subscribes again without a pause until `requestTimeout`, "
     "then the "
     "client is not created: `Timeout`. |\n\n"
     "They would gain nothing: these libraries cache no `BF.*` command."},
    {"transactions", "Transactions",
     "`EXEC` runs the commands in order, on one connection. Other clients' commands may come in between."},
};

static const char *role_name(const struct command *c)
{
    unsigned role = command_role_of(c->flags);
    if ((c->flags & COMMAND_NO_AUTH) != 0)
        return "none";
    return role == ROLE_ADMIN ? "admin" : role == ROLE_WRITE ? "write" : role == ROLE_READ ? "read" : "any";
}

static void write_row(FILE *to, const struct command *c)
{
    const char *usage = command_usage(c);
    char line[256];
    (void)snprintf(line, sizeof(line), "%s%s%s", c->name, *usage != '\0' ? " " : "", usage);
    (void)fputs("| ", to);
    describe_code(to, line);
    (void)fprintf(to, " | %s | ", role_name(c));
    describe_cell(to, c->summary);
    const char *separator = ". For other roles: ";
    for (size_t i = 0; i < command_subcommand_count; i++) {
        const struct subcommand *s = &command_subcommands[i];
        if (strcmp(s->command, c->name) != 0 || command_role_of(s->flag) == command_role_of(c->flags))
            continue;
        (void)fprintf(to, "%s`%s` (%s)", separator, s->word,
                      command_role_of(s->flag) == ROLE_ADMIN ? "admin" : "any");
        separator = ", ";
    }
    (void)fputs(" |\n", to);
}

void describe_commands(FILE *to)
{
    (void)fputs("# Commands\n\n"
                "What `twinbloomd` answers on its port for Redis clients (RESP2 and RESP3). Words in "
                "capitals stand for themselves, in any "
                "case; `[x]` may be left out, `x...` may be repeated, `a|b` is a choice.\n\n"
                "The role is what a user needs once there are users or a password: `none`, before a login; "
                "`any`, whoever is logged in; "
                "`read`, `write`, `admin`, each of which implies those before it.\n",
                to);
    for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
        (void)fprintf(to, "\n## %s\n\n%s\n\n| command | role | |\n|---|---|---|\n", groups[g].title,
                      groups[g].about);
        for (size_t i = 0; i < command_count; i++)
            if (strcmp(command_table[i].group, groups[g].name) == 0)
                write_row(to, &command_table[i]);
    }
}
