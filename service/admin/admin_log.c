/* SPDX-License-Identifier: MIT */
/* TB.STATUS: what is wrong with a filter, its state in this coordinator's memory, its lanes, and folding. */
#include <inttypes.h>
#include <stdlib.h>
#include "service/admin/admin.h"
#include "service/protocol/field.h"
#include "service/filters/filter_states.h"
#include "shard/control/filters.h"

/* --- problems --- */

static void lost_text(struct buffer *out, const struct log_lost_status *lost)
{
    buffer_printf(out, "%" PRIu64 " %s missing in Redis (", lost->count,
                  lost->count == 1 ? "shard is" : "shards are");
    for (unsigned i = 0; i < lost->named; i++)
        buffer_printf(out, "%s%u.%" PRIu32, i == 0 ? "layer.shard " : ", ", lost->shard[i].layer,
                      lost->shard[i].shard);
    buffer_puts(out, lost->named < lost->count ? ", ...)" : ")");
}

static void health_fields(struct fields *f, const struct log_status *s, const struct view *v,
                          const struct filter_note *note, bool degraded)
{
    SCOPED(buffer_fini) struct buffer scope = {0};
    const char *remedy = lost_remedy_text(s->remedy);
    if (s->lost.count > 0)
        lost_text(&scope, &s->lost);
    if (scope.length > 0 && remedy[0] != '\0')
        buffer_puts(&scope, "; ");
    buffer_puts(&scope, remedy);
    field_number(f, "lost_shards", s->lost.count);
    field_text(f, "degraded_scope", buffer_text(&scope));
    field_time(f, "degraded_at",
               !degraded               ? 0
               : s->lost.since_ms != 0 ? s->lost.since_ms
                                       : note->degraded_ms);
    field_time(f, "healthy_at", degraded ? 0 : v->healthy_ms);
}

/* Add the error that delays requests or makes them fail. */
static void error_field(struct fields *f, const struct log_status *s)
{
    SCOPED(buffer_fini) struct buffer text = {0};
    if (s->why[0] != '\0')
        buffer_puts(&text, s->why);
    else if (s->adds != ERR_OK)
        buffer_printf(&text, "adds are refused: %s", s->why_adds);
    else if (s->code != ERR_OK)
        buffer_puts(&text, s->error);
    field_text(f, "log_error", buffer_text(&text));
}

/* --- memory --- */

static void memory_fields(struct fields *f, const struct log_status *s)
{
    static const struct log_generation_status none;
    const struct log_generation_status *current = &none, *other = &none;
    for (unsigned i = 0; i < 2; i++)
        if (s->generation[i].answers)
            current = &s->generation[i];
        else if (s->generation[i].number != 0)
            other = &s->generation[i];
    const struct resident_status *m = &current->memory;
    field_number(f, "serving_generation", current->number);
    field_number(f, "resident_shards", m->resident);
    field_number(f, "loading_shards", m->loading);
    field_number(f, "dirty_shards", m->dirty);
    field_number(f, "resident_bytes", m->resident_bytes);
    field_number(f, "loading_bytes", m->loading_bytes);
    field_number(f, "dirty_bytes", m->dirty_bytes);
    field_number(f, "resident_overhead_bytes", m->overhead_bytes + m->overlay_bytes + m->pinned_bytes);
    if (other->number == 0)
        return;
    field_number(f, "alternate_resident_shards", other->memory.resident);
    field_number(f, "alternate_loading_shards", other->memory.loading);
    field_number(f, "alternate_resident_bytes",
                 other->memory.resident_bytes + other->memory.loading_bytes + other->memory.overhead_bytes +
                     other->memory.overlay_bytes + other->memory.pinned_bytes);
}

/* --- lanes and folding --- */

static void lane_fields(struct fields *f, const struct log_status *s)
{
    const char *reading = tail_state_name(TAIL_COMPLETE);
    struct lag_count lag = {0};
    uint64_t bytes = 0;
    for (unsigned i = 0; i < s->lanes; i++) {
        const struct log_lane_status *l = &s->lane[i];
        lag.entries += l->lag.entries;
        lag.bytes += l->lag.bytes;
        bytes += l->redis_bytes;
        if (l->reading != TAIL_COMPLETE)
            reading = tail_state_name(l->reading);
    }
    field_number(f, "lanes", s->lanes);
    field_text(f, "lane_state", reading);
    field_number(f, "lane_bytes", bytes);
    field_number(f, "writers", s->writers);
    field_number(f, "fold_lag_entries", lag.entries);
    field_number(f, "fold_lag_bytes", lag.bytes);
}

/* From the last renewal of the folder's lease; if nobody folds now, from this coordinator's own last fold. */
static void fold_fields(struct fields *f, struct admin *a, const struct log_folder_status *own)
{
    struct lease_status lease = {0};
    struct error ignored;
    enum err code = lease_look(a->redis, &a->handle.names, &lease, &ignored);
    bool is_others = code == ERR_OK && lease.holder[0] != '\0' && !own->is_here;
    const struct lease_report *report = is_others ? &lease.report : &own->report;
    field_text(f, "folder", is_others ? lease.holder : own->is_here ? own->holder : "");
    field_number(f, "folds", report->folds);
    field_time(f, "folded_at", report->folded_ms);
    field_text(f, "fold_error", report->error);
}

void admin_log_fields(struct fields *f, struct admin *a, const char *name, size_t length,
                      const struct filter_note *note, bool degraded)
{
    struct log_status s = {0};
    bool is_open = filters_status(a->service->logs, name, length, &s);
    const struct config_filter *c = config_find(a->config, name, length);
    if (s.remedy == LOST_HEALED_BY_OPERATOR && c != NULL && c->table[0] != '\0') /* it was made without one */
        s.remedy = LOST_HEALED_BY_BUILD;
    health_fields(f, &s, &a->view, note, degraded);
    field_text(f, "log_state", is_open ? log_filter_state_name(s.state) : "unused");
    if (is_open) {
        error_field(f, &s);
        memory_fields(f, &s);
        lane_fields(f, &s);
    }
    fold_fields(f, a, &s.folder);
}
