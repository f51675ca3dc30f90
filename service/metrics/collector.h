/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_METRICS_COLLECTOR_H
#define SERVICE_METRICS_COLLECTOR_H
/* The collector: a thread that asks Redis, on behalf of scrapes, for what metrics say of filters and of the
 * memory of nodes, and keeps it. A scrape waits for it no longer than it wants to; what was kept is written
 * then. Nobody scrapes: nothing is asked. */
#include "base/buffer.h"
#include "base/error.h"
#include "base/mailbox.h"
#include "service/metrics/samples.h"

struct admin_threads;
struct collector;

/* @threads: whose samples of filters those that it takes are added to. */
MUST_CHECK enum err collector_start(struct collector **out, struct admin_threads *threads, struct error *e);
/* Whoever waits is told; then the thread ends. After HTTP has ended, before it is freed. NULL is fine. */
void collector_stop(struct collector *c);
void collector_free(struct collector *c);

/* Have @fn(@arg) called in the thread of @back when what is kept is no older than a second, or was asked for
 * after this call. ERR_NOMEM: it is not. */
MUST_CHECK enum err collector_ask(struct collector *c, struct mailbox *back, mailbox_fn *fn, void *arg);

/* Append all metrics, as they are now; @connections of HTTP are open. From any thread while workers and HTTP
 * are there; waits for nobody. */
void collector_write(struct collector *c, struct buffer *out, enum exposition format, size_t connections);
#endif
