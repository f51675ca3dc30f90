/* SPDX-License-Identifier: MIT */
/* Slots move while a filter is used, and while it expands: no acknowledged key is missed, and no command
 * fails. */
#include "tests/integration/traffic.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum {
    ROWS = 20000,
    CAPACITY = 120000,
    WRITES_MAX = 8000,
    WAIT_MS = 90000,
    ROUNDS = 4,
    THIRD = TEMP_CLUSTER_SLOTS / 3,
    OPEN_US = 300 * 1000 /* less than the deadline of a request */
};

static struct fixture f;
static struct traffic t;

static int setup(void **state)
{
    (void)state;
    const struct fixture_options o = {.masters = 3,
                                      .daemons = 2,
                                      .postgres = true,
                                      .rows = ROWS,
                                      .capacity = CAPACITY,
                                      .rate = "0.01",
                                      .grace = "1h",
                                      .redis_lines = "shard_bytes = 4KiB\n",
                                      .expansion = "lease = 2s\n",
                                      .service = "check_interval = 200ms\n"};
    return fixture_start(&f, &o);
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&f);
}

/* --- a thread that moves slots --- */

struct mover {
    unsigned first, count, from, to, pause_us;
    bool to_and_fro;
    atomic_bool stop;
    unsigned passes;
    enum err code;
    struct error error;
    pthread_t thread;
};

static void *run_mover(void *arg)
{
    struct mover *m = arg;
    do {
        bool back = m->passes % 2 == 1;
        m->code = temp_cluster_move(&f.cluster, m->first, m->count, back ? m->to : m->from,
                                    back ? m->from : m->to, m->pause_us, &m->error);
        m->passes++;
    } while (m->to_and_fro && m->code == ERR_OK && !(atomic_load(&m->stop) && m->passes % 2 == 0));
    return NULL;
}

static void mover_start(struct mover *m, unsigned from, unsigned to, unsigned pause_us)
{
    /* the third of the slots that node @from started with */
    *m = (struct mover){
        .first = TEMP_CLUSTER_SLOTS * from / 3, .count = THIRD, .from = from, .to = to, .pause_us = pause_us};
    assert_int_equal(pthread_create(&m->thread, NULL, run_mover, m), 0);
}

static void mover_join(struct mover *m)
{
    (void)pthread_join(m->thread, NULL);
    if (m->code != ERR_OK) {
        traffic_end(&t);
        fail_msg("%s", m->error.text);
    }
}

static void move_back(unsigned from, unsigned to)
{
    struct error e = {""};
    must(temp_cluster_move(&f.cluster, TEMP_CLUSTER_SLOTS * to / 3, THIRD, from, to, 0, &e), e);
}

/* --- tests --- */

/* Wait for a field of the status; a failure must not leave the threads behind. */
static void wait_for(const char *field, const char *value)
{
    struct error e = {""};
    enum err err = client_wait_status(&f.client[0], FILTER, field, value, WAIT_MS, &e);
    if (err != ERR_OK)
        traffic_end(&t);
    for (unsigned d = 0; err != ERR_OK && d < f.daemons; d++)
        process_show_log(&f.daemon[d].process, "a coordinator");
    must(err, e);
}

static void tell(const char *command)
{
    struct error e = {""};
    enum err err = client_when_free(&f.client[0], WAIT_MS, &e, command);
    if (err != ERR_OK)
        traffic_end(&t);
    must(err, e);
}

static int64_t number(const char *field)
{
    struct error e = {""};
    int64_t n = -1;
    (void)!client_status_number(&f.client[0], FILTER, field, &n, &e);
    return n;
}

static void test_reshard__of_a_third_of_the_slots_in_each_phase_loses_nothing(void **state)
{
    (void)state;
    struct mover m;
    traffic_begin(&t, &f, ROWS, WRITES_MAX);
    clock_sleep_us(300000);
    mover_start(&m, 0, 1, 1000); /* STEADY */
    mover_join(&m);
    tell("TB.REBUILD " FILTER " HOLD");
    wait_for("phase", "BUILDING");
    mover_start(&m, 2, 0, 1000); /* scan, catch-up, verification */
    mover_join(&m);
    wait_for("job_step", "hold");
    tell("TB.CUTOVER " FILTER);
    wait_for("phase", "SWITCHED");
    mover_start(&m, 1, 2, 1000);
    mover_join(&m);
    tell("TB.FINISH " FILTER);
    wait_for("phase", "STEADY");
    clock_sleep_us(300000);
    traffic_end(&t);
    traffic_judge(&t, false);
    move_back(1, 0);
    move_back(2, 1);
    move_back(0, 2);
}

/* Slots are moving at every change of the view. */
static void test_reshard__while_views_change_loses_nothing(void **state)
{
    (void)state;
    struct mover m = {.count = THIRD / 8, .to = 1, .pause_us = 3000, .to_and_fro = true};
    struct error e = {""};
    traffic_begin(&t, &f, ROWS, WRITES_MAX);
    assert_int_equal(pthread_create(&m.thread, NULL, run_mover, &m), 0);
    for (unsigned rounds = 0; rounds < ROUNDS; rounds++) {
        tell("TB.REBUILD " FILTER " HOLD");
        wait_for("job_step", "hold");
        tell("TB.CUTOVER " FILTER);
        wait_for("phase", "SWITCHED");
        wait_for("job_step", "grace");
        if (rounds % 2 == 0) {
            tell("TB.ROLLBACK " FILTER);
            wait_for("job_step", "hold");
            tell("TB.ABORT " FILTER);
        } else {
            tell("TB.FINISH " FILTER);
        }
        wait_for("phase", "STEADY");
        wait_for("mutex_owner", "");
    }
    atomic_store(&m.stop, true);
    mover_join(&m);
    print_message("%d expansions, %u passes, %" PRId64 " keys\n", ROUNDS, m.passes, number("keys"));
    traffic_end(&t);
    traffic_judge(&t, false);
    must(temp_cluster_agree(&f.cluster, WAIT_MS, &e), e);
}

/* --- slots that stay open --- */

/* The slots of the shards, each once. */
struct slots {
    unsigned count;
    unsigned slot[64];
    struct client *node;
};

static void add_slot(const char *name, void *arg)
{
    struct slots *s = arg;
    redisReply *r = client_command(s->node, "CLUSTER KEYSLOT %s", name);
    unsigned slot = (unsigned)r->integer;
    freeReplyObject(r);
    r = client_command(s->node, "TYPE %s", name);
    bool is = strcmp(r->str, "string") == 0;
    freeReplyObject(r);
    for (unsigned i = 0; i < s->count; i++)
        is &= s->slot[i] != slot;
    if (is && s->count < sizeof(s->slot) / sizeof(s->slot[0]))
        s->slot[s->count++] = slot;
}

static void open_all(struct slots *s, unsigned from, unsigned to)
{
    struct error e = {""};
    *s = (struct slots){.node = &f.cluster.client[from]};
    must(client_scan(s->node, "twinbloom:{" FILTER ".*}:*", add_slot, s, &e), e);
    assert_true(s->count > 2);
    for (unsigned i = 0; i < s->count; i++)
        must(temp_cluster_open(&f.cluster, s->slot[i], from, to, &e), e);
}

static void close_all(struct slots *s, unsigned from, unsigned to)
{
    struct error e = {""};
    for (unsigned i = 0; i < s->count; i++) {
        unsigned moved = 1;
        while (moved > 0)
            must(temp_cluster_migrate(&f.cluster, s->slot[i], from, to, 10, &moved, &e), e);
        must(temp_cluster_close(&f.cluster, s->slot[i], from, to, &e), e);
    }
}

/* All shards of one node are in open slots when the view changes, and while shards are loaded from there.
 * Requests do not fail before their deadline. */
static void test_reshard__that_is_under_way_when_the_view_changes_only_delays(void **state)
{
    (void)state;
    struct slots s;
    tell("TB.REBUILD " FILTER " HOLD");
    wait_for("job_step", "hold");
    traffic_begin(&t, &f, ROWS, WRITES_MAX);
    clock_sleep_us(200000);
    open_all(&s, 0, 1);
    tell("TB.CUTOVER " FILTER);
    wait_for("phase", "SWITCHED");
    clock_sleep_us(OPEN_US);
    close_all(&s, 0, 1);
    wait_for("job_step", "grace");
    tell("TB.FINISH " FILTER);
    wait_for("phase", "STEADY");
    traffic_end(&t);
    traffic_judge(&t, false);
}

/* View, mutex and record are in a slot that is moving: a driver's writes are complete, or wait. */
static void test_reshard__of_a_filters_own_keys_only_delays_its_job(void **state)
{
    (void)state;
    struct error e = {""};
    redisReply *r = client_command(&f.cluster.client[0], "CLUSTER KEYSLOT {" FILTER "}");
    struct slots s = {.count = 1};
    s.slot[0] = (unsigned)r->integer;
    freeReplyObject(r);
    unsigned from = temp_cluster_owner(&f.cluster, 0, s.slot[0]), to = (from + 1) % 3;
    traffic_begin(&t, &f, ROWS, WRITES_MAX);
    tell("TB.REBUILD " FILTER " HOLD");
    wait_for("phase", "BUILDING");
    enum err err = temp_cluster_open(&f.cluster, s.slot[0], from, to, &e);
    clock_sleep_us(1500000);
    if (err == ERR_OK)
        close_all(&s, from, to);
    wait_for("job_step", "hold");
    if (err == ERR_OK)
        err = temp_cluster_open(&f.cluster, s.slot[0], to, from, &e);
    (void)!client_ok(&f.client[0], &e, "TB.CUTOVER " FILTER); /* the command may have to wait for too long */
    clock_sleep_us(1500000);
    if (err == ERR_OK)
        close_all(&s, to, from);
    (void)!client_ok(&f.client[0], &e, "TB.CUTOVER " FILTER);
    wait_for("job_step", "grace");
    tell("TB.FINISH " FILTER);
    wait_for("job_state", "done");
    wait_for("phase", "STEADY");
    traffic_end(&t);
    must(err, e);
    traffic_judge(&t, false);
}

/* Half of a slot's keys are at each node, and it stays so for a while. */
static void test_reshard__that_stops_half_way_is_no_loss(void **state)
{
    (void)state;
    struct slots s;
    struct error e = {""};
    unsigned moved;
    traffic_begin(&t, &f, ROWS, WRITES_MAX);
    open_all(&s, 1, 2);
    for (unsigned i = 0; i < s.count; i += 2)
        must(temp_cluster_migrate(&f.cluster, s.slot[i], 1, 2, 64, &moved, &e), e);
    clock_sleep_us(2500000); /* so that the controller looks for lost shards meanwhile */
    char text[64];
    must(client_status(&f.client[0], FILTER, "state", text, sizeof(text), &e), e);
    assert_string_equal(text, "serving");
    close_all(&s, 1, 2);
    traffic_end(&t);
    traffic_judge(&t, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reshard__of_a_third_of_the_slots_in_each_phase_loses_nothing),
        cmocka_unit_test(test_reshard__while_views_change_loses_nothing),
        cmocka_unit_test(test_reshard__that_is_under_way_when_the_view_changes_only_delays),
        cmocka_unit_test(test_reshard__of_a_filters_own_keys_only_delays_its_job),
        cmocka_unit_test(test_reshard__that_stops_half_way_is_no_loss),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
