/* SPDX-License-Identifier: MIT */
/* The happy path is a turn of one round: what has gathered leaves as entries with a tail read and INFO behind
 * them, the replies prove that the read counts and is complete, the entries are applied, the requests are
 * told. Possible failure modes are: a full reply (a round more), a connection that breaks (a pause, and a
 * round without the entries that may be in the lane: those that are not met are sent by the next one), a lane
 * whose slot has moved (the round again, at its new node), a port that goes (another one makes the round
 * again), entries that Redis refuses (the requests whose keys they have are told), no lane at all (all are
 * told), and a gap, a loss or another era: the reader stops, its owner is told and moves it, and the turn
 * goes on from there. */
#include "shard/log/lane_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

enum { PAUSE_US = 10 * 1000, REDIRECTIONS_MAX = 5, ROOM_KEPT = LOG_KEYS_MAX };

/* --- a reader --- */

struct lane_reader *lane_reader_new(const struct lane *lane, const struct log_position *at,
                                    const uint8_t writer[LOG_WRITER_BYTES],
                                    const struct lane_reader_hooks *hooks, void *arg)
{
    struct lane_reader *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return NULL;
    (void)pthread_mutex_init(&r->lock, NULL); /* neither fails without attributes */
    (void)pthread_mutex_init(&r->applying, NULL);
    TAILQ_INIT(&r->queue);
    TAILQ_INIT(&r->turn.requests);
    r->lane = *lane;
    r->at = *at;
    memcpy(r->writer, writer, LOG_WRITER_BYTES);
    r->sequence = 1; /* 0 is that of notices */
    r->hooks = *hooks;
    r->arg = arg;
    return r;
}

void lane_reader_keep(struct lane_reader *r, struct own *own)
{
    r->own = own;
}

static void round_free(struct round *o)
{
    if (o == NULL)
        return;
    lane_commands_fini(&o->commands);
    tail_fini(&o->tail);
    free(o);
}

static void turn_give_back(struct turn *t)
{
    free(t->hashes);
    free(t->fresh);
    t->hashes = NULL;
    t->fresh = NULL;
    t->room = 0;
}

bool lane_reader_free(struct lane_reader *r)
{
    (void)pthread_mutex_lock(&r->lock);
    bool busy = r->busy;
    (void)pthread_mutex_unlock(&r->lock);
    if (busy)
        return false;
    (void)pthread_mutex_destroy(&r->applying);
    (void)pthread_mutex_destroy(&r->lock);
    round_free(r->round);
    turn_give_back(&r->turn);
    free(r);
    return true;
}

static void go_on_from(struct lane_reader *r, const struct lane *lane, const struct log_position *at,
                       bool breaks)
{
    (void)pthread_mutex_lock(&r->lock);
    r->next_lane = *lane;
    r->next_at = *at;
    r->moved = true;
    r->breaks += breaks;
    r->stopped = false;
    r->over = ERR_OK;
    lane_reader_wake(r, NULL);
    (void)pthread_mutex_unlock(&r->lock);
}

void lane_reader_move(struct lane_reader *r, const struct lane *lane, const struct log_position *at)
{
    go_on_from(r, lane, at, true);
}

void lane_reader_go_back(struct lane_reader *r, const struct lane *lane, const struct log_position *at)
{
    go_on_from(r, lane, at, false);
}

void lane_reader_stop(struct lane_reader *r)
{
    (void)pthread_mutex_lock(&r->applying);
    (void)pthread_mutex_lock(&r->lock);
    r->stopped = true;
    (void)pthread_mutex_unlock(&r->lock);
    (void)pthread_mutex_unlock(&r->applying);
}

void lane_reader_wake(struct lane_reader *r, const struct lane_port *self)
{
    const struct lane_request *q = TAILQ_FIRST(&r->turn.requests);
    if (q == NULL)
        q = TAILQ_FIRST(&r->queue);
    if (q == NULL || r->busy || r->stopped)
        return;
    r->busy = true;
    lane_port_run(q->port, r, 0, self);
}

void lane_reader_refuse(struct lane_reader *r, struct lane_request *q)
{
    q->code = r->over;
    (void)snprintf(q->text, sizeof(q->text), "%s", r->why_over);
    q->state = REQUEST_ENDED;
}

static void refuse_all(struct lane_reader *r, struct lane_requests *list)
{
    struct lane_request *q;
    while ((q = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, q, list);
        lane_reader_refuse(r, q);
        lane_port_tell(q->port, q, NULL);
    }
}

void lane_reader_end(struct lane_reader *r, enum err code, const char *text)
{
    (void)pthread_mutex_lock(&r->lock);
    r->stopped = true;
    r->over = code;
    (void)snprintf(r->why_over, sizeof(r->why_over), "%s", text);
    refuse_all(r, &r->turn.requests);
    refuse_all(r, &r->queue);
    (void)pthread_mutex_unlock(&r->lock);
}

void lane_reader_hold(struct lane_reader *r, struct log_position *out)
{
    (void)pthread_mutex_lock(&r->applying);
    (void)pthread_mutex_lock(&r->lock);
    *out = r->moved ? r->next_at : r->at;
    (void)pthread_mutex_unlock(&r->lock);
}

void lane_reader_let_go(struct lane_reader *r)
{
    (void)pthread_mutex_unlock(&r->applying);
}

void lane_reader_position(struct lane_reader *r, struct log_position *out)
{
    lane_reader_hold(r, out);
    lane_reader_let_go(r);
}

/* --- a turn --- */

static bool make_room(struct turn *t, unsigned keys)
{
    if (keys <= t->room)
        return true;
    turn_give_back(t);
    t->hashes = malloc(keys * sizeof(*t->hashes));
    t->fresh = malloc(keys);
    if (t->hashes == NULL || t->fresh == NULL) {
        turn_give_back(t);
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

/* Under the lock: move requests of the queue to the turn, with as many keys as fit. False: no memory for the
 * keys. */
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
    (void)snprintf(q->text, sizeof(q->text), "%.*s", (int)sizeof(q->text) - 1,
                   refusal != NULL ? refusal->text : text);
    q->state = REQUEST_ENDED;
}

/* Under the lock: whose port makes the next turn: @p, if a request of its waits; else its loop may have an
 * end. */
static struct lane_port *next_runner(const struct lane_reader *r, struct lane_port *p)
{
    const struct lane_request *q;
    TAILQ_FOREACH(q, &r->queue, list)
    if (q->port == p)
        return p;
    return TAILQ_FIRST(&r->queue)->port;
}

/* All requests are told; the next turn begins, if somebody waits for it. */
static void end_turn(struct lane_reader *r, struct lane_port *p, enum err code, const char *text)
{
    struct lane_request *q;
    (void)pthread_mutex_lock(&r->lock);
    while ((q = TAILQ_FIRST(&r->turn.requests)) != NULL) {
        TAILQ_REMOVE(&r->turn.requests, q, list);
        end_request(r, q, code, text);
        lane_port_tell(q->port, q, p);
    }
    r->in_turn = false;
    r->busy = !TAILQ_EMPTY(&r->queue) && !r->stopped;
    if (r->busy)
        lane_port_run(next_runner(r, p), r, 0, p);
    else if (r->turn.room > ROOM_KEPT)
        turn_give_back(&r->turn);
    (void)pthread_mutex_unlock(&r->lock);
}

/* Under the lock: go on from where the owner said. What was met before is to be met again there. */
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

/* False: it is to stop, and nobody has it any more. */
static bool may_go_on(struct lane_reader *r)
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

/* Entries that could not be kept are not sent. */
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

/* False: it has ended. */
static bool begin_turn(struct lane_reader *r, struct lane_port *p)
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
        end_turn(r, p, ERR_NOMEM, "out of memory");
    return has_room;
}

static bool is_waited_for(struct lane_reader *r)
{
    (void)pthread_mutex_lock(&r->lock);
    bool yes = !TAILQ_EMPTY(&r->turn.requests);
    (void)pthread_mutex_unlock(&r->lock);
    return yes;
}

/* The port of a request that waits goes on with the turn, after a pause. Nobody waits: the turn is over. */
static void go_on_later(struct lane_reader *r, const struct lane_port *self)
{
    (void)pthread_mutex_lock(&r->lock);
    const struct lane_request *q = TAILQ_FIRST(&r->turn.requests);
    if (q == NULL) {
        r->in_turn = false;
        q = TAILQ_FIRST(&r->queue);
    }
    r->busy = q != NULL && !r->stopped;
    if (r->busy)
        lane_port_run(q->port, r, clock_mono_us() + PAUSE_US, self);
    (void)pthread_mutex_unlock(&r->lock);
}

/* --- a round --- */

static void on_reply(void *arg, const redisReply *reply);

/* False: no memory. What it was redirected to stays. */
static bool write_round(struct lane_reader *r, struct round *o)
{
    struct turn *t = &r->turn;
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    o->next = o->awaited = o->added = 0;
    o->missing = false;
    o->code = ERR_OK;
    o->reader = r;
    tail_clear(&o->tail);
    lane_commands_clear(&o->commands, o->redirect.port != 0 && o->redirect.ask);
    for (unsigned i = 0; i < t->entries; i++) {
        if (t->state[i] != ENTRY_UNSENT)
            continue;
        unsigned first = i * LOG_KEYS_MAX, left = t->keys - first;
        size_t length = log_entry_encode(bytes, r->writer, t->sequence + i, t->hashes + first,
                                         left < LOG_KEYS_MAX ? left : LOG_KEYS_MAX);
        lane_commands_add(&o->commands, &r->lane, bytes, length);
        o->entry[o->added++] = (uint8_t)i;
    }
    lane_commands_tail(&o->commands, &r->lane, r->at.id, t->with_length);
    return !buffer_failed(&o->commands.bytes);
}

static void make_round(struct lane_reader *r, struct lane_port *p)
{
    if (r->round == NULL)
        r->round = calloc(1, sizeof(*r->round));
    struct round *o = r->round;
    if (o == NULL || !write_round(r, o)) {
        go_on_later(r, p);
        return;
    }
    o->awaited = store_send_together(p->store, r->lane.where, &o->redirect, o->commands.count,
                                     o->commands.bytes.data, o->commands.end, on_reply, o);
    if (o->awaited == 0) {
        go_on_later(r, p);
        return;
    }
    for (unsigned i = 0; i < o->added; i++)
        r->turn.state[o->entry[i]] = ENTRY_SENT;
    o->added = 0;
    r->runner = p;
    TAILQ_INSERT_TAIL(&p->waiting, r, run);
}

void lane_reader_go_on(struct lane_reader *r, struct lane_port *p)
{
    if (!may_go_on(r))
        return;
    if (!r->in_turn && !begin_turn(r, p))
        return;
    if (is_waited_for(r))
        make_round(r, p);
    else
        end_turn(r, p, ERR_CANCELLED, "");
}

void lane_reader_leave(struct lane_reader *r, struct lane_port *p, bool is_waiting)
{
    if (is_waiting) {
        r->round->reader = NULL; /* freed by its last reply */
        r->round = NULL;
    }
    go_on_later(r, p);
}

/* --- replies --- */

static void note(struct round *o, enum err code, const char *text)
{
    if (code == ERR_OK || o->code != ERR_OK)
        return;
    o->code = code;
    (void)error_set(&o->why, code, "%s", text);
}

static void take_added(struct round *o, const redisReply *reply)
{
    struct turn *t = &o->reader->turn;
    struct error e = {""};
    struct log_id id;
    unsigned i = o->entry[o->added++];
    if (reply->type == REDIS_REPLY_NIL) {
        o->missing = true;
        return;
    }
    enum err code = lane_take_id(&o->reader->lane, reply, &id, &e);
    if (reply->type != REDIS_REPLY_ERROR) {
        note(o, code, e.text);
    } else if (code == ERR_UNREACHABLE) { /* it passes; nothing was executed */
        t->state[i] = ENTRY_UNSENT;
        note(o, code, e.text);
    } else {
        t->state[i] = ENTRY_REFUSED;
        t->refused = code;
        t->why_refused = e;
    }
}

static void take(struct round *o, enum lane_command kind, const redisReply *reply)
{
    struct lane_reader *r = o->reader;
    struct error e = {""};
    enum err code = ERR_OK;
    switch (kind) {
    case LANE_ASKING:
        break;
    case LANE_ADD:
        take_added(o, reply);
        break;
    case LANE_LENGTH:
        code = tail_take_length(&o->tail, &r->lane, reply, &e);
        break;
    case LANE_RANGE:
        code = tail_take_range(&o->tail, &r->lane, &r->at, reply, &e);
        break;
    case LANE_INFO:
        code = tail_take_info(&o->tail, &r->lane, reply, &e);
        break;
    }
    note(o, code, e.text);
}

/* The entry of this turn that @record is, where it is the first such one; t->entries: none. */
static unsigned own_entry(const struct lane_reader *r, const struct tail_record *record)
{
    const struct turn *t = &r->turn;
    uint64_t i = record->entry.sequence - t->sequence;
    bool is_own = i < t->entries && t->state[i] != ENTRY_MET &&
                  memcmp(record->entry.writer, r->writer, LOG_WRITER_BYTES) == 0;
    return is_own ? (unsigned)i : t->entries;
}

static enum err keep(struct lane_reader *r, const struct tail_record *record, struct error *e)
{
    if (r->own == NULL)
        return ERR_OK;
    return own_met(r->own, &r->lane, record->entry.sequence, record->id, record->bytes, record->length, e);
}

/* *@stalls: TAIL_ERA: the process has entered another era since, so that what is met under this one does not
 * count; TAIL_LAYER: the owner waits for a view. */
static enum err apply_entries(struct lane_reader *r, enum tail_state *stalls, struct error *e)
{
    struct turn *t = &r->turn;
    struct tail_record record, last = {.bytes = NULL};
    enum err code = ERR_OK;
    while (code == ERR_OK && tail_next(&r->round->tail, &record)) {
        unsigned i = own_entry(r, &record);
        code = i < t->entries ? keep(r, &record, e) : ERR_OK;
        if (code == ERR_FENCED)
            *stalls = TAIL_ERA;
        if (code != ERR_OK)
            break;
        code =
            r->hooks.apply(r->arg, &record, i < t->entries ? t->fresh + (size_t)i * LOG_KEYS_MAX : NULL, e);
        if (code == ERR_FENCED)
            *stalls = TAIL_LAYER;
        if (code != ERR_OK)
            break;
        if (i < t->entries)
            t->state[i] = ENTRY_MET;
        last = record;
    }
    if (last.bytes != NULL)
        log_position_set(&r->at, last.id, last.bytes, last.length);
    return code;
}

static bool is_superseded(struct lane_reader *r)
{
    (void)pthread_mutex_lock(&r->lock);
    bool yes = r->stopped || r->moved;
    (void)pthread_mutex_unlock(&r->lock);
    return yes;
}

/* It cannot be read on from here. Who has moved it meanwhile knows that. */
static void stall(struct lane_reader *r, struct lane_port *p, enum tail_state state)
{
    (void)pthread_mutex_lock(&r->lock);
    bool superseded = r->stopped || r->moved;
    if (!superseded) {
        r->stopped = true;
        r->busy = false;
    }
    (void)pthread_mutex_unlock(&r->lock);
    if (superseded)
        lane_reader_go_on(r, p);
    else
        r->hooks.stalled(r->arg, state);
}

/* Apply what was read, unless the reader was to stop or was moved since: then the round is made again.
 * False: the turn goes on without it. */
static bool apply_all(struct lane_reader *r, struct lane_port *p)
{
    struct error e = {""};
    enum err code = ERR_OK;
    enum tail_state stalls = TAIL_COMPLETE;
    (void)pthread_mutex_lock(&r->applying);
    bool superseded = is_superseded(r);
    if (!superseded)
        code = apply_entries(r, &stalls, &e);
    (void)pthread_mutex_unlock(&r->applying);
    if (superseded)
        lane_reader_go_on(r, p);
    else if (stalls != TAIL_COMPLETE)
        stall(r, p, stalls);
    else if (code != ERR_OK)
        end_turn(r, p, code, e.text);
    return !superseded && code == ERR_OK;
}

/* All of the lane was read: entries that may have been in it are not. True: there is one. */
static bool unmet(struct turn *t)
{
    bool any = false;
    for (unsigned i = 0; i < t->entries; i++) {
        if (t->state[i] == ENTRY_SENT)
            t->state[i] = ENTRY_UNSENT;
        any |= t->state[i] == ENTRY_UNSENT;
    }
    return any;
}

static void judge(struct lane_reader *r, struct lane_port *p)
{
    enum tail_state state = tail_state(&r->round->tail, &r->lane);
    if (r->round->missing)
        state = TAIL_LOST;
    switch (state) {
    case TAIL_GAP:
    case TAIL_LOST:
    case TAIL_ERA:
    case TAIL_LAYER:
        stall(r, p, state);
        break;
    case TAIL_EMPTY:
        r->turn.with_length = true;
        lane_reader_go_on(r, p);
        break;
    case TAIL_MORE:
        if (apply_all(r, p))
            lane_reader_go_on(r, p);
        break;
    case TAIL_COMPLETE:
        if (!apply_all(r, p))
            break;
        if (unmet(&r->turn))
            lane_reader_go_on(r, p);
        else
            end_turn(r, p, ERR_OK, "");
        break;
    }
}

static void end_round(struct lane_reader *r)
{
    struct round *o = r->round;
    struct lane_port *p = r->runner;
    TAILQ_REMOVE(&p->waiting, r, run);
    if (o->redirect.port != 0 && r->turn.redirections++ < REDIRECTIONS_MAX) {
        lane_reader_go_on(r, p);
        return;
    }
    o->redirect = (struct slot_redirect){0};
    r->turn.redirections = 0;
    if (tail_is_other_era(&o->tail, &r->lane))
        stall(r, p, TAIL_ERA);
    else if (o->awaited < o->commands.count || o->code == ERR_UNREACHABLE)
        go_on_later(r, p);
    else if (o->code != ERR_OK)
        end_turn(r, p, o->code, o->why.text);
    else
        judge(r, p);
}

static void on_reply(void *arg, const redisReply *reply)
{
    struct round *o = arg;
    unsigned i = o->next++;
    if (o->reader != NULL && reply == NULL)
        note(o, ERR_UNREACHABLE, "the connection broke");
    else if (o->reader != NULL)
        take(o, o->commands.kind[i], reply);
    if (o->next < o->awaited)
        return;
    if (o->reader != NULL)
        end_round(o->reader);
    else
        round_free(o);
}
