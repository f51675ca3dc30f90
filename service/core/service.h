/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CORE_SERVICE_H
#define SERVICE_CORE_SERVICE_H
/* What all threads of the coordinator share: the configuration, the nodes, what is known about filters,
 * counters. service/daemon/service_run.h lists the threads. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include "base/mailbox.h"
#include "base/timing.h"
#include "service/config/live_config.h"
#include "service/meter/meter.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/redis/nodes/latency.h"

struct filter_states;
struct login;
struct tls;
struct filters;
struct sentinel_watch;
struct sync_client;

struct service {
    struct live_config *config;
    const char *config_path;
    /* The part of the configuration that never changes while this process runs. */
    struct nodes nodes;
    struct sentinel_watch *sentinel_watch; /* NULL: no sentinels */
    char prefix[PREFIX_MAX + 1];
    unsigned redis_timeout_ms;
    char owner[80]; /* host-pid-random: the name of this coordinator in mutexes and jobs */
    char host[32];
    const char *version;
    uint64_t started_us, started_wall_us;
    /* The daemon has been asked to end: jobs are handed over, but clients are served for shutdown_delay. */
    atomic_bool leaving;
    atomic_bool stop;
    unsigned threads;            /* number of workers */
    struct mailbox *controller;  /* the controller's mailbox; woken, it looks at all filters at once */
    struct filter_states *watch; /* owned by the controller */
    struct login *login;
    struct filters *logs; /* the filters that are in use */
    struct tls *tls;
    /* on_view: called when a view has changed, for threads that show filters. on_config: called when a new
     * configuration is in force, for threads that hold one. Set before the threads start. */
    void (*on_view)(void *on_arg);
    void (*on_config)(void *on_arg);
    void *on_arg;
    pthread_mutex_t reloading; /* serialises changes of the configuration */
    /* Response times of Redis, as the workers see them; read by latency_read() with an own reader. */
    struct latency latency;
    struct timing page_timing; /* how long pages of sources take */
    struct meters meters;      /* the meters of the event loops */
    atomic_uint clients;
    atomic_uint jobs;    /* jobs that the runner drives */
    atomic_bool claimed; /* every node has recorded this list of nodes (shard/view/claim.h) */
    atomic_bool refused; /* a node has refused it, long after the start: the daemon ends with `refusal` */
    struct error refusal;
    atomic_size_t client_memory; /* bytes; the workers report changes in steps */
    atomic_uint_fast64_t connections, http_connections, commands, rejected;
    atomic_uint_fast64_t filters; /* number of filters that the controller found last */
};

/* Set up @s to connect to the nodes of @config: the nodes, TLS, and the masters' addresses if there are
 * sentinels. @s must be zeroed except for redis_timeout_ms. ERR_CONFIG, ERR_PARSE, ERR_NOMEM. Call
 * service_leave_nodes() in any case. */
MUST_CHECK enum err service_reach_nodes(struct service *s, const struct config *config, struct error *e);
void service_leave_nodes(struct service *s);
/* Claim the nodes, unless that has been done. ERR_CONFIG: see claim_nodes(); this coordinator must not create
 * anything. Any thread, with its own connection. */
MUST_CHECK enum err service_claim(struct service *s, struct sync_client *l, struct error *e);
/* Have the daemon end with error @e. */
void service_refuse(struct service *s, const struct error *e);

/* The view of a filter may have changed: it is loaded again if the filter is open. The name is escaped, as in
 * key names. Any thread. */
void service_look_again(struct service *s, const char *escaped, size_t length);
#endif
