/* SPDX-License-Identifier: MIT */
/* What is known of a store's nodes, and of what is under way to them. */
#include "shard/redis/store_internal.h"

/* By number: of the list of nodes, then of the cluster. */
static struct store_peer *each_peer(const struct store *s, unsigned i)
{
    if (i < s->nodes->count)
        return &s->peer[i];
    return s->route == NULL ? NULL : store_route_each(s, i - s->nodes->count);
}

/* --- how the nodes fare --- */

/* NULL: of a cluster that is not known. */
static const struct store_peer *peer_at(const struct store *s, unsigned where, const char **why)
{
    *why = "";
    return where < WHERE_SLOT ? &s->peer[where] : store_route_peer(s, where, why);
}

bool store_same_node(struct store *s, unsigned a, unsigned b)
{
    return a == b || (where_is_slot(a) && where_is_slot(b) && store_route_same_node(s, a, b));
}

const char *store_why(const struct store *s, unsigned where)
{
    const char *why;
    const struct store_peer *p = peer_at(s, where, &why);
    return p == NULL ? why : p->why;
}

const char *store_name(const struct store *s, unsigned where)
{
    const char *why;
    const struct store_peer *p = peer_at(s, where, &why);
    return p == NULL ? "of the cluster" : p->node.name;
}

bool store_any_down(const struct store *s, const char **name, const char **why)
{
    const struct store_peer *p;
    for (unsigned i = 0; (p = each_peer(s, i)) != NULL; i++)
        if (p->down_since != 0) {
            *name = p->node.name;
            *why = p->why;
            return true;
        }
    if (s->route == NULL || !store_route_is_blind(s))
        return false;
    *name = "of the cluster";
    (void)store_route_peer(s, WHERE_SLOT, why);
    return true;
}
