/* SPDX-License-Identifier: MIT */
/* When a virtual machine gives its processors to others, requests wait that nobody here delays. On each
 * processor a thread that precedes all others of the system sleeps until the next of many moments: where it
 * wakes late, the processor was not there. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/clock.h"
#include "measure.h"

enum {
    PERIOD_US = 200,
    LATE_US = 100,  /* from here on it is a stall; a timer alone is late by some 10 us */
    AFTER_US = 1000 /* what waited in a stall is still being answered behind it */
};

static int pin(const struct stalls *s, unsigned cpu)
{
    const struct sched_param first = {.sched_priority = 1};
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    int code = pthread_setaffinity_np(s->thread[cpu], sizeof(set), &set);
    return code == 0 ? pthread_setschedparam(s->thread[cpu], SCHED_FIFO, &first) : code;
}

static void note(struct stalls *s, uint64_t from, uint64_t to)
{
    unsigned at = atomic_fetch_add(&s->count, 1);
    if (at < STALLS_MAX)
        s->stall[at] = (struct stall_time){.from = from, .to = to};
}

static void *watch(void *arg)
{
    struct stalls *s = arg;
    for (uint64_t due = clock_mono_us(); !atomic_load(&s->stops);) {
        due += PERIOD_US;
        const struct timespec at = {.tv_sec = (time_t)(due / 1000000),
                                    .tv_nsec = (long)(due % 1000000) * 1000};
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        uint64_t now = clock_mono_us();
        if (now > due + LATE_US)
            note(s, due, now);
        due = now > due + PERIOD_US ? now : due;
    }
    return NULL;
}

void stalls_start(struct stalls *s)
{
    cpu_set_t set;
    atomic_store(&s->stops, false);
    atomic_store(&s->count, 0);
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        CPU_ZERO(&set);
    for (unsigned cpu = 0; cpu < STALLS_PROCESSORS; cpu++) {
        s->watched[cpu] = CPU_ISSET(cpu, &set) != 0 && pthread_create(&s->thread[cpu], NULL, watch, s) == 0;
        int code = s->watched[cpu] ? pin(s, cpu) : 0;
        if (code != 0 && !s->told)
            (void)fprintf(stderr, "stalls of the machine cannot be told: %s\n", strerror(code));
        s->told = s->told || code != 0;
    }
}

void stalls_stop(struct stalls *s)
{
    atomic_store(&s->stops, true);
    for (unsigned cpu = 0; cpu < STALLS_PROCESSORS; cpu++) {
        if (s->watched[cpu])
            (void)pthread_join(s->thread[cpu], NULL);
        s->watched[cpu] = false;
    }
    if (s->told)
        atomic_store(&s->count, 0);
}

bool stalls_touch(const struct stalls *s, uint64_t from, uint64_t to)
{
    unsigned count = atomic_load(&s->count);
    for (unsigned i = 0; i < count && i < STALLS_MAX; i++)
        if (from < s->stall[i].to + AFTER_US && s->stall[i].from < to)
            return true;
    return false;
}

uint64_t stalls_longest(const struct stalls *s, uint64_t from, uint64_t to)
{
    unsigned count = atomic_load(&s->count);
    uint64_t longest = 0;
    for (unsigned i = 0; i < count && i < STALLS_MAX; i++) {
        const struct stall_time *t = &s->stall[i];
        if (from < t->to && t->from < to && t->to - t->from > longest)
            longest = t->to - t->from;
    }
    return longest;
}
