/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONTROL_CONTROLLER_H
#define SERVICE_CONTROL_CONTROLLER_H
/* The controller: looks at every filter at an interval. It makes filters that are configured and not there,
 * starts expansions whose threshold or schedule says so, and hands unfinished jobs that nobody drives to the
 * runner. */
#include "base/error.h"
#include "service/core/service.h"
#include "service/filters/filter_states.h"

/* The thread: runs until service->stop. */
void *controller_run(void *service);
#endif
