/* SPDX-License-Identifier: MIT */
#include "shard/fold/retain.h"

#include <string.h>

enum { STEPS = RETAIN_MARKS / 2 /* the parts into which the time and the bytes are divided */ };

void retain_init(struct retain *r, uint64_t us, uint64_t bytes, uint64_t bytes_now)
{
    *r = (struct retain){.us = us, .bytes = bytes, .before = bytes_now};
}

/* If trimming has to wait for long, old positions get coarser: drop the one whose neighbours are closest to
 * each other, relative to its age. */
static void drop_one(struct retain *r, uint64_t now)
{
    unsigned least = 1;
    double best = 0;
    for (unsigned i = 1; i + 1 < r->count; i++) {
        double gap = (double)(r->at[i + 1].us - r->at[i - 1].us) / (double)(now - r->at[i].us + 1);
        if (i == 1 || gap < best) {
            best = gap;
            least = i;
        }
    }
    r->count--;
    memmove(&r->at[least], &r->at[least + 1], (r->count - least) * sizeof(r->at[0]));
}

void retain_note(struct retain *r, uint64_t now, uint64_t bytes_now, const struct log_position *p)
{
    const struct retain_at *last = r->count == 0 ? NULL : &r->at[r->count - 1];
    if (last != NULL && log_id_compare(p->id, last->mark.id) <= 0)
        return;
    if (last != NULL && now < last->us + r->us / STEPS && bytes_now < last->bytes + r->bytes / STEPS)
        return;
    if (r->count == RETAIN_MARKS)
        drop_one(r, now);
    r->at[r->count++] = (struct retain_at){.us = now, .bytes = bytes_now, .mark = log_mark_of(p)};
}

bool retain_is_long(uint64_t lane_bytes, uint64_t log_max)
{
    return lane_bytes > log_max / 2;
}

const struct log_mark *retain_bound(const struct retain *r, uint64_t now, uint64_t bytes_now,
                                    const struct fold_bound *bound)
{
    const struct log_mark *best = NULL;
    uint64_t before = r->before;
    for (unsigned i = 0; i < r->count && bound->some; i++) {
        const struct retain_at *a = &r->at[i];
        if (log_id_compare(a->mark.id, bound->id) > 0)
            break;
        if (now >= a->us + r->us || bytes_now > before + r->bytes)
            best = &a->mark;
        before = a->bytes;
    }
    return best;
}

void retain_trimmed(struct retain *r, const struct log_mark *mark)
{
    struct log_id id = mark->id; /* it may lie in @r */
    unsigned gone = 0;
    while (gone < r->count && log_id_compare(r->at[gone].mark.id, id) <= 0)
        r->before = r->at[gone++].bytes;
    memmove(r->at, r->at + gone, (r->count - gone) * sizeof(r->at[0]));
    r->count -= gone;
}
