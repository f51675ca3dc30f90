/* SPDX-License-Identifier: MIT */
/* GET /v1/filters: the status of filters, page by page, ordered by the bytes of their names, so that a filter
 * created or deleted meanwhile moves no other one to a page that was read. */
#include <stdlib.h>
#include "service/admin/admin.h"
#include "service/protocol/field.h"
#include "service/protocol/job_id.h"

/* Keep the names that come after the cursor and that the user may see, sorted. */
static void choose(const struct admin_call *call, struct filter_names *all)
{
    const struct span cursor = {call->filter, call->filter_length};
    size_t n = 0;
    for (const struct span *name = all->name; name < all->name + all->count; name++)
        if ((!call->named || span_order(name, &cursor) > 0) && admin_call_shows(call, name->at, name->length))
            all->name[n++] = *name;
    all->count = n;
    qsort(all->name, n, sizeof(*all->name), span_order);
}

static void put_page(struct admin *a, struct admin_call *call, struct reply *r,
                     const struct filter_names *all)
{
    struct buffer next = {0};
    struct fields f, statuses;
    size_t most = all->count < call->count ? all->count : call->count;
    fields_begin(&f, r->protocol);
    fields_begin(&statuses, r->protocol);
    for (size_t i = 0; i < most; i++) { /* skip a filter that is gone by now */
        struct error ignored;
        statuses.count +=
            admin_status_one(a, &statuses.reply, all->name[i].at, all->name[i].length, &ignored) == ERR_OK;
    }
    field_list(&f, "filters", &statuses);
    if (all->count > most) {
        job_id_put_name(&next, all->name[most - 1].at, all->name[most - 1].length);
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
    struct filter_names all;
    enum err code = admin_names(a, &all, e);
    if (code != ERR_NOMEM) { /* Redis is away: the statuses of configured filters report it */
        choose(call, &all);
        put_page(a, call, r, &all);
        code = ERR_OK;
    }
    admin_names_free(&all);
    return code;
}
