/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_METER_FILLS_H
#define SERVICE_METER_FILLS_H
/* The fill of a filter and clients' requests to it over time, for curves, in this process's memory: the last
 * hour every 10 s, the last day every 5 minutes. About 36 KiB. Pure. */
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "service/meter/meter.h"

enum {
    FILLS_FINE_S = 10,
    FILLS_COARSE_S = 300,
    FILLS_FINE = 360,
    FILLS_COARSE = 288,
    FILLS_MAX = FILLS_FINE + FILLS_COARSE
};

struct fill {
    uint32_t at_s;            /* wall clock, seconds */
    float rate;               /* expected false-positive rate */
    uint64_t items;           /* keys of the generation in use */
    uint64_t capacity;        /* capacity of that generation */
    uint32_t generation;      /* its number modulo 2^32 */
    struct traffic_keys keys; /* keys that this coordinator served since it started */
};

struct fills;

/* For free(). NULL: no memory. */
struct fills *fills_new(void);

/* Add @one, unless the last sample is younger than FILLS_FINE_S. If the @incarnation differs or the clock was
 * set back, earlier samples are dropped. */
void fills_note(struct fills *s, uint64_t incarnation, const struct fill *one);

/* Copy the samples, oldest first, to @out[FILLS_MAX]; returns their number. */
size_t fills_read(const struct fills *s, struct fill *out);
#endif
