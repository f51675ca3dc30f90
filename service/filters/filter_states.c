/* SPDX-License-Identifier: MIT */
#include "service/filters/filter_states.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/clock.h"
#include "service/filters/sources.h"

enum { BUCKETS = 4096 };

struct filter_states {
    pthread_mutex_t lock;
    struct filter_state *bucket[BUCKETS];
};

struct filter_states *filter_states_new(void)
{
    struct filter_states *watch = calloc(1, sizeof(*watch));
    if (watch != NULL)
        (void)pthread_mutex_init(&watch->lock, NULL);
    return watch;
}

static void watched_free(struct filter_state *w)
{
    source_look_free(w->look);
    free(w);
}

void filter_states_free(struct filter_states *watch)
{
    if (watch == NULL)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct filter_state *w = watch->bucket[i], *next; w != NULL; w = next) {
            next = w->next;
            watched_free(w);
        }
    (void)pthread_mutex_destroy(&watch->lock);
    free(watch);
}

static size_t bucket_of(const char *name, size_t length)
{
    return XXH3_64bits(name, length) % BUCKETS;
}

static struct filter_state *find_locked(const struct filter_states *watch, const char *name, size_t length)
{
    for (struct filter_state *w = watch->bucket[bucket_of(name, length)]; w != NULL; w = w->next)
        if (w->length == length && memcmp(w->name, name, length) == 0)
            return w;
    return NULL;
}

/* NULL: no memory. */
static struct filter_state *find_or_make_locked(struct filter_states *watch, const char *name, size_t length)
{
    struct filter_state *w = find_locked(watch, name, length),
                        **head = &watch->bucket[bucket_of(name, length)];
    if (w != NULL)
        return w;
    w = calloc(1, sizeof(*w) + length + 1);
    if (w == NULL)
        return NULL;
    memcpy(w->name, name, length);
    w->length = length;
    w->watch = watch;
    w->schedule_from = (time_t)(clock_wall_us() / 1000000);
    w->next = *head;
    *head = w;
    return w;
}

struct filter_state *filter_states_next(struct filter_states *watch, const struct filter_state *w)
{
    (void)pthread_mutex_lock(&watch->lock);
    struct filter_state *next = w == NULL ? watch->bucket[0] : w->next;
    for (size_t i = w == NULL ? 1 : bucket_of(w->name, w->length) + 1; next == NULL && i < BUCKETS; i++)
        next = watch->bucket[i];
    (void)pthread_mutex_unlock(&watch->lock);
    return next;
}

/* True if a result of the look will be taken: not if the filter has lost its source. */
static bool is_looked_at(const struct filter_state *w)
{
    struct source_facts ignored;
    return w->look != NULL && !source_look_ended(w->look, &ignored);
}

void filter_states_forget(struct filter_states *watch, uint64_t round)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        (void)pthread_mutex_lock(&watch->lock);
        for (struct filter_state **at = &watch->bucket[i], *w; (w = *at) != NULL;) {
            if (w->seen != 0 || is_looked_at(w) || w->round >= round) {
                at = &w->next;
                continue;
            }
            *at = w->next;
            watched_free(w);
        }
        (void)pthread_mutex_unlock(&watch->lock);
    }
}

struct filter_state *filter_states_find(struct filter_states *watch, const char *name, size_t length)
{
    (void)pthread_mutex_lock(&watch->lock);
    struct filter_state *w = find_or_make_locked(watch, name, length);
    (void)pthread_mutex_unlock(&watch->lock);
    return w;
}

struct filter_note filter_states_note(struct filter_states *watch, const char *name, size_t length)
{
    struct filter_note note = {0};
    (void)pthread_mutex_lock(&watch->lock);
    const struct filter_state *w = find_locked(watch, name, length);
    if (w != NULL)
        note = w->told;
    (void)pthread_mutex_unlock(&watch->lock);
    return note;
}

void filter_state_tell(struct filter_state *w)
{
    (void)pthread_mutex_lock(&w->watch->lock);
    w->told = w->note;
    (void)pthread_mutex_unlock(&w->watch->lock);
}

void filter_states_on_seen(void *states, const char *name, size_t length, uint64_t incarnation)
{
    struct filter_states *watch = states;
    (void)pthread_mutex_lock(&watch->lock);
    struct filter_state *w = find_or_make_locked(watch, name, length);
    if (w != NULL && incarnation > w->seen /* incarnations grow */ &&
        incarnation != w->dropped) /* a thread that read it before the deletion reports late */
        w->seen = incarnation;
    (void)pthread_mutex_unlock(&watch->lock);
}

void filter_states_on_dropped(struct filter_states *watch, const char *name, size_t length,
                              uint64_t incarnation)
{
    (void)pthread_mutex_lock(&watch->lock);
    struct filter_state *w = find_locked(watch, name, length);
    if (w != NULL) {
        w->dropped = incarnation;
        if (w->seen == incarnation) /* not for one made since */
            w->seen = 0;
    }
    (void)pthread_mutex_unlock(&watch->lock);
}

uint64_t filter_states_seen(struct filter_states *watch, const char *name, size_t length)
{
    (void)pthread_mutex_lock(&watch->lock);
    const struct filter_state *w = find_locked(watch, name, length);
    uint64_t seen = w == NULL ? 0 : w->seen;
    (void)pthread_mutex_unlock(&watch->lock);
    return seen;
}
