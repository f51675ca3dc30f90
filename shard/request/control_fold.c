/* SPDX-License-Identifier: MIT */
#include "shard/request/control_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/clock.h"
#include "shard/log/lane_sync.h"
#include "shard/resident/dirty.h"

enum { MEASURE_US = 1000 * 1000 };

void control_stop_folding(struct control *c)
{
    if (c->folding == NULL)
        return;
    folder_fini(&c->folder);
    held_drop(c->folding);
    c->folding = NULL;
}

/* --- folding --- */

struct tail_wait {
    unsigned under_way;
    enum err code;
    struct error *e;
};

struct tail_asked {
    struct lane_request request;
    struct tail_wait *wait;
    bool is_told;
};

static void on_tail(void *arg, const struct lane_result *result)
{
    struct tail_asked *a = arg;
    struct tail_wait *w = a->wait;
    a->is_told = true;
    w->under_way--;
    if (w->code == ERR_OK && result->code != ERR_OK)
        w->code = error_set(w->e, result->code, "%s", result->text);
}

/* A lane that cannot be read on waits for the control, which is waiting here. */
static bool has_stalled(const struct log_filter *f)
{
    bool stalled = false;
    for (unsigned i = 0; i < f->lanes; i++)
        stalled |= atomic_load(&f->lane[i].stalled) != TAIL_COMPLETE;
    return stalled;
}

enum err control_read_tails(struct control *c, struct error *e)
{
    struct log_filter *f = c->filter;
    struct tail_wait w = {.e = e};
    struct tail_asked *asked = calloc(f->lanes, sizeof(*asked));
    if (asked == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    for (unsigned i = 0; i < f->lanes; i++) {
        asked[i].wait = &w;
        w.under_way++;
        lane_ask(c->port, f->lane[i].reader, &asked[i].request, on_tail, &asked[i]);
    }
    while (w.under_way > 0 && !has_stalled(f))
        (void)event_base_loop(c->base, EVLOOP_ONCE);
    for (unsigned i = 0; i < f->lanes && w.under_way > 0; i++)
        if (!asked[i].is_told) {
            lane_cancel(&asked[i].request);
            w.code = error_set(e, ERR_FENCED, "lane %u is to be read again from another position", i);
        }
    free(asked);
    return w.code;
}

static enum err begin_folding(struct control *c, struct held *h, struct error *e)
{
    if (c->folding == h)
        return ERR_OK;
    control_stop_folding(c);
    enum err code = folder_init(&c->folder, c->link, &c->filter->names, &h->shape, h->resident, e);
    if (code != ERR_OK)
        return code;
    held_keep(h);
    c->folding = h;
    for (unsigned i = 0; i < c->filter->lanes; i++)
        retain_init(&c->retain[i], c->retain_us, log_retain_bytes(c->log_max),
                    atomic_load(&c->filter->lane[i].bytes));
    return ERR_OK;
}

/* The shards are whole in memory, or were until they were to be loaded again. */
static bool had_all(const struct held *h)
{
    for (unsigned layer = 0; layer < h->shape.layer_count; layer++)
        for (uint32_t s = 0; s < h->resident->layer[layer]->geometry.shards; s++)
            if (bitmap_state(h->resident->layer[layer], s) < BITMAP_RELOADING)
                return false;
    return true;
}

static void mark_all(const struct held *h)
{
    for (unsigned layer = 0; layer < h->shape.layer_count; layer++)
        for (uint32_t s = 0; s < h->resident->layer[layer]->geometry.shards; s++)
            dirty_mark_all(h->resident->layer[layer], s);
}

/* --- how long the lanes are --- */

/* Adds are refused while a lane has no room; checks go on. */
static void refuse_adds(struct control *c)
{
    struct log_filter *f = c->filter;
    bool full = false;
    for (unsigned i = 0; i < f->lanes; i++)
        full |= log_is_full(c->lane_bytes[i], c->log_max);
    if (full == (f->adds != ERR_OK))
        return;
    (void)pthread_rwlock_wrlock(&f->lock);
    f->adds = full ? ERR_NOMEM : ERR_OK;
    (void)snprintf(f->why_adds, sizeof(f->why_adds),
                   "the filter's log has %" PRIu64
                   " bytes, and is not folded into the shards: nothing is added "
                   "until it is",
                   c->log_max);
    (void)pthread_rwlock_unlock(&f->lock);
    log_filter_changed(f);
}

/* Trim a lane to @keep (NULL: not at all), and see how long it is. */
static enum err trim(struct control *c, unsigned i, const struct log_mark *keep, struct error *e)
{
    struct lane_trimmed trimmed;
    enum err code = lane_trim(c->link, &c->stream[i], keep, &trimmed, e);
    if (code != ERR_OK)
        return code;
    c->lane_bytes[i] = trimmed.bytes;
    if (keep != NULL)
        retain_trimmed(&c->retain[i], keep);
    return ERR_OK;
}

enum err control_measure(struct control *c, struct error *e)
{
    enum err code = ERR_OK;
    uint64_t now = clock_mono_us();
    if (now - c->measured_at < MEASURE_US)
        return ERR_OK;
    c->measured_at = now;
    for (unsigned i = 0; i < c->filter->lanes && code == ERR_OK; i++)
        code = trim(c, i, NULL, e);
    refuse_adds(c);
    return code;
}

/* --- one fold --- */

/* Keep of a lane what is not folded, and what those who lag behind may want. */
static enum err trim_folded(struct control *c, unsigned i, const struct folder_lane *lane, uint64_t bytes,
                            struct error *e)
{
    uint64_t now = clock_mono_us();
    const struct fold_bound *bound =
        log_goes_over_hold(c->lane_bytes[i], c->log_max) ? &lane->over_hold : &lane->needed;
    retain_note(&c->retain[i], now, bytes, &lane->position);
    return trim(c, i, retain_bound(&c->retain[i], now, atomic_load(&c->filter->lane[i].bytes), bound), e);
}

/* Positions, and the bytes up to there, or fewer. */
static void note_positions(struct control *c, struct folder_lane *lanes, uint64_t *bytes)
{
    struct log_filter *f = c->filter;
    for (unsigned i = 0; i < f->lanes; i++) {
        lanes[i].number = c->lane[i].number;
        lanes[i].era = c->lane[i].era;
        bytes[i] = atomic_load(&f->lane[i].bytes);
        lane_reader_position(f->lane[i].reader, &lanes[i].position);
    }
}

static enum err fold_with(struct control *c, struct folder_lane *lanes, struct error *e)
{
    struct log_filter *f = c->filter;
    uint64_t bytes[LOG_LANES_MAX] = {0};
    enum err code = control_read_tails(c, e);
    if (code == ERR_OK)
        code = begin_folding(c, f->slot[f->current], e);
    if (code != ERR_OK)
        return code;
    note_positions(c, lanes, bytes);
    code = folder_fold(&c->folder, lanes, f->lanes, e);
    if (fold_is_lost(code) && c->folder.lost_shard.generation != 0)
        log_filter_lost(f, &c->folder.lost_shard);
    for (unsigned i = 0; i < f->lanes && code == ERR_OK; i++) {
        c->folded_bytes[i] = bytes[i];
        code = trim_folded(c, i, &lanes[i], bytes[i], e);
    }
    c->folded_at = clock_mono_us();
    c->oldest = 0;
    refuse_adds(c);
    return code;
}

enum err control_fold(struct control *c, struct error *e)
{
    struct folder_lane *lanes = calloc(c->filter->lanes, sizeof(*lanes));
    if (lanes == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = fold_with(c, lanes, e);
    free(lanes);
    return code;
}

enum err control_fold_if_due(struct control *c, struct error *e)
{
    struct log_filter *f = c->filter;
    uint64_t now = clock_mono_us();
    struct due_facts facts = {.last = c->folded_at, .log_max = c->log_max, .interval = c->fold_interval_us};
    if (control_waits_for_shards(c))
        return control_measure(c, e);
    enum err code = control_read_tails(c, e);
    for (unsigned i = 0; i < f->lanes; i++)
        facts.unfolded_bytes += atomic_load(&f->lane[i].bytes) - c->folded_bytes[i];
    if (facts.unfolded_bytes > 0 && c->oldest == 0)
        c->oldest = now;
    facts.oldest = c->oldest;
    return code == ERR_OK && fold_due(&facts) <= now ? control_fold(c, e) : code;
}

/* --- shards' nodes in another era --- */

/* Write all shards from memory. What they have is loaded first, though no view accepts their nodes' ids yet.
 */
static enum err write_all(struct control *c, struct held *h, struct error *e)
{
    bool full = false, more = true;
    uint64_t missing;
    struct fold fold;
    enum err code = ERR_OK;
    while (more && !full && code == ERR_OK)
        code = control_load_some(c, h, &c->eras.now, &full, &more, e);
    if (code != ERR_OK)
        return code;
    code = control_make_missing(c, h, NULL, &fold, &missing, e);
    fold_fini(&fold);
    if (code != ERR_OK)
        return code;
    mark_all(h);
    control_stop_folding(c); /* it takes over from itself: what it had written may be gone */
    return control_fold(c, e);
}

/* The shards' nodes have other replication ids than the view accepts (eras.h). What is in memory is written
 * to them, so far as it is. */
enum err control_follow_eras(struct control *c, struct error *e)
{
    struct log_filter *f = c->filter;
    enum eras_action action;
    unsigned missing = 0;
    enum err code = eras_look(&c->eras, c->link, &f->names, c->view, &action, e);
    if (c->went_back && code == ERR_OK)
        action = ERAS_WRITE;
    if (code != ERR_OK || action == ERAS_KEEP)
        return code;
    if (action == ERAS_WRITE && f->registered) {
        struct held *h = f->slot[f->current];
        bool all = had_all(h);
        if (all)
            code = write_all(c, h, e);
        if (code == ERR_OK)
            code = eras_say(&c->eras, c->link, &f->names, c->view, f->writer, all, e);
    }
    if (code == ERR_OK)
        code = eras_take(&c->eras, c->link, &f->names, c->view, action, &missing, e);
    if (code == ERR_OK && missing > 0)
        return error_set(e, ERR_BUSY,
                         "shards' nodes have other replication ids, and %u writers have not answered",
                         missing);
    c->went_back &= code != ERR_OK;
    return code == ERR_OK ? control_load_view(c, e) : code;
}
