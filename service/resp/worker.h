/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_RESP_WORKER_H
#define SERVICE_RESP_WORKER_H
/* A worker thread: an event loop with its clients, its Redis connections and its view of the filters. */
#include <stdatomic.h>
#include <event2/event.h>
#include "base/error.h"
#include "base/mailbox.h"
#include "base/pool.h"
#include "service/resp/client.h"
#include "service/resp/command_set.h"
#include "service/core/service.h"

enum { WORKER_READ = 16 * 1024 /* bytes of a client at a time */ };

enum { WORKERS_MAX = 256 };
struct worker;

/* All of them; they are started one after the other, before anybody connects. */
struct workers {
    unsigned count;
    struct worker *worker[WORKERS_MAX];
};

/* What they need. */
struct worker_options {
    struct service *service;
    struct admin_threads *admin;
    const struct command_set *commands;
};

struct worker {
    const struct workers *all;
    struct service *service;
    struct admin_threads *admin;
    const struct command_set *commands;
    const struct config *config; /* held; replaced between two tasks, see worker_reconfigure() */
    unsigned index;
    struct event_base *base;
    struct key_port *keys;
    struct mailbox *mailbox;
    struct meter *meter; /* rows: commands, in the order of their table; then what is none */
    struct client_list clients;
    struct client_list to_free; /* gone; freed in the next turn, as callbacks may still hold them */
    struct event *reap;
    struct client_queue held; /* wait until less is in flight; first come, first served */
    struct event *unhold;
    struct client_queue late; /* clients whose first replies wait for others */
    struct event *late_end;
    struct client_queue due; /* clients that go on at the end of this turn of the loop */
    struct event *turn_end;
    struct event *second;
    struct pool requests;        /* of its clients: request.c */
    uint64_t begun;              /* commands that were begun, and are not counted in the service's yet */
    size_t in_flight;            /* keys of requests that are not answered */
    char *read;                  /* WORKER_READ: what a client's bytes are read into */
    struct resp_spare arguments; /* of the command that is being parsed */
    struct buffer scratch;       /* the reply that is being made, or several of one client */
    _Atomic size_t client_count; /* that were handed over, and are not gone */
    size_t client_memory, told_memory; /* bytes that its clients hold; of them, counted in the service's */
    atomic_size_t largest;             /* the most that one of them holds, or held lately */
    atomic_bool relieving;             /* it is about to cut one */
    uint64_t now_us;                   /* see worker_now() */
    uint64_t turn_us;                  /* of the loop, in which that was taken */
    unsigned since_now;                /* how often it was given since */
    bool draining;
};

/* One more of @all. */
MUST_CHECK enum err worker_start(struct workers *all, const struct worker_options *o, struct error *e);
/* Hand over an accepted connection; from any thread. Closes it where that fails. */
void worker_accept(struct worker *w, int fd, const char *address, bool tls);
/* Have it take the configuration in force; from any thread. */
void worker_reconfigure(struct worker *w);
/* The same at once, if there is another one; in the worker's thread, between two commands. */
void worker_sync(struct worker *w);
/* Answer what is in flight (for at most 5 s), close, end the thread; from any thread, then worker_join(). The
 * mailbox lives until worker_free(): the admin thread may still post to it. */
void worker_drain(struct worker *w);
void worker_join(struct worker *w);
/* Take the tasks that came after its end: what they hold is freed. When all threads have been joined, and
 * before the first worker_free(). */
void worker_settle(struct worker *w);
void worker_free(struct worker *w);
/* Called by client.c when a client is gone, and when nothing refers to it any more. */
void worker_client_gone(struct worker *w);
void worker_free_later(struct worker *w, struct client *c);
/* As much is in flight as may be. */
bool worker_is_full(const struct worker *w);
/* @c becomes, or is no more, CLIENT_HELD: when there is room it leaves that, and client_advance() is called.
 */
void worker_hold(struct worker *w, struct client *c);
void worker_unhold(struct worker *w, struct client *c);
/* Have client_turn_ends() called at the end of this turn of the loop, once; or not any more. */
void worker_due(struct worker *w, struct client *c);
void worker_not_due(struct worker *w, struct client *c);
/* Have client_write_known() called in some milliseconds, once; or not any more. */
void worker_late(struct worker *w, struct client *c);
void worker_not_late(struct worker *w, struct client *c);
/* One of its clients held @before bytes and holds @now: where all clients hold too much, the largest is cut
 * soon. */
void worker_count_memory(struct worker *w, size_t before, size_t now);
/* The monotonic clock, as of this turn of the loop, and of at most a few requests ago: asking for the time
 * costs more than counting a request does. In the worker's thread. */
uint64_t worker_now(struct worker *w);
/* The same, exactly. */
uint64_t worker_now_exactly(struct worker *w);
/* @weight of what was in flight is answered. */
void worker_landed(struct worker *w, size_t weight);
#endif
