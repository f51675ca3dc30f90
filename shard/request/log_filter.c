/* SPDX-License-Identifier: MIT */
#include "shard/request/log_filter_state.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/random.h"

struct log_filter *log_filter_new(const struct names *names, const struct nodes *nodes, struct budget *budget,
                                  log_filter_wake_fn *wake, void *arg)
{
    struct log_filter *f = calloc(1, sizeof(*f));
    if (f == NULL)
        return NULL;
    f->names = *names;
    f->nodes = nodes;
    f->budget = budget;
    f->wake = wake;
    f->wake_arg = arg;
    (void)snprintf(f->why, sizeof(f->why), "the filter is not loaded yet");
    random_id(f->writer);
    for (unsigned i = 0; i < LOG_LANES_MAX; i++) {
        f->lane[i].filter = f;
        f->lane[i].index = i;
        atomic_init(&f->lane[i].stalled, TAIL_COMPLETE);
    }
    TAILQ_INIT(&f->parked);
    (void)pthread_rwlock_init(&f->lock, NULL); /* neither call can fail, as it sets no attributes */
    (void)pthread_mutex_init(&f->parking, NULL);
    return f;
}

bool log_filter_free(struct log_filter *f)
{
    if (f == NULL)
        return true;
    for (unsigned i = 0; i < f->lanes; i++) {
        if (f->lane[i].reader != NULL && !lane_reader_free(f->lane[i].reader))
            return false;
        f->lane[i].reader = NULL;
    }
    for (unsigned i = 0; i < LOG_LANES_MAX; i++)
        own_free(f->lane[i].own);
    held_drop(f->slot[0]);
    held_drop(f->slot[1]);
    (void)pthread_mutex_destroy(&f->parking);
    (void)pthread_rwlock_destroy(&f->lock);
    free(f);
    return true;
}

void log_filter_look(struct log_filter *f)
{
    atomic_store(&f->wants_look, true);
    f->wake(f->wake_arg);
}

/* --- lanes --- */

/* @fresh gets an enum resident_added of each key: from the generation that answers; if that is not sure, from
 * the other one. */
static enum err apply_to_all(struct log_filter *f, const struct held_entry *entry, uint8_t *fresh,
                             struct error *e)
{
    uint8_t added[LOG_KEYS_MAX];
    bool known[LOG_KEYS_MAX] = {false};
    enum err code = ERR_OK;
    for (unsigned i = 0; i < 2 && code == ERR_OK; i++) {
        struct held *h = f->slot[(f->current + i) % 2];
        bool was = true;
        if (h != NULL)
            code = held_apply(h, entry, added, &was, e);
        for (unsigned k = 0; code == ERR_OK && !was && fresh != NULL && k < entry->count; k++) {
            if (!known[k])
                fresh[k] = added[k];
            known[k] |= added[k] != RESIDENT_UNSURE;
        }
    }
    return code;
}

static enum err apply(void *arg, const struct tail_record *record, uint8_t *fresh, struct error *e)
{
    struct filter_lane *lane = arg;
    struct log_filter *f = lane->filter;
    struct held_entry entry;
    held_entry(&entry, lane->index, record);
    (void)pthread_rwlock_rdlock(&f->lock);
    enum err code = apply_to_all(f, &entry, fresh, e);
    if (code == ERR_FENCED) {
        atomic_store(&lane->awaited_of, record->entry.sequence);
        atomic_store(&lane->awaited, record->entry.layer);
    }
    if (code == ERR_OK && entry.count == 0 && record->entry.kind == LOG_KEYS) {
        atomic_fetch_add(&f->notices, 1);
        atomic_store(&f->term, 0);
    }
    if (code == ERR_OK) {
        atomic_fetch_add(&lane->entries, 1);
        atomic_fetch_add(&lane->bytes, record->length);
    }
    (void)pthread_rwlock_unlock(&f->lock);
    if (code == ERR_OK && record->entry.kind != LOG_KEYS)
        log_filter_changed(f);              /* there is more room, or none */
    if (code == ERR_OK && entry.count == 0) /* a notice, or another entry that is about the view */
        log_filter_look(f);
    return code;
}

/* A generation that is being built has no entry from before its S0, which is behind a notice: whoever is in
 * the same term as before is before that. Model: writer of there.pml. */
static bool is_term(void *arg, uint64_t term)
{
    const struct filter_lane *lane = arg;
    return term != 0 && atomic_load(&lane->filter->term) == term;
}

static void on_stalled(void *arg, enum tail_state state)
{
    struct filter_lane *lane = arg;
    struct log_filter *f = lane->filter;
    atomic_store(&lane->stalled, state);
    log_filter_look(f);
}

static bool counts(void *arg, uint64_t since)
{
    const struct filter_lane *lane = arg;
    return atomic_load(&lane->filter->looked) > since;
}

const struct lane_reader_hooks log_filter_hooks = {
    .apply = apply, .counts = counts, .is_term = is_term, .stalled = on_stalled};

/* --- requests that wait --- */

bool log_filter_park(struct log_filter *f, struct key_request *q, uint64_t changes)
{
    (void)pthread_mutex_lock(&f->parking);
    bool same = atomic_load(&f->changes) == changes;
    if (same) {
        key_request_set(q, REQUEST_PARKED);
        TAILQ_INSERT_TAIL(&f->parked, q, parked);
    }
    (void)pthread_mutex_unlock(&f->parking);
    return same;
}

void log_filter_unpark(struct log_filter *f, struct key_request *q)
{
    (void)pthread_mutex_lock(&f->parking);
    if (q->state == REQUEST_PARKED)
        TAILQ_REMOVE(&f->parked, q, parked);
    if (q->state == REQUEST_READY || q->state == REQUEST_OVER)
        worker_queue_remove(&q->port->ready, &q->ready);
    key_request_set(q, REQUEST_GOING);
    (void)pthread_mutex_unlock(&f->parking);
}

void log_filter_changed(struct log_filter *f)
{
    struct key_request *q;
    (void)pthread_mutex_lock(&f->parking);
    atomic_fetch_add(&f->changes, 1);
    while ((q = TAILQ_FIRST(&f->parked)) != NULL) {
        TAILQ_REMOVE(&f->parked, q, parked);
        key_request_set(q, REQUEST_READY);
        request_port_hand(q->port, q, NULL);
    }
    (void)pthread_mutex_unlock(&f->parking);
}

unsigned log_filter_fullness(struct log_filter *f)
{
    uint64_t share = atomic_load(&f->own_share), most = 0;
    for (unsigned i = 0; i < f->lanes && share > 0; i++) {
        uint64_t bytes = f->lane[i].own == NULL ? 0 : own_bytes(f->lane[i].own);
        most = bytes > most ? bytes : most;
    }
    return share == 0 ? 0 : (unsigned)(most * SHARE_WHOLE / share);
}

unsigned log_filter_parked(struct log_filter *f)
{
    const struct key_request *q;
    unsigned n = 0;
    (void)pthread_mutex_lock(&f->parking);
    TAILQ_FOREACH(q, &f->parked, parked)
    n++;
    (void)pthread_mutex_unlock(&f->parking);
    return n;
}

void log_filter_lost(struct log_filter *f, const struct log_lost *lost)
{
    (void)pthread_mutex_lock(&f->parking);
    f->lost = *lost;
    (void)pthread_mutex_unlock(&f->parking);
    atomic_store(&f->wants_look, true);
}

bool log_filter_take_lost(struct log_filter *f, struct log_lost *out)
{
    (void)pthread_mutex_lock(&f->parking);
    *out = f->lost;
    f->lost.generation = 0;
    (void)pthread_mutex_unlock(&f->parking);
    return out->generation != 0;
}

bool log_filter_is_closed(struct log_filter *f)
{
    return atomic_load(&f->is_closed);
}

uint64_t log_filter_incarnation(struct log_filter *f)
{
    (void)pthread_rwlock_rdlock(&f->lock);
    uint64_t incarnation = f->names.incarnation;
    (void)pthread_rwlock_unlock(&f->lock);
    return incarnation;
}

bool log_filter_node(struct log_filter *f, char out[NODE_NAME_MAX])
{
    (void)pthread_rwlock_rdlock(&f->lock);
    const struct held *h = f->slot[f->current];
    bool is_one = h != NULL && h->shape.node_count == 1;
    if (is_one)
        (void)snprintf(out, NODE_NAME_MAX, "%s", h->shape.nodes[0]);
    (void)pthread_rwlock_unlock(&f->lock);
    return is_one;
}

void log_filter_set_degraded(struct log_filter *f, bool degraded)
{
    f->degradations += degraded && !f->degraded;
    f->degraded = degraded;
}

void log_filter_close(struct log_filter *f, enum err code, const char *why)
{
    (void)pthread_rwlock_wrlock(&f->lock);
    bool was_closed = f->state == FILTER_CLOSED; /* the first reason stays */
    if (!was_closed) {
        f->state = FILTER_CLOSED;
        atomic_store(&f->is_closed, true);
        f->closed = code;
        (void)snprintf(f->why, sizeof(f->why), "%s", why);
    }
    (void)pthread_rwlock_unlock(&f->lock);
    if (was_closed)
        return;
    for (unsigned i = 0; i < f->lanes; i++)
        lane_reader_end(f->lane[i].reader, code, why);
    log_filter_changed(f);
}
