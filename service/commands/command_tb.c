/* SPDX-License-Identifier: MIT */
/* TB.*: commands for operators. */
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "service/admin/admin.h"
#include "service/commands/command.h"
#include "service/config/users.h"

enum { WITH_SIZES = 1, WITH_HOLD = 2, WITH_VERIFY = 4, WITH_RATE = 8 };

/* The value of an option; NULL: there is none. */
static const struct argument *value_of(const struct argument *a, size_t count, size_t i)
{
    return i + 1 < count ? &a[i + 1] : NULL;
}

static const char *take_capacity(const struct argument *value, struct admin_call *call)
{
    if (value == NULL)
        return "ERR syntax error";
    if (!number_u64(value->bytes, value->length, &call->capacity) || call->capacity == 0)
        return "RANGE CAPACITY is not a whole number above 0";
    return NULL;
}

static const char *take_error_rate(const struct argument *value, struct admin_call *call)
{
    if (value == NULL)
        return "ERR syntax error";
    if (!number_double(value->bytes, value->length, &call->error_rate) || call->error_rate <= 0 ||
        call->error_rate >= 1)
        return "RANGE ERROR is not a number above 0 and below 1";
    return NULL;
}

static const char *take_nodes(const struct argument *value, struct admin_call *call)
{
    if (value == NULL)
        return "ERR syntax error";
    if (value->length == 0 || memchr(value->bytes, '\0', value->length) != NULL)
        return "RANGE NODES names no node";
    free(call->nodes);
    call->nodes = calloc(1, value->length + 1);
    if (call->nodes == NULL)
        return "OOM out of memory";
    memcpy(call->nodes, value->bytes, value->length);
    return NULL;
}

/* [CAPACITY n] [ERROR r] [NODES a,b] [HOLD] [DRYRUN] [FULL] from argument 2 on, as far as @with allows.
 * Returns NULL, or the error. */
static const char *options(const struct argument *a, size_t count, unsigned with, struct admin_call *call)
{
    const char *error = NULL;
    for (size_t i = 2; i < count && error == NULL; i++) {
        if ((with & WITH_SIZES) != 0 && argument_is(&a[i], "CAPACITY"))
            error = take_capacity(value_of(a, count, i++), call);
        else if ((with & WITH_SIZES) != 0 && argument_is(&a[i], "ERROR"))
            error = take_error_rate(value_of(a, count, i++), call);
        else if ((with & WITH_SIZES) != 0 && argument_is(&a[i], "NODES"))
            error = take_nodes(value_of(a, count, i++), call);
        else if ((with & WITH_HOLD) != 0 && argument_is(&a[i], "HOLD"))
            call->hold = true;
        else if ((with & WITH_HOLD) != 0 && argument_is(&a[i], "DRYRUN"))
            call->dry_run = true;
        else if ((with & WITH_VERIFY) != 0 && argument_is(&a[i], "FULL"))
            call->verify_full = true;
        else if ((with & WITH_RATE) != 0 && number_u64(a[i].bytes, a[i].length, &call->rows_per_second))
            continue;
        else
            error = (with & WITH_RATE) != 0 ? "RANGE ROWS is not a whole number" : "ERR syntax error";
    }
    return error;
}

static void call_admin(struct client *c, admin_fn *fn, const struct argument *a, size_t count, unsigned with,
                       enum control_wish wish)
{
    struct admin_call *call = admin_call_new(fn, count > 1 ? a[1].bytes : "", count > 1 ? a[1].length : 0);
    const char *error = call == NULL ? "OOM out of memory" : options(a, count, with, call);
    if (error != NULL) {
        admin_call_free(call);
        client_error(c, "%s", error);
        return;
    }
    call->wish = wish;
    client_call_admin(c, call);
}

void command_tb_status(struct client *c, const struct argument *a, size_t count)
{
    if (count > 2)
        client_error(c, "ERR wrong number of arguments for 'tb.status' command");
    else
        call_admin(c, admin_status, a, count, 0, 0);
}

void command_tb_coordinators(struct client *c, const struct argument *a, size_t count)
{
    if (count > 2)
        client_error(c, "ERR wrong number of arguments for 'tb.coordinators' command");
    else
        call_admin(c, admin_coordinators, a, count, 0, 0);
}

/* Needs the right to all filters, as GET /v1/nodes does: the nodes belong to no single filter. */
void command_tb_nodes(struct client *c, const struct argument *a, size_t count)
{
    if (user_may_all_filters(c->session.rights))
        call_admin(c, admin_nodes, a, count, 0, 0);
    else
        client_error(c, "NOPERM this user has no permissions to access all filters, as 'tb.nodes' needs");
}

void command_tb_doctor(struct client *c, const struct argument *a, size_t count)
{
    if (!user_may_all_filters(c->session.rights)) {
        client_error(c,
                     "NOPERM this user has no permissions to access all filters, which TB.DOCTOR looks at");
        return;
    }
    call_admin(c, admin_doctor, a, count, 0, 0);
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
        client_error(c, "RANGE COUNT is not a whole number above 0");
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
    call_admin(c, admin_plan, a, count, WITH_SIZES, 0);
}

void command_tb_rebuild(struct client *c, const struct argument *a, size_t count)
{
    call_admin(c, admin_rebuild, a, count, WITH_SIZES | WITH_HOLD | WITH_VERIFY, 0);
}

void command_tb_verify(struct client *c, const struct argument *a, size_t count)
{
    call_admin(c, admin_verify, a, count, WITH_VERIFY, 0);
}

void command_tb_abort(struct client *c, const struct argument *a, size_t count)
{
    call_admin(c, admin_control, a, count, 0, WISH_ABORT);
}

void command_tb_accept(struct client *c, const struct argument *a, size_t count)
{
    call_admin(c, admin_accept, a, count, 0, 0);
}

void command_tb_cutover(struct client *c, const struct argument *a, size_t count)
{
    call_admin(c, admin_control, a, count, 0, WISH_CUTOVER);
}

void command_tb_rollback(struct client *c, const struct argument *a, size_t count)
{
    call_admin(c, admin_control, a, count, 0, WISH_ROLLBACK);
}

void command_tb_finish(struct client *c, const struct argument *a, size_t count)
{
    call_admin(c, admin_control, a, count, 0, WISH_FINISH);
}

void command_tb_pause(struct client *c, const struct argument *a, size_t count)
{
    call_admin(c, admin_control, a, count, 0, WISH_PAUSE);
}

void command_tb_resume(struct client *c, const struct argument *a, size_t count)
{
    call_admin(c, admin_control, a, count, 0, WISH_RESUME);
}

void command_tb_throttle(struct client *c, const struct argument *a, size_t count)
{
    call_admin(c, admin_control, a, count, WITH_RATE, WISH_THROTTLE);
}
