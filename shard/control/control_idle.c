/* SPDX-License-Identifier: MIT */
/* A filter that nobody asks for. The happy path is: what this process has added is folded, and the lease
 * given back; it leaves the register of writers; it rests, and sends nothing; after a longer while its memory
 * is given back; the first request wakes the control, which loads and meets what it missed, as after a pause
 * of the process. Possible failure modes are: a request comes meanwhile (the control does not rest); leaving
 * fails (it is tried again; until then the process is no writer, and an add registers it under another
 * number); what others added is not known to be folded (the view is loaded, and memory leaves then).
 *
 * A process that leaves the register has nothing that a roll call would have to bring back. */
#include "shard/control/control_internal.h"

#include "base/clock.h"
#include "shard/control/idle.h"

enum { LEAVE_AGAIN_US = 100 * 1000 };

static uint64_t resident_bytes(const struct control *c)
{
    struct resident_status s;
    uint64_t bytes = 0;
    for (unsigned slot = 0; slot < 2; slot++)
        if (c->filter->slot[slot] != NULL) {
            resident_status(c->filter->slot[slot]->resident, &s);
            bytes += s.resident_bytes;
        }
    return bytes;
}

bool control_keeps_any(const struct log_filter *f)
{
    bool any = false;
    for (unsigned i = 0; i < f->lanes; i++)
        any |= own_count(f->lane[i].own) > 0;
    return any;
}

static bool is_needed(const struct control *c)
{
    struct log_filter *f = c->filter;
    bool stalled = false;
    for (unsigned i = 0; i < f->lanes; i++)
        stalled |= atomic_load(&f->lane[i].stalled) != TAIL_COMPLETE;
    return f->state != FILTER_OPEN || stalled || f->adds != ERR_OK || atomic_load(&f->wants_look) ||
           atomic_load(&f->adding) > 0 || log_filter_parked(f) > 0 || control_keeps_any(f) ||
           lease_is_held(&c->lease) || (c->folds && c->fold_next != DUE_NEVER) ||
           c->removal.step != REMOVES_NOBODY || c->lost.generation != 0 || c->waits != WAITS_FOR_NOTHING ||
           f->current != c->view->current;
}

/* Three times within the time for which folded entries stay in a lane. */
static uint64_t tail_every(const struct control *c)
{
    return c->retain_us > 0 && c->retain_us / 3 < IDLE_TAIL_US ? c->retain_us / 3 : IDLE_TAIL_US;
}

static enum idle_action decide(const struct control *c, uint64_t *next)
{
    const struct idle_facts facts = {.asked_at = atomic_load(&c->filter->asked_at),
                                     .now = clock_mono_us(),
                                     .rest = c->rest_us,
                                     .resident_idle = c->resident_idle_us,
                                     .resident_bytes = resident_bytes(c),
                                     .dear = c->dear_bytes,
                                     .tailed_at = c->tailed_at,
                                     .tail_every = tail_every(c),
                                     .is_needed = is_needed(c)};
    return idle_decide(&facts, next);
}

bool control_wants_memory(const struct control *c)
{
    uint64_t asked_at = atomic_load(&c->filter->asked_at), now = clock_mono_us();
    return c->resident_idle_us == 0 || now < asked_at + c->resident_idle_us ||
           resident_bytes(c) >= c->dear_bytes;
}

/* --- memory --- */

/* True: no shard of the layer is in memory any more. */
static bool drop_layer(struct resident *r, unsigned layer)
{
    const struct bitmap *b = r->layer[layer];
    bool all = true;
    for (uint32_t s = 0; s < b->geometry.shards; s++) {
        resident_leave_begin(r, layer, s);
        if (bitmap_state(b, s) == BITMAP_LEAVING)
            all &= resident_leave_end(r, layer, s);
    }
    return all;
}

/* What is not known to be folded stays, and from now on also goes to the overlay. */
static bool drop_memory(struct control *c)
{
    bool all = true;
    control_stop_folding(c); /* the next fold takes over first */
    for (unsigned slot = 0; slot < 2; slot++) {
        struct held *h = c->filter->slot[slot];
        for (unsigned l = 0; h != NULL && l < h->shape.layer_count; l++)
            all &= drop_layer(h->resident, l);
    }
    return all;
}

/* --- the register --- */

/* False: an add is under way. */
static bool stop_adding(struct log_filter *f)
{
    (void)pthread_rwlock_wrlock(&f->lock);
    bool may = atomic_load(&f->adding) == 0 && !control_keeps_any(f);
    if (may)
        f->registered = false;
    (void)pthread_rwlock_unlock(&f->lock);
    return may;
}

/* Leave the register of writers. False: this process is still in it. */
static bool leave(struct control *c)
{
    struct error ignored;
    if (c->filter->registered && stop_adding(c->filter))
        c->leaving = true;
    if (c->leaving && !c->filter->registered)
        c->leaving = roll_leave(&c->roll, &ignored) != ERR_OK;
    return !c->leaving && !c->filter->registered;
}

/* --- resting --- */

static void wake(struct control *c)
{
    c->rests = false;
    atomic_store(&c->filter->rests, false);
}

/* Read the lanes of a filter that is expensive to load again. If anything came, the control handles it. */
static bool tail(struct control *c)
{
    struct error ignored;
    uint64_t before = 0, after = 0;
    for (unsigned i = 0; i < c->filter->lanes; i++)
        before += control_count(&c->filter->lane[i]).entries;
    enum err code = control_read_tails(c, &ignored);
    for (unsigned i = 0; i < c->filter->lanes; i++)
        after += control_count(&c->filter->lane[i]).entries;
    c->tailed_at = clock_mono_us();
    return code == ERR_OK && before == after;
}

bool control_rests(struct control *c, uint64_t *next)
{
    bool rests = c->rests && atomic_load(&c->filter->rests);
    enum idle_action action = rests ? decide(c, next) : IDLE_BUSY;
    if (action == IDLE_TAIL && tail(c))
        action = decide(c, next);
    if (action == IDLE_DROP && drop_memory(c))
        action = decide(c, next);
    if (action == IDLE_DROP) /* the view says what is folded */
        atomic_store(&c->filter->wants_look, true);
    if (action != IDLE_REST)
        wake(c);
    return action == IDLE_REST;
}

void control_rest(struct control *c, uint64_t *next)
{
    uint64_t at;
    enum idle_action action = decide(c, &at);
    if (action == IDLE_BUSY) {
        *next = at < *next ? at : *next;
        return;
    }
    if (!leave(c)) {
        uint64_t again = clock_mono_us() + LEAVE_AGAIN_US;
        *next = again < *next ? again : *next;
        return;
    }
    if (c->lease.until != 0) /* it has expired */
        lease_give_back(&c->lease);
    c->rests = true;
    c->known_count = 0; /* writers that leave from now on would be entered again */
    atomic_store(&c->filter->rests, true);
    if (!control_rests(c, &at)) /* a request came meanwhile, or there is more to do */
        at = clock_mono_us() + c->look_interval_us;
    *next = at;
}
