/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONTROL_PULSE_H
#define SERVICE_CONTROL_PULSE_H
/* The pulse: a thread that writes once a second into Redis that this coordinator is there, and how it fares
 * (shard/members/roster.h). It has a connection of its own and waits for nobody else, so neither a long round
 * of the keeper nor a Redis that is away makes this coordinator look dead, or slow. It also has event loops
 * load a view again that they have been behind with for two beats: a message that was not heard. */
#include "service/core/service.h"

struct pulse;

/* After the workers, HTTP and the runner. */
MUST_CHECK enum err pulse_start(struct pulse **out, struct service *s, struct error *e);
/* Have it beat now. NULL is fine. */
void pulse_wake(struct pulse *p);
/* Take this coordinator off the roster and end. Before HTTP and workers are freed. NULL is fine. */
void pulse_stop(struct pulse *p);
#endif
