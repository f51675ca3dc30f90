/* SPDX-License-Identifier: MIT */
/* TB.HISTORY. */
#include "expansion/record/history.h"
#include "service/admin/admin.h"
#include "service/core/field.h"

static void write_entry(struct reply *r, const struct admin_call *call, const redisReply *entry)
{
    struct fields f;
    struct history_pair pair;
    const char *at = entry->str;
    fields_begin(&f, r->protocol);
    while (history_next(&at, entry->str + entry->len, &pair))
        admin_put_value(&f, call->filter, call->filter_length, pair.field->shown, pair.field->kind,
                        pair.value);
    fields_end(&f, r);
}

static enum err read_entries(struct admin *a, const struct admin_call *call, redisReply **entries,
                             struct error *e)
{
    struct key_name name;
    uint64_t most = call->count == 0 || call->count > HISTORY_ENTRIES_MAX ? HISTORY_ENTRIES_MAX : call->count;
    enum err code = admin_open(a, call, e);
    if (code == ERR_NOT_FOUND && config_find(a->config, call->filter, call->filter_length) != NULL)
        code = ERR_OK; /* lost, or not made yet */
    if (code != ERR_OK)
        return code;
    names_filter_key(&a->fence.names, "history", &name);
    return link_command(a->link, handle_home(&a->fence), entries, e, "LRANGE %b 0 %d", name.text, name.length,
                        (int)most - 1);
}

enum err admin_history(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    redisReply *entries = NULL;
    enum err code = read_entries(a, call, &entries, e);
    if (code != ERR_OK)
        return code;
    reply_array(r, entries->elements);
    for (size_t i = 0; i < entries->elements; i++)
        write_entry(r, call, entries->element[i]);
    freeReplyObject(entries);
    return ERR_OK;
}
