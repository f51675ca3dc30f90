/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_VERIFY_LOG_INPUT_H
#define MIGRATE_VERIFY_LOG_INPUT_H
/* Reads a generation for a compare: shards from Redis, and the entries that these may lack from the lanes.
 * The hashes that are compared are those of the generation: hash_mix(<under the filter's seed>, <the
 * generation's seed>).
 *
 * The happy path is: note the positions up to which the shards have every entry; for each run of shards
 * load them (shard/resident/load.h: under the headers, tags and replication ids of the view), read the lanes
 * to their ends, apply the entries. So a run has all that was acknowledged before it is read. Possible
 * failure modes are: a shard is lost; a lane was trimmed past the positions, replaced, or is in another era
 * (ERR_CONFLICT: begin again with the latest view, or restart the build).
 *
 * Blocking; used by the driver's thread. */
#include "shard/resident/resident.h"
#include "shard/generations/build.h"

/* About 20 KB. */
struct log_input {
    struct sync_client *redis; /* borrowed, as are names and generation */
    const struct names *names;
    const struct generation *generation;
    struct placement placement;
    struct trusted eras; /* replication ids of the shards' nodes */
    bool is_checked;     /* of a cluster: all masters had these ids when slots had moved so often, */
    uint32_t moves;      /* by cluster_moves() */
    unsigned lanes;
    struct lane lane[LOG_LANES_MAX];
    struct log_position at[LOG_LANES_MAX]; /* entries up to here are in the shards, or were applied */
    struct budget budget;
    struct resident *resident; /* the shards that were read, and the entries */
};

/* Read the generation in @slot of @v. ERR_CONFLICT: some lane has no folded position for it, as when it is
 * being built. ERR_CONFIG: a node is not configured. ERR_NOMEM. */
MUST_CHECK enum err log_input_init(struct log_input *in, struct sync_client *l, const struct names *names,
                                   const struct log_view *v, unsigned slot, struct error *e);
/* Read the generation that @b builds, whose shards have all entries up to builder_note(). */
MUST_CHECK enum err log_input_init_build(struct log_input *in, const struct builder *b, struct error *e);
/* Read the shards [@first, @first + @count) of @layer, which are not in memory, into in->resident. ERR_LOST:
 * a shard is missing or incomplete. ERR_FENCED: a node has a replication id that the view does not accept, or
 * a master of the view is gone. */
MUST_CHECK enum err log_input_read(struct log_input *in, unsigned layer, uint32_t first, uint32_t count,
                                   struct error *e);
/* Give the memory of those of these shards back that are in memory. */
void log_input_drop(struct log_input *in, unsigned layer, uint32_t first, uint32_t count);
/* May be called on a log_input whose init failed. */
void log_input_fini(struct log_input *in);
#endif
