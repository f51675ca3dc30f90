/* SPDX-License-Identifier: MIT */
/* Redis and the only coordinator were restarted, and nobody asks for a filter: its view accepts no node. */
#include "base/clock.h"
#include "tests/integration/fixture.h"

enum { TRIES = 150, AGAIN_US = 200 * 1000 };

static struct fixture fixture;

static int setup(void **state)
{
    (void)state;
    return fixture_start(
        &fixture,
        &(struct fixture_options){
            .nodes = 1, .daemons = 1, .postgres = true, .rows = 100, .capacity = 1000, .rate = "0.001"});
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

/* Its data are the same; its replication id is another one. */
static void all_is_restarted(void)
{
    struct client c;
    struct error e = {""};
    assert_true(daemon_stop(&fixture.daemon[0], 20000));
    must(client_open(&c, fixture.redis[0].port, 10000, &e), e);
    must(client_ok(&c, &e, "SAVE"), e);
    client_close(&c);
    temp_redis_kill(&fixture.redis[0]);
    must(temp_redis_restart(&fixture.redis[0], true, &e), e);
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
}

static void job_ends(const char *command)
{
    redisReply *r = client_command(&fixture.client[0], command);
    assert_non_null(r);
    if (r->type == REDIS_REPLY_ERROR)
        fail_msg("%s", r->str);
    freeReplyObject(r);
    fixture_wait(&fixture, 0, "job_state", "running");
    fixture_wait(&fixture, 0, "job_state", "done");
}

static void test_a_rebuild__ends_where_nobody_asks_for_its_filter(void **state)
{
    (void)state;
    all_is_restarted();
    job_ends("TB.REBUILD " FILTER);
    fixture_all_present(&fixture, 0, 0, 100);
}

static void test_a_full_verification__ends_where_nobody_asks_for_its_filter(void **state)
{
    (void)state;
    all_is_restarted();
    job_ends("TB.VERIFY " FILTER " FULL");
}

static void set_degraded(const char *filter)
{
    struct client c;
    struct error e = {""};
    int64_t added = 0;
    must(client_open(&c, fixture.redis[0].port, 10000, &e), e);
    must(client_integer(&c, &added, &e, "HSET twinbloom:{%s}:view degraded 1", filter), e);
    client_close(&c);
}

static void test_a_loss__can_be_accepted_where_nobody_asks_for_the_filter(void **state)
{
    (void)state;
    struct error e = {""};
    enum err code = ERR_REFUSED;
    must(client_ok(&fixture.client[0], &e, "BF.RESERVE u 0.001 1000"), e);
    set_degraded("u");
    all_is_restarted();
    for (unsigned i = 0; i < TRIES && code != ERR_OK; i++) {
        code = client_ok(&fixture.client[0], &e, "TB.TRUST u");
        clock_sleep_us(AGAIN_US);
    }
    must(code, e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rebuild__ends_where_nobody_asks_for_its_filter),
        cmocka_unit_test(test_a_full_verification__ends_where_nobody_asks_for_its_filter),
        cmocka_unit_test(test_a_loss__can_be_accepted_where_nobody_asks_for_the_filter),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
