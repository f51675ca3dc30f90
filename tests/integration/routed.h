/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_ROUTED_H
#define TESTS_INTEGRATION_ROUTED_H
/* A coordinator that meets Postgres through a proxy, which may lead it to another server: with proxy_aim().
 * Its filter is built from codes 0 .. ROUTED_ROWS - 1. For the main thread. */
#include "tests/integration/fixture.h"
#include "tests/lib/proxy.h"

enum { ROUTED_ROWS = 2000, ROUTED_WAIT_MS = 60000, ROUTED_CALM_US = 15 * 1000 * 1000 };

struct routed {
    struct fixture fixture;
    struct temp_postgres other; /* a test's; ends with the rest */
    struct proxy *proxy;
    unsigned route;
};
extern struct routed routed;

/* For a CMocka setup and teardown. */
int routed_start(void **state);
int routed_stop(void **state);

/* Have the filter rebuilt, and wait until another generation is read and the job has ended. */
void routed_rebuild(void);
#endif
