/* SPDX-License-Identifier: MIT */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H
/* What this process may use: the least of what the machine has, its affinity mask allows, and its control
 * group and the groups above that grant. */
#include <stdint.h>

/* Processors, at least 1; a fraction counts as a whole one. Of control groups only version 2 is looked at. */
unsigned machine_processors(void);

/* Bytes of memory, as they were at the first call. Thread-safe. */
uint64_t machine_memory(void);

/* Below are parts of the above, for tests. UINT64_MAX: no bound. */

/* Processors, from the text of cpu.max ("QUOTA PERIOD"). */
uint64_t machine_read_processors(const char *text);
/* Bytes, from the text of memory.max (version 2) or memory.limit_in_bytes (version 1). */
uint64_t machine_read_memory(const char *text);

/* The least of what @read says of the files @file of the group @path ("/a/b") and the groups above it, below
 * the mount @root. A group without that file has no bound: a container sees its own group as the root. */
uint64_t machine_granted(const char *root, const char *path, const char *file,
                         uint64_t (*read)(const char *text));

/* The path of the process's group in the hierarchy of @controller, from the text of /proc/self/cgroup;
 * "": that of version 2. The path lies within @text, *@length bytes. NULL: there is none. */
const char *machine_group(const char *text, const char *controller, int *length);
#endif
