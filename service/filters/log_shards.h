/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_ADMIN_LOG_SHARDS_H
#define SERVICE_ADMIN_LOG_SHARDS_H
/* Shards of a filter that is a log, for commands that read bits: what Redis has of them, and the entries that
 * it lacks yet. So whatever was acknowledged before a read began is in it.
 *
 * Possible failure modes are those of migrate/verify/log_input.h. Blocking; of one thread. */
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"
#include "shard/view/log_view.h"

struct log_shards;

/* Those of @generation of the filter @names, under that incarnation. ERR_CONFLICT: the
 * filter has no such generation any more, or it was never folded, as one that is being built. */
MUST_CHECK enum err log_shards_open(struct log_shards **out, struct sync_client *l, const struct names *names,
                                    uint64_t generation, struct error *e);
/* NULL is fine. */
void log_shards_close(struct log_shards *s);

/* Secret of the keys' hashes. */
uint64_t log_shards_seed(const struct log_shards *s);

/* Read the shards [@first, @first + @count) of @layer to @out, each without its header, one behind the other;
 * zeros where tags are. ERR_LOST: one of them is missing, or is something else. ERR_CONFLICT: a lane was
 * trimmed, replaced, or is in another era: open them again. */
MUST_CHECK enum err log_shards_read(struct log_shards *s, unsigned layer, uint32_t first, uint32_t count,
                                    uint8_t *out, struct error *e);

/* How many keys one shard holds, by its bits. */
double log_shards_keys(const struct geometry *g, const uint8_t *shard);

/* Estimate how many keys each layer holds, by at most some LOG_SHARDS_SAMPLE bytes of shards, spread evenly.
 * @keys has room for all layers. ERR_TIMEOUT: not before @deadline_us. Or as log_shards_read(). */
enum { LOG_SHARDS_SAMPLE = 64 << 20, LOG_SHARDS_RUN = 4 << 20 /* bytes that are read at a time */ };
MUST_CHECK enum err log_shards_count(struct log_shards *s, uint64_t deadline_us, double *keys,
                                     struct error *e);
#endif
