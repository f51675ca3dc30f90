/* SPDX-License-Identifier: MIT */
#include "service/watch.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/keeper.h"

struct watch {
    pthread_mutex_t lock;
    struct watched *filters;
};

struct watch *watch_new(void)
{
    struct watch *watch = calloc(1, sizeof(*watch));
    if (watch != NULL)
        (void)pthread_mutex_init(&watch->lock, NULL);
    return watch;
}

void watch_free(struct watch *watch)
{
    if (watch == NULL)
        return;
    for (struct watched *w = watch->filters, *next; w != NULL; w = next) {
        next = w->next;
        free(w->name);
        free(w);
    }
    (void)pthread_mutex_destroy(&watch->lock);
    free(watch);
}

static struct watched *find_locked(const struct watch *watch, const char *name, size_t length)
{
    for (struct watched *w = watch->filters; w != NULL; w = w->next)
        if (w->length == length && memcmp(w->name, name, length) == 0)
            return w;
    return NULL;
}

struct watched *watch_first(struct watch *watch)
{
    (void)pthread_mutex_lock(&watch->lock);
    struct watched *w = watch->filters;
    (void)pthread_mutex_unlock(&watch->lock);
    return w;
}

struct watched *watch_find(struct watch *watch, const char *name, size_t length)
{
    (void)pthread_mutex_lock(&watch->lock);
    struct watched *w = find_locked(watch, name, length);
    if (w == NULL && (w = calloc(1, sizeof(*w))) != NULL) {
        w->name = malloc(length + 1);
        if (w->name == NULL) {
            free(w);
            w = NULL;
        } else {
            memcpy(w->name, name, length);
            w->name[length] = '\0';
            w->length = length;
            w->watch = watch;
            w->schedule_from = (time_t)(clock_wall_us() / 1000000);
            w->next = watch->filters;
            watch->filters = w;
        }
    }
    (void)pthread_mutex_unlock(&watch->lock);
    return w;
}

struct keeper_note keeper_note(struct service *s, const char *name, size_t length)
{
    struct watch *watch = s->watch;
    struct keeper_note note = {0};
    (void)pthread_mutex_lock(&watch->lock);
    const struct watched *w = find_locked(watch, name, length);
    if (w != NULL)
        note = w->note;
    (void)pthread_mutex_unlock(&watch->lock);
    return note;
}

void watch_note_text(struct watch *watch, char *out, size_t size, const char *text)
{
    (void)pthread_mutex_lock(&watch->lock);
    (void)snprintf(out, size, "%.*s", (int)size - 1, text); /* cut where it is too long */
    (void)pthread_mutex_unlock(&watch->lock);
}

void watch_note_lost(struct watched *w, uint64_t generation, uint64_t lost)
{
    struct watch *watch = w->watch;
    (void)pthread_mutex_lock(&watch->lock);
    w->note.lost_shards = lost;
    w->note.lost_generation = generation;
    (void)pthread_mutex_unlock(&watch->lock);
}

void watch_note_rows(struct watched *w, const struct source_rows *rows, uint64_t now_ms)
{
    (void)pthread_mutex_lock(&w->watch->lock);
    w->note.rows = rows != NULL ? *rows : (struct source_rows){.by = SOURCE_ROWS_GUESSED};
    w->note.rows_ms = rows != NULL ? now_ms : 0;
    (void)pthread_mutex_unlock(&w->watch->lock);
}

bool watch_take_lost(struct watched *w, uint64_t *generation)
{
    (void)pthread_mutex_lock(&w->watch->lock);
    bool told = w->look_for_lost;
    *generation = w->lost_generation;
    w->look_for_lost = false;
    (void)pthread_mutex_unlock(&w->watch->lock);
    return told;
}

void watch_give_back_lost(struct watched *w, bool told)
{
    (void)pthread_mutex_lock(&w->watch->lock);
    w->look_for_lost |= told;
    (void)pthread_mutex_unlock(&w->watch->lock);
}

void service_on_seen(void *service, const char *name, size_t length, uint64_t incarnation)
{
    struct watch *watch = ((struct service *)service)->watch;
    struct watched *w = watch_find(watch, name, length);
    if (w == NULL)
        return;
    (void)pthread_mutex_lock(&watch->lock);
    if (incarnation != w->dropped) /* who had read it before tells it late */
        w->seen = incarnation;
    (void)pthread_mutex_unlock(&watch->lock);
}

void service_on_dropped(void *service, const char *name, size_t length, uint64_t incarnation)
{
    struct watch *watch = ((struct service *)service)->watch;
    (void)pthread_mutex_lock(&watch->lock);
    struct watched *w = find_locked(watch, name, length);
    if (w != NULL) {
        w->dropped = incarnation;
        if (w->seen == incarnation) /* not one that was made since */
            w->seen = 0;
    }
    (void)pthread_mutex_unlock(&watch->lock);
}

bool service_was_seen(void *service, const char *name, size_t length)
{
    struct watch *watch = ((struct service *)service)->watch;
    (void)pthread_mutex_lock(&watch->lock);
    const struct watched *w = find_locked(watch, name, length);
    bool seen = w != NULL && w->seen != 0;
    (void)pthread_mutex_unlock(&watch->lock);
    return seen;
}

void service_on_lost(void *service, const char *name, size_t length, uint64_t generation)
{
    struct watch *watch = ((struct service *)service)->watch;
    (void)pthread_mutex_lock(&watch->lock);
    struct watched *w = find_locked(watch, name, length);
    if (w != NULL) {
        w->look_for_lost = true;
        w->lost_generation = generation;
    }
    (void)pthread_mutex_unlock(&watch->lock);
    log_warn("lost", "filter=%s generation=%" PRIu64 " note=\"data in Redis is lost; answers are not no\"",
             log_quote(name), generation);
    keeper_wake(service);
}
