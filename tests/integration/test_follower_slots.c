/* SPDX-License-Identifier: MIT */
/* Replication slots that coordinators made are dropped when they are no longer used, even if the
 * configuration that names them is different after a restart. */
#include "tests/integration/following.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define SLOT "twinbloom_short_link"
#define LOGICAL "follow_by = logical\npublication = links\n"

enum { GRACE_MS = 2000 };

static struct daemon_options options_of(const char *filters)
{
    return (struct daemon_options){.nodes = following.node_list,
                                   .dsn = following.postgres.dsn,
                                   .service = "check_interval = 100ms\n",
                                   .expansion = "lease = 2s\nslot_grace = 2s\n",
                                   .filters = filters};
}

static const char *section(const char *lines)
{
    static char filters[512];
    (void)snprintf(filters, sizeof(filters),
                   "[filter " FILTER
                   "]\ncapacity = 400000\nerror_rate = 0.001\ntable = short_link\nkey = code\n"
                   "where = deleted_at IS NULL\ngrace = 8s\n%s",
                   lines);
    return filters;
}

/* A new configuration means a new process, as in Kubernetes. */
static void restart(unsigned d, const char *filters)
{
    struct error e = {""};
    const struct daemon_options o = options_of(filters);
    assert_true(daemon_stop(&following.daemon[d], 30000));
    must(daemon_rewrite(&following.daemon[d], &o, &e), e);
    must(daemon_launch(&following.daemon[d], &e), e);
    fixture_reconnect(&following, d);
}

static bool has_slot(const char *name)
{
    char sql[200];
    (void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '%s'",
                   name);
    char *count = following_value(sql);
    bool has = strcmp(count, "1") == 0;
    free(count);
    return has;
}

static void expect_slot(const char *name, bool wanted)
{
    uint64_t deadline = clock_mono_us() + FOLLOWING_SOON_MS * 1000ull;
    while (has_slot(name) != wanted) {
        if (clock_mono_us() > deadline)
            fail_msg("slot %s is %s", name, wanted ? "not there" : "still there");
        clock_sleep_us(50 * 1000);
    }
}

/* Both coordinators follow by the slot. */
static void begin(void)
{
    for (unsigned d = 0; d < 2; d++)
        restart(d, section(LOGICAL "follow = yes\n"));
    fixture_wait(&following, 0, "follow_mode", "logical");
    following_running(0);
    expect_slot(SLOT, true);
}

static void test_slot__of_a_section_that_is_gone_is_dropped(void **state)
{
    (void)state;
    begin();
    for (unsigned d = 0; d < 2; d++)
        restart(d, "");
    expect_slot(SLOT, false);
}

static void test_slot__that_has_another_name_by_now_is_dropped(void **state)
{
    (void)state;
    begin();
    for (unsigned d = 0; d < 2; d++)
        restart(d, section(LOGICAL "follow = yes\nslot = another\n"));
    expect_slot("another", true);
    expect_slot(SLOT, false);
    assert_true(has_slot("another"));
    following_running(0);
    following_expect_rows(0, 100);
}

static void test_slot__is_dropped_when_rows_are_followed_by_ids(void **state)
{
    (void)state;
    begin();
    for (unsigned d = 0; d < 2; d++)
        restart(d, section("follow_by = ids\nfollow = yes\n"));
    expect_slot(SLOT, false);
    following_expect_rows(0, 100);
}

/* A rolling change: one coordinator has the new configuration, the other one still needs the slot. */
static void test_slot__that_another_coordinator_names_stays(void **state)
{
    (void)state;
    begin();
    restart(0, section(LOGICAL "follow = yes\nslot = newer\n"));
    clock_sleep_us((2 * GRACE_MS + 1000) * 1000ull);
    assert_true(has_slot(SLOT));
    restart(1, section(LOGICAL "follow = yes\nslot = newer\n"));
    expect_slot(SLOT, false);
    expect_slot("newer", true);
}

/* A slot with a similar name that no coordinator made stays. */
static void test_slot__that_was_not_made_by_us_stays(void **state)
{
    (void)state;
    begin();
    fixture_sql(following.db, "SELECT pg_create_logical_replication_slot('twinbloom_other', 'pgoutput')");
    for (unsigned d = 0; d < 2; d++)
        restart(d, "");
    expect_slot(SLOT, false);
    assert_true(has_slot("twinbloom_other"));
    fixture_sql(following.db, "SELECT pg_drop_replication_slot('twinbloom_other')");
}

/* A coordinator that ends while Redis hangs has not looked at its later filters in that round. */
static void test_slot__stays_where_a_coordinator_ends_in_the_middle_of_a_round(void **state)
{
    (void)state;
    static char filters[1024];
    struct error e = {""};
    struct client redis;
    assert_true(daemon_stop(&following.daemon[1], 30000));
    (void)snprintf(filters, sizeof(filters), "[filter first]\ncapacity = 1000\nerror_rate = 0.01\n%s",
                   section(LOGICAL "follow = yes\n"));
    restart(0, filters);
    fixture_wait(&following, 0, "follow_mode", "logical");
    following_running(0);
    expect_slot(SLOT, true);
    must(client_open(&redis, following.redis[0].port, 5000, &e), e);
    must(client_ok(&redis, &e, "CLIENT PAUSE 800 ALL"), e);
    client_close(&redis);
    clock_sleep_us(300 * 1000); /* three intervals: a round has begun */
    assert_true(daemon_stop(&following.daemon[0], 30000));
    assert_true(has_slot(SLOT));
    for (unsigned d = 0; d < 2; d++) {
        must(daemon_launch(&following.daemon[d], &e), e);
        fixture_reconnect(&following, d);
    }
}

static int setup(void **state)
{
    (void)state;
    return following_start(LOGICAL "follow = yes\n", "slot_grace = 2s\n");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slot__of_a_section_that_is_gone_is_dropped),
        cmocka_unit_test(test_slot__that_has_another_name_by_now_is_dropped),
        cmocka_unit_test(test_slot__is_dropped_when_rows_are_followed_by_ids),
        cmocka_unit_test(test_slot__that_another_coordinator_names_stays),
        cmocka_unit_test(test_slot__that_was_not_made_by_us_stays),
        cmocka_unit_test(test_slot__stays_where_a_coordinator_ends_in_the_middle_of_a_round),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, setup, following_teardown);
}
