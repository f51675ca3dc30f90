/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_METRICS_COLLECTOR_H
#define SERVICE_METRICS_COLLECTOR_H
/* The collector: an admin thread reads from Redis, for scrapes, the figures of filters and of nodes' memory,
 * and keeps the samples. A scrape decides how long it waits; after that it writes the samples that were kept.
 * Without scrapes nothing is read. */
#include "base/buffer.h"
#include "base/error.h"
#include "base/mailbox.h"
#include "service/metrics/samples.h"

struct admin_threads;
struct collector;

/* @threads: one of them reads. NULL: no memory. */
struct collector *collector_new(struct admin_threads *threads);
/* Call it after the admin threads have ended. NULL is fine. */
void collector_free(struct collector *c);

/* Have @done called in the thread of @back once the samples are at most a second old, or were collected after
 * this call. Its argument is a struct admin_call, which it frees; call->asker is @asker. ERR_NOMEM: it will
 * not be called. */
MUST_CHECK enum err collector_ask(struct collector *c, struct mailbox *back, mailbox_fn *done, void *asker);

/* Append all metrics as they are now; @connections of HTTP are open. From any thread while workers and HTTP
 * exist; never waits. */
void collector_write(struct collector *c, struct buffer *out, enum exposition format, size_t connections);
#endif
