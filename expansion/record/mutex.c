/* SPDX-License-Identifier: MIT */
#include "expansion/record/mutex.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "base/random.h"
#include "shard/redis/ahead.h"
#include "shard/redis/events.h"
#include "shard/redis/sync_client.h"
#include "shard/redis/script_call.h"

extern const char embedded_acquire[], embedded_release[], embedded_renew[];

enum { OWNER_MAX = 120 };

struct mutex {
    struct names names;
    struct sync_client *redis; /* to take and release */
    struct sync_client *own;   /* to renew; connected when the first renewal is due */
    struct script_call call;
    unsigned lease_ms;
    char value[160];
    uint64_t token, id;
    atomic_bool lost;
    bool stopping;
    bool renewing;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
};

static void renew(struct mutex *m)
{
    struct error e;
    long long answer;
    script_begin(&m->call, embedded_renew);
    script_filter_key(&m->call, &m->names, "expansion_flag");
    script_text(&m->call, m->value);
    script_number(&m->call, m->lease_ms);
    enum err code = script_run(&m->call, m->own, sync_client_home(m->own, &m->names), &answer, &e);
    if (code != ERR_OK)
        log_warn("mutex_not_renewed", "filter=%s mutex=%s code=%s error=%s", log_quote(m->names.filter),
                 m->value, error_name(code), log_quote(e.text));
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
        const struct timespec until = clock_mono_after((uint64_t)m->lease_ms * 1000 / 3);
        int timed_out = pthread_cond_clockwait(&m->wake, &m->lock, CLOCK_MONOTONIC, &until);
        if (m->stopping || timed_out == 0)
            continue;
        (void)pthread_mutex_unlock(&m->lock);
        renew(m);
        (void)pthread_mutex_lock(&m->lock);
    }
    (void)pthread_mutex_unlock(&m->lock);
    return NULL;
}

static enum err busy(const char *holder, long long left_ms, struct error *e)
{
    return error_set(
        e, ERR_BUSY,
        "a job of this filter has not ended; see \"twinbloom status\" (the mutex is held by %s, its "
        "lease: %lld ms)",
        holder, left_ms);
}

/* *@left_ms: the rest of the holder's lease, if the result is ERR_BUSY. */
static enum err take(struct mutex *m, const char *owner, uint64_t *left_ms, struct error *e)
{
    /* The counter may go back with its node, so a token may come twice, even within a process. The random id
     * makes the value unique. */
    char unique[OWNER_MAX];
    m->id = random_u64();
    (void)snprintf(unique, sizeof(unique), "%s/%016" PRIx64, owner, m->id);
    script_begin(&m->call, embedded_acquire);
    script_filter_key(&m->call, &m->names, "expansion_flag");
    script_filter_key(&m->call, &m->names, "token");
    script_text(&m->call, unique);
    script_number(&m->call, m->lease_ms);
    enum err code = script_send(&m->call, m->redis, sync_client_home(m->redis, &m->names), e);
    SCOPED(scope_reply) redisReply *reply = NULL;
    if (code == ERR_OK)
        code = sync_client_reply(m->redis, sync_client_home(m->redis, &m->names), &reply, e);
    if (code != ERR_OK)
        return code;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2)
        code = error_set(e, ERR_REFUSED, "mutex: %s",
                         reply->type == REDIS_REPLY_ERROR ? reply->str : "unexpected reply");
    else if (reply->element[0]->integer == 0) {
        long long left = reply->elements > 2 ? reply->element[2]->integer : 0;
        *left_ms = left >= 0 ? (uint64_t)left : m->lease_ms; /* negative: the key has lost its TTL */
        code = busy(reply->element[1]->str, left, e);
    } else {
        (void)snprintf(m->value, sizeof(m->value), "%s", reply->element[1]->str);
        const char *colon = strrchr(m->value, ':');
        if (colon == NULL || !number_u64(colon + 1, strlen(colon + 1), &m->token))
            code = error_set(e, ERR_PARSE, "mutex: unexpected value %s", m->value);
    }
    return code;
}

static void destroy(struct mutex *m)
{
    sync_client_free(m->own);
    script_fini(&m->call);
    (void)pthread_cond_destroy(&m->wake);
    (void)pthread_mutex_destroy(&m->lock);
    free(m);
}

/* Allocate and connect, without taking the mutex. *@out stays NULL on error. */
static enum err make(struct mutex **out, const struct mutex_options *options, struct error *e)
{
    struct mutex *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    (void)pthread_cond_init(&m->wake, NULL);
    (void)pthread_mutex_init(&m->lock, NULL);
    m->lease_ms = options->lease_ms;
    m->own = sync_client_new(options->nodes, options->redis_timeout_ms, "twinbloom-mutex");
    m->redis = options->redis != NULL ? options->redis : m->own;
    enum err code = m->own == NULL
                        ? error_set(e, ERR_NOMEM, "out of memory")
                        : names_init(&m->names, options->prefix, options->filter, options->filter_length, e);
    if (code == ERR_OK)
        *out = m;
    else
        destroy(m);
    return code;
}

/* Start the renewal of a mutex that was taken; free @m if @code says that it was not. */
static enum err begin(struct mutex **out, struct mutex *m, enum err code, struct error *e)
{
    if (code != ERR_OK) {
        destroy(m);
        return code;
    }
    m->renewing = pthread_create(&m->thread, NULL, renew_loop, m) == 0;
    if (!m->renewing) {
        mutex_release(m);
        return error_set(e, ERR_NOMEM, "the thread that renews the mutex could not be started");
    }
    *out = m;
    return ERR_OK;
}

/* --- waiting --- */

/* Added to the rest of a lease: Redis counts whole milliseconds, and must have passed its end. */
enum { PAST_LEASE_US = 2000, PAUSE_MIN_US = 10 * 1000, PAUSE_MAX_US = 1000 * 1000 };

struct waiting {
    struct mutex *mutex;
    const struct mutex_options *options;
    struct events *events; /* NULL: not subscribed now */
    bool refused;          /* this user may not subscribe */
    uint64_t pause_us;     /* before the next attempt to subscribe */
};

static void subscribe(struct waiting *w)
{
    static atomic_bool told;
    struct error e;
    const struct mutex_options *o = w->options;
    if (w->events != NULL || w->refused)
        return;
    enum err code = events_open(&w->events, o->nodes, o->prefix, o->redis_timeout_ms, &e);
    w->refused = code == ERR_REFUSED;
    if (w->refused && !atomic_exchange(&told, true))
        log_warn("mutex_subscription_failed",
                 "code=%s error=%s note=\"waits for a mutex end when the lease of its holder ends\"",
                 error_name(code), log_quote(e.text));
}

static bool is_release_of(const struct events_message *message, const struct names *names)
{
    return message->kind == EVENTS_RELEASED && message->filter_length == names->filter_length &&
           memcmp(message->filter, names->filter, names->filter_length) == 0;
}

/* Wait for a release of the mutex, or until @until. The wait ends early if the subscription breaks, because a
 * release may have been missed. */
static void wait_for_release(struct waiting *w, uint64_t until)
{
    struct events_message message;
    struct error e;
    enum err code = ERR_OK;
    while (w->events != NULL && code == ERR_OK) {
        code = events_next(w->events, -1, until, &message, &e);
        if (code == ERR_OK && is_release_of(&message, &w->mutex->names))
            return;
    }
    if (code == ERR_TIMEOUT)
        return;
    events_close(w->events);
    w->events = NULL;
    uint64_t now = clock_mono_us();
    uint64_t end = w->refused || now + w->pause_us > until ? until : now + w->pause_us;
    w->pause_us = w->pause_us * 2 < PAUSE_MAX_US ? w->pause_us * 2 : PAUSE_MAX_US;
    while ((now = clock_mono_us()) < end)
        clock_sleep_us(end - now);
}

/* Subscribe before each attempt, so that no release between the attempt and the wait is missed. */
static enum err take_when_free(struct waiting *w, uint64_t deadline, struct error *e)
{
    for (;;) {
        uint64_t left_ms = 0;
        subscribe(w);
        enum err code = take(w->mutex, w->options->owner, &left_ms, e);
        uint64_t now = clock_mono_us();
        if (code != ERR_BUSY || now >= deadline)
            return code;
        uint64_t lease_end = now + left_ms * 1000 + PAST_LEASE_US;
        wait_for_release(w, lease_end < deadline ? lease_end : deadline);
    }
}

enum err mutex_acquire(struct mutex **out, const struct mutex_options *options, unsigned wait_ms,
                       struct error *e)
{
    uint64_t left_ms, deadline = clock_mono_us() + (uint64_t)wait_ms * 1000;
    struct waiting w = {.options = options, .pause_us = PAUSE_MIN_US};
    enum err code = make(&w.mutex, options, e);
    if (w.mutex == NULL)
        return code;
    /* Usually nobody holds the mutex: try first, without a subscription. */
    code = take(w.mutex, options->owner, &left_ms, e);
    if (code == ERR_BUSY && wait_ms > 0) {
        log_info("mutex_waiting", "filter=%s wait_ms=%u reason=%s", log_quote(w.mutex->names.filter), wait_ms,
                 log_quote(e != NULL ? e->text : ""));
        code = take_when_free(&w, deadline, e);
        events_close(w.events);
        if (code == ERR_BUSY)
            code = error_prefix(e, ERR_BUSY, "waited %u ms", wait_ms);
    }
    return begin(out, w.mutex, code, e);
}

static const char holder_command[] = "GET %b";

void mutex_ask_ahead(struct sync_client *l, unsigned user, const struct names *names)
{
    struct key_name key;
    names_filter_key(names, "expansion_flag", &key);
    ahead_ask(l, user, sync_client_home(l, names), holder_command, key.text, key.length);
}

enum err mutex_read(struct sync_client *l, const struct names *names, struct mutex_found *out,
                    struct error *e)
{
    enum { GONE = -2 };
    SCOPED(scope_reply) redisReply *holder = NULL, *left = NULL;
    *out = (struct mutex_found){.value = ""};
    enum err code = sync_client_filter_command(l, names, "expansion_flag", holder_command, &holder, e);
    if (code != ERR_OK)
        return code;
    if (holder->type == REDIS_REPLY_STRING)
        code = sync_client_filter_command(l, names, "expansion_flag", "PTTL %b", &left, e);
    if (code == ERR_OK && holder->type == REDIS_REPLY_STRING) {
        (void)snprintf(out->value, sizeof(out->value), "%s", left->integer == GONE ? "" : holder->str);
        out->left_ms = left->integer;
    }
    return code;
}

enum err mutex_look(struct sync_client *l, const struct names *names, struct error *e)
{
    enum { LEASE_MAX_MS = 3600 * 1000 };
    struct mutex_found found;
    enum err code = mutex_read(l, names, &found, e);
    if (code != ERR_OK || found.value[0] == '\0')
        return code;
    if (found.left_ms < 0 || found.left_ms > LEASE_MAX_MS) { /* copied without it, or the clock went back */
        found.left_ms = 60000;
        code = sync_client_filter_command(l, names, "expansion_flag", "PEXPIRE %b 60000", NULL, e);
    }
    return code == ERR_OK ? busy(found.value, found.left_ms, e) : code;
}

const char *mutex_value(const struct mutex *m)
{
    return m->value;
}

uint64_t mutex_id(const struct mutex *m)
{
    return m->id;
}

bool mutex_is_of(const char *value, uint64_t id)
{
    char wanted[24];
    (void)snprintf(wanted, sizeof(wanted), "/%016" PRIx64 ":", id);
    return strstr(value, wanted) != NULL;
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
    script_filter_key(&m->call, &m->names, "expansion_flag");
    script_text(&m->call, m->value);
    script_text(&m->call, channel);
    script_bytes(&m->call, m->names.filter, m->names.filter_length);
    enum err code = script_run(&m->call, m->redis, sync_client_home(m->redis, &m->names), &answer, &e);
    if (code != ERR_OK)
        log_warn("mutex_not_released", "filter=%s mutex=%s code=%s error=%s note=\"it expires by itself\"",
                 log_quote(m->names.filter), m->value, error_name(code), log_quote(e.text));
    destroy(m);
}
