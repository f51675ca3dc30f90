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
#include "base/clock.h"
#include "shard/request/log_filter_internal.h"
#include "shard/resident/block_read.h"
#include "shard/view/log_view.h"

enum {
    AFTER_DEADLINE_MS = 1000 /* block reads have so much more time: the request's own deadline ends them */
};

/* The request's keys of one lane. */
struct lane_part {
    struct key_request *request;
    struct lane_request asked;
    unsigned first, count; /* in the request's hashes */
    bool is_under_way;
};

/* --- the end --- */

static void release(struct key_request *q)
{
    block_read_end(q->blocks);
    q->blocks = NULL;
    free(q->eras);
    q->eras = NULL;
    if (q->reserved > 0) {
        atomic_fetch_sub(&q->filter->adding, 1);
        if (held_give_back(q->held, q->reserved))
            log_filter_changed(q->filter);
    }
    q->reserved = 0;
    held_drop(q->held);
    q->held = NULL;
    pool_give(&q->port->rooms, q->hashes);
    q->hashes = NULL;
}

static void tell(struct key_request *q)
{
    TAILQ_REMOVE(&q->port->active, q, active);
    release(q);
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
    else if (text != q->text) /* bind_to_filter() may have set it */
        (void)snprintf(q->text, sizeof(q->text), "%s", text);
    if (q->port->inside) {
        q->state = REQUEST_OVER;
        request_port_hand(q->port, q, q->port);
    } else {
        tell(q);
    }
}

static bool stop_waiting(struct key_request *q)
{
    bool waited = q->waits_for_room;
    q->waits_for_room = false;
    if (waited)
        atomic_fetch_sub(&q->filter->waiting, 1);
    return waited;
}

/* Acknowledgements asked of the lanes' nodes; it outlives a request that no longer waits. */
struct key_acks {
    struct key_request *request; /* NULL: it no longer waits */
    unsigned under_way;
    bool lacks; /* an acknowledgement was not given */
};

static void leave_acks(struct key_request *q)
{
    if (q->acks != NULL)
        q->acks->request = NULL;
    else
        TAILQ_REMOVE(&q->port->unacked, q, parked);
    q->acks = NULL;
}

static void leave(struct key_request *q)
{
    if (q->state == REQUEST_UNACKED)
        leave_acks(q);
    if (q->state == REQUEST_SLOWED)
        TAILQ_REMOVE(&q->port->slowed, q, parked);
    if (q->state == REQUEST_ASKING)
        for (unsigned i = 0; i < q->parts_count; i++)
            if (q->parts[i].is_under_way)
                lane_cancel(&q->parts[i].asked);
    log_filter_unpark(q->filter, q);
    if (stop_waiting(q))
        log_filter_changed(q->filter); /* adds that wait behind it go on */
}

/* --- binding --- */

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

enum binding { BINDING_DONE, BINDING_WAITS, BINDING_SLOWED, BINDING_OVER };

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
    (void)stop_waiting(q);
    if (q->reserved > 0)
        atomic_fetch_add(&q->filter->adding, 1);
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
    if (full >= SHARE_WHOLE && !atomic_exchange(&f->wants_fold, true))
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
    q->was_degraded = f->degraded;
    q->degradations = f->degradations;
    *seed = f->seed;
    *lanes = f->lanes;
    return BINDING_DONE;
}

static enum binding bind_to_filter(struct key_request *q)
{
    uint64_t seed = 0;
    unsigned lanes = 0;
    release(q);
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
        q->state = REQUEST_READY;
        request_port_hand(q->port, q, q->port);
    }
}

static void go_on_with(struct key_request *q);

/* One of the awaited replies has come. */
static void count_down(struct key_request *q)
{
    if (--q->under_way == 0) {
        q->state = REQUEST_GOING;
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
        leave(q);
        release(q);
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
    q->eras = malloc(sizeof(*q->eras));
    if (q->eras == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    (void)pthread_rwlock_rdlock(&f->lock);
    source.view = q->held->view;
    source.writer = q->held->writer;
    *q->eras = q->held->eras;
    if (f->doubted)
        q->eras->count = 0;
    (void)pthread_rwlock_unlock(&f->lock);
    source.eras = q->eras;
    uint64_t now = clock_mono_us();
    unsigned left_ms = q->deadline > now ? (unsigned)((q->deadline - now) / 1000) : 0;
    enum err code = block_read_start(&q->blocks, &source, p->base, p->async, left_ms + AFTER_DEADLINE_MS,
                                     q->hashes, q->part, on_blocks, q, e);
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

bool key_request_awaits_lane(const struct key_request *q, unsigned *where)
{
    for (unsigned i = 0; q->state == REQUEST_ASKING && i < q->parts_count; i++)
        if (q->parts[i].is_under_way) {
            *where = q->parts[i].asked.where;
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
                     q->found + part->first, on_told, part);
        else
            lane_ask(p->lanes, reader, &part->asked, on_told, part);
    }
}

/* --- acknowledgements --- */

static void go_on_with_next_part(struct key_request *q);

static void end_acks(struct key_acks *a)
{
    struct key_request *q = a->request;
    bool lacks = a->lacks;
    free(a);
    if (q == NULL)
        return;
    q->acks = NULL;
    if (lacks)
        TAILQ_INSERT_TAIL(&q->port->unacked, q, parked);
    else
        go_on_with_next_part(q);
}

static void on_acked(void *arg, enum ack_outcome outcome, const char *why)
{
    struct key_acks *a = arg;
    struct key_request *q = a->request;
    a->lacks |= outcome != ACK_GIVEN;
    if (q != NULL && (outcome == ACK_SHORT || outcome == ACK_REFUSED)) {
        q->code = outcome == ACK_SHORT ? ERR_TIMEOUT : ERR_REFUSED;
        (void)snprintf(q->text, sizeof(q->text), "%s", why);
    }
    if (--a->under_way == 0)
        end_acks(a);
}

/* The keys that this process met in a lane are in every lane that its reader is moved to. So ask the lane as
 * it is now. */
static void ask_lane_acks(struct key_request *q, struct key_acks *a, unsigned i)
{
    struct lane lane;
    if (lane_reader_lane(q->filter->lane[i].reader, &lane) &&
        async_client_await_acks(q->port->async, lane.where, lane.key.text, lane.key.length, lane.era,
                                &q->terms.need, on_acked, a))
        a->under_way++;
    else
        a->lacks = true;
}

void key_request_ask_acks(struct key_request *q)
{
    struct key_acks *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        TAILQ_INSERT_TAIL(&q->port->unacked, q, parked);
        return;
    }
    q->acks = a;
    a->request = q;
    for (unsigned i = 0; i < q->parts_count; i++)
        if (q->parts[i].count > 0)
            ask_lane_acks(q, a, i);
    if (a->under_way == 0)
        end_acks(a);
}

/* Also for a key that was present before: whoever added it may not have waited for acknowledgements. */
static void begin_acks(struct key_request *q)
{
    q->state = REQUEST_UNACKED;
    q->code = ERR_OK;
    q->text[0] = '\0';
    key_request_ask_acks(q);
}

/* The keys of this part are answered. */
static void end_part(struct key_request *q)
{
    if (q->adds && ack_wanted(&q->terms.need))
        begin_acks(q);
    else
        go_on_with_next_part(q);
}

static void go_on_with_next_part(struct key_request *q)
{
    q->state = REQUEST_GOING;
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
        else /* RESIDENT_UNSURE, LANE_FRESH_UNKNOWN, or new by a generation that may not know */
            *answer = q->before[i] == RESIDENT_PRESENT ? KEY_OLD : KEY_UNSURE;
    }
    end_part(q);
}

static void answer_check(struct key_request *q, bool degraded)
{
    const uint8_t present = !q->adds ? KEY_PRESENT : q->held->doubtful ? KEY_NO_ROOM : KEY_OLD;
    const uint8_t absent = q->adds ? KEY_NO_ROOM : degraded ? KEY_MAYBE : KEY_ABSENT;
    for (unsigned i = 0; i < q->left; i++)
        q->answers[q->from + q->order[i]] = q->found[i] == RESIDENT_PRESENT ? present : absent;
    end_part(q);
}

/* A check fails: answer keys by memory, and by the blocks that have come; also absent ones, if the lanes were
 * read. */
static void answer_in_part(struct key_request *q)
{
    unsigned lane;
    bool degraded = false, lacks = true;
    forget_others(q);
    if (q->state != REQUEST_ASKING)
        return;
    if (!key_request_awaits_lane(q, &lane)) {
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
    q->state = REQUEST_ASKING;
    q->is_sent = true;
    memcpy(q->before, q->found, q->part);
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
    q->state = REQUEST_ASKING;
    q->was_delayed |= blocks || q->part < q->count;
    if (!q->adds)
        note_found(q);
    if (blocks)
        code = ask_blocks(q, &e);
    if (code == ERR_FENCED) { /* the view has changed since the request was bound */
        release(q);
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
    q->state = REQUEST_GOING;
    q->under_way = 0;
    q->is_sent = false;
    switch (bind_to_filter(q)) {
    case BINDING_OVER:
        (void)stop_waiting(q); /* no request can be bound any more */
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
    struct sight s = look(q);
    if (!q->adds && s.missing == 0) /* an add also needs a tail read in which the lane had its era */
        return true;
    begin_to_ask(q, s.unknown > 0 && !q->is_blind);
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
        release(q);
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
