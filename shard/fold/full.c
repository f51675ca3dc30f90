/* SPDX-License-Identifier: MIT */
#include "shard/fold/full.h"

extern const char embedded_full_store[];

void log_full_begin(struct log_full *f, const struct log_view *v, const struct log_generation *g,
                    unsigned lane)
{
    *f = (struct log_full){.generation = g->shape.number, .is_marked = log_view_is_full(v, g, lane)};
    if (f->is_marked)
        f->mark = g->full[lane].id;
}

bool log_full_meets(struct log_full *f, struct log_id id, const struct log_entry *entry)
{
    if (!f->is_marked && entry->kind == LOG_FULL && entry->sequence == f->generation) {
        f->is_marked = true;
        f->mark = id;
    }
    return f->is_marked && log_id_compare(id, f->mark) > 0;
}

enum err full_store(struct fold *f, unsigned lane, struct log_lane in, struct log_id mark, struct error *e)
{
    char id[LOG_ID_TEXT_MAX];
    long long stored = 0;
    script_begin_view(&f->call, embedded_full_store, f->names);
    script_number(&f->call, f->slot);
    fold_add_token(f, &f->call);
    script_number(&f->call, f->generation);
    script_number(&f->call, lane);
    log_lane_text(in, script_argument(&f->call));
    script_bytes(&f->call, id, log_id_format(mark, id));
    enum err code = script_run(&f->call, f->redis, sync_client_home(f->redis, f->names), &stored, e);
    return code == ERR_OK && stored != 1 ? fold_fenced(f, ", or the era of the lane has changed", e) : code;
}
