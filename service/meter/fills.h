/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_ADMIN_FILLS_H
#define SERVICE_ADMIN_FILLS_H
/* How full each filter was, and what clients asked of it, for curves: in this process's memory, of the last
 * hour every 10 s, of the last day every 5 minutes. Safe from any thread. */
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "service/meter/traffic.h"

enum {
    FILLS_FINE_S = 10,
    FILLS_COARSE_S = 300,
    FILLS_FINE = 360,
    FILLS_COARSE = 288,
    FILLS_MAX = FILLS_FINE + FILLS_COARSE,
    FILLS_FILTERS_MAX = 1000 /* of further ones nothing is kept; about 36 KiB each */
};

struct fill {
    uint32_t at_s;            /* wall clock */
    float rate;               /* expected false positives */
    uint64_t items;           /* keys of the generation in use */
    uint64_t capacity;        /* of it */
    uint32_t generation;      /* its number, modulo 2^32 */
    struct traffic_keys keys; /* by this coordinator since it started */
};

struct fills;

/* NULL: no memory. */
struct fills *fills_new(void);
void fills_free(struct fills *s);

/* Keep @one, unless the last one is younger than FILLS_FINE_S. Another @incarnation is another filter: what
 * was kept of the one before is forgotten, as it is where the clock was set back. Where there is no room, the
 * filter of which nothing came for a day gives way. */
void fills_note(struct fills *s, const char *name, size_t length, uint64_t incarnation,
                const struct fill *one);

/* Copy what is kept, oldest first, to @out[FILLS_MAX]; returns how many. */
size_t fills_read(struct fills *s, const char *name, size_t length, struct fill *out);
#endif
