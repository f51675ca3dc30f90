/* SPDX-License-Identifier: MIT */
/* BF.CARD and BF.INFO. */
#include <strings.h>
#include "expansion/memory.h"
#include "service/admin.h"

/* Load the view and the items of the generation in use. */
static enum err load(struct admin *a, struct admin_call *call, uint64_t *items)
{
    struct fence *f = &a->fence;
    *items = 0;
    enum err code = names_init(&f->names, a->config->prefix, call->filter, call->filter_length, &call->error);
    if (code == ERR_OK)
        code = fence_load(f, &a->view, &call->error);
    if (code == ERR_OK)
        code = fence_all_items(f, view_current(&a->view), items, &call->error);
    return call->status = code;
}

void admin_card(struct admin *a, struct admin_call *call)
{
    struct reply r = {.out = &call->reply, .protocol = call->protocol};
    uint64_t items;
    enum err code = load(a, call, &items);
    if (code == ERR_OK || code == ERR_NOT_FOUND)
        reply_integer(&r, (int64_t)items);
    else
        reply_error(&r, "ERR %s", call->error.text);
}

static const struct {
    const char *word, *title;
} info_fields[] = {
    {"CAPACITY", "Capacity"},         {"SIZE", "Size"},
    {"FILTERS", "Number of filters"}, {"ITEMS", "Number of items inserted"},
    {"EXPANSION", "Expansion rate"},
};

enum { INFO_FIELDS = sizeof(info_fields) / sizeof(info_fields[0]) };

static uint64_t total_capacity(const struct generation *g)
{
    uint64_t capacity = 0;
    for (unsigned i = 0; i < g->layer_count; i++)
        capacity += g->layers[i].capacity;
    return capacity;
}

static void info_value(struct reply *r, const struct view *v, uint64_t items, int field)
{
    const struct generation *g = view_current(v);
    switch (field) {
    case 0:
        reply_integer(r, (int64_t)total_capacity(g));
        break;
    case 1:
        reply_integer(r, (int64_t)memory_of_view(v));
        break;
    case 2:
        reply_integer(r, g->layer_count);
        break;
    case 3:
        reply_integer(r, (int64_t)items);
        break;
    default:
        if (v->expansion == 0)
            reply_null(r);
        else
            reply_integer(r, v->expansion);
    }
}

void admin_info(struct admin *a, struct admin_call *call)
{
    struct reply r = {.out = &call->reply, .protocol = call->protocol};
    uint64_t items;
    enum err code = load(a, call, &items);
    if (code == ERR_NOT_FOUND) {
        reply_error(&r, "ERR not found");
        return;
    }
    if (code != ERR_OK) {
        reply_error(&r, "ERR %s", call->error.text);
        return;
    }
    if (call->field[0] == '\0') {
        reply_map(&r, INFO_FIELDS);
        for (int i = 0; i < INFO_FIELDS; i++) {
            reply_simple(&r, info_fields[i].title);
            info_value(&r, &a->view, items, i);
        }
        return;
    }
    for (int i = 0; i < INFO_FIELDS; i++)
        if (strcasecmp(call->field, info_fields[i].word) == 0) {
            if (call->protocol == 3) {
                reply_map(&r, 1);
                reply_simple(&r, info_fields[i].title);
            } else {
                reply_array(&r, 1);
            }
            info_value(&r, &a->view, items, i);
            return;
        }
    reply_error(&r, "Invalid information value");
}
