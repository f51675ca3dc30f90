/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONFIG_LIVE_CONFIG_H
#define SERVICE_CONFIG_LIVE_CONFIG_H
/* The configuration in force. It is a snapshot that nobody changes; a reload puts another one in its place.
 * Whoever needs one configuration for a while (a job, a round of the controller, a call of the admin thread,
 * a worker between two tasks) holds its snapshot: what it points to stays until it is given back. Safe from
 * any thread. Not for the hot path: it takes a lock. */
#include "service/config/config.h"

struct live_config;

/* Holds @first too. NULL: no memory. */
struct live_config *live_config_new(const struct config *first);
/* What somebody still holds stays. Fine with NULL. */
void live_config_free(struct live_config *l);

/* The snapshot in force; to be given back with config_release(). */
const struct config *live_config_acquire(struct live_config *l);

/* Whether @c, which the caller holds, is in force. Takes no lock. */
bool live_config_is(struct live_config *l, const struct config *c);

/* Put @next in force, if @expected still is; false: somebody was faster. The level of the log follows. */
MUST_CHECK bool live_config_replace(struct live_config *l, const struct config *expected,
                                    const struct config *next);
#endif
