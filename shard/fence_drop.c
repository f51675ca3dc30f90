/* SPDX-License-Identifier: MIT */
/* Deleting a filter.
 *
 * The happy path is: the view says so, the shards become tombstones, a marker takes the view's place.
 * Requests go on under the view until the marker is there, but for keys of shards that are gone, which wait
 * for it: so nobody sees the filter gone while somebody else may yet acknowledge into it. Possible failure
 * modes are: the driver dies (whoever gets the mutex next goes on), a node does not answer (before the first
 * step nothing was done, after it the rest is done later), the mutex is lost (refused by the scripts;
 * tombstones that come late lie under names that are never used again). */
#include "shard/fence_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include "shard/latest.h"
#include "shard/script.h"

/* Where a node is away or not in the list any more, the deletion would stop half way. */
static enum err reach_nodes(struct fence *f, const struct generation *g, struct error *e)
{
    struct placement placement;
    if (g->number == 0)
        return ERR_OK;
    enum err code = placement_resolve(&placement, &f->names, g, link_nodes(f->link), e);
    unsigned count = placement.count;
    bool cluster = code == ERR_OK && count == 0;
    if (cluster)
        code = link_masters(f->link, &count, e);
    for (unsigned i = 0; code == ERR_OK && i < count; i++) {
        redisReply *reply;
        unsigned where = cluster ? link_master(f->link, i) : placement_where(&placement, 0, i);
        code = link_command(f->link, where, &reply, e, "PING");
        if (code == ERR_OK)
            freeReplyObject(reply);
    }
    return code;
}

enum err fence_drop(struct fence *f, struct view *v, uint64_t due_ms, const char *mutex, struct error *e)
{
    const struct generation *const generations[] = {&v->slot[0], &v->slot[1], &v->retiring};
    for (size_t i = 0; i < sizeof(generations) / sizeof(generations[0]); i++) {
        enum err code = reach_nodes(f, generations[i], e);
        if (code != ERR_OK)
            return code;
    }
    struct script_call *c = &f->call;
    script_begin(c, embedded_drop);
    fence_put_key(f, "view");
    fence_put_key(f, "expansion_flag");
    fence_put_key(f, "job");
    script_text(c, mutex);
    fence_put_event(f);
    script_incarnation(c, v->incarnation);
    script_number(c, v->epoch);
    if (due_ms == 0)
        script_text(c, "");
    else
        script_number(c, due_ms);
    enum err code =
        fence_run_change(f, mutex, v->epoch, ERR_CONFLICT, "the filter is no longer to be deleted", e);
    if (code == ERR_OK)
        v->dropped = VIEW_DROP_BEGUN;
    return code;
}

static enum err bury(struct fence *f, const struct generation *g, uint64_t epoch, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned layer = 0; g->number != 0 && layer < g->layer_count && code == ERR_OK; layer++)
        code = fence_put_tombstones(f, g, layer, epoch, e);
    return code;
}

enum err fence_drop_complete(struct fence *f, const struct view *v, const char *mutex, struct error *e)
{
    enum err code = ERR_OK;
    if (v->dropped == VIEW_KEPT)
        return error_set(e, ERR_CONFLICT, "the filter is not being deleted");
    for (unsigned s = 0; s < 2 && code == ERR_OK; s++)
        code = bury(f, &v->slot[s], v->epoch, e);
    if (code == ERR_OK && v->retiring_epoch != 0)
        code = bury(f, &v->retiring, v->retiring_epoch, e);
    if (code != ERR_OK)
        return code;
    struct script_call *c = &f->call;
    script_begin(c, embedded_dropped);
    fence_put_key(f, "view");
    fence_put_key(f, "expansion_flag");
    fence_put_key(f, "job");
    fence_put_key(f, "count");
    fence_put_key(f, "history");
    fence_put_key(f, "token");
    fence_put_key(f, "marks");
    script_text(c, mutex);
    fence_put_event(f);
    script_incarnation(c, v->incarnation);
    script_number(c, DROP_MARKER_MS);
    long long answer;
    code = script_run(c, f->link, fence_home(f), &answer, e);
    if (code != ERR_OK)
        return code;
    if (answer == -1)
        return error_set(e, ERR_MUTEX_LOST, "the mutex %s was lost", mutex);
    if (answer == 0)
        return error_set(e, ERR_FENCED, "the view has changed since epoch %" PRIu64, v->epoch);
    latest_forget(f);
    return ERR_OK;
}

enum err fence_drop_nothing(struct fence *f, const char *mutex, struct error *e)
{
    long long answer;
    struct script_call *c = &f->call;
    script_begin(c, embedded_no_filter);
    fence_put_key(f, "view");
    fence_put_key(f, "leftover");
    fence_put_key(f, "expansion_flag");
    fence_put_key(f, "token");
    script_text(c, mutex);
    return script_run(c, f->link, fence_home(f), &answer, e);
}

enum err fence_expire(struct fence *f, uint64_t at_ms, unsigned conditions, bool only_ask, bool *done,
                      struct error *e)
{
    static const char *const words[] = {"NX,", "XX,", "GT,", "LT,"};
    char text[16] = ",";
    size_t length = 1;
    for (unsigned i = 0; i < 4; i++)
        if ((conditions >> i & 1) != 0)
            length += (size_t)snprintf(text + length, sizeof(text) - length, "%s", words[i]);
    struct script_call *c = &f->call;
    script_begin(c, embedded_expire);
    fence_put_key(f, "view");
    fence_put_event(f);
    script_number(c, at_ms);
    script_text(c, text);
    script_text(c, only_ask ? "1" : "0");
    script_number(c, VIEW_FORMAT_LOG);
    long long answer;
    enum err code = script_run(c, f->link, fence_home(f), &answer, e);
    if (code != ERR_OK)
        return code;
    *done = answer == 1;
    if (answer == -2)
        return error_set(
            e, ERR_FORMAT,
            "a later version keeps this filter: ask a coordinator of that version, or upgrade this one");
    return answer < 0 ? error_set(e, ERR_NOT_FOUND, "the filter does not exist") : ERR_OK;
}
