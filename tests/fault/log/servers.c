/* SPDX-License-Identifier: MIT */
#include "tests/fault/log/servers.h"

#include <stdio.h>
#include <string.h>
#include "shard/redis/nodes/cluster.h"

enum { REPLY_MS = 5000 };

static enum err start_list(struct fault_servers *s, unsigned count, struct error *e)
{
    static const char *const extra[] = {
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--auto-aof-rewrite-percentage", /* no rewrite: the file keeps every command (explain.h) */
        "0",
        NULL};
    char list[FAULT_SERVERS_MAX * 66] = "";
    enum err code = ERR_OK;
    for (unsigned i = 0; i < count && code == ERR_OK; i++) {
        s->count = i + 1;
        code = temp_redis_start(&s->redis[i], extra, e);
        if (code == ERR_OK)
            code = client_open(&s->client[i], s->redis[i].port, REPLY_MS, e);
        size_t n = strlen(list);
        (void)snprintf(list + n, sizeof(list) - n, "%s%s", i == 0 ? "" : ",", s->redis[i].url);
    }
    return code == ERR_OK ? nodes_parse(&s->nodes, list, e) : code;
}

static enum err start_cluster(struct fault_servers *s, unsigned replicas, struct error *e)
{
    static struct nodes seeds;
    enum err code = temp_cluster_start(&s->cluster, FAULT_SERVERS_MAX, 0, replicas, e);
    if (code == ERR_OK)
        code = cluster_parse_seeds(&seeds, s->cluster.seeds, e);
    if (code == ERR_OK && (s->nodes.cluster = cluster_new(&seeds)) == NULL)
        code = error_set(e, ERR_NOMEM, "out of memory");
    return code;
}

enum err fault_servers_start(struct fault_servers *s, enum fault_layout layout, struct error *e)
{
    *s = (struct fault_servers){.layout = layout};
    if (layout == CLUSTER_OF_THREE)
        return start_cluster(s, 0, e);
    if (layout == CLUSTER_WITH_REPLICAS)
        return start_cluster(s, FAULT_SERVERS_MAX, e);
    return start_list(s, layout == THREE_SERVERS ? FAULT_SERVERS_MAX : 1, e);
}

void fault_servers_fini(struct fault_servers *s)
{
    for (unsigned i = 0; i < s->count; i++) {
        client_close(&s->client[i]);
        temp_redis_fini(&s->redis[i]);
    }
    temp_cluster_fini(&s->cluster);
    cluster_free(s->nodes.cluster);
    *s = (struct fault_servers){0};
}

struct client *fault_servers_each(struct fault_servers *s, unsigned i)
{
    if (s->count == 0)
        return i < s->cluster.masters ? &s->cluster.client[i] : NULL;
    return i < s->count ? &s->client[i] : NULL;
}

enum err fault_servers_reconnect(struct fault_servers *s, unsigned i, struct error *e)
{
    client_close(&s->client[i]);
    return client_open(&s->client[i], s->redis[i].port, REPLY_MS, e);
}
