/* SPDX-License-Identifier: MIT */
#include "service/filters/filter_states.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/clock.h"
#include "service/filters/sources.h"
#include "shard/filter/names.h"

enum { BUCKETS = 4096 };

TAILQ_HEAD(filter_state_list, filter_state);

struct filter_states {
    pthread_mutex_t lock;
    struct filter_states_total total;
    unsigned sampled; /* entries with samples */
    struct filter_state_list changed, behind;
    struct filter_state *bucket[BUCKETS];
};

struct filter_states *filter_states_new(void)
{
    struct filter_states *watch = calloc(1, sizeof(*watch));
    if (watch == NULL)
        return NULL;
    (void)pthread_mutex_init(&watch->lock, NULL);
    TAILQ_INIT(&watch->changed);
    TAILQ_INIT(&watch->behind);
    return watch;
}

static void watched_free(struct filter_state *w)
{
    source_look_free(w->look);
    w->watch->sampled -= w->fills != NULL;
    fills_free(w->fills);
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
    HOLD(&watch->lock);
    struct filter_state *next = w == NULL ? watch->bucket[0] : w->next;
    for (size_t i = w == NULL ? 1 : bucket_of(w->name, w->length) + 1; next == NULL && i < BUCKETS; i++)
        next = watch->bucket[i];
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
        HOLD(&watch->lock);
        for (struct filter_state **at = &watch->bucket[i], *w; (w = *at) != NULL;) {
            bool reports = w->served.epoch != 0 || w->changed;
            if (w->seen != 0 || reports || is_looked_at(w) || w->round >= round) {
                at = &w->next;
                continue;
            }
            *at = w->next;
            watched_free(w);
        }
    }
}

struct filter_state *filter_states_find(struct filter_states *watch, const char *name, size_t length)
{
    HOLD(&watch->lock);
    return find_or_make_locked(watch, name, length);
}

struct filter_note filter_states_note(struct filter_states *watch, const char *name, size_t length)
{
    struct filter_note note = {0};
    HOLD(&watch->lock);
    const struct filter_state *w = find_locked(watch, name, length);
    if (w != NULL)
        note = w->told;
    return note;
}

void filter_states_sample(struct filter_states *watch, const char *name, size_t length, uint64_t incarnation,
                          const struct fill *one)
{
    HOLD(&watch->lock);
    struct filter_state *w = find_locked(watch, name, length);
    if (w != NULL && w->fills == NULL && watch->sampled < STATES_SAMPLED_MAX &&
        (w->fills = fills_new()) != NULL)
        watch->sampled++;
    if (w != NULL && w->fills != NULL)
        fills_note(w->fills, incarnation, one);
}

size_t filter_states_samples(struct filter_states *watch, const char *name, size_t length,
                             struct fill out[FILLS_MAX])
{
    HOLD(&watch->lock);
    const struct filter_state *w = find_locked(watch, name, length);
    return w == NULL || w->fills == NULL ? 0 : fills_read(w->fills, out);
}

size_t filter_states_lost(struct filter_states *watch, struct buffer *names)
{
    size_t count = 0;
    HOLD(&watch->lock);
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct filter_state *w = watch->bucket[i]; w != NULL; w = w->next) {
            if (!w->told.is_lost)
                continue;
            buffer_append(names, &w->length, sizeof(w->length));
            buffer_append(names, w->name, w->length);
            count++;
        }
    return count;
}

void filter_state_tell(struct filter_state *w)
{
    HOLD(&w->watch->lock);
    w->told = w->note;
}

/* --- versions --- */

static void set_changed(struct filter_state *w, bool changed)
{
    if (changed && !w->changed)
        TAILQ_INSERT_TAIL(&w->watch->changed, w, changed_link);
    else if (!changed && w->changed)
        TAILQ_REMOVE(&w->watch->changed, w, changed_link);
    w->changed = changed;
}

static void judge(struct filter_state *w)
{
    const struct filter_version *served = &w->served, *found = &w->found;
    bool behind = served->epoch != 0 && found->epoch != 0 &&
                  (served->incarnation != found->incarnation || served->epoch < found->epoch);
    if (behind == w->behind)
        return;
    if (behind)
        TAILQ_INSERT_TAIL(&w->watch->behind, w, behind_link);
    else
        TAILQ_REMOVE(&w->watch->behind, w, behind_link);
    w->behind = behind;
    w->times_behind = 0;
    w->watch->total.behind += behind ? 1 : (uint64_t)-1;
}

static void serve_locked(struct filter_state *w, uint64_t incarnation, uint64_t epoch)
{
    if (w->served.epoch != epoch || w->served.incarnation != incarnation)
        set_changed(w, true);
    w->watch->total.filters += (uint64_t)(epoch != 0) - (uint64_t)(w->served.epoch != 0);
    w->served = (struct filter_version){incarnation, epoch};
    judge(w);
}

void filter_state_serve(struct filter_state *w, uint64_t incarnation, uint64_t epoch)
{
    HOLD(&w->watch->lock);
    if (epoch == 0 || incarnation != w->dropped) /* it was deleted behind the look: nobody looks again */
        serve_locked(w, incarnation, epoch);
}

void filter_state_found(struct filter_state *w, uint64_t incarnation, uint64_t epoch)
{
    HOLD(&w->watch->lock);
    w->found = (struct filter_version){incarnation, epoch};
    judge(w);
}

struct filter_states_total filter_states_total(struct filter_states *watch)
{
    HOLD(&watch->lock);
    return watch->total;
}

/* The lock is released between two filters, as the controller may wait for it. */
size_t filter_states_changes(struct filter_states *watch, size_t most, filter_states_change_fn *fn, void *arg)
{
    struct names names;
    size_t count = 0;
    for (bool any = true; any && count < most;) {
        HOLD(&watch->lock);
        struct filter_state *w = TAILQ_FIRST(&watch->changed);
        any = w != NULL;
        if (any) {
            set_changed(w, false);
            if ((w->served.epoch != 0 || w->reported) &&
                names_init(&names, "p", w->name, w->length, NULL) == ERR_OK) {
                fn(arg, names.filter, w->served.incarnation, w->served.epoch);
                count++;
            }
            w->reported = w->served.epoch != 0;
        }
    }
    return count;
}

void filter_states_report_again(struct filter_states *watch)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        HOLD(&watch->lock);
        for (struct filter_state *w = watch->bucket[i]; w != NULL; w = w->next)
            if (w->served.epoch != 0)
                set_changed(w, true);
    }
}

void filter_states_behind(struct filter_states *watch, size_t most, filter_states_behind_fn *fn, void *arg)
{
    struct names names;
    struct filter_state *w;
    size_t count = 0;
    HOLD(&watch->lock);
    TAILQ_FOREACH(w, &watch->behind, behind_link)
    {
        if (count++ == most)
            break;
        if (names_init(&names, "p", w->name, w->length, NULL) == ERR_OK)
            fn(arg, names.filter, w->found.epoch, ++w->times_behind);
    }
}

/* --- incarnations --- */

void filter_states_on_seen(struct filter_states *watch, const char *name, size_t length, uint64_t incarnation)
{
    HOLD(&watch->lock);
    struct filter_state *w = find_or_make_locked(watch, name, length);
    if (w != NULL && incarnation > w->seen /* incarnations grow */ &&
        incarnation != w->dropped) /* a thread that read it before the deletion reports late */
        w->seen = incarnation;
}

void filter_states_on_dropped(struct filter_states *watch, const char *name, size_t length,
                              uint64_t incarnation)
{
    HOLD(&watch->lock);
    struct filter_state *w = find_locked(watch, name, length);
    if (w != NULL) {
        serve_locked(w, 0, 0);
        w->dropped = incarnation;
        if (w->seen == incarnation) /* not for one made since */
            w->seen = 0;
    }
}

uint64_t filter_states_seen(struct filter_states *watch, const char *name, size_t length)
{
    HOLD(&watch->lock);
    const struct filter_state *w = find_locked(watch, name, length);
    return w == NULL ? 0 : w->seen;
}
