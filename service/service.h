/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_SERVICE_H
#define SERVICE_SERVICE_H
/* The coordinator as a whole: configuration, threads, and what they share. Threads:
 *   main     listens, hands connections to workers, takes signals
 *   workers  serve requests; each with its own event loop, Redis connections and catalog
 *   http     serves HTTP/JSON; with all that a worker has
 *   admin    blocking work on behalf of a request: creating filters, status, plans
 *   keeper   a timer: makes configured filters, looks at thresholds, finds unfinished jobs
 *   runner   drives one expansion job at a time
 *   tails    follow tables, one each
 *   login    verifies passwords
 *   listener hears of views that changed and mutexes that were released */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/mailbox.h"
#include "expansion/driver.h"
#include "service/live_config.h"
#include "shard/catalog.h"
#include "shard/latency.h"

struct worker;
struct http;
struct runner;
struct tails;
struct listener;
struct watch;
struct login;
struct tls;

enum { THREADS_MAX = 256 };

struct service {
    struct live_config *config;
    const char *config_path;
    /* Of the configuration, what never changes while this process runs. */
    struct nodes nodes;
    char prefix[PREFIX_MAX + 1];
    unsigned redis_timeout_ms;
    char owner[80]; /* host-pid-random: names this coordinator in mutexes and jobs */
    uint64_t started_us;
    atomic_bool stop;
    unsigned worker_count;
    struct worker *workers[THREADS_MAX];
    struct http *http;      /* NULL where it is not served */
    struct mailbox *admin;  /* of the admin thread */
    struct mailbox *keeper; /* of the keeper thread */
    struct runner *runner;
    struct tails *tails; /* of the keeper */
    struct listener *listener;
    struct watch *watch; /* of the keeper */
    struct login *login;
    struct tls *tls;
    pthread_mutex_t reloading; /* one change of the configuration at a time */
    struct latency latency; /* of Redis, as the workers see it: latency_read() with a reader of one's own */
    atomic_uint clients;
    atomic_uint_fast64_t connections, commands, rejected;
    atomic_uint_fast64_t filters; /* as the keeper found them last */
};

/* Filters that this process has seen: one whose view is missing afterwards was lost, it is not "never made",
 * unless that incarnation was deleted. */
void service_on_seen(void *service, const char *name, size_t length, uint64_t incarnation);
void service_on_dropped(void *service, const char *name, size_t length, uint64_t incarnation);
bool service_was_seen(void *service, const char *name, size_t length);
/* A shard or view was found lost: the keeper looks at once. */
void service_on_lost(void *service, const char *name, size_t length, uint64_t generation);
#endif
