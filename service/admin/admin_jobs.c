/* SPDX-License-Identifier: MIT */
/* One job of a filter by its id: GET /v1/jobs/{job}.
 *
 * A job is looked for where it can be at the same time, in the order in which it comes there: the mutex names
 * it from its first moment, the record once a step of it is begun, the history with its end. */
#include <string.h>
#include "base/number.h"
#include "expansion/record/history.h"
#include "expansion/record/mutex.h"
#include "service/admin/admin.h"
#include "service/core/field.h"
#include "service/core/job_id.h"

/* What the answer says; texts "" and numbers 0 where it is not known. */
struct job {
    char state[32], step[32], trigger[64], owner[160];
    char reason[HISTORY_VALUE_MAX], error[HISTORY_VALUE_MAX];
    uint64_t id, rows, rows_total, started_ms, finished_ms;
    bool has_rows;
};

static const struct member {
    const char *record, *entry; /* names of the field; NULL: it has none */
    size_t offset, size;        /* size 0: a number */
} members[] = {
#define TEXT(record, entry, member)                                                                          \
    {                                                                                                        \
        record, entry, offsetof(struct job, member), sizeof(((struct job *)0)->member)                       \
    }
#define NUMBER(record, entry, member)                                                                        \
    {                                                                                                        \
        record, entry, offsetof(struct job, member), 0                                                       \
    }
    NUMBER("id", "job_id", id),
    TEXT("state", "outcome", state),
    TEXT("step", NULL, step),
    TEXT("trigger", "trigger", trigger),
    TEXT("reason", "reason", reason),
    TEXT("owner", "owner", owner),
    TEXT("error", "error", error),
    NUMBER("rows", "rows", rows),
    NUMBER("rows_total", NULL, rows_total),
    NUMBER("started_ms", "started_ms", started_ms),
    NUMBER(NULL, "finished_ms", finished_ms),
#undef TEXT
#undef NUMBER
};
enum { MEMBERS = sizeof(members) / sizeof(members[0]) };

static void take(struct job *j, const struct member *m, const char *value)
{
    char *to = (char *)j + m->offset;
    if (m->size == 0)
        (void)number_u64(value, strlen(value), (uint64_t *)(void *)to);
    else
        (void)snprintf(to, m->size, "%s", value);
    j->has_rows |= m->offset == offsetof(struct job, rows);
}

static const struct member *find(bool in_record, const char *name)
{
    for (const struct member *m = members; m < members + MEMBERS; m++) {
        const char *is = in_record ? m->record : m->entry;
        if (is != NULL && strcmp(is, name) == 0)
            return m;
    }
    return NULL;
}

/* --- where a job can be --- */

static enum err ask(struct admin *a, const char *command, const char *key, redisReply **reply,
                    struct error *e)
{
    struct key_name name;
    names_filter_key(&a->fence.names, key, &name);
    return link_command(a->link, handle_home(&a->fence), reply, e, command, name.text, name.length);
}

static enum err look_at_mutex(struct admin *a, uint64_t id, bool *held, bool *is, struct error *e)
{
    redisReply *reply;
    enum err code = ask(a, "GET %b", "expansion_flag", &reply, e);
    if (code != ERR_OK)
        return code;
    *held = reply->type == REDIS_REPLY_STRING;
    *is = *held && mutex_is_of(reply->str, id);
    freeReplyObject(reply);
    return ERR_OK;
}

/* Rows are those of the last scan: a job that scans nothing has none. */
static bool scans(const struct job *j)
{
    enum job_step step;
    return step_parse(j->step, strlen(j->step), &step) && step != STEP_CHECK;
}

/* One that has ended is told by the history. */
static enum err look_at_record(struct admin *a, struct job *j, struct error *e)
{
    redisReply *reply;
    enum err code = ask(a, "HGETALL %b", "job", &reply, e);
    if (code != ERR_OK)
        return code;
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const struct member *m = find(true, reply->element[i]->str);
        if (m != NULL)
            take(j, m, reply->element[i + 1]->str);
    }
    j->has_rows = j->has_rows && scans(j);
    freeReplyObject(reply);
    return ERR_OK;
}

static enum err look_at_history(struct admin *a, uint64_t id, struct job *j, struct error *e)
{
    redisReply *reply;
    enum err code = ask(a, "LRANGE %b 0 -1", "history", &reply, e);
    if (code != ERR_OK)
        return code;
    for (size_t i = 0; i < reply->elements && j->id != id; i++) {
        struct history_pair pair;
        const char *at = reply->element[i]->str;
        *j = (struct job){.id = 0};
        while (history_next(&at, reply->element[i]->str + reply->element[i]->len, &pair)) {
            const struct member *m = find(false, pair.field->name);
            if (m != NULL)
                take(j, m, pair.value);
        }
    }
    freeReplyObject(reply);
    return ERR_OK;
}

static enum err look(struct admin *a, uint64_t id, struct job *j, struct error *e)
{
    bool held = false, begins = false;
    enum err code = look_at_mutex(a, id, &held, &begins, e);
    if (code == ERR_OK)
        code = look_at_record(a, j, e);
    if (code != ERR_OK)
        return code;
    if (j->id == id && strcmp(j->state, "running") == 0) {
        (void)snprintf(j->state, sizeof(j->state), "%s", held ? "running" : "waiting");
        return ERR_OK;
    }
    *j = (struct job){.id = 0};
    code = look_at_history(a, id, j, e);
    if (code != ERR_OK || j->id == id)
        return code;
    if (!begins)
        return error_set(e, ERR_NOT_FOUND,
                         "the filter has no job with this id: it is older than the last %d, or ended before "
                         "its first step",
                         HISTORY_ENTRIES_MAX);
    *j = (struct job){.id = id, .state = "running", .step = "begin"};
    return ERR_OK;
}

/* --- the answer --- */

static void text_or_null(struct fields *f, const char *name, const char *text)
{
    if (text[0] == '\0')
        field_null(f, name);
    else
        field_text(f, name, text);
}

static void number_or_null(struct fields *f, const char *name, bool known, uint64_t number)
{
    if (known)
        field_number(f, name, number);
    else
        field_null(f, name);
}

enum err admin_job(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    struct job j = {.id = 0};
    struct buffer id = {0};
    struct fields f;
    enum err code = names_init(&a->fence.names, a->config->prefix, call->filter, call->filter_length, e);
    if (code == ERR_OK)
        code = look(a, call->job, &j, e);
    if (code != ERR_OK)
        return code;
    job_id_put(&id, call->filter, call->filter_length, call->job);
    fields_begin(&f, r->protocol);
    field_text(&f, "job_id", buffer_text(&id));
    reply_text(&f.reply, "filter");
    reply_bulk(&f.reply, call->filter, call->filter_length);
    f.count++;
    field_text(&f, "state", j.state);
    text_or_null(&f, "step", j.finished_ms == 0 ? j.step : "");
    text_or_null(&f, "trigger", j.trigger);
    text_or_null(&f, "reason", j.reason);
    text_or_null(&f, "owner", j.owner);
    number_or_null(&f, "rows", j.has_rows, j.rows);
    number_or_null(&f, "rows_total", j.has_rows && j.rows_total > 0, j.rows_total);
    field_time(&f, "started_at", j.started_ms);
    field_time(&f, "finished_at", j.finished_ms);
    text_or_null(&f, "error", j.error);
    fields_end(&f, r);
    buffer_fini(&id);
    return ERR_OK;
}
