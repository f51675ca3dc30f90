/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONTROL_FOLLOWERS_H
#define SERVICE_CONTROL_FOLLOWERS_H
/* The followers of this coordinator: a thread for each filter whose table is followed. The controller says in
 * each of its rounds which are wanted; nothing here waits but followers_stop(). */
#include "service/config/config.h"
#include "service/core/service.h"

struct followers;

/* NULL: no memory. */
struct followers *followers_new(struct service *s);
/* Ends all, and waits for that. Slots stay: another coordinator, or this one later, goes on from there. */
void followers_stop(struct followers *t);

/* Filter @f of @config shall be followed, or not: start, stop, or start again where its configuration is
 * another one. What is not wanted leaves no slot behind. */
void followers_want(struct followers *t, const struct config *config, const struct config_filter *f,
                    bool wanted);
/* Leave it as it is. */
void followers_keep(struct followers *t, const char *filter);
/* Behind a round of followers_want(): end those that it did not name. */
void followers_end_round(struct followers *t);
#endif
