/* SPDX-License-Identifier: MIT */
/* Where the shards of a filter lie, whatever its view says. */
#include "shard/fence_internal.h"
#include "shard/reconcile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"

enum { LOOKS_IN_FLIGHT = 256 };

void survey_fini(struct survey *s)
{
    free(s->found);
    *s = (struct survey){0};
}

uint64_t survey_top(const struct survey *s)
{
    uint64_t top = 0;
    for (size_t i = 0; i < s->count; i++)
        top = s->found[i].epoch > top ? s->found[i].epoch : top;
    return top;
}

/* --- names --- */

/* The digits before @stop, which is passed over. */
static bool take_number(const char **at, const char *end, char stop, uint64_t *out)
{
    const char *p = memchr(*at, stop, (size_t)(end - *at));
    if (p == NULL || !number_u64(*at, (size_t)(p - *at), out))
        return false;
    *at = p + 1;
    return true;
}

/* "e<epoch>" or "n<token>.<generation>"; an upload's name is neither. */
static bool take_state(const char *at, const char *end, struct found_shard *out)
{
    uint64_t generation;
    const char kind = at < end ? *at++ : '\0';
    if (kind == 'e')
        return number_u64(at, (size_t)(end - at), &out->epoch) && out->epoch != 0;
    return kind == 'n' && take_number(&at, end, '.', &out->token) &&
           number_u64(at, (size_t)(end - at), &generation);
}

/* True for a shard of the present incarnation. */
static bool take_name(const struct names *names, const char *name, size_t length, struct found_shard *out)
{
    const char *at = name + names->prefix_length + names->filter_length + 3, *end = name + length;
    uint64_t layer, shard, incarnation;
    *out = (struct found_shard){0};
    if (!take_number(&at, end, '.', &out->generation) || !take_number(&at, end, '.', &layer) ||
        !take_number(&at, end, '}', &shard) || end - at < 18 || !number_hex64(at + 1, 16, &incarnation))
        return false;
    out->layer = (unsigned)layer;
    out->shard = (uint32_t)shard;
    return incarnation == names->incarnation && layer < GENERATION_LAYERS_MAX && shard <= UINT32_MAX &&
           take_state(at + 18, end, out);
}

static enum err add(struct survey *s, const struct found_shard *one, struct error *e)
{
    if (s->count == s->room) {
        size_t room = s->room == 0 ? 256 : 2 * s->room;
        struct found_shard *more = reallocarray(s->found, room, sizeof(*more));
        if (more == NULL)
            return error_set(e, ERR_NOMEM, "out of memory");
        s->found = more;
        s->room = room;
    }
    s->found[s->count++] = *one;
    return ERR_OK;
}

/* By shard; of one shard the largest epoch first, the first name last. */
static int compare(const void *one, const void *other)
{
    const struct found_shard *a = one, *b = other;
    if (a->generation != b->generation)
        return a->generation < b->generation ? -1 : 1;
    if (a->layer != b->layer)
        return a->layer < b->layer ? -1 : 1;
    if (a->shard != b->shard)
        return a->shard < b->shard ? -1 : 1;
    return a->epoch == b->epoch ? 0 : a->epoch > b->epoch ? -1 : 1;
}

static enum err survey_node(struct fence *f, unsigned where, struct survey *out, struct error *e)
{
    struct buffer names = {0};
    enum err code = fence_find_names(f, where, &names, e);
    for (size_t at = 0, length; code == ERR_OK && at < names.length; at += length) {
        struct found_shard one;
        memcpy(&length, names.data + at, sizeof(length));
        at += sizeof(length);
        if (!take_name(&f->names, names.data + at, length, &one))
            continue;
        one.where = fence_shard_where(f, where, names.data + at, length);
        code = add(out, &one, e);
    }
    buffer_fini(&names);
    return code;
}

/* @v knows all nodes that the filter lies on: home has told it, and has lost nothing since. */
static bool is_view_sure(struct fence *f, const struct view *v)
{
    struct lineages s;
    const char *home = link_nodes(f->link)->node[NODE_HOME].name;
    bool sure = false;
    if (link_nodes(f->link)->cluster != NULL || !v->trusted.known)
        return false;
    lineages_init(&s);
    if (fence_lineages(f, v, &s, NULL) == ERR_OK)
        for (unsigned i = 0; i < s.count; i++)
            sure |= strcmp(s.one[i].node, home) == 0 && trusted_contains(&v->trusted, s.one[i].id);
    lineages_fini(&s);
    return sure;
}

/* A node may be away that has nothing of the filter. */
static bool may_be_away(struct fence *f, unsigned where, const struct view *v)
{
    struct lineage one = {0};
    (void)snprintf(one.node, sizeof(one.node), "%s", link_name(f->link, where));
    return v != NULL && !fence_matters(link_nodes(f->link), v, &one) && is_view_sure(f, v);
}

enum err fence_survey(struct fence *f, const struct view *v, struct survey *out, struct error *e)
{
    unsigned count;
    out->count = 0;
    enum err code = link_masters(f->link, &count, e);
    for (unsigned i = 0; code == ERR_OK && i < count; i++) {
        unsigned where = link_master(f->link, i);
        code = survey_node(f, where, out, e);
        if ((code == ERR_UNREACHABLE || code == ERR_TIMEOUT) && may_be_away(f, where, v))
            code = ERR_OK;
    }
    if (code == ERR_OK && out->count > 0)
        qsort(out->found, out->count, sizeof(*out->found), compare);
    return code;
}

/* --- weighing --- */

/* The slot of the view that names the shard; -1: none does. */
static int slot_of(const struct view *v, const struct found_shard *one)
{
    for (int s = 0; s < 2; s++) {
        const struct generation *g = &v->slot[s];
        if (g->number != 0 && g->number == one->generation && one->layer < g->layer_count &&
            one->shard < g->layers[one->layer].geometry.shards)
            return s;
    }
    return -1;
}

struct weighing {
    struct fence *f;
    const struct view *view;
    const struct survey *survey;
    bool *tagged; /* by place in the survey */
};

static bool is_looked_at(const struct weighing *w, size_t i)
{
    return w->survey->found[i].epoch != 0 && slot_of(w->view, &w->survey->found[i]) >= 0;
}

static enum err send_look(const struct weighing *w, size_t i, struct error *e)
{
    struct key_name name;
    const struct found_shard *one = &w->survey->found[i];
    const struct shard_id id = {.generation = one->generation, .layer = one->layer, .shard = one->shard};
    const char *argv[] = {"GETRANGE", name.text, "0", "1"};
    names_shard(&w->f->names, id, one->epoch, &name);
    const size_t lengths[] = {8, name.length, 1, 1};
    return link_append(w->f->link, one->where, 4, argv, lengths, e);
}

static enum err read_look(const struct weighing *w, size_t i, struct error *e)
{
    redisReply *reply;
    const struct found_shard *one = &w->survey->found[i];
    enum err code = link_reply(w->f->link, one->where, &reply, e);
    if (code != ERR_OK)
        return code;
    uint16_t tag = fence_tag(w->f, &w->view->slot[slot_of(w->view, one)]);
    w->tagged[i] = reply->type == REDIS_REPLY_STRING && reply->len == 2 &&
                   (uint8_t)reply->str[0] == tag >> 8 && (uint8_t)reply->str[1] == (tag & 0xff);
    freeReplyObject(reply);
    return ERR_OK;
}

static enum err look_at_tags(const struct weighing *w, struct error *e)
{
    enum err code = ERR_OK;
    for (size_t first = 0; first < w->survey->count && code == ERR_OK; first += LOOKS_IN_FLIGHT) {
        size_t end = w->survey->count - first < LOOKS_IN_FLIGHT ? w->survey->count : first + LOOKS_IN_FLIGHT;
        for (size_t i = first; i < end && code == ERR_OK; i++)
            code = is_looked_at(w, i) ? send_look(w, i, e) : ERR_OK;
        for (size_t i = first; i < end && code == ERR_OK; i++)
            code = is_looked_at(w, i) ? read_look(w, i, e) : ERR_OK;
    }
    if (code != ERR_OK)
        link_forget(w->f->link);
    return code;
}

static bool is_same_shard(const struct found_shard *a, const struct found_shard *b)
{
    return a->generation == b->generation && a->layer == b->layer && a->shard == b->shard;
}

static void sum_up(const struct weighing *w, struct reconcile_evidence *out)
{
    const struct survey *s = w->survey;
    *out = (struct reconcile_evidence){.top = survey_top(s)};
    for (size_t i = 0, next; i < s->count; i = next) {
        bool here = false, elsewhere = false;
        int slot = slot_of(w->view, &s->found[i]);
        if (s->found[i].generation > out->last_generation)
            out->last_generation = s->found[i].generation;
        for (next = i; next < s->count && is_same_shard(&s->found[i], &s->found[next]); next++) {
            uint64_t epoch = s->found[next].epoch;
            if (slot < 0 || !w->tagged[next])
                continue;
            here |= epoch == w->view->epoch;
            elsewhere |= epoch != w->view->epoch;
            out->top_of[slot] = epoch > out->top_of[slot] ? epoch : out->top_of[slot];
        }
        out->elsewhere += elsewhere && !here;
    }
}

/* An epoch that is noted elsewhere (latest.h) was in use, though nothing lies under it. */
static uint64_t top_of(const struct fence *f, const struct view *v, uint64_t found)
{
    bool noted = f->latest.incarnation == v->incarnation && f->latest.epoch > found;
    return noted ? f->latest.epoch : found;
}

enum err fence_weigh(struct fence *f, const struct view *v, struct reconcile_evidence *out, struct error *e)
{
    struct survey survey = {0};
    enum err code = fence_survey(f, v, &survey, e);
    if (code == ERR_OK) {
        bool *tagged = calloc(survey.count + 1, sizeof(*tagged));
        const struct weighing w = {.f = f, .view = v, .survey = &survey, .tagged = tagged};
        code = error_set(e, ERR_NOMEM, "out of memory");
        if (tagged != NULL && (code = look_at_tags(&w, e)) == ERR_OK) {
            sum_up(&w, out);
            out->top = top_of(f, v, out->top);
        }
        free(tagged);
    }
    survey_fini(&survey);
    return code;
}

enum err fence_may_begin(struct fence *f, const struct view *v, struct error *e)
{
    struct survey survey = {0};
    if (v->recovery == RECOVERY_DUE)
        return error_set(e, ERR_LOST, "the view in Redis is outdated, and is not restored yet");
    /* What a node alone has goes back together. */
    if (link_nodes(f->link)->cluster == NULL && link_nodes(f->link)->count == 1)
        return ERR_OK;
    if (f->requests_wait)
        return error_set(e, ERR_ASIDE, "shards have to be looked for");
    enum err code = fence_survey(f, v, &survey, e);
    uint64_t top = top_of(f, v, survey_top(&survey));
    survey_fini(&survey);
    if (code == ERR_OK && top > v->epoch)
        code = error_set(e, ERR_LOST,
                         "the view has epoch %" PRIu64 ", shards lie under %" PRIu64
                         ": the view is outdated, and must be restored first",
                         v->epoch, top);
    return code;
}
