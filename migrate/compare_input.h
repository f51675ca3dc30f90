/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_COMPARE_INPUT_H
#define MIGRATE_COMPARE_INPUT_H
/* Where a compare has the shards of a generation from. Of the driver's thread. */
#include <stdint.h>
#include "base/error.h"

struct compare_input {
    /* Read the shards [@first, @first + @count) of @layer to @bytes, one behind the other, each as long as
     * its blocks; what lies where tags are does not matter. ERR_LOST: one of them is not there, or not whole.
     */
    enum err (*read)(struct compare_input *in, unsigned layer, uint32_t first, uint32_t count, uint8_t *bytes,
                     struct error *e);
};
#endif
