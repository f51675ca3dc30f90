/* SPDX-License-Identifier: MIT */
#include "service/keys/loop.h"

#include "service/filters/filter_states.h"

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

void loop_event_free(struct event *event)
{
    if (event != NULL)
        event_free(event);
}

/* What the configuration says about a filter. */
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

struct key_port *loop_keys_new(struct service *s, struct event_base *base, const struct config *const *held)
{
    const struct key_port_options options = {
        .base = base,
        .nodes = &s->nodes,
        .filters = s->logs,
        .prefix = s->prefix,
        .latency = &s->latency,
        .redis_timeout_ms = s->redis_timeout_ms,
        .timeout_ms = (unsigned)(*held)->timeout_ms,
        .policy = policy,
        .policy_arg = (void *)(uintptr_t)held,
        .on_seen = filter_states_on_seen,
        .arg = s->watch,
    };
    return key_port_new(&options);
}

void loop_take_config(struct service *s, struct key_port *keys, const struct config **held)
{
    const struct config *old = *held;
    *held = live_config_acquire(s->config);
    if (keys != NULL)
        key_port_configure(keys, (unsigned)(*held)->timeout_ms);
    config_release(old);
}
