/* SPDX-License-Identifier: MIT */
/* The happy path is a turn of one round: what has gathered leaves as entries, with a tail read and INFO
 * behind them; the replies prove that the read counts and is complete; the entries are applied; the requests
 * end. Meanwhile the turn ahead may have sent its round over the same connection. Its read began where this
 * one did, so it has the same entries again, and then its own. If this turn does not end by its first round,
 * the replies to the turn ahead are dropped: its entries may be in the lane, as if its connection had broken.
 * Whichever turn reads meets the entries of both.
 *
 * Possible failure modes are:
 * - a full reply: one more round
 * - a connection that breaks: a pause, then a round without the entries that may be in the lane; the round
 *   after that sends those which were not met
 * - a lane whose slot has moved: the round again, at its new node
 * - a port that ends: another one makes the round again
 * - keys that were there, in a term that is over: one more round, in which they are appended
 * - entries that Redis refuses: the requests with those keys end with the error
 * - a key that is no lane, or content that is no entry: all requests end with the error, and nothing is
 *   appended until the lane can be read
 * - a gap, a loss, another era, a new connection or an unknown layer: the reader stops, its owner is told and
 *   moves it, and the turn goes on from there */
#include "shard/log/lane_internal.h"

#include <stdlib.h>
#include <string.h>

enum { REDIRECTIONS_MAX = 5 };

void lane_round_free(struct round *o)
{
    if (o == NULL)
        return;
    lane_commands_fini(&o->commands);
    tail_fini(&o->tail);
    free(o);
}

/* --- sending --- */

static void on_reply(void *arg, const redisReply *reply);

/* False: no memory. Keeps the redirection. */
static bool write_round(struct lane_reader *r, struct round *o)
{
    struct turn *t = o->turn;
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    o->next = o->awaited = o->added = 0;
    o->missing = false;
    o->code = ERR_OK;
    o->reader = r;
    tail_clear(&o->tail);
    lane_commands_clear(&o->commands);
    for (unsigned i = 0; i < t->entries; i++) {
        if (t->state[i] != ENTRY_UNSENT || r->is_unreadable)
            continue;
        struct turn_span span = lane_turn_span(t, i);
        size_t length =
            log_entry_encode(bytes, r->writer, t->sequence + i, t->hashes + span.first, span.count);
        lane_commands_add(&o->commands, &r->lane, bytes, length);
        o->entry[o->added++] = (uint8_t)i;
    }
    lane_commands_range(&o->commands, &r->lane, r->at.id, LANE_RANGE_COUNT, t->with_length);
    return !buffer_failed(&o->commands.bytes);
}

/* Sets @t->is_sent. */
static void make_round(struct lane_reader *r, struct turn *t, struct lane_port *p)
{
    if (t->round == NULL)
        t->round = calloc(1, sizeof(*t->round));
    struct round *o = t->round;
    if (o == NULL)
        return;
    o->turn = t;
    if (!write_round(r, o))
        return;
    o->awaited = async_client_send_together(p->async, r->lane.where, &o->redirect, o->commands.count,
                                            o->commands.bytes.data, o->commands.end, on_reply, o);
    t->is_sent = o->awaited > 0;
    for (unsigned i = 0; i < o->added && t->is_sent; i++)
        t->state[o->entry[i]] = ENTRY_SENT;
    o->added = 0;
}

void lane_round_await(struct lane_reader *r, struct lane_port *p)
{
    atomic_store(&r->runner, p);
    TAILQ_INSERT_TAIL(&p->waiting, r, run);
}

static void await_no_more(struct lane_reader *r, struct lane_port *p)
{
    lane_port_forget_soon(p, r);
    TAILQ_REMOVE(&p->waiting, r, run);
    atomic_store(&r->runner, NULL);
}

/* The reader goes on without the round of @t: its last reply frees it, and entries that it sent may be in the
 * lane. */
static void leave_round(struct turn *t)
{
    if (!t->has_begun || !t->is_sent)
        return;
    t->is_sent = false;
    t->round->reader = NULL;
    t->round = NULL;
}

void lane_reader_go_on(struct lane_reader *r, struct lane_port *p)
{
    leave_round(r->ahead);
    if (!lane_turn_may_go_on(r))
        return;
    if (!r->turn->has_begun && !lane_turn_begin(r, p))
        return;
    if (!lane_turn_is_waited_for(r)) {
        lane_turn_end(r, p, ERR_CANCELLED, "");
        return;
    }
    make_round(r, r->turn, p);
    if (r->turn->is_sent)
        lane_round_await(r, p);
    else
        lane_turn_go_on_later(r, p);
}

void lane_reader_go_ahead(struct lane_reader *r, struct lane_port *p)
{
    if (!r->ahead->has_begun && lane_turn_begin_ahead(r, p))
        make_round(r, r->ahead, p);
}

void lane_reader_leave(struct lane_reader *r, struct lane_port *p)
{
    if (atomic_load(&r->runner) == p)
        await_no_more(r, p);
    leave_round(r->turn);
    leave_round(r->ahead);
    lane_turn_go_on_later(r, p);
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
    struct turn *t = o->turn;
    struct error e = {""};
    struct log_id id;
    unsigned i = o->entry[o->added++];
    if (reply->type == REDIS_REPLY_NIL) {
        o->missing = true;
        return;
    }
    enum err code = lane_take_id(&o->reader->lane, reply, &id, &e);
    if (code == ERR_CONFLICT) { /* the lane takes no more entries: replace it as if it were missing */
        o->missing = true;
        return;
    }
    if (reply->type != REDIS_REPLY_ERROR) {
        note(o, code, e.text);
    } else if (code == ERR_UNREACHABLE) { /* the error passes; nothing was executed */
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

/* The turn that meets its own entry for the first time by @record; NULL: none. *@i: its index there. */
static struct turn *own_entry(struct lane_reader *r, const struct tail_record *record, unsigned *i)
{
    if (record->entry.kind != LOG_KEYS || memcmp(record->entry.writer, r->writer, LOG_WRITER_BYTES) != 0)
        return NULL;
    for (unsigned k = 0; k < 2; k++) {
        struct turn *t = &r->turns[k];
        uint64_t at = record->entry.sequence - t->sequence;
        *i = (unsigned)at;
        if (t->has_begun && at < t->entries && t->state[at] != ENTRY_MET)
            return t;
    }
    return NULL;
}

static enum err keep(struct lane_reader *r, const struct tail_record *record, struct error *e)
{
    if (r->own == NULL)
        return ERR_OK;
    return own_met(r->own, &r->lane, record->entry.sequence, record->id, record->bytes, record->length, e);
}

/* Behind a removal of this process's writer no entry that is met is acknowledged, until the writer is
 * registered again. */
static void heed_removal(const struct lane_reader *r, const struct tail_record *record)
{
    if (r->own != NULL && record->entry.kind == LOG_REMOVAL &&
        memcmp(record->entry.writer, r->writer, LOG_WRITER_BYTES) == 0)
        own_remove(r->own, record->entry.sequence);
}

/* *@stalls: TAIL_ERA: the process has entered another era meanwhile, or was removed as a writer, so what is
 * met here does not count. TAIL_LAYER: the owner waits for a view. */
static enum err apply_entries(struct lane_reader *r, enum tail_state *stalls, struct error *e)
{
    struct tail_record record, last = {.bytes = NULL};
    enum err code = ERR_OK;
    while (code == ERR_OK && tail_next(&r->turn->round->tail, &record)) {
        unsigned i;
        heed_removal(r, &record);
        struct turn *t = own_entry(r, &record, &i);
        code = t != NULL ? keep(r, &record, e) : ERR_OK;
        if (code == ERR_FENCED)
            *stalls = TAIL_ERA;
        if (code != ERR_OK)
            break;
        code = r->hooks.apply(r->arg, &record, t != NULL ? t->fresh + (size_t)i * LOG_KEYS_MAX : NULL, e);
        if (code == ERR_FENCED)
            *stalls = TAIL_LAYER;
        if (code != ERR_OK)
            break;
        if (t != NULL)
            t->state[i] = ENTRY_MET;
        last = record;
    }
    if (last.bytes != NULL)
        log_position_set(&r->at, last.id, last.bytes, last.length);
    return code;
}

/* All of the lane was read: keys that were there are kept as if their entries were the last one that was
 * read, or are appended in the next round. */
static enum err take_there(struct lane_reader *r, enum tail_state *stalls, struct error *e)
{
    struct turn *t = r->turn;
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    enum err code = ERR_OK;
    bool is_term = t->there > 0 && r->hooks.is_term != NULL && r->hooks.is_term(r->arg, t->term);
    for (unsigned i = t->there_from; i < t->entries && code == ERR_OK; i++) {
        struct turn_span span = lane_turn_span(t, i);
        if (t->state[i] != ENTRY_THERE)
            continue;
        if (!is_term) {
            t->state[i] = ENTRY_UNSENT;
            continue;
        }
        size_t length =
            log_entry_encode(bytes, r->writer, t->sequence + i, t->hashes + span.first, span.count);
        if (r->own != NULL)
            code = own_there(r->own, &r->lane, t->sequence + i, r->at.id, bytes, length, e);
        if (code == ERR_FENCED)
            *stalls = TAIL_ERA;
        if (code == ERR_OK)
            memset(t->fresh + span.first, LANE_FRESH_THERE, span.count);
        if (code == ERR_OK || code == ERR_BUSY)
            t->state[i] = code == ERR_OK ? ENTRY_MET : ENTRY_UNSENT;
        if (code == ERR_BUSY)
            code = ERR_OK;
    }
    return code;
}

static bool is_superseded(struct lane_reader *r)
{
    (void)pthread_mutex_lock(&r->lock);
    bool yes = r->stopped || r->moved;
    (void)pthread_mutex_unlock(&r->lock);
    return yes;
}

/* The lane cannot be read from here. Tell the owner, unless it stopped or moved the reader meanwhile. The
 * owner can stop or free the reader only when it was told: a late word would be taken for one of a later
 * lane. */
static void stall(struct lane_reader *r, struct lane_port *p, enum tail_state state)
{
    leave_round(r->ahead);
    (void)pthread_mutex_lock(&r->applying);
    (void)pthread_mutex_lock(&r->lock);
    bool superseded = r->stopped || r->moved;
    if (!superseded) {
        r->stopped = true;
        r->busy = false;
    }
    (void)pthread_mutex_unlock(&r->lock);
    if (!superseded)
        r->hooks.stalled(r->arg, state);
    (void)pthread_mutex_unlock(&r->applying);
    if (superseded)
        lane_reader_go_on(r, p);
}

/* Apply what was read; if the reader was stopped or moved meanwhile, make the round again instead. True: the
 * turn continues here. */
static bool apply_all(struct lane_reader *r, struct lane_port *p, bool is_complete)
{
    struct error e = {""};
    enum err code = ERR_OK;
    enum tail_state stalls = TAIL_COMPLETE;
    (void)pthread_mutex_lock(&r->applying);
    bool superseded = is_superseded(r);
    if (!superseded)
        code = apply_entries(r, &stalls, &e);
    if (!superseded && is_complete && code == ERR_OK)
        code = take_there(r, &stalls, &e);
    (void)pthread_mutex_unlock(&r->applying);
    if (superseded)
        lane_reader_go_on(r, p);
    else if (stalls != TAIL_COMPLETE)
        stall(r, p, stalls);
    else if (code != ERR_OK)
        lane_turn_end(r, p, code, e.text);
    return !superseded && code == ERR_OK;
}

/* All of the lane was read: entries that were sent and not met are not in it. True: there are unsent
 * entries. */
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
    enum tail_state state = tail_state(&r->turn->round->tail, &r->lane);
    r->is_unreadable = false;
    if (r->turn->round->missing)
        state = TAIL_LOST;
    switch (state) {
    case TAIL_GAP:
    case TAIL_LOST:
    case TAIL_ERA:
    case TAIL_NEW:
    case TAIL_LAYER:
        stall(r, p, state);
        break;
    case TAIL_EMPTY:
        r->turn->with_length = true;
        lane_reader_go_on(r, p);
        break;
    case TAIL_MORE:
        if (apply_all(r, p, false))
            lane_reader_go_on(r, p);
        break;
    case TAIL_COMPLETE:
        if (!apply_all(r, p, true))
            break;
        if (unmet(r->turn))
            lane_reader_go_on(r, p);
        else
            lane_turn_end(r, p, ERR_OK, "");
        break;
    }
}

static void end_unreadable(struct lane_reader *r, struct lane_port *p)
{
    r->is_unreadable = true;
    lane_turn_end(r, p, r->turn->round->code, r->turn->round->why.text);
}

static bool counts(const struct lane_reader *r)
{
    return r->hooks.counts == NULL || r->hooks.counts(r->arg, r->turn->round->since);
}

static void end_round(struct lane_reader *r)
{
    struct round *o = r->turn->round;
    struct lane_port *p = atomic_load(&r->runner);
    await_no_more(r, p);
    r->turn->is_sent = false;
    if (o->redirect.port != 0 && r->turn->redirections++ < REDIRECTIONS_MAX) {
        lane_reader_go_on(r, p);
        return;
    }
    o->redirect = (struct slot_redirect){0};
    r->turn->redirections = 0;
    if (tail_is_other_era(&o->tail, &r->lane))
        stall(r, p, TAIL_ERA);
    else if (o->awaited < o->commands.count || o->code == ERR_UNREACHABLE)
        lane_reader_leave(r, p);
    else if (!counts(r))
        stall(r, p, TAIL_NEW);
    else if (o->code != ERR_OK)
        end_unreadable(r, p);
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
    if (o->reader != NULL && reply != NULL)
        o->since = async_client_replying_since(o->reader->runner->async);
    if (o->next < o->awaited)
        return;
    if (o->reader != NULL)
        end_round(o->reader);
    else
        lane_round_free(o);
}
