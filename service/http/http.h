/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_H
#define SERVICE_HTTP_H
/* The thread that serves HTTP/JSON: an event loop with its own Redis connections and port for keys, as a
 * worker has. All but http_start() do nothing where HTTP is not served (NULL). */
#include "service/core/service.h"

struct admin_threads;
struct collector;
struct http;

struct http_options {
    struct service *service;
    struct admin_threads *admin;
    struct collector *collector;    /* for scrapes */
    struct mailbox *const *workers; /* whom a probe asks; borrowed */
    unsigned worker_count;
};

/* Listen at [service] http and start the thread; after the workers. *@out is NULL where that key is empty.
 * ERR_CONFIG, ERR_IO: the text names the address. */
MUST_CHECK enum err http_start(struct http **out, const struct http_options *o, struct error *e);
/* For tasks from any thread. NULL where HTTP is not served. */
struct mailbox *http_mailbox(struct http *h);
/* From any thread, as for a worker. */
void http_reconfigure(struct http *h);
void http_refresh(struct http *h);
/* Take no more connections, answer what is in flight (for at most 5 s), end the thread; then http_join(),
 * before the workers are drained. */
void http_drain(struct http *h);
void http_join(struct http *h);
/* After the admin thread has ended: until then it may still post answers. */
void http_free(struct http *h);

#endif
