/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONTROL_CONTROLLER_H
#define SERVICE_CONTROL_CONTROLLER_H
/* The controller: examines every filter at an interval. It makes configured filters that do not exist, starts
 * expansions that a threshold or schedule requires, and gives unfinished jobs without a driver to the
 * runner. */
#include "base/error.h"
#include "service/core/service.h"
#include "service/filters/filter_states.h"

struct admin_threads;
struct sources;
struct runner;
struct followers;

struct controller_options {
    struct service *service;
    struct admin_threads *admin; /* make what takes long */
    struct sources *sources;
    struct runner *runner;
    struct followers *followers;
};

/* The thread: runs until service->stop. Its argument is its options, which live as long. */
void *controller_run(void *options);
#endif
