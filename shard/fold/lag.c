/* SPDX-License-Identifier: MIT */
#include "shard/fold/lag.h"

#include <string.h>

void lag_begin(struct lag *l, struct lag_count now)
{
    l->folded = now;
    l->marks = 0;
}

/* Make room: drop the mark that is closest to its neighbours, but never the last one. */
static void thin(struct lag *l)
{
    unsigned closest = 0;
    uint64_t least = UINT64_MAX, before = l->folded.entries;
    for (unsigned i = 0; i + 1 < l->marks; i++) {
        uint64_t gap = l->mark[i + 1].count.entries - before;
        before = l->mark[i].count.entries;
        if (gap < least) {
            least = gap;
            closest = i;
        }
    }
    l->marks--;
    memmove(l->mark + closest, l->mark + closest + 1, (l->marks - closest) * sizeof(l->mark[0]));
}

void lag_note(struct lag *l, struct log_id id, struct lag_count now)
{
    struct lag_mark *last = l->marks > 0 ? &l->mark[l->marks - 1] : NULL;
    if (last != NULL && log_id_compare(id, last->id) <= 0) {
        if (log_id_compare(id, last->id) == 0)
            last->count = now;
        return;
    }
    if (l->marks == LAG_MARKS)
        thin(l);
    l->mark[l->marks++] = (struct lag_mark){.id = id, .count = now};
}

void lag_folded(struct lag *l, struct log_id id)
{
    unsigned passed = 0;
    while (passed < l->marks && log_id_compare(l->mark[passed].id, id) <= 0)
        l->folded = l->mark[passed++].count;
    l->marks -= passed;
    memmove(l->mark, l->mark + passed, l->marks * sizeof(l->mark[0]));
}

struct lag_count lag_unfolded(const struct lag *l, struct lag_count now)
{
    return (struct lag_count){.entries = now.entries - l->folded.entries,
                              .bytes = now.bytes - l->folded.bytes};
}
