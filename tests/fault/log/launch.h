/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_LAUNCH_H
#define TESTS_FAULT_LOG_LAUNCH_H
/* Starts processes while this one has threads. The child of a process with threads may wait forever for a
 * lock that a thread had at the fork (the allocator's, with sanitizers). So another process, which has no
 * threads, forks them. One at a time. */
#include <stdbool.h>
#include <sys/types.h>

struct launcher;

/* Runs in the new process; returns the exit code. */
typedef int launched_fn(struct launcher *l, void *arg);

/* Call it while this process has no threads. @arg must point to shared memory if the new processes shall see
 * changes of it. NULL: no memory, or no process. */
struct launcher *launcher_new(launched_fn *fn, void *arg);
/* NULL is fine. A process that still runs is killed. */
void launcher_free(struct launcher *l);

/* Start a process, and wait until it calls launched_is_ready(). False: it ended before, or time ran out. */
bool launcher_start(struct launcher *l, unsigned timeout_us);
/* In the new process: report that it is ready, and wait for launcher_go(). */
void launched_is_ready(struct launcher *l);
void launcher_go(struct launcher *l);

/* *@status: the exit status of the process; -1: a signal ended it. */
bool launcher_has_ended(struct launcher *l, int *status);
/* Send SIGKILL to the process, and wait for its end. It may have ended before. */
void launcher_kill(struct launcher *l);
#endif
