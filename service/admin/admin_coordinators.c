/* SPDX-License-Identifier: MIT */
/* TB.COORDINATORS: the list of members, for people and programs. Times are those of Redis' clock. */
#include <string.h>
#include "service/admin/admin.h"
#include "service/protocol/field.h"
#include "shard/members/members.h"

struct listing {
    struct admin *a;
    const struct admin_call *call;
    struct fields entries;
    uint64_t now_ms; /* Redis' clock */
};

/* --- lists --- */

/* Read the next item of a list; false: there is none. */
static bool next_item(const char **at, const char **item, size_t *length)
{
    if (**at == '\0')
        return false;
    *item = *at;
    *length = strcspn(*at, "\n");
    *at += *length + ((*at)[*length] == '\n');
    return true;
}

static void node_list(struct fields *f, const char *list)
{
    SCOPED(buffer_fini) struct buffer text = {0};
    const char *item;
    size_t length;
    while (next_item(&list, &item, &length))
        buffer_printf(&text, "%s%.*s", text.length > 0 ? ", " : "", (int)length, item);
    field_text(f, "nodes", buffer_text(&text));
}

/* Addresses of nodes, and errors that may name them, are for users who may use all filters. */
static void state_of(struct fields *f, const struct admin_call *call, const char *field, const char *state)
{
    bool brief = strcmp(state, "ok") == 0 || strcmp(state, "none") == 0;
    field_text(f, field, brief || call->visible == NULL ? state : "down");
}

/* Add names of filters as clients write them; only those that the user may see. */
static void filter_list(struct fields *f, const struct admin_call *call, const char *field, const char *list)
{
    struct fields names;
    const char *item;
    char name[FILTER_NAME_MAX];
    size_t length, name_length;
    fields_begin(&names, f->reply.protocol);
    while (next_item(&list, &item, &length))
        if (names_unescape(item, length, name, &name_length) && admin_call_shows(call, name, name_length)) {
            reply_bulk(&names.reply, name, name_length);
            names.count++;
        }
    field_list(f, field, &names);
}

/* --- one coordinator --- */

/* True if the coordinator holds no view older than the one in Redis, which the next request would load. */
static bool is_current(const struct listing *l, const struct members_entry *entry)
{
    const struct view *v = &l->a->view;
    return entry->epoch == 0 || (entry->incarnation == v->incarnation && entry->epoch >= v->epoch);
}

static void epoch_fields(struct fields *f, const struct listing *l, const struct members_entry *entry)
{
    if (!l->call->named)
        return;
    field_bytes(f, "filter", l->call->filter, l->call->filter_length);
    if (entry->epoch == 0)
        field_null(f, "epoch");
    else
        field_number(f, "epoch", entry->epoch);
    field_number(f, "view_epoch", l->a->view.epoch);
    field_bool(f, "current", is_current(l, entry));
}

static void take_entry(void *arg, const struct members_entry *entry)
{
    struct listing *l = arg;
    struct fields f;
    fields_begin(&f, l->entries.reply.protocol);
    uint64_t uptime_ms = members_figure(entry, MEMBERS_UPTIME), since_ms = uptime_ms + entry->age_ms;
    field_text(&f, "coordinator", entry->id);
    field_text(&f, "state", entry->gone ? "gone" : members_value(entry, MEMBERS_STATE));
    field_text(&f, "version", members_value(entry, MEMBERS_VERSION));
    field_number(&f, "format", members_figure(entry, MEMBERS_FORMAT));
    field_text(&f, "host", members_value(entry, MEMBERS_HOST));
    field_number(&f, "pid", members_figure(entry, MEMBERS_PID));
    field_text(&f, "listen", members_value(entry, MEMBERS_LISTEN));
    field_text(&f, "http", members_value(entry, MEMBERS_HTTP));
    field_time(&f, "started_at", l->now_ms > since_ms ? l->now_ms - since_ms : 0);
    field_number(&f, "uptime_ms", uptime_ms);
    field_number(&f, "age_ms", entry->age_ms);
    field_number(&f, "clients", members_figure(entry, MEMBERS_CLIENTS));
    field_number(&f, "filters", members_figure(entry, MEMBERS_SERVES));
    field_number(&f, "behind", members_figure(entry, MEMBERS_BEHIND));
    filter_list(&f, l->call, "behind_filters", members_value(entry, MEMBERS_BEHIND_FILTERS));
    filter_list(&f, l->call, "jobs", members_value(entry, MEMBERS_JOBS));
    node_list(&f, l->call->visible == NULL ? members_value(entry, MEMBERS_NODES) : "");
    state_of(&f, l->call, "redis", members_value(entry, MEMBERS_REDIS));
    state_of(&f, l->call, "postgres", members_value(entry, MEMBERS_POSTGRES));
    epoch_fields(&f, l, entry);
    fields_end(&f, &l->entries.reply);
    l->entries.count++;
}

/* --- all coordinators --- */

static enum err list(struct listing *l, struct error *e)
{
    struct admin *a = l->a;
    const struct admin_call *call = l->call;
    bool one = call->named;
    enum err code = members_clock(a->redis, a->config->prefix, &l->now_ms, e);
    if (code == ERR_OK && one)
        code = admin_open(a, call, e);
    return code == ERR_OK ? members_read(a->redis, a->config->prefix, one ? a->handle.names.filter : NULL,
                                         take_entry, l, e)
                          : code;
}

enum err admin_coordinators(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    struct listing l = {.a = a, .call = call};
    fields_begin(&l.entries, r->protocol);
    enum err code = list(&l, e);
    if (code == ERR_OK)
        fields_end_list(&l.entries, r);
    else
        fields_drop(&l.entries);
    return code;
}
