/* SPDX-License-Identifier: MIT */
#include "tests/integration/drop_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "service/filters/filter_drop.h"
#include "service/filters/filter_states.h"
#include "shard/control/filters.h"

enum { LEASE_MS = 2000, REDIS_MS = 5000, LEAVE_MS = 1000, SHARD_BYTES = 65536 };

struct caller {
    struct service service;
    struct config config;
    struct handle handle;
    struct view scratch;
};

static enum err call(const struct nodes *nodes, const char *prefix, enum drop_when when, uint64_t seen,
                     struct error *e)
{
    struct caller *c = calloc(1, sizeof(*c));
    char *own = strdup(prefix);
    if (c == NULL || own == NULL)
        abort();
    c->service.nodes = *nodes;
    (void)snprintf(c->service.owner, sizeof(c->service.owner), "caller");
    c->service.watch = filter_states_new();
    if (seen != 0)
        filter_states_on_seen(c->service.watch, "f", 1, seen);
    c->config.prefix = own;
    (void)snprintf(c->service.prefix, sizeof(c->service.prefix), "%s", own);
    c->config.shard_bytes = SHARD_BYTES;
    c->config.lease_ms = LEASE_MS;
    c->config.redis_timeout_ms = REDIS_MS;
    c->handle.redis = sync_client_new(nodes, REDIS_MS, "twinbloom-job");
    const struct filters_options o = {.nodes = &c->service.nodes,
                                      .prefix = own,
                                      .owner = c->service.owner,
                                      .timeout_ms = REDIS_MS,
                                      .threads = 1};
    enum err code = filters_new(&c->service.logs, &o, e);
    if (code == ERR_OK)
        code = filter_drop(&c->service, &c->config, &c->handle, &c->scratch, "f", 1, when, e);
    filters_free(c->service.logs, LEAVE_MS);
    sync_client_free(c->handle.redis);
    handle_fini(&c->handle);
    filter_states_free(c->service.watch);
    free(own);
    free(c);
    return code;
}

enum err drop_call(const struct nodes *nodes, const char *prefix, enum drop_call_when when, struct error *e)
{
    static const enum drop_when whens[] = {
        [CALL_NOW] = DROP_NOW, [CALL_IF_DUE] = DROP_IF_DUE, [CALL_IF_BEGUN] = DROP_IF_BEGUN};
    return call(nodes, prefix, whens[when], 0, e);
}

enum err drop_call_seen(const struct nodes *nodes, const char *prefix, uint64_t seen, struct error *e)
{
    return call(nodes, prefix, DROP_NOW, seen, e);
}
