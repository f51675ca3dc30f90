/* SPDX-License-Identifier: MIT */
/* TB.REBUILD, TB.VERIFY, and requests to a running job. */
#include <stdlib.h>
#include "expansion/job/memory.h"
#include "expansion/job/survey.h"
#include "service/admin/admin.h"

/* A job records its end shortly before it releases its mutex: wait this long, so that a user who saw the end
 * is not told that the job still runs. */
enum { ENDING_MS = 500 };

struct runner_job admin_rebuild_job(struct admin *a, const struct admin_call *call)
{
    return (struct runner_job){.config = a->config,
                               .filter = call->filter,
                               .filter_length = call->filter_length,
                               .reason = "asked for by an operator",
                               .trigger = "operator",
                               .capacity = call->capacity,
                               .error_rate = call->error_rate,
                               .nodes = call->nodes,
                               .hold = call->hold,
                               .verify_full = call->verify_full,
                               .wait_ms = ENDING_MS,
                               .of = &a->handle,
                               .kind = JOB_EXPAND};
}

enum err admin_need_source(struct admin *a, struct admin_call *call, struct reply *r, const char *nothing,
                           struct error *e)
{
    const struct config_filter *c = config_find(a->config, call->filter, call->filter_length);
    if (c != NULL && c->table[0] != '\0')
        return ERR_OK;
    enum err code = c == NULL ? admin_open(a, call, e) : ERR_OK;
    if (code == ERR_OK || code == ERR_NOT_FOUND)
        code = error_set(e, code == ERR_OK ? ERR_CONFLICT : code,
                         "filter '%s' has no source: nothing to %s; set table in [filter %s]", call->filter,
                         nothing, call->filter);
    reply_failure(r, code, "%s", e->text);
    return code;
}

/* Check the requested nodes: all coordinators know them, and they reply. */
static enum err check_nodes(struct admin *a, const struct runner_job *job, struct error *e)
{
    struct driver_options options;
    struct placement on;
    SCOPED(scope_free) struct plan_node *memory = NULL;
    unsigned count;
    runner_options(&options, a->service, job);
    enum err code = survey_nodes(&options, a->redis, &on, e);
    if (code == ERR_OK && (a->view.phase == PHASE_BUILDING || a->view.phase == PHASE_SWITCHED))
        code = error_set(e, ERR_BUSY,
                         "an earlier job is unfinished and has its nodes: abort it, or wait for its end");
    return code == ERR_OK ? memory_of_filter(&a->handle, NULL, &on, &memory, &count, e) : code;
}

static enum err post(struct admin *a, struct admin_call *call, const struct runner_job *job, struct reply *r,
                     struct error *e)
{
    enum err code = runner_post(a->threads->runner, job, &call->job, e);
    if (code == ERR_OK)
        reply_simple(r, "OK");
    return code;
}

enum err admin_rebuild(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    if (call->dry_run)
        return admin_plan(a, call, r, e);
    enum err code = admin_need_source(a, call, r, "rebuild it from", e);
    const struct runner_job job = admin_rebuild_job(a, call);
    if (code != ERR_OK)
        return code;
    /* Report an error that the job would meet at its beginning right away, if it is known. */
    code = admin_open(a, call, e);
    if (code == ERR_OK && call->nodes != NULL)
        code = check_nodes(a, &job, e);
    bool known = code != ERR_OK && (code == ERR_FORMAT || code == ERR_CONFIG || call->nodes != NULL);
    return known ? code : post(a, call, &job, r, e);
}

enum err admin_verify(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    struct runner_job job = admin_rebuild_job(a, call);
    job.reason = "a verification asked for by an operator";
    job.trigger = "verify";
    job.kind = JOB_CHECK;
    enum err code = admin_need_source(a, call, r, "verify it against", e);
    if (code != ERR_OK)
        return code;
    code = admin_open(a, call, e);
    /* An unbuilt generation answers "maybe" for every key, and a verification would delay its build. */
    if (code == ERR_NOT_FOUND || (code == ERR_OK && !view_current(&a->view)->built))
        code = error_set(e, ERR_CONFLICT, "filter '%s' is not built yet: nothing to verify", call->filter);
    return code == ERR_OK ? post(a, call, &job, r, e) : code;
}

enum err admin_control(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    enum err code = names_init(&a->handle.names, a->config->prefix, call->filter, call->filter_length, e);
    if (code == ERR_OK && call->job == 0) /* the caller has named none */
        code = control_job(&a->handle, &call->job, e);
    if (code == ERR_OK)
        code = control_ask(&a->handle, (enum control_wish)call->flags, call->rows_per_second, call->job, e);
    if (code == ERR_OK)
        reply_simple(r, "OK");
    return code;
}
