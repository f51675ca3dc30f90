/* SPDX-License-Identifier: MIT */
/* Shards that are missing in Redis (shard/members/lost.h). */
#include "shard/control/control_internal.h"

#include <string.h>
#include "base/clock.h"
#include "shard/members/lost.h"

enum { LOOK_AGAIN_US = 1000 * 1000 };

uint64_t control_wait_us(const struct control *c)
{
    return (LOOK_RARELY + 1) * c->look_interval_us;
}

/* What the view says is lost of the current generation; NULL: nothing. After a cutover this process may
 * answer from the former generation until it has the current one in memory, which it never has while a shard
 * is lost. */
static const struct log_lost *lost_of(const struct control *c)
{
    const struct log_generation *g = &c->view->slot[c->view->current];
    bool is_held = control_held_of(c, c->view->current) != NULL;
    return is_held && g->lost.generation == g->shape.number ? &g->lost : NULL;
}

/* Say in the view which shard was missed since the last call. */
static enum err tell(struct control *c, struct error *e)
{
    struct log_lost lost;
    if (!log_filter_take_lost(c->filter, &lost))
        return ERR_OK;
    enum err code = lost_say(c->redis, &c->filter->names, &lost, e);
    if (code == ERR_FENCED) /* of a generation that the view has dropped */
        return ERR_OK;
    return code == ERR_OK ? control_load_view(c, e) : code;
}

enum err control_make_missing(struct control *c, struct held *h, const struct log_lost *named, bool again,
                              struct fold *fold, uint64_t *missing, struct error *e)
{
    struct lost_work w = {.fold = fold,
                          .resident = h->resident,
                          .tend = control_tend_writing,
                          .join = again ? control_join : NULL,
                          .arg = c,
                          .named = named};
    control_stop_folding(c); /* its token is no longer the latest one */
    fold_init(fold, c->redis, &c->filter->names, h->shape.number);
    enum err code = fold_place(fold, &h->shape, e);
    if (code == ERR_OK)
        code = fold_draw(fold, generation_next_token(&h->shape), e);
    if (code == ERR_OK)
        code = control_read_tails(c, e);
    if (code == ERR_OK)
        code = lost_make(&w, e);
    *missing = w.missing;
    c->has_shards = code == ERR_OK && !w.lacks;
    c->lost_count = w.missing;
    c->lost_named = w.left_count;
    memcpy(c->lost_shard, w.left, sizeof(c->lost_shard));
    return code;
}

static bool is_same(const struct log_lost *a, const struct log_lost *b)
{
    return a->generation == b->generation && a->layer == b->layer && a->shard == b->shard &&
           a->since_ms == b->since_ms;
}

/* This process cannot make all lost shards again. Say so only after processes that are not registered had
 * time to make them. */
static enum err lack(struct control *c, uint64_t now, struct error *e)
{
    c->lacks_shards = now >= c->lost_since + control_wait_us(c);
    if (!c->lacks_shards)
        c->lost_again = c->lost_since + control_wait_us(c);
    return c->lacks_shards
               ? lost_lack(c->redis, &c->filter->names, &c->lost, c->filter->writer, c->has_shards, e)
               : ERR_OK;
}

static enum err mend(struct control *c, uint64_t now, struct error *e)
{
    SCOPED(fold_fini) struct fold fold = {0};
    uint64_t missing = 0;
    struct held *h = c->filter->slot[c->view->current];
    enum err code = control_make_missing(c, h, &c->lost, false, &fold, &missing, e);
    if (code == ERR_OK && missing == 0)
        code = lost_end(&fold, &c->lost, e);
    return code == ERR_OK && missing > 0 ? lack(c, now, e) : code;
}

/* *@lacks: this process has said that it cannot make the lost shards again, and that is still so. */
static enum err still_lacks(struct control *c, bool *lacks, struct error *e)
{
    SCOPED(fold_fini) struct fold fold = {0};
    struct held *h = c->filter->slot[c->view->current];
    *lacks = c->lacks_shards;
    if (!*lacks || !c->has_shards)
        return ERR_OK;
    fold_init(&fold, c->redis, &c->filter->names, h->shape.number);
    struct lost_work w = {.fold = &fold};
    enum err code = fold_place(&fold, &h->shape, e);
    return code == ERR_OK ? lost_are_taken(&w, c->lost_shard, c->lost_named, lacks, e) : code;
}

enum err control_mend_shards(struct control *c, struct error *e)
{
    uint64_t now = clock_mono_us();
    enum err code = tell(c, e);
    const struct log_lost *lost = code == ERR_OK ? lost_of(c) : NULL;
    if (lost == NULL || !is_same(lost, &c->lost)) {
        c->lost = lost == NULL ? (struct log_lost){0} : *lost;
        c->lost_since = now;
        c->lacks_shards = false;
        c->lost_count = 0;
    } else if (now < c->lost_again) {
        return ERR_OK;
    }
    if (lost == NULL)
        return code;
    c->lost_again = now + LOOK_AGAIN_US;
    bool lacks;
    code = still_lacks(c, &lacks, e);
    if (code == ERR_OK)
        code = lacks ? lack(c, now, e) : mend(c, now, e);
    if (code == ERR_FENCED) /* another process handles it */
        code = ERR_OK;
    return code == ERR_OK ? control_load_view(c, e) : code;
}

bool control_waits_for_shards(const struct control *c)
{
    uint64_t now = clock_mono_us();
    bool is_lost = lost_of(c) != NULL;
    if (is_lost && now >= c->lost_again)
        log_filter_look(c->filter);
    return is_lost && now < c->lost_since + control_wait_us(c);
}
