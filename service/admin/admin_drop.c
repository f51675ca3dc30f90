/* SPDX-License-Identifier: MIT */
/* DEL, also for HTTP, and deletion at a given time: EXPIRE, TTL. */
#include <inttypes.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/admin/admin.h"
#include "service/control/epochs.h"
#include "service/control/controller.h"
#include "shard/generations/loading.h"
#include "shard/view/registry.h"
#include "shard/request/filters.h"
#include "shard/generations/drop.h"

static enum err may_drop(const struct view *v, enum drop_when when, struct error *e)
{
    bool due = v->expire_at_ms != 0 && v->expire_at_ms <= clock_wall_us() / 1000;
    if (!v->deleting && (when == DROP_IF_BEGUN || (when == DROP_IF_DUE && !due)))
        return error_set(e, ERR_CONFLICT, "the filter is no longer to be deleted");
    return ERR_OK;
}

/* There is no view. A name that has lost its view stays registered; any other is removed. @cleared: the
 * remains of an unfinished creation or deletion were removed. */
static enum err unlist_nothing(struct handle *f, bool cleared, struct error *e)
{
    struct registry_said said;
    enum err code = registry_look(f->redis, &f->names, &said, e);
    if (code == ERR_OK && (cleared || !said.named))
        code = registry_leave(f, said.incarnation, e);
    return code;
}

static enum err drop_under_mutex(struct service *s, struct handle *f, struct view *v, const char *name,
                                 size_t length, enum drop_when when, struct mutex *mutex, struct error *e)
{
    const struct work work = {.fn = admin_hold_mutex, .arg = mutex};
    enum err code = handle_load_any(f, v, e);
    bool was = code == ERR_OK;
    if (was)
        code = may_drop(v, when, e);
    if (was && code == ERR_OK) /* first, because a registered name without a view counts as lost */
        code = registry_leave(f, v->incarnation, e);
    if (code == ERR_OK || code == ERR_NOT_FOUND) /* a deleter may have died behind the view */
        code = log_drop(f->redis, &f->names, &work, e);
    filters_look(s->logs, name, length);
    if (code == ERR_NOT_FOUND || (code == ERR_OK && !was)) {
        code = unlist_nothing(f, code == ERR_OK, e);
        if (code == ERR_OK)
            code = handle_drop_nothing(f, mutex_value(mutex), e);
        return code != ERR_OK ? code : error_set(e, ERR_NOT_FOUND, "the filter does not exist");
    }
    /* A controller may have registered the name meanwhile: without a view it would count as lost. */
    if (code == ERR_OK)
        code = registry_leave(f, v->incarnation, e);
    if (code != ERR_OK)
        return code;
    handle_announce(f);
    filters_await_end(s->logs, name, length, v->incarnation, s->redis_timeout_ms);
    epochs_hold(s->epochs, f->names.filter, 0, 0);
    log_info("filter_deleted", "filter=%s shards=%" PRIu64 " expired=%d", log_quote(name),
             generation_shards(view_current(v)), when == DROP_IF_DUE);
    service_on_dropped(s, name, length, v->incarnation);
    return ERR_OK;
}

enum err admin_drop_filter(struct service *s, const struct config *config, struct handle *f,
                           struct view *scratch, const char *name, size_t length, enum drop_when when,
                           struct error *e)
{
    struct mutex *mutex = NULL;
    struct mutex_options options = admin_mutex_options(s, config, name, length);
    options.redis = f->redis;
    enum err code = names_init(&f->names, config->prefix, name, length, e);
    if (code == ERR_OK && when != DROP_IF_BEGUN) /* first, so that no load publishes after it */
        code = loading_end(f, e);
    if (code == ERR_OK) /* take no mutex for an invalid name */
        code = handle_load_any(f, scratch, e);
    if (code == ERR_OK)
        code = mutex_wait(&mutex, &options, options.redis_timeout_ms, e);
    if (code != ERR_OK)
        return code;
    code = drop_under_mutex(s, f, scratch, name, length, when, mutex, e);
    mutex_release(mutex);
    return code;
}

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
    int64_t dropped = 0;
    for (size_t i = 0; i < call->names.count; i++) { /* before any filter is deleted */
        const struct argument *name = &call->names.name[i];
        if (config_find(a->config, name->bytes, name->length) != NULL)
            return refuse_configured(name->bytes, name->length, e);
    }
    for (size_t i = 0; i < call->names.count; i++) {
        const struct argument *name = &call->names.name[i];
        enum err code = admin_drop_filter(a->service, a->config, &a->handle, &a->view, name->bytes,
                                          name->length, DROP_NOW, e);
        dropped += code == ERR_OK;
        if (code != ERR_OK && code != ERR_NOT_FOUND && code != ERR_RANGE)
            return code == ERR_WRONG_TYPE ? code : explain(name, code, e);
    }
    reply_integer(r, dropped);
    return ERR_OK;
}

enum err admin_delete(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    const struct argument name = {.bytes = call->filter, .length = call->filter_length};
    (void)r;
    if (config_find(a->config, name.bytes, name.length) != NULL)
        return refuse_configured(name.bytes, name.length, e);
    enum err code =
        admin_drop_filter(a->service, a->config, &a->handle, &a->view, name.bytes, name.length, DROP_NOW, e);
    return code == ERR_OK ? code : explain(&name, code, e);
}

/* --- expiry --- */

/* Set the expiry; a time in the past deletes at once. *@done: see handle_expire(). */
static enum err expire(struct admin *a, const struct admin_call *call, bool *done, struct error *e)
{
    bool past = call->expire_at_ms != 0 && call->expire_at_ms <= clock_wall_us() / 1000;
    enum err code = handle_expire(&a->handle, call->expire_at_ms, call->flags, past, done, e);
    if (code == ERR_OK && *done && past)
        code = admin_drop_filter(a->service, a->config, &a->handle, &a->view, call->filter,
                                 call->filter_length, DROP_NOW, e);
    return code;
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
        controller_wake(a->service); /* it must not sleep past that time */
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
