/* SPDX-License-Identifier: MIT */
/* What the threads of the coordinator tell each other. */
#include "service/core/service.h"

#include <signal.h>
#include <unistd.h>
#include "shard/filter/names.h"
#include "shard/control/filters.h"

void service_refuse(struct service *s, const struct error *e)
{
    if (atomic_load(&s->refused))
        return;
    s->refusal = *e;
    atomic_store(&s->refused, true);
    (void)kill(getpid(), SIGTERM);
}

void service_wake_controller(struct service *s)
{
    mailbox_wake(s->controller);
}

void service_look_again(struct service *s, const char *escaped, size_t length)
{
    char name[FILTER_NAME_MAX];
    if (!names_unescape(escaped, length, name, &length))
        return;
    filters_look(s->logs, name, length);
    s->on_view(s->on_arg);
}
