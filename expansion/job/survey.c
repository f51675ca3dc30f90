/* SPDX-License-Identifier: MIT */
#include "expansion/job/survey.h"

#include <stdlib.h>
#include <string.h>
#include "expansion/job/memory.h"
#include "expansion/decide/threshold.h"
#include "shard/members/members.h"

/* A generation grows when it is full, or when the reason for the job says so of a part of it. A rebuild for
 * another reason (an operator, a schedule, a loss) must not grow each time. A rebuild for dead keys is full
 * of keys that it will leave out. */
static bool is_full(const struct driver_options *o, const struct generation *g, uint64_t items, uint64_t rows)
{
    bool dead = strcmp(o->trigger, threshold_name(THRESHOLD_DEAD)) == 0;
    uint64_t most = items > rows && !dead ? items : rows;
    return strcmp(o->trigger, threshold_name(THRESHOLD_BYTES)) == 0 ||
           (double)most >= o->expand_at * (double)g->capacity;
}

enum err survey_nodes(const struct driver_options *o, struct sync_client *l, struct placement *on,
                      struct error *e)
{
    struct generation g = {0};
    enum err code = placement_choose(on, o->nodes, o->on_nodes, e);
    if (code != ERR_OK)
        return code;
    placement_pin(on, o->nodes, &g);
    return members_knows(l, o->prefix, &g, e);
}

enum err survey_plan(const struct driver_options *o, const struct view *v, struct source *source,
                     const struct placement *on, struct plan_input *in, struct plan *plan, struct error *e)
{
    const struct generation *current = view_current(v);
    uint64_t rows = 0, items = v->keys[v->current];
    enum err code = source_rows_estimate(source, &rows, e);
    if (code != ERR_OK)
        return code;
    *in = (struct plan_input){
        .current_capacity = current->built ? current->capacity : o->capacity,
        .source_rows = rows,
        .items = items,
        .growth = o->growth,
        .headroom = o->headroom,
        .least_capacity = o->capacity,
        .keep_capacity = !current->built || !is_full(o, current, items, rows),
        .wanted_capacity = o->wanted_capacity,
        .error_rate = o->wanted_error_rate > 0 ? o->wanted_error_rate : o->error_rate,
        .shard_bytes = o->shard_bytes,
        .build_memory = o->build_memory,
        .node_count = placement_nodes(on, o->nodes),
        .memory_now = memory_of_view(v),
    };
    return plan_make(plan, in, e);
}
