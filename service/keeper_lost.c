/* SPDX-License-Identifier: MIT */
/* The keeper's look for shards that are lost: not where the view says, as their tags show. */
#include <inttypes.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/keeper_internal.h"
#include "service/watch.h"
#include "shard/latest.h"

enum {
    LOST_EVERY_US = 30 * 1000 * 1000, /* how often shards are looked at, if nothing else says so; */
    LOST_SHARD_US = 300,              /* but for each of them so long a time lies between two looks */
    RANGES_MAX = 20                   /* that are named */
};

static bool is_due(const struct keeper *k, const struct watched *w, bool told)
{
    const struct generation *g = view_current(&k->view);
    const struct keeper_note *n = &w->note;
    uint64_t rest = generation_shards(g) * LOST_SHARD_US;
    bool other = n->lost_generation != 0 && n->lost_generation != g->number;
    bool over = n->lost_shards > 0 && n->lost_epoch != k->view.epoch;
    return told || other || over || w->lost_at == 0 ||
           clock_mono_us() - w->lost_at >= (rest > LOST_EVERY_US ? rest : LOST_EVERY_US);
}

/* Only one layer's shards are named. */
static enum err count(struct keeper *k, uint64_t *lost, struct buffer *where, struct error *e)
{
    const struct generation *g = view_current(&k->view);
    uint32_t shards = g->layers[0].geometry.shards;
    if (g->layer_count > 1)
        return fence_count_lost(&k->fence, &k->view, g, lost, e);
    uint8_t *is = calloc(shards, 1);
    if (is == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = fence_find_lost(&k->fence, &k->view, g, 0, is, lost, e);
    if (code == ERR_OK)
        unsure_describe(is, shards, RANGES_MAX, where);
    free(is);
    return code;
}

/* What was found lost under view @counted, which may be over by now: only a reload after it tells. */
static bool is_still_the_view(struct keeper *k, const struct view_stamp *counted)
{
    struct error e;
    return fence_load(&k->fence, &k->view, &e) == ERR_OK && k->view.epoch == counted->epoch &&
           k->view.incarnation == counted->incarnation;
}

static void note(struct keeper *k, struct watched *w, uint64_t lost, bool somewhere, struct buffer *where)
{
    w->lost_at = clock_mono_us();
    watch_note_lost(w, &k->view, lost, somewhere, buffer_text(where));
    if (lost > 0)
        log_warn("lost_shards",
                 "filter=%s epoch=%" PRIu64 " phase=%s generation=%" PRIu64 " shards=%" PRIu64 " which=%s",
                 log_quote(w->name), k->view.epoch, phase_row(k->view.phase)->name,
                 view_current(&k->view)->number, lost, log_quote(buffer_text(where)));
}

void keeper_look_for_lost(struct keeper *k, struct watched *w)
{
    struct lost_shard last;
    struct buffer where = {0};
    struct error e;
    uint64_t lost = 0;
    const struct view_stamp counted = view_stamp_of(&k->view);
    bool told = watch_take_lost(w, &last);
    if (!is_due(k, w, told))
        return;
    bool known = !view_unfenced(&k->view) && count(k, &lost, &where, &e) == ERR_OK;
    /* An operation that proved a loss looked at a block in the middle; the count looks at one block a shard.
     * Since then a healing may have found what was only under an older name. */
    bool somewhere = lost == 0 && last.generation == view_current(&k->view)->number &&
                     last.epoch == k->view.epoch && last.trusted_ms == k->view.trusted_ms;
    lost += known && somewhere;
    /* What is not under the view's names may lie under later ones: then the view is what was lost. Of a
     * filter that is being deleted nothing was. That look may load another view. */
    if (lost > 0 && known)
        known = is_still_the_view(k, &counted) && !keeper_look_for_later(k, w, true) &&
                is_still_the_view(k, &counted);
    if (known)
        note(k, w, lost, somewhere, &where);
    else
        watch_give_back_lost(w, told);
    buffer_fini(&where);
}

void keeper_forget_lost(struct watched *w)
{
    struct lost_shard last;
    (void)watch_take_lost(w, &last);
    w->lost_at = 0;
}
