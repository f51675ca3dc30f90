/* SPDX-License-Identifier: MIT */
#include "expansion/record/control.h"

#include <stdio.h>
#include <string.h>
#include "base/number.h"

extern const char embedded_control[];

enum err record_load(struct handle *f, struct record *r, char broken[RECORD_FIELD_MAX], struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    broken[0] = '\0';
    enum err code = sync_client_filter_command(f->redis, &f->names, "job", "HGETALL %b", &reply, e);
    if (code != ERR_OK)
        return code;
    record_fini(r);
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *field = reply->element[i], *value = reply->element[i + 1];
        if (!checkpoint_take(r, field->str, field->len, value->str, value->len))
            (void)snprintf(broken, RECORD_FIELD_MAX, "%s", field->str);
    }
    if (broken[0] == '\0' && !checkpoint_is_sound(r))
        (void)snprintf(broken, RECORD_FIELD_MAX, "ranges");
    return ERR_OK;
}

static bool is_one(const redisReply *r)
{
    return r->type == REDIS_REPLY_STRING && strcmp(r->str, "1") == 0;
}

enum err control_read(struct handle *f, struct control *out, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = sync_client_filter_command(
        f->redis, &f->names, "job", "HMGET %b abort hold rollback finish paused rows_per_second", &reply, e);
    if (code != ERR_OK)
        return code;
    *out = (struct control){0};
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 6) {
        const redisReply *rate = reply->element[5];
        out->abort = is_one(reply->element[0]);
        out->hold = is_one(reply->element[1]);
        out->rollback = is_one(reply->element[2]);
        out->finish = is_one(reply->element[3]);
        out->paused = is_one(reply->element[4]);
        if (rate->type == REDIS_REPLY_STRING)
            (void)number_u64(rate->str, (size_t)rate->len, &out->rows_per_second);
    }
    return ERR_OK;
}

enum err control_job(struct handle *f, uint64_t *id, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    *id = 0;
    enum err code = sync_client_filter_command(f->redis, &f->names, "job", "HGET %b id", &reply, e);
    if (code == ERR_OK && reply->type == REDIS_REPLY_STRING)
        (void)number_u64(reply->str, (size_t)reply->len, id);
    return code;
}

enum err control_unfinished(struct handle *f, uint64_t *id, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    *id = 0;
    enum err code = sync_client_filter_command(f->redis, &f->names, "view",
                                               "HMGET %b generation0 generation1", &reply, e);
    if (code != ERR_OK)
        return code;
    bool two = reply->elements == 2 && reply->element[0]->len > 0 && reply->element[1]->len > 0;
    return two ? control_job(f, id, e) : ERR_OK;
}

struct wish {
    const char *phases; /* phases of the view in which the request is accepted */
    bool early;         /* also before the job has published anything */
    const char *field;
    uint64_t value;      /* written to the field, except for the throttle */
    const char *refusal; /* error of a running job in another phase */
};

static const struct wish wishes[] = {
    [WISH_ABORT] = {",BUILDING,", true, "abort", 1,
                    "the new generation is in use already: too late to abort; a rollback is possible"},
    [WISH_CUTOVER] = {",BUILDING,", true, "hold", 0, "the new generation is in use already"},
    [WISH_ROLLBACK] = {",SWITCHED,", false, "rollback", 1,
                       "the new generation is not in use: nothing to roll back"},
    [WISH_FINISH] = {",SWITCHED,", false, "finish", 1, "the new generation is not in use: nothing to finish"},
    [WISH_PAUSE] = {",BUILDING,SWITCHED,", true, "paused", 1, ""},
    [WISH_RESUME] = {",BUILDING,SWITCHED,", true, "paused", 0, ""},
    [WISH_THROTTLE] = {",BUILDING,SWITCHED,", true, "rows_per_second", 0, ""},
};

enum err control_ask(struct handle *f, enum control_wish wish, uint64_t value, uint64_t job, struct error *e)
{
    const struct wish *w = &wishes[wish];
    struct script_call *c = &f->call;
    script_begin(c, embedded_control);
    script_filter_key(c, &f->names, "view");
    script_filter_key(c, &f->names, "expansion_flag");
    script_filter_key(c, &f->names, "job");
    script_text(c, w->phases);
    script_text(c, w->early ? "1" : "0");
    script_text(c, w->field);
    script_number(c, wish == WISH_THROTTLE ? value : w->value);
    script_number(c, VIEW_FORMAT);
    script_number(c, job);
    long long answer;
    enum err code = script_run(c, f->redis, handle_home(f), &answer, e);
    if (code != ERR_OK)
        return code;
    switch (answer) {
    case 1:
        return ERR_OK;
    case 0:
        return error_set(e, ERR_NOT_FOUND, "the filter does not exist");
    case -1:
        return error_set(e, ERR_CONFLICT, "no job is running");
    case -5:
        return error_set(e, ERR_CONFLICT,
                         "the job that the request is meant for has ended, and another one runs");
    case -4:
        return error_set(e, ERR_CONFLICT, "the former generation was not built: nothing to roll back to");
    case -3:
        return error_set(
            e, ERR_FORMAT,
            "a later version keeps this filter: ask a coordinator of that version, or upgrade this one");
    default:
        return error_set(e, ERR_CONFLICT, "%s", w->refusal);
    }
}
