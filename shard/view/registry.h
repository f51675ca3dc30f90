/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_REGISTRY_H
#define SHARD_VIEW_REGISTRY_H
/* Registries: which filters may have shards that a view has named. So nobody has to search all keys for
 * shards that outlived their view. Every master has a registry, a hash of filter -> incarnation:
 * "P:incarnations" with a list of nodes, "P:{tag}:incarnations" in a cluster (the tag of names_on_master()).
 * All registries name an incarnation before it is published, and drop it once it is being deleted. If no
 * registry names a filter, nothing of it needs to be swept. If one does, and there is no view, the view was
 * lost. A registry has a field "{complete}" once it names whatever was there. One without that field is new,
 * or was lost, and says nothing.
 *
 * That no registry names a filter does not prove that it was deleted: a master may have come back as it was
 * before the filter was made. Nor does a name prove that it was not: a registry may be older than the
 * deletion. So whoever removes a view says which incarnation that was, in P:{F}:deleted beside the view, for
 * an hour (tests/model/log/registry.pml).
 *
 * The list of names, P:filters, changes with the registry beside it: that of the metadata node, or in a
 * cluster "P:{P:filters}:incarnations", which serves only this purpose. A name is removed only if the
 * incarnation is the one that was deleted; so a late deletion removes no later filter.
 *
 * The incarnation is that of f->names. All functions may return ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED,
 * ERR_NOMEM. */
#include "shard/filter/slots.h"
#include "shard/view/handle.h"

/* Name the filter on all masters and in the list. Call it under the filter's mutex, before its first view is
 * published. *@named: it was named already, so there may be shards of an earlier incarnation; nothing has
 * changed. ERR_ASIDE: f->requests_wait, and the filter was named already, or the keys must be searched to
 * know. */
MUST_CHECK enum err registry_enter(struct handle *f, bool *named, struct error *e);
/* As above, if the filter was named already: what a registry names only goes up. If the publication fails
 * after this, the name must stay: somebody else may have made the filter meanwhile. ERR_CONFLICT: a registry
 * names a later incarnation. */
MUST_CHECK enum err registry_succeed(struct handle *f, struct error *e);

/* The view of that incarnation exists: name it where nothing is named, and in the list. For a filter whose
 * name was removed or lost. */
MUST_CHECK enum err registry_keep(struct handle *f, struct error *e);

/* What the registries say of the filter @names. */
enum { REGISTRY_HISTORY_FIELD_MAX = FILTER_NAME_MAX + 16 };

/* The last history of a filter's view (history.h), as a master has it. */
struct registry_history {
    uint64_t incarnation; /* 0: that master has none */
    uint64_t id;
};

struct registry_said {
    bool named;           /* some registry names it */
    uint64_t incarnation; /* the latest one that is named; 0: none, or one that is not known */
    bool named_before;    /* some registry names another one */
    uint64_t before;      /* the latest one of those, as above */
    unsigned history_count;
    struct registry_history history[SLOT_NODES_MAX]; /* without repetition; each master has one */
};
/* The field for a filter's history, "{history}<filter>"; its value is "<incarnation> <id>". Returns its
 * length. */
size_t registry_history_field(const struct names *names, char out[REGISTRY_HISTORY_FIELD_MAX]);
/* After an error *@out is what those masters say that answered. */
MUST_CHECK enum err registry_look(struct sync_client *l, const struct names *names, struct registry_said *out,
                                  struct error *e);
/* Ask ahead for that, behind ahead_read() (shard/redis/ahead.h). */
void registry_ask_ahead(struct sync_client *l, unsigned user, const struct names *names);

/* The latest incarnation that was deleted, as home says it; 0: none is known. Asked behind a look that found
 * no view: a filter that was there as that one, or as an earlier one, was deleted, and was not lost. */
MUST_CHECK enum err registry_look_deleted(struct sync_client *l, const struct names *names, uint64_t *out,
                                          struct error *e);
/* Some registry names an incarnation that was not @deleted, other than @record, for which there is a record
 * (0: there is none): a maker has written it, and has published nothing. If there is no view, it was lost. */
static inline bool registry_names_lost(const struct registry_said *said, uint64_t deleted, uint64_t record)
{
    bool is_record = record != 0 && said->incarnation == record;
    bool named = is_record ? said->named_before : said->named;
    uint64_t incarnation = is_record ? said->before : said->incarnation;
    return named && (incarnation == 0 || incarnation > deleted);
}

/* An incarnation for a filter that is a log: later than @latest, which is the latest that anybody knows of,
 * and than those that were drawn before by the clock of the filter's metadata node. So of two incarnations
 * the greater one was made later: a view of the smaller one was replaced, though its server still has it. */
MUST_CHECK enum err registry_draw(struct sync_client *l, const struct names *names, uint64_t latest,
                                  uint64_t *out, struct error *e);

/* Drop the name of an incarnation that is being deleted, or was not published. */
MUST_CHECK enum err registry_leave(struct handle *f, uint64_t incarnation, struct error *e);

/* Have the error @code of a command on the registry @key say so where that is no registry. @list: the prefix
 * of P:filters, which the command needs, too; NULL: it does not. Returns @code. */
enum err registry_refused(enum err code, const struct key_name *key, const char *list, struct error *e);

/* In a cluster registries lie in the lowest slots of the masters. */
struct registry_slots {
    unsigned count;
    uint16_t slot[SLOT_NODES_MAX];
};
/* Remove the registries in slots of *@seen that are no master's lowest any more: they are not told of
 * deletions, and would name deleted filters when their slots are the lowest ones again. *@seen: of the call
 * before; zero-initialised there was none. */
MUST_CHECK enum err registry_remove_left(struct sync_client *l, const char *prefix,
                                         struct registry_slots *seen, struct error *e);

/* If some registry of the prefix of @f is not complete, search the keys of all masters, and complete the
 * registries. One that is lost meanwhile stays incomplete. The filter of @f does not matter. */
MUST_CHECK enum err registry_complete(struct handle *f, struct error *e);
#endif
