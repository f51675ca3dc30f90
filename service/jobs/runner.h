/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_JOBS_RUNNER_H
#define SERVICE_JOBS_RUNNER_H
/* The runner: drives expansion jobs, each in a thread of its own. Only one of them reads its table at a
 * time. */
#include "expansion/job/driver.h"
#include "service/config/config.h"
#include "service/core/service.h"

struct runner;

MUST_CHECK enum err runner_start(struct runner **out, struct service *s, struct error *e);
/* End the running jobs at their next safe point (another coordinator continues them), and wait. */
void runner_stop(struct runner *r);
/* Call it after runner_stop(), when no thread uses the runner any more. */
void runner_free(struct runner *r);

/* Begin to end the jobs and accept no more; see runner_stop(), which waits. */
void runner_leave(struct runner *r);

/* Called with a lock held, for the filter of each job. */
typedef void runner_fn(void *arg, const char *filter, size_t length);
void runner_each(struct runner *r, runner_fn *fn, void *arg);

struct runner_job {
    const struct config *config; /* basis of the decision; the job holds it to its end */
    const char *filter;
    size_t filter_length;
    const char *reason;  /* for people */
    const char *trigger; /* one word for the record: "operator", "total", ... */
    uint64_t capacity;   /* wanted; 0: the plan decides */
    double error_rate;   /* wanted; 0: as configured */
    const char *nodes;   /* wanted, in the form of placement_choose(); NULL: as configured */
    enum job_kind kind;
    unsigned wait_ms;  /* for a mutex that is about to be released; 0: do not wait */
    bool hold;         /* see struct driver_options */
    struct handle *of; /* the caller's, with the filter's names, to get the job's id; NULL: id unwanted */
    bool verify_full;
};

/* The options of the job's driver, except `stop`, `building` and `waits`. Strings are borrowed from @job and
 * its config. */
void runner_options(struct driver_options *out, const struct service *s, const struct runner_job *job);

/* Take the filter's mutex and start the job under it. @id (NULL is allowed, as for @job->of): the job's id,
 * which may be that of an unfinished job. ERR_BUSY: another job of the filter is running, or this coordinator
 * drives as many as it may; the text says which. ERR_UNREACHABLE, ... */
MUST_CHECK enum err runner_post(struct runner *r, const struct runner_job *job, uint64_t *id,
                                struct error *e);
#endif
