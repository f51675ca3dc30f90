/* SPDX-License-Identifier: MIT */
#ifndef SHARD_CATALOG_H
#define SHARD_CATALOG_H
/* The filters as one event loop knows them: the view of each, its reload, the counts of what was added.
 * Belongs to one thread; nothing is locked. Operations (operation.h) go through it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <event2/event.h>
#include "base/error.h"
#include "shard/names.h"
#include "shard/nodes.h"
#include "shard/store.h"
#include "shard/view.h"

struct catalog;
struct operation;
TAILQ_HEAD(operation_list, operation);

/* Where a shard was found lost. */
struct lost_shard {
    uint64_t generation; /* 0: the whole view is */
    uint64_t epoch;      /* of the view, */
    uint64_t trusted_ms; /* and since when that trusts its masters */
};

/* What the configuration says of a filter. */
struct filter_policy {
    bool configured;
    bool sourced;       /* rows in Postgres are the truth: what is lost comes back by a rebuild */
    bool error_on_lost; /* answer an error instead of "maybe" */
    unsigned add_acks;  /* replicas that must have an add before it is acknowledged */
    bool add_fsync;     /* and disks */
};

struct catalog_options {
    const struct nodes *nodes; /* borrowed */
    const char *prefix;        /* borrowed */
    struct latency *latency;   /* borrowed; how long Redis takes is recorded there. NULL: nowhere */
    unsigned redis_timeout_ms;
    unsigned timeout_ms; /* of an operation */
    uint64_t tombstone_ms;
    struct filter_policy (*policy)(void *policy_arg, const char *name, size_t length);
    void *policy_arg;
    /* The filter has a view, as some catalog of this process found: its absence is a loss from now on. Called
     * for each incarnation. */
    void (*on_seen)(void *arg, const char *name, size_t length, uint64_t incarnation);
    /* That incarnation was deleted: its absence is no loss. */
    void (*on_dropped)(void *arg, const char *name, size_t length, uint64_t incarnation);
    bool (*was_seen)(void *arg, const char *name, size_t length);
    /* The latest view that is known of the filter, in this process or by what masters have noted. NULL:
     * nothing is remembered. */
    struct view_stamp (*latest)(void *arg, const char *name, size_t length);
    /* A view was loaded. @older: than one that was known before it was asked for, so it went back; somebody
     * will see to that. NULL: nobody does. */
    void (*on_view)(void *arg, const char *name, size_t length, const struct view *v, bool older);
    /* What is lost under that view is lost for good, as all that lies in Redis was looked at: it does not
     * turn up under a later epoch, where others may read it. False: not known yet, but soon. NULL: it always
     * is. */
    bool (*is_loss_sure)(void *arg, const char *name, size_t length, const struct view *v);
    /* A shard was found lost, or the whole view. Called at most once per view, and once while there is none.
     */
    void (*on_lost)(void *arg, const char *name, size_t length, const struct lost_shard *lost);
    /* This catalog holds that view from now on; epoch 0: none. @filter is escaped. NULL: nobody asks. */
    void (*on_holds)(void *arg, unsigned loop, const char *filter, uint64_t incarnation, uint64_t epoch);
    unsigned loop; /* which catalog of this process it is */
    /* An answer would have been "no" by the word of a master that the filter does not trust. Called from time
     * to time while that is so. NULL: nobody wants to know. */
    void (*on_suspect)(void *arg, const char *name, size_t length);
    /* An entry goes that has something @open. */
    void (*on_forget)(void *open);
    void *arg;
};

/* A view with what is derived from it, shared by the operations that run under it. */
struct shared_view {
    unsigned references;
    struct view v;
    struct placement placement[2];
    uint16_t tag[2];
    struct names names;  /* with the view's incarnation */
    uint8_t *renamed[2]; /* per layer and shard: the rename was sent (unfenced views only) */
    uint32_t *added[2];  /* new keys per shard of the written layer, not yet flushed */
    uint64_t added_total[2];
    bool lost_reported[2]; /* of the generation of each slot */
    /* While the counts of its single shards are on their way to Redis, a few at a time. */
    TAILQ_ENTRY(shared_view) drain_link;
    bool draining;
    bool drain_again; /* another pass is wanted: more was counted behind the one that is under way */
    unsigned drain_slot;
    uint32_t drain_shard;
    uint64_t drain_due; /* not before */
    /* How full the written layer of the current generation is, over all coordinators; looked at for filters
     * without a source, whose adds wait when it is full. */
    bool items_known;
    uint64_t items;             /* as Redis last said */
    uint64_t unconfirmed;       /* sent to Redis since, not answered */
    uint64_t unconfirmed_since; /* when Redis was last heard of while counts are due, in µs; 0: none are */
    uint64_t in_flight;         /* keys of adds that are under way: each may be one more */
    /* v.trusted as a table of @trusted_mask + 1 places, of which at least half are 0; NULL: all are trusted.
     * The ids are random digits, so they are hashes of their own. */
    uint64_t *trusted;
    uint64_t trusted_mask;
    uint64_t home; /* whom home's address led to when that told of it: store_server(); 0: not known */
};

/* True where the filter trusts the master of that lineage (lineage.h) to have all that was acknowledged. */
static inline bool shared_view_trusts(const struct shared_view *view, uint64_t lineage)
{
    if (view->trusted == NULL)
        return true;
    uint64_t at = lineage & view->trusted_mask;
    while (view->trusted[at] != 0 && view->trusted[at] != lineage)
        at = (at + 1) & view->trusted_mask;
    return view->trusted[at] != 0;
}

/* True where that shard does not hold all rows yet: what is absent in it may have been acknowledged. */
static inline bool shared_view_is_unsure(const struct shared_view *view, unsigned slot, unsigned layer,
                                         uint32_t shard)
{
    return unsure_contains(&view->v.unsure, view->v.slot[slot].number, layer, shard);
}

enum view_outcome {
    VIEW_FOUND,
    VIEW_MISSING, /* and nobody had seen one when it was asked for, or it was deleted */
    VIEW_LOST,    /* it is missing, and was there */
    VIEW_UNREACHABLE,
    VIEW_REFUSED,    /* by an error that will pass */
    VIEW_WRONG_TYPE, /* something else lies under its name */
    VIEW_DAMAGED,
    VIEW_NEWER, /* of a format that a later version writes */
    VIEW_ABROAD /* with shards on a node that is not configured here */
};

struct catalog_filter {
    struct catalog *catalog;
    struct names names;
    struct filter_policy policy;
    bool seen;             /* a view was there once: its absence is a loss */
    bool absence_reported; /* while there is no view */
    bool told;             /* on_holds() was told of a view */
    bool lost;             /* `view` is gone from Redis: it is still told of */
    bool doubtful; /* what Redis has is older than `view`, or was until somebody put that back: a shard may
                    * have come back with older data, so nothing is absent */
    bool loading;
    bool load_again; /* asked for during the reload that is under way */
    bool dirty;      /* in catalog->dirty */
    bool unfenced;   /* in catalog->unfenced: its view changes soon */
    size_t name_length;
    char *name;                         /* as clients say it, unescaped */
    struct shared_view *view;           /* NULL: not loaded */
    uint64_t incarnation;               /* of the view that was seen last */
    void *meter;                        /* of whoever counts its answers; NULL at first */
    void *open;                         /* of whoever keeps it as a log; NULL: nothing. For on_forget() */
    uint64_t suspected_at;              /* when a suspect master was last told of */
    struct view_stamp latest;           /* as known when the load began */
    size_t users;                       /* operations that name it */
    struct operation_list waiting;      /* for the reload that is under way */
    struct operation_list waiting_next; /* came during it: need another one, begun after them */
    TAILQ_ENTRY(catalog_filter) dirty_link;
    TAILQ_ENTRY(catalog_filter) unfenced_link;
    struct catalog_filter *next; /* of the hash chain */
};

struct catalog *catalog_new(struct event_base *base, const struct catalog_options *options);
/* Operations still running are finished with ERR_CANCELLED. */
void catalog_free(struct catalog *c);

/* The configuration has changed: other deadlines, and the policy of every filter is asked for anew. A request
 * under way gets no more time than a new one. */
void catalog_configure(struct catalog *c, unsigned timeout_ms, uint64_t tombstone_ms);

/* The entry of a filter, made if needed. ERR_RANGE: the name is too long. The entry lives until the catalog
 * is freed or its filter turns out not to exist. */
MUST_CHECK enum err catalog_find(struct catalog *c, const char *name, size_t length,
                                 struct catalog_filter **out, struct error *e);

/* Load the view of a filter again, if the catalog has the filter: what was published before this call is
 * known when the load ends. Operations under way go on under the view they have. */
void catalog_refresh(struct catalog *c, const char *name, size_t length);

/* Send what was counted to Redis now. @fn is called when Redis has all of it, or cannot be asked (counts are
 * approximate then): the time to ask for counts on another connection. It may be called from inside. */
typedef void catalog_flushed_fn(void *arg);
void catalog_flush(struct catalog *c, catalog_flushed_fn *fn, void *arg);

/* What its owner keeps beside it: where requests to logs go. NULL: there are none. */
void catalog_set_port(struct catalog *c, void *port);
void *catalog_port(const struct catalog *c);

/* --- for operation.c --- */
struct store *catalog_store(struct catalog *c);
const struct catalog_options *catalog_options(const struct catalog *c);
/* The address of what a filter has but for its shards. */
unsigned catalog_home(const struct catalog *c, const struct names *names);
/* Model: reload, reloader. Reload the view after this moment; then operation_view_ready(). */
void catalog_reload(struct catalog_filter *f, struct operation *op);
void catalog_count(struct catalog_filter *f, struct shared_view *view, unsigned slot, uint32_t shard);
/* Keys that may still be added to the written layer before it is full, 0 where it is. */
uint64_t shared_view_room(const struct shared_view *view);
/* How many of these may be added before the home node is heard of again. While it does not take counts, event
 * loops know nothing of each other: each takes a sixteenth of the room. UINT64_MAX: it does. */
uint64_t shared_view_room_unseen(const struct shared_view *view, uint64_t now);
void catalog_use(struct catalog_filter *f);
void catalog_unuse(struct catalog_filter *f);
void catalog_report_lost(struct catalog_filter *f, uint64_t generation);
/* A "no" of a master that the filter does not trust, or of a shard that is unsure, was met: tell it, not too
 * often, and look whether the view has changed. */
void catalog_report_suspect(struct catalog_filter *f);
/* Another server may be home by now than the one that told of @view: its own may be an older one, or a newer.
 */
bool catalog_home_moved(const struct catalog *c, const struct shared_view *view);
/* Within the callback of a reply: it comes from a master that the filter trusts to have all that was
 * acknowledged, by a view of the home that is there now. */
bool catalog_trusts(const struct catalog *c, const struct shared_view *view);
struct shared_view *shared_view_ref(struct shared_view *view);
void shared_view_unref(struct shared_view *view);
/* A shard was not where its rename should have put it: the rename may have been lost on its way. Send them
 * again. */
void shared_view_forget_renames(struct shared_view *view);
#endif
