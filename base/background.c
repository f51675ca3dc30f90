/* SPDX-License-Identifier: MIT */
#include "base/background.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    /* Added to the nice value of the thread. SCHED_IDLE would be too much: while other threads take all
     * processors, an idle thread waits for a second, and so does the thread that joins it. */
    NICER = 10,
    SLICE_NS = 100000000 /* the longest that Linux takes */
};

struct background {
    background_fn *run;
    void *arg;
    uint64_t until;
};

/* What sched_setattr() takes. glibc has it since 2.41, and the kernel's header does not go with <sched.h>. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

/* A thread of SCHED_BATCH does not preempt others when it wakes up, and since Linux 6.12 those with a shorter
 * slice preempt it at once. If this fails, the thread is not nicer. */
static void be_nice(void)
{
    int nice = getpriority(PRIO_PROCESS, 0) + NICER;
    const struct attributes a = {.size = sizeof(a), .policy = SCHED_BATCH, .nice = nice, .runtime = SLICE_NS};
    if (syscall(SYS_sched_setattr, 0, &a, 0) != 0)
        (void)setpriority(PRIO_PROCESS, (id_t)gettid(), nice);
}

static void *run_nice(void *arg)
{
    const struct background *b = arg;
    be_nice();
    b->run(b->arg, b->until);
    return NULL;
}

void background_run(background_fn *run, void *arg, uint64_t until)
{
    struct background b = {.run = run, .arg = arg, .until = until};
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_nice, &b) == 0)
        (void)pthread_join(thread, NULL);
    run(arg, UINT64_MAX);
}
