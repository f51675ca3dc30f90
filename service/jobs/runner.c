/* SPDX-License-Identifier: MIT */
#include "service/jobs/runner.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include "base/log.h"
#include "base/machine.h"
#include "expansion/record/control.h"
#include "expansion/job/driver.h"
#include "expansion/record/mutex.h"
#include "service/filters/filter_make.h"
#include "service/filters/sources.h"

enum { JOBS_MAX = 16 /* without those that only wait, which need little but a thread */ };

struct runner {
    struct service *service;
    atomic_bool stop;
    atomic_bool building; /* for struct driver_options */
    pthread_mutex_t lock;
    pthread_cond_t ended; /* signalled at the end of a job */
    unsigned jobs;        /* running or about to run */
    LIST_HEAD(, running_job) running;
};

struct running_job {
    LIST_ENTRY(running_job) link;
    struct runner *runner;
    struct mutex *mutex;
    const struct config *config; /* held, because options point into it */
    struct driver_options options;
    atomic_bool waits; /* for struct driver_options */
    char *filter;
    char *nodes; /* NULL: not given */
    char reason[256];
};

static void job_free(struct running_job *j)
{
    config_release(j->config);
    free(j->filter);
    free(j->nodes);
    free(j);
}

/* Reserve a place for a job. False: there is none. A job that has waited goes on whether there is one or not:
 * nothing else has its filter's mutex. */
static bool take_place(struct runner *r)
{
    struct running_job *j;
    unsigned waiting = 0;
    HOLD(&r->lock);
    LIST_FOREACH(j, &r->running, link)
    waiting += atomic_load(&j->waits);
    bool taken = r->jobs - waiting < JOBS_MAX && !atomic_load(&r->stop);
    r->jobs += taken;
    atomic_store(&r->service->jobs, r->jobs);
    return taken;
}

static void give_place_back(struct runner *r)
{
    HOLD(&r->lock);
    r->jobs--;
    atomic_store(&r->service->jobs, r->jobs);
    (void)pthread_cond_signal(&r->ended);
}

static void *run_job(void *arg)
{
    struct running_job *j = arg;
    struct runner *r = j->runner;
    struct error e = {.text = ""};
    (void)pthread_mutex_lock(&r->lock);
    LIST_INSERT_HEAD(&r->running, j, link);
    (void)pthread_mutex_unlock(&r->lock);
    enum err code = driver_run(&j->options, j->mutex, &e);
    (void)pthread_mutex_lock(&r->lock);
    LIST_REMOVE(j, link);
    (void)pthread_mutex_unlock(&r->lock);
    if (code == ERR_OK)
        log_info("job_done", "filter=%s reason=%s", log_quote(j->filter), log_quote(j->reason));
    else
        log_warn("job_stopped", "filter=%s code=%s error=%s reason=%s", log_quote(j->filter),
                 error_name(code), log_quote(e.text), log_quote(j->reason));
    mutex_release(j->mutex);
    job_free(j);
    give_place_back(r);
    return NULL;
}

enum err runner_start(struct runner **out, struct service *s, struct error *e)
{
    struct runner *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    r->service = s;
    LIST_INIT(&r->running);
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_cond_init(&r->ended, NULL);
    *out = r;
    return ERR_OK;
}

void runner_leave(struct runner *r)
{
    if (r != NULL)
        atomic_store(&r->stop, true);
}

void runner_stop(struct runner *r)
{
    if (r == NULL)
        return;
    runner_leave(r);
    HOLD(&r->lock);
    while (r->jobs > 0)
        (void)pthread_cond_wait(&r->ended, &r->lock);
}

void runner_free(struct runner *r)
{
    if (r == NULL)
        return;
    (void)pthread_cond_destroy(&r->ended);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

void runner_each(struct runner *r, runner_fn *fn, void *arg)
{
    struct running_job *j;
    HOLD(&r->lock);
    LIST_FOREACH(j, &r->running, link)
    fn(arg, j->filter, j->options.filter_length);
}

void runner_options(struct driver_options *out, const struct service *s, const struct runner_job *job)
{
    const struct config *c = job->config;
    const struct config_filter *f = config_find(c, job->filter, job->filter_length);
    *out = (struct driver_options){
        .nodes = &s->nodes,
        .prefix = c->prefix,
        .filter = job->filter,
        .filter_length = job->filter_length,
        .owner = s->owner,
        .wanted_capacity = job->capacity,
        .wanted_error_rate = job->error_rate,
        .shard_bytes = (uint32_t)c->shard_bytes,
        .build_memory = config_build_memory(c, machine_memory()),
        .spill_dir = c->spill_dir,
        .spill_bytes = c->spill_bytes,
        .readers = config_readers(c),
        .page_ms = (unsigned)c->page_ms,
        .page_rows = c->page_rows,
        .read_dsn = c->read_dsn,
        .verify_sample = c->verify_sample,
        .checkpoint_ms = c->checkpoint_ms,
        .rows_per_second = c->rows_per_second,
        .redis_p99_max_ms = c->redis_p99_max_ms,
        .replication_lag_max_ms = c->replication_lag_max_ms,
        .yield_at = c->yield_at,
        .latency = &s->latency,
        .logs = s->logs,
        .page_timing = &((struct service *)(uintptr_t)s)->page_timing,
        .settle_timeout_ms = c->settle_timeout_ms,
        .redis_timeout_ms = (unsigned)c->redis_timeout_ms,
        .postgres_timeout_ms = (unsigned)c->postgres_timeout_ms,
        .kind = job->kind,
        .hold = job->hold,
        .verify_full = job->verify_full,
        .reason = job->reason,
        .trigger = job->trigger, /* a literal */
        .on_nodes = job->nodes != NULL ? job->nodes
                    : f != NULL        ? f->nodes
                                       : "",
    };
    if (f == NULL)
        return;
    out->sourced = f->table[0] != '\0';
    out->source = sources_config(c, f);
    out->scan_blocks = f->scan == SCAN_CTID;
    out->sweep = f->sweep;
    out->follower_mode = (enum follower_mode)f->follow_by;
    out->capacity = config_capacity(f);
    out->error_rate = f->error_rate;
    out->growth = f->growth;
    out->expand_at = f->expand_at;
    out->headroom = f->headroom;
    out->grace_ms = f->grace_ms;
}

static struct running_job *job_new(struct runner *r, const struct runner_job *job)
{
    struct running_job *j = calloc(1, sizeof(*j));
    if (j == NULL || (j->filter = buffer_copy(job->filter, job->filter_length)) == NULL ||
        (job->nodes != NULL && (j->nodes = strdup(job->nodes)) == NULL)) {
        if (j != NULL)
            free(j->filter);
        free(j);
        return NULL;
    }
    j->runner = r;
    j->config = config_hold(job->config);
    (void)snprintf(j->reason, sizeof(j->reason), "%s", job->reason);
    runner_options(&j->options, r->service, job);
    j->options.filter = j->filter;
    j->options.reason = j->reason;
    if (j->nodes != NULL)
        j->options.on_nodes = j->nodes;
    j->options.stop = &r->stop;
    j->options.building = &r->building;
    j->options.waits = &j->waits;
    return j;
}

/* Take the filter's mutex, and run the job in a detached thread. */
static enum err start_job(struct running_job *j, const struct runner_job *job, uint64_t *id, struct error *e)
{
    const struct mutex_options options =
        filter_mutex_options(j->runner->service, j->config, j->filter, j->options.filter_length);
    pthread_t thread;
    enum err code = mutex_acquire(&j->mutex, &options, job->wait_ms, e);
    if (code != ERR_OK)
        return code;
    if (id != NULL && (code = control_unfinished(job->of, id, e)) != ERR_OK) {
        mutex_release(j->mutex);
        return code;
    }
    if (id != NULL && *id == 0)
        *id = mutex_id(j->mutex);
    if (pthread_create(&thread, NULL, run_job, j) != 0) {
        mutex_release(j->mutex);
        return error_set(e, ERR_NOMEM, "the job's thread could not be started");
    }
    (void)pthread_detach(thread);
    return ERR_OK;
}

enum err runner_post(struct runner *r, const struct runner_job *job, uint64_t *id, struct error *e)
{
    if (atomic_load(&r->stop))
        return error_set(e, ERR_BUSY, "this coordinator is shutting down; ask another one");
    if (!take_place(r))
        return error_set(e, ERR_BUSY,
                         "this coordinator drives %d jobs already; ask again later, or another one",
                         JOBS_MAX);
    struct running_job *j = job_new(r, job);
    enum err code = j == NULL ? error_set(e, ERR_NOMEM, "out of memory") : start_job(j, job, id, e);
    if (code != ERR_OK) {
        if (j != NULL)
            job_free(j);
        give_place_back(r);
    }
    return code;
}
