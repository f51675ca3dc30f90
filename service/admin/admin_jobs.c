/* SPDX-License-Identifier: MIT */
/* One job of a filter by its id: GET /v1/jobs/{job}.
 *
 * A job is looked for where it can be at the same time, in the order in which it comes there: the mutex names
 * it from its first moment, the record once a step of it is begun, the history with its end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "expansion/record/history.h"
#include "expansion/record/mutex.h"
#include "service/admin/admin.h"
#include "service/core/field.h"
#include "service/core/job_id.h"

/* What the answer says of it, in this order behind its id. */
enum { ID, STATE, STEP, TRIGGER, REASON, OWNER, ROWS, ROWS_TOTAL, STARTED, FINISHED, ERROR, MEMBERS };
static const struct member {
    const char *record, *entry; /* where it is; NULL: there it is not */
    const char *shown;
    enum history_kind kind;
} members[MEMBERS] = {
    [ID] = {"id", "job_id", "job_id", HISTORY_JOB_ID},
    [STATE] = {"state", "outcome", "state", HISTORY_TEXT},
    [STEP] = {"step", NULL, "step", HISTORY_TEXT},
    [TRIGGER] = {"trigger", "trigger", "trigger", HISTORY_TEXT},
    [REASON] = {"reason", "reason", "reason", HISTORY_TEXT},
    [OWNER] = {"owner", "owner", "owner", HISTORY_TEXT},
    [ROWS] = {"rows", "rows", "rows", HISTORY_COUNT},
    [ROWS_TOTAL] = {"rows_total", NULL, "rows_total", HISTORY_COUNT},
    [STARTED] = {"started_ms", "started_ms", "started_at", HISTORY_TIME_MS},
    [FINISHED] = {NULL, "finished_ms", "finished_at", HISTORY_TIME_MS},
    [ERROR] = {"error", "error", "error", HISTORY_TEXT},
};

struct job {
    char value[MEMBERS][HISTORY_VALUE_MAX]; /* "": not known */
};

static void take(struct job *j, bool in_record, const char *name, const char *value)
{
    for (size_t i = 0; i < MEMBERS; i++) {
        const char *is = in_record ? members[i].record : members[i].entry;
        if (is != NULL && strcmp(is, name) == 0)
            (void)snprintf(j->value[i], sizeof(j->value[i]), "%s", value);
    }
}

static bool has_id(const struct job *j, uint64_t id)
{
    uint64_t is = 0;
    return number_u64(j->value[ID], strlen(j->value[ID]), &is) && is == id;
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

/* One that has ended is told by the history. */
static enum err look_at_record(struct admin *a, struct job *j, struct error *e)
{
    redisReply *reply;
    enum err code = ask(a, "HGETALL %b", "job", &reply, e);
    if (code != ERR_OK)
        return code;
    for (size_t i = 0; i + 1 < reply->elements; i += 2)
        take(j, true, reply->element[i]->str, reply->element[i + 1]->str);
    enum job_step step; /* rows are those of the last scan: a job that scans nothing has none */
    if (!step_parse(j->value[STEP], strlen(j->value[STEP]), &step) || step == STEP_CHECK)
        j->value[ROWS][0] = '\0';
    freeReplyObject(reply);
    return ERR_OK;
}

static enum err look_at_history(struct admin *a, uint64_t id, struct job *j, struct error *e)
{
    redisReply *reply;
    enum err code = ask(a, "LRANGE %b 0 -1", "history", &reply, e);
    if (code != ERR_OK)
        return code;
    for (size_t i = 0; i < reply->elements && !has_id(j, id); i++) {
        struct history_pair pair;
        const char *at = reply->element[i]->str;
        *j = (struct job){0};
        while (history_next(&at, reply->element[i]->str + reply->element[i]->len, &pair))
            take(j, false, pair.field->name, pair.value);
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
    if (has_id(j, id) && strcmp(j->value[STATE], "running") == 0) {
        (void)strcpy(j->value[STATE], held ? "running" : "waiting");
        return ERR_OK;
    }
    *j = (struct job){0};
    code = look_at_history(a, id, j, e);
    if (code != ERR_OK || has_id(j, id))
        return code;
    if (!begins)
        return error_set(e, ERR_NOT_FOUND,
                         "the filter has no job with this id: it is older than the last %d, or ended before "
                         "its first step",
                         HISTORY_ENTRIES_MAX);
    *j = (struct job){.value = {[STATE] = "running", [STEP] = "begin"}};
    return ERR_OK;
}

/* --- the answer --- */

enum err admin_job(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    struct job *j = calloc(1, sizeof(*j));
    struct fields f;
    if (j == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = names_init(&a->fence.names, a->config->prefix, call->filter, call->filter_length, e);
    if (code == ERR_OK)
        code = look(a, call->job, j, e);
    if (code != ERR_OK) {
        free(j);
        return code;
    }
    if (j->value[FINISHED][0] != '\0')
        j->value[STEP][0] = '\0';
    if (j->value[ROWS][0] == '\0' || strcmp(j->value[ROWS_TOTAL], "0") == 0)
        j->value[ROWS_TOTAL][0] = '\0';
    fields_begin(&f, r->protocol);
    field_job_id(&f, call->filter, call->filter_length, call->job);
    reply_text(&f.reply, "filter");
    reply_bulk(&f.reply, call->filter, call->filter_length);
    f.count++;
    for (size_t i = STATE; i < MEMBERS; i++)
        if (j->value[i][0] == '\0')
            field_null(&f, members[i].shown);
        else
            admin_put_value(&f, call->filter, call->filter_length, members[i].shown, members[i].kind,
                            j->value[i]);
    fields_end(&f, r);
    free(j);
    return ERR_OK;
}
