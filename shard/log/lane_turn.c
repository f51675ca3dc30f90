/* SPDX-License-Identifier: MIT */
/* A turn: takes the requests that have gathered, makes entries of their keys, and ends them. */
#include "shard/log/lane_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

enum { PAUSE_US = 10 * 1000, ROOM_KEPT = LOG_KEYS_MAX };

void lane_turn_give_back(struct turn *t)
{
    free(t->hashes);
    free(t->fresh);
    t->hashes = NULL;
    t->fresh = NULL;
    t->room = 0;
}

static bool make_room(struct turn *t, unsigned keys)
{
    if (keys <= t->room)
        return true;
    lane_turn_give_back(t);
    t->hashes = malloc(keys * sizeof(*t->hashes));
    t->fresh = malloc(keys);
    if (t->hashes == NULL || t->fresh == NULL) {
        lane_turn_give_back(t);
        return false;
    }
    t->room = keys;
    return true;
}

static unsigned keys_that_fit(const struct lane_reader *r)
{
    const struct lane_request *q;
    unsigned keys = 0;
    TAILQ_FOREACH(q, &r->queue, list)
    {
        if (keys + q->count > LANE_REQUEST_KEYS_MAX)
            break;
        keys += q->count;
    }
    return keys;
}

/* Under the lock: move requests from the queue to the turn, as many as fit. False: no memory for the keys. */
static bool take_requests(struct lane_reader *r)
{
    struct turn *t = &r->turn;
    struct lane_request *q;
    unsigned fit = keys_that_fit(r);
    bool has_room = make_room(t, fit);
    t->keys = 0;
    while ((q = TAILQ_FIRST(&r->queue)) != NULL && t->keys + q->count <= fit) {
        TAILQ_REMOVE(&r->queue, q, list);
        TAILQ_INSERT_TAIL(&t->requests, q, list);
        q->state = REQUEST_TAKEN;
        q->first = t->keys;
        if (has_room && q->count > 0)
            memcpy(t->hashes + q->first, q->keys, q->count * sizeof(*q->keys));
        t->keys += q->count;
    }
    return has_room;
}

/* Under the lock: why an entry with keys of @q was refused; NULL: none was. */
static const struct error *refusal_of(const struct turn *t, const struct lane_request *q)
{
    for (unsigned k = q->first; k < q->first + q->count; k++)
        if (t->state[k / LOG_KEYS_MAX] == ENTRY_REFUSED)
            return &t->why_refused;
    return NULL;
}

static void end_request(struct lane_reader *r, struct lane_request *q, enum err code, const char *text)
{
    const struct turn *t = &r->turn;
    const struct error *refusal = code == ERR_OK ? refusal_of(t, q) : NULL;
    if (code == ERR_OK && refusal == NULL && q->fresh != NULL) {
        if (q->breaks == r->breaks)
            memcpy(q->fresh, t->fresh + q->first, q->count);
        else
            memset(q->fresh, LANE_FRESH_UNKNOWN, q->count);
    }
    q->code = refusal != NULL ? t->refused : code;
    q->text[0] = '\0';
    if (q->code != ERR_OK)
        (void)snprintf(q->text, sizeof(q->text), "%.*s", (int)sizeof(q->text) - 1,
                       refusal != NULL ? refusal->text : text);
    q->state = REQUEST_ENDED;
}

/* Under the lock: the port of a request that waits: @p, or another one than @p, if there is one as
 * @prefers_p says; else any. NULL: none waits. */
static struct lane_port *runner(const struct lane_reader *r, const struct lane_port *p, bool prefers_p)
{
    const struct lane_requests *const lists[] = {&r->turn.requests, &r->queue};
    const struct lane_request *q;
    struct lane_port *any = NULL;
    for (unsigned i = 0; i < 2; i++)
        TAILQ_FOREACH(q, lists[i], list)
        {
            if ((q->port == p) == prefers_p)
                return q->port;
            any = any == NULL ? q->port : any;
        }
    return any;
}

void lane_turn_end(struct lane_reader *r, struct lane_port *p, enum err code, const char *text)
{
    struct lane_request *q;
    (void)pthread_mutex_lock(&r->lock);
    while ((q = TAILQ_FIRST(&r->turn.requests)) != NULL) {
        TAILQ_REMOVE(&r->turn.requests, q, list);
        end_request(r, q, code, text);
        lane_port_tell(q->port, q, p);
    }
    r->in_turn = false;
    /* The thread of @p may run its loop no further, unless one of its own requests waits. */
    struct lane_port *next = runner(r, p, true);
    r->busy = next != NULL && !r->stopped;
    if (r->busy && next == p)
        lane_port_run_soon(p, r); /* so that clients that have just been answered share the turn */
    else if (r->busy)
        lane_port_run(next, r, 0, p);
    else if (r->turn.room > ROOM_KEPT)
        lane_turn_give_back(&r->turn);
    (void)pthread_mutex_unlock(&r->lock);
}

/* Under the lock: take over the owner's move. Entries that were met before must be met again there. */
static void take_move(struct lane_reader *r)
{
    struct turn *t = &r->turn;
    if (!r->moved)
        return;
    r->lane = r->next_lane;
    r->at = r->next_at;
    r->moved = false;
    if (r->round != NULL)
        r->round->redirect = (struct slot_redirect){0};
    for (unsigned i = 0; r->taken != r->breaks && r->in_turn && i < t->entries; i++)
        if (t->state[i] == ENTRY_MET)
            t->state[i] = ENTRY_SENT;
    r->taken = r->breaks;
}

bool lane_turn_may_go_on(struct lane_reader *r)
{
    (void)pthread_mutex_lock(&r->lock);
    bool may = !r->stopped;
    if (may)
        take_move(r);
    else
        r->busy = false;
    (void)pthread_mutex_unlock(&r->lock);
    return may;
}

/* Refuse entries that could not be kept: they are not sent. */
static void refuse_beyond_own(struct lane_reader *r)
{
    struct turn *t = &r->turn;
    if (r->own == NULL || t->entries == 0)
        return;
    t->refused = own_room(r->own, t->entries,
                          (size_t)t->entries * LOG_ENTRY_BYTES_MIN + (size_t)t->keys * LOG_HASH_BYTES,
                          &t->why_refused);
    if (t->refused != ERR_OK)
        memset(t->state, ENTRY_REFUSED, t->entries);
}

bool lane_turn_begin(struct lane_reader *r, struct lane_port *p)
{
    struct turn *t = &r->turn;
    (void)pthread_mutex_lock(&r->lock);
    bool has_room = take_requests(r);
    (void)pthread_mutex_unlock(&r->lock);
    r->in_turn = true;
    t->entries = (t->keys + LOG_KEYS_MAX - 1) / LOG_KEYS_MAX;
    t->sequence = r->sequence;
    r->sequence += t->entries;
    t->redirections = 0;
    t->with_length = false;
    memset(t->state, ENTRY_UNSENT, sizeof(t->state));
    refuse_beyond_own(r);
    if (has_room && t->keys > 0)
        memset(t->fresh, 0, t->keys);
    if (!has_room)
        lane_turn_end(r, p, ERR_NOMEM, "out of memory");
    return has_room;
}

bool lane_turn_is_waited_for(struct lane_reader *r)
{
    (void)pthread_mutex_lock(&r->lock);
    bool yes = !TAILQ_EMPTY(&r->turn.requests);
    (void)pthread_mutex_unlock(&r->lock);
    return yes;
}

void lane_turn_go_on_later(struct lane_reader *r, const struct lane_port *self)
{
    (void)pthread_mutex_lock(&r->lock);
    if (TAILQ_EMPTY(&r->turn.requests))
        r->in_turn = false;
    struct lane_port *next = runner(r, self, false);
    r->busy = next != NULL && !r->stopped;
    if (r->busy)
        lane_port_run(next, r, clock_mono_us() + PAUSE_US, self);
    (void)pthread_mutex_unlock(&r->lock);
}
