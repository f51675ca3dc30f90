/* SPDX-License-Identifier: MIT */
#include "shard/view/handle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shard/view/view_load.h"

extern const char embedded_expire[], embedded_no_filter[];

void handle_fini(struct handle *f)
{
    script_fini(&f->call);
}

void handle_announce(struct handle *f)
{
    char text[FILTER_NAME_MAX + 8];
    (void)snprintf(text, sizeof(text), "view %s", f->names.filter);
    enum err code = sync_client_command(f->redis, handle_home(f), NULL, NULL, "PUBLISH %s:events %s",
                                        f->names.prefix, text);
    (void)code;
}

static void put_event(struct handle *f)
{
    buffer_printf(script_argument(&f->call), "%s:events", f->names.prefix);
    script_bytes(&f->call, f->names.filter, f->names.filter_length);
}

/* --- the view --- */

static enum err knows(const struct handle *f, const struct generation *g, struct error *e)
{
    struct placement placement;
    return g->number == 0 ? ERR_OK
                          : placement_resolve(&placement, &f->names, g, sync_client_nodes(f->redis), e);
}

enum err handle_load_any(struct handle *f, struct view *out, struct error *e)
{
    struct log_view *v = malloc(sizeof(*v));
    out->deleting = false;
    if (v == NULL)
        return error_set(e, ERR_NOMEM, "no memory for a view");
    enum err code = log_view_load(f->redis, &f->names, v, e);
    if (code == ERR_OK)
        log_view_sum_up(v, out);
    free(v);
    if (code == ERR_WRONG_TYPE) /* as Redis says it */
        return error_set(e, code, "Operation against a key holding the wrong kind of value");
    for (unsigned s = 0; s < 2 && code == ERR_OK; s++)
        code = knows(f, &out->slot[s], e);
    if (code == ERR_OK)
        f->names.incarnation = out->incarnation;
    return code;
}

enum err handle_load(struct handle *f, struct view *out, struct error *e)
{
    enum err code = handle_load_any(f, out, e);
    if (code == ERR_OK && out->deleting)
        return error_set(e, ERR_NOT_FOUND, "the filter is being deleted");
    return code;
}

enum err handle_look(struct handle *f, const struct view *v, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    char incarnation[17];
    enum err code = sync_client_filter_command(f->redis, &f->names, "view", "HGET %b incarnation", &reply, e);
    if (code != ERR_OK)
        return code;
    (void)snprintf(incarnation, sizeof(incarnation), "%016" PRIx64, v->incarnation);
    if (reply->type != REDIS_REPLY_STRING || strcmp(reply->str, incarnation) != 0)
        code = error_set(e, ERR_FENCED, "the view is no longer in Redis");
    return code;
}

/* --- its end --- */

enum err handle_drop_nothing(struct handle *f, const char *mutex, struct error *e)
{
    long long answer;
    struct script_call *c = &f->call;
    script_begin_view(c, embedded_no_filter, &f->names);
    script_filter_key(c, &f->names, "leftover");
    script_filter_key(c, &f->names, "expansion_flag");
    script_filter_key(c, &f->names, "token");
    script_text(c, mutex);
    return script_run(c, f->redis, handle_home(f), &answer, e);
}

enum err handle_expire(struct handle *f, uint64_t at_ms, unsigned conditions, bool *done, struct error *e)
{
    static const char *const words[] = {"NX,", "XX,", "GT,", "LT,"};
    char text[16] = ",";
    size_t length = 1;
    for (unsigned i = 0; i < 4; i++)
        if ((conditions >> i & 1) != 0)
            length += (size_t)snprintf(text + length, sizeof(text) - length, "%s", words[i]);
    struct script_call *c = &f->call;
    script_begin_view(c, embedded_expire, &f->names);
    put_event(f);
    script_number(c, at_ms);
    script_text(c, text);
    script_number(c, VIEW_FORMAT);
    script_incarnation(c, f->names.incarnation);
    long long answer;
    enum err code = script_run(c, f->redis, handle_home(f), &answer, e);
    if (code != ERR_OK)
        return code;
    *done = answer == 1;
    if (answer == -2)
        return error_set(
            e, ERR_FORMAT,
            "a later version keeps this filter: ask a coordinator of that version, or upgrade this one");
    return answer < 0 ? error_set(e, ERR_NOT_FOUND, "the filter does not exist") : ERR_OK;
}
