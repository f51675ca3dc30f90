/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONTROL_TAILS_H
#define SERVICE_CONTROL_TAILS_H
/* The tails of this coordinator: a thread for each filter whose table is followed. The keeper says in each of
 * its rounds which are wanted; nothing here waits but tails_stop(). */
#include "service/config/config.h"
#include "service/core/service.h"

struct tails;

/* NULL: no memory. */
struct tails *tails_new(struct service *s);
/* Ends all, and waits for that. Slots stay: another coordinator, or this one later, goes on from there. */
void tails_stop(struct tails *t);

/* Filter @f of @config shall be followed, or not: start, stop, or start anew where its configuration is
 * another one. What is not wanted leaves no slot behind. */
void tails_want(struct tails *t, const struct config *config, const struct config_filter *f, bool wanted);
/* Leave it as it is. */
void tails_keep(struct tails *t, const char *filter);
/* Behind a round of tails_want(): end those that it did not name. */
void tails_end_round(struct tails *t);
#endif
