/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONTROL_CONTROLLER_H
#define SERVICE_CONTROL_CONTROLLER_H
/* The controller: examines every filter at an interval. It makes configured filters that do not exist, starts
 * expansions that a threshold or schedule requires, and gives unfinished jobs without a driver to the
 * runner. */
#include "base/error.h"
#include "service/core/service.h"
#include "service/control/filter_states.h"

/* The thread function: runs until service->stop. */
void *controller_run(void *service);
/* Let it look at all filters now. */
void controller_wake(struct service *s);
#endif
