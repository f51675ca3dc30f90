/* SPDX-License-Identifier: MIT */
#include "tests/integration/routed.h"

#include <stdio.h>

#include "base/clock.h"

struct routed routed;

int routed_start(void **state)
{
    (void)state;
    struct fixture *f = &routed.fixture;
    struct error e = {""};
    uint16_t port;
    char dsn[100];
    (void)fixture_start(f, &(struct fixture_options){.nodes = 1, .postgres = true, .rows = ROUTED_ROWS});
    must(proxy_start(&routed.proxy, &e), e);
    must(proxy_add(routed.proxy, WIRE_POSTGRES, f->postgres.port, &routed.route, &port, &e), e);
    (void)snprintf(dsn, sizeof(dsn), "host=127.0.0.1 port=%u user=postgres dbname=postgres", (unsigned)port);
    const struct daemon_options o = {.nodes = f->node_list,
                                     .dsn = dsn,
                                     .service = "check_interval = 100ms\n",
                                     .filters = "[filter " FILTER "]\ncapacity = 20000\nerror_rate = 0.0001\n"
                                                "table = short_link\nid_column = id\nkey = code\n"
                                                "grace = 0s\nfollow = no\nexpand_at_dead = 0.5\n"};
    must(daemon_start(&f->daemon[0], &o, &e), e);
    f->daemons = 1;
    fixture_reconnect(f, 0);
    fixture_wait(f, 0, "job_state", "done");
    return 0;
}

int routed_stop(void **state)
{
    (void)state;
    int stopped = fixture_stop(&routed.fixture);
    proxy_stop(routed.proxy);
    temp_postgres_fini(&routed.other);
    return stopped;
}

void routed_rebuild(void)
{
    int64_t before = fixture_generation(&routed.fixture, 0);
    uint64_t until = clock_mono_us() + ROUTED_WAIT_MS * UINT64_C(1000);
    for (fixture_ask(&routed.fixture, 0, "TB.REBUILD " FILTER);
         fixture_generation(&routed.fixture, 0) == before;) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(50 * 1000);
    }
    fixture_wait(&routed.fixture, 0, "job_state", "done");
}
