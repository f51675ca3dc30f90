/* SPDX-License-Identifier: MIT */
#ifndef SHARD_GENERATIONS_MAKE_H
#define SHARD_GENERATIONS_MAKE_H
/* Make a filter: lanes with their anchors, empty shards, then the view that names them. Blocking.
 *
 * The happy path is: a record of what will be made (leftover.h), with an incarnation of its own; lanes and
 * shards of all other incarnations are removed; lanes and shards are made; the record becomes the view.
 * Possible failure modes are: the maker is killed at any point (its record stays, and the next maker removes
 * what it names); a second maker (it takes over the first one's record, and removes what that names; the
 * first one then cannot publish; so there is never more than one view, and a lease keeps makers from doing
 * this to each other); a node changes its replication id meanwhile, so what was made there may be gone (all
 * is made again); the reply to the publication is lost (the maker publishes again).
 *
 * A filter with content (struct make_content) has its bits in its shards before the view is published: it
 * appears whole, or not at all. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/redis/sync_client.h"
#include "shard/view/log_view.h"
#include "shard/view/shards.h"

/* Called once the record is written: name the incarnation, that of the names, where all masters know it.
 * @was_left: a record of an earlier maker or deleter was removed. *@clean, false before the call: set it if
 * there cannot be lanes or shards of an earlier incarnation. */
typedef enum err make_enter_fn(void *arg, bool was_left, bool *clean, struct error *e);

/* Called for the record of an earlier maker or deleter, which says `deleting`: name its incarnation nowhere
 * any more. */
typedef enum err make_leave_fn(void *arg, uint64_t incarnation, struct error *e);

/* Write the bits of a filter into its shards, which are empty and have the token 0 in their headers. @names
 * has their incarnation. May be called again, with another incarnation. */
typedef enum err make_fill_fn(void *arg, const struct names *names, const struct generation *g,
                              const struct work *w, struct error *e);

/* The content of a filter that is made from a dump. */
struct make_content {
    uint64_t seed;                  /* secret of the keys' hashes */
    const struct generation *shape; /* number 1; its seed is the mix; borrowed */
    uint64_t keys;                  /* number of keys */
    make_fill_fn *fill;
    void *arg;
    /* Incarnation and dump of P:{F}:load, which must still say that this is being loaded. The script that
     * publishes the view sets it to `done`, for @done_ms. */
    uint64_t loading, dump;
    unsigned done_ms;
};

struct make_options {
    uint64_t capacity;
    double error_rate;
    uint32_t expansion; /* growth factor of layers; 0: NONSCALING */
    bool sourced;       /* the keys come from a source: until that is read, no key is "absent" */
    unsigned lanes;     /* 1 .. LOG_LANES_MAX */
    const struct placement *placement;  /* the nodes of shards, and of lanes in turn; borrowed */
    uint32_t shard_bytes;               /* the most of a shard, also of layers to come */
    make_enter_fn *enter;               /* NULL: the incarnation is named nowhere */
    make_leave_fn *leave;               /* NULL with @enter */
    void *arg;                          /* of @enter and @leave */
    const struct make_content *content; /* NULL: empty; else capacity and rate are ignored */
    uint64_t later_than; /* the latest incarnation of the filter that the caller knows; 0: none */
};

/* The first layer of what is made without content. Pure. ERR_RANGE. */
MUST_CHECK enum err make_first_layer(const struct make_options *o, struct layer *first, struct error *e);

/* Make the filter @names. Sets its incarnation to the one that is drawn; *@out is its view. The caller holds
 * the filter's lease, and is sure that nothing of an earlier incarnation is needed: all of that is removed,
 * so none of its lanes is open when the view is published.
 *
 * ERR_EXISTS: there is a view; an earlier call may have published it without learning of it. ERR_CONFLICT:
 * another process makes or deletes this filter. ERR_FENCED: another dump is being loaded by now. The errors
 * of `fill`. ERR_RANGE: an option is out of bounds. ERR_WRONG_TYPE: a foreign key has one of the filter's
 * names, which the text has. ERR_PARSE, ERR_FORMAT: the record is damaged, or of a later version. ERR_NOMEM:
 * also that of Redis. ERR_CONFIG: an earlier attempt left something on a node that is not configured.
 * ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED. After an error what was made is removed; if a node cannot be
 * reached, the next call removes it. */
MUST_CHECK enum err log_make(struct sync_client *l, struct names *names, const struct make_options *o,
                             struct log_view *out, const struct work *w, struct error *e);
#endif
