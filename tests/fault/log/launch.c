/* SPDX-License-Identifier: MIT */
#include "tests/fault/log/launch.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { LOOK_US = 200 };

/* Memory that all the processes share. */
struct launcher {
    launched_fn *fn;
    void *arg;
    pid_t forks;            /* the process that forks */
    _Atomic unsigned asked; /* how many processes were requested */
    _Atomic pid_t begun;    /* pid of the last process; 0: none */
    _Atomic int status;     /* the last one's exit status; -1: a signal ended it */
    _Atomic bool ready, goes, ended;
};

/* Have this process end when its parent ends. */
static void end_with(pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
}

static void begin_one(struct launcher *l)
{
    pid_t self = getpid(), pid = fork();
    siginfo_t info = {0};
    if (pid == 0) {
        end_with(self);
        _exit(l->fn(l, l->arg));
    }
    atomic_store(&l->begun, pid);
    bool met = pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0;
    atomic_store(&l->status, met && info.si_code == CLD_EXITED ? info.si_status : -1);
    atomic_store(&l->ended, true);
}

static _Noreturn void fork_as_asked(struct launcher *l)
{
    for (unsigned done = 0;;) {
        if (atomic_load(&l->asked) == done) {
            clock_sleep_us(LOOK_US);
            continue;
        }
        pid_t before = atomic_exchange(&l->begun, 0);
        if (before > 0)
            (void)waitpid(before, NULL, 0); /* not earlier, so that nobody else got its pid */
        begin_one(l);
        done++;
    }
}

struct launcher *launcher_new(launched_fn *fn, void *arg)
{
    pid_t self = getpid();
    struct launcher *l = mmap(NULL, sizeof(*l), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (l == MAP_FAILED)
        return NULL;
    l->fn = fn;
    l->arg = arg;
    atomic_store(&l->ended, true);
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        end_with(self);
        fork_as_asked(l);
    }
    l->forks = pid; /* only the parent writes this: both would write shared memory */
    if (pid > 0)
        return l;
    (void)munmap(l, sizeof(*l));
    return NULL;
}

void launcher_free(struct launcher *l)
{
    if (l == NULL)
        return;
    launcher_kill(l);
    (void)kill(l->forks, SIGKILL);
    (void)waitpid(l->forks, NULL, 0);
    (void)munmap(l, sizeof(*l));
}

bool launcher_start(struct launcher *l, unsigned timeout_us)
{
    uint64_t until = clock_mono_us() + timeout_us;
    atomic_store(&l->ready, false);
    atomic_store(&l->goes, false);
    atomic_store(&l->ended, false);
    atomic_fetch_add(&l->asked, 1);
    while (!atomic_load(&l->ready) && !atomic_load(&l->ended) && clock_mono_us() < until)
        clock_sleep_us(LOOK_US);
    return atomic_load(&l->ready);
}

void launched_is_ready(struct launcher *l)
{
    atomic_store(&l->ready, true);
    while (!atomic_load(&l->goes))
        clock_sleep_us(LOOK_US);
}

void launcher_go(struct launcher *l)
{
    atomic_store(&l->goes, true);
}

bool launcher_has_ended(struct launcher *l, int *status)
{
    if (!atomic_load(&l->ended))
        return false;
    *status = atomic_load(&l->status);
    return true;
}

void launcher_kill(struct launcher *l)
{
    while (!atomic_load(&l->ended)) {
        pid_t pid = atomic_load(&l->begun);
        if (pid > 0)
            (void)kill(pid, SIGKILL);
        clock_sleep_us(LOOK_US);
    }
}
