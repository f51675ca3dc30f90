/* SPDX-License-Identifier: MIT */
/* The steps reclaim, plan and open: clean up after an earlier job, plan a generation, enter it in the
 * view. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/job/driver_internal.h"
#include "expansion/job/memory.h"
#include "expansion/job/survey.h"
#include "expansion/decide/threshold.h"
#include "shard/generations/grace.h"

/* --- reclaim --- */

static enum err make_builder(struct driver *d, struct error *e)
{
    return d->builder != NULL ? ERR_OK : builder_new(&d->builder, d->redis, &d->handle.names, e);
}

/* Continue with a generation that is not completely built. The mutex stays the same when its holder begins a
 * build again. What that driver wrote into the record before, over a connection that broke, may be executed
 * later: so progress counts only for the shards that it was made with, and no step behind the scan before the
 * scan has ended. */
static enum err resume(struct driver *d, struct error *e)
{
    SCOPED(buffer_fini) struct buffer rows = {0}; /* the job's record has them, or an earlier state */
    struct record *r = &d->record;
    enum err code = make_builder(d, e);
    if (code == ERR_OK)
        code = builder_resume(d->builder, &rows, e);
    if (code != ERR_OK)
        return code;
    if (d->builder->anew || r->made != d->builder->shape.layers[0].token)
        r->generation = 0;
    if (!r->scan_ended && r->step > STEP_SCAN && r->step <= STEP_CUTOVER)
        r->step = STEP_SCAN;
    return ERR_OK;
}

enum err driver_reclaim(struct driver *d, struct error *e)
{
    enum err code = grace_delete(d->redis, &d->handle.names, e);
    if (code == ERR_OK)
        code = driver_reload(d, e);
    if (code == ERR_OK && d->view.phase == PHASE_BUILDING && !driver_built(d)->built)
        code = resume(d, e);
    return code;
}

/* --- plan --- */

enum { NODE_LIST_MAX = GENERATION_NODES_MAX * NODE_NAME_MAX };

/* The plan's nodes, for the record. */
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
    enum err code = survey_nodes(o, d->redis, &d->on, e);
    if (code == ERR_OK)
        code = driver_source(d, e);
    if (code == ERR_OK)
        code = driver_source_failed(d, survey_plan(o, &d->view, d->source, &d->on, &in, &d->plan, e));
    if (code == ERR_OK)
        code = memory_fits(&d->handle, &d->view, &d->on, &d->plan, NULL, NULL, warning, e);
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

/* --- open --- */

/* If a driver dies before this is recorded, the next one finds the generation in the view and begins with its
 * settle. What `plan` has written is repeated: the metadata node may have gone back behind it. */
static enum err record_opened(struct driver *d, struct error *e)
{
    char nodes[NODE_LIST_MAX];
    bool for_bytes = strcmp(d->o->trigger, threshold_name(THRESHOLD_BYTES)) == 0;
    record_begin(d, false); /* `plan` has reset it */
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

/* The plan's generation; the builder sets its number and mix. */
static void fill_shape(struct driver *d, struct generation *g)
{
    *g =
        (struct generation){.capacity = d->plan.capacity, .error_rate = d->plan.error_rate, .layer_count = 1};
    g->layers[0] = (struct layer){
        .geometry = d->plan.geometry, .capacity = d->plan.capacity, .error_rate = d->plan.error_rate};
    placement_pin(&d->on, d->o->nodes, g);
}

enum err driver_open(struct driver *d, struct error *e)
{
    enum err code = driver_reload(d, e);
    if (code == ERR_OK && d->view.phase == PHASE_BUILDING) /* it was tried before, and the reply was lost */
        return resume(d, e);
    if (code == ERR_OK)
        code = make_builder(d, e);
    if (code != ERR_OK)
        return code;
    struct generation *shape = &d->next.slot[0];
    fill_shape(d, shape);
    code = builder_begin(d->builder, shape, mutex_value(d->mutex), e);
    if (code == ERR_OK)
        code = driver_reload(d, e);
    if (code != ERR_OK)
        return code;
    d->record.generation = d->builder->shape.number;
    driver_tell_view(d);
    return record_opened(d, e);
}
