/* SPDX-License-Identifier: MIT */
/* BF.SCANDUMP, BF.LOADCHUNK, TB.LOAD. Errors of the first two are verbatim those of RedisBloom. */
#include "base/number.h"
#include "service/admin/admin.h"
#include "service/commands/command.h"

/* @position and @data may be NULL. */
static void call_admin(struct client *c, admin_fn *fn, const struct argument *filter,
                       const struct argument *position, const struct argument *data)
{
    struct admin_call *call = admin_call_new(fn, filter->bytes, filter->length);
    if (call != NULL && data != NULL)
        buffer_append(&call->data, data->bytes, data->length);
    if (call == NULL || buffer_failed(&call->data)) {
        admin_call_free(call);
        client_error(c, "OOM out of memory");
        return;
    }
    call->position_given = position != NULL && number_i64(position->bytes, position->length, &call->position);
    client_call_admin(c, call);
}

/* The position is not checked here: first the admin thread checks that the filter exists. */
void command_bf_scandump(struct client *c, const struct argument *a, size_t count)
{
    (void)count;
    call_admin(c, admin_scandump, &a[1], &a[2], NULL);
}

void command_bf_loadchunk(struct client *c, const struct argument *a, size_t count)
{
    int64_t position;
    (void)count;
    if (!number_i64(a[2].bytes, a[2].length, &position))
        client_error(c, "ERR Second argument must be numeric");
    else
        call_admin(c, admin_loadchunk, &a[1], &a[2], &a[3]);
}

void command_tb_load(struct client *c, const struct argument *a, size_t count)
{
    (void)count;
    call_admin(c, admin_load_status, &a[1], NULL, NULL);
}
