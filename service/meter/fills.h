/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_METER_FILLS_H
#define SERVICE_METER_FILLS_H
/* The fill of a filter and clients' requests to it over time, for curves, in this process's memory: the last
 * hour every 10 s, the last day every 5 minutes. Samples that say the same are kept as one: 36 KiB, or less
 * than 1 KiB where nothing happens. Pure. */
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
    uint32_t until_s;         /* of fills.c: of the last sample in a row that says the same */
    float rate;               /* expected false-positive rate */
    uint32_t generation;      /* the number of the generation in use, modulo 2^32 */
    uint64_t items, capacity; /* keys of that generation; its capacity */
    struct traffic_keys keys; /* keys that this coordinator served since it started */
};

struct fills;

/* NULL: no memory. */
struct fills *fills_new(void);
/* @s may be NULL. */
void fills_free(struct fills *s);

/* Add @one, unless the last sample is younger than FILLS_FINE_S, or there is no memory. If the @incarnation
 * differs or the clock was set back, earlier samples are dropped. */
void fills_note(struct fills *s, uint64_t incarnation, const struct fill *one);

/* Copy the samples, oldest first, to @out[FILLS_MAX]; returns their number. */
size_t fills_read(const struct fills *s, struct fill *out);
#endif
