/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONTROL_RUNNER_H
#define SERVICE_CONTROL_RUNNER_H
/* The runner: drives expansion jobs, each in a thread of its own. One of them reads its table at a time. */
#include "expansion/job/driver.h"
#include "service/config/config.h"
#include "service/core/service.h"

struct runner;

MUST_CHECK enum err runner_start(struct runner **out, struct service *s, struct error *e);
/* Ends the running jobs at their next safe point (another coordinator goes on from there), and waits for
 * that. */
void runner_stop(struct runner *r);
/* Afterwards, when nobody asks for its jobs any more. */
void runner_free(struct runner *r);

/* Begin to end them, and take no more: see runner_stop(), which waits. */
void runner_leave(struct runner *r);

/* Called under a lock for the filter of each. */
typedef void runner_fn(void *arg, const char *filter, size_t length);
void runner_each(struct runner *r, runner_fn *fn, void *arg);

struct runner_job {
    const struct config *config; /* the one that it was decided under; the job holds it to its end */
    const char *filter;
    size_t filter_length;
    const char *reason;  /* for people */
    const char *trigger; /* one word, kept in the record: "operator", "total", ... */
    uint64_t capacity;   /* wanted; 0: decide */
    double error_rate;   /* wanted; 0: as configured */
    const char *nodes;   /* wanted, as placement_choose() takes them; NULL: as configured */
    enum job_kind kind;
    unsigned wait_ms; /* for a mutex that is about to be released; 0: not at all */
    bool hold;        /* of driver_options */
    struct handle
        *of; /* of the caller's thread, with the filter's names: the job's id is wanted. NULL: not */
    bool verify_full;
};

/* What its driver would work by; but for `stop` and `building`. Texts are borrowed from @job and its config.
 */
void runner_options(struct driver_options *out, const struct service *s, const struct runner_job *job);

/* Take the filter's mutex and start the job under it. @id (may be NULL, as @job->of): which job that is,
 * maybe one that was unfinished. ERR_BUSY: another job of the filter is under way, or this coordinator drives
 * as many as it may; the text says which. ERR_UNREACHABLE, ... */
MUST_CHECK enum err runner_post(struct runner *r, const struct runner_job *job, uint64_t *id,
                                struct error *e);
#endif
