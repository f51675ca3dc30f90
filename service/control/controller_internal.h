/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONTROL_CONTROLLER_INTERNAL_H
#define SERVICE_CONTROL_CONTROLLER_INTERNAL_H
/* What the files of the controller share: controller.c (the thread, one look at one filter),
 * controller_source.c (the rows of its source), controller_thresholds.c (whether it should be rebuilt). */
#include <stdbool.h>
#include <stdint.h>
#include "service/config/config.h"
#include "service/control/controller.h"
#include "shard/view/handle.h"
#include "shard/request/log_status.h"
#include "shard/view/registry.h"

struct controller {
    struct service *service;
    const struct config *config; /* held for one round */
    struct sync_client *redis;
    struct handle handle;
    struct view view;
    struct log_status status;
    uint64_t round;
    /* Of the filter that is looked at: it needs a rebuild, and the last one's end holds the next
     * up until then, wall clock; 0: it is not so. */
    uint64_t held_until_ms;
    char held_why[160];
    bool listed;          /* the filter that is looked at is in P:filters */
    uint64_t next_due_ms; /* the earliest time to come at which a filter is to be deleted; 0: none */
    struct registry_slots registries; /* of the round before */
};

/* --- controller.c --- */
/* What fails ends with the release of a mutex, and each release wakes the controllers of all coordinators:
 * what was tried at @at is not tried again at once, or they would call each other for ever. */
bool controller_is_rate_limited(const struct controller *k, uint64_t at);
/* Start a job. True if it was begun. */
bool controller_start(struct controller *k, struct filter_state *w, const char *reason, const char *trigger,
                      enum job_kind kind);

/* --- controller_source.c --- */
/* A reload may have given the filter another source or schedule: what was found of the one before is void. */
void controller_follow(struct filter_state *w, const struct config_filter *c);
/* Take what a look at the source has found, and have it looked at again, not too often. Waits for nothing. */
void controller_look_at_source(struct controller *k, struct filter_state *w, const struct config_filter *c);

/* --- controller_thresholds.c --- */
/* Whether the filter's job is under way, by its record: of any coordinator; without the mutex it is
 * unfinished. */
enum err controller_job_runs(struct controller *k, bool *runs, struct error *e) MUST_CHECK;
/* Start a job that a threshold or the schedule asks for, or one that was left unfinished. No job runs. */
void controller_look_at_thresholds(struct controller *k, struct filter_state *w,
                                   const struct config_filter *c);
/* Note k->held_until_ms and the reason. */
void controller_note_held(const struct controller *k, struct filter_state *w);
#endif
