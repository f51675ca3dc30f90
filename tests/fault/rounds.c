/* SPDX-License-Identifier: MIT */
#include "tests/fault/fault.h"
int rounds_run(const struct fault_options *o)
{
    (void)o;
    return 2;
}
