/* SPDX-License-Identifier: MIT */
#ifndef BASE_PROCESSORS_H
#define BASE_PROCESSORS_H

/* How many processors this process may use, at least 1: those that it may be scheduled on (its affinity), or
 * fewer where a control group (version 2) that it is in grants less time; a part counts as a whole one. */
unsigned processors_usable(void);

/* The least that the group @path ("/a/b") and those above it grant, of the hierarchy that is mounted at
 * @root; 0: no bound. */
unsigned processors_granted(const char *root, const char *path);
#endif
