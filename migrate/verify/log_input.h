/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_VERIFY_LOG_INPUT_H
#define MIGRATE_VERIFY_LOG_INPUT_H
/* A compare reads a generation of a filter that is a log through the log: shards from Redis, and the entries
 * that they may lack from the lanes. The hashes that are compared are those of the generation:
 * hash_mix(<under the filter's seed>, <the generation's seed>).
 *
 * The happy path is: the positions up to which the shards have every entry are noted first; for each run of
 * shards: load them (shard/resident/load.h: under the headers, tags and replication ids of the view), read
 * the lanes to their ends, apply. So all that was acknowledged before a run is read is in it. Possible
 * failure modes are: a shard is lost; a lane was trimmed past the positions, replaced, or is in another era
 * (ERR_CONFLICT: begin again with the latest view, or the build begins again).
 *
 * Blocking; of the driver's thread. */
#include "shard/resident/resident.h"
#include "shard/generations/build.h"

/* Some 20 KB. */
struct log_input {
    struct sync_client *redis; /* borrowed, as names and generation are */
    const struct names *names;
    const struct generation *generation;
    struct placement placement;
    struct trusted eras; /* replication ids of the shards' nodes */
    unsigned lanes;
    struct lane lane[LOG_LANES_MAX];
    struct log_position at[LOG_LANES_MAX]; /* up to where entries are in the shards, or were applied */
    struct budget budget;
    struct resident *resident; /* the run that is read, and the entries */
};

/* The generation in @slot of @v. ERR_CONFLICT: it was not folded in each of the lanes, as one that is being
 * built. ERR_CONFIG: a node is not configured. ERR_NOMEM. */
MUST_CHECK enum err log_input_init(struct log_input *in, struct sync_client *l, const struct names *names,
                                   const struct log_view *v, unsigned slot, struct error *e);
/* The generation that @b builds, whose shards have all entries up to builder_note(). */
MUST_CHECK enum err log_input_init_build(struct log_input *in, const struct builder *b, struct error *e);
/* Read the shards [@first, @first + @count) of @layer to @bytes, one behind the other, each as long as its
 * blocks; what lies where tags are does not matter. ERR_LOST: one of them is not there, or not whole. */
MUST_CHECK enum err log_input_read(struct log_input *in, unsigned layer, uint32_t first, uint32_t count,
                                   uint8_t *bytes, struct error *e);
/* Also of one that was not made. */
void log_input_fini(struct log_input *in);
#endif
