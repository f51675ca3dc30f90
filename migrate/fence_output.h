/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_FENCE_OUTPUT_H
#define MIGRATE_FENCE_OUTPUT_H
/* A build's bits go into the live shards of a generation of the present core, by the uploads of a fence. */
#include "migrate/build_output.h"
#include "shard/fence.h"

/* Pointers are borrowed for as long as the build lives. @view and @generation may be changed between two
 * calls and by its poll, but for the layer. */
struct fence_output {
    struct build_output output; /* what a build is given */
    struct fence *fence;
    const struct view *view;
    const struct generation *generation;
    uint64_t token;
    uint64_t page; /* number of the next upload */
};

void fence_output_init(struct fence_output *o, struct fence *fence, const struct view *view,
                       const struct generation *generation, uint64_t token);
#endif
