/* SPDX-License-Identifier: MIT */
/* Faults of connections, by the proxy. Half of them hit one coordinator, the others hit all. */
#include <stdio.h>

#include "tests/fault/fault.h"
#include "tests/fault/inject_kinds.h"

static unsigned route(const struct injection *i)
{
    return i->kind->scope == INJECT_POSTGRES_NETWORK ? i->world->postgres_route
                                                     : i->world->redis_route[i->target];
}

static const char *whom(struct injection *i)
{
    unsigned coordinator = (unsigned)fault_between(&i->state, 0, 2 * i->world->coordinators - 1);
    const char *user = coordinator < i->world->coordinators ? world_user(coordinator) : NULL;
    size_t n = 0;
    while (n + 1 < sizeof(i->detail) && i->detail[n] != '\0')
        n++;
    (void)snprintf(i->detail + n, sizeof(i->detail) - n, "%s for %s", n > 0 ? "," : "",
                   user != NULL ? user : "all");
    return user;
}

bool network_reset(struct injection *i)
{
    bool jobs = fault_between(&i->state, 0, 1) == 0;
    (void)snprintf(i->detail, sizeof(i->detail), "%s", jobs ? "jobs only" : "");
    (void)proxy_reset(i->world->proxy, route(i), whom(i), jobs);
    return true;
}

static bool set(struct injection *i, struct proxy_fault fault)
{
    fault.user = whom(i);
    proxy_set(i->world->proxy, route(i), &fault);
    return true;
}

static unsigned draw(struct injection *i, unsigned low, unsigned high, const char *what)
{
    unsigned n = (unsigned)fault_between(&i->state, low, high);
    (void)snprintf(i->detail, sizeof(i->detail), "%u %s", n, what);
    return n;
}

bool network_cut(struct injection *i)
{
    return set(i, (struct proxy_fault){.cuts = draw(i, 1, 30, "replies")});
}

bool network_lost_reply(struct injection *i)
{
    return set(i, (struct proxy_fault){.resets = draw(i, 1, 30, "replies")});
}

bool network_slow_request(struct injection *i)
{
    return set(i, (struct proxy_fault){.request_delay_ms = draw(i, 5, 900, "ms")});
}

bool network_slow_reply(struct injection *i)
{
    return set(i, (struct proxy_fault){.reply_delay_ms = draw(i, 5, 900, "ms")});
}

bool network_swallow(struct injection *i)
{
    return set(i, (struct proxy_fault){.swallow = true});
}

bool network_refuse(struct injection *i)
{
    return set(i, (struct proxy_fault){.refuse = true});
}

void network_end(struct injection *i)
{
    proxy_set(i->world->proxy, route(i), &(struct proxy_fault){0});
}
