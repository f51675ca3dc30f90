/* SPDX-License-Identifier: MIT */
#include "base/random.h"

#include <stdlib.h>
#include <sys/random.h>

uint64_t random_u64(void)
{
    uint64_t value = 0;
    while (value == 0)
        if (getrandom(&value, sizeof(value), 0) != (ssize_t)sizeof(value))
            abort();
    return value;
}
