/* SPDX-License-Identifier: MIT */
/* TB.HISTORY. */
#include <string.h>
#include "base/number.h"
#include "expansion/record/history.h"
#include "service/admin/admin.h"
#include "service/core/field.h"

static void put_pair(struct fields *f, const struct admin_call *call, const struct history_pair *pair)
{
    uint64_t n;
    double decimal;
    size_t length = strlen(pair->value);
    bool whole = number_u64(pair->value, length, &n) && n <= INT64_MAX;
    switch (pair->field->kind) {
    case HISTORY_COUNT:
        if (whole)
            field_number(f, pair->field->shown, n);
        return;
    case HISTORY_TIME_MS:
        if (whole)
            field_time(f, pair->field->shown, n);
        return;
    case HISTORY_DECIMAL:
        if (number_double(pair->value, length, &decimal))
            field_decimal(f, pair->field->shown, decimal);
        return;
    case HISTORY_JOB_ID:
        if (number_u64(pair->value, length, &n))
            field_job_id(f, call->filter, call->filter_length, n);
        return;
    case HISTORY_TEXT:
        field_text(f, pair->field->shown, pair->value);
        return;
    }
}

static void write_entry(struct reply *r, const struct admin_call *call, const redisReply *entry)
{
    struct fields f;
    struct history_pair pair;
    const char *at = entry->str;
    fields_begin(&f, r->protocol);
    while (history_next(&at, entry->str + entry->len, &pair))
        put_pair(&f, call, &pair);
    fields_end(&f, r);
}

static enum err read_entries(struct admin *a, struct admin_call *call, redisReply **entries)
{
    const struct config *config = a->config;
    struct key_name name;
    uint64_t most = call->count == 0 || call->count > HISTORY_ENTRIES_MAX ? HISTORY_ENTRIES_MAX : call->count;
    enum err code =
        names_init(&a->handle.names, config->prefix, call->filter, call->filter_length, &call->error);
    if (code == ERR_OK)
        code = handle_load(&a->handle, &a->view, &call->error);
    if (code == ERR_NOT_FOUND && config_find(config, call->filter, call->filter_length) != NULL)
        code = ERR_OK; /* lost, or not made yet */
    if (code != ERR_OK)
        return code;
    names_filter_key(&a->handle.names, "history", &name);
    return sync_client_command(a->redis, handle_home(&a->handle), entries, &call->error, "LRANGE %b 0 %d",
                               name.text, name.length, (int)most - 1);
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
        write_entry(&r, call, entries->element[i]);
    freeReplyObject(entries);
}
