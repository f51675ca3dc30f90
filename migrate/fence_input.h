/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_FENCE_INPUT_H
#define MIGRATE_FENCE_INPUT_H
/* A compare reads the live shards of a generation of the present core, by a fence. */
#include "migrate/compare_input.h"
#include "shard/fence.h"

/* Pointers are borrowed for as long as the compare lives. @view and @generation may be changed between two
 * calls and by its poll, but for the layers that there are. */
struct fence_input {
    struct compare_input input; /* what a compare is given */
    struct fence *fence;
    const struct view *view;
    const struct generation *generation;
};

void fence_input_init(struct fence_input *in, struct fence *fence, const struct view *view,
                      const struct generation *generation);
#endif
