/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_DAEMON_SERVICE_RUN_H
#define SERVICE_DAEMON_SERVICE_RUN_H
/* The coordinator as a whole. Threads:
 *   main     listens, hands connections to workers, takes signals
 *   workers  serve requests; each with its own event loop, Redis connections and port for keys
 *   http     serves HTTP/JSON; with all that a worker has
 *   admin    blocking work on behalf of a request: status, counts, dumps, deleting
 *   making   the same: makes and deletes filters, which adds wait for
 *   aside    the same, where it takes long: looks through keys of Redis, plans that ask Postgres
 *   metrics  the same, for scrapes: asks what metrics say of filters
 *   sources  looks at tables for the controller, which waits for no database
 *   controller   a timer: makes configured filters, looks at thresholds, finds unfinished jobs
 *   jobs     rebuilds and verifications, one each
 *   followers    follow tables, one each
 *   login    verifies passwords
 *   listener hears of views that changed and mutexes that were released
 *   heartbeat    writes once a second that this coordinator is there */
#include "base/error.h"
#include "service/core/service.h"

/* Before any thread is started: signals that would end the process in the middle of its work do not. */
void service_block_signals(void);
/* Start all threads, serve by @config until a signal says stop, end them. @s has what never changes, and
 * nothing that is started. */
MUST_CHECK enum err service_run(struct service *s, const struct config *config, struct error *e);
#endif
