/* SPDX-License-Identifier: MIT */
/* CONFIG GET and SET. */
#include <stdlib.h>
#include <string.h>
#include "base/glob.h"
#include "service/commands/command.h"
#include "service/core/reload.h"
#include "service/resp/worker.h"

/* --- GET --- */

/* Parameters that Redis tools ask for, with their values here: this process saves nothing. */
static const struct {
    const char *name, *value;
} parameters[] = {{"save", ""}, {"appendonly", "no"}, {"databases", "1"}, {"maxmemory", "0"}};

enum { PARAMETERS = sizeof(parameters) / sizeof(parameters[0]) };

struct listing {
    const struct argument *patterns;
    size_t count;
    struct reply items;
    size_t hits;
};

static bool asked_for(const struct listing *l, const char *name)
{
    size_t i = 0;
    while (i < l->count && !glob_match(l->patterns[i].bytes, l->patterns[i].length, name, strlen(name)))
        i++;
    return i < l->count;
}

static bool named(const struct listing *l, const char *name)
{
    size_t i = 0;
    while (i < l->count && !argument_is(&l->patterns[i], name))
        i++;
    return i < l->count;
}

/* List the key once, by either of its names: under the short one if that was written without a pattern, else
 * under the full one. */
static void list(void *arg, const char *name, const char *bare, const char *value)
{
    struct listing *l = arg;
    const char *as = asked_for(l, name)   ? name
                     : *bare == '\0'      ? NULL
                     : named(l, bare)     ? bare
                     : asked_for(l, bare) ? name
                                          : NULL;
    if (as == NULL)
        return;
    reply_text(&l->items, as);
    reply_text(&l->items, value);
    l->hits++;
}

void command_config_get(struct client *c, const struct argument *a, size_t count)
{
    SCOPED(buffer_fini) struct buffer items = {0};
    struct listing l = {
        .patterns = a + 2, .count = count - 2, .items = {.out = &items, .protocol = c->protocol}};
    for (size_t i = 0; i < PARAMETERS; i++)
        list(&l, parameters[i].name, "", parameters[i].value);
    const struct config *config = live_config_acquire(c->worker->service->config);
    config_each(config, list, &l);
    config_release(config);
    if (buffer_failed(&items)) {
        client_error(c, "OOM out of memory");
    } else {
        struct reply r = client_reply_begin(c);
        reply_map(&r, l.hits);
        buffer_append(r.out, items.data, items.length);
        client_reply_end(c);
    }
}

/* --- SET --- */

static void refuse(struct client *c, const struct config_assignment *at, enum err code, const char *why)
{
    const char *path = c->worker->service->config_path;
    if (code == ERR_NOT_FOUND)
        client_error(
            c,
            "ERR Unknown option or number of arguments for CONFIG SET - '%.*s'; CONFIG GET * lists the keys",
            command_shown(at->name_length), at->name);
    else if (code == ERR_REFUSED)
        client_error(c,
                     "ERR CONFIG SET failed (possibly related to argument '%.*s') - it is taken from the "
                     "configuration file alone; change it in %s and send SIGHUP",
                     command_shown(at->name_length), at->name, path);
    else
        client_error(c, "ERR CONFIG SET failed (possibly related to argument '%.*s') - %s",
                     command_shown(at->name_length), at->name, why);
}

void command_config_set(struct client *c, const struct argument *a, size_t count)
{
    struct error e = {.text = ""};
    size_t blamed = 0, pairs = (count - 2) / 2;
    struct config_assignment *set = count % 2 == 0 ? calloc(pairs, sizeof(*set)) : NULL;
    if (set == NULL) {
        client_error(c, count % 2 != 0 ? "ERR syntax error" : "OOM out of memory");
        return;
    }
    for (size_t i = 0; i < pairs; i++) {
        const struct argument *name = &a[2 + 2 * i], *value = name + 1;
        set[i] = (struct config_assignment){name->bytes, value->bytes, name->length, value->length};
    }
    enum err code = reload_set(c->worker->service, set, pairs, c->address, &blamed, &e);
    if (code == ERR_OK)
        command_ok(c);
    else
        refuse(c, &set[blamed], code, e.text);
    free(set);
}

/* --- REWRITE --- */

void command_config_rewrite(struct client *c, const struct argument *a UNUSED, size_t count UNUSED)
{
    client_error(c,
                 "ERR CONFIG REWRITE is not offered: the configuration file is yours; write into it what is "
                 "to outlast the next SIGHUP or restart");
}
