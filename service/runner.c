/* SPDX-License-Identifier: MIT */
#include "service/runner.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "expansion/driver.h"
#include "expansion/mutex.h"

enum { WAIT_MS = 200 };

struct runner {
    struct service *service;
    struct mailbox *mailbox;
    atomic_bool stop;
    atomic_bool busy; /* a job is queued or running */
    pthread_t thread;
};

struct queued_job {
    struct runner *runner;
    struct mutex *mutex;
    const struct config *config; /* held; options point into it */
    struct driver_options options;
    char *filter;
    char reason[256];
};

static void free_job(struct queued_job *q)
{
    config_release(q->config);
    free(q->filter);
    free(q);
}

static void run_job(void *arg)
{
    struct queued_job *q = arg;
    struct error e = {.text = ""};
    if (!atomic_load(&q->runner->stop)) {
        enum err code = driver_run(&q->options, q->mutex, &e);
        if (code == ERR_OK)
            log_info("job_done", "filter=%s", log_quote(q->filter));
        else
            log_warn("job_ended", "filter=%s code=%s why=%s", log_quote(q->filter), error_name(code),
                     log_quote(e.text));
    }
    mutex_release(q->mutex);
    atomic_store(&q->runner->busy, false);
    free_job(q);
}

static void *run(void *arg)
{
    struct runner *r = arg;
    while (!atomic_load(&r->stop))
        mailbox_wait(r->mailbox, WAIT_MS);
    mailbox_run(r->mailbox); /* gives back the mutexes of what is still queued */
    return NULL;
}

enum err runner_start(struct runner **out, struct service *s, struct error *e)
{
    struct runner *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    r->service = s;
    r->mailbox = mailbox_new();
    if (r->mailbox == NULL || pthread_create(&r->thread, NULL, run, r) != 0) {
        mailbox_free(r->mailbox);
        free(r);
        return error_set(e, ERR_NOMEM, "the job thread could not be started");
    }
    *out = r;
    return ERR_OK;
}

void runner_stop(struct runner *r)
{
    if (r == NULL)
        return;
    atomic_store(&r->stop, true);
    (void)pthread_join(r->thread, NULL);
    mailbox_free(r->mailbox);
    free(r);
}

static void fill_options(struct queued_job *q, const struct runner_job *job)
{
    const struct service *s = q->runner->service;
    const struct config *c = q->config;
    const struct config_filter *f = config_find(c, job->filter, job->filter_length);
    q->options = (struct driver_options){
        .nodes = &s->nodes,
        .prefix = c->prefix,
        .filter = q->filter,
        .filter_length = job->filter_length,
        .owner = s->owner,
        .wanted_capacity = job->capacity,
        .wanted_error_rate = job->error_rate,
        .shard_bytes = (uint32_t)c->shard_bytes,
        .build_memory = c->build_memory,
        .page_rows = c->page_rows,
        .verify_sample = c->verify_sample,
        .checkpoint_ms = c->checkpoint_ms,
        .settle_timeout_ms = c->settle_timeout_ms,
        .tombstone_ms = c->tombstone_ms,
        .redis_timeout_ms = (unsigned)c->redis_timeout_ms,
        .postgres_timeout_ms = (unsigned)c->postgres_timeout_ms,
        .wanted = job->wanted,
        .reason = q->reason,
        .trigger = job->trigger, /* a literal */
        .stop = &q->runner->stop,
    };
    if (f == NULL)
        return;
    q->options.sourced = f->table[0] != '\0';
    q->options.source = (struct source_config){
        .dsn = c->dsn, .table = f->table, .id_column = f->id_column, .key = f->key, .where = f->where};
    q->options.capacity = f->capacity;
    q->options.error_rate = f->error_rate;
    q->options.growth = f->growth;
    q->options.expand_at = f->expand_at;
    q->options.headroom = f->headroom;
    q->options.grace_ms = f->grace_ms;
}

enum err runner_post(struct runner *r, const struct runner_job *job, struct error *e)
{
    const struct config *c = job->config;
    /* Not queued behind another job: it would keep its filter's mutex from coordinators that are free. */
    if (atomic_exchange(&r->busy, true))
        return error_set(e, ERR_BUSY,
                         "this coordinator drives another job; ask again later, or another coordinator");
    struct queued_job *q = calloc(1, sizeof(*q));
    if (q == NULL || (q->filter = malloc(job->filter_length + 1)) == NULL) {
        free(q);
        atomic_store(&r->busy, false);
        return error_set(e, ERR_NOMEM, "out of memory");
    }
    memcpy(q->filter, job->filter, job->filter_length);
    q->filter[job->filter_length] = '\0';
    q->runner = r;
    q->config = config_hold(c);
    (void)snprintf(q->reason, sizeof(q->reason), "%s", job->reason);
    fill_options(q, job);
    const struct mutex_options options = {.nodes = &r->service->nodes,
                                          .prefix = c->prefix,
                                          .filter = q->filter,
                                          .filter_length = job->filter_length,
                                          .owner = r->service->owner,
                                          .lease_ms = (unsigned)c->lease_ms,
                                          .redis_timeout_ms = (unsigned)c->redis_timeout_ms};
    enum err code = mutex_acquire(&q->mutex, &options, e);
    if (code == ERR_OK && mailbox_post(r->mailbox, run_job, q) != ERR_OK) {
        mutex_release(q->mutex);
        code = error_set(e, ERR_NOMEM, "out of memory");
    }
    if (code != ERR_OK) {
        atomic_store(&r->busy, false);
        free_job(q);
    }
    return code;
}
