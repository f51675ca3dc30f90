/* SPDX-License-Identifier: MIT */
/* A name under which nothing is stored: was there never a filter, or did its home node lose it?
 *
 * The happy path is: nobody serves it. Possible failure modes are: somebody does (an add must not make an
 * empty filter in place of one whose keys were acknowledged), home is away (then that is not known, and
 * nothing is made). */
#include "service/admin.h"

#include <stdio.h>
#include "shard/roster.h"

struct memory {
    char who[ROSTER_ID_MAX];
};

static void take_entry(void *arg, const struct roster_entry *entry)
{
    struct memory *m = arg;
    if (!entry->gone && entry->epoch != 0)
        (void)snprintf(m->who, sizeof(m->who), "%s", entry->id);
}

enum err admin_may_make(struct fence *f, struct error *e)
{
    struct memory memory = {.who = ""};
    enum err code = roster_read(f->link, f->names.prefix, f->names.filter, take_entry, &memory, e);
    if (code != ERR_OK || memory.who[0] == '\0')
        return code;
    return error_set(
        e, ERR_LOST,
        "a filter of this name lost its view (it was served by coordinator %s); BF.RESERVE creates "
        "it again, empty",
        memory.who);
}
