/* SPDX-License-Identifier: MIT */
/* A name under which nothing is stored: was there never a filter, or did its home node lose it?
 *
 * The happy path is: no shards of that name, nobody who has served it. Possible failure modes are: there are
 * (an add must not make an empty filter in place of one whose keys were acknowledged), a master is away (then
 * that is not known, and nothing is made). A filter that was deleted has left a marker, and is not asked
 * about. */
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

enum err admin_may_make(struct fence *f, bool anew, bool named, struct error *e)
{
    if (anew && !named)
        return ERR_OK;
    bool shards = false;
    struct memory memory = {.who = ""};
    enum err code = named ? fence_has_survivors(f, &shards, e) : ERR_OK;
    if (code == ERR_OK)
        code = roster_read(f->link, f->names.prefix, f->names.filter, take_entry, &memory, e);
    if (code != ERR_OK)
        return code;
    bool remembered = memory.who[0] != '\0';
    if (shards && remembered)
        return error_set(
            e, ERR_LOST,
            "a filter of this name lost its view; coordinator %s remembers and restores it: try again",
            memory.who);
    if (anew || (!shards && !remembered))
        return ERR_OK;
    return error_set(
        e, ERR_LOST, "a filter of this name lost its view (%s%s); BF.RESERVE creates it again, empty",
        shards ? "shards of it are still there" : "it was served by coordinator ", shards ? "" : memory.who);
}
