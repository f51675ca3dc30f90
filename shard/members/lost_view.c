/* SPDX-License-Identifier: MIT */
/* What the view says of lost shards: by processes, and by an operator who accepts the loss. */
#include "shard/members/lost.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shard/view/shards.h"
#include "shard/view/view_load.h"

extern const char embedded_lost_say[], embedded_lost_lack[], embedded_lost_end[], embedded_lost_accept[];

enum { ACCEPT_TRIES = 20 /* attempts while others take over */ };

/* --- the remedy --- */

enum lost_remedy lost_remedy(const struct log_view *v)
{
    const struct log_generation *g = &v->slot[v->current];
    if (v->degraded)
        return v->sourced ? LOST_HEALED_BY_BUILD : LOST_HEALED_BY_OPERATOR;
    return g->shape.number != 0 && g->lost.generation == g->shape.number ? LOST_HEALED_BY_MEMORY
                                                                         : LOST_NOTHING;
}

const char *lost_remedy_text(enum lost_remedy remedy)
{
    static const char *const texts[] = {
        [LOST_NOTHING] = "",
        [LOST_HEALED_BY_MEMORY] = "a process that has the shards in memory makes them again",
        [LOST_HEALED_BY_BUILD] = "acknowledged keys may be missing: rebuild the filter from its source",
        [LOST_HEALED_BY_OPERATOR] = ("acknowledged keys may be missing, and there is no source: accept the "
                                     "loss, or delete the filter and "
                                     "add its keys again")};
    return texts[remedy];
}

/* --- the view --- */

/* Begin a script on the view, and on what is to be deleted. */
static struct script_call begin(const char *text, const struct names *names, uint64_t generation)
{
    struct script_call c = {0};
    script_begin_view(&c, text, names);
    script_filter_key(&c, names, "forgotten");
    script_incarnation(&c, names->incarnation);
    script_number(&c, generation % 2);
    return c;
}

static enum err run(struct script_call *c, struct sync_client *l, const struct names *names, long long least,
                    long long *result, struct error *e)
{
    enum err code = script_run_once(c, l, names, result, e);
    return code == ERR_OK && *result < least ? log_view_another(names, e) : code;
}

enum err lost_say(struct sync_client *l, const struct names *names, const struct log_lost *lost,
                  struct error *e)
{
    struct script_call c = begin(embedded_lost_say, names, lost->generation);
    long long result = 0;
    script_number(&c, lost->generation);
    buffer_printf(script_argument(&c), "%u.%" PRIu32, lost->layer, lost->shard);
    return run(&c, l, names, 1, &result, e);
}

enum err lost_lack(struct sync_client *l, const struct names *names, const struct log_lost *lost,
                   const uint8_t writer[LOG_WRITER_BYTES], bool has, struct error *e)
{
    char text[LOG_LOST_TEXT_MAX], name[LOG_WRITER_NAME_MAX], lacks[LOG_WRITER_NAME_MAX];
    struct script_call c = begin(embedded_lost_lack, names, lost->generation);
    long long result = 0;
    log_lost_text(lost, text);
    log_writer_name(writer, name);
    (void)snprintf(lacks, sizeof(lacks), "lacks.%.32s", strchr(name, '.') + 1);
    script_text(&c, text);
    script_text(&c, name);
    script_text(&c, lacks);
    script_number(&c, has);
    return run(&c, l, names, 0, &result, e);
}

enum err lost_end(struct fold *f, const struct log_lost *lost, struct error *e)
{
    char text[LOG_LOST_TEXT_MAX];
    struct script_call c = begin(embedded_lost_end, f->names, lost->generation);
    long long result = 0;
    log_lost_text(lost, text);
    script_text(&c, text);
    fold_add_token(f, &c);
    return run(&c, f->redis, f->names, 1, &result, e);
}

/* --- accepting --- */

/* Check that each lane, and each node with shards, has the era that the view accepts: if not, a repair of
 * existing keys is under way. */
static enum err check_eras(struct sync_client *l, const struct names *names, const struct log_view *v,
                           struct error *e)
{
    struct trusted now = {0};
    bool known = true;
    enum err code = shards_eras(l, names, &v->slot[v->current].shape, &now, e);
    for (unsigned i = 0; i < now.count; i++)
        known &= trusted_contains(&v->eras, now.id[i]);
    for (unsigned i = 0; i < v->lane_count; i++)
        known &= v->lane[i].era != 0;
    return code == ERR_OK && !known
               ? error_set(e, ERR_BUSY,
                           "nodes of filter \"%.*s\" have other replication ids than its view accepts: "
                           "wait until its processes have settled that",
                           (int)names->filter_length, names->filter)
               : code;
}

/* Check that no writer has what is lost in memory. Something else has had the name of a shard, and may have
 * it no more: then that writer makes it again. */
static enum err check_memory(struct sync_client *l, const struct names *names, const struct log_lost *lost,
                             struct error *e)
{
    char text[LOG_LOST_TEXT_MAX];
    struct script_call c = begin(embedded_lost_lack, names, lost->generation);
    struct key_name key;
    long long has = 0;
    log_lost_text(lost, text);
    script_text(&c, text);
    enum err code = run(&c, l, names, 0, &has, e);
    names_log_shard(names, (struct shard_id){lost->generation, lost->layer, lost->shard}, &key);
    return code == ERR_OK && has > 0
               ? error_set(e, ERR_BUSY,
                           "a process has the lost shards in memory, and makes them again once nothing else "
                           "has their names: delete or rename what has, for example %s, or wait",
                           key.text)
               : code;
}

/* *@nothing: there is nothing to accept. */
static enum err check_view(struct sync_client *l, const struct names *names, const struct log_view *v,
                           bool *nothing, struct error *e)
{
    int length = (int)names->filter_length;
    enum lost_remedy remedy = lost_remedy(v);
    *nothing = false;
    if (v->deleting)
        return error_set(e, ERR_NOT_FOUND, "filter \"%.*s\" is being deleted", length, names->filter);
    switch (remedy) {
    case LOST_NOTHING:
        *nothing = true;
        return ERR_OK;
    case LOST_HEALED_BY_MEMORY:
        return error_set(e, ERR_BUSY, "filter \"%.*s\": a process may have the lost shards in memory", length,
                         names->filter);
    case LOST_HEALED_BY_BUILD:
        return error_set(e, ERR_CONFLICT, "filter \"%.*s\" has a source: rebuild it", length, names->filter);
    case LOST_HEALED_BY_OPERATOR:
        break;
    }
    return check_eras(l, names, v, e);
}

/* No shard is missing: say so in the view. */
static enum err say_accepted(struct fold *f, const struct log_lost *lost, uint64_t version, struct error *e)
{
    char text[LOG_LOST_TEXT_MAX] = "";
    struct script_call c = begin(embedded_lost_accept, f->names, f->generation);
    long long result = 0;
    if (lost != NULL)
        log_lost_text(lost, text);
    script_text(&c, text);
    fold_add_token(f, &c);
    script_number(&c, version);
    return run(&c, f->redis, f->names, 1, &result, e);
}

/* Called after the draw: a process that accepted before the draw has ended the loss, and none can accept
 * after it. */
static enum err check_again(const struct fold *f, struct log_view *v, struct error *e)
{
    enum err code = log_view_load(f->redis, f->names, v, e);
    bool same = code == ERR_OK && v->incarnation == f->names->incarnation && v->current == f->slot &&
                v->slot[f->slot].shape.number == f->generation && v->degraded;
    return code == ERR_OK && !same ? log_view_another(f->names, e) : code;
}

static enum err make_empty(struct lost_work *w, struct log_view *v, uint64_t *made, struct error *e)
{
    struct key_name key;
    /* the next one, so nobody else has made the shard meanwhile, and lost it again */
    enum err code = fold_draw_next(w->fold, generation_next_token(w->fold->shape), e);
    if (code == ERR_OK)
        code = check_again(w->fold, v, e);
    if (code == ERR_OK)
        code = lost_make(w, e);
    *made += w->made;
    if (code != ERR_OK || w->missing == 0)
        return code;
    fold_key(w->fold, w->left[0].layer, w->left[0].shard, &key);
    return error_set(e, ERR_CONFLICT,
                     "%s is no shard of this filter, or a later version wrote it: delete or rename that key",
                     key.text);
}

static enum err accept_once(struct sync_client *l, const struct names *names, struct log_view *v,
                            uint64_t *made, struct error *e)
{
    struct names own = *names;
    SCOPED(fold_fini) struct fold fold = {0};
    bool nothing = false;
    enum err code = log_view_load(l, names, v, e);
    if (code != ERR_OK)
        return code;
    own.incarnation = v->incarnation;
    const struct log_generation *g = &v->slot[v->current];
    const struct log_lost *named = g->lost.generation == g->shape.number ? &g->lost : NULL;
    code = check_view(l, &own, v, &nothing, e);
    fold_init(&fold, l, &own, g->shape.number);
    if (code == ERR_OK && !nothing)
        code = fold_place(&fold, &g->shape, e);
    if (code == ERR_OK && !nothing && named != NULL)
        code = check_memory(l, &own, named, e);
    if (code != ERR_OK || nothing)
        return code;
    fold.token = g->writer;
    struct lost_work w = {.fold = &fold, .named = named};
    code = make_empty(&w, v, made, e);
    if (code == ERR_OK)
        code = say_accepted(&fold, named, v->version, e);
    if (code == ERR_OK)
        log_view_notify(l, &own);
    return code;
}

/* Model: operator of lost_shard.pml. */
enum err lost_accept(struct sync_client *l, const struct names *names, uint64_t *made, struct error *e)
{
    enum err code = ERR_FENCED;
    struct log_view *v = malloc(sizeof(*v));
    *made = 0;
    if (v == NULL)
        return error_set(e, ERR_NOMEM, "no memory for a view");
    for (unsigned i = 0; i < ACCEPT_TRIES && code == ERR_FENCED; i++)
        code = accept_once(l, names, v, made, e);
    free(v);
    return code;
}
