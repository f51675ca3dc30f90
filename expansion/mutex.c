/* SPDX-License-Identifier: MIT */
#include "expansion/mutex.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/log.h"
#include "base/number.h"
#include "shard/link.h"
#include "shard/script.h"
#include "shard/script_call.h"

struct mutex {
    struct names names;
    struct link *link;
    struct script_call call;
    unsigned lease_ms;
    char value[160];
    uint64_t token;
    atomic_bool lost;
    bool stopping;
    bool renewing;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
};

static void flag_key(struct mutex *m)
{
    struct key_name name;
    names_filter_key(&m->names, "expansion_flag", &name);
    script_key(&m->call, &name);
}

static void renew(struct mutex *m)
{
    struct error e;
    long long answer;
    script_begin(&m->call, embedded_renew);
    flag_key(m);
    script_text(&m->call, m->value);
    script_number(&m->call, m->lease_ms);
    enum err code = script_run(&m->call, m->link, NODE_HOME, &answer, &e);
    if (code != ERR_OK)
        log_warn("mutex_not_renewed", "filter=%s mutex=%s why=%s", log_quote(m->names.filter), m->value,
                 log_quote(e.text));
    else if (answer == 0) {
        atomic_store(&m->lost, true);
        log_warn("mutex_lost", "filter=%s mutex=%s", log_quote(m->names.filter), m->value);
    }
}

static void *renew_loop(void *arg)
{
    struct mutex *m = arg;
    (void)pthread_mutex_lock(&m->lock);
    while (!m->stopping && !atomic_load(&m->lost)) {
        struct timespec until;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        uint64_t ns = (uint64_t)until.tv_nsec + (uint64_t)m->lease_ms * 1000000u / 3;
        until.tv_sec += (time_t)(ns / 1000000000u);
        until.tv_nsec = (long)(ns % 1000000000u);
        int timed_out = pthread_cond_timedwait(&m->wake, &m->lock, &until);
        if (m->stopping || timed_out == 0)
            continue;
        (void)pthread_mutex_unlock(&m->lock);
        renew(m);
        (void)pthread_mutex_lock(&m->lock);
    }
    (void)pthread_mutex_unlock(&m->lock);
    return NULL;
}

static enum err take(struct mutex *m, const char *owner, struct error *e)
{
    struct key_name counter;
    names_filter_key(&m->names, "token", &counter);
    script_begin(&m->call, embedded_acquire);
    flag_key(m);
    script_key(&m->call, &counter);
    script_text(&m->call, owner);
    script_number(&m->call, m->lease_ms);
    enum err code = script_send(&m->call, m->link, NODE_HOME, e);
    redisReply *reply = NULL;
    if (code == ERR_OK)
        code = link_reply(m->link, NODE_HOME, &reply, e);
    if (code != ERR_OK)
        return code;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2)
        code = error_set(e, ERR_REFUSED, "mutex: %s",
                         reply->type == REDIS_REPLY_ERROR ? reply->str : "unexpected reply");
    else if (reply->element[0]->integer == 0)
        code = error_set(e, ERR_BUSY, "the mutex is held by %s for at most %lld ms more",
                         reply->element[1]->str, reply->elements > 2 ? reply->element[2]->integer : 0);
    else {
        (void)snprintf(m->value, sizeof(m->value), "%s", reply->element[1]->str);
        const char *colon = strrchr(m->value, ':');
        if (colon == NULL || !number_u64(colon + 1, strlen(colon + 1), &m->token))
            code = error_set(e, ERR_PARSE, "mutex: unexpected value %s", m->value);
    }
    freeReplyObject(reply);
    return code;
}

static void destroy(struct mutex *m)
{
    link_free(m->link);
    script_fini(&m->call);
    (void)pthread_cond_destroy(&m->wake);
    (void)pthread_mutex_destroy(&m->lock);
    free(m);
}

enum err mutex_acquire(struct mutex **out, const struct mutex_options *options, struct error *e)
{
    struct mutex *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&m->wake, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)pthread_mutex_init(&m->lock, NULL);
    m->lease_ms = options->lease_ms;
    m->link = link_new(options->nodes, options->redis_timeout_ms, "twinbloom-mutex");
    enum err code = m->link == NULL
                        ? error_set(e, ERR_NOMEM, "out of memory")
                        : names_init(&m->names, options->prefix, options->filter, options->filter_length, e);
    if (code == ERR_OK)
        code = take(m, options->owner, e);
    if (code != ERR_OK) {
        destroy(m);
        return code;
    }
    m->renewing = pthread_create(&m->thread, NULL, renew_loop, m) == 0;
    if (!m->renewing) {
        mutex_release(m);
        return error_set(e, ERR_NOMEM, "mutex: no thread for its renewal");
    }
    *out = m;
    return ERR_OK;
}

const char *mutex_value(const struct mutex *m)
{
    return m->value;
}

uint64_t mutex_token(const struct mutex *m)
{
    return m->token;
}

bool mutex_lost(const struct mutex *m)
{
    return atomic_load(&m->lost);
}

void mutex_release(struct mutex *m)
{
    if (m == NULL)
        return;
    if (m->renewing) {
        (void)pthread_mutex_lock(&m->lock);
        m->stopping = true;
        (void)pthread_cond_signal(&m->wake);
        (void)pthread_mutex_unlock(&m->lock);
        (void)pthread_join(m->thread, NULL);
    }
    char channel[PREFIX_MAX + 8];
    (void)snprintf(channel, sizeof(channel), "%s:events", m->names.prefix);
    struct error e;
    long long answer;
    script_begin(&m->call, embedded_release);
    flag_key(m);
    script_text(&m->call, m->value);
    script_text(&m->call, channel);
    script_bytes(&m->call, m->names.filter, m->names.filter_length);
    if (script_run(&m->call, m->link, NODE_HOME, &answer, &e) != ERR_OK)
        log_warn("mutex_not_released", "filter=%s mutex=%s why=%s note=\"it expires by itself\"",
                 log_quote(m->names.filter), m->value, log_quote(e.text));
    destroy(m);
}
