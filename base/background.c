/* SPDX-License-Identifier: MIT */
#include "base/background.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

/* Added to the nice value of the thread. SCHED_IDLE would be too much: while other threads take all
 * processors, an idle thread waits for a second, and so does the thread that joins it. */
enum { NICER = 10 };

struct background {
    background_fn *run;
    void *arg;
    uint64_t until;
};

static void *run_nice(void *arg)
{
    const struct background *b = arg;
    int nice = getpriority(PRIO_PROCESS, 0);
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), nice + NICER); /* if this fails, it is not nicer */
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
