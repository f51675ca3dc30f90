/* SPDX-License-Identifier: MIT */
/* A dump is begun while the only node has gone back to before a layer, and a coordinator that knows the layer
 * has not put it back yet. */
#include "tests/integration/dumps.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

enum {
    FIRST = 60,
    KEYS = 400,
    REPLY_MS = 30000,
    FOLDED_MS = 60000,
    LOOKS_US = 5 * 1000 * 1000,
    BEHIND_US = 400 * 1000
};

static struct fixture fixture;

static int setup(void **state)
{
    (void)state;
    return fixture_start(&fixture, &(struct fixture_options){.nodes = 1,
                                                             .daemons = 2,
                                                             .redis_lines = "timeout = 10s\n",
                                                             .service = "timeout = 10s\n"});
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

static void save(void)
{
    struct client c;
    struct error e = {""};
    must(client_open(&c, fixture.redis[0].port, REPLY_MS, &e), e);
    must(client_ok(&c, &e, "SAVE"), e);
    client_close(&c);
}

/* The one that knows the layer goes on when the other one has read the view. */
static void *goes_on(void *arg)
{
    (void)arg;
    clock_sleep_us(BEHIND_US);
    process_signal(&fixture.daemon[1].process, SIGCONT);
    return NULL;
}

static void test_a_dump__begins_with_the_layers_that_a_view_has_when_it_counts(void **state)
{
    (void)state;
    struct error e = {""};
    struct dump dump = {0};
    struct client slow;
    pthread_t other;
    must(client_ok(&fixture.client[1], &e, "BF.RESERVE u 0.0001 100 EXPANSION 2"), e);
    must(client_madd(&fixture.client[1], "u", fixture_code, 0, FIRST, &e), e);
    save();
    must(client_madd(&fixture.client[1], "u", fixture_code, FIRST, KEYS - FIRST, &e), e);
    /* all is folded, and its entries are forgotten: memory alone has them */
    must(client_wait_status(&fixture.client[1], "u", "fold_lag_entries", "0", FOLDED_MS, &e), e);
    clock_sleep_us(LOOKS_US);
    process_signal(&fixture.daemon[1].process, SIGSTOP);
    temp_redis_kill(&fixture.redis[0]);
    must(temp_redis_restart(&fixture.redis[0], true, &e), e);
    must(client_open(&slow, fixture.daemon[0].port, REPLY_MS, &e), e);
    assert_int_equal(pthread_create(&other, NULL, goes_on, NULL), 0);
    enum err code = dump_next(&dump, &slow, "u", 0, &e);
    (void)pthread_join(other, NULL);
    for (unsigned i = 0; i < 100 && code != ERR_OK; i++) {
        clock_sleep_us(100 * 1000);
        code = dump_next(&dump, &slow, "u", 0, &e);
    }
    must(code, e);
    must(dump_rest(&dump, &slow, "u", &e), e);
    must(dump_load_all(&dump, &slow, "v", &e), e);
    uint64_t present = 0;
    must(client_mexists(&slow, "u", fixture_code, 0, KEYS, &present, NULL, &e), e);
    assert_int_equal(present, KEYS);
    must(client_mexists(&slow, "v", fixture_code, 0, KEYS, &present, NULL, &e), e);
    assert_int_equal(present, KEYS);
    dump_free(&dump);
    client_close(&slow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_dump__begins_with_the_layers_that_a_view_has_when_it_counts),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
