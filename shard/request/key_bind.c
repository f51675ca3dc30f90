/* SPDX-License-Identifier: MIT */
/* A request is bound to the filter: it keeps the current generation, an add takes room in it, and the keys
 * are hashed and ordered by lane. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shard/request/key_request_internal.h"
#include "shard/resident/block_read.h"
#include "shard/view/log_view.h"

void key_request_release(struct key_request *q)
{
    block_read_end(q->blocks);
    q->blocks = NULL;
    free(q->eras);
    q->eras = NULL;
    if (q->reserved > 0 && held_give_back(q->held, q->reserved))
        log_filter_changed(q->filter);
    q->reserved = 0;
    held_drop(q->held);
    q->held = NULL;
    pool_give(&q->port->rooms, q->hashes);
    q->hashes = NULL;
}

bool key_request_stop_waiting(struct key_request *q)
{
    bool waited = q->waits_for_room;
    q->waits_for_room = false;
    if (waited)
        atomic_fetch_sub(&q->filter->waiting, 1);
    return waited;
}

/* One piece of memory: hashes, parts, order, what is new, and what was found before. */
static enum err make_room(struct key_request *q, unsigned lanes)
{
    size_t parts = lanes * sizeof(struct lane_part), hashes = q->part * sizeof(struct key_hash);
    size_t order = q->part * sizeof(*q->order);
    char *at = pool_take(&q->port->rooms, hashes + parts + order + 2 * (size_t)q->part);
    if (at == NULL)
        return ERR_NOMEM;
    q->hashes = (struct key_hash *)(void *)at;
    q->parts = (struct lane_part *)(void *)(at + hashes);
    q->order = (unsigned *)(void *)(at + hashes + parts);
    q->found = (uint8_t *)at + hashes + parts + order;
    q->before = q->found + q->part;
    q->parts_count = lanes;
    memset(q->parts, 0, parts);
    return ERR_OK;
}

static unsigned lane_of(const struct key_request *q, struct key_hash h)
{
    return log_lane_of(h, q->parts_count);
}

/* Hash the keys, and order them by lane. */
static void place_keys(struct key_request *q, uint64_t seed)
{
    const struct request_key *keys = q->keys + q->from;
    unsigned first = 0;
    for (unsigned i = 0; i < q->part && q->parts_count > 1;
         i++) /* count them first, then put each behind the beginning of its lane */
        q->parts[lane_of(q, hash_key(seed, keys[i].bytes, keys[i].length))].count++;
    for (unsigned i = 0; i < q->parts_count; i++) {
        q->parts[i].request = q;
        q->parts[i].first = first;
        first += q->parts[i].count;
        q->parts[i].count = 0;
    }
    for (unsigned i = 0; i < q->part; i++) {
        struct key_hash h = hash_key(seed, keys[i].bytes, keys[i].length);
        struct lane_part *part = &q->parts[lane_of(q, h)];
        unsigned at = part->first + part->count++;
        q->hashes[at] = h;
        q->order[at] = i;
    }
}

/* Other adds wait for room. Whoever gives some back from now on tells of it. */
static bool must_queue(const struct key_request *q, struct held *h)
{
    if (q->waits_for_room || atomic_load(&q->filter->waiting) == 0)
        return false;
    h->wanted = true;
    return atomic_load(&q->filter->waiting) > 0;
}

/* An add takes as much room as there is, after the adds that wait for some; a caller's keys take it in order.
 * If a layer could not be added since it began to wait, it takes more than there is. False: no room, until a
 * layer begins, or the lanes are marked as full. */
static bool take_room(struct key_request *q, struct held *h)
{
    q->part = q->count - q->from;
    q->only_looks = q->adds && held_is_full(h);
    unsigned refusals = h->refusals;
    bool beyond = q->waits_for_room && refusals != q->refusals;
    if (q->adds && !q->only_looks)
        q->part = q->reserved = must_queue(q, h) ? 0 : held_reserve(h, q->part, beyond);
    if (q->terms.room == KEY_ROOM_ENDS && q->reserved > 0 && q->part < q->count) {
        if (held_give_back(h, q->reserved))
            log_filter_changed(q->filter);
        q->part = q->reserved = 0;
    }
    if (q->terms.room == KEY_ROOM_LOOKS && q->part == 0) {
        q->only_looks = true;
        q->part = q->count - q->from;
    }
    if (q->part == 0 && q->terms.room == KEY_ROOM_ENDS)
        return false;
    if (q->part == 0) {
        if (!q->waits_for_room) {
            atomic_fetch_add(&q->filter->waiting, 1);
            q->refusals = refusals;
        }
        q->waits_for_room = true;
        return false;
    }
    (void)key_request_stop_waiting(q);
    q->held = h;
    held_keep(h);
    return true;
}

/* Beyond its share of the log the process has adds wait; beyond half of it more and more of them for a tick
 * of their port, so that they come no faster than is folded, and none waits for long. */
static enum binding slow_down(struct key_request *q)
{
    struct log_filter *f = q->filter;
    unsigned full = log_filter_fullness(f);
    if (full >= SHARE_MUCH && !atomic_load(&f->wants_fold) && !atomic_exchange(&f->wants_fold, true))
        f->wake(f->wake_arg);
    if (full >= SHARE_WHOLE &&
        log_filter_fullness(f) >= SHARE_WHOLE) /* the control may have made room before it was told */
        return BINDING_WAITS;
    if (full <= SHARE_WHOLE / 2 || q->was_slowed)
        return BINDING_DONE;
    q->port->slowness += 2 * full - SHARE_WHOLE;
    q->was_slowed = q->port->slowness >= SHARE_WHOLE;
    q->port->slowness %= SHARE_WHOLE;
    return q->was_slowed ? BINDING_SLOWED : BINDING_DONE;
}

static enum binding bind_locked(struct key_request *q, uint64_t *seed, unsigned *lanes)
{
    struct log_filter *f = q->filter;
    q->code = f->state == FILTER_CLOSED ? f->closed : q->adds ? f->adds : ERR_OK;
    if (q->code != ERR_OK) {
        (void)snprintf(q->text, sizeof(q->text), "%s", f->state == FILTER_CLOSED ? f->why : f->why_adds);
        return BINDING_OVER;
    }
    if (f->is_missing && f->missed <= q->looks) {
        log_filter_look(f);
        return BINDING_WAITS;
    }
    if (f->is_missing) {
        q->code = ERR_LOST;
        (void)snprintf(q->text, sizeof(q->text),
                       "the filter lost its view; BF.RESERVE creates it again, empty");
        return BINDING_OVER;
    }
    if (f->state != FILTER_OPEN)
        return BINDING_WAITS;
    if (q->adds && !f->registered) {
        atomic_store(&f->wants_writer, true);
        log_filter_look(f);
        return BINDING_WAITS;
    }
    if (q->adds) {
        enum binding slowed = slow_down(q);
        q->waits_for_fold = slowed != BINDING_DONE;
        if (q->waits_for_fold)
            return slowed;
    }
    if (!take_room(q, f->slot[f->current])) {
        q->code = ERR_FULL;
        (void)snprintf(q->text, sizeof(q->text), "the filter has no room for the keys");
        if (q->terms.room == KEY_ROOM_ENDS)
            return BINDING_OVER;
        f->wake(f->wake_arg);
        return BINDING_WAITS;
    }
    q->term =
        ack_wanted(&q->terms.need) ? 0 : atomic_load(&f->term); /* acks are of what this process sends */
    q->was_degraded = f->degraded;
    q->degradations = f->degradations;
    *seed = f->seed;
    *lanes = f->lanes;
    return BINDING_DONE;
}

enum binding key_request_bind(struct key_request *q)
{
    uint64_t seed = 0;
    unsigned lanes = 0;
    key_request_release(q);
    (void)pthread_rwlock_rdlock(&q->filter->lock);
    enum binding binding = bind_locked(q, &seed, &lanes);
    (void)pthread_rwlock_unlock(&q->filter->lock);
    if (binding != BINDING_DONE)
        return binding;
    if (make_room(q, lanes) != ERR_OK) {
        q->code = ERR_NOMEM;
        (void)snprintf(q->text, sizeof(q->text), "out of memory");
        return BINDING_OVER;
    }
    place_keys(q, seed);
    return BINDING_DONE;
}
