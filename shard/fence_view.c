/* SPDX-License-Identifier: MIT */
/* The view's hash in Redis: read, looked at, published, changed. What becomes of the shards is fence.c's. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/number.h"
#include "shard/fence_internal.h"
#include "shard/latest.h"
#include "shard/script.h"

/* --- reading --- */

/* Of a view that cannot be read. */
static enum err tell_what_to_do(const struct names *names, bool is_log, struct error *e)
{
    struct key_name key;
    if (e == NULL)
        return ERR_PARSE;
    struct error why = *e;
    names_filter_key(names, "view", &key);
    return error_set(e, ERR_PARSE, "key %.*s in Redis: %.300s. Write the field as it was%s",
                     (int)(key.length < 200 ? key.length : 200), key.text, why.text,
                     is_log ? ""
                            : ", or delete the key: a coordinator that remembers the filter writes it again");
}

enum err fence_parse_view(struct view *out, const struct names *names, const redisReply *reply,
                          struct error *e)
{
    enum { FIELDS_MAX = 512 }; /* the view of a log has one for each writer */
    struct view_field fields[FIELDS_MAX];
    size_t count = 0;
    static const char wrong_type[] = "WRONGTYPE ";
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, wrong_type, sizeof(wrong_type) - 1) == 0)
        return error_set(e, ERR_WRONG_TYPE, "%s", reply->str + sizeof(wrong_type) - 1);
    if (reply->type != REDIS_REPLY_ARRAY)
        return error_set(e, ERR_PARSE, "view: %s",
                         reply->type == REDIS_REPLY_ERROR ? reply->str : "not a hash");
    if (reply->elements > 2 * FIELDS_MAX) { /* the one that matters may be behind them */
        (void)error_set(e, ERR_PARSE, "view is damaged: more than %d fields", FIELDS_MAX);
        return tell_what_to_do(names, false, e);
    }
    for (size_t i = 0; i + 1 < reply->elements; i += 2)
        fields[count++] = (struct view_field){.name = reply->element[i]->str,
                                              .name_length = (size_t)reply->element[i]->len,
                                              .value = reply->element[i + 1]->str,
                                              .value_length = (size_t)reply->element[i + 1]->len};
    enum err code = view_parse(out, fields, count, e);
    return code == ERR_PARSE ? tell_what_to_do(names, out->log, e) : code;
}

enum err fence_knows(const struct fence *f, const struct generation *g, struct error *e)
{
    struct placement placement;
    return g->number == 0 ? ERR_OK : placement_resolve(&placement, &f->names, g, link_nodes(f->link), e);
}

enum err fence_load_any(struct fence *f, struct view *out, struct error *e)
{
    struct key_name name;
    redisReply *reply;
    const char *argv[] = {"HGETALL", name.text};
    names_filter_key(&f->names, "view", &name);
    const size_t lengths[] = {7, name.length};
    out->dropped = VIEW_KEPT;
    f->replaced = 0;
    f->latest = f->know == NULL ? (struct view_stamp){0} : f->know(f->on_view_arg, &f->names);
    enum err code = link_append(f->link, fence_home(f), 2, argv, lengths, e);
    if (code == ERR_OK)
        code = link_reply(f->link, fence_home(f), &reply, e);
    if (code != ERR_OK)
        return code;
    code = fence_parse_view(out, &f->names, reply, e);
    if (code == ERR_PARSE && reply->type == REDIS_REPLY_ERROR)
        code = link_refusal(f->link, fence_home(f), reply, e);
    freeReplyObject(reply);
    const struct view_stamp stored = view_stamp_of(out);
    if (code == ERR_OK && view_stamp_is_replaced(&stored, &f->latest)) {
        f->replaced = out->incarnation;
        out->dropped = VIEW_KEPT;
        return error_set(e, ERR_NOT_FOUND,
                         "the metadata node came back with a filter that was replaced since");
    }
    if (code == ERR_OK && out->log != f->logs)
        code = view_refuse_core(out, e);
    f->log = code == ERR_OK && out->log;
    for (unsigned s = 0; s < 2 && code == ERR_OK; s++) {
        f->log_keys[s] = out->keys[s];
        f->log_keys_of[s] = out->slot[s].number;
        code = fence_knows(f, &out->slot[s], e);
    }
    if (code == ERR_OK)
        f->names.incarnation = out->incarnation;
    return code;
}

enum err fence_load(struct fence *f, struct view *out, struct error *e)
{
    enum err code = fence_load_any(f, out, e);
    if (code == ERR_OK && out->dropped == VIEW_DROP_BEGUN)
        return error_set(e, ERR_NOT_FOUND, "the filter is being deleted");
    return code;
}

enum err fence_look(struct fence *f, const struct view *v, struct error *e)
{
    struct key_name name;
    redisReply *reply;
    char incarnation[17];
    uint64_t epoch = 0;
    names_filter_key(&f->names, "view", &name);
    enum err code = link_command(f->link, fence_home(f), &reply, e, "HMGET %b incarnation epoch recovery",
                                 name.text, name.length);
    if (code != ERR_OK)
        return code;
    (void)snprintf(incarnation, sizeof(incarnation), "%016" PRIx64, v->incarnation);
    if (v->log) { /* its version changes with each writer that comes or goes */
        code = reply->elements == 3 && reply->element[0]->type == REDIS_REPLY_STRING &&
                       strcmp(reply->element[0]->str, incarnation) == 0
                   ? ERR_OK
                   : error_set(e, ERR_FENCED, "the view is no longer in Redis");
        freeReplyObject(reply);
        return code;
    }
    bool there = reply->elements == 3 && reply->element[0]->type == REDIS_REPLY_STRING &&
                 reply->element[1]->type == REDIS_REPLY_STRING;
    if (!there)
        code = error_set(e, ERR_FENCED, "the view is no longer in Redis");
    else if (reply->element[2]->type == REDIS_REPLY_STRING && reply->element[2]->len > 0)
        code = error_set(e, ERR_FENCED, "the view in Redis is outdated, and is being restored");
    else if (strcmp(reply->element[0]->str, incarnation) != 0 ||
             !number_u64(reply->element[1]->str, (size_t)reply->element[1]->len, &epoch) ||
             epoch < v->epoch || epoch > v->epoch + 1)
        code = error_set(e, ERR_FENCED, "the view has changed since epoch %" PRIu64, v->epoch);
    freeReplyObject(reply);
    return code;
}

/* --- changing --- */

static void add_field(void *arg, const char *name, const char *value)
{
    script_text(arg, name);
    script_text(arg, value);
}

static void count_field(void *arg, const char *name, const char *value)
{
    (void)name;
    (void)value;
    *(uint64_t *)arg += 2;
}

void fence_put_view(struct fence *f, const struct view *v)
{
    view_format(v, add_field, &f->call);
}

uint64_t fence_count_fields(const struct view *v)
{
    uint64_t count = 0;
    view_format(v, count_field, &count);
    return count;
}

void fence_put_first_view(struct fence *f, const struct view *v, const char *trusted)
{
    fence_put_view(f, v);
    script_text(&f->call, "trusted");
    script_text(&f->call, trusted);
    script_text(&f->call, "trusted_ms");
    script_number(&f->call, fence_trust_time(f));
}

uint64_t fence_count_first_view(const struct view *v)
{
    return fence_count_fields(v) + 4;
}

enum err fence_publish(struct fence *f, const struct view *v, const char *mutex, struct error *e)
{
    struct script_call *c = &f->call;
    struct buffer trusted = {0};
    enum err code = fence_read_trusted(f, v, &trusted, e);
    if (code != ERR_OK) {
        buffer_fini(&trusted);
        return code;
    }
    script_begin(c, embedded_publish);
    fence_put_key(f, "view");
    fence_put_key(f, "expansion_flag");
    fence_put_key(f, "job");
    fence_put_key(f, "count");
    fence_put_key(f, "token");
    script_text(c, mutex);
    fence_put_event(f);
    script_incarnation(c, f->replaced);
    script_number(c, fence_count_first_view(v));
    fence_put_first_view(f, v, buffer_text(&trusted));
    buffer_fini(&trusted);
    long long answer;
    code = script_run(c, f->link, fence_home(f), &answer, e);
    if (code != ERR_OK)
        return code;
    if (answer == 0)
        return error_set(e, ERR_EXISTS, "the filter exists already");
    if (answer < 0)
        return error_set(e, ERR_MUTEX_LOST, "the mutex %s was lost", mutex);
    return ERR_OK;
}

enum err fence_run_change(struct fence *f, const char *mutex, uint64_t epoch, enum err refused,
                          const char *why, struct error *e)
{
    long long answer;
    enum err code = script_run(&f->call, f->link, fence_home(f), &answer, e);
    if (code != ERR_OK)
        return code;
    switch (answer) {
    case 1:
        return ERR_OK;
    case -1:
        return error_set(e, ERR_MUTEX_LOST, "the mutex %s was lost", mutex);
    case -3:
        return error_set(e, ERR_CONFLICT, "epoch %" PRIu64 " is not fenced yet", epoch);
    case -4:
        return error_set(e, refused, "%s", why);
    default:
        return error_set(e, ERR_FENCED, "the view has changed since epoch %" PRIu64, epoch);
    }
}

enum err fence_change(struct fence *f, const struct view *from, const struct view *to, const char *mutex,
                      const struct fence_job *job, struct error *e)
{
    static const struct fence_job nothing = {0};
    if (job == NULL)
        job = &nothing;
    if (!phase_may_follow(from->phase, to->phase))
        return error_set(e, ERR_CONFLICT, "phase %s does not lead to %s", phase_row(from->phase)->name,
                         phase_row(to->phase)->name);
    struct script_call *c = &f->call;
    script_begin(c, embedded_change);
    fence_put_key(f, "view");
    fence_put_key(f, "expansion_flag");
    fence_put_key(f, "job");
    script_text(c, mutex);
    fence_put_event(f);
    script_incarnation(c, from->incarnation);
    script_number(c, from->epoch);
    script_number(c, job->reset ? 1 : 0);
    script_text(c, job->guard == NULL ? "" : job->guard);
    script_number(c, fence_count_fields(to));
    view_format(to, add_field, c);
    for (size_t i = 0; i < job->count; i++)
        script_text(c, job->pairs[i]);
    enum err code =
        fence_run_change(f, mutex, from->epoch, ERR_CANCELLED, "an operator asked for something else", e);
    if (code == ERR_OK)
        fence_tell(f, to);
    return code;
}
