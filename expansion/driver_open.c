/* SPDX-License-Identifier: MIT */
/* From the plan of a generation to the view that has it: plan, create, open. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "expansion/driver_internal.h"
#include "expansion/survey.h"
#include "expansion/threshold.h"

static enum err check_room(struct driver *d, char warning[256], struct error *e)
{
    struct plan_node *nodes;
    unsigned count;
    enum err code = survey_fits(&d->plan, &d->fence, &d->view, &d->on, &nodes, &count, warning, e);
    free(nodes);
    return code;
}

enum { NODE_LIST_MAX = GENERATION_NODES_MAX * NODE_NAME_MAX };

/* Those of the plan, for the record. */
static const char *node_list(const struct driver *d, char out[NODE_LIST_MAX])
{
    const char *name;
    size_t n = 0;
    out[0] = '\0';
    for (unsigned i = 0; (name = placement_name(&d->on, d->o->nodes, i)) != NULL; i++)
        n += (size_t)snprintf(out + n, NODE_LIST_MAX - n, "%s%s", i == 0 ? "" : ",", name);
    return out;
}

enum err driver_plan(struct driver *d, struct error *e)
{
    const struct driver_options *o = d->o;
    struct plan_input in;
    char warning[256];
    enum err code = survey_nodes(o, d->link, &d->on, e);
    if (code == ERR_OK)
        code = driver_source(d, e);
    if (code == ERR_OK)
        code =
            driver_source_failed(d, survey_plan(o, &d->fence, &d->view, d->source, &d->on, &in, &d->plan, e));
    if (code == ERR_OK)
        code = check_room(d, warning, e);
    if (code != ERR_OK)
        return code;
    if (warning[0] != '\0')
        log_warn("plan_warning", "filter=%s warning=%s", log_quote(o->filter), log_quote(warning));
    code = driver_source_failed(d, source_warning(d->source, warning, sizeof(warning), e));
    if (code != ERR_OK)
        return code;
    if (warning[0] != '\0')
        log_warn("source_warning", "filter=%s warning=%s", log_quote(o->filter), log_quote(warning));
    d->record.rows_total = in.source_rows;
    log_info("job_planned",
             "filter=%s rows=%" PRIu64 " capacity=%" PRIu64 " error_rate=%g shards=%u memory_bytes=%" PRIu64
             " partitions=%u",
             log_quote(o->filter), in.source_rows, d->plan.capacity, d->plan.error_rate,
             d->plan.geometry.shards, d->plan.bytes, d->plan.partitions);
    record_begin(d, false);
    record_number(d, "capacity", d->plan.capacity);
    record_number(d, "rows_total", in.source_rows);
    char nodes[NODE_LIST_MAX];
    record_text(d, "nodes", node_list(d, nodes));
    return record_write(d, e);
}

/* The generation of the plan. Numbers come from a counter in the view; the slot is the number's parity, and
 * must be the one that is free. */
void driver_fill_generation(struct driver *d)
{
    d->next = d->view;
    d->next.last_generation = d->view.last_generation + 1;
    if (d->next.last_generation % 2 == d->view.current)
        d->next.last_generation++;
    struct generation *g = &d->next.slot[1 - d->view.current];
    *g = (struct generation){
        .number = d->next.last_generation,
        .seed = random_u64(),
        .built = false,
        .capacity = d->plan.capacity,
        .error_rate = d->plan.error_rate,
        .layer_count = 1,
    };
    g->layers[0] = (struct layer){
        .geometry = d->plan.geometry,
        .capacity = d->plan.capacity,
        .error_rate = d->plan.error_rate,
        .token = mutex_token(d->mutex),
        .born_epoch = d->view.epoch + 1,
    };
    placement_pin(&d->on, d->o->nodes, g);
}

/* Model: made. */
enum err driver_create(struct driver *d, struct error *e)
{
    if (d->view.log) /* its builder makes them */
        return ERR_OK;
    driver_fill_generation(d);
    const struct generation *g = &d->next.slot[1 - d->view.current];
    enum err code = fence_create(&d->fence, g, 0, e);
    struct error ignored;
    if (code != ERR_OK && code != ERR_UNREACHABLE && code != ERR_TIMEOUT &&
        fence_discard(&d->fence, g, 0, &ignored) != ERR_OK)
        log_warn("shards_not_deleted", "filter=%s note=\"shards that were made expire by themselves\"",
                 log_quote(d->o->filter));
    return code;
}

/* Whoever finds the generation in the view without this record begins with its settle. */
enum err driver_record_opened(struct driver *d, struct error *e)
{
    bool for_bytes = strcmp(d->o->trigger, threshold_name(THRESHOLD_BYTES)) == 0;
    char nodes[NODE_LIST_MAX];
    record_begin(d, false); /* `plan` has begun it */
    record_number(d, "id", d->record.id);
    record_text(d, "state", "running");
    record_text(d, "step", step_name(STEP_SETTLE));
    record_number(d, "generation", d->record.generation);
    record_text(d, "owner", d->o->owner);
    record_number(d, "token", mutex_token(d->mutex));
    record_text(d, "reason", d->o->reason);
    record_number(d, "started_ms", d->record.started_ms);
    record_number(d, "expanded_ms", clock_wall_us() / 1000);
    record_number(d, "bytes_generation", for_bytes ? d->record.generation : 0);
    record_number(d, "capacity", d->plan.capacity);
    record_number(d, "rows_total", d->record.rows_total);
    record_text(d, "verify_full", d->record.verify_full ? "1" : "0");
    record_text(d, "nodes", node_list(d, nodes));
    record_text(d, "trigger", d->o->trigger);
    return record_write(d, e);
}

enum err driver_open(struct driver *d, struct error *e)
{
    if (d->view.log)
        return driver_log_open(d, e);
    if (d->view.phase == PHASE_BUILDING) /* tried before: the view was changed, the fence was not complete */
        return driver_complete_fence(d, e);
    /* Again: the scratch may have been used since; a new seed is as good while shards are empty. */
    driver_fill_generation(d);
    bool for_bytes = strcmp(d->o->trigger, threshold_name(THRESHOLD_BYTES)) == 0;
    char id[24], generation[24], token[24], started[24], capacity[24], rows[24], now[24],
        nodes[NODE_LIST_MAX];
    (void)snprintf(id, sizeof(id), "%" PRIu64, d->record.id);
    (void)snprintf(generation, sizeof(generation), "%" PRIu64, d->next.slot[1 - d->view.current].number);
    (void)snprintf(token, sizeof(token), "%" PRIu64, mutex_token(d->mutex));
    (void)snprintf(started, sizeof(started), "%" PRIu64, d->record.started_ms);
    (void)snprintf(capacity, sizeof(capacity), "%" PRIu64, d->plan.capacity);
    (void)snprintf(rows, sizeof(rows), "%" PRIu64, d->record.rows_total);
    (void)snprintf(now, sizeof(now), "%" PRIu64, clock_wall_us() / 1000);
    const char *pairs[] = {"id",
                           id,
                           "state",
                           "running",
                           "step",
                           step_name(STEP_SETTLE),
                           "generation",
                           generation,
                           "owner",
                           d->o->owner,
                           "token",
                           token,
                           "reason",
                           d->o->reason,
                           "started_ms",
                           started,
                           "expanded_ms",
                           now,
                           "bytes_generation",
                           for_bytes ? generation : "0",
                           "capacity",
                           capacity,
                           "rows_total",
                           rows,
                           "updated_ms",
                           now,
                           "verify_full",
                           d->record.verify_full ? "1" : "0",
                           "nodes",
                           node_list(d, nodes),
                           "trigger",
                           d->o->trigger};
    const struct fence_job job = {.reset = true, .pairs = pairs, .count = sizeof(pairs) / sizeof(pairs[0])};
    d->next.phase = PHASE_BUILDING;
    enum err code = driver_change_view(d, &job, e);
    if (code == ERR_OK)
        d->record.generation = view_alternate(&d->view)->number;
    return code;
}
