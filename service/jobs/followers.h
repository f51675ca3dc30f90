/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_JOBS_FOLLOWERS_H
#define SERVICE_JOBS_FOLLOWERS_H
/* The followers of this coordinator: one thread per followed filter. In each round the controller says which
 * are wanted. Only followers_stop() waits. */
#include "service/config/config.h"
#include "service/core/service.h"

struct followers;

/* NULL: no memory. */
struct followers *followers_new(struct service *s);
/* End all followers and wait for them. Slots stay: another coordinator, or this one later, continues from
 * there. */
void followers_stop(struct followers *t);

/* Follow filter @f of @config, or do not: start, stop, or restart if its configuration has changed. A filter
 * that is not wanted keeps no slot. */
void followers_want(struct followers *t, const struct config *config, const struct config_filter *f,
                    bool wanted);
/* After a round of followers_want(): end the followers of filters that @config does not have. */
void followers_end_round(struct followers *t, const struct config *config);
#endif
