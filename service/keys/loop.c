/* SPDX-License-Identifier: MIT */
#include "service/keys/loop.h"

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

void loop_take_config(struct service *s, struct key_port *keys, const struct config **held)
{
    const struct config *old = *held;
    *held = live_config_acquire(s->config);
    if (keys != NULL)
        key_port_configure(keys);
    config_release(old);
}
