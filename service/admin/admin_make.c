/* SPDX-License-Identifier: MIT */
/* Filters are made for somebody who has a quota: BF.RESERVE, TB.INIT, by an add. */
#include "service/admin/admin.h"

enum err admin_create(struct admin *a, struct admin_call *call, struct reply *r UNUSED, struct error *e)
{
    struct error ignored;
    uint64_t bytes = filter_make_bytes(a->config, call->filter, call->filter_length, &call->creation);
    enum err code = admin_quota(a, call, QUOTA_MAKE, bytes, e);
    if (code == ERR_CONFLICT && admin_open(a, call, &ignored) == ERR_OK) /* nothing would be made */
        return error_set(e, ERR_EXISTS, "the filter exists already");
    return code != ERR_OK ? code
                          : filter_make(a->service, a->config, &a->handle, call->filter, call->filter_length,
                                        &call->creation, e);
}

enum err admin_grow(struct admin *a, struct admin_call *call, struct reply *r UNUSED, struct error *e)
{
    return admin_quota(a, call, QUOTA_GROW, 0, e);
}

const char *admin_creation_failure(const struct admin_call *call, enum err code)
{
    bool large = code == ERR_RANGE && call->creation.capacity > INT32_MAX; /* too many shards */
    return large || code == ERR_NOMEM ? "Insufficient memory to create filter" : "could not create filter";
}

static enum err reply_not_created(struct reply *r, const struct admin_call *call, enum err code,
                                  const struct error *e)
{
    if (reply_is_of_redisbloom(code))
        reply_error(r, "ERR %s: %s", admin_creation_failure(call, code), e->text);
    else if (code != ERR_WRONG_TYPE)
        reply_failure(r, code, "%s: %s", admin_creation_failure(call, code), e->text);
    return code;
}

enum err admin_reserve(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    call->creation.anew = true;
    enum err code = admin_create(a, call, r, e);
    if (code != ERR_OK)
        return reply_not_created(r, call, code, e);
    reply_simple(r, "OK");
    return ERR_OK;
}

enum err admin_init(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    enum err code = admin_create(a, call, r, e);
    if (code != ERR_OK && code != ERR_EXISTS)
        return reply_not_created(r, call, code, e);
    reply_integer(r, code == ERR_OK);
    return code;
}
