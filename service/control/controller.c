/* SPDX-License-Identifier: MIT */
#include "service/control/controller.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/record/control.h"
#include "expansion/record/mutex.h"
#include "service/admin/admin.h"
#include "service/control/controller_internal.h"
#include "service/jobs/runner.h"
#include "service/jobs/followers.h"
#include "service/filters/filter_states.h"
#include "shard/redis/ahead.h"
#include "shard/view/registry.h"
#include "shard/view/view_load.h"
#include "shard/control/filters.h"

enum { ACT_EVERY_US = 1000 * 1000 /* see controller_is_rate_limited() */ };

/* --- a look at one filter --- */

bool controller_is_rate_limited(const struct controller *k, uint64_t at)
{
    uint64_t interval = k->config->check_interval_ms * 1000;
    return at != 0 && clock_mono_us() - at < (interval < ACT_EVERY_US ? interval : ACT_EVERY_US);
}

/* Note what is wrong with the filter; "": nothing. */
static void note_problem(struct filter_state *w, const char *text)
{
    if (strcmp(w->note.problem, text) != 0 && text[0] != '\0')
        log_warn("filter_problem", "filter=%s problem=%s", log_quote(w->name), log_quote(text));
    (void)snprintf(w->note.problem, sizeof(w->note.problem), "%.*s", (int)sizeof(w->note.problem) - 1, text);
}

bool controller_start(struct controller *k, struct filter_state *w, const char *reason, const char *trigger,
                      enum job_kind kind)
{
    struct error e;
    if (controller_is_rate_limited(k, w->started_at))
        return false;
    const struct runner_job job = {.config = k->config,
                                   .filter = w->name,
                                   .filter_length = w->length,
                                   .reason = reason,
                                   .trigger = trigger,
                                   .kind = kind};
    enum err code = runner_post(k->o->runner, &job, NULL, &e);
    if (code != ERR_BUSY)
        w->started_at = clock_mono_us();
    if (code == ERR_OK)
        k->held_until_ms = 0;
    if (code == ERR_OK)
        log_info("job_queued", "filter=%s reason=%s", log_quote(w->name), log_quote(reason));
    else if (code != ERR_BUSY)
        note_problem(w, e.text);
    return code == ERR_OK;
}

static void on_made(void *call)
{
    admin_call_free(call);
}

static void make_missing(struct controller *k, struct filter_state *w, bool sourced)
{
    struct error e;
    if (!sourced && filter_states_seen(w->watch, w->name, w->length) != 0)
        return; /* see note_lost() */
    if (controller_is_rate_limited(k, w->made_at))
        return;
    k->handle.requests_wait = true; /* other filters wait for this one */
    enum err code = filter_make(k->service, k->config, &k->handle, w->name, w->length, NULL, &e);
    k->handle.requests_wait = false;
    if (code == ERR_ASIDE) {
        struct admin_call *call = admin_call_new(admin_create, w->name, w->length);
        if (call != NULL)
            admin_post_to(k->o->admin->aside, call, k->service->controller, on_made);
    }
    if (code != ERR_BUSY)
        w->made_at = clock_mono_us();
    bool well = code == ERR_OK || code == ERR_EXISTS || code == ERR_BUSY || code == ERR_ASIDE;
    note_problem(w, well ? "" : e.text);
}

/* True if the filter's expiry has come. A configured filter never expires, as it would be made again. */
static bool is_due(struct controller *k, const struct config_filter *c)
{
    uint64_t at = k->view.expire_at_ms;
    if (at == 0 || c != NULL)
        return false;
    if (at <= clock_wall_us() / 1000)
        return true;
    if (k->next_due_ms == 0 || at < k->next_due_ms)
        k->next_due_ms = at;
    return false;
}

/* Load the view, after deleting the filter if it is due or if its deletion was begun. */
static enum err load_kept(struct controller *k, struct filter_state *w, const struct config_filter *c,
                          bool held, struct error *e)
{
    enum err code = handle_load_any(&k->handle, &k->view, e);
    bool begun = code == ERR_OK && k->view.deleting;
    bool due = code == ERR_OK && !begun && is_due(k, c);
    if ((begun || due) && !held && !controller_is_rate_limited(k, w->dropped_at)) {
        code = filter_drop(k->service, k->config, &k->handle, &k->view, w->name, w->length,
                           due ? DROP_IF_DUE : DROP_IF_BEGUN, e);
        if (code != ERR_OK && code != ERR_NOT_FOUND && code != ERR_BUSY && code != ERR_CONFLICT) {
            w->dropped_at = clock_mono_us();
            return error_prefix(e, code, "it is not deleted yet");
        }
        if (code != ERR_NOT_FOUND)
            code = handle_load_any(&k->handle, &k->view, e);
    }
    return code == ERR_OK && k->view.deleting ? error_set(e, ERR_NOT_FOUND, "the filter is being deleted")
                                              : code;
}

/* Decide whether to follow the filter's table: always, or in all coordinators while a job that relies on it
 * runs. If the view cannot be read, nothing changes. */
static void look_at_tail(struct controller *k, const struct config_filter *c, enum err code, bool held)
{
    struct followers *followers = k->o->followers;
    bool sourced = c->table[0] != '\0' && code == ERR_OK;
    bool job = false;
    struct error e;
    if (sourced && !c->follow && c->follow_by != FOLLOW_BY_IDS && held)
        code = controller_job_runs(k, &job, &e);
    if (code == ERR_OK || code == ERR_NOT_FOUND)
        followers_want(followers, k->config, c, sourced && (c->follow || job));
}

/* There is no view, and nobody holds the mutex. Delete what a killed maker or deleter has left of the filter.
 * @seen: the incarnation that this process has seen. It is remembered until nothing is left: the name may be
 * out of the list by now. */
static void clear(struct controller *k, struct filter_state *w, uint64_t seen)
{
    struct error e;
    if (controller_is_rate_limited(k, w->dropped_at))
        return;
    enum err code =
        filter_drop(k->service, k->config, &k->handle, &k->view, w->name, w->length, DROP_IF_BEGUN, &e);
    if (code != ERR_OK && code != ERR_NOT_FOUND)
        w->dropped_at = clock_mono_us();
    else if (seen != 0)
        filter_states_on_dropped(k->service->watch, w->name, w->length, seen);
}

/* Load the filter's status in this process into k->status. False: the filter is not open here. */
static bool load_status(struct controller *k, const struct filter_state *w)
{
    return filters_status(k->service->logs, w->name, w->length, &k->status);
}

/* Log a line for each change of the number of shards missing in Redis. */
static void tell_lost(struct controller *k, struct filter_state *w)
{
    uint64_t lost = load_status(k, w) ? k->status.lost.count : w->lost_shards;
    if (lost != w->lost_shards)
        log_warn("lost_shards", "filter=%s shards=%" PRIu64 " before=%" PRIu64, log_quote(w->name), lost,
                 w->lost_shards);
    w->lost_shards = lost;
}

/* Note whether acknowledged keys may be missing. */
static void note_degraded(struct controller *k, struct filter_state *w)
{
    bool degraded = k->view.degraded && view_current(&k->view)->built;
    if (!degraded && w->note.degraded_ms != 0)
        log_info("healthy", "filter=%s epoch=%" PRIu64, log_quote(w->name), k->view.epoch);
    if (!degraded)
        w->note.degraded_ms = 0;
    else if (w->note.degraded_ms == 0)
        w->note.degraded_ms = clock_wall_us() / 1000;
    note_problem(w, degraded ? "acknowledged keys may be missing: no key is reported absent" : "");
}

/* Note which version of the view, k->view, this coordinator serves. All its event loops serve the same. A
 * coordinator that still answers from the previous generation serves the previous version. */
static void note_served(struct controller *k, struct filter_state *w)
{
    const struct log_status *s = &k->status;
    if (!load_status(k, w))
        filter_state_serve(w, 0, 0);
    else if (s->state == FILTER_OPEN && s->generation[k->view.current].answers &&
             s->generation[k->view.current].number == view_current(&k->view)->number)
        filter_state_serve(w, s->incarnation, s->version);
    filter_state_found(w, k->view.incarnation, k->view.epoch);
}

/* Take a sample of the fill, for the dashboard. */
static void note_fill(struct controller *k, struct filter_state *w)
{
    uint64_t now = clock_mono_us();
    if (k->config->http[0] == '\0' ||
        (w->sampled_at != 0 && now - w->sampled_at < FILLS_FINE_S * UINT64_C(1000000)))
        return;
    w->sampled_at = now;
    admin_note_sample(k->service, &k->view, w->name, w->length);
}

/* There is no view. True while this process remembers the filter: until its control has confirmed the
 * deletion, the list of members says so. */
static bool is_remembered(struct controller *k, const struct filter_state *w)
{
    const struct log_status *s = &k->status;
    bool has = load_status(k, w) && s->state != FILTER_CLOSED && (s->is_missing || s->state == FILTER_OPEN);
    if (has && !s->is_missing)
        filters_look(k->service->logs, w->name, w->length);
    return has;
}

/* True if the view's incarnation was replaced: the metadata node went back. Asks the registries if this
 * process has not seen that incarnation yet, or if the filter's control does not believe the view. */
static bool is_replaced(struct controller *k, const struct filter_state *w, uint64_t seen)
{
    struct registry_said said = {.named = false};
    struct error ignored;
    bool believed = !load_status(k, w) || !k->status.is_missing;
    if (seen > k->view.incarnation)
        return true;
    if (seen == k->view.incarnation && believed)
        return false;
    return (registry_look(k->redis, &k->handle.names, &said, &ignored) == ERR_OK || said.named) &&
           said.incarnation > k->view.incarnation;
}

/* The filter's control maintains it and reports what is wrong. @seen: the incarnation that was seen before
 * the view is read; one that is made behind that is another one. */
static enum err look_at(struct controller *k, struct filter_state *w, const struct config_filter *c,
                        bool held, uint64_t seen, struct error *e)
{
    enum err code = load_kept(k, w, c, held, e);
    if (code == ERR_OK && is_replaced(k, w, seen))
        code = error_set(
            e, ERR_LOST,
            "the metadata node went back to an earlier incarnation of the filter: no key is reported absent");
    bool replaced = code == ERR_LOST;
    if ((replaced || code == ERR_NOT_FOUND) && c != NULL && !k->view.deleting) {
        make_missing(k, w, c->table[0] != '\0');
        if (!replaced)
            code = handle_load(&k->handle, &k->view, e);
    }
    bool sourced = c != NULL && c->table[0] != '\0';
    bool remembered = code == ERR_NOT_FOUND && is_remembered(k, w);
    bool configured = code == ERR_NOT_FOUND && c != NULL && !sourced && seen != 0;
    w->note.is_lost = configured || (remembered && k->status.is_missing); /* nobody has deleted it */
    if (w->note.is_lost && !sourced)
        note_problem(w,
                     "its data in Redis are lost and it has no source: no key is reported absent, and adds "
                     "fail; BF.RESERVE creates it again, empty; DEL deletes it");
    if (remembered && seen != 0)
        filter_state_serve(w, seen, 1);
    if (code == ERR_NOT_FOUND && !remembered)
        filter_state_serve(w, 0, 0);
    if (code == ERR_NOT_FOUND && c == NULL && !remembered && !held)
        clear(k, w, seen);
    if (code == ERR_OK) {
        filter_states_on_seen(k->service->watch, w->name, w->length, k->view.incarnation);
        note_served(k, w);
        tell_lost(k, w);
        note_degraded(k, w);
        note_fill(k, w);
    } else if (code != ERR_NOT_FOUND) {
        note_problem(w, e->text);
    }
    if (sourced)
        controller_look_at_source(k, w, c);
    if (c != NULL)
        look_at_tail(k, c, code, held);
    bool unfinished = code == ERR_OK && (k->view.phase == PHASE_BUILDING || k->view.phase == PHASE_SWITCHED);
    if (code != ERR_OK || held)
        return code;
    /* A coordinator whose configuration names no table ends an unfinished job only if an operator wants that,
     * as another one may be about to go on with it. */
    struct control wanted;
    struct error ignored;
    if (!sourced && !(unfinished && control_read(&k->handle, &wanted, &ignored) == ERR_OK &&
                      (wanted.abort || wanted.finish)))
        return code;
    k->held_until_ms = 0;
    if (unfinished)
        (void)controller_start(k, w, "unfinished", "unfinished", JOB_FINISH);
    else
        controller_look_at_thresholds(k, w, c);
    controller_note_held(k, w);
    return code;
}

/* ERR_OK: the filter has a view, in k->view. @seen: as look_at(). */
static enum err look(struct controller *k, const char *name, size_t length, uint64_t seen)
{
    struct error e = {.text = ""};
    const struct config_filter *c = config_find(k->config, name, length);
    struct filter_state *w = filter_states_find(k->service->watch, name, length);
    if (w == NULL)
        return ERR_NOMEM;
    w->round = k->round;
    enum err code = names_init(&k->handle.names, k->config->prefix, name, length, &e);
    if (code != ERR_OK)
        return code;
    controller_follow(w, c);
    /* Check the mutex before reading the view: if a job ends in between, the view shows it as finished. */
    bool held = mutex_look(k->redis, &k->handle.names, &e) != ERR_OK;
    code = look_at(k, w, c, held, seen, &e);
    filter_state_tell(w);
    return code;
}

/* --- the thread --- */

static uint64_t seen_of(struct controller *k, const char *name, size_t length)
{
    return filter_states_seen(k->service->watch, name, length);
}

/* Filters that this process has seen and that P:filters lacks are usually deleted. If one exists, its name is
 * put back: a deletion of the previous filter removed the name late. */
static void look_at_unlisted(struct controller *k)
{
    struct filter_states *watch = k->service->watch;
    for (struct filter_state *w = filter_states_next(watch, NULL);
         w != NULL && !atomic_load(&k->service->stop); w = filter_states_next(watch, w))
        if (w->round != k->round && seen_of(k, w->name, w->length) != 0 &&
            look(k, w->name, w->length, seen_of(k, w->name, w->length)) == ERR_OK)
            filter_keep_name(&k->handle, &k->view);
}

/* Looks at filters of a list, for which is asked ahead. */
struct listed {
    struct controller *k;
    const redisReply *others; /* NULL: the list is that of the configuration */
    uint64_t seen[AHEAD_GROUP];
};

static struct span name_of(const struct listed *l, size_t i)
{
    const char *configured = l->others == NULL ? l->k->config->filter[i].name : "";
    return l->others == NULL ? (struct span){configured, strlen(configured)}
                             : (struct span){l->others->element[i]->str, l->others->element[i]->len};
}

/* False: the look at the configured filters is the one at this one, too. */
static bool is_looked_at(const struct listed *l, const struct span *name)
{
    return l->others == NULL || config_find(l->k->config, name->at, name->length) == NULL;
}

static void ask_for(void *arg, size_t i, unsigned user)
{
    struct listed *l = arg;
    const struct span name = name_of(l, i);
    struct names names;
    l->seen[user - 1] = seen_of(l->k, name.at, name.length);
    if (!is_looked_at(l, &name) ||
        names_init(&names, l->k->config->prefix, name.at, name.length, NULL) != ERR_OK)
        return;
    mutex_ask_ahead(l->k->redis, user, &names);
    log_view_ask_ahead(l->k->redis, user, &names);
}

static bool look_at_listed(void *arg, size_t i)
{
    struct listed *l = arg;
    const struct span name = name_of(l, i);
    if (atomic_load(&l->k->service->stop))
        return false;
    if (is_looked_at(l, &name))
        (void)look(l->k, name.at, name.length, l->seen[i % AHEAD_GROUP]);
    return true;
}

static void look_at_all(struct controller *k)
{
    k->round++;
    k->next_due_ms = 0;
    const struct config *c = k->config;
    struct error e;
    if (service_claim(k->service, k->redis, &e) == ERR_CONFIG) {
        service_refuse(k->service, &e);
        return;
    }
    if (registry_remove_left(k->redis, c->prefix, &k->registries, &e) != ERR_OK)
        sync_client_forget(k->redis); /* in the next round, then */
    struct listed listed = {.k = k};
    ahead_each(k->redis, c->filter_count, ask_for, look_at_listed, &listed);
    followers_end_round(k->o->followers, c);
    SCOPED(scope_reply) redisReply *names = NULL;
    if (sync_client_command(k->redis, nodes_filters(sync_client_nodes(k->redis), c->prefix), &names, &e,
                            "SMEMBERS %s:filters", c->prefix) != ERR_OK)
        return;
    atomic_store(&k->service->filters, names->elements);
    listed.others = names;
    ahead_each(k->redis, names->elements, ask_for, look_at_listed, &listed);
    look_at_unlisted(k);
    filter_states_forget(k->service->watch, k->round);
}

void *controller_run(void *options)
{
    struct controller *k = calloc(1, sizeof(*k));
    if (k == NULL)
        abort();
    k->o = options;
    k->service = k->o->service;
    k->redis = sync_client_new(&k->service->nodes, k->service->redis_timeout_ms, "twinbloom-controller");
    k->handle.redis = k->redis;
    while (!atomic_load(&k->service->stop)) {
        k->config = live_config_acquire(k->service->config);
        uint64_t interval_ms = k->config->check_interval_ms;
        look_at_all(k);
        config_release(k->config);
        uint64_t now = clock_wall_us() / 1000; /* at most until the first filter is due */
        if (k->next_due_ms != 0 && k->next_due_ms < now + interval_ms)
            interval_ms = k->next_due_ms > now ? k->next_due_ms - now : 0;
        mailbox_wait(k->service->controller, (int)interval_ms);
    }
    handle_fini(&k->handle);
    sync_client_free(k->redis);
    free(k);
    return NULL;
}
