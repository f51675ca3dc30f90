/* SPDX-License-Identifier: MIT */
/* What the threads of the coordinator tell each other. */
#include "service/core/service.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/clock.h"
#include "service/core/tls.h"
#include "shard/filter/names.h"
#include "shard/control/filters.h"
#include "shard/redis/nodes/cluster.h"
#include "shard/redis/sentinel_watch.h"
#include "shard/view/claim.h"

void service_refuse(struct service *s, const struct error *e)
{
    if (atomic_load(&s->refused))
        return;
    s->refusal = *e;
    atomic_store(&s->refused, true);
    (void)kill(getpid(), SIGTERM);
}

void service_look_again(struct service *s, const char *escaped, size_t length)
{
    char name[FILTER_NAME_MAX];
    if (!names_unescape(escaped, length, name, &length))
        return;
    filters_look(s->logs, name, length);
    s->on_view(s->on_arg);
}

/* --- the nodes of the configuration, and what is needed to connect to them --- */

static enum err load_certificates(struct service *s, const struct config *config, struct error *e)
{
    struct tls_contexts certificates;
    s->tls = tls_new();
    s->nodes.tls = tls_new();
    if (s->tls == NULL || s->nodes.tls == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = tls_load(&certificates, config, e);
    if (code != ERR_OK)
        return code;
    tls_replace(s->tls, certificates.clients);
    tls_replace(s->nodes.tls, certificates.redis);
    return ERR_OK;
}

/* Wait a short time for the masters' addresses. A connection that is begun without an address logs an error
 * and tries again. */
static void await_masters(struct service *s)
{
    char host[NODE_NAME_MAX];
    uint16_t port;
    unsigned version;
    uint64_t until = clock_mono_us() + s->redis_timeout_ms * UINT64_C(1000);
    for (unsigned i = 0; i < s->nodes.count && clock_mono_us() < until;)
        if (sentinels_address(s->nodes.sentinels, &s->nodes.node[i], host, &port, &version))
            i++;
        else
            clock_sleep_us(10 * 1000);
}

enum err service_reach_nodes(struct service *s, const struct config *config, struct error *e)
{
    struct nodes both[2] = {{0}};
    enum err code = config_nodes(config, &both[0], &both[1], e);
    if (code == ERR_OK && config->cluster[0] == '\0')
        s->nodes = both[0];
    else if (code == ERR_OK && (s->nodes.cluster = cluster_new(&both[0])) == NULL)
        code = error_set(e, ERR_NOMEM, "out of memory");
    if (code == ERR_OK)
        code = load_certificates(s, config, e);
    if (code == ERR_OK && both[1].count > 0) {
        both[1].tls = s->nodes.tls;
        code = sentinels_new(&s->nodes.sentinels, &both[0], e);
        if (code == ERR_OK)
            code = sentinel_watch_start(&s->sentinel_watch, s->nodes.sentinels, &both[1], s->redis_timeout_ms,
                                        e);
        if (code == ERR_OK)
            await_masters(s);
    }
    return code;
}

void service_leave_nodes(struct service *s)
{
    sentinel_watch_stop(s->sentinel_watch);
    sentinels_free(s->nodes.sentinels);
    tls_free(s->tls);
    tls_free(s->nodes.tls);
    cluster_free(s->nodes.cluster);
}

enum err service_claim(struct service *s, struct sync_client *l, struct error *e)
{
    bool whole = false;
    if (atomic_load(&s->claimed))
        return ERR_OK;
    enum err code = claim_nodes(l, s->prefix, &whole, e);
    if (code == ERR_OK && whole)
        atomic_store(&s->claimed, true);
    return code;
}
