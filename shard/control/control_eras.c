/* SPDX-License-Identifier: MIT */
/* Shards' nodes with replication ids that the view does not accept: each writer writes what it has in memory
 * (eras.h). Also after the view went back. */
#include "shard/control/control_internal.h"

#include <string.h>
#include "base/clock.h"
#include "shard/redis/nodes/cluster.h"
#include "shard/resident/dirty.h"

/* The waits for registered writers, in graces, if this process is none: long enough for them to be put in
 * doubt, and for who has all shards in memory to come first. */
enum { ALL_GRACES = 2, PARTLY_GRACES = 4 };

enum err control_take_over(struct control *c, struct held *h, struct error *e)
{
    unsigned slot = h->shape.number % 2;
    enum err code = control_begin_folding(c, slot, h, e);
    if (code == ERR_OK)
        code = folder_take_over(&c->folding[slot].folder, e);
    log_filter_look(c->filter);
    return code == ERR_OK
               ? error_set(e, ERR_BUSY, "shards had later tokens than the view, and were taken over")
               : code;
}

/* Mark all shards that are whole. */
static void mark_all(const struct held *h)
{
    for (unsigned layer = 0; layer < h->shape.layer_count; layer++)
        for (uint32_t s = 0; s < h->resident->layer[layer]->geometry.shards; s++)
            if (bitmap_stamp(h->resident->layer[layer], s) != 0)
                dirty_mark_all(h->resident->layer[layer], s);
}

/* Write all shards from memory. @again: their nodes may have lost bits, and all writers do this, also for
 * shards that must be loaded again; those are loaded once the view has taken the nodes' ids. A damaged shard
 * that was met is made again. If somebody else's key lies where a shard was, ERR_OK with c->meets_foreign:
 * the shards were not all written. Without @again that is an error: positions must not be taken for stored.
 */
static enum err write_all(struct control *c, struct held *h, bool again, struct error *e)
{
    uint64_t missing;
    struct fold fold;
    struct log_lost lost;
    bool met = again && log_filter_take_lost(c->filter, &lost);
    sync_client_pin(c->redis); /* the fold asks who got what is written before it, too */
    enum err code = control_make_missing(c, h, met ? &lost : NULL, again, &fold, &missing, e);
    fold_fini(&fold);
    c->meets_foreign = again && code == ERR_OK && c->lost_named > 0;
    if (code == ERR_FENCED && c->went_back) {
        code = control_take_over(c, h, e);
    } else if (code == ERR_OK && !c->meets_foreign) {
        mark_all(h);
        code = control_fold(c, e); /* takes over from itself: what it had written may be gone */
    }
    sync_client_unpin(c->redis);
    return code;
}

/* The writer that left last, by the view. */
static struct log_left last_left(const struct control *c)
{
    return c->view->left_count > 0 ? c->view->left[0] : (struct log_left){.registration = 0};
}

/* True if the memory of @h has all that former writers had added, up to @last. */
static bool knows_left(const struct control *c, const struct held *h, const struct log_left *last)
{
    bool known = last->registration == 0;
    for (unsigned i = 0; i < c->left_count && !known; i++)
        known = c->left[i].registration == last->registration &&
                memcmp(c->left[i].id, last->id, LOG_WRITER_BYTES) == 0;
    return known && c->knows_left == h->shape.number;
}

/* Once the view was loaded, and its lanes are the ones that are read, begin a tail read: after it memory has
 * all that former writers had added. If something is trimmed meanwhile, the shards are loaded again. Model:
 * known of left.pml. */
void control_know_left(struct control *c)
{
    struct error ignored = {""};
    struct log_left last = last_left(c);
    const struct held *h = control_held_of(c, c->view->current);
    if (h == NULL || knows_left(c, h, &last) || control_missing_shards(h) > 0 ||
        !control_lanes_are_as_read(c))
        return;
    enum err code = control_read_tails(c, &ignored);
    if (code == ERR_OK && control_lanes_are_as_read(c) && control_missing_shards(h) == 0) {
        c->knows_left = h->shape.number;
        c->left_count = c->view->left_count;
        memcpy(c->left, c->view->left, sizeof(c->left));
    }
}

/* True if a lane's tail cannot be read: the view lacks the layer that begins there, and gets it once it has
 * taken the nodes' replication ids. */
static bool some_lane_waits(const struct control *c)
{
    bool waits = false;
    for (unsigned i = 0; i < c->filter->lanes; i++)
        waits |= atomic_load(&c->filter->lane[i].stalled) == TAIL_LAYER;
    return waits;
}

/* True if all shards are whole in memory, or were until they had to be loaded again. */
static bool had_all(const struct held *h)
{
    for (unsigned layer = 0; layer < h->shape.layer_count; layer++)
        for (uint32_t s = 0; s < h->resident->layer[layer]->geometry.shards; s++)
            if (bitmap_state(h->resident->layer[layer], s) < BITMAP_RELOADING)
                return false;
    return true;
}

/* True if all that must be written is in memory. @h may be NULL: nothing is. */
static bool has_all(const struct control *c, const struct held *h)
{
    return h != NULL && had_all(h) && !some_lane_waits(c);
}

/* Write, and say so, once: a writer that wrote again would take over from the others, which then could not
 * finish. For the same reason they write one after the other: the holder of the folder's lease writes. A
 * process that knows more now than when it wrote writes again. If the view went back, what this process has
 * said may be older than what was lost. */
static enum err write_and_say(struct control *c, struct error *e)
{
    struct log_filter *f = c->filter;
    struct held *h = control_held_of(c, c->view->current);
    struct eras_written what = {.all = has_all(c, h) && !c->meets_foreign, .left = last_left(c)};
    bool said = false;
    enum err code = ERR_OK;
    what.knows_left = what.all && knows_left(c, h, &what.left);
    if (!c->writes_again)
        code = eras_has_said(&c->eras, c->redis, &f->names, c->view, f->writer, &what, &said, e);
    if (code == ERR_OK && !said && what.all) {
        code = lease_take(&c->lease, &c->report, e);
        if (code == ERR_OK)
            code = write_all(c, h, true, e);
        if (c->meets_foreign) /* without that shard nobody has written all */
            what.all = what.knows_left = false;
    }
    if (code == ERR_OK && !said) {
        code = eras_say(&c->eras, c->redis, &f->names, c->view, f->writer, &what, e);
        c->writes_again &= code != ERR_OK;
    }
    lease_give_back(&c->lease);
    c->wrote_all = code == ERR_OK && what.all;
    if (c->wrote_all) /* all get from the shards what only its memory had */
        h->doubtful = h->stale = false;
    return code;
}

/* Others have yet to write, or are gone; the latter are removed once their removals are folded. A process
 * that has written all that it has in memory may fold: the shards have every entry that it has applied. Then
 * it is another one's turn. A shard that was lost since is written again; if it cannot be, this process has
 * not written all, and nobody waits for those that are gone. */
static enum err fold_while_waiting(struct control *c, struct error *e)
{
    enum err code = control_fold_if_due(c, e);
    c->writes_again |= fold_is_lost(code);
    lease_give_back(&c->lease);
    return code;
}

/* No writer is registered, and bits may be missing: a process that has everything in memory registers, as if
 * it wanted to add; others wait for it. */
static enum err wait_for_writer(struct control *c, struct error *e)
{
    const struct held *h = control_held_of(c, c->view->current);
    struct log_left last = last_left(c);
    bool may_write = has_all(c, h) && knows_left(c, h, &last);
    if (!may_write && clock_mono_us() >= c->eras_since + control_wait_us(c))
        return ERR_OK;
    if (may_write)
        atomic_store(&c->filter->wants_writer, true);
    return error_set(e, ERR_BUSY,
                     "shards' nodes have other replication ids, and no writer is registered: waiting for a "
                     "process that has all shards in memory");
}

/* Writers are awaited, and this process is none. If all of them are gone, nobody would write, or say
 * anything: then this process registers, as if it wanted to add. */
static void stand_in(struct control *c)
{
    bool may_write = has_all(c, control_held_of(c, c->view->current));
    unsigned graces = may_write ? ALL_GRACES : PARTLY_GRACES;
    if (!c->filter->registered && clock_mono_us() >= c->eras_since + graces * c->writer_grace_us)
        atomic_store(&c->filter->wants_writer, true);
}

/* As long as that: stand_in(). */
bool control_waits_to_register(struct control *c)
{
    struct error ignored;
    enum eras_action action;
    uint64_t since = c->eras_since, now = clock_mono_us();
    if (has_all(c, control_held_of(c, c->view->current)) ||
        (since != 0 && now >= since + PARTLY_GRACES * c->writer_grace_us))
        return false;
    return control_look_at_masters(c, &action, &ignored) == ERR_OK && action == ERAS_WRITE;
}

/* Only the view went back: the lanes may have been trimmed past its positions, so store positions again. Do
 * not wait for another process's turn here: one that does not know of this may be folding all the time. */
static enum err store_again(struct control *c, struct error *e)
{
    struct held *h = control_held_of(c, c->view->current);
    bool writes = c->filter->registered && has_all(c, h), full = false, more = true;
    enum err code = ERR_OK;
    while (writes && more && !full && code == ERR_OK) {
        code = control_load_some(c, h, &full, &more, e);
        if (code == ERR_OK)
            code = control_tend_writing(c, e);
    }
    if (code == ERR_FENCED)
        return control_take_over(c, h, e);
    if (code == ERR_OK && writes)
        code = write_all(c, h, false, e);
    c->went_back &= code != ERR_OK;
    c->writes_again &= code != ERR_OK;
    return code;
}

uint64_t control_eras_sum(const struct log_view *v)
{
    uint64_t sum = v->eras.count;
    for (unsigned i = 0; i < v->eras.count; i++)
        sum ^= v->eras.id[i];
    return sum;
}

/* True if the view accepts the nodes' ids, and did not when this process looked last: all registered writers
 * have written since, or the filter was degraded. */
static bool is_over(const struct control *c, enum eras_action action)
{
    return action == ERAS_KEEP && control_eras_sum(c->view) != c->back_eras;
}

uint32_t control_moves(const struct control *c)
{
    const struct cluster *cluster = sync_client_nodes(c->redis)->cluster;
    return cluster == NULL ? 0 : cluster_moves(cluster);
}

enum err control_look_at_masters(struct control *c, enum eras_action *out, struct error *e)
{
    struct log_filter *f = c->filter;
    uint32_t moves = c->ahead.has_moves ? c->ahead.moves : control_moves(c);
    c->ahead.has_moves = false;
    enum err code = eras_look(&c->eras, c->redis, &f->names, c->view, out, e);
    if (code != ERR_OK || *out != ERAS_KEEP || f->moves == moves)
        return code;
    (void)pthread_rwlock_wrlock(&f->lock);
    f->moves = moves;
    (void)pthread_rwlock_unlock(&f->lock);
    log_filter_changed(f);
    return ERR_OK;
}

/* The nodes have all that the view promises. A full generation whose memory may have more is held anew: an
 * add only looks there, and what it finds must be known to all. */
static void forget_doubtful(struct control *c)
{
    struct held *h = control_held_of(c, c->view->current);
    if (h != NULL && h->fixed && h->doubtful)
        atomic_store(&h->replaced, true);
}

enum err control_follow_eras(struct control *c, struct error *e)
{
    struct log_filter *f = c->filter;
    enum eras_action action;
    unsigned missing = 0;
    c->wrote_all = false;
    enum err code = control_look_at_masters(c, &action, e);
    if (code == ERR_OK)
        control_watch_lanes(c);
    if (c->went_back && code == ERR_OK && is_over(c, action))
        c->went_back = c->writes_again = false;
    if (c->went_back && code == ERR_OK && action != ERAS_WRITE) {
        bool was_accepted;
        code = eras_doubt_home(&c->eras, c->redis, &f->names, c->view, &was_accepted, e);
        if (code == ERR_OK && was_accepted)
            return error_set(e, ERR_BUSY, "the metadata node went back: all writers write its shards again");
    }
    if (c->went_back && code == ERR_OK && action == ERAS_KEEP) {
        code = store_again(c, e);
        /* A shard is lost, or a foreign key lies there: what mends that comes behind this in a look, and
         * requests do not wait for it. The next look stores positions again. */
        return fold_is_lost(code) ? ERR_OK : code;
    }
    if (c->went_back && code == ERR_OK) {
        action = ERAS_WRITE;
        c->back_eras = control_eras_sum(c->view);
    }
    if (code == ERR_OK && action == ERAS_KEEP) {
        c->eras_since = 0;
        c->meets_foreign = false;
        forget_doubtful(c);
    }
    if (code != ERR_OK || action == ERAS_KEEP)
        return code;
    if (c->eras_since == 0)
        c->eras_since = clock_mono_us();
    if (action == ERAS_WRITE && f->registered) {
        bool left;
        code = eras_leave(&c->eras, c->redis, &f->names, c->view, &left, e);
        if (code == ERR_OK && left)
            code = control_read_view(c, e);
        if (code == ERR_OK)
            code = write_and_say(c, e);
    }
    if (code == ERR_OK && action == ERAS_WRITE && c->view->writer_count == 0)
        code = wait_for_writer(c, e);
    if (code == ERR_OK)
        code = eras_take(&c->eras, c->redis, &f->names, c->view, action, &missing, e);
    if (code == ERR_OK && missing > 0) {
        c->waits = WAITS_FOR_SHARDS;
        stand_in(c);
        code = control_read_tails(c, e); /* lanes that are in another era come first */
        if (code == ERR_OK && c->wrote_all)
            code = fold_while_waiting(c, e);
    }
    if (code == ERR_OK && missing > 0)
        return error_set(e, ERR_BUSY,
                         "shards' nodes have other replication ids, and %u writers have not answered",
                         missing);
    c->went_back &= code != ERR_OK;
    c->writes_again &= code != ERR_OK;
    return code == ERR_OK ? control_read_view(c, e) : code;
}
