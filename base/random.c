/* SPDX-License-Identifier: MIT */
#include "base/random.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

uint64_t random_u64(void)
{
    uint64_t value = 0;
    while (value == 0)
        if (getrandom(&value, sizeof(value), 0) != (ssize_t)sizeof(value))
            abort();
    return value;
}

void random_id(uint8_t out[16])
{
    const uint64_t parts[] = {random_u64(), random_u64()};
    memcpy(out, parts, sizeof(parts));
}
