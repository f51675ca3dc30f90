/* SPDX-License-Identifier: MIT */
/* The happy path is: read the names of all filters, read each one's status as TB.STATUS does, and write it as
 * a record. Possible failure modes are: Redis is away (no names, and records only of configured filters), or
 * is so slow that the time runs out (the remaining filters come next time). */
#include "service/admin/admin_watching.h"

#include <string.h>
#include "base/clock.h"

struct look {
    struct admin *a;
    struct admin_call *call;
    uint64_t deadline_us;
    uint64_t index; /* index of the next filter */
    uint64_t from;
    bool over;
};

/* --- records: a head, the name, the reply --- */

struct record_head {
    size_t name_length, reply_length;
    enum watching_kind kind;
};

void watching_put(struct admin_call *call, enum watching_kind kind, const char *name, size_t length,
                  const struct buffer *reply)
{
    const struct record_head head = {.name_length = length, .reply_length = reply->length, .kind = kind};
    buffer_append(&call->reply, &head, sizeof(head));
    buffer_append(&call->reply, name, length);
    buffer_append(&call->reply, reply->length == 0 ? "" : reply->data, reply->length);
    call->reply.failed |= buffer_failed(reply);
}

bool watching_next(const struct admin_call *call, size_t *at, struct watching_record *out)
{
    struct record_head head;
    if (buffer_failed(&call->reply) || call->reply.length - *at < sizeof(head))
        return false;
    const char *from = call->reply.data + *at;
    memcpy(&head, from, sizeof(head));
    *out = (struct watching_record){.kind = head.kind,
                                    .name = from + sizeof(head),
                                    .name_length = head.name_length,
                                    .reply = from + sizeof(head) + head.name_length,
                                    .reply_length = head.reply_length};
    *at += sizeof(head) + head.name_length + head.reply_length;
    return true;
}

/* --- one filter --- */

/* False: the filter does not exist. */
static bool look_at(struct look *l, const char *name, size_t length, struct buffer *reply)
{
    struct error ignored;
    struct reply r = {.out = reply, .protocol = REPLY_JSON};
    if ((l->call->flags & WATCHING_STATUS) != 0)
        return admin_status_one(l->a, &r, name, length, &ignored) == ERR_OK;
    admin_sample(l->a, name, length);
    return true;
}

static void take(struct look *l, const char *name, size_t length)
{
    SCOPED(buffer_fini) struct buffer reply = {0};
    uint64_t index = l->index++;
    bool now = index >= l->from && !l->over;
    if (now && clock_mono_us() >= l->deadline_us) {
        l->over = true;
        l->call->cursor = index;
        now = false;
    }
    if (!now || look_at(l, name, length, &reply))
        watching_put(l->call, WATCHING_FILTER, name, length, &reply);
}

/* --- coordinators and nodes --- */

static void take_list(struct look *l, enum watching_kind kind, admin_fn *fn)
{
    struct admin_call *call = admin_call_new(fn, NULL, 0);
    struct error ignored;
    if (call == NULL)
        return;
    struct reply r = {.out = &call->reply, .protocol = REPLY_JSON};
    if ((kind != WATCHING_COORDINATORS_OF_ALL || (call->visible = strdup("")) != NULL) &&
        fn(l->a, call, &r, &ignored) == ERR_OK)
        watching_put(l->call, kind, "", 0, &call->reply);
    admin_call_free(call);
}

/* --- the call --- */

enum err admin_watching(struct admin *a, struct admin_call *call, struct reply *r UNUSED, struct error *e)
{
    struct look l = {.a = a,
                     .call = call,
                     .from = call->cursor,
                     .deadline_us = clock_mono_us() + (uint64_t)WATCHING_BUDGET_MS * 1000};
    call->cursor = 0;
    SCOPED(admin_names_free) struct filter_names all;
    enum err code = admin_names(a, &all, e);
    for (size_t i = 0; i < all.count; i++)
        take(&l, all.name[i].at, all.name[i].length);
    if ((call->flags & WATCHING_STATUS) == 0)
        return code;
    take_list(&l, WATCHING_NODES, admin_nodes);
    if (code != ERR_OK)
        return code;
    take_list(&l, WATCHING_COORDINATORS, admin_coordinators);
    if ((call->flags & WATCHING_RESTRICTED) != 0)
        take_list(&l, WATCHING_COORDINATORS_OF_ALL, admin_coordinators);
    return ERR_OK;
}
