/* SPDX-License-Identifier: MIT */
/* The happy path is: at each tick all event loops have come to the task of the tick before, WATCHDOG=1 is
 * sent, and they are sent the next one. Possible failure modes are: a loop hangs (nothing is sent until it
 * goes on, so systemd ends the process), there is no memory for a task (it is sent at the next tick). */
#include "service/daemon/supervisor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef TWINBLOOM_SYSTEMD
#include <systemd/sd-daemon.h>
#endif
#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "service/jobs/runner.h"
#include "service/resp/worker.h"
#include "shard/redis/nodes/health.h"

enum {
    LOOPS_MAX = WORKERS_MAX + 1,
    TICK_US = 1000 * 1000,
    FIRST_TICK_US = 10 * 1000, /* until it is ready */
    TICKS_OF_WATCHDOG = 4,     /* in an interval: one may come late */
    END_US = 90 * 1000 * 1000  /* besides shutdown_delay: see service_run()'s end */
};

/* Of one event loop. */
struct heartbeat {
    struct mailbox *mailbox;
    bool posted;
    atomic_bool owed; /* it has not come to its task yet */
};

struct supervisor {
    struct service *service;
    struct supervised o;
    struct event *tick;
    struct heartbeat heartbeat[LOOPS_MAX];
    size_t loops;
    uint64_t watchdog_us; /* 0: nobody waits for WATCHDOG=1 */
    uint64_t asked_us;
    bool listens; /* somebody does */
    bool ready;
    bool complained; /* of a loop that hangs */
    struct buffer status;
};

/* --- sd_notify() --- */

#ifdef TWINBLOOM_SYSTEMD
static void tell(const char *text)
{
    (void)sd_notify(0, text);
}
#else
static void tell(const char *text UNUSED)
{
}
#endif

/* --- STATUS= --- */

/* A message is lines of UTF-8, and a name may be anything. */
static void put_name(void *arg, const char *name, size_t length)
{
    struct buffer *b = arg;
    buffer_puts(b, " ");
    for (size_t i = 0; i < length; i++) {
        char c = (char)(name[i] >= ' ' && name[i] <= '~' ? name[i] : '?');
        buffer_append(b, &c, 1);
    }
}

static void put_status(struct supervisor *v, struct buffer *b)
{
    struct service *s = v->service;
    struct node_health_figures node;
    buffer_printf(b, "STATUS=%" PRIu64 " filters, %u clients", (uint64_t)atomic_load(&s->filters),
                  atomic_load(&s->clients));
    if (atomic_load(&s->jobs) > 0) {
        buffer_puts(b, "; jobs:");
        runner_each(v->o.runner, put_name, b);
    }
    for (unsigned i = 0; node_health_read(&s->nodes, i, &node); i++)
        if (node_health_is_down(&node))
            buffer_printf(b, "; Redis %s is down", node.name);
    if (atomic_load(&s->leaving))
        buffer_puts(b, "; stopping");
}

static void tell_status(struct supervisor *v)
{
    struct buffer now = {0};
    put_status(v, &now);
    if (strcmp(buffer_text(&now), buffer_text(&v->status)) != 0) {
        tell(buffer_text(&now));
        buffer_fini(&v->status);
        v->status = now;
    } else {
        buffer_fini(&now);
    }
}

/* --- are the event loops alive? --- */

/* In the thread of the loop. */
static void take_beat(void *arg)
{
    atomic_store(&((struct heartbeat *)arg)->owed, false);
}

static void post(struct heartbeat *b)
{
    b->posted = mailbox_post(b->mailbox, take_beat, b) == ERR_OK;
}

static void ask_all(struct supervisor *v)
{
    v->asked_us = clock_mono_us();
    for (size_t i = 0; i < v->loops; i++) {
        atomic_store(&v->heartbeat[i].owed, true);
        post(&v->heartbeat[i]);
    }
}

/* How many loops have not come to their task; *@one is one of them. */
static size_t count_silent(struct supervisor *v, size_t *one)
{
    size_t silent = 0;
    for (size_t i = 0; i < v->loops; i++) {
        if (!atomic_load(&v->heartbeat[i].owed))
            continue;
        if (!v->heartbeat[i].posted)
            post(&v->heartbeat[i]);
        *one = i;
        silent++;
    }
    return silent;
}

static void complain(struct supervisor *v, size_t silent, size_t one)
{
    uint64_t ms = (clock_mono_us() - v->asked_us) / 1000;
    if (v->complained || v->watchdog_us == 0 || ms < v->watchdog_us / 1000 / 2)
        return;
    v->complained = true;
    char name[32] = "http";
    if (one < v->o.worker_count)
        (void)snprintf(name, sizeof(name), "worker-%zu", one);
    log_error("threads_unresponsive", "unresponsive=%zu threads=%zu thread=%s for_ms=%" PRIu64, silent,
              v->loops, name, ms);
}

static void set_tick(struct supervisor *v)
{
    uint64_t us = v->ready ? TICK_US : FIRST_TICK_US;
    if (v->watchdog_us > 0 && v->watchdog_us / TICKS_OF_WATCHDOG < us)
        us = v->watchdog_us / TICKS_OF_WATCHDOG;
    const struct timeval next = {(time_t)(us / 1000000), (suseconds_t)(us % 1000000)};
    (void)evtimer_add(v->tick, &next);
}

static void on_tick(evutil_socket_t fd UNUSED, short events UNUSED, void *arg)
{
    struct supervisor *v = arg;
    size_t one = 0, silent = count_silent(v, &one);
    if (silent > 0) {
        complain(v, silent, one);
    } else {
        if (!v->ready)
            tell("READY=1");
        v->ready = true;
        v->complained = false;
        if (v->watchdog_us > 0)
            tell("WATCHDOG=1");
        ask_all(v);
    }
    tell_status(v);
    set_tick(v);
}

/* --- its life --- */

struct supervisor *supervisor_new(struct service *s)
{
    struct supervisor *v = calloc(1, sizeof(*v));
    if (v == NULL)
        return NULL;
    v->service = s;
#ifdef TWINBLOOM_SYSTEMD
    uint64_t us = 0;
    v->listens = getenv("NOTIFY_SOCKET") != NULL; /* NOLINT(concurrency-mt-unsafe) */
    v->watchdog_us = v->listens && sd_watchdog_enabled(0, &us) > 0 ? us : 0;
#endif
    return v;
}

void supervisor_free(struct supervisor *v)
{
    if (v == NULL)
        return;
    buffer_fini(&v->status);
    free(v);
}

enum err supervisor_begin(struct supervisor *v, const struct supervised *o, struct event_base *base,
                          struct error *e)
{
    if (!v->listens)
        return ERR_OK;
    v->o = *o;
    v->tick = evtimer_new(base, on_tick, v);
    if (v->tick == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    for (unsigned i = 0; i < o->loop_count; i++)
        v->heartbeat[v->loops++].mailbox = o->loops[i];
    ask_all(v);
    set_tick(v);
    return ERR_OK;
}

void supervisor_end(struct supervisor *v)
{
    if (v == NULL || v->tick == NULL)
        return;
    event_free(v->tick);
    v->tick = NULL;
}

void supervisor_reloading(struct supervisor *v)
{
    SCOPED(buffer_fini) struct buffer text = {0};
    if (!v->listens || !v->ready)
        return;
    buffer_printf(&text, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_mono_us());
    tell(buffer_text(&text));
}

void supervisor_reloaded(struct supervisor *v)
{
    if (v->listens && v->ready)
        tell("READY=1");
}

void supervisor_stopping(struct supervisor *v, uint64_t delay_ms)
{
    SCOPED(buffer_fini) struct buffer text = {0};
    if (!v->listens)
        return;
    buffer_printf(&text, "STOPPING=1\nEXTEND_TIMEOUT_USEC=%" PRIu64, delay_ms * 1000 + END_US);
    tell(buffer_text(&text));
}
