/* SPDX-License-Identifier: MIT */
/* The happy path is: the first in the queue gets an idle connection, or makes one if there are fewer than the
 * limit, and gives it back later. Possible failure modes are: a connection was lost (its user closes it, and
 * the next user makes another); new connections lead to another server, or to one that was restarted, or that
 * crashed (sources that were opened before are refused, and their connections are closed when they come
 * back); all connections are in use (the watch may end the wait). */
#include "migrate/source/pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include "base/clock.h"
#include "migrate/source/source_internal.h"

enum { WATCH_US = 100 * 1000 };

struct waiter {
    TAILQ_ENTRY(waiter) link;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned limit, sources;
    unsigned open; /* connections in use, idle, or being made */
    struct connection *idle[POOL_MOST];
    unsigned idle_count;
    TAILQ_HEAD(, waiter) queue; /* its head has its turn */
    char server[64];            /* the life of the server that connections lead to: server_life.sql */
    uint64_t epoch;             /* of all idle connections; grows when the server changes; 0: of none */
};

struct pool *pool_new(unsigned limit)
{
    struct pool *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return NULL;
    p->limit = limit;
    p->epoch = 1;
    TAILQ_INIT(&p->queue);
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->changed, NULL);
    return p;
}

static void close_idle(struct pool *p)
{
    while (p->idle_count > 0) {
        connection_close(p->idle[--p->idle_count]);
        p->open--;
    }
}

void pool_free(struct pool *p)
{
    if (p == NULL)
        return;
    close_idle(p);
    (void)pthread_cond_destroy(&p->changed);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

/* --- turns --- */

/* Called with the lock held; the lock is released while the watch is called. */
static enum err await_turn(struct pool *p, const struct waiter *me, struct source_watch watch,
                           struct error *e)
{
    enum err err = ERR_OK;
    while (err == ERR_OK && (TAILQ_FIRST(&p->queue) != me || (p->idle_count == 0 && p->open == p->limit))) {
        const struct timespec until = clock_mono_after(WATCH_US);
        if (pthread_cond_clockwait(&p->changed, &p->lock, CLOCK_MONOTONIC, &until) == 0 || watch.fn == NULL)
            continue;
        (void)pthread_mutex_unlock(&p->lock);
        err = watch.fn(watch.arg, e);
        (void)pthread_mutex_lock(&p->lock);
    }
    return err;
}

/* *@out NULL: the caller may make a connection, otherwise it is of *@epoch. Either way it must call
 * give_back() later. */
static enum err take(struct pool *p, struct source_watch watch, struct connection **out, uint64_t *epoch,
                     struct error *e)
{
    struct waiter me;
    *out = NULL;
    *epoch = 0;
    HOLD(&p->lock);
    TAILQ_INSERT_TAIL(&p->queue, &me, link);
    enum err err = await_turn(p, &me, watch, e);
    TAILQ_REMOVE(&p->queue, &me, link);
    (void)pthread_cond_broadcast(&p->changed);
    if (err == ERR_OK && p->idle_count > 0) {
        *out = p->idle[--p->idle_count];
        *epoch = p->epoch;
    } else if (err == ERR_OK) {
        p->open++;
    }
    if (*out != NULL)
        connection_set_watch(*out, watch);
    return err;
}

/* @c, which is of @epoch. NULL: the connection was closed, or none was made. */
static void give_back(struct pool *p, struct connection *c, uint64_t epoch)
{
    (void)pthread_mutex_lock(&p->lock);
    if (c != NULL && epoch == p->epoch && connection_is_idle(c)) {
        p->idle[p->idle_count++] = c;
        c = NULL;
    } else {
        p->open--;
    }
    (void)pthread_cond_broadcast(&p->changed);
    (void)pthread_mutex_unlock(&p->lock);
    connection_close(c);
}

/* Compare the server of a new connection with the known one. *@epoch: the connection's. */
static enum err note_server(struct pool *p, struct connection *c, uint64_t *epoch, struct error *e)
{
    char server[sizeof(p->server)];
    enum err err = connection_read(c, "server_life", NULL, server, sizeof(server), e);
    if (err != ERR_OK)
        return err;
    HOLD(&p->lock);
    if (strcmp(p->server, server) != 0) {
        memcpy(p->server, server, sizeof(server));
        p->epoch++;
        close_idle(p);
        (void)pthread_cond_broadcast(&p->changed);
    }
    *epoch = p->epoch;
    return ERR_OK;
}

/* --- sources --- */

enum err pool_open(struct pool *p, struct source **out, const struct source_config *config,
                   unsigned timeout_ms, struct error *e)
{
    struct connection *c;
    uint64_t epoch;
    enum err err = take(p, config->watch, &c, &epoch, e);
    if (err != ERR_OK)
        return err;
    if (c != NULL && connection_reset(c, timeout_ms, e) != ERR_OK) {
        connection_close(c);
        c = NULL;
    }
    bool made = c == NULL;
    err = source_open_over(out, c, config, timeout_ms, e);
    if (err != ERR_OK) {
        give_back(p, NULL, 0);
        return err;
    }
    (void)pthread_mutex_lock(&p->lock);
    p->sources++;
    (void)pthread_mutex_unlock(&p->lock);
    (*out)->pool = p;
    err = made ? note_server(p, (*out)->connection, &epoch, e) : ERR_OK;
    (*out)->epoch = epoch;
    if (err != ERR_OK)
        source_drop(out);
    return err;
}

enum err source_take(struct source *s, struct error *e)
{
    if (s->pool == NULL || s->connection != NULL)
        return ERR_OK;
    uint64_t epoch;
    enum err err = take(s->pool, s->config.watch, &s->connection, &epoch, e);
    if (err != ERR_OK)
        return err;
    bool made = s->connection == NULL;
    if (made)
        err = source_connect(s, e);
    if (made && err == ERR_OK)
        err = note_server(s->pool, s->connection, &epoch, e);
    if (err == ERR_OK && s->epoch != epoch)
        err = error_set(e, ERR_UNREACHABLE, "Postgres: the server is another one, or was restarted");
    if (err != ERR_OK) {
        give_back(s->pool, s->connection, epoch);
        s->connection = NULL;
    }
    return err;
}

void source_rest(struct source *s)
{
    if (s->pool == NULL || s->connection == NULL)
        return;
    give_back(s->pool, s->connection, s->epoch);
    s->connection = NULL;
}

void pool_leave(struct source *s)
{
    struct pool *p = s->pool;
    if (s->connection != NULL && !s->resolved) { /* its session was not set up */
        connection_close(s->connection);
        s->connection = NULL;
        give_back(p, NULL, 0);
    }
    source_rest(s);
    HOLD(&p->lock);
    if (--p->sources == 0)
        close_idle(p);
}
