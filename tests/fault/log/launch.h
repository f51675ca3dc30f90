/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_LAUNCH_H
#define TESTS_FAULT_LOG_LAUNCH_H
/* Processes that are begun while this one has threads. A process that forks then may stand still for ever, at
 * a lock that one of the threads had (of the allocator, with sanitizers). So they are forked by another one,
 * which has no threads. One at a time. */
#include <stdbool.h>
#include <sys/types.h>

struct launcher;

/* In the process that was begun; returns its exit code. */
typedef int launched_fn(struct launcher *l, void *arg);

/* While this process has no threads. What @arg points to is shared with all that are begun: it was mapped so.
 * NULL: no memory, or no process. */
struct launcher *launcher_new(launched_fn *fn, void *arg);
/* NULL is fine. Whoever was begun is killed. */
void launcher_free(struct launcher *l);

/* Begin one, and wait until it says that it is ready. False: it ended before, or does not come to it. */
bool launcher_start(struct launcher *l, unsigned timeout_us);
/* In that process: say so, and wait until launcher_go(). */
void launched_is_ready(struct launcher *l);
void launcher_go(struct launcher *l);

/* *@status: what it ended with; -1: a signal. */
bool launcher_has_ended(struct launcher *l, int *status);
/* SIGKILL, and wait for its end. One that has ended is fine. */
void launcher_kill(struct launcher *l);
#endif
