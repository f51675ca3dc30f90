/* SPDX-License-Identifier: MIT */
/* Limits how much of Redis a user may use. With filters_max or bytes_max, the filters that match the user's
 * patterns are counted when it makes a filter, or when one grows. Without bytes_max, a new filter may take a
 * share of the free memory. Two filters that are made at the same time may both pass the check. */
#include "expansion/job/memory.h"
#include "service/admin/admin.h"
#include "service/config/users.h"
#include "shard/redis/ahead.h"
#include "shard/view/view_load.h"

enum { SHARE = 4 }; /* a quarter of the free memory */

struct taken {
    uint64_t filters, bytes;
    uint64_t own; /* bytes of the filter that the call is about */
};

struct counting {
    struct admin *a;
    const struct admin_call *call;
    const struct span *name;
    struct taken *taken;
    enum err code;
    struct error *e;
};

static void ask_for(void *arg, size_t i, unsigned user)
{
    const struct counting *c = arg;
    struct names names;
    if (names_init(&names, c->a->config->prefix, c->name[i].at, c->name[i].length, NULL) == ERR_OK)
        log_view_ask_ahead(c->a->redis, user, &names);
}

/* Add what is stored under a name, unless it is the filter that the call is about. */
static bool add_filter(void *arg, size_t i)
{
    struct counting *c = arg;
    struct admin *a = c->a;
    const struct span *name = &c->name[i];
    if (names_init(&a->handle.names, a->config->prefix, name->at, name->length, NULL) != ERR_OK)
        return true; /* too long for a filter's name */
    enum err code = handle_load(&a->handle, &a->view, c->e);
    c->code = code == ERR_NOT_FOUND ? ERR_OK : code;
    if (code == ERR_OK) {
        bool same = span_order(name, &(struct span){c->call->filter, c->call->filter_length}) == 0;
        c->taken->filters += !same;
        c->taken->bytes += memory_of_view(&a->view);
        c->taken->own += same ? memory_of_view(&a->view) : 0;
    }
    return c->code == ERR_OK;
}

static enum err count(struct admin *a, const struct admin_call *call, const struct config_user *u,
                      struct taken *taken, struct error *e)
{
    SCOPED(admin_names_free) struct filter_names all;
    size_t n = 0;
    enum err code = admin_names(a, &all, e);
    if (code != ERR_OK)
        return code;
    for (size_t i = 0; i < all.count; i++)
        if (user_may_filter(u, all.name[i].at, all.name[i].length))
            all.name[n++] = all.name[i];
    struct counting c = {.a = a, .call = call, .name = all.name, .taken = taken, .e = e};
    ahead_each(a->redis, n, ask_for, add_filter, &c);
    return c.code;
}

/* No single command of a user without bytes_max may reserve all memory, so that others' filters can grow.
 * Large filters are spread evenly, so the node with the least free memory decides. Nodes that do not report
 * memory are skipped: if they cannot be reached, making the filter fails with that error. */
static enum err check_share(struct admin *a, const struct config_user *u, uint64_t bytes, struct error *e)
{
    unsigned count = 0;
    uint64_t least = UINT64_MAX;
    struct error ignored;
    if (sync_client_masters(a->redis, &count, &ignored) != ERR_OK)
        return ERR_OK;
    for (unsigned i = 0; i < count; i++) {
        struct plan_node node = {.known = false};
        uint64_t limit = 0;
        if (memory_of_node(a->redis, sync_client_master(a->redis, i), &node, &ignored) == ERR_OK)
            limit = plan_node_limit(&node);
        uint64_t left = node.used < limit ? limit - node.used : 0;
        if (limit != 0 && left < least)
            least = left;
    }
    uint64_t most = least / SHARE * count;
    if (least == UINT64_MAX || bytes <= most)
        return ERR_OK;
    return error_set(e, ERR_CONFLICT,
                     "user %s may take %llu bytes at once, a quarter of the memory that Redis has left, and "
                     "%llu were asked for; ask for less, or set bytes_max for this user",
                     u->name, (unsigned long long)most, (unsigned long long)bytes);
}

enum err admin_quota(struct admin *a, const struct admin_call *call, enum quota what, uint64_t bytes,
                     struct error *e)
{
    struct taken taken = {0};
    if (call->user == NULL) /* a thread of the coordinator */
        return ERR_OK;
    const struct config_user *u = users_find(a->config, call->user, strlen(call->user));
    if (u == NULL)
        return error_set(e, ERR_CONFLICT,
                         "user %s may make nothing: no user has this name, or it is disabled", call->user);
    if (what == QUOTA_MAKE && u->bytes_max == 0 && !user_may(u, ROLE_ADMIN)) {
        enum err code = check_share(a, u, bytes, e);
        if (code != ERR_OK)
            return code;
    }
    if (u->filters_max == 0 && u->bytes_max == 0)
        return ERR_OK;
    const struct names names = a->handle.names; /* names of the filter that the call is about */
    enum err code = count(a, call, u, &taken, e);
    a->handle.names = names;
    if (code != ERR_OK)
        return code;
    if (what == QUOTA_GROW) /* a layer is about as large as all earlier ones together */
        bytes = taken.own;
    if (what != QUOTA_GROW && u->filters_max != 0 && taken.filters >= u->filters_max)
        return error_set(e, ERR_CONFLICT, "user %s may have %llu filters (filters_max) and has as many",
                         u->name, (unsigned long long)u->filters_max);
    if (u->bytes_max != 0 && (taken.bytes >= u->bytes_max || bytes > u->bytes_max - taken.bytes))
        return error_set(e, ERR_CONFLICT,
                         "user %s may take %llu bytes of Redis (bytes_max): its filters have %llu, and %llu "
                         "more were asked for",
                         u->name, (unsigned long long)u->bytes_max, (unsigned long long)taken.bytes,
                         (unsigned long long)bytes);
    return ERR_OK;
}
