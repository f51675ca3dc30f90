/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_FILTERS_LOG_SHARDS_H
#define SERVICE_FILTERS_LOG_SHARDS_H
/* Reads shards for commands that need bits: from Redis, completed by the entries that they lack. So they
 * contain all that was acknowledged before the read began.
 *
 * Possible failure modes are those of migrate/verify/log_input.h. Blocking; for one thread. */
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"
#include "shard/view/log_view.h"

struct log_shards;

/* Open the shards of @generation of the filter @names, under that incarnation. ERR_CONFLICT: the filter has
 * no such generation any more, or it was never folded, as when it is being built. */
MUST_CHECK enum err log_shards_open(struct log_shards **out, struct sync_client *l, const struct names *names,
                                    uint64_t generation, struct error *e);
/* NULL is fine. */
void log_shards_close(struct log_shards *s);

/* The view that the shards are read under. */
const struct log_view *log_shards_view(const struct log_shards *s);

/* Read the shards [@first, @first + @count) of @layer to @out, contiguously, without headers and with zeros
 * in place of tags. ERR_LOST: a shard is missing or is something else. ERR_CONFLICT: a lane was trimmed,
 * replaced, or is in another era: open the shards again. */
MUST_CHECK enum err log_shards_read(struct log_shards *s, unsigned layer, uint32_t first, uint32_t count,
                                    uint8_t *out, struct error *e);

/* The number of keys in one shard, estimated from its bits. */
double log_shards_keys(const struct geometry *g, const uint8_t *shard);

/* Estimate the number of keys in each layer from at most LOG_SHARDS_SAMPLE bytes of shards, spread evenly.
 * @keys has room for all layers. ERR_TIMEOUT: not finished by @deadline_us. Others as of
 * log_shards_read(). */
enum { LOG_SHARDS_SAMPLE = 64 << 20, LOG_SHARDS_RUN = 4 << 20 /* bytes read at a time */ };
MUST_CHECK enum err log_shards_count(struct log_shards *s, uint64_t deadline_us, double *keys,
                                     struct error *e);
#endif
