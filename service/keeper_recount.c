/* SPDX-License-Identifier: MIT */
/* The keeper's look at counts: a filter grows, or is rebuilt, by how many new keys were counted, and counts
 * can be lost where bits are not: with a coordinator that was killed before Redis had its counts, or with a
 * metadata node that came back with older data. So the counts of all layers are compared with a sample of
 * their bits: at a coordinator's first look, when a master was away or is another one, and in passes over all
 * filters, of which one begins every half minute at most. A round of the keeper counts until its share of
 * time is used up, and the next one goes on from there: a pass may take many rounds, and none of them keeps
 * the keeper long.
 *
 * Possible failure modes are: a coordinator still holds counts that it will send (a count is raised only
 * where two looks in a row found it too small; what comes later counts twice, so the filter grows early,
 * which is safe), shards are lost or the view changes meanwhile (the next look tells), another coordinator
 * does the same (a count is never lowered, so it is raised once). */
#include <inttypes.h>
#include <math.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/keeper_internal.h"
#include "service/watch.h"

enum {
    EVERY_US = 30 * 1000 * 1000,
    SHARE_US = 20 * 1000,       /* of a round; the last count that begins in it ends */
    AGAIN_US = 3 * 1000 * 1000, /* after a count was found too small: who has counts has sent them by then */
    RANGES = 32,                /* of bits in a sample: of a 64 KiB range 1 in 200 keys is chance */
    TIMEOUT_MS = 500
};

/* What an estimate may differ by without a lost count: by more than five times its standard deviation. */
static double margin(uint64_t count)
{
    return 16 + 0.05 * (double)count;
}

uint64_t keeper_masters_sum(const struct keeper *k)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < k->masters.count; i++)
        sum += k->masters.one[i].id;
    return sum;
}

void keeper_recount_begin(struct keeper *k)
{
    uint64_t now = clock_mono_us();
    if (k->count_pass == 0 || (!k->count_waits && now - k->count_pass_at >= EVERY_US)) {
        k->count_pass++;
        k->count_pass_at = now;
    }
    k->count_waits = false;
    k->counted_us = 0;
}

static bool is_due(struct watched *w, uint64_t pass, uint64_t by)
{
    bool other = w->counted_in == 0 || w->counted_by != by;
    if (other)
        w->counts_short = false;
    return other || w->counted_in != pass || (w->count_again_at != 0 && clock_mono_us() >= w->count_again_at);
}

/* *@is_short: the layer has fewer counts than keys. Then they are raised, where @raise says so. */
static enum err compare(struct keeper *k, const struct watched *w, unsigned layer, double keys, bool raise,
                        bool *is_short, struct error *e)
{
    uint64_t count = 0;
    bool raised = false;
    enum err code = fence_items(&k->fence, view_current(&k->view), layer, &count, e);
    *is_short = code == ERR_OK && keys > (double)count + margin(count);
    if (!*is_short || !raise)
        return code;
    uint64_t to = (uint64_t)llround(keys);
    code = fence_raise_count(&k->fence, &k->view, layer, to, &raised, e);
    if (raised)
        log_warn("count_raised",
                 "filter=%s generation=%" PRIu64 " layer=%u from=%" PRIu64 " to=%" PRIu64
                 " note=\"counts of new keys were lost; its bits were counted\"",
                 log_quote(w->name), view_current(&k->view)->number, layer, count, to);
    return code;
}

void keeper_recount(struct keeper *k, struct watched *w)
{
    struct error e;
    double keys[GENERATION_LAYERS_MAX];
    const struct generation *g = view_current(&k->view);
    uint64_t by = k->view.incarnation + keeper_masters_sum(k) + k->outages;
    uint64_t began = clock_mono_us();
    bool any = false;
    if (!is_due(w, k->count_pass, by))
        return;
    if (k->counted_us >= SHARE_US) {
        k->count_waits = true;
        return;
    }
    /* The bits before the counts: a key that is added in between is counted, too. */
    enum err code = fence_count_keys(&k->fence, &k->view, g, RANGES, TIMEOUT_MS, keys, &e);
    for (unsigned i = 0; i < g->layer_count && code == ERR_OK; i++) {
        bool is_short = false;
        code = compare(k, w, i, keys[i], w->counts_short, &is_short, &e);
        any |= is_short;
    }
    if (code == ERR_OK)
        w->counts_short = any && !w->counts_short;
    w->counted_by = by;
    w->counted_in = k->count_pass;
    w->count_again_at = w->counts_short ? clock_mono_us() + AGAIN_US : 0;
    k->counted_us += clock_mono_us() - began;
}
