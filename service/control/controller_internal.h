/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONTROL_CONTROLLER_INTERNAL_H
#define SERVICE_CONTROL_CONTROLLER_INTERNAL_H
/* What the files of the controller share: controller.c (the thread, a look at one filter),
 * controller_source.c (the rows of its source), controller_thresholds.c (whether it should be rebuilt). */
#include <stdbool.h>
#include <stdint.h>
#include "expansion/job/driver.h"
#include "service/config/config.h"
#include "service/control/controller.h"
#include "shard/view/handle.h"
#include "shard/request/log_status.h"
#include "shard/view/registry.h"

struct controller {
    const struct controller_options *o;
    struct service *service;
    const struct config *config; /* held for one round */
    struct sync_client *redis;
    struct handle handle;
    struct view view;
    struct log_status status;
    uint64_t round;
    /* Of the filter examined: it needs a rebuild, which must wait until this wall-clock time because of the
     * last one's end; 0: no. */
    uint64_t held_until_ms;
    char held_why[160];
    uint64_t next_due_ms;             /* the next time at which a filter must be deleted; 0: none */
    struct registry_slots registries; /* of the round before */
};

/* --- controller.c --- */
/* A failure ends with the release of a mutex, and each release wakes the controllers of all coordinators. So
 * what was tried at @at must not be tried again at once, or they would wake each other for ever. */
bool controller_is_rate_limited(const struct controller *k, uint64_t at);
/* Start a job. True if it began. */
bool controller_start(struct controller *k, struct filter_state *w, const char *reason, const char *trigger,
                      enum job_kind kind);

/* --- controller_source.c --- */
/* A reload may have changed the filter's source or schedule: then discard the findings about the previous
 * one. */
void controller_follow(struct filter_state *w, const struct config_filter *c);
/* Take the result of a look at the source, and start another look, not too often. Never waits. */
void controller_look_at_source(struct controller *k, struct filter_state *w, const struct config_filter *c);
/* True if @now is of another server than the last rebuild has read. `dsn` may lead there by mistake, so no
 * rebuild starts by itself; an operator knows whether it is meant. */
bool controller_is_elsewhere(const struct filter_state *w, const struct source_history *now);

/* --- controller_thresholds.c --- */
/* *@runs: the record says that the filter's job is running, in any coordinator. If its mutex is free, that
 * job is unfinished. */
enum err controller_job_runs(struct controller *k, bool *runs, struct error *e) MUST_CHECK;
/* No job runs. Start a job that a threshold or the schedule requires, or that was left unfinished. */
void controller_look_at_thresholds(struct controller *k, struct filter_state *w,
                                   const struct config_filter *c);
/* Copy k->held_until_ms and its reason to the note. */
void controller_note_held(const struct controller *k, struct filter_state *w);
#endif
