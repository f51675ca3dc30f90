/* SPDX-License-Identifier: MIT */
#include "service/filters/filter_drop.h"

#include <inttypes.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/filters/filter_make.h"
#include "service/filters/filter_states.h"
#include "shard/generations/drop.h"
#include "shard/generations/leftover.h"
#include "shard/generations/loading.h"
#include "shard/control/filters.h"
#include "shard/view/registry.h"

/* What is deleted. */
struct wish {
    enum drop_when when;
    uint64_t only; /* an incarnation; 0: whichever is there */
};

static enum err may_drop(const struct view *v, const struct wish *wish, struct error *e)
{
    bool due = v->expire_at_ms != 0 && v->expire_at_ms <= clock_wall_us() / 1000;
    if (!v->deleting && (wish->when == DROP_IF_BEGUN || (wish->when == DROP_IF_DUE && !due)))
        return error_set(e, ERR_CONFLICT, "the filter is no longer to be deleted");
    if (wish->only != 0 && v->incarnation != wish->only)
        return error_set(e, ERR_CONFLICT, "the filter was made again meanwhile");
    return ERR_OK;
}

/* There is no view. Remove what a killed maker or deleter has left. Its name goes before its record: a name
 * without either would count as lost. The name of a filter that was lost has another incarnation, and stays.
 */
static enum err drop_leftover(struct handle *f, struct mutex *mutex, struct error *e)
{
    const struct work work = {.fn = filter_hold_mutex, .arg = mutex};
    uint64_t incarnation;
    enum err code = leftover_stop(f->redis, &f->names, &incarnation, e);
    if (code == ERR_OK && incarnation != 0)
        code = registry_leave(f, incarnation, e);
    if (code == ERR_OK && incarnation != 0)
        code = log_drop(f->redis, &f->names, incarnation, 0, &work, e);
    if (code == ERR_OK || code == ERR_NOT_FOUND)
        code = handle_drop_nothing(f, mutex_value(mutex), e);
    return code != ERR_OK ? code : error_set(e, ERR_NOT_FOUND, "the filter does not exist");
}

void filter_keep_name(struct handle *f, struct view *scratch)
{
    struct error e;
    enum err code = handle_load(f, scratch, &e);
    if (code == ERR_OK)
        code = registry_keep(f, &e);
    /* It may be deleted by now, and its deleter may have left the registries before. */
    if (code == ERR_OK && handle_load_any(f, scratch, &e) == ERR_NOT_FOUND)
        code = registry_leave(f, f->names.incarnation, &e);
    if (code != ERR_OK && code != ERR_NOT_FOUND)
        log_warn("filter_not_registered", "filter=%s code=%s error=%s", log_quote(f->names.filter),
                 error_name(code), log_quote(e.text));
}

static enum err drop_under_mutex(struct service *s, struct handle *f, struct view *v, const char *name,
                                 size_t length, const struct wish *wish, struct mutex *mutex, struct error *e)
{
    const struct work work = {.fn = filter_hold_mutex, .arg = mutex};
    enum err code = handle_load_any(f, v, e);
    if (code == ERR_OK)
        code = may_drop(v, wish, e);
    if (code == ERR_NOT_FOUND)
        return drop_leftover(f, mutex, e);
    if (code != ERR_OK)
        return code;
    code = registry_leave(f, v->incarnation, e); /* first: a registered name without a view counts as lost */
    if (code == ERR_OK)
        code = log_drop(f->redis, &f->names, v->incarnation, wish->when == DROP_IF_DUE ? v->expire_at_ms : 0,
                        &work, e);
    filters_look(s->logs, name, length);
    if (code == ERR_CONFLICT)
        filter_keep_name(f, v);
    /* A controller may have registered the name meanwhile: without a view it would count as lost. */
    if (code == ERR_OK)
        code = registry_leave(f, v->incarnation, e);
    if (code != ERR_OK)
        return code;
    handle_announce(f);
    filters_await_end(s->logs, name, length, v->incarnation, s->redis_timeout_ms);
    log_info("filter_deleted", "filter=%s shards=%" PRIu64 " expired=%d", log_quote(name),
             generation_shards(view_current(v)), wish->when == DROP_IF_DUE);
    filter_states_on_dropped(s->watch, name, length, v->incarnation);
    return ERR_OK;
}

/* ERR_NOT_FOUND: there is no record either. */
static enum err look_for_leftover(struct handle *f, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = sync_client_filter_command(f->redis, &f->names, "leftover", "EXISTS %b", &reply, e);
    if (code != ERR_OK)
        return code;
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer == 0)
        code = error_set(e, ERR_NOT_FOUND, "the filter does not exist");
    return code;
}

/* There is neither a view nor a record. Who slept may have named what was deleted since, or an earlier
 * incarnation. It is taken away while it is known what was deleted: later it would count as lost. */
static enum err leave_deleted(struct handle *f, struct error *e)
{
    struct registry_said said = {.named = false};
    uint64_t deleted = 0;
    enum err code = registry_look_deleted(f->redis, &f->names, &deleted, e);
    if (code == ERR_OK && deleted != 0)
        code = registry_look(f->redis, &f->names, &said, e);
    const uint64_t named[] = {deleted, said.incarnation, said.before};
    for (unsigned i = 0; i < sizeof(named) / sizeof(named[0]) && code == ERR_OK; i++)
        if (named[i] != 0 && named[i] <= deleted)
            code = registry_leave(f, named[i], e);
    return code == ERR_OK ? error_set(e, ERR_NOT_FOUND, "the filter does not exist") : code;
}

static enum err drop(struct service *s, const struct config *config, struct handle *f, struct view *scratch,
                     const char *name, size_t length, const struct wish *wish, struct error *e)
{
    struct mutex *mutex = NULL;
    struct mutex_options options = filter_mutex_options(s, config, name, length);
    options.redis = f->redis;
    enum err code = names_init(&f->names, config->prefix, name, length, e);
    if (code == ERR_OK && wish->when != DROP_IF_BEGUN) /* first, so that no load publishes after it */
        code = loading_end(f, e);
    if (code == ERR_OK) /* take no mutex for an invalid name */
        code = handle_load_any(f, scratch, e);
    if (code == ERR_NOT_FOUND)
        code = look_for_leftover(f, e);
    if (code == ERR_NOT_FOUND && wish->when == DROP_IF_BEGUN)
        code = leave_deleted(f, e);
    if (code == ERR_OK)
        code = mutex_acquire(&mutex, &options, options.redis_timeout_ms, e);
    if (code != ERR_OK)
        return code;
    code = drop_under_mutex(s, f, scratch, name, length, wish, mutex, e);
    mutex_release(mutex);
    return code;
}

enum err filter_drop(struct service *s, const struct config *config, struct handle *f, struct view *scratch,
                     const char *name, size_t length, enum drop_when when, struct error *e)
{
    struct wish wish = {.when = when};
    enum err code = drop(s, config, f, scratch, name, length, &wish, e);
    if (code != ERR_NOT_FOUND || when != DROP_NOW)
        return code;
    struct error ignored;
    uint64_t seen = filter_states_seen(s->watch, name, length), deleted = 0;
    bool lost = seen != 0 && registry_look_deleted(f->redis, &f->names, &deleted, &ignored) == ERR_OK &&
                seen > deleted;
    if (!lost && filter_check_lost(f, &ignored) != ERR_LOST)
        return code;
    /* Of a filter that was lost other masters may have lanes that are open, and coordinators have it in
     * memory until they hear of a later one. An empty filter that takes its place ends both; then that one is
     * deleted, and none that somebody else makes meanwhile. */
    const struct creation empty = {.capacity = 1, .non_scaling = true, .anew = true};
    bool others_wait = f->requests_wait;
    f->requests_wait = false;
    code = filter_make(s, config, f, name, length, &empty, e);
    f->requests_wait = others_wait;
    if (code == ERR_EXISTS) /* made since: it was not lost, or what takes its place is there */
        return error_set(e, ERR_NOT_FOUND, "the filter does not exist");
    wish.only = f->names.incarnation;
    return code == ERR_OK ? drop(s, config, f, scratch, name, length, &wish, e) : code;
}
