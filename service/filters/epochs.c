/* SPDX-License-Identifier: MIT */
#include "service/filters/epochs.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <xxhash.h>

enum { BUCKETS = 4096 };

struct held {
    uint64_t incarnation, epoch; /* epoch 0: none */
};

struct entry {
    struct entry *next; /* next entry of the hash chain */
    TAILQ_ENTRY(entry) changed_link;
    TAILQ_ENTRY(entry) behind_link;
    bool changed, behind, told; /* told: an epoch other than 0 was taken */
    unsigned times_behind;
    struct held found; /* the view in Redis, as far as known */
    struct held served;
    char filter[];
};

TAILQ_HEAD(entry_list, entry);

struct epochs {
    pthread_mutex_t lock;
    struct epochs_total total;
    struct entry_list changed, behind;
    struct entry *bucket[BUCKETS];
};

struct epochs *epochs_new(void)
{
    struct epochs *e = calloc(1, sizeof(*e));
    if (e == NULL)
        return NULL;
    (void)pthread_mutex_init(&e->lock, NULL);
    TAILQ_INIT(&e->changed);
    TAILQ_INIT(&e->behind);
    return e;
}

void epochs_free(struct epochs *e)
{
    if (e == NULL)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct entry *n = e->bucket[i], *next; n != NULL; n = next) {
            next = n->next;
            free(n);
        }
    (void)pthread_mutex_destroy(&e->lock);
    free(e);
}

/* --- entries --- */

static struct entry **find(struct epochs *e, const char *filter)
{
    struct entry **at = &e->bucket[XXH3_64bits(filter, strlen(filter)) % BUCKETS];
    while (*at != NULL && strcmp((*at)->filter, filter) != 0)
        at = &(*at)->next;
    return at;
}

static struct entry *make(struct entry **at, const char *filter)
{
    size_t size = strlen(filter) + 1;
    struct entry *n = calloc(1, sizeof(*n) + size);
    if (n != NULL) /* else it is not reported, which is harmless */
        memcpy(n->filter, filter, size);
    *at = n;
    return n;
}

static void set_behind(struct epochs *e, struct entry *n, bool behind)
{
    if (behind == n->behind)
        return;
    if (behind)
        TAILQ_INSERT_TAIL(&e->behind, n, behind_link);
    else
        TAILQ_REMOVE(&e->behind, n, behind_link);
    n->behind = behind;
    n->times_behind = 0;
    e->total.behind += behind ? 1 : (uint64_t)-1;
}

static void set_changed(struct epochs *e, struct entry *n, bool changed)
{
    if (changed && !n->changed)
        TAILQ_INSERT_TAIL(&e->changed, n, changed_link);
    else if (!changed && n->changed)
        TAILQ_REMOVE(&e->changed, n, changed_link);
    n->changed = changed;
}

static void judge(struct epochs *e, struct entry *n)
{
    const struct held *served = &n->served, *found = &n->found;
    set_behind(e, n,
               served->epoch != 0 && found->epoch != 0 &&
                   (served->incarnation != found->incarnation || served->epoch < found->epoch));
}

/* Drop an entry that is not served and has nothing left to report. */
static void drop_if_idle(struct epochs *e, struct entry *n)
{
    if (n->served.epoch != 0 || n->changed)
        return;
    *find(e, n->filter) = n->next;
    free(n);
}

/* --- from the controller --- */

void epochs_hold(struct epochs *e, const char *filter, uint64_t incarnation, uint64_t epoch)
{
    (void)pthread_mutex_lock(&e->lock);
    struct entry **at = find(e, filter);
    struct entry *n = *at == NULL && epoch != 0 ? make(at, filter) : *at;
    if (n != NULL) {
        bool same = n->served.epoch == epoch && n->served.incarnation == incarnation;
        e->total.filters += (uint64_t)(epoch != 0) - (uint64_t)(n->served.epoch != 0);
        n->served = (struct held){incarnation, epoch};
        if (!same)
            set_changed(e, n, true);
        judge(e, n);
    }
    (void)pthread_mutex_unlock(&e->lock);
}

void epochs_found(struct epochs *e, const char *filter, uint64_t incarnation, uint64_t epoch)
{
    (void)pthread_mutex_lock(&e->lock);
    struct entry *n = *find(e, filter);
    if (n != NULL) {
        n->found = (struct held){incarnation, epoch};
        judge(e, n);
    }
    (void)pthread_mutex_unlock(&e->lock);
}

/* --- for the heartbeat --- */

struct epochs_total epochs_total(struct epochs *e)
{
    (void)pthread_mutex_lock(&e->lock);
    struct epochs_total total = e->total;
    (void)pthread_mutex_unlock(&e->lock);
    return total;
}

/* The lock is released between two filters, as the controller may wait for it. */
size_t epochs_take(struct epochs *e, size_t most, epochs_fn *fn, void *arg)
{
    size_t count = 0;
    for (bool any = true; any && count < most;) {
        (void)pthread_mutex_lock(&e->lock);
        struct entry *n = TAILQ_FIRST(&e->changed);
        any = n != NULL;
        if (any) {
            set_changed(e, n, false);
            if (n->served.epoch != 0 || n->told) {
                fn(arg, n->filter, n->served.incarnation, n->served.epoch);
                count++;
            }
            n->told = n->served.epoch != 0;
            drop_if_idle(e, n);
        }
        (void)pthread_mutex_unlock(&e->lock);
    }
    return count;
}

void epochs_again(struct epochs *e)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        (void)pthread_mutex_lock(&e->lock);
        for (struct entry *n = e->bucket[i]; n != NULL; n = n->next)
            set_changed(e, n, true);
        (void)pthread_mutex_unlock(&e->lock);
    }
}

void epochs_behind(struct epochs *e, size_t most, epochs_behind_fn *fn, void *arg)
{
    struct entry *n;
    size_t count = 0;
    (void)pthread_mutex_lock(&e->lock);
    TAILQ_FOREACH(n, &e->behind, behind_link)
    {
        if (count++ == most)
            break;
        fn(arg, n->filter, n->found.epoch, ++n->times_behind);
    }
    (void)pthread_mutex_unlock(&e->lock);
}
