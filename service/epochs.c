/* SPDX-License-Identifier: MIT */
#include "service/epochs.h"

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
    struct entry *next; /* of the hash chain */
    TAILQ_ENTRY(entry) changed_link;
    TAILQ_ENTRY(entry) behind_link;
    bool changed, behind, told; /* told: somebody took an epoch other than 0 */
    unsigned times_behind;
    struct held found; /* in Redis, as far as is known */
    struct held slowest;
    char *filter;
    struct held loop[]; /* by loop */
};

TAILQ_HEAD(entry_list, entry);

struct epochs {
    pthread_mutex_t lock;
    unsigned loops;
    struct epochs_total total;
    struct entry_list changed, behind;
    struct entry *bucket[BUCKETS];
};

struct epochs *epochs_new(unsigned loops)
{
    struct epochs *e = calloc(1, sizeof(*e));
    if (e == NULL)
        return NULL;
    (void)pthread_mutex_init(&e->lock, NULL);
    e->loops = loops;
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
            free(n->filter);
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

static struct entry *make(struct epochs *e, struct entry **at, const char *filter)
{
    struct entry *n = calloc(1, sizeof(*n) + e->loops * sizeof(n->loop[0]));
    if (n == NULL || (n->filter = strdup(filter)) == NULL) {
        free(n); /* it is not reported: nothing depends on it */
        return NULL;
    }
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

/* Of another incarnation than Redis has is slower than any epoch. */
static bool is_slower(const struct entry *n, const struct held *a, const struct held *b)
{
    bool a_is_other = n->found.epoch != 0 && a->incarnation != n->found.incarnation;
    bool b_is_other = n->found.epoch != 0 && b->incarnation != n->found.incarnation;
    return a_is_other != b_is_other ? a_is_other : a->epoch < b->epoch;
}

static void judge(struct epochs *e, struct entry *n)
{
    struct held slowest = {0, 0};
    for (unsigned i = 0; i < e->loops; i++)
        if (n->loop[i].epoch != 0 && (slowest.epoch == 0 || is_slower(n, &n->loop[i], &slowest)))
            slowest = n->loop[i];
    bool same = slowest.epoch == n->slowest.epoch && slowest.incarnation == n->slowest.incarnation;
    if ((slowest.epoch != 0) != (n->slowest.epoch != 0))
        e->total.filters += slowest.epoch != 0 ? 1 : (uint64_t)-1;
    n->slowest = slowest;
    if (!same)
        set_changed(e, n, true);
    set_behind(e, n,
               slowest.epoch != 0 && n->found.epoch != 0 &&
                   (slowest.incarnation != n->found.incarnation || slowest.epoch < n->found.epoch));
}

/* What nobody holds, and nobody was told of, is not kept. */
static void drop_if_idle(struct epochs *e, struct entry *n)
{
    if (n->slowest.epoch != 0 || n->changed)
        return;
    *find(e, n->filter) = n->next;
    free(n->filter);
    free(n);
}

/* --- what is said --- */

void epochs_hold(struct epochs *e, unsigned loop, const char *filter, uint64_t incarnation, uint64_t epoch)
{
    (void)pthread_mutex_lock(&e->lock);
    struct entry **at = find(e, filter);
    struct entry *n = *at == NULL && epoch != 0 ? make(e, at, filter) : *at;
    if (n != NULL && loop < e->loops) {
        n->loop[loop] = (struct held){incarnation, epoch};
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

/* --- what is asked --- */

struct epochs_total epochs_total(struct epochs *e)
{
    (void)pthread_mutex_lock(&e->lock);
    struct epochs_total total = e->total;
    (void)pthread_mutex_unlock(&e->lock);
    return total;
}

/* The lock is given back between two of them: event loops may wait for it. */
size_t epochs_take(struct epochs *e, size_t most, epochs_fn *fn, void *arg)
{
    size_t count = 0;
    for (bool any = true; any && count < most;) {
        (void)pthread_mutex_lock(&e->lock);
        struct entry *n = TAILQ_FIRST(&e->changed);
        any = n != NULL;
        if (any) {
            set_changed(e, n, false);
            if (n->slowest.epoch != 0 || n->told) {
                fn(arg, n->filter, n->slowest.incarnation, n->slowest.epoch);
                count++;
            }
            n->told = n->slowest.epoch != 0;
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
