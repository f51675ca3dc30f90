/* SPDX-License-Identifier: MIT */
#include "service/loop.h"

#include <stdlib.h>
#include <string.h>

struct event_base *loop_base_new(void)
{
    struct event_config *config = event_config_new();
    if (config == NULL)
        return NULL;
    (void)event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

/* What the configuration says of a filter. */
static struct filter_policy policy(void *arg, const char *name, size_t length)
{
    const struct config *const *held = arg;
    const struct config_filter *f = config_find(*held, name, length);
    if (f == NULL)
        return (struct filter_policy){0};
    return (struct filter_policy){
        .configured = true, .sourced = f->table[0] != '\0', .error_on_lost = f->on_lost == ON_LOST_ERROR};
}

struct catalog *loop_catalog_new(struct service *s, struct event_base *base, const struct config *const *held)
{
    const struct catalog_options options = {
        .nodes = &s->nodes,
        .prefix = s->prefix,
        .latency = &s->latency,
        .redis_timeout_ms = s->redis_timeout_ms,
        .timeout_ms = (unsigned)(*held)->timeout_ms,
        .tombstone_ms = (*held)->tombstone_ms,
        .policy = policy,
        .policy_arg = (void *)(uintptr_t)held,
        .on_seen = service_on_seen,
        .on_dropped = service_on_dropped,
        .was_seen = service_was_seen,
        .on_lost = service_on_lost,
        .arg = s,
    };
    return catalog_new(base, &options);
}

void loop_take_config(struct service *s, struct catalog *c, const struct config **held)
{
    const struct config *old = *held;
    *held = live_config_acquire(s->config);
    if (c != NULL)
        catalog_configure(c, (unsigned)(*held)->timeout_ms, (*held)->tombstone_ms);
    config_release(old);
}

struct refresh {
    struct catalog *const *catalog;
    size_t length;
    char name[];
};

static void take_refresh(void *arg)
{
    struct refresh *r = arg;
    if (*r->catalog != NULL)
        catalog_refresh(*r->catalog, r->name, r->length);
    free(r);
}

void loop_refresh(struct mailbox *mailbox, struct catalog *const *catalog, const char *name, size_t length)
{
    struct refresh *r = malloc(sizeof(*r) + length);
    if (r == NULL)
        return; /* it finds out by a command that fails */
    r->catalog = catalog;
    r->length = length;
    memcpy(r->name, name, length);
    if (mailbox_post(mailbox, take_refresh, r) != ERR_OK)
        free(r);
}
