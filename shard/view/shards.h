/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_SHARDS_H
#define SHARD_VIEW_SHARDS_H
/* All shards of one layer in Redis: made empty, removed; and the replication ids of the nodes that they are
 * on. Blocking; a few shards are under way at a time, so that requests come in between.
 *
 * Errors of all: ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED; ERR_CONFIG: the generation lies on a node that is
 * not configured; ERR_NOMEM, also of Redis. After any error no reply is owed to the link. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/generation.h"
#include "shard/redis/wire/replication.h"
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"
#include "shard/resident/header.h"

/* Told between the pieces of long work: @done of @of; 0: nobody knows how many. What it returns but ERR_OK
 * ends the work, as that error: a lease was lost, say. */
typedef enum err work_fn(void *arg, const char *what, uint64_t done, uint64_t of, struct error *e);
struct work {
    work_fn *fn; /* NULL: nobody wants to know */
    void *arg;
};

enum err work_tell(const struct work *w, const char *what, uint64_t done, uint64_t of, struct error *e);

/* Make the shards of layer @layer of @g, empty, with @writer in their headers. What an earlier token has left
 * there is replaced. ERR_FENCED: a shard is there under this token or a later one, whose number is *@later
 * (else 0). ERR_CONFLICT, ERR_WRONG_TYPE: something else has its name; the text has it.
 *
 * A command that is executed late, when its sender has been given up, replaces nothing that a later token has
 * made; but it makes a shard that was lost in between. So the view names the token under which the shards of
 * a layer were made (struct layer), and one with an earlier token counts as lost (header_check_made()). */
MUST_CHECK enum err shards_make(struct sync_client *l, const struct names *names, const struct generation *g,
                                unsigned layer, struct writer_token writer, uint64_t *later,
                                const struct work *w, struct error *e);

/* The same, but a shard of that layer which an earlier token has left there is kept, with its bits, under
 * this token. *@kept: some were, so shards_unmake() is not for this layer. */
MUST_CHECK enum err shards_keep_or_make(struct sync_client *l, const struct names *names,
                                        const struct generation *g, unsigned layer,
                                        struct writer_token writer, bool *kept, const struct work *w,
                                        struct error *e);

/* Remove what shards_make() has made with these arguments, and nobody has written since. */
MUST_CHECK enum err shards_unmake(struct sync_client *l, const struct names *names,
                                  const struct generation *g, unsigned layer, struct writer_token writer,
                                  struct error *e);

/* Remove the shards of all layers of @g, as many as there are. */
MUST_CHECK enum err shards_remove(struct sync_client *l, const struct names *names,
                                  const struct generation *g, const struct work *w, struct error *e);

/* The replication ids of the nodes that hold shards of @g; of a cluster, of all masters with slots.
 * ERR_UNREACHABLE also where one is no master. */
MUST_CHECK enum err shards_eras(struct sync_client *l, const struct names *names, const struct generation *g,
                                struct trusted *out, struct error *e);
/* The same ids. */
bool shards_eras_equal(const struct trusted *a, const struct trusted *b);
#endif
