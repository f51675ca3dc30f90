/* SPDX-License-Identifier: MIT */
/* The arguments of TB.*: commands for operators. */
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "service/commands/command.h"
#include "service/config/users.h"
#include "service/protocol/job_id.h"

static const char *take_capacity(const struct argument *value, struct admin_call *call)
{
    if (!number_u64(value->bytes, value->length, &call->capacity) || call->capacity == 0)
        return "RANGE CAPACITY is not a whole number above 0";
    return NULL;
}

static const char *take_error_rate(const struct argument *value, struct admin_call *call)
{
    if (!number_double(value->bytes, value->length, &call->error_rate) || call->error_rate <= 0 ||
        call->error_rate >= 1)
        return "RANGE ERROR is not a number above 0 and below 1";
    return NULL;
}

static const char *take_nodes(const struct argument *value, struct admin_call *call)
{
    if (value->length == 0 || memchr(value->bytes, '\0', value->length) != NULL)
        return "RANGE NODES names no node";
    free(call->nodes);
    call->nodes = buffer_copy(value->bytes, value->length);
    return call->nodes == NULL ? "OOM out of memory" : NULL;
}

/* [CAPACITY n] [ERROR r] [NODES a,b] [HOLD] [DRYRUN] [FULL], as far as the command's value allows. */
const char *command_take_job(const struct command_words *w, struct admin_call *call)
{
    const struct argument *a = w->a;
    const unsigned with = w->command->value;
    const char *error = NULL;
    for (size_t i = 2; i < w->count && error == NULL; i++) {
        bool has_value = (with & WITH_SIZES) != 0 && i + 1 < w->count;
        if (has_value && argument_is(&a[i], "CAPACITY"))
            error = take_capacity(&a[++i], call);
        else if (has_value && argument_is(&a[i], "ERROR"))
            error = take_error_rate(&a[++i], call);
        else if (has_value && argument_is(&a[i], "NODES"))
            error = take_nodes(&a[++i], call);
        else if ((with & WITH_HOLD) != 0 && argument_is(&a[i], "HOLD"))
            call->hold = true;
        else if ((with & WITH_HOLD) != 0 && argument_is(&a[i], "DRYRUN"))
            call->dry_run = true;
        else if ((with & WITH_VERIFY) != 0 && argument_is(&a[i], "FULL"))
            call->verify_full = true;
        else
            error = "ERR syntax error";
    }
    return error;
}

/* FILTER [JOB id], or FILTER ROWS [JOB id] */
const char *command_take_request(const struct command_words *w, struct admin_call *call)
{
    size_t i = 2;
    SCOPED(buffer_fini) struct buffer name = {0};
    if (w->command->value == WISH_THROTTLE) {
        if (!number_u64(w->a[i].bytes, w->a[i].length, &call->rows_per_second))
            return "RANGE ROWS is not a whole number";
        i++;
    }
    if (w->count == i)
        return NULL;
    if (w->count != i + 2 || !argument_is(&w->a[i], "JOB"))
        return "ERR syntax error";
    bool is_its = job_id_take(&name, &call->job, w->a[i + 1].bytes, w->a[i + 1].length) &&
                  name.length == call->filter_length && memcmp(name.data, call->filter, name.length) == 0;
    return is_its ? NULL : "RANGE JOB is not the id of a job of this filter";
}

/* Needs the right to all filters, as GET /v1/nodes does: the nodes belong to no single filter. */
const char *command_take_nodes(const struct command_words *w, struct admin_call *call UNUSED)
{
    return user_may_all_filters(w->user)
               ? NULL
               : "NOPERM this user has no permissions to access all filters, as 'tb.nodes' needs";
}

const char *command_take_doctor(const struct command_words *w, struct admin_call *call UNUSED)
{
    return user_may_all_filters(w->user)
               ? NULL
               : "NOPERM this user has no permissions to access all filters, which TB.DOCTOR looks at";
}

/* FILTER [COUNT n] */
const char *command_take_history(const struct command_words *w, struct admin_call *call)
{
    const struct argument *a = w->a;
    if (w->count != 2 && (w->count != 4 || !argument_is(&a[2], "COUNT")))
        return "ERR syntax error";
    if (w->count == 4 && (!number_u64(a[3].bytes, a[3].length, &call->count) || call->count == 0))
        return "RANGE COUNT is not a whole number above 0";
    return NULL;
}
