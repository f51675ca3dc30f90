/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILD_PERIODIC_H
#define MIGRATE_BUILD_PERIODIC_H
/* Long work of one thread that asks, now and then, whether it shall go on. */
#include <stdint.h>
#include "base/error.h"

struct log_output;

/* Called about every 50 ms, in the thread of the work, which may use the link: nothing of it is
 * under way then. Any other code than ERR_OK ends the work with that code and text. */
typedef enum err periodic_fn(void *arg, struct error *e);

struct periodic {
    struct log_output *output; /* NULL: none */
    periodic_fn *fn;           /* NULL: nobody is asked */
    void *arg;
    uint64_t due_us;
};

/* Ask, if it is time to: waits for the shards that are under way first. What the caller's function says, or
 * the error of the output. */
MUST_CHECK enum err periodic_call(struct periodic *p, struct error *e);
#endif
