/* SPDX-License-Identifier: MIT */
#ifndef SHARD_MEMBERS_ERAS_H
#define SHARD_MEMBERS_ERAS_H
/* The replication ids of the shards' nodes, and what to do if one is not the one that the view accepts: after
 * a failover, a restart, or the first replica's attachment. Nobody reads shards of such a node until the view
 * takes its id. Blocking.
 *
 *   the node, the writers                            | what follows
 *   -------------------------------------------------+-------------------------------------------------
 *   the node is the process that was watched under   | nothing was lost: the watcher makes the view
 *   the former id, and has received nothing from     | take the id
 *   another server (replication_goes_on()); or a     |
 *   clean stop tells (clean_stop.h)                  |
 *   it is not known to be that process; each         | each writer writes what it has to the shards,
 *   registered writer has all shards in memory, and  | and says so; the last one makes the view take
 *   one of them has what former writers had added    | the id
 *   a cluster has no master any more with an id that | as for a node that is not known to be that
 *   the view accepts, unless it was seen without     | process: its shards may have passed through a
 *   shards before (it was emptied and removed)       | replica that lagged
 *   anything else; also if no writer is registered   | the same, and the filter is degraded; once a
 *                                                    | writer did not have all, nobody waits for
 *                                                    | writers in doubt
 *
 * What a writer reads of the shards when it writes them is not complete: other writers write after it. A
 * shard that it had to load again is loaded once the view has taken the id. Model: WHOLE_WHEN_WRITTEN of
 * left.pml.
 *
 * A writer's memory has at least the keys whose adds it has acknowledged; so all writers together have every
 * key that one of them has acknowledged. Keys of a writer that has left are in the shards, and in the memory
 * of every process that has read a tail since the view says that the writer left
 * (tests/model/log/left.pml). */
#include "shard/members/clean_stop.h"
#include "shard/redis/wire/replication.h"
#include "shard/redis/sync_client.h"
#include "shard/view/log_view.h"

enum eras_action {
    /* in this order: what must be done for one node is done for all */
    ERAS_KEEP, /* the view accepts all nodes */
    ERAS_TAKE, /* nothing was lost: let the view take the new ids */
    ERAS_WRITE /* a node may lack bits: write the shards first */
};

/* The watch over the nodes. Zero-initialised it has seen nothing. */
struct eras {
    struct replications seen;            /* the masters when the view last accepted all of them */
    struct replications there;           /* set by eras_look(): all masters */
    struct trusted *now;                 /* set by eras_look(): the ids of those that hold shards */
    const struct clean_stop *clean_stop; /* borrowed; NULL: there is none */
};
void eras_fini(struct eras *s);

/* Ask all nodes that hold shards of a generation of @v. ERR_UNREACHABLE: also if one is no master, or if the
 * address of one leads to another node's server. */
MUST_CHECK enum err eras_look(struct eras *s, struct sync_client *l, const struct names *names,
                              const struct log_view *v, enum eras_action *out, struct error *e);

/* What a writer had in memory when it wrote the shards. */
struct eras_written {
    bool all;             /* all shards of the current generation */
    bool knows_left;      /* and all that former writers had added, up to @left */
    struct log_left left; /* the last writer that had left; registration 0: none had left */
};

/* Say that @writer has written all that it has in memory of the current generation of @v to the nodes that
 * eras_look() found; looks at the nodes once more. If that was not all, the filter is degraded, unless a
 * process knows that nothing was lost. ERR_FENCED: the view, its current generation, or a node has changed:
 * begin again. ERR_NOT_FOUND: the writer is not registered. */
MUST_CHECK enum err eras_say(struct eras *s, struct sync_client *l, const struct names *names,
                             const struct log_view *v, const uint8_t writer[LOG_WRITER_BYTES],
                             const struct eras_written *what, struct error *e);
/* *@said: the view has what eras_say() would say, or more. A writer that knows of former writers now, and did
 * not when it wrote, has not said it. */
MUST_CHECK enum err eras_has_said(const struct eras *s, struct sync_client *l, const struct names *names,
                                  const struct log_view *v, const uint8_t writer[LOG_WRITER_BYTES],
                                  const struct eras_written *what, bool *said, struct error *e);
/* Let the view accept what eras_look() found. *@missing: the number of writers that have not said that they
 * wrote; not asked for if @action is ERAS_TAKE. ERR_FENCED as above. */
MUST_CHECK enum err eras_take(struct eras *s, struct sync_client *l, const struct names *names,
                              const struct log_view *v, enum eras_action action, unsigned *missing,
                              struct error *e);
/* Let the view no more accept ids that no master has, behind eras_look(). Call it before anything is written
 * to a node that the view does not accept: its address may lead back to the server before, which the view
 * would accept without what was written meanwhile (shard_era.pml). *@left: there were any. ERR_FENCED as
 * above. */
MUST_CHECK enum err eras_leave(const struct eras *s, struct sync_client *l, const struct names *names,
                               const struct log_view *v, bool *left, struct error *e);
/* The metadata node went back to an older state: let the view not accept its id any more, behind eras_look(),
 * as its shards went back, too. All writers write again, also those that have not noticed.
 * *@was_accepted: false: the view did not accept it; nothing was changed. ERR_FENCED as above. */
MUST_CHECK enum err eras_doubt_home(const struct eras *s, struct sync_client *l, const struct names *names,
                                    const struct log_view *v, bool *was_accepted, struct error *e);
#endif
