/* SPDX-License-Identifier: MIT */
/* The happy path is: subscribe; each message leads to a task or wakes the controller. Possible failure modes
 * are: subscribing fails or the subscription breaks (retried after a pause; the controller then looks again,
 * because messages may have been missed, and the heartbeat is written, because Redis may have come back
 * without it); this user may not subscribe (logged once, retried rarely). */
#include "service/control/listener.h"

#include <pthread.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/control/heartbeat.h"
#include "shard/redis/events.h"

enum {
    WAKE_EVERY_US = 50 * 1000, /* the controller examines all filters when it is woken */
    IDLE_US = 1000 * 1000,
    TIMEOUT_MS_MAX = 1000, /* bounds how long a stop waits for a reply */
    PAUSE_MIN_MS = 50,
    PAUSE_MAX_MS = 5000
};

struct listener {
    struct service *service;
    struct heartbeat *heartbeat;
    struct mailbox *mailbox; /* gets the request to stop */
    atomic_bool stop;
    uint64_t woken_at;
    bool wake_wanted;
    bool deaf; /* not subscribed, and this was logged */
    unsigned pause_ms;
    pthread_t thread;
};

/* --- effects of a message --- */

/* Take messages until the subscription breaks or the service stops. */
static enum err take_messages(struct listener *l, struct events *s, struct error *e)
{
    enum err code = ERR_OK;
    while (!atomic_load(&l->stop) && (code == ERR_OK || code == ERR_TIMEOUT)) {
        struct events_message message;
        uint64_t until = l->wake_wanted ? l->woken_at + WAKE_EVERY_US : clock_mono_us() + IDLE_US;
        code = events_next(s, mailbox_fd(l->mailbox), until, &message, e);
        if (code == ERR_OK && message.kind == EVENTS_VIEW)
            service_look_again(l->service, message.filter, message.filter_length);
        l->wake_wanted |= code == ERR_OK;
        uint64_t now = clock_mono_us();
        if (l->wake_wanted && now >= l->woken_at + WAKE_EVERY_US) {
            l->wake_wanted = false;
            l->woken_at = now;
            mailbox_wake(l->service->controller);
        }
    }
    return code;
}

/* --- the thread --- */

static enum err listen_once(struct listener *l, struct error *e)
{
    const struct service *s = l->service;
    unsigned timeout = s->redis_timeout_ms < TIMEOUT_MS_MAX ? s->redis_timeout_ms : TIMEOUT_MS_MAX;
    struct events *events = NULL;
    enum err code = events_open(&events, &s->nodes, s->prefix, timeout, e);
    if (code != ERR_OK)
        return code;
    if (l->deaf) {
        log_info("subscribed", "note=\"subscribed again\"");
        heartbeat_wake(l->heartbeat);
    }
    l->wake_wanted |= l->deaf;
    l->deaf = false;
    uint64_t began = clock_mono_us();
    code = take_messages(l, events, e);
    events_close(events);
    if (clock_mono_us() - began > PAUSE_MAX_MS * 1000u)
        l->pause_ms = PAUSE_MIN_MS;
    return code;
}

static void *run(void *arg)
{
    struct listener *l = arg;
    l->pause_ms = PAUSE_MIN_MS;
    while (!atomic_load(&l->stop)) {
        struct error e = {.text = ""};
        enum err code = listen_once(l, &e);
        if (atomic_load(&l->stop))
            break;
        if (!l->deaf)
            log_warn("subscription_lost", "code=%s error=%s note=\"changes are noticed later\"",
                     error_name(code), log_quote(e.text));
        l->deaf = true;
        mailbox_wait(l->mailbox, (int)l->pause_ms);
        bool seldom = code == ERR_REFUSED || l->pause_ms * 2 > PAUSE_MAX_MS;
        l->pause_ms = seldom ? PAUSE_MAX_MS : l->pause_ms * 2;
    }
    return NULL;
}

enum err listener_start(struct listener **out, struct service *s, struct heartbeat *heartbeat,
                        struct error *e)
{
    struct listener *l = calloc(1, sizeof(*l));
    if (l == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    l->service = s;
    l->heartbeat = heartbeat;
    l->mailbox = mailbox_new();
    if (l->mailbox == NULL || pthread_create(&l->thread, NULL, run, l) != 0) {
        mailbox_free(l->mailbox);
        free(l);
        return error_set(e, ERR_NOMEM, "the thread that listens for changes could not be started");
    }
    *out = l;
    return ERR_OK;
}

void listener_stop(struct listener *l)
{
    if (l == NULL)
        return;
    atomic_store(&l->stop, true);
    mailbox_wake(l->mailbox);
    (void)pthread_join(l->thread, NULL);
    mailbox_free(l->mailbox);
    free(l);
}
