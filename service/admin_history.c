/* SPDX-License-Identifier: MIT */
/* TB.HISTORY. */
#include <string.h>
#include "base/number.h"
#include "expansion/history.h"
#include "service/admin.h"

static void write_entry(struct reply *r, const redisReply *entry)
{
    struct buffer pairs = {0};
    struct reply to = {.out = &pairs, .protocol = r->protocol};
    struct history_pair pair;
    size_t count = 0;
    const char *at = entry->str;
    while (history_next(&at, entry->str + entry->len, &pair)) {
        uint64_t number;
        reply_text(&to, pair.field->name);
        if (pair.field->number && number_u64(pair.value, strlen(pair.value), &number) && number <= INT64_MAX)
            reply_integer(&to, (int64_t)number);
        else
            reply_text(&to, pair.value);
        count++;
    }
    reply_map(r, count);
    buffer_append(r->out, pairs.data, pairs.length);
    r->out->failed |= buffer_failed(&pairs);
    buffer_fini(&pairs);
}

static enum err read_entries(struct admin *a, struct admin_call *call, redisReply **entries)
{
    const struct config *config = a->config;
    struct key_name name;
    uint64_t most = call->count == 0 || call->count > HISTORY_ENTRIES_MAX ? HISTORY_ENTRIES_MAX : call->count;
    enum err code =
        names_init(&a->fence.names, config->prefix, call->filter, call->filter_length, &call->error);
    if (code == ERR_OK)
        code = fence_load(&a->fence, &a->view, &call->error);
    if (code == ERR_NOT_FOUND && config_find(config, call->filter, call->filter_length) != NULL)
        code = ERR_OK; /* lost, or not made yet */
    if (code != ERR_OK)
        return code;
    names_filter_key(&a->fence.names, "history", &name);
    return link_command(a->link, fence_home(&a->fence), entries, &call->error, "LRANGE %b 0 %d", name.text,
                        name.length, (int)most - 1);
}

void admin_history(struct admin *a, struct admin_call *call)
{
    struct reply r = {.out = &call->reply, .protocol = call->protocol};
    redisReply *entries = NULL;
    call->status = read_entries(a, call, &entries);
    if (call->status != ERR_OK) {
        admin_reply_error(&r, call->status, &call->error);
        return;
    }
    reply_array(&r, entries->elements);
    for (size_t i = 0; i < entries->elements; i++)
        write_entry(&r, entries->element[i]);
    freeReplyObject(entries);
}
