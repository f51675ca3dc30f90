/* SPDX-License-Identifier: MIT */
/* The lag of a real standby, as a source tells it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/integration/database.h"

enum { PATIENCE_MS = 20000 };

static double lag_of(struct source *s)
{
    struct error e = {0};
    double seconds = -99;
    must(source_replication_lag(s, &seconds, &e), &e);
    return seconds;
}

/* Write on and look until the lag is in the range; standbys report once a second. */
static double wait_for_lag(struct source *s, PGconn *pg, double least, double most)
{
    uint64_t until = clock_mono_us() + PATIENCE_MS * UINT64_C(1000);
    for (;;) {
        double lag = lag_of(s);
        if (lag >= least && lag <= most)
            return lag;
        if (clock_mono_us() > until)
            fail_msg("the lag is %g, not between %g and %g", lag, least, most);
        database_run(pg, "INSERT INTO written VALUES (1)");
        clock_sleep_us(100000);
    }
}

static void test_source_replication_lag__is_0_without_a_standby(void **state)
{
    struct source *s = database_source(*state, "link", NULL);
    assert_true(lag_of(s) == 0);
    source_close(s);
}

static void test_source_replication_lag__grows_while_a_standby_does_not_replay(void **state)
{
    const struct temp_postgres *primary = *state;
    struct temp_postgres standby;
    struct error e = {0};
    PGconn *pg = database_connect(primary, "postgres", "test");
    must(temp_postgres_start_standby(&standby, primary, &e), &e);
    PGconn *on_standby = database_connect(&standby, "postgres", "test");
    struct source *s = database_source(primary, "link", NULL);
    (void)wait_for_lag(s, pg, 0, 1);
    database_run(on_standby, "SELECT pg_wal_replay_pause()");
    double first = wait_for_lag(s, pg, 2, 20);
    (void)wait_for_lag(s, pg, first + 1, 40);
    database_run(on_standby, "SELECT pg_wal_replay_resume()");
    (void)wait_for_lag(s, pg, 0, 1);
    source_close(s);
    PQfinish(on_standby);
    PQfinish(pg);
    temp_postgres_fini(&standby);
}

/* A role without special rights sees that there is a standby, and nothing of it. */
static void test_source_replication_lag__is_unknown_to_a_role_without_rights(void **state)
{
    const struct temp_postgres *primary = *state;
    struct temp_postgres standby;
    struct error e = {0};
    char dsn[128];
    PGconn *pg = database_connect(primary, "postgres", "test");
    database_run(pg, "CREATE ROLE app LOGIN; GRANT SELECT ON link TO app");
    (void)snprintf(dsn, sizeof(dsn), "postgresql://app@127.0.0.1:%u/postgres", (unsigned)primary->port);
    const struct source_config config = {.dsn = dsn, .table = "link", .id_column = "id", .key = "code"};
    struct source *s = NULL;
    must(source_open(&s, &config, 10000, &e), &e);
    assert_true(lag_of(s) == 0);
    must(temp_postgres_start_standby(&standby, primary, &e), &e);
    (void)wait_for_lag(s, pg, -1, -1);
    database_run(pg, "GRANT pg_monitor TO app");
    (void)wait_for_lag(s, pg, 0, 1);
    source_close(s);
    PQfinish(pg);
    temp_postgres_fini(&standby);
}

static int setup(void **state)
{
    if (database_setup(state) != 0)
        return -1;
    PGconn *pg = database_connect(*state, "postgres", "test");
    database_short_links(pg, "link", 100);
    database_run(pg, "CREATE TABLE written (n int)");
    PQfinish(pg);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_source_replication_lag__is_0_without_a_standby),
        cmocka_unit_test(test_source_replication_lag__grows_while_a_standby_does_not_replay),
        cmocka_unit_test(test_source_replication_lag__is_unknown_to_a_role_without_rights),
    };
    return cmocka_run_group_tests(tests, setup, database_teardown);
}
