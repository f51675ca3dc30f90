/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_CUT_OVER_H
#define TESTS_INTEGRATION_CUT_OVER_H
#include "shard/generations/build.h"

/* Call builder_cutover() until the new generation is current. Nothing reads from lanes or writes to them in
 * between. */
MUST_CHECK static inline enum err cut_over(struct builder *b, bool heals, struct error *e)
{
    bool read = false;
    enum err code = ERR_OK;
    while (code == ERR_OK && !read)
        code = builder_cutover(b, heals, &read, e);
    return code;
}
#endif
