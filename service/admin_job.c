/* SPDX-License-Identifier: MIT */
/* TB.REBUILD and TB.ABORT. */
#include <stdio.h>
#include <string.h>
#include "service/admin.h"
#include "service/runner.h"

void admin_rebuild(struct admin *a, struct admin_call *call)
{
    struct reply r = {.out = &call->reply, .protocol = call->protocol};
    const struct config_filter *c = config_find(a->config, call->filter, call->filter_length);
    if (c == NULL || c->table[0] == '\0') {
        reply_error(&r,
                    "ERR filter '%s' has no source table in the configuration: nothing to rebuild it from",
                    call->filter);
        return;
    }
    const struct runner_job job = {.config = a->config,
                                   .filter = call->filter,
                                   .filter_length = call->filter_length,
                                   .reason = "asked for by an operator",
                                   .trigger = "operator",
                                   .capacity = call->capacity,
                                   .error_rate = call->error_rate,
                                   .wanted = true};
    call->status = runner_post(a->service->runner, &job, &call->error);
    if (call->status == ERR_OK)
        reply_simple(&r, "OK");
    else if (call->status == ERR_BUSY)
        reply_error(&r, "BUSY %s", call->error.text);
    else
        reply_error(&r, "ERR %s", call->error.text);
}

/* Ask whoever drives the job to abort it; it looks twice a second. */
static enum err ask(struct admin *a, struct admin_call *call)
{
    struct key_name job, flag;
    redisReply *reply = NULL;
    enum err code =
        names_init(&a->fence.names, a->config->prefix, call->filter, call->filter_length, &call->error);
    if (code == ERR_OK)
        code = fence_load(&a->fence, &a->view, &call->error);
    if (code != ERR_OK)
        return code;
    if (a->view.phase == PHASE_SWITCHED)
        return error_set(&call->error, ERR_CONFLICT,
                         "the new generation is in use already: too late to abort");
    names_filter_key(&a->fence.names, "expansion_flag", &flag);
    names_filter_key(&a->fence.names, "job", &job);
    code = link_command(a->link, NODE_HOME, &reply, &call->error, "EXISTS %b", flag.text, flag.length);
    if (code != ERR_OK)
        return code;
    bool running = reply->integer == 1 || a->view.phase == PHASE_BUILDING;
    freeReplyObject(reply);
    if (!running)
        return error_set(&call->error, ERR_CONFLICT, "no job is running");
    code = link_command(a->link, NODE_HOME, &reply, &call->error, "HSET %b abort_requested 1", job.text,
                        job.length);
    if (code == ERR_OK)
        freeReplyObject(reply);
    return code;
}

void admin_abort(struct admin *a, struct admin_call *call)
{
    struct reply r = {.out = &call->reply, .protocol = call->protocol};
    call->status = ask(a, call);
    if (call->status == ERR_OK)
        reply_simple(&r, "OK");
    else
        reply_error(&r, "ERR %s", call->status == ERR_NOT_FOUND ? "not found" : call->error.text);
}
