/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_METRICS_COLLECTOR_H
#define SERVICE_METRICS_COLLECTOR_H
/* The collector: a thread that reads from Redis, for scrapes, the figures of filters and of nodes' memory,
 * and keeps the samples. A scrape decides how long it waits; after that it writes the samples that were kept.
 * Without scrapes nothing is read. */
#include "base/buffer.h"
#include "base/error.h"
#include "base/mailbox.h"
#include "service/metrics/samples.h"

struct admin_threads;
struct collector;

/* @threads: whose samples of filters those that it takes are added to. */
MUST_CHECK enum err collector_start(struct collector **out, struct admin_threads *threads, struct error *e);
/* Notify the waiting scrapes and end the thread. Call it after HTTP has ended, before HTTP is freed. NULL is
 * fine. */
void collector_stop(struct collector *c);
void collector_free(struct collector *c);

/* Have @fn(@arg) called in the thread of @back once the samples are at most a second old, or were collected
 * after this call. ERR_NOMEM: it will not be called. */
MUST_CHECK enum err collector_ask(struct collector *c, struct mailbox *back, mailbox_fn *fn, void *arg);

/* Append all metrics as they are now; @connections of HTTP are open. From any thread while workers and HTTP
 * exist; never waits. */
void collector_write(struct collector *c, struct buffer *out, enum exposition format, size_t connections);
#endif
