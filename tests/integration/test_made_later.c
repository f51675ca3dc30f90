/* SPDX-License-Identifier: MIT */
/* The only node starts with an older file: from before a filter was deleted, and made again. One coordinator
 * has had the later filter; the other one was stopped all the time, and has all of the earlier one in
 * memory. */
#include "tests/integration/fixture.h"

#include <signal.h>
#include <string.h>
#include "base/clock.h"

enum { KEYS = 100, WAIT_US = 30 * 1000 * 1000 };
#define NAME "u"

static struct fixture fixture;

static int setup(void **state)
{
    (void)state;
    return fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .daemons = 2});
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

static uint64_t present(unsigned d, uint64_t first)
{
    struct error e = {""};
    uint64_t count = 0;
    return client_mexists(&fixture.client[d], NAME, fixture_code, first, KEYS, &count, NULL, &e) == ERR_OK
               ? count
               : 0; /* an error is no answer */
}

static void adds(unsigned d, uint64_t first)
{
    struct error e = {""};
    must(client_madd(&fixture.client[d], NAME, fixture_code, first, KEYS, &e), e);
}

/* The server that comes back has the filter before, as of the file that is saved here. */
static void save(void)
{
    struct client c;
    struct error e = {""};
    must(client_open(&c, fixture.redis[0].port, 10000, &e), e);
    must(client_ok(&c, &e, "SAVE"), e);
    client_close(&c);
}

static void node_goes_back(void)
{
    struct error e = {""};
    temp_redis_kill(&fixture.redis[0]);
    must(temp_redis_restart(&fixture.redis[0], true, &e), e);
}

static void become_present(unsigned d, uint64_t first)
{
    uint64_t until = clock_mono_us() + WAIT_US, count = 0;
    while ((count = present(d, first)) < KEYS) {
        if (clock_mono_us() > until)
            fail_msg("%u of %d keys are present", (unsigned)count, KEYS);
        clock_sleep_us(50 * 1000);
    }
}

static void test_a_filter_that_was_made_again__is_not_taken_for_the_one_before(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t deleted = 0;
    must(client_ok(&fixture.client[1], &e, "BF.RESERVE " NAME " 0.0001 1000"), e);
    adds(1, 0);
    assert_int_equal(present(1, 0), KEYS);
    save();
    process_signal(&fixture.daemon[1].process, SIGSTOP);
    must(client_integer(&fixture.client[0], &deleted, &e, "DEL " NAME), e);
    assert_int_equal(deleted, 1);
    must(client_ok(&fixture.client[0], &e, "BF.RESERVE " NAME " 0.0001 1000"), e);
    adds(0, KEYS);
    assert_int_equal(present(0, KEYS), KEYS);
    node_goes_back();
    process_signal(&fixture.daemon[1].process, SIGCONT);
    become_present(0, KEYS);
    become_present(1, KEYS);
    clock_sleep_us(3 * 1000 * 1000);
    assert_int_equal(present(0, KEYS), KEYS);
    assert_int_equal(present(1, KEYS), KEYS);

    must(client_ok(&fixture.client[1], &e, "BF.RESERVE " NAME " 0.0001 1000"), e); /* as of a lost filter */
    adds(1, 0);
    become_present(0, 0);
    must(client_integer(&fixture.client[0], &deleted, &e, "DEL " NAME), e);
    assert_int_equal(deleted, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_filter_that_was_made_again__is_not_taken_for_the_one_before),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
