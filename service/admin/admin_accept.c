/* SPDX-License-Identifier: MIT */
/* TB.TRUST: an operator accepts a filter's losses. */
#include <inttypes.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/record/history.h"
#include "service/admin/admin.h"
#include "shard/control/filters.h"
#include "shard/members/lost.h"

/* In the form of finish.lua. */
static void put_value(struct buffer *out, const char *name, const char *text)
{
    buffer_printf(out, " %s=", name);
    for (; *text != '\0'; text++)
        if ((unsigned char)*text <= ' ' || *text == '%' || *text == 0x7f)
            buffer_printf(out, "%%%02X", (unsigned char)*text);
        else
            buffer_append(out, text, 1);
}

static enum err put_history(struct admin *a, const struct buffer *entry, struct error *e)
{
    struct key_name key;
    names_filter_key(&a->handle.names, "history", &key);
    unsigned home = handle_home(&a->handle);
    enum err code = sync_client_command(a->redis, home, NULL, e, "LPUSH %b %b", key.text, key.length,
                                        entry->data, entry->length);
    return code == ERR_OK ? sync_client_command(a->redis, home, NULL, e, "LTRIM %b 0 %d", key.text,
                                                key.length, HISTORY_ENTRIES_MAX - 1)
                          : code;
}

/* Runs after the acceptance, which cannot be undone: a failed history entry is logged and is no error. */
static void tell_accepted(struct admin *a, const char *filter, uint64_t begun_ms, uint64_t made)
{
    SCOPED(buffer_fini) struct buffer entry = {0}, reason = {0};
    struct error e = {"out of memory"};
    buffer_printf(&reason, "the loss is accepted: %" PRIu64 " shards were made empty", made);
    buffer_printf(&entry, "started_ms=%" PRIu64 " finished_ms=%" PRIu64 " outcome=trusted trigger=operator",
                  begun_ms, clock_wall_us() / 1000);
    put_value(&entry, "reason", buffer_text(&reason));
    put_value(&entry, "owner", a->service->owner);
    log_warn("trusted_by_operator", "filter=%s reason=%s", log_quote(filter),
             log_quote(buffer_text(&reason)));
    enum err code = buffer_failed(&entry) || buffer_failed(&reason) ? ERR_NOMEM : put_history(a, &entry, &e);
    if (code != ERR_OK)
        log_warn("history_not_written", "filter=%s code=%s error=%s", log_quote(filter), error_name(code),
                 log_quote(e.text));
}

enum err admin_accept(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    struct mutex *mutex = NULL;
    const struct mutex_options options =
        filter_mutex_options(a->service, a->config, call->filter, call->filter_length);
    enum err code = admin_open(a, call, e); /* take no mutex for an invalid name */
    if (code == ERR_OK)
        code = mutex_acquire(&mutex, &options, options.redis_timeout_ms, e);
    if (code != ERR_OK)
        return code;
    uint64_t made = 0, begun_ms = clock_wall_us() / 1000;
    code = handle_load(&a->handle, &a->view, e);
    bool degraded = code == ERR_OK && a->view.degraded;
    if (code == ERR_OK)
        code = lost_accept(a->redis, &a->handle.names, &made, e);
    /* What has to be settled first is for the filter's controls. There may be none: nobody has asked for the
     * filter since its coordinators began. */
    if (code == ERR_BUSY) {
        struct error ignored;
        enum err opened = admin_open_client(a, call, &ignored);
        (void)opened; /* the next call tries again */
    }
    if (code == ERR_OK && degraded)
        tell_accepted(a, call->filter, begun_ms, made);
    filters_look(a->service->logs, call->filter, call->filter_length);
    mutex_release(mutex);
    if (code != ERR_OK)
        return code;
    reply_simple(r, "OK");
    mailbox_wake(a->service->controller);
    return ERR_OK;
}
