/* SPDX-License-Identifier: MIT */
/* What an async client knows of its nodes. */
#include "shard/redis/async_client_internal.h"

/* The @i-th peer: those of the list of nodes, then those of the cluster. NULL: there are no more. */
static struct async_client_peer *each_peer(const struct async_client *s, unsigned i)
{
    if (i < s->nodes->count)
        return &s->peer[i];
    return s->route == NULL ? NULL : async_client_route_each(s, i - s->nodes->count);
}

void async_client_rest(struct async_client *s)
{
    struct async_client_peer *p;
    for (unsigned i = 0; (p = each_peer(s, i)) != NULL; i++)
        async_client_peer_report(p, false);
    if (s->route != NULL)
        async_client_route_rest(s);
}

/* --- how the nodes fare --- */

/* NULL: the cluster's node for @where is unknown; *why says why. */
static const struct async_client_peer *peer_at(const struct async_client *s, unsigned where, const char **why)
{
    *why = "";
    return where < WHERE_SLOT ? &s->peer[where] : async_client_route_peer(s, where, why);
}

const char *async_client_why(const struct async_client *s, unsigned where)
{
    const char *why;
    const struct async_client_peer *p = peer_at(s, where, &why);
    return p == NULL ? why : p->why;
}

const char *async_client_name(const struct async_client *s, unsigned where)
{
    const char *why;
    const struct async_client_peer *p = peer_at(s, where, &why);
    return p == NULL ? "of the cluster" : p->node.name;
}

const struct nodes *async_client_nodes(const struct async_client *s)
{
    return s->nodes;
}

bool async_client_any_down(const struct async_client *s, const char **name, const char **why)
{
    const struct async_client_peer *p;
    for (unsigned i = 0; (p = each_peer(s, i)) != NULL; i++)
        if (p->down_since != 0) {
            *name = p->node.name;
            *why = p->why;
            return true;
        }
    if (s->route == NULL || !async_client_route_is_blind(s))
        return false;
    *name = "of the cluster";
    (void)async_client_route_peer(s, WHERE_SLOT, why);
    return true;
}
