/* SPDX-License-Identifier: MIT */
#ifndef BASE_PROCESSORS_H
#define BASE_PROCESSORS_H

/* How many processors this process may use, at least 1: those of its affinity mask, or fewer if its control
 * group (version 2) allows less time; a fraction counts as a whole processor. */
unsigned processors_usable(void);

/* The smallest bound of the control group @path ("/a/b") and the groups above it, in the hierarchy mounted at
 * @root; 0: no bound. */
unsigned processors_granted(const char *root, const char *path);
#endif
