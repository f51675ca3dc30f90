/* SPDX-License-Identifier: MIT */
/* TB.*: what an operator asks of a coordinator. */
#include <string.h>
#include "base/number.h"
#include "service/admin.h"
#include "service/command.h"

/* [CAPACITY n] [ERROR r] from argument 2 on. NULL: fine; else the error. */
static const char *sizes(const struct argument *a, size_t count, struct admin_call *call)
{
    for (size_t i = 2; i < count; i += 2) {
        if (i + 1 >= count)
            return "ERR syntax error";
        if (argument_is(&a[i], "CAPACITY")) {
            if (!number_u64(a[i + 1].bytes, a[i + 1].length, &call->capacity) || call->capacity == 0)
                return "ERR bad capacity";
        } else if (argument_is(&a[i], "ERROR")) {
            if (!number_double(a[i + 1].bytes, a[i + 1].length, &call->error_rate) || call->error_rate <= 0 ||
                call->error_rate >= 1)
                return "ERR bad error rate";
        } else {
            return "ERR syntax error";
        }
    }
    return NULL;
}

static void call_admin(struct client *c, admin_fn *fn, const struct argument *a, size_t count,
                       bool with_sizes)
{
    struct admin_call *call = admin_call_new(fn, count > 1 ? a[1].bytes : "", count > 1 ? a[1].length : 0);
    const char *error = call == NULL ? "OOM out of memory" : with_sizes ? sizes(a, count, call) : NULL;
    if (error != NULL) {
        admin_call_free(call);
        client_error(c, "%s", error);
        return;
    }
    client_call_admin(c, call);
}

void command_tb_status(struct client *c, const struct argument *a, size_t count)
{
    if (count > 2)
        client_error(c, "ERR wrong number of arguments for 'tb.status' command");
    else
        call_admin(c, admin_status, a, count, false);
}

/* FILTER [COUNT n] */
void command_tb_history(struct client *c, const struct argument *a, size_t count)
{
    uint64_t most = 0;
    if (count != 2 && (count != 4 || !argument_is(&a[2], "COUNT"))) {
        client_error(c, "ERR syntax error");
        return;
    }
    if (count == 4 && (!number_u64(a[3].bytes, a[3].length, &most) || most == 0)) {
        client_error(c, "ERR bad count");
        return;
    }
    struct admin_call *call = admin_call_new(admin_history, a[1].bytes, a[1].length);
    if (call == NULL) {
        client_error(c, "OOM out of memory");
        return;
    }
    call->count = most;
    client_call_admin(c, call);
}

void command_tb_plan(struct client *c, const struct argument *a, size_t count)
{
    call_admin(c, admin_plan, a, count, true);
}

void command_tb_rebuild(struct client *c, const struct argument *a, size_t count)
{
    call_admin(c, admin_rebuild, a, count, true);
}

void command_tb_abort(struct client *c, const struct argument *a, size_t count)
{
    call_admin(c, admin_abort, a, count, false);
}
