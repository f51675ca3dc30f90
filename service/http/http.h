/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_H
#define SERVICE_HTTP_H
/* The thread that serves HTTP/JSON: an event loop with its own connections to Redis and its own port for
 * keys, as a worker has. If HTTP is not served, @h is NULL, and all functions but http_start() do nothing. */
#include "service/core/service.h"

struct admin_threads;
struct collector;
struct http;

struct http_options {
    struct service *service;
    struct admin_threads *admin;
    struct collector *collector;    /* makes the metrics for scrapes */
    uint64_t max_clients;           /* http_max_clients, or what there are files for */
    struct mailbox *const *workers; /* the workers that a probe asks; borrowed */
    unsigned worker_count;
};

/* Listen at [service] http and start the thread. Call after the workers were started. If that key is empty,
 * *@out is NULL. ERR_CONFIG, ERR_IO: the text names the address. */
MUST_CHECK enum err http_start(struct http **out, const struct http_options *o, struct error *e);
/* The mailbox for tasks from any thread. NULL if HTTP is not served. */
struct mailbox *http_mailbox(struct http *h);
/* Have the thread take the configuration in force. Any thread. */
void http_reconfigure(struct http *h);
void http_refresh(struct http *h);
/* Take no more connections, answer what is in flight (for at most 5 s), end the thread. Call http_join()
 * next, and only then drain the workers. */
void http_drain(struct http *h);
void http_join(struct http *h);
/* Call after the admin thread has ended: until then it may still post answers. */
void http_free(struct http *h);

#endif
