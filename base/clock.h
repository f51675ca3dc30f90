/* SPDX-License-Identifier: MIT */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H
/* Clocks, in microseconds. */
#include <stdint.h>
#include <time.h>

/* Monotonic time, for intervals and deadlines. */
uint64_t clock_mono_us(void);

/* The monotonic time @us microseconds from now, for pthread_cond_clockwait() and pthread_clockjoin_np(). */
struct timespec clock_mono_after(uint64_t us);

/* Wall-clock time since the Unix epoch: for people and logs only, never for a decision about safety. */
uint64_t clock_wall_us(void);

/* Sleep for at most @us microseconds; a signal may end the sleep early. */
void clock_sleep_us(uint64_t us);
#endif
