/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILD_OUTPUT_H
#define MIGRATE_BUILD_OUTPUT_H
/* Where a build brings its bits: bitmaps of whole shards, to be ORed into what Redis has. Of the driver's
 * thread. */
#include <stdint.h>
#include "base/error.h"

enum { BUILD_OUTPUT_MAX = 4 /* shards under way */ };

struct build_output {
    /* OR @bytes, a shard of @layer with its tags zero, into that shard in Redis. It may wait for those that
     * are under way; @bytes stay as they are until this one is not. */
    enum err (*put)(struct build_output *o, unsigned layer, uint32_t shard, const void *bytes,
                    struct error *e);
    /* Wait until at most @most shards are under way: those that were put first have arrived. *@left: how many
     * are. On error nothing is under way any more, and what of it has arrived is not known. */
    enum err (*wait)(struct build_output *o, unsigned most, unsigned *left, struct error *e);
};
#endif
