/* SPDX-License-Identifier: MIT */
#include "service/core/limits.h"

#include <sys/resource.h>

uint64_t limits_connections(uint64_t wanted, uint64_t others)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return wanted;
    rlim_t need = wanted + others;
    if (files.rlim_cur >= need)
        return wanted;
    const struct rlimit as_root = {.rlim_cur = need,
                                   .rlim_max = need > files.rlim_max ? need : files.rlim_max};
    const struct rlimit as_may_be = {.rlim_cur = files.rlim_max, .rlim_max = files.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &as_root) == 0)
        return wanted;
    if (setrlimit(RLIMIT_NOFILE, &as_may_be) == 0)
        files = as_may_be;
    return files.rlim_cur > others ? files.rlim_cur - others : 0;
}
