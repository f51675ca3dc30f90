/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_LOG_OUTPUT_H
#define MIGRATE_LOG_OUTPUT_H
/* A build's bits go into the shards of a generation of a log: each shard is read, and what it lacks is
 * written under the builder's token. Nobody else writes these shards under that token, so nothing comes
 * between.
 *
 * Possible failure modes are: a shard is missing, cut or something else (ERR_LOST: the build begins `anew`);
 * another builder took over (ERR_FENCED); a connection breaks. Behind any of them the builder has to take
 * over before the next write. */
#include "migrate/build_output.h"
#include "shard/view/build.h"

struct log_output {
    struct build_output output; /* what a build is given */
    struct builder *builder;    /* borrowed */
    uint8_t *had;               /* bytes of a shard */
    unsigned count;             /* shards under way: those that were asked for */
    struct {
        unsigned layer;
        uint32_t shard;
        const uint8_t *bits; /* the build's */
        unsigned scripts;    /* that were sent */
    } slot[BUILD_OUTPUT_MAX];
};

MUST_CHECK enum err log_output_init(struct log_output *o, struct builder *builder, struct error *e);
void log_output_fini(struct log_output *o);
#endif
