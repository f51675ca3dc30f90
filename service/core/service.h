/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CORE_SERVICE_H
#define SERVICE_CORE_SERVICE_H
/* The coordinator as a whole: configuration, threads, and what they share. Threads:
 *   main     listens, hands connections to workers, takes signals
 *   workers  serve requests; each with its own event loop, Redis connections and port for keys
 *   http     serves HTTP/JSON; with all that a worker has
 *   collector asks what metrics say of filters
 *   admin    blocking work on behalf of a request: status, counts, dumps, deleting
 *   making   the same: makes and deletes filters, which adds wait for
 *   aside    the same, where it takes long: looks through keys of Redis, plans that ask Postgres
 *   sources  looks at tables for the controller, which waits for no database
 *   controller   a timer: makes configured filters, looks at thresholds, finds unfinished jobs
 *   runner   drives one expansion job at a time
 *   tails    follow tables, one each
 *   login    verifies passwords
 *   listener hears of views that changed and mutexes that were released
 *   heartbeat    writes once a second that this coordinator is there */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/mailbox.h"
#include "base/timing.h"
#include "expansion/job/driver.h"
#include "service/config/live_config.h"
#include "service/meter/meter.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/redis/nodes/latency.h"

struct worker;
struct http;
struct runner;
struct sources;
struct followers;
struct listener;
struct supervisor;
struct filter_states;
struct login;
struct tls;
struct epochs;
struct fills;
struct heartbeat;
struct collector;
struct filters;
struct sentinel_watch;

enum { THREADS_MAX = 256 };

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
    unsigned worker_count;
    unsigned threads; /* workers that are to run */
    struct worker *workers[THREADS_MAX];
    struct http *http;          /* NULL where it is not served */
    struct mailbox *admin;      /* of the admin thread */
    struct mailbox *making;     /* of the thread that makes and deletes filters */
    struct mailbox *aside;      /* of the thread aside */
    struct mailbox *controller; /* of the controller thread */
    struct sources *sources;    /* of the controller */
    struct runner *runner;
    struct followers *followers; /* of the controller */
    struct listener *listener;
    struct filter_states *watch; /* of the controller */
    struct epochs *epochs;       /* as event loops and the controller say */
    struct fills *fills;         /* of the admin thread: how full filters were */
    struct heartbeat *heartbeat;
    struct supervisor *supervisor; /* of the main thread */
    struct login *login;
    struct filters *logs;        /* the filters that somebody asks for */
    struct collector *collector; /* NULL where HTTP is not served */
    struct tls *tls;
    /* Whoever shows filters hears of a view that changed; whoever holds a configuration of another one that is
     * in force. Set before the threads start. */
    void (*on_view)(void *on_arg);
    void (*on_config)(void *on_arg);
    void *on_arg;
    pthread_mutex_t reloading; /* one change of the configuration at a time */
    struct latency latency; /* of Redis, as the workers see it: latency_read() with a reader of one's own */
    struct timing page_timing; /* of sources */
    struct meters meters;      /* of event loops */
    atomic_uint clients;
    atomic_bool claimed; /* all nodes have taken this list for theirs (shard/view/claim.h) */
    atomic_bool refused; /* one has not, long after the start: the daemon ends, with this */
    struct error refusal;
    atomic_size_t client_memory; /* bytes; as the workers have told, who do so in steps */
    atomic_uint_fast64_t connections, http_connections, commands, rejected;
    atomic_uint_fast64_t filters; /* as the controller found them last */
};

/* Before any thread is started: signals that would end the process in the middle of its work do not. */
void service_block_signals(void);
/* Read of @config into @s, which is empty but for redis_timeout_ms, what connections to its nodes need: the
 * nodes, TLS, and of sentinels where the masters are. ERR_CONFIG, ERR_PARSE, ERR_NOMEM; service_leave_nodes()
 * in any case. For whoever asks the nodes without serving; service_run() does the same. */
MUST_CHECK enum err service_reach_nodes(struct service *s, const struct config *config, struct error *e);
void service_leave_nodes(struct service *s);
/* Start all threads, serve by @config until a signal says stop, end them. @s has what never changes, and
 * nothing that is started. */
MUST_CHECK enum err service_run(struct service *s, const struct config *config, struct error *e);

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
