/* SPDX-License-Identifier: MIT */
/* The happy path is: the request is bound to the filter (it keeps the generation; the keys are hashed, and
 * ordered by lane). A check looks up, asks the lanes of the keys that it did not find, and looks up again. An
 * add sends its keys to their lanes, and learns which were new. Blocks of shards that are not in memory are
 * read first, or beside the lanes, and stay pinned until the end. Possible failure modes are: the filter is
 * not open, or a shard is not what the view says, or the process is not registered as a writer (the request
 * parks until the control tells of a change); a shard is lost that nobody has in memory (the filter is
 * degraded: keys that are not in memory are "maybe", and are added without knowing whether they are new);
 * another generation answers, or there is another view, once all was read (the request begins again, if
 * nothing was sent); a lane returns an error (the request ends with it); replicas or disks do not acknowledge
 * keys (they are asked again); the deadline passes. */
#include "shard/request/key_request.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shard/request/key_request_internal.h"
#include "shard/resident/block_read.h"
#include "shard/view/log_view.h"

/* --- the end --- */

static void tell(struct key_request *q)
{
    TAILQ_REMOVE(&q->port->active, q, active);
    key_request_release(q);
    q->done(q->arg, q->code, q->text);
}

/* A check fails: only keys that were found at once keep their answers. */
static void forget_others(struct key_request *q)
{
    for (unsigned i = 0; i < q->count; i++)
        if (q->answers[i] != KEY_PRESENT)
            q->answers[i] = KEY_NO_ANSWER;
}

/* Inside the call that begins a request its callback is only queued. */
static void end(struct key_request *q, enum err code, const char *text)
{
    q->code = code;
    if (code != ERR_OK && !q->adds)
        forget_others(q);
    if (code == ERR_OK)
        q->text[0] = '\0';
    else if (text != q->text) /* key_request_bind() may have set it */
        (void)snprintf(q->text, sizeof(q->text), "%s", text);
    if (q->port->inside) {
        key_request_set(q, REQUEST_OVER);
        request_port_hand(q->port, q, q->port);
    } else {
        tell(q);
    }
}

static void leave(struct key_request *q)
{
    if (q->state == REQUEST_UNACKED)
        key_request_leave_acks(q);
    if (q->state == REQUEST_SLOWED)
        TAILQ_REMOVE(&q->port->slowed, q, parked);
    if (q->state == REQUEST_ASKING)
        for (unsigned i = 0; i < q->parts_count; i++)
            if (q->parts[i].is_under_way)
                lane_cancel(&q->parts[i].asked);
    log_filter_unpark(q->filter, q);
    if (key_request_stop_waiting(q))
        log_filter_changed(q->filter); /* adds that wait behind it go on */
}

/* True if its keys are sent to their lanes. */
static bool sends(const struct key_request *q)
{
    return q->adds && !q->only_looks;
}

/* --- looking --- */

/* Of @q->found: the number of keys that are not present, and of those whose shards are not whole in
 * memory. */
struct sight {
    unsigned missing, unknown;
};

static struct sight look(struct key_request *q)
{
    struct sight s = {0};
    q->looked_at = resident_changes(q->held->resident);
    resident_look(q->held->resident, q->hashes, q->left, q->found);
    for (unsigned i = 0; i < q->left; i++) {
        s.missing += q->found[i] != RESIDENT_PRESENT;
        s.unknown += q->found[i] == RESIDENT_UNKNOWN;
    }
    return s;
}

/* Drop the keys that were found; the others move to the front. No branch, as nobody can foretell which keys
 * those are. */
static void leave_found(struct key_request *q)
{
    unsigned left = 0;
    for (unsigned i = 0; i < q->left; i++) {
        bool is_left = q->found[i] != RESIDENT_PRESENT;
        q->hashes[left] = q->hashes[i];
        q->order[left] = q->order[i];
        q->found[left] = q->found[i];
        left += is_left;
    }
    q->left = left;
}

/* Answer the keys that were found at once, whatever happens to the others. */
static void note_found(struct key_request *q)
{
    for (unsigned i = 0; i < q->left; i++)
        if (q->found[i] == RESIDENT_PRESENT)
            q->answers[q->from + q->order[i]] = KEY_PRESENT;
}

/* Look again for keys that were not found. If nothing was applied since the last look, the result is the
 * same. */
static struct sight look_again(struct key_request *q)
{
    leave_found(q);
    if (q->blocks == NULL && resident_changes(q->held->resident) == q->looked_at)
        return (struct sight){.missing = q->left};
    return look(q);
}

static bool is_missing_in(const struct key_request *q, const struct lane_part *part)
{
    for (unsigned i = part->first; i < part->first + part->count; i++)
        if (q->found[i] != RESIDENT_PRESENT)
            return true;
    return false;
}

/* --- waiting --- */

/* Park until something changes after the request was bound. */
static void park(struct key_request *q)
{
    q->was_delayed = true;
    if (!log_filter_park(q->filter, q, q->changes)) {
        key_request_set(q, REQUEST_READY);
        request_port_hand(q->port, q, q->port);
    }
}

static void go_on_with(struct key_request *q);

/* One of the awaited replies has come. */
static void count_down(struct key_request *q)
{
    if (--q->under_way == 0) {
        key_request_set(q, REQUEST_GOING);
        go_on_with(q);
    }
}

/* --- blocks --- */

static bool is_degraded(struct log_filter *f)
{
    (void)pthread_rwlock_rdlock(&f->lock);
    bool degraded = f->degraded;
    (void)pthread_rwlock_unlock(&f->lock);
    return degraded;
}

/* The block's shard is lost. True: the filter is degraded, so the request goes on without the block. */
static bool does_without(struct key_request *q, const struct block_result *result)
{
    log_filter_lost(q->filter, &(struct log_lost){.generation = q->held->shape.number,
                                                  .layer = result->at.layer,
                                                  .shard = result->at.shard});
    if (!is_degraded(q->filter))
        return false;
    q->is_blind = true;
    leave(q);
    key_request_go_on(q);
    return true;
}

static void on_blocks(void *arg, const struct block_result *result)
{
    struct key_request *q = arg;
    if (result->code == ERR_OK) {
        count_down(q);
    } else if (fold_is_lost(result->code) && does_without(q, result)) {
        return;
    } else if (result->code == ERR_LOST ||
               result->code == ERR_FENCED) { /* wait for the control; keep the text */
        (void)snprintf(q->text, sizeof(q->text), "%s", result->text);
        if (result->later != 0)
            atomic_store(&q->filter->later, result->later);
        leave(q);
        key_request_release(q);
        log_filter_look(q->filter);
        park(q);
    } else {
        key_request_fail(q, result->code, result->text);
    }
}

/* Only unknown keys have blocks to read. */
static enum err ask_blocks(struct key_request *q, struct error *e)
{
    struct log_filter *f = q->filter;
    struct request_port *p = q->port;
    struct block_source source = {.resident = q->held->resident,
                                  .names = &f->names,
                                  .placement = &q->held->placement,
                                  .generation = q->held->shape.number,
                                  .layers = q->held->shape.layers};
    (void)pthread_rwlock_rdlock(&f->lock);
    source.view = q->held->view;
    source.writer = q->held->writer;
    q->eras = trusted_copy(q->held->eras);
    source.moves = f->moves;
    (void)pthread_rwlock_unlock(&f->lock);
    if (q->eras == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    source.eras = q->eras;
    enum err code =
        block_read_start(&q->blocks, &source, p->base, p->async, q->hashes, q->part, on_blocks, q, e);
    if (code == ERR_OK)
        q->under_way++;
    return code;
}

/* --- lanes --- */

static void on_told(void *arg, const struct lane_result *result)
{
    struct lane_part *part = arg;
    struct key_request *q = part->request;
    part->is_under_way = false;
    if (result->code == ERR_OK)
        count_down(q);
    else
        key_request_fail(q, result->code, result->text);
}

bool key_request_awaits_lane(const struct key_request *q, unsigned *where, bool *is_read)
{
    struct lane unused;
    for (unsigned i = 0; q->state == REQUEST_ASKING && i < q->parts_count; i++)
        if (q->parts[i].is_under_way) {
            *where = q->parts[i].asked.where;
            *is_read = lane_reader_lane(q->filter->lane[i].reader, &unused);
            return true;
        }
    return false;
}

static void ask_lanes(struct key_request *q)
{
    struct request_port *p = q->port;
    for (unsigned i = 0; i < q->parts_count; i++) {
        struct lane_part *part = &q->parts[i];
        struct lane_reader *reader = q->filter->lane[i].reader;
        if (q->adds ? part->count == 0 : !is_missing_in(q, part))
            continue;
        part->is_under_way = true;
        q->under_way++;
        if (sends(q))
            lane_add(p->lanes, reader, &part->asked, q->hashes + part->first, part->count,
                     q->found + part->first, q->term, on_told, part);
        else
            lane_ask(p->lanes, reader, &part->asked, on_told, part);
    }
}

/* The keys of this part are answered. */
static void acknowledge(struct key_request *q)
{
    if (q->adds && ack_wanted(&q->terms.need))
        key_request_begin_acks(q);
    else
        key_request_end_part(q);
}

void key_request_end_part(struct key_request *q)
{
    key_request_set(q, REQUEST_GOING);
    q->from += q->part;
    q->is_blind = false;
    if (q->from == q->count)
        end(q, ERR_OK, "");
    else
        key_request_go_on(q);
}

/* The state of the filter now, for a request that was bound to it. */
struct standing {
    bool held; /* entries were applied to the generation that it looks into, until now */
    bool degraded;
    bool lacked; /* the filter may have lacked keys at some time since the request was bound */
};

static struct standing standing(const struct key_request *q)
{
    struct log_filter *f = q->filter;
    (void)pthread_rwlock_rdlock(&f->lock);
    struct standing s = {.held = f->state == FILTER_OPEN && (f->slot[0] == q->held || f->slot[1] == q->held),
                         .degraded = f->degraded,
                         .lacked = q->was_degraded || q->degradations != f->degradations};
    (void)pthread_rwlock_unlock(&f->lock);
    return s;
}

/* If the generation was dropped meanwhile, the next one has said what is new: but it may have been loaded
 * with these very keys. If the filter lacks keys, a key that is missing may have been added before. A key
 * that was present before it was sent is old in any case. */
static void answer_add(struct key_request *q)
{
    struct standing now = standing(q);
    for (unsigned i = 0; i < q->part; i++) {
        uint8_t *answer = &q->answers[q->from + q->order[i]];
        if (q->found[i] == RESIDENT_NEW && !now.lacked)
            *answer = KEY_ADDED;
        else if (q->found[i] == RESIDENT_OLD && now.held)
            *answer = KEY_OLD;
        else if (q->found[i] == RESIDENT_REFUSED)
            *answer = KEY_NO_ROOM;
        else /* LANE_FRESH_THERE, RESIDENT_UNSURE, LANE_FRESH_UNKNOWN, or new by a generation that may not
                know */
            *answer = q->before[i] == RESIDENT_PRESENT ? KEY_OLD : KEY_UNSURE;
    }
    acknowledge(q);
}

static void answer_check(struct key_request *q, bool degraded)
{
    const uint8_t present = !q->adds ? KEY_PRESENT : q->held->doubtful ? KEY_NO_ROOM : KEY_OLD;
    const uint8_t absent = q->adds ? KEY_NO_ROOM : degraded ? KEY_MAYBE : KEY_ABSENT;
    for (unsigned i = 0; i < q->left; i++)
        q->answers[q->from + q->order[i]] = q->found[i] == RESIDENT_PRESENT ? present : absent;
    acknowledge(q);
}

/* False: a lane has not answered yet, or could not be read. */
static bool lanes_were_read(const struct key_request *q)
{
    bool were = true;
    for (unsigned i = 0; i < q->parts_count; i++)
        were &= !q->parts[i].is_under_way && q->parts[i].asked.code == ERR_OK;
    return were;
}

/* A check fails: answer keys by memory, and by the blocks that have come; also absent ones, if the lanes were
 * read. */
static void answer_in_part(struct key_request *q)
{
    bool degraded = false, lacks = true;
    forget_others(q);
    if (q->state != REQUEST_ASKING)
        return;
    if (lanes_were_read(q)) {
        (void)look(q);
        struct standing now = standing(q);
        degraded = now.degraded;
        lacks = !now.held;
    }
    for (unsigned i = 0; i < q->left; i++)
        if (q->found[i] == RESIDENT_PRESENT)
            q->answers[q->order[i]] = KEY_PRESENT;
        else if (q->found[i] == RESIDENT_ABSENT && !lacks)
            q->answers[q->order[i]] = degraded ? KEY_MAYBE : KEY_ABSENT;
}

void key_request_fail(struct key_request *q, enum err code, const char *text)
{
    if (!q->adds)
        answer_in_part(q);
    leave(q);
    q->code = code;
    (void)snprintf(q->text, sizeof(q->text), "%s", text);
    tell(q);
}

static void send_keys(struct key_request *q)
{
    key_request_set(q, REQUEST_ASKING);
    q->is_sent = true;
    memcpy(q->before, q->found, q->part);
    for (unsigned i = 0; i < q->part; i++)
        q->found[i] = q->found[i] == RESIDENT_PRESENT ? LANE_FRESH_THERE : 0;
    ask_lanes(q);
}

/* All awaited replies have come. An add whose blocks were read sends its keys; an add that was sent is
 * answered. A check looks again, and begins again if that does not tell. */
static void go_on_with(struct key_request *q)
{
    if (q->is_sent) {
        answer_add(q);
        return;
    }
    struct sight s = q->adds ? look(q) : look_again(q);
    struct standing now = standing(q);
    if (q->is_blind && !now.degraded) { /* it was healed, or its loss was accepted: Redis counts again */
        q->is_blind = now.held = false;
    }
    if (!now.held || (s.unknown > 0 && !q->is_blind))
        key_request_go_on(q);
    else if (sends(q))
        send_keys(q);
    else
        answer_check(q, now.degraded);
}

/* --- from the beginning --- */

/* What is new is decided against a base that is older than the entry: so an add reads blocks first. */
static void begin_to_ask(struct key_request *q, bool blocks)
{
    struct error e; /* not cleared: it is large, and seldom needed */
    enum err code = ERR_OK;
    key_request_set(q, REQUEST_ASKING);
    q->was_delayed |= blocks || q->part < q->count;
    if (!q->adds)
        note_found(q);
    if (blocks)
        code = ask_blocks(q, &e);
    if (code == ERR_FENCED) { /* the view has changed since the request was bound */
        key_request_release(q);
        park(q);
    } else if (code != ERR_OK) {
        end(q, code, e.text);
    } else if (!sends(q)) {
        ask_lanes(q);
    } else if (!blocks) {
        send_keys(q);
    }
}

/* True: a check found all keys. */
static bool go(struct key_request *q)
{
    q->changes = atomic_load(&q->filter->changes);
    key_request_set(q, REQUEST_GOING);
    q->under_way = 0;
    q->is_sent = false;
    switch (key_request_bind(q)) {
    case BINDING_OVER:
        (void)key_request_stop_waiting(q); /* no request can be bound any more */
        end(q, q->code, q->text);
        return false;
    case BINDING_WAITS:
        park(q);
        return false;
    case BINDING_SLOWED:
        request_port_slow(q->port, q);
        return false;
    case BINDING_DONE:
        break;
    }
    q->left = q->part;
    /* A look may use a block that another request has pinned. An add pins it, too: it needs the block until
     * its entry is applied. */
    bool pins = sends(q) && blocks_any(q->held->resident->blocks);
    struct sight s = look(q);
    if (!q->adds && s.missing == 0) /* an add also needs a tail read in which the lane had its era */
        return true;
    begin_to_ask(q, (s.unknown > 0 || (pins && s.missing > 0)) && !q->is_blind);
    return false;
}

void key_request_go_on(struct key_request *q)
{
    if (q->state == REQUEST_OVER)
        tell(q);
    else if (go(q))
        answer_check(q, false);
}

static bool begin(struct request_port *p, struct log_filter *f, struct key_request *q,
                  const struct request_key *keys, unsigned count, uint8_t *answers, bool adds,
                  const struct key_terms *terms, key_done_fn *done, void *arg)
{
    assert(count > 0 && count <= KEY_REQUEST_MAX);
    *q = (struct key_request){.filter = f,
                              .keys = keys,
                              .count = count,
                              .answers = answers,
                              .adds = adds,
                              .terms = terms != NULL ? *terms : (struct key_terms){0},
                              .done = done,
                              .arg = arg};
    memset(answers, KEY_NO_ANSWER, count);
    q->looks = atomic_load(&f->looks);
    request_port_begin(p, q);
    p->inside = true;
    bool found = go(q);
    p->inside = false;
    return found;
}

bool key_check(struct request_port *p, struct log_filter *f, struct key_request *q,
               const struct request_key *keys, unsigned count, uint8_t *answers, key_done_fn *done, void *arg)
{
    bool found = begin(p, f, q, keys, count, answers, false, NULL, done, arg);
    if (found) {
        memset(answers, KEY_PRESENT, count);
        TAILQ_REMOVE(&p->active, q, active);
        key_request_release(q);
    }
    return found;
}

void key_add(struct request_port *p, struct log_filter *f, struct key_request *q,
             const struct request_key *keys, unsigned count, uint8_t *answers, const struct key_terms *terms,
             key_done_fn *done, void *arg)
{
    (void)begin(p, f, q, keys, count, answers, true, terms, done, arg);
}

bool key_request_is_in_order(const struct key_request *q)
{
    return q->is_sent && !q->was_delayed;
}
