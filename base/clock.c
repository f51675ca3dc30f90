/* SPDX-License-Identifier: MIT */
#include "base/clock.h"

static uint64_t read_clock(clockid_t id)
{
    struct timespec ts;
    (void)clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

uint64_t clock_mono_us(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

struct timespec clock_mono_after(uint64_t us)
{
    uint64_t at = clock_mono_us() + us;
    return (struct timespec){.tv_sec = (time_t)(at / 1000000u), .tv_nsec = (long)(at % 1000000u) * 1000};
}

uint64_t clock_wall_us(void)
{
    return read_clock(CLOCK_REALTIME);
}

void clock_sleep_us(uint64_t us)
{
    struct timespec ts = {.tv_sec = (time_t)(us / 1000000u), .tv_nsec = (long)(us % 1000000u) * 1000};
    (void)nanosleep(&ts, NULL);
}
