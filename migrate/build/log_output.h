/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILD_LOG_OUTPUT_H
#define MIGRATE_BUILD_LOG_OUTPUT_H
/* A build's bits go into the shards of a generation of a log: each shard is read, and what it lacks is
 * written under the builder's token. Nobody else writes these shards under that token, so nothing comes
 * between.
 *
 * Possible failure modes are: a shard is missing, cut or something else (ERR_LOST: the build begins `again`);
 * another builder took over (ERR_FENCED); a connection breaks. Behind any of them the builder has to take
 * over before the next write. */
#include "shard/generations/build.h"

enum { LOG_OUTPUT_MAX = 4 /* shards under way */ };

struct log_output {
    struct builder *builder; /* borrowed */
    uint8_t *had;            /* bytes of a shard */
    unsigned count;          /* shards under way: those that were asked for */
    struct {
        unsigned layer;
        uint32_t shard;
        const uint8_t *bits; /* the build's */
        unsigned scripts;    /* that were sent */
    } slot[LOG_OUTPUT_MAX];
};

MUST_CHECK enum err log_output_init(struct log_output *o, struct builder *builder, struct error *e);
void log_output_fini(struct log_output *o);

/* OR @bits, a shard of @layer with its tags zero, into that shard in Redis. It may wait for those that are
 * under way; @bits stay as they are until this one is not. */
MUST_CHECK enum err log_output_put(struct log_output *o, unsigned layer, uint32_t shard, const void *bits,
                                   struct error *e);
/* Wait until no shard is under way: all have arrived. After an error of this or of log_output_put() none is
 * under way any more, and what of them has arrived is not known. */
MUST_CHECK enum err log_output_wait(struct log_output *o, struct error *e);
#endif
