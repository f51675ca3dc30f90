/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_RESP_WORKER_H
#define SERVICE_RESP_WORKER_H
/* A worker thread: an event loop with its clients, its Redis connections and its view of the filters. */
#include <pthread.h>
#include <stdatomic.h>
#include <event2/event.h>
#include "base/error.h"
#include "base/mailbox.h"
#include "base/pool.h"
#include "service/resp/client.h"
#include "service/resp/command_set.h"
#include "service/core/service.h"

enum { WORKER_READ = 16 * 1024 /* bytes read from a client at a time */ };

enum { WORKERS_MAX = 256 };
struct worker;

/* All workers. They are started one after the other, before any client connects. */
struct workers {
    unsigned count;
    struct worker *worker[WORKERS_MAX];
};

/* What all workers need. */
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
    pthread_t thread;
    struct event_base *base;
    struct event *tasks; /* of the mailbox */
    struct key_port *keys;
    struct mailbox *mailbox;
    struct meter *meter; /* rows: the commands, in the order of their table, then unknown commands */
    struct client_list clients;
    /* Destroyed clients; freed in the next turn, as callbacks may still hold them. */
    struct client_list to_free;
    struct event *reap;
    /* Clients that are CLIENT_HELD until less is in flight; first come, first served. */
    struct client_queue held;
    struct event *unhold;
    struct client_queue late; /* clients whose known replies wait for other replies */
    struct event *late_end;
    struct client_queue due; /* clients that continue at the end of this turn of the loop */
    struct event *turn_end;
    struct event *second;
    struct pool requests;        /* memory for the requests of its clients: request.c */
    uint64_t begun;              /* commands that were started and are not added to the service's count yet */
    size_t in_flight;            /* keys of requests that are not answered */
    char *read;                  /* buffer of WORKER_READ bytes for incoming bytes */
    struct resp_spare arguments; /* array for the arguments of the command that is being parsed */
    struct buffer scratch;       /* the reply that is being written, or several replies of one client */
    _Atomic size_t client_count; /* clients that were handed over and are not destroyed */
    /* Bytes that its clients hold; how many of them the service has counted. */
    size_t client_memory, told_memory;
    atomic_size_t largest;  /* the most bytes that one of its clients holds, or held lately */
    atomic_bool relieving;  /* a task to cut its largest client is under way */
    uint_fast64_t rejected; /* the service's count, a second ago */
    bool draining;
};

/* Start one more worker of @all. */
MUST_CHECK enum err worker_start(struct workers *all, const struct worker_options *o, struct error *e);
/* Hand over an accepted connection. The worker closes it if that fails. Any thread. */
void worker_accept(struct worker *w, int fd, const char *address, bool tls);
/* Have the worker take the configuration in force. Any thread. */
void worker_reconfigure(struct worker *w);
/* Take the configuration in force at once, if it is a new one. Call in the worker's thread, between two
 * commands. */
void worker_sync(struct worker *w);
/* Answer what is in flight (for at most 5 s), close all clients, end the thread. Any thread; join the
 * worker's afterwards. The mailbox lives until worker_free(), as the admin thread may still post to it. */
void worker_drain(struct worker *w);
void worker_free(struct worker *w);
/* worker_client_gone(): a client of this worker is destroyed. worker_free_later(): nothing refers to it any
 * more. */
void worker_client_gone(struct worker *w);
void worker_free_later(struct worker *w, struct client *c);
/* True if as many keys are in flight as the worker allows. */
bool worker_is_full(const struct worker *w);
/* Call client_turn_ends() once at the end of this turn of the loop, or cancel that. */
void worker_due(struct worker *w, struct client *c);
void worker_not_due(struct worker *w, struct client *c);
/* Call client_write_known() once in some milliseconds, or cancel that. */
void worker_late(struct worker *w, struct client *c);
void worker_not_late(struct worker *w, struct client *c);
/* A client held @before bytes and now holds @now. If all clients together hold too much, the largest is cut
 * soon. */
void worker_count_memory(struct worker *w, size_t before, size_t now);
/* Requests with @weight keys, counted in in_flight, are answered. */
void worker_landed(struct worker *w, size_t weight);
#endif
