/* SPDX-License-Identifier: MIT */
#include "migrate/fence_output.h"

_Static_assert((int)BUILD_OUTPUT_MAX <= (int)FENCE_UPLOADS, "what a build has under way are uploads");

static enum err put(struct build_output *output, unsigned layer, uint32_t shard, const void *bytes,
                    struct error *e)
{
    struct fence_output *o = (struct fence_output *)output;
    return fence_upload(o->fence, o->view, o->generation, layer, shard, o->token, o->page++, bytes, e);
}

static enum err wait_until(struct build_output *output, unsigned most, unsigned *left, struct error *e)
{
    struct fence_output *o = (struct fence_output *)output;
    enum err code = fence_upload_wait(o->fence, most, e);
    *left = o->fence->uploads.count;
    return code;
}

void fence_output_init(struct fence_output *o, struct fence *fence, const struct view *view,
                       const struct generation *generation, uint64_t token)
{
    *o = (struct fence_output){.output = {.put = put, .wait = wait_until},
                               .fence = fence,
                               .view = view,
                               .generation = generation,
                               .token = token};
}
