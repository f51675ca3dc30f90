/* SPDX-License-Identifier: MIT */
#include "service/loop.h"

#include <stdlib.h>
#include <string.h>
#include "service/epochs.h"
#include "service/key_operation.h"

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
    const struct config *c = *held;
    const struct config_filter *f = config_find(c, name, length);
    if (f == NULL)
        return (struct filter_policy){.add_acks = c->add_acks, .add_fsync = c->add_fsync};
    return (struct filter_policy){.configured = true,
                                  .sourced = f->table[0] != '\0',
                                  .error_on_lost = f->on_lost == ON_LOST_ERROR,
                                  .add_acks = f->add_acks > c->add_acks ? f->add_acks : c->add_acks,
                                  .add_fsync = f->add_fsync || c->add_fsync};
}

static void on_holds(void *service, unsigned loop, const char *filter, uint64_t incarnation, uint64_t epoch)
{
    epochs_hold(((struct service *)service)->epochs, loop, filter, incarnation, epoch);
}

static void on_forget(void *open)
{
    open_filter_close(open);
}

struct catalog *loop_catalog_new(struct service *s, struct event_base *base, unsigned loop,
                                 const struct config *const *held)
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
        .latest = service_latest,
        .on_view = service_on_view,
        .is_loss_sure = service_is_loss_sure,
        .on_holds = on_holds,
        .loop = loop,
        .on_suspect = service_on_suspect,
        .on_forget = on_forget,
        .arg = s,
    };
    struct catalog *c = catalog_new(base, &options);
    if (c == NULL || s->logs == NULL)
        return c;
    struct key_port *port = key_port_new(base, catalog_store(c), s->logs, (unsigned)(*held)->timeout_ms);
    catalog_set_port(c, port);
    if (port == NULL) {
        catalog_free(c);
        return NULL;
    }
    return c;
}

void loop_catalog_free(struct catalog *c)
{
    if (c != NULL)
        key_port_free(catalog_port(c));
    catalog_free(c);
}

void loop_take_config(struct service *s, struct catalog *c, const struct config **held)
{
    const struct config *old = *held;
    *held = live_config_acquire(s->config);
    if (c != NULL) {
        catalog_configure(c, (unsigned)(*held)->timeout_ms, (*held)->tombstone_ms);
        key_port_configure(catalog_port(c), (unsigned)(*held)->timeout_ms);
    }
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
