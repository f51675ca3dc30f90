/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FENCE_H
#define SHARD_FENCE_H
/* Making, changing and fencing views: the blocking side, for jobs. Every function is idempotent: whoever
 * finds a step half done may do it again. DESIGN: a view change is (1) change_view under the mutex token, (2)
 * fence, every shard that lives on is renamed to the new epoch and a tombstone is left, (3) fenced_epoch is
 * set. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/link.h"
#include "shard/names.h"
#include "shard/script_call.h"
#include "shard/view.h"

/* A filter as a job sees it. The link is borrowed. Zero-initialise, then fill the first three; fence_fini()
 * at the end. */
struct fence {
    struct link *link;
    struct names names;    /* with the incarnation of the view in use */
    uint64_t tombstone_ms; /* TTL of tombstones */
    bool requests_wait;    /* for what this thread does: what takes long is ERR_ASIDE */
    void (*on_view)(void *arg, const struct names *names,
                    const struct view *v); /* it is in Redis now; or NULL */
    /* The latest view that this process knows of the filter; or NULL. */
    struct view_stamp (*know)(void *arg, const struct names *names);
    void *on_view_arg;        /* of both */
    struct view_stamp latest; /* what was known before the view was loaded last */
    /* Of a filter that is a log, as its view had it when it was loaded last: the keys of a generation. */
    bool log;
    bool logs; /* set by the caller: filters are logs here, and a view of shards alone is refused; else the
                  other way round */
    uint64_t log_keys[2], log_keys_of[2];
    uint64_t replaced; /* the incarnation that was stored then, and counts as none; 0: there was none */
    struct script_call call;
    struct fence_upload_queue {
        unsigned count;
        unsigned first;
        struct fence_upload {
            unsigned where;
            uint32_t shard;
            char tag[2];
            struct key_name live, upload;
        } slot[8]; /* >= FENCE_UPLOADS; ring of uploads whose replies are to come */
    } uploads;
};

void fence_fini(struct fence *f);

/* Have all coordinators look at the view, by P:events. A hint. */
void fence_announce(struct fence *f);

/* The address of what the filter has but for its shards. */
static inline unsigned fence_home(const struct fence *f)
{
    return link_home(f->link, &f->names);
}

/* The tag of @g's blocks under f->names.incarnation. */
uint16_t fence_tag(const struct fence *f, const struct generation *g);

/* A view from the reply to HGETALL; errors name the key by @names. ERR_NOT_FOUND: it is empty, or a marker
 * (see view_parse()). ERR_PARSE. ERR_FORMAT: a later version's. ERR_WRONG_TYPE: the key is not a hash; the
 * text is Redis's. */
MUST_CHECK enum err fence_parse_view(struct view *out, const struct names *names, const redisReply *reply,
                                     struct error *e);

/* Load the view; sets f->names.incarnation. ERR_NOT_FOUND: there is none, or one of an incarnation that was
 * replaced since, by f->know (f->replaced), or the filter is being deleted, or was: out->dropped tells which.
 * ERR_CONFIG: its shards lie on a node that is not configured here. ERR_FORMAT, ERR_PARSE, ERR_WRONG_TYPE,
 * ERR_UNREACHABLE, ERR_TIMEOUT. After any error but ERR_NOT_FOUND the filter must be left alone. */
MUST_CHECK enum err fence_load(struct fence *f, struct view *out, struct error *e);
/* The same, but the view of a filter that is being deleted is found. */
MUST_CHECK enum err fence_load_any(struct fence *f, struct view *out, struct error *e);

/* ERR_CONFIG: @g (which may be an empty slot) has shards on a node that is not configured here. */
MUST_CHECK enum err fence_knows(const struct fence *f, const struct generation *g, struct error *e);

/* The job's view is still in Redis, at @v's epoch or, where the reply to its own last change was lost, at the
 * next one. ERR_FENCED: it is gone, or another's. ERR_UNREACHABLE, ERR_TIMEOUT. */
MUST_CHECK enum err fence_look(struct fence *f, const struct view *v, struct error *e);

/* Make the shards of layer @layer of @g under the names of attempt @token, empty but for their tags, each
 * with a TTL that the fence's rename takes away. Shards that exist are kept. */
MUST_CHECK enum err fence_create(struct fence *f, const struct generation *g, unsigned layer,
                                 struct error *e);
/* Undo fence_create() of an attempt that came to nothing. */
MUST_CHECK enum err fence_discard(struct fence *f, const struct generation *g, unsigned layer,
                                  struct error *e);

/* Model: keeper. Before a first view is published: turn shards of earlier incarnations that survived the loss
 * of their view into tombstones, so that a coordinator that still holds the lost view can neither read nor
 * write them. Those of a filter that is being loaded (fence_dump.h) are none of them. ERR_MUTEX_LOST:
 * @mutex is another's by now; nothing was touched. */
MUST_CHECK enum err fence_sweep(struct fence *f, const char *mutex, uint64_t *swept, struct error *e);

/* *@any: some shard that a view has named, of whatever incarnation, is there: where no view is stored, one
 * was lost. Not one of a filter that is being loaded. ERR_UNREACHABLE, ERR_TIMEOUT. */
MUST_CHECK enum err fence_has_survivors(struct fence *f, bool *any, struct error *e);

/* Publish a first view (epoch 1) under f->names.incarnation. The lineages of all masters are read before
 * that, and are what the filter trusts: v->trusted does not matter. ERR_EXISTS: there is one already, which
 * is neither a marker nor f->replaced. ERR_MUTEX_LOST. ERR_UNREACHABLE, ERR_TIMEOUT: also where some master
 * cannot be asked. */
MUST_CHECK enum err fence_publish(struct fence *f, const struct view *v, const char *mutex, struct error *e);

/* What a change of the view does to the job's record in the same script. */
struct fence_job {
    bool reset;        /* delete it first, but for what an operator asked */
    const char *guard; /* field: where it is 1, an operator asked for something else: nothing is changed.
                          NULL: none */
    const char *const *pairs; /* fields and values to write */
    size_t count;             /* strings in pairs */
};

/* Model: MAY_CHANGE, CHANGE. Replace the view by @to, whose epoch must be @from's + 1, if the mutex holds
 * @mutex, the stored epoch is @from's and it is fenced. @job: NULL: the record stays as it is.
 * ERR_MUTEX_LOST, ERR_FENCED (the epoch moved on), ERR_CONFLICT (the last change is not fenced yet),
 * ERR_CANCELLED (by the guard). */
MUST_CHECK enum err fence_change(struct fence *f, const struct view *from, const struct view *to,
                                 const char *mutex, const struct fence_job *job, struct error *e);

/* Model: anybody, FENCE_IS_DONE. Rename every live shard to v->epoch, then set fenced_epoch. *@lost counts
 * shards that had no string with a tag under any name. ERR_FENCED: the epoch moved on meanwhile. */
MUST_CHECK enum err fence_complete(struct fence *f, struct view *v, uint64_t *lost, struct error *e);

/* Model: anybody, ALL_RETIRED. Turn the shards of v->retiring into tombstones, then clear the record (nothing
 * to do where it is empty). */
MUST_CHECK enum err fence_retire(struct fence *f, struct view *v, const char *mutex, struct error *e);

/* --- deleting a filter: fence_drop.c --- */

/* Say in the view that the filter is being deleted. @v must be loaded and fenced; it is told, too. @due_ms:
 * only where the view's expire_at is this; 0: whatever it is. ERR_MUTEX_LOST, ERR_FENCED (another view),
 * ERR_CONFLICT (not fenced, or another expire_at). Nothing changes where a node of its shards does not
 * answer: ERR_UNREACHABLE, ERR_TIMEOUT, ERR_CONFIG. */
MUST_CHECK enum err fence_drop(struct fence *f, struct view *v, uint64_t due_ms, const char *mutex,
                               struct error *e);
/* There is no filter, and @mutex is held: nothing of the search for it stays in Redis. */
MUST_CHECK enum err fence_drop_nothing(struct fence *f, const char *mutex, struct error *e);
/* Where that has begun, by whomever: turn all shards into tombstones, then leave a marker in place of the
 * view for DROP_MARKER_MS. ERR_MUTEX_LOST, ERR_FENCED, ERR_UNREACHABLE, ERR_TIMEOUT: it may be done again. */
enum { DROP_MARKER_MS = 7 * 24 * 3600 * 1000 };
MUST_CHECK enum err fence_drop_complete(struct fence *f, const struct view *v, const char *mutex,
                                        struct error *e);

/* Set the time (wall clock, ms; 0: never) at which the filter is to be deleted, if @conditions (a set of the
 * bits below) hold. @only_ask: change nothing. *@done: false where they do not, or where there was nothing to
 * take away. ERR_NOT_FOUND: there is no filter. ERR_WRONG_TYPE. */
enum { EXPIRE_NX = 1, EXPIRE_XX = 2, EXPIRE_GT = 4, EXPIRE_LT = 8 };
MUST_CHECK enum err fence_expire(struct fence *f, uint64_t at_ms, unsigned conditions, bool only_ask,
                                 bool *done, struct error *e);

/* --- what a failover or a restart may have lost: fence_trust.c --- */

/* Whether that master may hold something of the filter. */
bool fence_matters(const struct nodes *nodes, const struct view *v, const struct lineage *one);
/* link_lineages(); one that does not matter to @v need not answer. */
MUST_CHECK enum err fence_lineages(struct fence *f, const struct view *v, struct lineages *out,
                                   struct error *e);

/* Let the filter (f->names with its incarnation) trust the lineages @s, and no others, from now on, and tell
 * all coordinators. @mutex must hold: whoever calls this has made sure that what those masters have is whole,
 * and has read
 * @s before it began to. ERR_MUTEX_LOST; ERR_FENCED: the incarnation is another one, or the filter is being
 * deleted. */
MUST_CHECK enum err fence_trust(struct fence *f, const struct lineages *s, const char *mutex,
                                struct error *e);

/* The same for an operator who takes the blame: with @entry, a line as expansion/history.h has it, at the
 * head of the filter's history, of which @entries_max are kept. */
MUST_CHECK enum err fence_accept(struct fence *f, const struct lineages *s, const char *mutex,
                                 const char *entry, unsigned entries_max, struct error *e);

/* The same without a mutex, for what can be told from the outside (a master that is new and empty, a view
 * without the field): only where the view still has what @v has. ERR_CONFLICT: it does not. @v is told. When
 * the filter was last made whole (trusted_ms) is left alone where it is known. */
MUST_CHECK enum err fence_trust_instead(struct fence *f, struct view *v, const struct lineages *s,
                                        struct error *e);
/* The same, but whoever has a view from before has an older one (latest.h): trusted_ms grows. */
MUST_CHECK enum err fence_trust_anew(struct fence *f, struct view *v, const struct lineages *s,
                                     struct error *e);

/* --- fence_bits.c --- */

/* Estimate from their bits how many keys each layer of @g holds: @keys has room for all layers. Bits are
 * counted in ranges of at most 64 KiB, a few at a time; of a generation with more than @ranges_max of them
 * only about as many, spread evenly. ERR_LOST: a shard is not where the view says. ERR_TIMEOUT: not within
 * @timeout_ms. */
enum { BITS_RANGES_MAX = 4096 };
MUST_CHECK enum err fence_count_keys(struct fence *f, const struct view *v, const struct generation *g,
                                     unsigned ranges_max, unsigned timeout_ms, double *keys, struct error *e);

/* Raise the count of one layer of @v's generation in use to @least, where it is less. *@raised: it was.
 * ERR_FENCED: another view is stored. */
MUST_CHECK enum err fence_raise_count(struct fence *f, const struct view *v, unsigned layer, uint64_t least,
                                      bool *raised, struct error *e);

/* --- shards that are not where the view says: fence_lost.c --- */

/* Count shards of @g that have no string with a tag under v's epoch. */
MUST_CHECK enum err fence_count_lost(struct fence *f, const struct view *v, const struct generation *g,
                                     uint64_t *lost, struct error *e);
/* Those of one layer: lost[i] is 1 or 0 for each of its shards; NULL: only *@count. */
MUST_CHECK enum err fence_find_lost(struct fence *f, const struct view *v, const struct generation *g,
                                    unsigned layer, uint8_t *lost, uint64_t *count, struct error *e);
/* The same, but what a failover has put back to an older name is moved to the name under v's epoch first. @v
 * must be fenced. What was written since is missing in it. ERR_FENCED: the epoch moved on meanwhile. */
MUST_CHECK enum err fence_recover(struct fence *f, const struct view *v, const struct generation *g,
                                  unsigned layer, uint8_t *lost, uint64_t *count, struct error *e);

/* --- lost shards that are made anew: fence_unsure.c --- */

/* Make the shards of the first layer of @g of which which[i] is 1, empty but for their tags, under the names
 * of attempt @token, each with a TTL that the fence takes away. */
MUST_CHECK enum err fence_make_anew(struct fence *f, const struct generation *g, uint64_t token,
                                    const uint8_t *which, struct error *e);
/* The shards of v->unsure hold all rows: nothing is unsure any more, and all coordinators hear of it. @v is
 * told. Whoever calls this has seen that they are still those that the rows were added to. ERR_MUTEX_LOST;
 * ERR_FENCED: the view is another one, or has other unsure shards. After an error without an answer
 * (ERR_UNREACHABLE, ERR_TIMEOUT) it may be done. */
MUST_CHECK enum err fence_sure(struct fence *f, struct view *v, const char *mutex, struct error *e);

/* Model: uploads. OR @bytes (a bitmap of a whole shard, tags zero) into a live shard, by an upload and a
 * script that refuses untagged shards. Pipelined: call fence_upload_wait() to know how it ended. At most
 * FENCE_UPLOADS in flight.
 */
enum { FENCE_UPLOADS = 4 };
MUST_CHECK enum err fence_upload(struct fence *f, const struct view *v, const struct generation *g,
                                 unsigned layer, uint32_t shard, uint64_t token, uint64_t page,
                                 const uint8_t *bytes, struct error *e);
/* Wait until no more than @in_flight uploads are under way. ERR_LOST: a live shard was gone. ERR_FENCED. */
MUST_CHECK enum err fence_upload_wait(struct fence *f, unsigned in_flight, struct error *e);

/* Add or look up @count keys in the written layer (adds) or in all layers (checks) of @g, pipelined.
 * found[i]: checks: 1 present, 0 absent; adds: 1 if it was there before. ERR_LOST: a tag was not seen. */
MUST_CHECK enum err fence_add(struct fence *f, const struct view *v, const struct generation *g, size_t count,
                              const char *const *keys, const size_t *lengths, uint8_t *found,
                              struct error *e);
MUST_CHECK enum err fence_check(struct fence *f, const struct view *v, const struct generation *g,
                                size_t count, const char *const *keys, const size_t *lengths, uint8_t *found,
                                struct error *e);

/* Keys that were counted into one layer of @g, and into all, by P:{F}:count. ERR_UNREACHABLE, ERR_TIMEOUT. */
MUST_CHECK enum err fence_items(struct fence *f, const struct generation *g, unsigned layer, uint64_t *items,
                                struct error *e);
/* The same of single shards, @count of them from @first on (at most FENCE_ITEMS_AT_ONCE): one command that
 * holds up Redis for a fraction of a millisecond, where the counts of all shards would hold it up for long.
 */
enum { FENCE_ITEMS_AT_ONCE = 512 };
MUST_CHECK enum err fence_shard_items(struct fence *f, const struct generation *g, unsigned layer,
                                      uint32_t first, uint32_t count, uint64_t *items, struct error *e);
MUST_CHECK enum err fence_all_items(struct fence *f, const struct generation *g, uint64_t *items,
                                    struct error *e);

/* Fill @c with the rename of one shard to its name under v->epoch: what the fence does to all shards, and a
 * coordinator that meets an unfenced view does to the one it needs. */
void fence_rename_call(struct script_call *c, const struct names *names, const struct view *v,
                       const struct generation *g, unsigned layer, uint32_t shard, uint16_t tag,
                       uint64_t tombstone_ms);
#endif
