/* SPDX-License-Identifier: MIT */
#ifndef SHARD_GENERATIONS_MAKE_H
#define SHARD_GENERATIONS_MAKE_H
/* Make a filter: lanes with their anchors, empty shards, then the view that names them. Blocking.
 *
 * The happy path is: a record of what will be made (leftover.h) under an incarnation of its own; lanes and
 * shards of every other incarnation are removed; lanes, shards; the record becomes the view. Possible failure
 * modes are: the maker is killed at any point (its record stays, and the next one removes what it names); a
 * second maker (it takes the first one's record over, removes what that names, and the first one publishes
 * no more: so there is never more than one view, and a lease keeps makers from doing this to each other);
 * a node changes its replication id meanwhile, so that what was made there may be gone (all is made again);
 * the reply to the publication is lost (it is asked for again).
 *
 * A filter with content (struct make_content) has its bits in its shards before the view is published: it
 * appears whole, or not at all. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/redis/sync_client.h"
#include "shard/view/log_view.h"
#include "shard/view/shards.h"

/* The record is written: name the incarnation, that of the names, where all masters know it. @was_left: a
 * record of an earlier maker or deleter was cleared away. *@clean: as of struct make_options. */
typedef enum err make_enter_fn(void *arg, bool was_left, bool *clean, struct error *e);

/* Write the bits of a filter into its shards, which are empty and have the token 0 in their headers. @names
 * has the incarnation that they were made under. May be called again, under another one. */
typedef enum err make_fill_fn(void *arg, const struct names *names, const struct generation *g,
                              const struct work *w, struct error *e);

/* What a filter that is loaded has from the beginning. */
struct make_content {
    uint64_t seed;                  /* secret of the keys' hashes */
    const struct generation *shape; /* number 1; its seed is the mix; borrowed */
    uint64_t keys;                  /* that it holds */
    make_fill_fn *fill;
    void *arg;
    /* P:{F}:load, which must still say that it is loading under that incarnation. In the step that publishes
     * the view it says `done`, for @done_ms. */
    uint64_t loading, dump;
    unsigned done_ms;
};

struct make_options {
    uint64_t capacity;
    double error_rate;
    uint32_t expansion; /* growth factor of layers; 0: NONSCALING */
    bool sourced;       /* its keys come from a source: until it is built, no key is "absent" */
    unsigned lanes;     /* 1 .. LOG_LANES_MAX */
    const struct placement *placement; /* the nodes of shards, and of lanes in turn; borrowed */
    uint32_t shard_bytes;
    make_enter_fn *enter; /* NULL: nothing is named */
    void *arg;            /* of it */
    const struct make_content
        *content;        /* NULL: empty; else capacity, rate and shard_bytes are not looked at */
    uint64_t later_than; /* the latest incarnation of the filter that the caller knows of; 0: none */
    bool clean; /* the caller knows that no lane and no shard of an earlier incarnation can be there */
};

/* Make the filter @names, whose incarnation is set to the one that is drawn; *@out is its view. The caller
 * holds the filter's lease, and has made sure that nobody wants what an earlier incarnation has left: all of
 * it is removed, so that none of its lanes is open when the view is published.
 *
 * ERR_EXISTS: there is a view; its incarnation may be one that an earlier call has published without knowing
 * it. ERR_CONFLICT: another process makes or deletes this filter. ERR_FENCED: another dump
 * is being loaded by now. What `fill` says. ERR_RANGE: an option is out of bounds.
 * ERR_WRONG_TYPE: a foreign key has a name of ours, which the text has. ERR_PARSE, ERR_FORMAT: the record is
 * damaged, or of a later version. ERR_NOMEM: also that of Redis. ERR_CONFIG: what an earlier try has left is
 * on a node that is not configured. ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED. What was made is removed,
 * unless it cannot be reached; then the next call does it. */
MUST_CHECK enum err log_make(struct sync_client *l, struct names *names, const struct make_options *o,
                             struct log_view *out, const struct work *w, struct error *e);
#endif
