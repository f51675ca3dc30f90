/* SPDX-License-Identifier: MIT */
#include "shard/reconcile.h"

#include <inttypes.h>
#include "shard/fence_internal.h"
#include "shard/script.h"

/* --- decisions --- */

bool reconcile_knows_less(const struct view *v, const struct reconcile_evidence *found)
{
    return found->top > v->epoch;
}

bool reconcile_is_due(const struct view *v, const struct reconcile_evidence *found)
{
    /* While a fence is under way shards lie under the epoch before: that is no sign. */
    bool scattered = !view_unfenced(v) && found->elsewhere > 0;
    return v->recovery == RECOVERY_DUE || reconcile_knows_less(v, found) || scattered;
}

/* A generation whose shards went on when those of the other stayed behind is the one that outlived it. */
static unsigned survivor(const struct view *v, const struct reconcile_evidence *found)
{
    unsigned other = 1 - v->current;
    bool outlived = view_alternate(v) != NULL && found->top_of[other] > found->top_of[v->current];
    return outlived ? other : v->current;
}

void reconcile_decide(const struct view *v, const struct reconcile_evidence *found, struct view *out)
{
    unsigned keep = survivor(v, found);
    *out = *v;
    out->current = keep;
    out->slot[1 - keep] = (struct generation){0};
    out->slot[keep].opening = false;
    out->slot[keep].built = false;
    out->phase = phase_alone(out->slot[keep].layer_count);
    out->retiring_epoch = 0;
    out->retiring = (struct generation){0};
    out->epoch = (found->top > v->epoch ? found->top : v->epoch) + RECONCILE_EPOCHS;
    if (found->last_generation > out->last_generation)
        out->last_generation = found->last_generation;
    out->last_generation += RECONCILE_GENERATIONS;
    out->recovery = RECOVERY_FENCE;
    unsure_clear(&out->unsure); /* nothing is absent in any shard */
}

/* --- scripts --- */

/* What no change of a view writes: where one is stored it has them. */
static void put_kept_fields(struct fence *f, const struct view *v, const char *trusted)
{
    struct script_call *c = &f->call;
    if (v->trusted.known) {
        script_text(c, "trusted");
        script_text(c, trusted);
        script_text(c, "trusted_ms");
        script_number(c, v->trusted_ms);
    }
    if (v->expire_at_ms != 0) {
        script_text(c, "expire_at");
        script_number(c, v->expire_at_ms);
    }
}

static enum err put_back(struct fence *f, const struct view *v, bool gone, const char *trusted, bool *done,
                         struct error *e)
{
    struct script_call *c = &f->call;
    script_begin(c, embedded_put_back);
    fence_put_key(f, "view");
    fence_put_key(f, "job");
    fence_put_key(f, "token");
    fence_put_key(f, "expansion_flag");
    fence_put_event(f);
    script_incarnation(c, v->incarnation);
    script_number(c, v->epoch);
    script_number(c, RECONCILE_TOKENS);
    script_number(c, gone);
    script_incarnation(c, f->replaced);
    fence_put_view(f, v);
    if (gone)
        put_kept_fields(f, v, trusted);
    long long answer;
    enum err code = script_run(c, f->link, fence_home(f), &answer, e);
    *done = code == ERR_OK && answer == 1;
    return code;
}

enum err fence_put_back(struct fence *f, const struct view *v, bool *done, struct error *e)
{
    return put_back(f, v, false, "", done, e);
}

enum err fence_put_back_gone(struct fence *f, const struct view *v, bool *done, struct error *e)
{
    struct lineages s;
    struct buffer trusted = {0};
    lineages_init(&s);
    enum err code = trusted_lineages(&v->trusted, &s, e);
    if (code == ERR_OK)
        lineages_format(&s, &trusted);
    if (code == ERR_OK && buffer_failed(&trusted))
        code = error_set(e, ERR_NOMEM, "out of memory");
    if (code == ERR_OK)
        code = put_back(f, v, true, buffer_text(&trusted), done, e);
    buffer_fini(&trusted);
    lineages_fini(&s);
    return code;
}

enum err fence_reconcile(struct fence *f, const struct view *from, const struct view *to, const char *mutex,
                         struct error *e)
{
    struct script_call *c = &f->call;
    script_begin(c, embedded_reconcile);
    fence_put_key(f, "view");
    fence_put_key(f, "expansion_flag");
    fence_put_key(f, "job");
    fence_put_key(f, "token");
    script_text(c, mutex);
    fence_put_event(f);
    script_incarnation(c, from->incarnation);
    script_number(c, from->epoch);
    script_number(c, RECONCILE_TOKENS);
    fence_put_view(f, to);
    enum err code = fence_run_change(f, mutex, from->epoch, ERR_FENCED, "", e);
    if (code == ERR_OK)
        fence_tell(f, to);
    return code;
}
