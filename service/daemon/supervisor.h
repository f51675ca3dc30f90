/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_DAEMON_SUPERVISOR_H
#define SERVICE_DAEMON_SUPERVISOR_H
/* What the process that started this one, systemd as a rule, is told by sd_notify(3):
 *   READY=1      clients are listened to and every event loop has come to a task. Redis and Postgres may be
 *                away: that is for /readyz and STATUS, as no restart of this process brings them back
 *   RELOADING=1  SIGHUP; READY=1 again when the file was put in force, or refused
 *   STOPPING=1   SIGTERM, with as much time as shutdown_delay needs
 *   STATUS=      filters, clients, jobs, nodes of Redis that are down
 *   WATCHDOG=1   every event loop (main, workers, HTTP) has come to the task that it was sent for this
 *                very message; while one does not, nothing is said
 * Nothing happens where NOTIFY_SOCKET is not set, or in a build without libsystemd. */
#include <event2/event.h>
#include "service/core/service.h"

struct runner;
struct supervisor;

/* Whom it asks, and of whom it tells; borrowed. */
struct supervised {
    struct runner *runner;
    struct mailbox *const *loops; /* of workers, then of HTTP where it is served */
    unsigned worker_count, loop_count;
};

/* Made before the threads, freed when they have ended: tasks on their way point to it. NULL: no memory. */
struct supervisor *supervisor_new(struct service *s);
void supervisor_free(struct supervisor *v);

/* In the main thread, the owner of @base: begin to ask the event loops. */
MUST_CHECK enum err supervisor_begin(struct supervisor *v, const struct supervised *o,
                                     struct event_base *base, struct error *e);
/* Before @base is freed. */
void supervisor_end(struct supervisor *v);

/* In the main thread. */
void supervisor_reloading(struct supervisor *v);
void supervisor_reloaded(struct supervisor *v);
/* Clients are served on for @delay_ms. */
void supervisor_stopping(struct supervisor *v, uint64_t delay_ms);
#endif
