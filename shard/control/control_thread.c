/* SPDX-License-Identifier: MIT */
#include "shard/control/control_thread.h"

#include <stdlib.h>

struct control_thread *control_thread_new(const struct nodes *nodes, unsigned timeout_ms)
{
    struct control_thread *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return NULL;
    t->view = malloc(sizeof(*t->view));
    t->at = calloc(LOG_LANES_MAX, sizeof(*t->at));
    t->position = calloc(LOG_LANES_MAX, sizeof(*t->position));
    t->lease = sync_client_new(nodes, timeout_ms, "twinbloom-folder");
    t->base = event_base_new();
    if (t->base != NULL)
        t->async = async_client_new(t->base, nodes, timeout_ms, NULL);
    if (t->async != NULL)
        t->port = lane_port_new(t->base, t->async, timeout_ms);
    if (t->view == NULL || t->at == NULL || t->position == NULL || t->lease == NULL || t->port == NULL) {
        control_thread_free(t);
        return NULL;
    }
    return t;
}

void control_thread_free(struct control_thread *t)
{
    if (t == NULL)
        return;
    lane_port_free(t->port);
    if (t->async != NULL)
        async_client_free(t->async);
    if (t->base != NULL)
        event_base_free(t->base);
    sync_client_free(t->lease);
    free(t->view);
    free(t->at);
    free(t->position);
    free(t);
}
