/* SPDX-License-Identifier: MIT */
/* DEL, also for HTTP, and deletion at a given time: EXPIRE, TTL. */
#include "base/clock.h"
#include "service/admin/admin.h"

enum { NAMES_AT_ONCE = 16 }; /* of one DEL; then those that wait for the thread have their turn */

/* --- DEL --- */

static const char configured[] =
    "filter '%.*s' is configured: remove [filter %.*s] from the configuration first";

static enum err refuse_configured(const char *name, size_t length, struct error *e)
{
    return error_set(e, ERR_CONFLICT, configured, (int)length, name, (int)length, name);
}

/* Set the error: which filter was not deleted, and the remedy. Returns @code. */
static enum err explain(const struct argument *name, enum err code, struct error *e)
{
    const struct error why = *e;
    return code == ERR_BUSY
               ? error_set(e, code, "filter '%.*s' is busy: %s; abort its job first", (int)name->length,
                           name->bytes, why.text)
               : error_prefix(e, code, "filter '%.*s' is not deleted", (int)name->length, name->bytes);
}

enum err admin_drop(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    for (size_t i = 0; call->cursor == 0 && i < call->names.count; i++) { /* before any filter is deleted */
        const struct argument *name = &call->names.name[i];
        if (config_find(a->config, name->bytes, name->length) != NULL)
            return refuse_configured(name->bytes, name->length, e);
    }
    for (size_t n = 0; call->cursor < call->names.count; n++) {
        if (n == NAMES_AT_ONCE)
            return ERR_ASIDE;
        const struct argument *name = &call->names.name[call->cursor++];
        if (atomic_load(&a->service->stop)) /* no client waits any more, but a million names may follow */
            return error_set(e, ERR_CANCELLED, "the coordinator is shutting down");
        enum err code =
            filter_drop(a->service, a->config, &a->handle, &a->view, name->bytes, name->length, DROP_NOW, e);
        call->count += code == ERR_OK;
        if (code != ERR_OK && code != ERR_NOT_FOUND && code != ERR_RANGE)
            return code == ERR_WRONG_TYPE ? code : explain(name, code, e);
    }
    reply_integer(r, (int64_t)call->count);
    return ERR_OK;
}

enum err admin_delete(struct admin *a, struct admin_call *call, struct reply *r UNUSED, struct error *e)
{
    const struct argument name = {.bytes = call->filter, .length = call->filter_length};
    if (config_find(a->config, name.bytes, name.length) != NULL)
        return refuse_configured(name.bytes, name.length, e);
    enum err code =
        filter_drop(a->service, a->config, &a->handle, &a->view, name.bytes, name.length, DROP_NOW, e);
    return code == ERR_OK ? code : explain(&name, code, e);
}

/* --- expiry --- */

/* Set the expiry. If the time is in the past, the filter is deleted at once: the one that got this time, not
 * one that was made since, nor if it has another time by now. A controller may be faster. *@done: see
 * handle_expire(). */
static enum err expire(struct admin *a, const struct admin_call *call, bool *done, struct error *e)
{
    bool past = call->expire_at_ms != 0 && call->expire_at_ms <= clock_wall_us() / 1000;
    enum err code = handle_expire(&a->handle, call->expire_at_ms, call->flags, done, e);
    if (code == ERR_OK && *done && past)
        code = filter_drop(a->service, a->config, &a->handle, &a->view, call->filter, call->filter_length,
                           DROP_IF_DUE, e);
    return *done && (code == ERR_NOT_FOUND || code == ERR_CONFLICT) ? ERR_OK : code;
}

enum err admin_expire(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    const struct argument name = {.bytes = call->filter, .length = call->filter_length};
    bool done = false;
    enum err code = admin_open(a, call, e);
    if (code == ERR_OK && call->expire_at_ms != 0 && config_find(a->config, name.bytes, name.length) != NULL)
        return refuse_configured(name.bytes, name.length, e);
    if (code == ERR_OK)
        code = expire(a, call, &done, e);
    if (code == ERR_OK || code == ERR_NOT_FOUND)
        reply_integer(r, code == ERR_OK && done);
    if (done)
        mailbox_wake(a->service->controller); /* it must not sleep past that time */
    return code == ERR_BUSY ? explain(&name, code, e) : code;
}

enum err admin_ttl(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    enum err code = admin_open(a, call, e);
    uint64_t at = a->view.expire_at_ms, now = clock_wall_us() / 1000;
    if (code == ERR_NOT_FOUND) {
        reply_integer(r, -2);
    } else if (code == ERR_OK && at == 0) {
        reply_integer(r, -1);
    } else if (code == ERR_OK) {
        uint64_t value = (call->flags & TTL_ABSOLUTE) != 0 ? at : at > now ? at - now : 0;
        reply_integer(r, (int64_t)((call->flags & TTL_SECONDS) != 0 ? (value + 500) / 1000 : value));
    }
    return code;
}
