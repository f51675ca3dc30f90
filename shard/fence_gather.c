/* SPDX-License-Identifier: MIT */
/* The fence of a view that is reconciled: its shards may lie under the name of any earlier epoch.
 *
 * The happy path is: SCAN finds them; first what belongs to no generation of the view becomes tombstones,
 * then the others are renamed as in any fence, each until two passes more find nothing. Possible failure
 * modes are: a coordinator that slept renames a shard while SCAN passes by (the next pass finds it), it
 * writes where nothing is (a string without the tag: a tombstone), whoever gathers sleeps and wakes much
 * later (the names that it knows are of epochs that are over). */
#include "shard/fence_internal.h"
#include "shard/reconcile.h"

#include <inttypes.h>
#include <string.h>
#include "shard/script.h"

enum { GATHER_PASSES = 100, GATHERS_IN_FLIGHT = 256, GATHER_QUIET = 2 };

struct gathering {
    struct fence *f;
    const struct view *view;
    struct placement placement[2];
    struct survey survey;
    bool moves;    /* what the view wants is renamed in this pass */
    uint64_t done; /* in this pass */
};

/* The slot of the generation that the shard is of, where it is one that the view wants; -1: it does not. */
static int wanted(const struct gathering *g, const struct found_shard *one)
{
    for (int s = 0; s < 2; s++) {
        const struct generation *of = &g->view->slot[s];
        if (of->number == 0 || of->number != one->generation || one->layer >= of->layer_count)
            continue;
        const struct layer *l = &of->layers[one->layer];
        bool mine = one->shard < l->geometry.shards && (one->epoch != 0 || one->token == l->token) &&
                    (g->placement[s].count == 0 ||
                     placement_where(&g->placement[s], one->layer, one->shard) == one->where);
        return mine ? s : -1;
    }
    return -1;
}

static struct shard_id id_of(const struct found_shard *one)
{
    return (struct shard_id){.generation = one->generation, .layer = one->layer, .shard = one->shard};
}

static void found_name(const struct gathering *g, const struct found_shard *one, struct key_name *out)
{
    if (one->epoch != 0)
        names_shard(&g->f->names, id_of(one), one->epoch, out);
    else
        names_new_shard(&g->f->names, id_of(one), one->token, out);
}

static enum err send_tombstone(struct gathering *g, const struct found_shard *one, struct error *e)
{
    struct key_name from;
    found_name(g, one, &from);
    script_begin(&g->f->call, embedded_tombstone);
    script_key(&g->f->call, &from);
    script_number(&g->f->call, g->f->tombstone_ms);
    return script_send(&g->f->call, g->f->link, one->where, e);
}

static enum err send(struct gathering *g, const struct found_shard *one, struct error *e)
{
    struct key_name from, to;
    int slot = wanted(g, one);
    if (slot < 0)
        return send_tombstone(g, one, e);
    uint16_t tag = fence_tag(g->f, &g->view->slot[slot]);
    const char bytes[2] = {(char)(tag >> 8), (char)(tag & 0xff)};
    found_name(g, one, &from);
    names_shard(&g->f->names, id_of(one), g->view->epoch, &to);
    script_begin(&g->f->call, embedded_rename);
    script_key(&g->f->call, &from);
    script_key(&g->f->call, &to);
    script_bytes(&g->f->call, bytes, 2);
    script_number(&g->f->call, g->f->tombstone_ms);
    return script_send(&g->f->call, g->f->link, one->where, e);
}

/* What could not take the shard's name must not be found under its own again. */
static enum err receive(struct gathering *g, struct found_shard *one, bool *left, struct error *e)
{
    long long answer;
    *left = false;
    enum err code = script_reply(g->f->link, one->where, &answer, e);
    if (code != ERR_OK || wanted(g, one) < 0)
        return code;
    if (answer == -2)
        return error_set(e, ERR_FENCED, "epoch %" PRIu64 " is no longer current", g->view->epoch);
    *left = answer != 1;
    return ERR_OK;
}

/* One of each shard in a pass, the one with the largest epoch: it must have its name before another may. */
static bool is_next(const struct gathering *g, size_t i)
{
    const struct found_shard *one = &g->survey.found[i];
    if (one->epoch == g->view->epoch || (!g->moves && wanted(g, one) >= 0))
        return false;
    if (i == 0)
        return true;
    const struct found_shard *before = &g->survey.found[i - 1];
    return before->epoch == g->view->epoch || before->generation != one->generation ||
           before->layer != one->layer || before->shard != one->shard;
}

static enum err batch(struct gathering *g, size_t first, size_t end, struct error *e)
{
    enum err code = ERR_OK;
    bool left[GATHERS_IN_FLIGHT] = {false};
    for (size_t i = first; i < end && code == ERR_OK; i++)
        code = is_next(g, i) ? send(g, &g->survey.found[i], e) : ERR_OK;
    for (size_t i = first; i < end && code == ERR_OK; i++)
        if (is_next(g, i)) {
            g->done++;
            code = receive(g, &g->survey.found[i], &left[i - first], e);
        }
    for (size_t i = first; i < end && code == ERR_OK; i++)
        if (left[i - first]) {
            long long was;
            code = send_tombstone(g, &g->survey.found[i], e);
            if (code == ERR_OK)
                code = script_reply(g->f->link, g->survey.found[i].where, &was, e);
        }
    return code;
}

static enum err pass(struct gathering *g, struct error *e)
{
    g->done = 0;
    enum err code = fence_survey(g->f, NULL, &g->survey, e);
    if (code == ERR_OK && survey_top(&g->survey) > g->view->epoch)
        code = error_set(e, ERR_FENCED, "epoch %" PRIu64 " is no longer current: shards have epoch %" PRIu64,
                         g->view->epoch, survey_top(&g->survey));
    for (size_t first = 0; first < g->survey.count && code == ERR_OK; first += GATHERS_IN_FLIGHT) {
        size_t left = g->survey.count - first;
        code = batch(g, first, first + (left < GATHERS_IN_FLIGHT ? left : GATHERS_IN_FLIGHT), e);
    }
    if (code != ERR_OK)
        link_forget(g->f->link);
    return code;
}

static enum err passes(struct gathering *g, bool moves, struct error *e)
{
    enum err code = ERR_OK;
    unsigned quiet = 0;
    g->moves = moves;
    for (int i = 0; code == ERR_OK && quiet < GATHER_QUIET; i++) {
        if (i == GATHER_PASSES)
            code = error_set(e, ERR_CONFLICT, "shards of views that are lost keep appearing");
        else
            code = pass(g, e);
        quiet = g->done == 0 ? quiet + 1 : 0;
    }
    return code;
}

/* Model: gather. What nobody shall read any more goes first: a key that is added to a shard under its new
 * name is acknowledged at once, and whoever holds a view that was lost may still read a generation that has
 * it not. */
enum err fence_gather(struct fence *f, const struct view *v, struct error *e)
{
    struct gathering g = {.f = f, .view = v};
    enum err code = ERR_OK;
    for (unsigned s = 0; s < 2 && code == ERR_OK; s++)
        if (v->slot[s].number != 0)
            code = placement_resolve(&g.placement[s], &f->names, &v->slot[s], link_nodes(f->link), e);
    if (code == ERR_OK)
        code = passes(&g, false, e);
    if (code == ERR_OK)
        code = passes(&g, true, e);
    survey_fini(&g.survey);
    return code;
}
