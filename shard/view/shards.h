/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_SHARDS_H
#define SHARD_VIEW_SHARDS_H
/* All shards of one layer in Redis: making them empty, and removing them; and the replication ids of their
 * nodes. Blocking. Only a few shards are under way at a time, so that requests come in between.
 *
 * All functions may return ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED; ERR_CONFIG: the generation lies on a
 * node that is not configured; ERR_NOMEM, also of Redis. After an error no reply is pending in the client. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/generation.h"
#include "shard/redis/wire/replication.h"
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"
#include "shard/resident/header.h"

/* Called between the pieces of long work, to ask whether to go on. An error ends the work, and becomes its
 * result: for example, a lease was lost. It may use the connection to Redis, as nothing is under way on it.
 */
typedef enum err work_fn(void *arg, struct error *e);
struct work {
    work_fn *fn; /* NULL: nothing is called */
    void *arg;
};

enum err work_ask(const struct work *w, struct error *e);

/* Make the shards of layer @layer of @g, empty, with @writer in their headers. Shards that an earlier token
 * left there are replaced. ERR_FENCED: a shard has this token or a later one, whose number is *@later (else
 * 0). ERR_CONFLICT, ERR_WRONG_TYPE: something else has the shard's name; the text has it.
 *
 * A command may be executed late, after its sender was given up. It then replaces nothing that a later token
 * has made; but it makes a shard that was lost meanwhile. So the view names the token under which the shards
 * of a layer were made (struct layer), and a shard with an earlier token counts as lost
 * (header_check_made()). */
MUST_CHECK enum err shards_make(struct sync_client *l, const struct names *names, const struct generation *g,
                                unsigned layer, struct writer_token writer, uint64_t *later,
                                const struct work *w, struct error *e);

/* As shards_make(), but keep shards of that layer which an earlier token left there, with their bits, under
 * this token. *@kept: some were kept, so do not call shards_unmake() for this layer. */
MUST_CHECK enum err shards_keep_or_make(struct sync_client *l, const struct names *names,
                                        const struct generation *g, unsigned layer,
                                        struct writer_token writer, bool *kept, struct error *e);

/* Remove the shards that shards_make() has made with these arguments, if nobody has written them since. */
MUST_CHECK enum err shards_unmake(struct sync_client *l, const struct names *names,
                                  const struct generation *g, unsigned layer, struct writer_token writer,
                                  struct error *e);

/* Remove all existing shards of all layers of @g. */
MUST_CHECK enum err shards_remove(struct sync_client *l, const struct names *names,
                                  const struct generation *g, const struct work *w, struct error *e);

/* As above, for the shards of a dump that is being loaded (names_new_shard()). */
MUST_CHECK enum err shards_remove_new(struct sync_client *l, const struct names *names,
                                      const struct generation *g, struct error *e);

/* True if all shards of all layers of @g are there, or something else under their names. False also if a node
 * does not answer. */
bool shards_are_there(struct sync_client *l, const struct names *names, const struct generation *g);

/* The replication ids of the nodes that hold shards of @g; in a cluster, of all masters with slots.
 * ERR_UNREACHABLE: also if one of them is no master. */
MUST_CHECK enum err shards_eras(struct sync_client *l, const struct names *names, const struct generation *g,
                                struct trusted *out, struct error *e);
/* In a cluster: the ids of the servers that got something since @l was pinned. Nodes do not always agree on
 * which masters there are; so those that were written to need not be those that shards_eras() finds. Nothing
 * with a list of nodes. Errors as above. */
MUST_CHECK enum err shards_eras_asked(struct sync_client *l, struct trusted *out, struct error *e);
/* In a cluster: whether all masters with slots have ids of @eras, and all of @eras are there, also without
 * slots. One that is gone may have lost what was written to it, and given its slots to others before. Errors
 * as above.
 */
MUST_CHECK enum err shards_masters_are(struct sync_client *l, const struct trusted *eras, bool *are,
                                       struct error *e);
/* True if both hold the same ids. */
bool shards_eras_equal(const struct trusted *a, const struct trusted *b);
#endif
