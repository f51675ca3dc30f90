/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CORE_SERVICE_H
#define SERVICE_CORE_SERVICE_H
/* What all threads of the coordinator share: configuration, nodes, what is known of filters, counters. Which
 * threads there are: service/daemon/service_run.h. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
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
struct epochs;
struct filters;
struct sentinel_watch;
struct sync_client;

struct service {
    struct live_config *config;
    const char *config_path;
    /* Of the configuration, what never changes while this process runs. */
    struct nodes nodes;
    struct sentinel_watch *sentinel_watch; /* NULL: no sentinels */
    char prefix[PREFIX_MAX + 1];
    unsigned redis_timeout_ms;
    char owner[80]; /* host-pid-random: names this coordinator in mutexes and jobs */
    char host[32];
    const char *version;
    uint64_t started_us, started_wall_us;
    /* Asked to end: jobs are handed over, clients are served on for shutdown_delay. */
    atomic_bool leaving;
    atomic_bool stop;
    unsigned threads;            /* workers */
    struct mailbox *controller;  /* of the controller thread */
    struct filter_states *watch; /* of the controller */
    struct epochs *epochs;       /* as event loops and the controller say */
    struct login *login;
    struct filters *logs; /* the filters that somebody asks for */
    struct tls *tls;
    /* Whoever shows filters hears of a view that changed; whoever holds a configuration of another one that
     * is in force. Set before the threads start. */
    void (*on_view)(void *on_arg);
    void (*on_config)(void *on_arg);
    void *on_arg;
    pthread_mutex_t reloading; /* one change of the configuration at a time */
    struct latency latency; /* of Redis, as the workers see it: latency_read() with a reader of one's own */
    struct timing page_timing; /* of sources */
    struct meters meters;      /* of event loops */
    atomic_uint clients;
    atomic_uint jobs;    /* that the runner drives */
    atomic_bool claimed; /* all nodes have taken this list for theirs (shard/view/claim.h) */
    atomic_bool refused; /* one has not, long after the start: the daemon ends, with this */
    struct error refusal;
    atomic_size_t client_memory; /* bytes; as the workers have told, who do so in steps */
    atomic_uint_fast64_t connections, http_connections, commands, rejected;
    atomic_uint_fast64_t filters; /* as the controller found them last */
};

/* Read of @config into @s, which is empty but for redis_timeout_ms, what connections to its nodes need: the
 * nodes, TLS, and of sentinels where the masters are. ERR_CONFIG, ERR_PARSE, ERR_NOMEM; service_leave_nodes()
 * in any case. */
MUST_CHECK enum err service_reach_nodes(struct service *s, const struct config *config, struct error *e);
void service_leave_nodes(struct service *s);
/* Once all nodes have been claimed nothing is done. ERR_CONFIG: see claim_nodes(): this coordinator must not
 * make anything. Any thread, with a link of its own. */
MUST_CHECK enum err service_claim(struct service *s, struct sync_client *l, struct error *e);
/* The daemon ends with that error. */
void service_refuse(struct service *s, const struct error *e);

/* The view of a filter may have changed: it is loaded again where it is open. The name is escaped, as in key
 * names. Any thread. */
void service_look_again(struct service *s, const char *escaped, size_t length);
/* Have the controller look at all filters at once. Any thread. */
void service_wake_controller(struct service *s);
#endif
