/* SPDX-License-Identifier: MIT */
/* Samples of a filter's fill and of clients' requests to it: taken when its status is read, and by the
 * controller every 10 s. */
#include "base/clock.h"
#include "service/admin/admin.h"
#include "service/protocol/field.h"
#include "service/filters/filter_states.h"

void admin_note_sample(struct service *s, const struct view *v, const char *name, size_t length)
{
    const struct generation *g = view_current(v);
    const uint64_t items = v->keys[v->current];
    struct fill one = {.at_s = (uint32_t)(clock_wall_us() / 1000000),
                       .rate = (float)(g->built ? generation_rate(g, items) : 1),
                       .items = items,
                       .capacity = g->capacity,
                       .generation = (uint32_t)g->number};
    traffic_of_filter(&s->meters, name, length, &one.keys);
    filter_states_sample(s->watch, name, length, v->incarnation, &one);
}

enum err admin_samples(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    struct fill kept[FILLS_MAX];
    struct fields f;
    size_t count = filter_states_samples(a->service->watch, call->filter, call->filter_length, kept);
    bool known = count > 0 || config_find(a->config, call->filter, call->filter_length) != NULL;
    enum err code = known ? ERR_OK : admin_open(a, call, e);
    if (code != ERR_OK)
        return code;
    fields_begin(&f, r->protocol);
    field_bytes(&f, "filter", call->filter, call->filter_length);
    field_number(&f, "interval_seconds", FILLS_FINE_S);
    size_t first = call->count > 0 && call->count < count ? count - (size_t)call->count : 0;
    field_array(&f, "samples", count - first);
    for (size_t i = first; i < count; i++) {
        reply_array(&f.reply, 8);
        reply_integer(&f.reply, kept[i].at_s);
        reply_integer(&f.reply, (int64_t)kept[i].items);
        reply_integer(&f.reply, (int64_t)kept[i].capacity);
        reply_double(&f.reply, field_digits(kept[i].rate));
        reply_integer(&f.reply, kept[i].generation);
        reply_integer(&f.reply, (int64_t)kept[i].keys.checks);
        reply_integer(&f.reply, (int64_t)kept[i].keys.maybe);
        reply_integer(&f.reply, (int64_t)kept[i].keys.adds);
    }
    fields_end(&f, r);
    return ERR_OK;
}
