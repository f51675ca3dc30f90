/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RECONCILE_H
#define SHARD_RECONCILE_H
/* Views that are older than the shards they name. The node that holds a filter's home keys may come back from
 * an older file, or fail over to a replica that lagged: the view goes back to an earlier epoch, while shards
 * lie under later ones. ARCHITECTURE.md, "A view that went back", says what holds then.
 *
 * The happy path is: whoever remembers a newer view puts it back (fence_put_back); under the mutex, the
 * shards are surveyed, reconcile_decide() says what the view becomes, fence_reconcile() publishes it under an
 * epoch that nobody can have used, fence_complete() brings the shards there from wherever they lie. Possible
 * failure modes are: the keeper dies between any two of these (each is found again by the view's field
 * `recovery`, or by the next survey), somebody else is faster (refused by the scripts). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/fence.h"

enum {
    /* Beyond the largest epoch that was found or is remembered: changes that were lost may have gone further,
     * and whoever holds one of these views must not take the shards under the new one for its own. */
    RECONCILE_EPOCHS = 1000,
    RECONCILE_GENERATIONS = 16,
    RECONCILE_TOKENS = 1000 * 1000
};

/* A string under the name of a shard of the filter's incarnation. */
struct found_shard {
    uint64_t generation;
    uint64_t epoch; /* 0: it lies under its first name */
    uint64_t token; /* of that name */
    unsigned layer;
    uint32_t shard;
    unsigned where; /* it was found there */
};

/* Zero-initialise; survey_fini() at the end. */
struct survey {
    struct found_shard *found;
    size_t count, room;
};

void survey_fini(struct survey *s);
/* The largest epoch under which something lies; 0: none. */
uint64_t survey_top(const struct survey *s);

/* Find them all, by one pass of SCAN over all masters. ERR_UNREACHABLE, ERR_TIMEOUT, ERR_NOMEM. @v is the
 * stored view, or NULL: then a node of a list may be away if it has nothing of @v, and home, as @v trusts it,
 * cannot have forgotten a later view. */
MUST_CHECK enum err fence_survey(struct fence *f, const struct view *v, struct survey *out, struct error *e);

/* What a survey says of a view. */
struct reconcile_evidence {
    uint64_t top; /* survey_top(), or what is noted elsewhere of the incarnation (latest.h) */
    uint64_t
        top_of[2]; /* by slot of the view: the largest epoch of that generation's shards, with their tag */
    uint64_t last_generation; /* the largest number found */
    uint64_t elsewhere; /* shards of the view that lie under another epoch's name, with their tag, and not
                           under its own */
};

/* Survey, look at the tags of what was found, and weigh it against @v. Errors as fence_survey(). */
MUST_CHECK enum err fence_weigh(struct fence *f, const struct view *v, struct reconcile_evidence *out,
                                struct error *e);

/* True where @v is older than its shards, or does not know where they lie. Pure. */
bool reconcile_is_due(const struct view *v, const struct reconcile_evidence *found);
/* True where views later than @v were in use: it may not know the generation, or the layer, that was written
 * last. Pure. */
bool reconcile_knows_less(const struct view *v, const struct reconcile_evidence *found);

/* The view that takes @v's place: one generation, which cannot say "no" before it is built anew. Pure. */
void reconcile_decide(const struct view *v, const struct reconcile_evidence *found, struct view *out);

/* Put @v, which this process remembers, in place of an older view of the same incarnation. Needs no mutex: of
 * several that are remembered the latest stays. The job's record goes, and tokens jump. *@done: false where
 * what is stored is not older. */
MUST_CHECK enum err fence_put_back(struct fence *f, const struct view *v, bool *done, struct error *e);
/* The same where nothing is stored at all. *@done: false where something is, or somebody has the mutex. */
MUST_CHECK enum err fence_put_back_gone(struct fence *f, const struct view *v, bool *done, struct error *e);

/* Replace @from, as it is stored, by @to of reconcile_decide(); the job's record goes, and tokens jump. Then
 * fence_complete(). ERR_MUTEX_LOST, ERR_FENCED (another view is stored by now). */
MUST_CHECK enum err fence_reconcile(struct fence *f, const struct view *from, const struct view *to,
                                    const char *mutex, struct error *e);

/* Before a job or a new layer begins, under the mutex. ERR_LOST: @v is older than the shards, or about to be
 * reconciled. */
MUST_CHECK enum err fence_may_begin(struct fence *f, const struct view *v, struct error *e);
#endif
