/* SPDX-License-Identifier: MIT */
#include "service/watch.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/keeper.h"
#include "service/sources.h"
#include "shard/fence.h"
#include "shard/latest.h"

enum { BUCKETS = 4096 };

struct watch {
    pthread_mutex_t lock;
    struct watched *bucket[BUCKETS];
};

struct watch *watch_new(void)
{
    struct watch *watch = calloc(1, sizeof(*watch));
    if (watch != NULL)
        (void)pthread_mutex_init(&watch->lock, NULL);
    return watch;
}

static void watched_free(struct watched *w)
{
    source_look_free(w->look);
    free(w->latest);
    free(w->name);
    free(w);
}

void watch_free(struct watch *watch)
{
    if (watch == NULL)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct watched *w = watch->bucket[i], *next; w != NULL; w = next) {
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

static struct watched *find_locked(const struct watch *watch, const char *name, size_t length)
{
    for (struct watched *w = watch->bucket[bucket_of(name, length)]; w != NULL; w = w->next)
        if (w->length == length && memcmp(w->name, name, length) == 0)
            return w;
    return NULL;
}

/* NULL: no memory. */
static struct watched *find_or_make_locked(struct watch *watch, const char *name, size_t length)
{
    struct watched *w = find_locked(watch, name, length), **head = &watch->bucket[bucket_of(name, length)];
    if (w != NULL)
        return w;
    w = calloc(1, sizeof(*w));
    if (w == NULL || (w->name = malloc(length + 1)) == NULL) {
        free(w);
        return NULL;
    }
    memcpy(w->name, name, length);
    w->name[length] = '\0';
    w->length = length;
    w->watch = watch;
    w->schedule_from = (time_t)(clock_wall_us() / 1000000);
    w->next = *head;
    *head = w;
    return w;
}

struct watched *watch_next(struct watch *watch, const struct watched *w)
{
    (void)pthread_mutex_lock(&watch->lock);
    struct watched *next = w == NULL ? watch->bucket[0] : w->next;
    for (size_t i = w == NULL ? 1 : bucket_of(w->name, w->length) + 1; next == NULL && i < BUCKETS; i++)
        next = watch->bucket[i];
    (void)pthread_mutex_unlock(&watch->lock);
    return next;
}

void watch_forget(struct watch *watch, uint64_t round)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        (void)pthread_mutex_lock(&watch->lock);
        for (struct watched **at = &watch->bucket[i], *w; (w = *at) != NULL;) {
            if (w->seen != 0 || w->latest != NULL || w->look != NULL || w->round >= round) {
                at = &w->next;
                continue;
            }
            *at = w->next;
            watched_free(w);
        }
        (void)pthread_mutex_unlock(&watch->lock);
    }
}

struct watched *watch_find(struct watch *watch, const char *name, size_t length)
{
    (void)pthread_mutex_lock(&watch->lock);
    struct watched *w = find_or_make_locked(watch, name, length);
    (void)pthread_mutex_unlock(&watch->lock);
    return w;
}

uint64_t watch_seen(struct watched *w)
{
    (void)pthread_mutex_lock(&w->watch->lock);
    uint64_t seen = w->seen;
    (void)pthread_mutex_unlock(&w->watch->lock);
    return seen;
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

void watch_note_lost(struct watched *w, const struct view *v, uint64_t lost, bool somewhere,
                     const char *where)
{
    struct watch *watch = w->watch;
    struct keeper_note *n = &w->note;
    (void)pthread_mutex_lock(&watch->lock);
    if (lost == 0 || n->lost_shards == 0)
        n->lost_ms = lost == 0 ? 0 : clock_wall_us() / 1000;
    n->lost_shards = lost;
    n->lost_generation = view_current(v)->number;
    n->lost_epoch = v->epoch;
    n->lost_somewhere = somewhere;
    (void)snprintf(n->lost_where, sizeof(n->lost_where), "%.*s", (int)sizeof(n->lost_where) - 1, where);
    (void)pthread_mutex_unlock(&watch->lock);
}

void watch_note_degraded(struct watched *w, bool degraded)
{
    (void)pthread_mutex_lock(&w->watch->lock);
    if (!degraded)
        w->note.lost_ms = 0;
    else if (w->note.lost_ms == 0)
        w->note.lost_ms = clock_wall_us() / 1000;
    (void)pthread_mutex_unlock(&w->watch->lock);
}

uint64_t watch_lost_shards(const struct keeper_note *note, const struct view *v)
{
    bool noted = note->lost_generation == view_current(v)->number && note->lost_epoch == v->epoch;
    uint64_t lost = noted ? note->lost_shards : 0, unsure = view_unsure(v);
    return lost > unsure ? lost : unsure;
}

void watch_note_attempt(struct watched *w, uint64_t at_ms, const char *why)
{
    struct keeper_note *n = &w->note;
    (void)pthread_mutex_lock(&w->watch->lock);
    n->next_attempt_ms = at_ms;
    (void)snprintf(n->next_attempt_why, sizeof(n->next_attempt_why), "%s", at_ms == 0 ? "" : why);
    (void)pthread_mutex_unlock(&w->watch->lock);
}

void watch_note_suspects(struct watched *w, const char *text, uint64_t trusted_ms)
{
    struct keeper_note *n = &w->note;
    (void)pthread_mutex_lock(&w->watch->lock);
    if (text[0] == '\0' || n->suspects[0] == '\0')
        n->suspects_ms = text[0] == '\0' ? 0 : clock_wall_us() / 1000;
    (void)snprintf(n->suspects, sizeof(n->suspects), "%.*s", (int)sizeof(n->suspects) - 1, text);
    n->suspects_trust = trusted_ms;
    (void)pthread_mutex_unlock(&w->watch->lock);
}

void watch_note_rows(struct watched *w, const struct source_rows *rows, uint64_t now_ms)
{
    (void)pthread_mutex_lock(&w->watch->lock);
    w->note.rows = rows != NULL ? *rows : (struct source_rows){.by = SOURCE_ROWS_GUESSED};
    w->note.rows_ms = rows != NULL ? now_ms : 0;
    (void)pthread_mutex_unlock(&w->watch->lock);
}

void watch_note_growth(struct watched *w, double items_per_second)
{
    (void)pthread_mutex_lock(&w->watch->lock);
    w->note.growth = items_per_second;
    (void)pthread_mutex_unlock(&w->watch->lock);
}

bool watch_take_lost(struct watched *w, struct lost_shard *last)
{
    (void)pthread_mutex_lock(&w->watch->lock);
    bool told = w->look_for_lost;
    *last = w->lost;
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
    const struct service *s = service;
    struct watch *watch = s->watch;
    (void)pthread_mutex_lock(&watch->lock);
    struct watched *w = find_or_make_locked(watch, name, length);
    bool is_later = w != NULL && (s->logs == NULL || incarnation > w->seen); /* of a log they are in order */
    if (is_later && incarnation != w->dropped) /* who had read it before tells it late */
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
        if (w->latest != NULL && w->latest->incarnation == incarnation) {
            free(w->latest);
            w->latest = NULL;
        }
    }
    (void)pthread_mutex_unlock(&watch->lock);
}

/* --- views that went back --- */

/* How long a look for shards of later epochs counts. */
enum { SURE_US = 2 * 1000 * 1000 };

static bool is_later(const struct view *a, const struct view *b)
{
    return a->epoch > b->epoch || (a->epoch == b->epoch && a->fenced_epoch > b->fenced_epoch);
}

/* Locked. */
static void remember(struct watched *w, const struct view *v)
{
    bool same = w->latest != NULL && w->latest->incarnation == v->incarnation;
    const struct view_stamp stamp = view_stamp_of(v);
    if (v->incarnation == w->dropped || view_stamp_is_replaced(&stamp, &w->known))
        return;
    view_stamp_learn(&w->known, &stamp);
    if (same && is_later(w->latest, v))
        return;
    if (w->latest == NULL)
        w->latest = malloc(sizeof(*w->latest));
    if (w->latest != NULL) /* else it is not remembered: no memory */
        *w->latest = *v;
    w->latest_ms = clock_wall_us() / 1000;
}

/* With the lock held. */
static bool is_news(const struct watched *w, const struct view *v)
{
    return w->latest == NULL || w->latest->incarnation != v->incarnation || v->epoch > w->latest->epoch;
}

/* One line for each view that this coordinator hears of, whoever of its threads is first. */
static void tell(const char *name, const struct view *v)
{
    log_info("view_received", "filter=%s epoch=%" PRIu64 " phase=%s generation=%" PRIu64 " built=%d",
             log_quote(name), v->epoch, phase_row(v->phase)->name, view_current(v)->number,
             view_current(v)->built);
}

void watch_remember(struct watched *w, const struct view *v)
{
    (void)pthread_mutex_lock(&w->watch->lock);
    bool news = is_news(w, v);
    remember(w, v);
    (void)pthread_mutex_unlock(&w->watch->lock);
    if (news)
        tell(w->name, v);
}

bool watch_remembers(struct watched *w, struct view *out)
{
    (void)pthread_mutex_lock(&w->watch->lock);
    bool recent = clock_wall_us() / 1000 - w->latest_ms < DROP_MARKER_MS / 2;
    bool remembers = w->latest != NULL && recent && !w->latest->sourced && w->latest->dropped == VIEW_KEPT;
    if (remembers)
        *out = *w->latest;
    (void)pthread_mutex_unlock(&w->watch->lock);
    return remembers;
}

/* @own: published by this coordinator, which has told so. */
static void on_view(void *service, const char *name, size_t length, const struct view *v, bool own)
{
    struct watch *watch = ((struct service *)service)->watch;
    (void)pthread_mutex_lock(&watch->lock);
    struct watched *w = find_or_make_locked(watch, name, length);
    if (w == NULL) {
        (void)pthread_mutex_unlock(&watch->lock);
        return;
    }
    bool news = !own && is_news(w, v);
    remember(w, v);
    (void)pthread_mutex_unlock(&watch->lock);
    if (news)
        tell(name, v);
}

void service_on_view(void *service, const char *name, size_t length, const struct view *v, bool older)
{
    if (older)
        service_on_doubt(service, name, length);
    else
        on_view(service, name, length, v, false);
}

struct view_stamp service_latest(void *service, const char *name, size_t length)
{
    struct watch *watch = ((struct service *)service)->watch;
    (void)pthread_mutex_lock(&watch->lock);
    const struct watched *w = find_locked(watch, name, length);
    const struct view_stamp known = w == NULL ? (struct view_stamp){0} : w->known;
    (void)pthread_mutex_unlock(&watch->lock);
    return known;
}

struct view_stamp service_knows(void *service, const struct names *names)
{
    char name[FILTER_NAME_MAX];
    size_t length;
    if (!names_unescape(names->filter, names->filter_length, name, &length))
        return (struct view_stamp){0};
    return service_latest(service, name, length);
}

void watch_learn(struct watched *w, const struct view_stamp *stamp)
{
    (void)pthread_mutex_lock(&w->watch->lock);
    if (stamp->incarnation != w->dropped)
        view_stamp_learn(&w->known, stamp);
    (void)pthread_mutex_unlock(&w->watch->lock);
}

bool watch_later_view(struct watched *w, const struct view *v, struct view *out)
{
    (void)pthread_mutex_lock(&w->watch->lock);
    const struct view *l = w->latest;
    bool later = l != NULL && l->incarnation == v->incarnation && l->epoch > v->epoch;
    if (later)
        *out = *l;
    (void)pthread_mutex_unlock(&w->watch->lock);
    return later;
}

void service_on_published(void *service, const struct names *names, const struct view *v)
{
    char name[FILTER_NAME_MAX];
    size_t length;
    if (names_unescape(names->filter, names->filter_length, name, &length))
        on_view(service, name, length, v, true);
}

void service_on_doubt(void *service, const char *name, size_t length)
{
    struct watch *watch = ((struct service *)service)->watch;
    (void)pthread_mutex_lock(&watch->lock);
    struct watched *w = find_locked(watch, name, length);
    bool wake = w != NULL && !w->look_for_later;
    if (w != NULL)
        w->look_for_later = true;
    (void)pthread_mutex_unlock(&watch->lock);
    if (wake)
        keeper_wake(service);
}

bool watch_take_doubt(struct watched *w)
{
    (void)pthread_mutex_lock(&w->watch->lock);
    bool doubt = w->look_for_later;
    w->look_for_later = false;
    (void)pthread_mutex_unlock(&w->watch->lock);
    return doubt;
}

void watch_give_back_doubt(struct watched *w)
{
    (void)pthread_mutex_lock(&w->watch->lock);
    w->look_for_later = true;
    (void)pthread_mutex_unlock(&w->watch->lock);
}

void watch_note_sure(struct watched *w, const struct view *v)
{
    (void)pthread_mutex_lock(&w->watch->lock);
    w->sure_incarnation = v->incarnation;
    w->sure_epoch = v->epoch;
    w->sure_at = clock_mono_us();
    (void)pthread_mutex_unlock(&w->watch->lock);
}

bool service_is_loss_sure(void *service, const char *name, size_t length, const struct view *v)
{
    struct watch *watch = ((struct service *)service)->watch;
    (void)pthread_mutex_lock(&watch->lock);
    const struct watched *w = find_locked(watch, name, length);
    bool sure = w != NULL && w->sure_incarnation == v->incarnation && w->sure_epoch == v->epoch &&
                clock_mono_us() - w->sure_at < SURE_US;
    (void)pthread_mutex_unlock(&watch->lock);
    if (!sure)
        service_on_doubt(service, name, length);
    return sure;
}

uint64_t service_seen(struct service *s, const char *name, size_t length)
{
    (void)pthread_mutex_lock(&s->watch->lock);
    const struct watched *w = find_locked(s->watch, name, length);
    uint64_t seen = w == NULL ? 0 : w->seen;
    (void)pthread_mutex_unlock(&s->watch->lock);
    return seen;
}

bool service_was_seen(void *service, const char *name, size_t length)
{
    return service_seen(service, name, length) != 0;
}

void service_on_lost(void *service, const char *name, size_t length, const struct lost_shard *lost)
{
    struct watch *watch = ((struct service *)service)->watch;
    (void)pthread_mutex_lock(&watch->lock);
    struct watched *w = find_locked(watch, name, length);
    if (w != NULL) {
        w->look_for_lost = true;
        w->lost = *lost;
    }
    (void)pthread_mutex_unlock(&watch->lock);
    log_warn("data_lost",
             "filter=%s generation=%" PRIu64 " epoch=%" PRIu64
             " note=\"shard data missing in Redis; no key is reported absent\"",
             log_quote(name), lost->generation, lost->epoch);
    keeper_wake(service);
}

void service_on_suspect(void *service, const char *name, size_t length)
{
    struct watch *watch = ((struct service *)service)->watch;
    (void)pthread_mutex_lock(&watch->lock);
    const struct watched *w = find_locked(watch, name, length);
    bool known = w != NULL && w->note.suspects[0] != '\0';
    (void)pthread_mutex_unlock(&watch->lock);
    if (!known)
        keeper_wake(service);
}
