/* SPDX-License-Identifier: MIT */
/* GET /v1/filters: the status of filters, page by page, ordered by the bytes of their names, so that a filter
 * created or deleted meanwhile moves no other one to a page that was read. */
#include <stdlib.h>
#include <string.h>
#include "service/admin/admin.h"
#include "service/protocol/field.h"
#include "service/protocol/job_id.h"

static int order(const struct argument *a, const struct argument *b)
{
    size_t least = a->length < b->length ? a->length : b->length;
    int by_bytes = least == 0 ? 0 : memcmp(a->bytes, b->bytes, least);
    return by_bytes != 0 ? by_bytes : (a->length > b->length) - (a->length < b->length);
}

static int by_order(const void *one, const void *other)
{
    return order(one, other);
}

/* True if @name comes after the cursor and the user may see it. */
static bool is_wanted(const struct admin_call *call, const struct argument *name)
{
    const struct argument cursor = {.bytes = call->filter, .length = call->filter_length};
    return (!call->named || order(name, &cursor) > 0) && admin_call_shows(call, name->bytes, name->length);
}

/* The wanted names of the configuration and of Redis, sorted, each once. NULL: no memory. The caller frees
 * the array; its names are borrowed. */
static struct argument *collect(struct admin *a, const struct admin_call *call, const redisReply *stored,
                                size_t *count)
{
    const struct config *config = a->config;
    size_t n = 0, more = stored == NULL ? 0 : stored->elements;
    struct argument *list = calloc(config->filter_count + more + 1, sizeof(*list));
    if (list == NULL)
        return NULL;
    for (size_t i = 0; i < config->filter_count + more; i++) {
        const redisReply *in_redis =
            i < config->filter_count ? NULL : stored->element[i - config->filter_count];
        const char *configured = in_redis == NULL ? config->filter[i].name : NULL;
        list[n] = in_redis == NULL
                      ? (struct argument){.bytes = configured, .length = strlen(configured)}
                      : (struct argument){.bytes = in_redis->str, .length = (size_t)in_redis->len};
        n += is_wanted(call, &list[n]);
    }
    qsort(list, n, sizeof(*list), by_order);
    *count = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || order(&list[i], &list[i - 1]) != 0)
            list[(*count)++] = list[i];
    return list;
}

static void put_page(struct admin *a, struct admin_call *call, struct reply *r, const struct argument *list,
                     size_t count)
{
    struct buffer next = {0};
    struct fields f, statuses;
    size_t most = count < call->count ? count : call->count;
    fields_begin(&f, r->protocol);
    fields_begin(&statuses, r->protocol);
    for (size_t i = 0; i < most; i++) { /* skip a filter that is gone by now */
        struct error ignored;
        statuses.count +=
            admin_status_one(a, &statuses.reply, list[i].bytes, list[i].length, &ignored) == ERR_OK;
    }
    field_list(&f, "filters", &statuses);
    if (count > most) {
        job_id_put_name(&next, list[most - 1].bytes, list[most - 1].length);
        field_text(&f, "next", buffer_text(&next));
    } else {
        field_null(&f, "next");
    }
    f.bytes.failed |= buffer_failed(&next);
    fields_end(&f, r);
    buffer_fini(&next);
}

enum err admin_page(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    redisReply *stored = NULL;
    struct error ignored; /* Redis is away: the statuses of configured filters report it */
    size_t count = 0;
    if (admin_names(a, &stored, &ignored) != ERR_OK)
        stored = NULL;
    struct argument *list = collect(a, call, stored, &count);
    if (list != NULL)
        put_page(a, call, r, list, count);
    freeReplyObject(stored);
    if (list == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    free(list);
    return ERR_OK;
}
