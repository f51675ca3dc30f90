/* SPDX-License-Identifier: MIT */
#include "migrate/fence_input.h"

#include "shard/fence_dump.h"

static enum err read_shards(struct compare_input *input, unsigned layer, uint32_t first, uint32_t count,
                            uint8_t *bytes, struct error *e)
{
    struct fence_input *in = (struct fence_input *)input;
    uint32_t each = geometry_shard_bytes(&in->generation->layers[layer].geometry);
    const struct dump_run run = {.layer = layer, .first = first, .count = count, .bytes = count * each};
    return fence_read_shards(in->fence, in->view, in->generation, &run, bytes, e);
}

void fence_input_init(struct fence_input *in, struct fence *fence, const struct view *view,
                      const struct generation *generation)
{
    *in = (struct fence_input){
        .input = {.read = read_shards}, .fence = fence, .view = view, .generation = generation};
}
