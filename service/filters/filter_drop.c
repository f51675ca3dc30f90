/* SPDX-License-Identifier: MIT */
#include "service/filters/filter_drop.h"

#include <inttypes.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/filters/epochs.h"
#include "service/filters/filter_make.h"
#include "service/filters/filter_states.h"
#include "shard/generations/drop.h"
#include "shard/generations/loading.h"
#include "shard/request/filters.h"
#include "shard/view/registry.h"

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
    const struct work work = {.fn = filter_hold_mutex, .arg = mutex};
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
    filter_states_on_dropped(s->watch, name, length, v->incarnation);
    return ERR_OK;
}

enum err filter_drop(struct service *s, const struct config *config, struct handle *f, struct view *scratch,
                     const char *name, size_t length, enum drop_when when, struct error *e)
{
    struct mutex *mutex = NULL;
    struct mutex_options options = filter_mutex_options(s, config, name, length);
    options.redis = f->redis;
    enum err code = names_init(&f->names, config->prefix, name, length, e);
    if (code == ERR_OK && when != DROP_IF_BEGUN) /* first, so that no load publishes after it */
        code = loading_end(f, e);
    if (code == ERR_OK) /* take no mutex for an invalid name */
        code = handle_load_any(f, scratch, e);
    if (code == ERR_OK)
        code = mutex_acquire(&mutex, &options, options.redis_timeout_ms, e);
    if (code != ERR_OK)
        return code;
    code = drop_under_mutex(s, f, scratch, name, length, when, mutex, e);
    mutex_release(mutex);
    return code;
}
