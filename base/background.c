/* SPDX-License-Identifier: MIT */
#include "base/background.h"

#include <pthread.h>
#include <sched.h>

struct background {
    background_fn *run;
    void *arg;
    uint64_t until;
};

static void *run_idle(void *arg)
{
    const struct background *b = arg;
    const struct sched_param param = {0};
    (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &param); /* else it takes its turn */
    b->run(b->arg, b->until);
    return NULL;
}

void background_run(background_fn *run, void *arg, uint64_t until)
{
    struct background b = {.run = run, .arg = arg, .until = until};
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_idle, &b) == 0)
        (void)pthread_join(thread, NULL);
    run(arg, UINT64_MAX);
}
