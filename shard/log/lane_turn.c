/* SPDX-License-Identifier: MIT */
/* A turn: takes the requests that have gathered, makes entries of their keys, and ends them. */
#include "shard/log/lane_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

enum { PAUSE_US = 10 * 1000 };

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

struct turn_span lane_turn_span(const struct turn *t, unsigned entry)
{
    unsigned first = entry * LOG_KEYS_MAX, from = t->there_from * LOG_KEYS_MAX;
    unsigned end = entry < t->there_from ? t->keys : from + t->there;
    return (struct turn_span){.first = first,
                              .count = end - first < LOG_KEYS_MAX ? end - first : LOG_KEYS_MAX};
}

static bool is_there(const struct turn *t, const struct lane_request *q, unsigned key)
{
    return q->term != 0 && q->term == t->term && q->fresh[key] == LANE_FRESH_THERE;
}

/* Under the lock: count the requests that fit into the turn, and their keys. */
static unsigned measure(struct lane_reader *r, struct turn *t)
{
    struct lane_request *q;
    unsigned fit = 0;
    t->keys = t->there = 0;
    t->term = 0;
    TAILQ_FOREACH(q, &r->queue, list)
    {
        if (t->keys + t->there + q->count > LANE_REQUEST_KEYS_MAX)
            break;
        t->term = t->term != 0 ? t->term : q->term;
        q->there = 0;
        for (unsigned k = 0; k < q->count; k++)
            q->there += is_there(t, q, k);
        t->there += q->there;
        t->keys += q->count - q->there;
        fit++;
    }
    t->there_from = (t->keys + LOG_KEYS_MAX - 1) / LOG_KEYS_MAX;
    t->entries = t->there_from + (t->there + LOG_KEYS_MAX - 1) / LOG_KEYS_MAX;
    return fit;
}

static void place_keys(struct turn *t, const struct lane_request *q)
{
    unsigned first = q->first, there = q->first_there;
    if (q->there == 0 && q->count > 0)
        memcpy(t->hashes + first, q->keys, q->count * sizeof(*q->keys));
    for (unsigned k = 0; k < q->count && q->there > 0; k++)
        t->hashes[is_there(t, q, k) ? there++ : first++] = q->keys[k];
}

/* Under the lock: move requests from the queue to the turn, as many as fit. False: no memory for the keys. */
static bool take_requests(struct lane_reader *r, struct turn *t, unsigned fit)
{
    unsigned first = 0, there = t->there_from * LOG_KEYS_MAX;
    bool has_room = make_room(t, t->entries * LOG_KEYS_MAX);
    t->has_begun = true;
    t->is_sent = false;
    t->taken = fit;
    for (; fit > 0; fit--) {
        struct lane_request *q = TAILQ_FIRST(&r->queue);
        TAILQ_REMOVE(&r->queue, q, list);
        TAILQ_INSERT_TAIL(&t->requests, q, list);
        q->state = REQUEST_TAKEN;
        q->turn = t;
        q->first = first;
        q->first_there = there;
        if (has_room)
            place_keys(t, q);
        first += q->count - q->there;
        there += q->there;
    }
    return has_room;
}

static bool is_refused(const struct turn *t, unsigned first, unsigned count)
{
    for (unsigned k = first; k < first + count; k++)
        if (t->state[k / LOG_KEYS_MAX] == ENTRY_REFUSED)
            return true;
    return false;
}

/* Under the lock: why an entry with keys of @q was refused; NULL: none was. */
static const struct error *refusal_of(const struct turn *t, const struct lane_request *q)
{
    bool refused = is_refused(t, q->first, q->count - q->there) || is_refused(t, q->first_there, q->there);
    return refused ? &t->why_refused : NULL;
}

static void take_fresh(const struct turn *t, struct lane_request *q)
{
    unsigned first = q->first, there = q->first_there;
    if (q->there == 0)
        memcpy(q->fresh, t->fresh + first, q->count);
    for (unsigned k = 0; k < q->count && q->there > 0; k++)
        q->fresh[k] = t->fresh[is_there(t, q, k) ? there++ : first++];
}

static void end_request(struct lane_reader *r, struct lane_request *q, enum err code, const char *text)
{
    const struct turn *t = q->turn;
    const struct error *refusal = code == ERR_OK ? refusal_of(t, q) : NULL;
    if (code == ERR_OK && refusal == NULL && q->fresh != NULL) {
        if (q->breaks == r->breaks)
            take_fresh(t, q);
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
    const struct lane_requests *const lists[] = {&r->turn->requests, &r->ahead->requests, &r->queue};
    const struct lane_request *q;
    struct lane_port *any = NULL;
    for (unsigned i = 0; i < 3; i++)
        TAILQ_FOREACH(q, lists[i], list)
        {
            if ((q->port == p) == prefers_p)
                return q->port;
            any = any == NULL ? q->port : any;
        }
    return any;
}

/* Under the lock: the turn is over. The turn ahead takes its place, if it has begun. */
static void leave(struct lane_reader *r)
{
    struct turn *t = r->turn;
    t->has_begun = false;
    if (!r->ahead->has_begun)
        return;
    r->turn = r->ahead;
    r->ahead = t;
}

void lane_turn_end(struct lane_reader *r, struct lane_port *p, enum err code, const char *text)
{
    struct turn *t = r->turn;
    struct lane_request *q;
    (void)pthread_mutex_lock(&r->lock);
    while ((q = TAILQ_FIRST(&t->requests)) != NULL) {
        TAILQ_REMOVE(&t->requests, q, list);
        end_request(r, q, code, text);
        lane_port_tell(q->port, q, p);
    }
    leave(r);
    bool is_sent = r->turn->has_begun && r->turn->is_sent;
    /* The thread of @p may run its loop no further, unless one of its own requests waits. */
    struct lane_port *next = is_sent ? p : runner(r, p, true);
    r->busy = is_sent || (next != NULL && !r->stopped);
    if (is_sent)
        lane_round_await(r, p);
    if (r->busy && next != p)
        lane_port_run(next, r, 0, p);
    else if (r->busy && !(is_sent && TAILQ_EMPTY(&r->queue)))
        lane_port_run_soon(p, r); /* so that clients that have just been answered share the turn */
    else
        lane_turn_give_back(t);
    (void)pthread_mutex_unlock(&r->lock);
}

/* Under the lock: take over the owner's move. Entries that were met before must be met again there; keys that
 * were there are appended. */
static void take_move(struct lane_reader *r)
{
    if (!r->moved)
        return;
    r->lane = r->next_lane;
    r->at = r->next_at;
    r->moved = false;
    for (unsigned k = 0; k < 2; k++) {
        struct turn *t = &r->turns[k];
        if (t->round != NULL)
            t->round->redirect = (struct slot_redirect){0};
        for (unsigned i = 0; r->taken != r->breaks && t->has_begun && i < t->entries; i++)
            if (t->state[i] == ENTRY_MET || t->state[i] == ENTRY_THERE)
                t->state[i] = i < t->there_from ? ENTRY_SENT : ENTRY_UNSENT;
    }
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

/* Refuse entries that could not be kept: they are not sent. Those of @before, which has begun if it is
 * another turn, are not kept yet. */
static void refuse_beyond_own(struct lane_reader *r, struct turn *t, const struct turn *before)
{
    unsigned entries = t->entries + (before != t ? before->entries : 0);
    size_t keys = t->keys + t->there + (before != t ? before->keys + before->there : 0);
    if (r->own == NULL || t->entries == 0)
        return;
    t->refused = own_room(r->own, entries, (size_t)entries * LOG_ENTRY_BYTES_MIN + keys * LOG_HASH_BYTES,
                          &t->why_refused);
    if (t->refused != ERR_OK)
        memset(t->state, ENTRY_REFUSED, t->entries);
}

static void begin(struct lane_reader *r, struct turn *t, bool has_room)
{
    t->sequence = r->sequence;
    r->sequence += t->entries;
    t->redirections = 0;
    t->with_length = false;
    memset(t->state, ENTRY_UNSENT, t->there_from);
    memset(t->state + t->there_from, ENTRY_THERE, t->entries - t->there_from);
    refuse_beyond_own(r, t, r->turn);
    if (has_room && t->entries > 0)
        memset(t->fresh, 0, (size_t)t->entries * LOG_KEYS_MAX);
}

bool lane_turn_begin(struct lane_reader *r, struct lane_port *p)
{
    struct turn *t = r->turn;
    (void)pthread_mutex_lock(&r->lock);
    bool has_room = take_requests(r, t, measure(r, t));
    (void)pthread_mutex_unlock(&r->lock);
    begin(r, t, has_room);
    if (!has_room)
        lane_turn_end(r, p, ERR_NOMEM, "out of memory");
    return has_room;
}

/* Under the lock: the loop of @p runs on for as long as one of its own requests waits, so one must be among
 * the first @fit. And a round costs as much as several requests. */
static bool is_worth_a_round(const struct lane_reader *r, unsigned fit, const struct lane_port *p)
{
    const struct lane_request *q = TAILQ_FIRST(&r->queue);
    bool has_own = false;
    for (unsigned i = 0; i < fit; i++, q = TAILQ_NEXT(q, list))
        has_own |= q->port == p;
    return has_own && 2 * fit >= r->turn->taken;
}

bool lane_turn_begin_ahead(struct lane_reader *r, struct lane_port *p)
{
    struct turn *t = r->ahead;
    (void)pthread_mutex_lock(&r->lock);
    unsigned fit = r->stopped || r->moved ? 0 : measure(r, t);
    bool begins = is_worth_a_round(r, fit, p) && make_room(t, t->entries * LOG_KEYS_MAX);
    if (begins)
        (void)take_requests(r, t, fit);
    (void)pthread_mutex_unlock(&r->lock);
    if (begins)
        begin(r, t, true);
    return begins;
}

bool lane_turn_is_waited_for(struct lane_reader *r)
{
    (void)pthread_mutex_lock(&r->lock);
    bool yes = !TAILQ_EMPTY(&r->turn->requests);
    (void)pthread_mutex_unlock(&r->lock);
    return yes;
}

void lane_turn_go_on_later(struct lane_reader *r, const struct lane_port *self)
{
    (void)pthread_mutex_lock(&r->lock);
    if (TAILQ_EMPTY(&r->turn->requests))
        leave(r);
    struct lane_port *next = runner(r, self, false);
    r->busy = next != NULL && !r->stopped;
    if (r->busy)
        lane_port_run(next, r, clock_mono_us() + PAUSE_US, self);
    (void)pthread_mutex_unlock(&r->lock);
}
