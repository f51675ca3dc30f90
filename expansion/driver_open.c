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

/* --- the record of a job whose generation is in the view --- */

enum { OPENED_FIELDS = 16, OPENED_NUMBERS = 9 };

struct opened {
    size_t count; /* of pairs */
    unsigned numbers;
    const char *pairs[2 * OPENED_FIELDS];
    char number[OPENED_NUMBERS][24];
    char nodes[NODE_LIST_MAX];
};

static void put(struct opened *o, const char *field, const char *value)
{
    o->pairs[o->count++] = field;
    o->pairs[o->count++] = value;
}

static void put_number(struct opened *o, const char *field, uint64_t value)
{
    char *text = o->number[o->numbers++];
    (void)snprintf(text, sizeof(o->number[0]), "%" PRIu64, value);
    put(o, field, text);
}

static void fill_opened(struct opened *o, const struct driver *d, uint64_t generation)
{
    bool for_bytes = strcmp(d->o->trigger, threshold_name(THRESHOLD_BYTES)) == 0;
    o->count = 0;
    o->numbers = 0;
    put_number(o, "id", d->record.id);
    put(o, "state", "running");
    put(o, "step", step_name(STEP_SETTLE));
    put_number(o, "generation", generation);
    put(o, "owner", d->o->owner);
    put_number(o, "token", mutex_token(d->mutex));
    put(o, "reason", d->o->reason);
    put_number(o, "started_ms", d->record.started_ms);
    put_number(o, "expanded_ms", clock_wall_us() / 1000);
    put_number(o, "bytes_generation", for_bytes ? generation : 0);
    put_number(o, "capacity", d->plan.capacity);
    put_number(o, "rows_total", d->record.rows_total);
    put_number(o, "updated_ms", clock_wall_us() / 1000);
    put(o, "verify_full", d->record.verify_full ? "1" : "0");
    put(o, "nodes", node_list(d, o->nodes));
    put(o, "trigger", d->o->trigger);
}

/* Whoever finds the generation in the view without this record begins with its settle. */
enum err driver_record_opened(struct driver *d, struct error *e)
{
    struct opened o;
    fill_opened(&o, d, d->record.generation);
    record_begin(d, false); /* `plan` has begun it */
    for (size_t i = 0; i < o.count; i += 2)
        record_text(d, o.pairs[i], o.pairs[i + 1]);
    return record_write(d, e);
}

enum err driver_open(struct driver *d, struct error *e)
{
    struct opened o;
    if (d->view.log)
        return driver_log_open(d, e);
    if (d->view.phase == PHASE_BUILDING) /* tried before: the view was changed, the fence was not complete */
        return driver_complete_fence(d, e);
    /* Again: the scratch may have been used since; a new seed is as good while shards are empty. */
    driver_fill_generation(d);
    fill_opened(&o, d, d->next.slot[1 - d->view.current].number);
    const struct fence_job job = {.reset = true, .pairs = o.pairs, .count = o.count};
    d->next.phase = PHASE_BUILDING;
    enum err code = driver_change_view(d, &job, e);
    if (code == ERR_OK)
        d->record.generation = view_alternate(&d->view)->number;
    return code;
}
