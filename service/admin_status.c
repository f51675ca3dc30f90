/* SPDX-License-Identifier: MIT */
/* TB.STATUS and TB.PLAN. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/number.h"
#include "expansion/layer.h"
#include "expansion/memory.h"
#include "expansion/schedule.h"
#include "expansion/window.h"
#include "service/admin.h"
#include "service/keeper.h"

/* A list of names and values whose length is known at the end only. */
struct fields {
    struct buffer bytes;
    struct reply reply; /* into bytes */
    size_t count;
};

static void field_text(struct fields *f, const char *name, const char *value)
{
    reply_text(&f->reply, name);
    reply_text(&f->reply, value);
    f->count++;
}

static void field_number(struct fields *f, const char *name, uint64_t value)
{
    reply_text(&f->reply, name);
    reply_integer(&f->reply, (int64_t)value);
    f->count++;
}

static void field_decimal(struct fields *f, const char *name, double value)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%.6g", value);
    field_text(f, name, text);
}

static void fields_begin(struct fields *f, int protocol)
{
    *f = (struct fields){.reply = {.protocol = protocol}};
    f->reply.out = &f->bytes;
}

static void fields_end(struct fields *f, struct reply *r)
{
    reply_map(r, f->count);
    buffer_append(r->out, f->bytes.data, f->bytes.length);
    buffer_fini(&f->bytes);
}

/* --- parts of the status --- */

static void view_fields(struct fields *f, struct admin *a, const struct view *v, struct error *e)
{
    const struct generation *g = view_current(v), *other = view_alternate(v);
    uint64_t items = 0, other_items = 0;
    if (fence_all_items(&a->fence, g, &items, e) != ERR_OK)
        field_text(f, "redis", e->text);
    field_text(f, "phase", phase_row(v->phase)->name);
    field_number(f, "epoch", v->epoch);
    field_number(f, "fenced_epoch", v->fenced_epoch);
    field_number(f, "current_index", v->current);
    field_number(f, "generation", g->number);
    field_number(f, "built", g->built);
    field_number(f, "items", items);
    field_number(f, "capacity", g->capacity);
    field_decimal(f, "fill", g->capacity == 0 ? 0 : (double)items / (double)g->capacity);
    field_decimal(f, "error_rate", g->error_rate);
    field_decimal(f, "expected_error_rate", g->built ? generation_rate(g, items) : 1);
    field_decimal(f, "error_rate_bound", layer_rate_bound(g));
    field_text(f, "overflow", v->sourced && g->layer_count > 1 ? "yes" : "no");
    field_number(f, "expansion", v->expansion);
    field_number(f, "sourced", v->sourced);
    field_number(f, "layers", g->layer_count);
    field_number(f, "shards", generation_shards(g));
    field_number(f, "shard_bytes", geometry_shard_bytes(&g->layers[0].geometry));
    field_number(f, "block_bits", g->layers[0].geometry.block_bits);
    field_number(f, "hashes", g->layers[0].geometry.hashes);
    field_number(f, "bytes", memory_of_view(v));
    struct buffer nodes = {0};
    for (unsigned i = 0; i < g->node_count; i++)
        buffer_printf(&nodes, "%s%s", i == 0 ? "" : ", ", g->nodes[i]);
    field_text(f, "nodes", buffer_text(&nodes));
    buffer_fini(&nodes);
    if (other != NULL) {
        if (fence_all_items(&a->fence, other, &other_items, e) != ERR_OK)
            field_text(f, "redis", e->text);
        field_number(f, "alternate_generation", other->number);
        field_number(f, "alternate_items", other_items);
        field_number(f, "alternate_capacity", other->capacity);
    }
}

static void config_fields(struct fields *f, const struct config_filter *c)
{
    if (c == NULL)
        return;
    field_text(f, "table", c->table);
    field_decimal(f, "expand_at", c->expand_at);
    field_text(f, "schedule", c->schedule);
    struct schedule schedule;
    struct window window;
    struct error e;
    time_t now = (time_t)(clock_wall_us() / 1000000);
    if (c->schedule[0] != '\0' && schedule_parse(&schedule, c->schedule, &e) == ERR_OK)
        field_number(f, "next_schedule", (uint64_t)schedule_next(&schedule, now));
    field_text(f, "window", c->window);
    if (window_parse(&window, c->window, &e) == ERR_OK && !window_is_open(&window, now))
        field_number(f, "window_opens", (uint64_t)window_next_open(&window, now));
}

static enum err mutex_fields(struct fields *f, struct admin *a, bool *held, struct error *e)
{
    struct key_name name;
    redisReply *reply;
    names_filter_key(&a->fence.names, "expansion_flag", &name);
    enum err code = link_command(a->link, NODE_HOME, &reply, e, "GET %b", name.text, name.length);
    if (code != ERR_OK)
        return code;
    *held = reply->type == REDIS_REPLY_STRING;
    field_text(f, "mutex_owner", *held ? reply->str : "");
    freeReplyObject(reply);
    code = link_command(a->link, NODE_HOME, &reply, e, "PTTL %b", name.text, name.length);
    if (code != ERR_OK)
        return code;
    field_number(f, "mutex_ttl_ms", reply->integer > 0 ? (uint64_t)reply->integer : 0);
    freeReplyObject(reply);
    return ERR_OK;
}

/* What the last verification says of the generation in use: its fields in the record, in this order. */
static const char *verified(const redisReply *r, uint64_t generation, uint64_t stale_ms, uint64_t *when)
{
    uint64_t of = 0, now = clock_wall_us() / 1000;
    *when = 0;
    if (r->elements != 3 || r->element[0]->type != REDIS_REPLY_STRING ||
        r->element[1]->type != REDIS_REPLY_STRING || r->element[2]->type != REDIS_REPLY_STRING ||
        !number_u64(r->element[1]->str, (size_t)r->element[1]->len, &of) || of != generation ||
        !number_u64(r->element[2]->str, (size_t)r->element[2]->len, when))
        return "never";
    if (strcmp(r->element[0]->str, "1") != 0)
        return "no";
    return now > *when && now - *when > stale_ms ? "stale" : "yes";
}

static enum err verify_fields(struct fields *f, struct admin *a, struct error *e)
{
    struct key_name name;
    redisReply *reply;
    uint64_t when;
    names_filter_key(&a->fence.names, "job", &name);
    enum err code = link_command(a->link, NODE_HOME, &reply, e,
                                 "HMGET %b verify_ok verify_generation verify_ms", name.text, name.length);
    if (code != ERR_OK)
        return code;
    field_text(f, "verified",
               verified(reply, view_current(&a->view)->number, a->config->verify_stale_ms, &when));
    field_number(f, "verified_ms", when);
    freeReplyObject(reply);
    return ERR_OK;
}

/* Every field of the job's record, with job_ before its name. A job that nobody drives any more waits for a
 * driver. */
static enum err job_fields(struct fields *f, struct admin *a, bool held, struct error *e)
{
    struct key_name name;
    redisReply *reply;
    names_filter_key(&a->fence.names, "job", &name);
    enum err code = link_command(a->link, NODE_HOME, &reply, e, "HGETALL %b", name.text, name.length);
    if (code != ERR_OK)
        return code;
    bool any = false;
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        char field[96];
        const char *value = reply->element[i + 1]->str;
        uint64_t number;
        (void)snprintf(field, sizeof(field), "job_%s", reply->element[i]->str);
        if (strcmp(field, "job_state") == 0) {
            any = true;
            field_text(f, field, strcmp(value, "running") == 0 && !held ? "waiting" : value);
        } else if (number_u64(value, strlen(value), &number) && number <= INT64_MAX) {
            field_number(f, field, number);
        } else {
            field_text(f, field, value);
        }
    }
    if (!any)
        field_text(f, "job_state", "none");
    freeReplyObject(reply);
    return ERR_OK;
}

static const char *state_of(const struct view *v, bool degraded)
{
    return degraded ? "degraded" : view_current(v)->built ? "serving" : "building";
}

static enum err status_fields(struct fields *f, struct admin *a, const char *name, size_t length,
                              struct error *e)
{
    struct keeper_note note = keeper_note(a->service, name, length);
    const struct config_filter *config = config_find(a->config, name, length);
    reply_text(&f->reply, "filter");
    reply_bulk(&f->reply, name, length);
    f->count++;
    enum err code = names_init(&a->fence.names, a->config->prefix, name, length, e);
    if (code == ERR_OK)
        code = fence_load(&a->fence, &a->view, e);
    if (code == ERR_NOT_FOUND && config == NULL)
        return code;
    if (code != ERR_OK) {
        bool missing = code == ERR_NOT_FOUND;
        field_text(f, "state", missing ? "building" : "unreachable");
        field_number(f, "built", 0);
        field_text(f, "job_state", "none");
        field_text(f, "redis", missing ? "ok" : e->text);
    } else {
        bool held = false;
        bool degraded = note.lost_shards > 0 && note.lost_generation == view_current(&a->view)->number;
        field_text(f, "state", state_of(&a->view, degraded));
        view_fields(f, a, &a->view, e);
        field_text(f, "degraded", degraded ? "yes" : "no");
        field_number(f, "lost_shards", degraded ? note.lost_shards : 0);
        code = mutex_fields(f, a, &held, e);
        if (code == ERR_OK)
            code = verify_fields(f, a, e);
        if (code == ERR_OK)
            code = job_fields(f, a, held, e);
        field_text(f, "redis", code == ERR_OK ? "ok" : e->text);
    }
    config_fields(f, config);
    bool needs_source = config != NULL && config->table[0] != '\0';
    field_text(f, "postgres", note.postgres[0] != '\0' ? note.postgres : "ok");
    field_text(f, "ready",
               code == ERR_OK && view_current(&a->view)->built && (!needs_source || note.postgres[0] == '\0')
                   ? "yes"
                   : "no");
    if (note.wanted[0] != '\0')
        field_text(f, "wanted", note.wanted);
    if (note.problem[0] != '\0')
        field_text(f, "problem", note.problem);
    return ERR_OK;
}

static enum err status_one(struct admin *a, struct reply *r, const char *name, size_t length, struct error *e)
{
    struct fields f;
    fields_begin(&f, r->protocol);
    enum err code = status_fields(&f, a, name, length, e);
    if (code == ERR_OK)
        fields_end(&f, r);
    else
        buffer_fini(&f.bytes);
    return code;
}

/* Configured filters, then those that were made by commands. */
static void status_all(struct admin *a, struct admin_call *call, struct reply *r)
{
    const struct config *config = a->config;
    struct buffer items = {0};
    struct reply each = {.out = &items, .protocol = r->protocol};
    struct error ignored;
    size_t count = 0;
    for (size_t i = 0; i < config->filter_count; i++)
        count +=
            status_one(a, &each, config->filter[i].name, strlen(config->filter[i].name), &ignored) == ERR_OK;
    redisReply *names = NULL;
    if (link_command(a->link, NODE_HOME, &names, &call->error, "SMEMBERS %s:filters", config->prefix) ==
        ERR_OK)
        for (size_t i = 0; i < names->elements; i++) {
            const redisReply *name = names->element[i];
            if (config_find(config, name->str, (size_t)name->len) == NULL)
                count += status_one(a, &each, name->str, (size_t)name->len, &ignored) == ERR_OK;
        }
    freeReplyObject(names);
    reply_array(r, count);
    buffer_append(r->out, items.data, items.length);
    buffer_fini(&items);
}

void admin_status(struct admin *a, struct admin_call *call)
{
    struct reply r = {.out = &call->reply, .protocol = call->protocol};
    if (call->filter_length == 0) {
        status_all(a, call, &r);
        return;
    }
    call->status = status_one(a, &r, call->filter, call->filter_length, &call->error);
    if (call->status == ERR_NOT_FOUND)
        reply_error(&r, "ERR not found");
    else if (call->status != ERR_OK)
        reply_error(&r, "ERR %s", call->error.text);
}

/* --- plan --- */

static void plan_fields(struct fields *f, const struct plan *p, const struct plan_input *in, uint64_t items)
{
    field_number(f, "rows", in->source_rows);
    field_number(f, "items", items);
    field_number(f, "capacity", p->capacity);
    field_decimal(f, "error_rate", p->error_rate);
    field_number(f, "shards", p->geometry.shards);
    field_number(f, "blocks", p->geometry.blocks);
    field_number(f, "block_bits", p->geometry.block_bits);
    field_number(f, "hashes", p->geometry.hashes);
    field_number(f, "bytes", p->bytes);
    field_number(f, "memory_now", in->memory_now);
    field_number(f, "memory_new", p->memory_new);
    field_number(f, "memory_peak", p->memory_peak);
    field_number(f, "memory_after", p->memory_after);
    field_number(f, "passes", p->passes);
    field_number(f, "nodes", in->node_count);
}

static enum err gather(struct admin *a, struct admin_call *call, const struct config_filter *c,
                       struct plan_input *in, uint64_t *items)
{
    struct source *source = NULL;
    struct source_config config = {.dsn = a->config->dsn,
                                   .table = c->table,
                                   .id_column = c->id_column,
                                   .key = c->key,
                                   .where = c->where};
    enum err code =
        names_init(&a->fence.names, a->config->prefix, call->filter, call->filter_length, &call->error);
    if (code == ERR_OK)
        code = fence_load(&a->fence, &a->view, &call->error);
    if (code == ERR_OK)
        code = fence_all_items(&a->fence, view_current(&a->view), items, &call->error);
    if (code == ERR_OK)
        code = source_open(&source, &config, (unsigned)a->config->postgres_timeout_ms, &call->error);
    if (code == ERR_OK)
        code = source_check(source, &call->error);
    if (code == ERR_OK)
        code = source_rows_estimate(source, &in->source_rows, &call->error);
    source_close(source);
    if (code != ERR_OK)
        return code;
    const struct generation *g = view_current(&a->view);
    in->current_capacity = g->built ? g->capacity : c->capacity;
    uint64_t most = *items > in->source_rows ? *items : in->source_rows;
    in->keep_capacity = !g->built || (double)most < c->expand_at * (double)g->capacity;
    in->memory_now = memory_of_view(&a->view);
    return ERR_OK;
}

void admin_plan(struct admin *a, struct admin_call *call)
{
    struct reply r = {.out = &call->reply, .protocol = call->protocol};
    const struct config_filter *c = config_find(a->config, call->filter, call->filter_length);
    if (c == NULL || c->table[0] == '\0') {
        reply_error(&r, "ERR filter '%s' has no source table in the configuration: nothing to plan",
                    call->filter);
        return;
    }
    struct plan_input in = {.growth = c->growth,
                            .headroom = c->headroom,
                            .wanted_capacity = call->capacity,
                            .error_rate = call->error_rate > 0 ? call->error_rate : c->error_rate,
                            .shard_bytes = (uint32_t)a->config->shard_bytes,
                            .build_memory = a->config->build_memory,
                            .node_count = a->service->nodes.count};
    struct plan plan;
    struct plan_node nodes[GENERATION_NODES_MAX];
    char warning[256] = "";
    uint64_t items = 0;
    enum err code = gather(a, call, c, &in, &items);
    if (code == ERR_OK)
        code = plan_make(&plan, &in, &call->error);
    if (code == ERR_OK)
        code = memory_of_nodes(a->link, nodes, &call->error);
    if (code != ERR_OK) {
        reply_error(&r, "ERR %s", call->error.text);
        return;
    }
    code = plan_fits(&plan, nodes, a->service->nodes.count, warning, &call->error);
    struct fields f;
    fields_begin(&f, call->protocol);
    field_text(&f, "filter", call->filter);
    plan_fields(&f, &plan, &in, items);
    field_text(&f, "warning", warning);
    field_text(&f, "fits", code == ERR_OK ? "yes" : "no");
    if (code != ERR_OK)
        field_text(&f, "refused", call->error.text);
    fields_end(&f, &r);
}
