/* SPDX-License-Identifier: MIT */
/* TB.PLAN: the generation that a rebuild would make. TB.REBUILD with DRYRUN: the steps of a rebuild and their
 * costs. Neither changes anything. Reasons to refuse a rebuild are part of the answer; if a server that must
 * be asked is away, the answer is an error. */
#include <stdlib.h>
#include "base/clock.h"
#include "base/number.h"
#include "expansion/decide/preview.h"
#include "expansion/job/memory.h"
#include "expansion/job/survey.h"
#include "migrate/source/scan.h"
#include "service/admin/admin.h"
#include "service/protocol/field.h"

struct outlook {
    struct admin *a;
    struct admin_call *call;
    struct driver_options options;
    struct source *source;
    struct placement on;
    struct plan_input in;
    struct plan plan;
    bool planned; /* `in` and `plan` are filled */
    unsigned node_count;
    struct plan_node *nodes; /* NULL: they did not reply, or were not asked */
    char warning[256];
    double rate; /* rows per second; 0: unknown */
    const char *rate_by;
};

static bool is_refusal(enum err code)
{
    return code == ERR_RANGE || code == ERR_REFUSED || code == ERR_CONFIG || code == ERR_CONFLICT ||
           code == ERR_BUSY;
}

/* --- collecting facts --- */

/* ERR_RANGE, ERR_REFUSED: a job would fail likewise. */
static enum err make_plan(struct outlook *o, struct error *e)
{
    enum err code = survey_nodes(&o->options, o->a->redis, &o->on, e);
    struct source_config config = o->options.source;
    config.application = "twinbloom plan";
    config.watch = (struct source_watch){0};
    if (code == ERR_OK)
        code = source_open(&o->source, &config, o->options.postgres_timeout_ms, e);
    if (code == ERR_OK)
        code = source_check(o->source, e);
    if (code == ERR_OK)
        code = survey_plan(&o->options, &o->a->view, o->source, &o->on, &o->in, &o->plan, e);
    if (code != ERR_OK)
        return code;
    o->planned = true;
    return memory_fits(&o->a->handle, &o->a->view, &o->on, &o->plan, &o->nodes, &o->node_count, o->warning,
                       e);
}

/* Set the reason if a rebuild would be refused, or would continue earlier work, before it plans. */
static enum err may_begin(struct outlook *o, struct error *e)
{
    const struct view *v = &o->a->view;
    enum err code = mutex_look(o->a->redis, &o->a->handle.names, e);
    if (code != ERR_OK || (v->phase != PHASE_BUILDING && v->phase != PHASE_SWITCHED))
        return code;
    return error_set(e, ERR_BUSY, "an earlier job is unfinished (%s): a rebuild would go on with it",
                     phase_name(v->phase));
}

/* --- speed of a scan --- */

static enum err rate_of_last_run(struct outlook *o, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code =
        sync_client_filter_command(o->a->redis, &o->a->handle.names, "job", "HGET %b rate", &reply, e);
    if (code != ERR_OK)
        return code;
    double rate;
    if (reply->type == REDIS_REPLY_STRING && number_double(reply->str, (size_t)reply->len, &rate) &&
        rate > 0) {
        o->rate = rate;
        o->rate_by = "by the last run";
    }
    return ERR_OK;
}

static void pass_over(void *arg UNUSED, const char *key UNUSED, size_t length UNUSED)
{
}

static enum err rate_of_one_page(struct outlook *o, struct error *e)
{
    enum { PAGE_ROWS = 10000 };
    struct scan_range range = {.table = 0};
    const struct scan_options options = {.limit = o->options.page_rows < PAGE_ROWS ? o->options.page_rows
                                                                                   : PAGE_ROWS,
                                         .timeout_ms = o->options.postgres_timeout_ms,
                                         .row = pass_over};
    size_t rows = 0;
    bool ended;
    uint64_t started = clock_mono_us();
    enum err code = scan_page(o->source, &range, &options, &rows, &ended, e);
    uint64_t took = clock_mono_us() - started;
    if (code == ERR_OK && rows > 0 && took > 0) {
        o->rate = (double)rows * 1e6 / (double)took;
        o->rate_by = "by one page just read";
    }
    return code;
}

/* --- the answer --- */

static void plan_fields(struct fields *f, const struct outlook *o)
{
    const struct plan *p = &o->plan;
    const struct plan_input *in = &o->in;
    field_number(f, "rows", in->source_rows);
    field_number(f, "keys", in->items);
    field_number(f, "capacity", p->capacity);
    field_decimal(f, "error_rate", p->error_rate);
    field_number(f, "shards", p->geometry.shards);
    field_number(f, "blocks", p->geometry.blocks);
    field_number(f, "block_bits", p->geometry.block_bits);
    field_number(f, "hashes", p->geometry.hashes);
    field_number(f, "size_bytes", p->bytes);
    field_number(f, "memory_now_bytes", in->memory_now);
    field_number(f, "memory_new_bytes", p->memory_new);
    field_number(f, "memory_peak_bytes", p->memory_peak);
    field_number(f, "memory_after_bytes", p->memory_new);
    field_number(f, "partitions", p->partitions);
    field_number(f, "node_count", in->node_count);
    SCOPED(buffer_fini) struct buffer names = {0};
    const char *name;
    for (unsigned i = 0; (name = placement_name(&o->on, &o->a->service->nodes, i)) != NULL; i++)
        buffer_printf(&names, "%s%s", i == 0 ? "" : ", ", name);
    field_text(f, "nodes", buffer_text(&names));
    field_text(f, "warning", o->warning);
}

/* A node's number, if the node has reported it. */
static void known_number(struct fields *f, const struct plan_node *node, const char *name, uint64_t n)
{
    if (node->known)
        field_number(f, name, n);
    else
        field_null(f, name);
}

static void node_fields(struct fields *f, const struct plan_node *node)
{
    struct fields each;
    fields_begin(&each, f->reply.protocol);
    field_text(&each, "node", node->name);
    known_number(&each, node, "used_bytes", node->used);
    known_number(&each, node, "maxmemory_bytes", node->maxmemory);
    known_number(&each, node, "limit_bytes", plan_node_limit(node));
    field_number(&each, "shards", node->shards);
    field_number(&each, "before_bytes", node->before);
    field_number(&each, "during_bytes", node->during);
    field_number(&each, "after_bytes", node->after);
    known_number(&each, node, "used_during_bytes", node->used + (node->during - node->before));
    fields_end(&each, &f->reply);
}

static void step_fields(struct fields *f, const struct preview_step *s)
{
    struct fields each;
    fields_begin(&each, f->reply.protocol);
    field_text(&each, "step", step_name(s->step));
    field_text(&each, "what", s->what);
    if (s->reads)
        field_number(&each, "rows", s->rows);
    if (s->timed)
        field_decimal(&each, "duration_seconds", s->seconds);
    field_number(&each, "memory_before_bytes", s->memory_before);
    field_number(&each, "memory_peak_bytes", s->memory_peak);
    field_number(&each, "memory_after_bytes", s->memory_after);
    fields_end(&each, &f->reply);
}

static void preview_fields(struct fields *f, const struct outlook *o)
{
    const struct preview_input in = {.in = &o->in,
                                     .plan = &o->plan,
                                     .rows_per_second = o->rate,
                                     .verify_sample = o->options.verify_sample,
                                     .grace_ms = o->options.grace_ms,
                                     .hold = o->options.hold,
                                     .verify_full = o->options.verify_full};
    struct preview p;
    preview_make(&p, &in);
    field_bool(f, "dry_run", true);
    if (o->rate > 0) {
        field_decimal(f, "rows_per_second", o->rate);
        field_text(f, "rows_per_second_by", o->rate_by);
    }
    if (p.timed)
        field_decimal(f, "duration_seconds", p.seconds);
    field_array(f, "steps", p.count);
    for (size_t i = 0; i < p.count; i++)
        step_fields(f, &p.step[i]);
}

/* @code and o->call->error: the result of planning. */
static void answer(const struct outlook *o, enum err code, struct reply *r)
{
    struct fields f;
    fields_begin(&f, r->protocol);
    field_text(&f, "filter", o->call->filter);
    if (o->planned) {
        plan_fields(&f, o);
        field_array(&f, "per_node", o->node_count);
        for (unsigned i = 0; i < o->node_count; i++)
            node_fields(&f, &o->nodes[i]);
    }
    if (o->call->dry_run && o->planned && code == ERR_OK)
        preview_fields(&f, o);
    field_bool(&f, "fits", code == ERR_OK);
    if (code != ERR_OK)
        field_text(&f, "refused", o->call->error.text);
    fields_end(&f, r);
}

enum err admin_plan(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    enum err code = admin_need_source(a, call, r, call->dry_run ? "rebuild it from" : "plan", e);
    if (code != ERR_OK)
        return code;
    const struct runner_job job = admin_rebuild_job(a, call);
    struct outlook o = {.a = a, .call = call, .warning = "", .rate_by = ""};
    runner_options(&o.options, a->service, &job);
    code = admin_open(a, call, e);
    if (code == ERR_OK && call->dry_run)
        code = may_begin(&o, e);
    if (code == ERR_OK)
        code = make_plan(&o, e);
    if (code == ERR_OK && call->dry_run)
        code = rate_of_last_run(&o, e);
    if (code == ERR_OK && call->dry_run && o.rate <= 0)
        code = rate_of_one_page(&o, e);
    source_close(o.source);
    if (code == ERR_OK || is_refusal(code)) {
        answer(&o, code, r);
        code = ERR_OK;
    }
    free(o.nodes);
    return code;
}
