/* SPDX-License-Identifier: MIT */
/* TB.STATUS. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/number.h"
#include "expansion/decide/forecast.h"
#include "expansion/decide/threshold.h"
#include "expansion/decide/schedule.h"
#include "expansion/decide/window.h"
#include "expansion/job/memory.h"
#include "expansion/record/mutex.h"
#include "service/admin/admin.h"
#include "service/filters/filter_states.h"
#include "service/protocol/field.h"
#include "service/protocol/job_id.h"
#include "shard/redis/ahead.h"
#include "shard/fold/lease.h"
#include "shard/redis/nodes/health.h"
#include "shard/view/view_load.h"

/* @known: @items are the keys of a complete generation that no job is about to replace. */
static void forecast_fields(struct fields *f, const struct config_filter *c, const struct filter_note *note,
                            bool known, const struct view *v, uint64_t items)
{
    struct schedule schedule;
    struct window window;
    struct error e;
    time_t at = 0;
    enum forecast_reason reason = FORECAST_NONE;
    if (known) {
        bool scheduled = c->schedule[0] != '\0' && schedule_parse(&schedule, c->schedule, &e) == ERR_OK;
        bool windowed = window_parse(&window, c->window, &e) == ERR_OK;
        struct forecast_input in = {.items = items > note->rows.rows ? items : note->rows.rows,
                                    .capacity = view_current(v)->capacity,
                                    .expand_at = c->expand_at,
                                    .items_per_second = note->growth,
                                    .schedule = scheduled ? &schedule : NULL,
                                    .window = windowed ? &window : NULL};
        reason = forecast_expansion(&at, &in, (time_t)(clock_wall_us() / 1000000));
    }
    field_time(f, "rebuild_expected_at", reason == FORECAST_NONE ? 0 : (uint64_t)at * 1000);
    field_text(f, "rebuild_expected_by", forecast_reason_name(reason));
}

/* --- parts of the status --- */

/* Add the cluster's masters as this coordinator knows them. */
static void masters_field(struct fields *f, const struct nodes *nodes)
{
    SCOPED(buffer_fini) struct buffer text = {0};
    struct node_health_figures n;
    for (unsigned i = 0; node_health_read(nodes, i, &n); i++)
        buffer_printf(&text, "%s%s %s, %u slots, %u connections", i == 0 ? "" : "; ", n.name,
                      node_health_state(&n), n.slots, n.connections);
    field_text(f, "masters", buffer_text(&text));
}

static bool is_pinned(const struct generation *g, const char *name)
{
    for (unsigned i = 0; i < g->node_count; i++)
        if (strcasecmp(g->nodes[i], name) == 0)
            return true;
    return false;
}

/* Add the generation's nodes (in a cluster: all nodes) that some thread of this process cannot reach, and
 * why. */
static void nodes_down_field(struct fields *f, const struct nodes *nodes, const struct generation *g)
{
    SCOPED(buffer_fini) struct buffer down = {0};
    struct node_health_figures n;
    for (unsigned i = 0; node_health_read(nodes, i, &n); i++)
        if (node_health_is_down(&n) && (nodes->cluster != NULL || is_pinned(g, n.name)))
            buffer_printf(&down, "%s%s (%s)", down.length > 0 ? ", " : "", n.name, n.error);
    field_text(f, "nodes_down", buffer_text(&down));
}

static void node_field(struct fields *f, const char *name, const struct generation *g)
{
    SCOPED(buffer_fini) struct buffer nodes = {0};
    for (unsigned i = 0; i < g->node_count; i++)
        buffer_printf(&nodes, "%s%s", i == 0 ? "" : ", ", g->nodes[i]);
    field_text(f, name, buffer_text(&nodes));
}

/* Returns the keys of the generation in use. */
static uint64_t view_fields(struct fields *f, struct admin *a, const struct view *v)
{
    const struct generation *g = view_current(v), *other = view_alternate(v);
    const uint64_t items = v->keys[v->current];
    field_text(f, "phase", phase_name(v->phase));
    field_number(f, "epoch", v->epoch);
    field_number(f, "current_index", v->current);
    field_number(f, "generation", g->number);
    field_bool(f, "built", g->built);
    field_number(f, "keys", items);
    field_number(f, "capacity", g->capacity);
    field_decimal(f, "fill_ratio", g->capacity == 0 ? 0 : (double)items / (double)g->capacity);
    field_decimal(f, "error_rate", g->error_rate);
    field_decimal(f, "expected_error_rate", g->built ? generation_rate(g, items) : 1);
    field_decimal(f, "error_rate_bound", threshold_rate_bound(g));
    field_bool(f, "has_layers", v->sourced && g->layer_count > 1);
    field_number(f, "expansion", v->expansion);
    field_bool(f, "has_source", v->sourced);
    if (v->expire_at_ms != 0)
        field_time(f, "expires_at", v->expire_at_ms);
    field_number(f, "layers", g->layer_count);
    field_number(f, "shards", generation_shards(g));
    field_number(f, "shard_bytes", geometry_shard_bytes(&g->layers[0].geometry));
    field_number(f, "block_bits", g->layers[0].geometry.block_bits);
    field_number(f, "hashes", g->layers[0].geometry.hashes);
    field_number(f, "memory_bytes", memory_of_view(v));
    node_field(f, "nodes", g);
    if (a->service->nodes.cluster != NULL)
        masters_field(f, &a->service->nodes);
    nodes_down_field(f, &a->service->nodes, g);
    if (other != NULL) {
        field_number(f, "alternate_generation", other->number);
        field_number(f, "alternate_keys", v->keys[1 - v->current]);
        field_number(f, "alternate_capacity", other->capacity);
        node_field(f, "alternate_nodes", other);
    }
    return items;
}

/* @built: @items are the keys of a complete generation. */
static void source_fields(struct fields *f, const struct filter_note *note, bool built, uint64_t items)
{
    const struct threshold_input in = {.items = items, .source_rows = note->rows.rows};
    static const char *const by[] = {[SOURCE_ROWS_COUNTED] = "count",
                                     [SOURCE_ROWS_PLANNED] = "statistics",
                                     [SOURCE_ROWS_GUESSED] = "guess"};
    field_text(f, "source_rows_by", note->rows_ms == 0 ? "unknown" : by[note->rows.by]);
    field_time(f, "source_rows_at", note->rows_ms);
    if (note->rows_ms == 0)
        field_null(f, "source_rows");
    else
        field_number(f, "source_rows", note->rows.rows);
    if (note->rows_ms == 0 || note->rows.by == SOURCE_ROWS_GUESSED || !built) {
        field_null(f, "dead_keys");
        field_null(f, "dead_ratio");
        return;
    }
    uint64_t dead = threshold_dead_keys(&in);
    field_number(f, "dead_keys", dead);
    field_decimal(f, "dead_ratio", items == 0 ? 0 : (double)dead / (double)items);
}

static void config_fields(struct fields *f, const struct config_filter *c)
{
    if (c == NULL)
        return;
    field_text(f, "table", c->table);
    field_decimal(f, "expand_at_ratio", c->expand_at);
    field_decimal(f, "expand_at_dead_ratio", c->expand_at_dead);
    field_text(f, "schedule", c->schedule);
    struct schedule schedule;
    struct window window;
    struct error e;
    time_t now = (time_t)(clock_wall_us() / 1000000);
    if (c->schedule[0] != '\0' && schedule_parse(&schedule, c->schedule, &e) == ERR_OK)
        field_time(f, "schedule_next_at", (uint64_t)schedule_next(&schedule, now) * 1000);
    field_text(f, "window", c->window);
    if (window_parse(&window, c->window, &e) == ERR_OK && !window_is_open(&window, now))
        field_time(f, "window_opens_at", (uint64_t)window_next_open(&window, now) * 1000);
}

static const char follower_command[] = "HMGET %b state mode owner error lag_ms rows";

/* Add the follower's state; "none": no coordinator follows. */
static enum err follower_fields(struct fields *f, struct admin *a, struct error *e)
{
    static const struct {
        const char *field, *name;
        bool number;
    } parts[] = {{"state", "follow_state", false},  {"mode", "follow_mode", false},
                 {"owner", "follow_owner", false},  {"error", "follow_error", false},
                 {"lag_ms", "follow_lag_ms", true}, {"rows", "follow_rows", true}};
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code =
        sync_client_filter_command(a->redis, &a->handle.names, "tail", follower_command, &reply, e);
    if (code != ERR_OK)
        return code;
    bool any = reply->elements == 6 && reply->element[0]->type == REDIS_REPLY_STRING;
    if (!any)
        field_text(f, "follow_state", "none");
    for (size_t i = 0; any && i < reply->elements; i++) {
        const char *text = reply->element[i]->type == REDIS_REPLY_STRING ? reply->element[i]->str : "";
        uint64_t number = 0;
        if (!parts[i].number)
            field_text(f, parts[i].name, text);
        else if (number_u64(text, strlen(text), &number) && number <= INT64_MAX)
            field_number(f, parts[i].name, number);
    }
    return ERR_OK;
}

static enum err status_fields(struct fields *f, struct admin *a, const char *name, size_t length,
                              struct error *e)
{
    struct filter_note note = filter_states_note(a->service->watch, name, length);
    const struct config_filter *config = config_find(a->config, name, length);
    struct mutex_found mutex = {.value = ""};
    bool known = false, held = false;
    uint64_t items = 0;
    field_bytes(f, "filter", name, length);
    enum err code = names_init(&a->handle.names, a->config->prefix, name, length, e);
    if (code != ERR_OK)
        return code;
    code = handle_load(&a->handle, &a->view, e);
    if (code == ERR_NOT_FOUND && config == NULL && !note.is_lost)
        return code;
    if (code != ERR_OK) {
        bool missing = code == ERR_NOT_FOUND, lost = missing && note.is_lost;
        field_text(f, "state", lost ? "degraded" : missing ? "not built" : "unreachable");
        if (missing)
            field_bool(f, "built", false);
        if (lost)
            field_bool(f, "degraded", true);
        field_text(f, "job_state", "none");
        field_text(f, "redis", missing ? "ok" : e->text);
    } else {
        bool degraded = a->view.degraded && view_current(&a->view)->built;
        code = mutex_read(a->redis, &a->handle.names, &mutex, e);
        held = mutex.value[0] != '\0';
        field_text(f, "state",
                   degraded                        ? "degraded"
                   : view_current(&a->view)->built ? "serving"
                   : held                          ? "building"
                                                   : "not built");
        known = true;
        items = view_fields(f, a, &a->view);
        admin_note_sample(a->service, &a->view, name, length);
        field_bool(f, "degraded", degraded);
        admin_log_fields(f, a, name, length, &note, degraded);
        field_text(f, "mutex_owner", mutex.value);
        field_number(f, "mutex_ttl_ms", mutex.left_ms > 0 ? (uint64_t)mutex.left_ms : 0);
        if (code == ERR_OK)
            code = admin_job_fields(f, a, name, length, held, e);
        if (code == ERR_OK && config != NULL && config->table[0] != '\0')
            code = follower_fields(f, a, e);
        field_text(f, "redis", code == ERR_OK ? "ok" : e->text);
    }
    config_fields(f, config);
    bool needs_source = config != NULL && config->table[0] != '\0';
    bool whole = known && view_current(&a->view)->built;
    if (needs_source) {
        source_fields(f, &note, whole, items);
        forecast_fields(f, config, &note, whole && !held, &a->view, items);
    }
    field_text(f, "postgres", !needs_source ? "none" : note.postgres[0] != '\0' ? note.postgres : "ok");
    field_bool(f, "ready",
               code == ERR_OK && view_current(&a->view)->built &&
                   (!needs_source || note.postgres[0] == '\0'));
    if (note.wanted[0] != '\0')
        field_text(f, "waiting_reason", note.wanted);
    if (note.next_attempt_ms != 0 && !held) {
        field_time(f, "next_attempt_at", note.next_attempt_ms);
        field_text(f, "next_attempt_reason", note.next_attempt_why);
    }
    if (note.problem[0] != '\0')
        field_text(f, "problem", note.problem);
    return ERR_OK;
}

enum err admin_status_one(struct admin *a, struct reply *r, const char *name, size_t length, struct error *e)
{
    SCOPED(fields_drop) struct fields f;
    fields_begin(&f, r->protocol);
    enum err code = status_fields(&f, a, name, length, e);
    if (code == ERR_OK)
        fields_end(&f, r);
    return code;
}

/* --- many filters --- */

/* The job is asked for as admin_job_fields() does: another text costs time only. */
void admin_status_ask_ahead(struct admin *a, unsigned user, const char *name, size_t length)
{
    static const char *const more[][2] = {{"job", "HGETALL %b"}, {"tail", follower_command}};
    struct names names;
    struct key_name key;
    if (names_init(&names, a->config->prefix, name, length, NULL) != ERR_OK)
        return;
    log_view_ask_ahead(a->redis, user, &names);
    mutex_ask_ahead(a->redis, user, &names);
    lease_ask_ahead(a->redis, user, &names);
    bool has_source = config_find(a->config, name, length) != NULL;
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]) - !has_source; i++) {
        names_filter_key(&names, more[i][0], &key);
        ahead_ask(a->redis, user, sync_client_home(a->redis, &names), more[i][1], key.text, key.length);
    }
}

/* The statuses of filters; one that is gone by now is left out. */
struct status_list {
    struct fields *to;
    struct admin *a;
    const struct span *name;
};

static void ask_for(void *arg, size_t i, unsigned user)
{
    const struct status_list *l = arg;
    admin_status_ask_ahead(l->a, user, l->name[i].at, l->name[i].length);
}

static bool put_status(void *arg, size_t i)
{
    const struct status_list *l = arg;
    struct error ignored;
    l->to->count +=
        admin_status_one(l->a, &l->to->reply, l->name[i].at, l->name[i].length, &ignored) == ERR_OK;
    return true;
}

static void put_statuses(struct fields *list, struct admin *a, const struct filter_names *all, size_t count)
{
    ahead_each(a->redis, count, ask_for, put_status, &(struct status_list){list, a, all->name});
}

/* Keep the names that the user may see, and that come after @cursor (NULL: all). */
static void keep_visible(struct filter_names *all, const struct admin_call *call, const struct span *cursor)
{
    size_t n = 0;
    for (size_t i = 0; i < all->count; i++)
        if ((cursor == NULL || span_order(&all->name[i], cursor) > 0) &&
            admin_call_shows(call, all->name[i].at, all->name[i].length))
            all->name[n++] = all->name[i];
    all->count = n;
}

enum err admin_status(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    if (call->named)
        return admin_status_one(a, r, call->filter, call->filter_length, e);
    struct fields list;
    SCOPED(admin_names_free) struct filter_names all;
    enum err code = admin_names(a, &all, e);
    if (code != ERR_OK &&
        all.count == 0) /* else Redis is away: the statuses of configured filters report it */
        return code;
    keep_visible(&all, call, NULL);
    fields_begin(&list, r->protocol);
    put_statuses(&list, a, &all, all.count);
    fields_end_list(&list, r);
    return ERR_OK;
}

/* --- GET /v1/filters: the status of filters, page by page, ordered by the bytes of their names, so that a
 * filter created or deleted meanwhile moves no other one to a page that was read --- */

static void put_page(struct admin *a, struct admin_call *call, struct reply *r,
                     const struct filter_names *all)
{
    SCOPED(buffer_fini) struct buffer next = {0};
    struct fields f, statuses;
    size_t most = all->count < call->count ? all->count : call->count;
    fields_begin(&f, r->protocol);
    fields_begin(&statuses, r->protocol);
    put_statuses(&statuses, a, all, most);
    field_list(&f, "filters", &statuses);
    if (all->count > most) {
        job_id_put_name(&next, all->name[most - 1].at, all->name[most - 1].length);
        field_text(&f, "next", buffer_text(&next));
    } else {
        field_null(&f, "next");
    }
    f.bytes.failed |= buffer_failed(&next);
    fields_end(&f, r);
}

enum err admin_page(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    SCOPED(admin_names_free) struct filter_names all;
    enum err code = admin_names(a, &all, e);
    if (code != ERR_OK && all.count == 0) /* as above */
        return code;
    /* The names that come after the cursor and that the user may see, sorted. */
    const struct span cursor = {call->filter, call->filter_length};
    keep_visible(&all, call, call->named ? &cursor : NULL);
    qsort(all.name, all.count, sizeof(*all.name), span_order);
    put_page(a, call, r, &all);
    return ERR_OK;
}
