/* SPDX-License-Identifier: MIT */
#include "tests/integration/operations.h"

struct servers servers;
struct filter f;
struct coordinator one, two;
const struct filter_policy sourced = {.configured = true, .sourced = true};

int operations_start(void **state)
{
    (void)state;
    return servers_start(&servers, 2);
}

int operations_stop(void **state)
{
    (void)state;
    return servers_stop(&servers);
}

static int make(void (*open)(struct coordinator *c, const struct servers *s, struct filter_policy policy))
{
    servers_flush(&servers);
    filter_init(&f, &servers, "f");
    filter_make(&f, SHARDS);
    open(&one, &servers, sourced);
    open(&two, &servers, sourced);
    return 0;
}

int operations_setup(void **state)
{
    (void)state;
    return make(coordinator_open);
}

int operations_setup_patient(void **state)
{
    (void)state;
    return make(coordinator_open_patient);
}

int operations_teardown(void **state)
{
    (void)state;
    coordinator_close(&one);
    coordinator_close(&two);
    filter_fini(&f);
    return 0;
}
