/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILD_PERIODIC_H
#define MIGRATE_BUILD_PERIODIC_H
/* A function that long work of one thread calls now and then, to ask whether to go on. */
#include <stdint.h>
#include "base/error.h"

struct log_output;

/* Called about every 50 ms, in the thread of the work. It may use the connection to Redis, as nothing is
 * under way on it then. Any code but ERR_OK ends the work with that code and text. */
typedef enum err periodic_fn(void *arg, struct error *e);

struct periodic {
    struct log_output *output; /* NULL: none */
    periodic_fn *fn;           /* NULL: nothing is called */
    void *arg;
    uint64_t due_us;
};

/* Call the function if it is due, after waiting for the shards that are under way. Returns the function's
 * error, or the output's. */
MUST_CHECK enum err periodic_call(struct periodic *p, struct error *e);
#endif
